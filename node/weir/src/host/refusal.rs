// SPDX-License-Identifier: GPL-2.0-only
//! Causes for which a kernel does not take the module, told apart by what it shows.
//!
//! A kernel that demands a signature answers EKEYREJECTED, one in lockdown EPERM, as for modules
//! that are switched off; the files of the machine and the kernel's log tell the rest. In a
//! container neither lockdown nor Secure Boot has a file, so that the log decides there.

use super::requirements::lockdown_mode;
use super::system::System;
use kernel_image::Config;
use nix::errno::Errno;

/// Firmware's variable, four bytes of attributes before its one byte.
const SECURE_BOOT: &str =
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const UNTRUSTED: &str = "it is not signed with a key this kernel trusts";

/// Cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `kernel.modules_disabled` is set.
    ModulesDisabled,
    /// Secure Boot has the kernel demand a signature by an enrolled key.
    SecureBoot,
    /// Lockdown without Secure Boot demands a signature.
    Lockdown,
    /// The kernel is built for its vendor's modules alone.
    VendorSigned,
    /// `module.sig_enforce` is on.
    SignatureEnforced,
    /// The module was built for another kernel.
    OtherKernel,
    /// The module itself found a layout or function that it does not know.
    UnfitKernel,
    /// The process lacks the capability, or a security module forbids it.
    Forbidden,
    /// Any other error.
    Other,
}

impl Refusal {
    /// Finds the cause of `errno`. `log` has the lines that the attempt added, `boot_log` all there is.
    pub fn find_cause(system: &System, errno: Errno, log: &[String], boot_log: &str) -> Refusal {
        match errno {
            Errno::EKEYREJECTED | Errno::EKEYEXPIRED | Errno::ENOKEY => {
                match (is_secure_boot(system, boot_log), is_vendor_only(system)) {
                    (true, _) => Refusal::SecureBoot,
                    (false, true) => Refusal::VendorSigned,
                    (false, false) => Refusal::SignatureEnforced,
                }
            }
            Errno::EPERM => {
                let disabled = system.read_text("proc/sys/kernel/modules_disabled");
                let is_locked = lockdown_mode(system) != "none"
                    || log.iter().any(|line| line.contains("Lockdown: "));
                match (disabled.as_deref(), is_locked) {
                    (Some("1"), _) => Refusal::ModulesDisabled,
                    (_, true) if is_secure_boot(system, boot_log) => Refusal::SecureBoot,
                    (_, true) => Refusal::Lockdown,
                    _ => Refusal::Forbidden,
                }
            }
            Errno::EACCES => Refusal::Forbidden,
            _ if log.iter().any(|line| line.contains("refusing to load")) => Refusal::UnfitKernel,
            Errno::ENOEXEC => Refusal::OtherKernel,
            _ => Refusal::Other,
        }
    }

    /// The cause in one word, for programs.
    pub fn cause_word(self) -> &'static str {
        match self {
            Refusal::ModulesDisabled => "modules-disabled",
            Refusal::SecureBoot => "secure-boot",
            Refusal::Lockdown => "lockdown",
            Refusal::VendorSigned => "vendor-signed",
            Refusal::SignatureEnforced => "sig-enforce",
            Refusal::OtherKernel => "other-kernel",
            Refusal::UnfitKernel => "unfit-kernel",
            Refusal::Forbidden => "forbidden",
            Refusal::Other => "other",
        }
    }

    /// The cause and what to do, for people.
    pub fn cause_sentence(self) -> String {
        let untrusted = |why: &str| format!("{UNTRUSTED}, {why}");
        match self {
            Refusal::ModulesDisabled => {
                "modules are switched off (kernel.modules_disabled) until a reboot".into()
            }
            Refusal::SecureBoot => untrusted(
                "which Secure Boot demands: enrol DKMS's by `mokutil --import /var/lib/dkms/mok.pub`",
            ),
            Refusal::Lockdown => untrusted(
                "which the kernel's lockdown demands: sign the module, or boot without lockdown",
            ),
            Refusal::VendorSigned => untrusted(
                "and the kernel is built to take its vendor's alone (CONFIG_MODULE_SIG_FORCE): use stock mode",
            ),
            Refusal::SignatureEnforced => untrusted(
                "which module.sig_enforce demands: sign the module, or boot without that",
            ),
            Refusal::OtherKernel => {
                "it was built for another kernel, or is no module: rebuild it with `dkms autoinstall` or `make install`".into()
            }
            Refusal::UnfitKernel => {
                "it does not fit this kernel, in the words below; `weir doctor` tells more".into()
            }
            Refusal::Forbidden => {
                "this process may load none: it lacks CAP_SYS_MODULE, or SELinux or AppArmor forbids it".into()
            }
            Refusal::Other => "see the kernel's words below and `weir doctor`".into(),
        }
    }
}

fn is_secure_boot(system: &System, boot_log: &str) -> bool {
    let variable = system.read_text(SECURE_BOOT);
    variable.is_some_and(|bytes| bytes.ends_with('\u{1}'))
        || boot_log.contains("Kernel is locked down from EFI Secure Boot")
        || boot_log.contains("Secure boot enabled")
}

/// Returns whether the kernel was built to take signed modules alone, as far as its configuration
/// can be seen.
fn is_vendor_only(system: &System) -> bool {
    let packed = kernel_image::unpacked_module(&system.full_path("proc/config.gz")).ok();
    let text = packed.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.or_else(|| system.read_text(format!("boot/config-{}", system.release)));
    let config = text.and_then(|text| Config::read(&text));
    config.is_some_and(|config| config.has_option("CONFIG_MODULE_SIG_FORCE"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn put_file(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, text).expect("written");
    }

    fn cause_of(
        files: &[(&str, &str)],
        errno: Errno,
        log: &[&str],
        boot_log: &str,
    ) -> &'static str {
        let root = tempfile::tempdir().expect("made");
        put_file(root.path(), "proc/sys/kernel/modules_disabled", "0\n");
        for (file, text) in files {
            put_file(root.path(), file, text);
        }
        let log: Vec<String> = log.iter().map(|line| line.to_string()).collect();
        let system = System::at_root(root.path(), "6.12.1");
        Refusal::find_cause(&system, errno, &log, boot_log).cause_word()
    }

    #[test]
    fn each_cause_is_told_apart() {
        const LOCKED: (&str, &str) = (
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        const FORCED: (&str, &str) = (
            "boot/config-6.12.1",
            "# Linux/x86 6.12.1 Kernel Configuration\nCONFIG_MODULE_SIG_FORCE=y\n",
        );
        let secure = (SECURE_BOOT, "\u{6}\0\0\0\u{1}");
        let insecure = (SECURE_BOOT, "\u{6}\0\0\0\0");
        let none: &[(&str, &str)] = &[];
        for (files, errno, log, boot_log, expected) in [
            (none, Errno::EKEYREJECTED, &[][..], "", "sig-enforce"),
            (&[insecure], Errno::EKEYREJECTED, &[], "", "sig-enforce"),
            (&[FORCED], Errno::EKEYREJECTED, &[], "", "vendor-signed"),
            (
                &[FORCED, secure],
                Errno::EKEYREJECTED,
                &[],
                "",
                "secure-boot",
            ),
            (&[secure, LOCKED], Errno::EPERM, &[], "", "secure-boot"),
            (&[LOCKED], Errno::EPERM, &[], "", "lockdown"),
            (
                none,
                Errno::EPERM,
                &[
                    "Lockdown: weir: unsigned module loading is restricted; see man kernel_lockdown.7",
                ],
                "",
                "lockdown",
            ),
            (
                none,
                Errno::EPERM,
                &[
                    "Lockdown: weir: unsigned module loading is restricted; see man kernel_lockdown.7",
                ],
                "<5>[ 0.0] Kernel is locked down from EFI Secure Boot; see man kernel_lockdown.7\n",
                "secure-boot",
            ),
            (
                &[("proc/sys/kernel/modules_disabled", "1\n")],
                Errno::EPERM,
                &[],
                "",
                "modules-disabled",
            ),
            (none, Errno::EPERM, &[], "", "forbidden"),
            (none, Errno::ENOEXEC, &[], "", "other-kernel"),
            (
                none,
                Errno::EOPNOTSUPP,
                &["weir: refusing to load: this kernel has no struct wb_domain"],
                "",
                "unfit-kernel",
            ),
            (none, Errno::ENOMEM, &[], "", "other"),
        ] {
            assert_eq!(
                cause_of(files, errno, log, boot_log),
                expected,
                "{files:?} {errno}"
            );
        }
    }
}

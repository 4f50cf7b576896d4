// SPDX-License-Identifier: GPL-2.0-only
//! `weir load` and `weir unload`.
//!
//! The kernel answers a refused module with little more than an error number; the reason is in its
//! log. So the log is read from where it stood before, and the module's lines are shown.
//!
//! Parameters on the kernel command line (`weir.off`) are the business of the loader of a module,
//! not the kernel's; they are handed over as modprobe does.

use super::refusal::Refusal;
use super::system::System;
use crate::output;
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module, init_module};
use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Load the module into the running kernel
///
/// Nothing changes until a knob is set in some cgroup, as by `echo 64M >
/// /sys/fs/cgroup/user.slice/memory.dirty_bytes`: a ceiling, which paces writers from 3/4 of it on.
/// Exit status: 0 loaded (now or before), 1 the kernel or the module refused (its reason is printed),
/// 2 it could not be tried.
#[derive(clap::Args, Debug)]
pub struct LoadArgs {
    /// This module instead of the installed one
    #[arg(long, value_name = "PATH")]
    module: Option<PathBuf>,
    /// Count what each knob would have done, change nothing
    #[arg(long)]
    observe: bool,
    /// Give each cgroup that dirties pages a floor: its fair part of what floors may take
    #[arg(long)]
    fair: bool,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Unload the module; the kernel behaves as stock from then on
///
/// Knobs are forgotten. Exit status: 0 not loaded any more, 1 the kernel refused, 2 it could not be
/// tried.
#[derive(clap::Args, Debug)]
pub struct UnloadArgs {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Outcome of loading or unloading, for people and programs.
struct ModuleOutcome {
    done: bool,
    message: String,
    /// Cause for which the kernel or the module refused.
    cause: Option<Refusal>,
    /// Lines that the module wrote to the kernel log.
    log: Vec<String>,
}

impl ModuleOutcome {
    /// There was nothing to do.
    fn already_done(message: String) -> ModuleOutcome {
        ModuleOutcome {
            done: true,
            message,
            cause: None,
            log: Vec::new(),
        }
    }

    fn print_outcome(self, json: bool) -> Result<ExitCode> {
        if json {
            let object = serde_json::json!({"done": self.done, "message": self.message,
                "reason": self.cause.map(Refusal::cause_word), "log": self.log});
            output::print_json(&object)?;
        } else if self.done {
            output::print_line(&self.message)?;
        } else {
            output::print_note(format_args!("weir: {}", self.message));
            self.log
                .iter()
                .for_each(|line| output::print_note(format_args!("  kernel: {line}")));
        }
        Ok(ExitCode::from(u8::from(!self.done)))
    }
}

/// Runs `weir load`.
pub fn load(args: &LoadArgs) -> Result<ExitCode> {
    let system = System::this_machine()?;
    if system.path_exists("sys/module/weir") {
        let message = format!("weir is loaded already ({})", module_state(&system));
        return ModuleOutcome::already_done(message).print_outcome(args.json);
    }
    if !system.is_root {
        bail!("loading a module takes root: sudo weir load");
    }
    let path = match &args.module {
        Some(path) => path.clone(),
        None => system.installed_module().or_else(|| system.guest_module()).with_context(|| {
            format!(
                "there is no weir.ko for Linux {0} in /lib/modules/{0}/updates: install weir-dkms and this kernel's headers, or run `make install` in weir's source tree; `weir doctor` says whether this kernel can have one; --module names another",
                system.release
            )
        })?,
    };
    let mut log = KernelLog::from_now();
    let mut parameters =
        parameters_of_command_line(&system.read_text("proc/cmdline").unwrap_or_default());
    if args.observe {
        parameters.push("observe=1".into());
    }
    if args.fair {
        parameters.push("fair=1".into());
    }
    let parameters = CString::new(parameters.join(" "))?;
    if let Err(errno) = insert_module(&path, &parameters)? {
        let lines = log.new_weir_lines();
        let boot_log = read_ring().unwrap_or_default();
        let cause = Refusal::find_cause(&system, errno, &lines, &boot_log);
        let outcome = ModuleOutcome {
            done: false,
            message: explain_refusal(&path, errno, cause),
            cause: Some(cause),
            log: lines,
        };
        return outcome.print_outcome(args.json);
    }
    let state = module_state(&system);
    let message = if args.fair {
        format!(
            "weir is loaded ({state}). Each cgroup that dirties pages has its fair part as a floor."
        )
    } else {
        format!(
            "weir is loaded ({state}). It does nothing until a knob is set, for example:\n  echo 64M > /sys/fs/cgroup/NAME/memory.dirty_min"
        )
    };
    ModuleOutcome {
        done: state != "unknown",
        message,
        cause: None,
        log: log.new_weir_lines(),
    }
    .print_outcome(args.json)
}

/// Runs `weir unload`.
pub fn unload_module(args: &UnloadArgs) -> Result<ExitCode> {
    let system = System::this_machine()?;
    if !system.path_exists("sys/module/weir") {
        return ModuleOutcome::already_done("weir is not loaded".into()).print_outcome(args.json);
    }
    if !system.is_root {
        bail!("unloading a module takes root: sudo weir unload");
    }
    let mut log = KernelLog::from_now();
    let (done, message) = match delete_module(c"weir", DeleteModuleFlags::O_NONBLOCK) {
        Ok(()) => (
            true,
            "weir is unloaded: the kernel behaves as stock, the knobs are forgotten".into(),
        ),
        Err(Errno::EWOULDBLOCK) => (
            false,
            "weir is in use, something holds a reference to it: see `lsmod`".into(),
        ),
        Err(Errno::EBUSY) => (false, "another process is loading or unloading weir".into()),
        Err(errno) => (false, format!("the kernel refused to unload weir: {errno}")),
    };
    ModuleOutcome {
        done,
        message,
        cause: None,
        log: log.new_weir_lines(),
    }
    .print_outcome(args.json)
}

fn module_state(system: &System) -> String {
    system
        .read_text("sys/kernel/weir/state")
        .unwrap_or_else(|| "unknown".into())
}

/// The module's parameters on the kernel command line.
fn parameters_of_command_line(line: &str) -> Vec<String> {
    line.split_whitespace()
        .filter_map(|word| word.strip_prefix("weir."))
        .map(str::to_string)
        .collect()
}

/// Hands the module to the kernel, decompressed first if need be: DKMS compresses with xz's default
/// checksum, CRC64, which the kernel's own decompressor refuses.
fn insert_module(path: &Path, parameters: &CStr) -> Result<nix::Result<()>> {
    if path.extension().is_some_and(|end| end == "ko") {
        let file = File::open(path)
            .with_context(|| format!("cannot open the module {}", path.display()))?;
        return Ok(finit_module(&file, parameters, ModuleInitFlags::empty()));
    }
    Ok(init_module(
        &kernel_image::unpacked_module(path)?,
        parameters,
    ))
}

fn explain_refusal(path: &Path, errno: Errno, cause: Refusal) -> String {
    format!(
        "the kernel refused {}: {}; {}",
        path.display(),
        errno.desc(),
        cause.cause_sentence()
    )
}

/// The kernel log from a moment on.
pub(super) enum KernelLog {
    /// `/dev/kmsg`, read up to that moment.
    Device(File),
    /// A container has no such device, and may have the capability for the system call: the log as
    /// it was.
    Ring(String),
    /// The log cannot be read. Then there is nothing to show: the outcome does not depend on it.
    Hidden,
}

impl KernelLog {
    pub(super) fn from_now() -> KernelLog {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open("/dev/kmsg");
        match file.and_then(|mut f| f.seek(SeekFrom::End(0)).map(|_| f)) {
            Ok(file) => KernelLog::Device(file),
            Err(_) => read_ring().map_or(KernelLog::Hidden, KernelLog::Ring),
        }
    }

    /// The module's own lines, and what the kernel said about it.
    pub(super) fn new_weir_lines(&mut self) -> Vec<String> {
        match self {
            KernelLog::Device(file) => read_records(file),
            KernelLog::Ring(before) => weir_lines_since(before, &read_ring().unwrap_or_default()),
            KernelLog::Hidden => Vec::new(),
        }
    }
}

fn read_records(file: &mut File) -> Vec<String> {
    let mut lines = Vec::new();
    let mut record = [0; 8192];
    loop {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => lines.extend(weir_message_of_record(&String::from_utf8_lossy(
                &record[..length],
            ))),
            // EPIPE: records were overwritten before they could be read; go on with the oldest
            // there is.
            Err(why) if why.raw_os_error() == Some(nix::libc::EPIPE) => {}
            Err(_) => break,
        }
    }
    lines
}

/// The whole log as syslog(2) has it, `<6>[   12.345678] TEXT` in each line.
fn read_ring() -> Option<String> {
    const SYSLOG_ACTION_READ_ALL: i32 = 3;
    const SYSLOG_ACTION_SIZE_BUFFER: i32 = 10;
    // SAFETY: this action takes no buffer.
    let size = unsafe { nix::libc::klogctl(SYSLOG_ACTION_SIZE_BUFFER, std::ptr::null_mut(), 0) };
    let mut text = vec![0u8; usize::try_from(size).ok()?];
    // SAFETY: the buffer has `size` bytes, and outlives the call.
    let length =
        unsafe { nix::libc::klogctl(SYSLOG_ACTION_READ_ALL, text.as_mut_ptr().cast(), size) };
    text.truncate(usize::try_from(length).ok()?);
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The lines about weir that came after those of `before`, of which the oldest may be gone.
fn weir_lines_since(before: &str, now: &str) -> Vec<String> {
    let last = before.lines().next_back();
    let seen = last.and_then(|last| now.rfind(last).map(|at| at + last.len()));
    now[seen.unwrap_or(0)..]
        .lines()
        .filter(|line| line.contains("weir"))
        .map(|line| line.split_once("] ").map_or(line, |(_, text)| text).into())
        .collect()
}

/// The text of a /dev/kmsg record (`PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`), if it is about weir.
fn weir_message_of_record(record: &str) -> Option<String> {
    let text = record.split_once(';')?.1.lines().next()?;
    text.contains("weir").then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_modules_records_are_shown() {
        assert_eq!(
            weir_message_of_record("3,512,1000,-;weir: refusing to load: no BTF\n SUBSYSTEM=x\n"),
            Some("weir: refusing to load: no BTF".into())
        );
        assert_eq!(weir_message_of_record("6,513,1000,-;eth0: link up\n"), None);
        assert_eq!(weir_message_of_record("garbage"), None);
    }

    #[test]
    fn lines_of_the_ring_are_those_after_the_ones_before() {
        let before = "<6>[    1.0] a\n<6>[    2.0] weir: old\n<6>[    3.0] b\n";
        let grown = format!("{before}<3>[    4.0] weir: no BTF\n<6>[    5.0] c\n");
        assert_eq!(weir_lines_since(before, &grown), ["weir: no BTF"]);
        assert_eq!(weir_lines_since(before, before), Vec::<String>::new());
        // The oldest were overwritten.
        let moved = "<6>[    3.0] b\n<3>[    4.0] weir: no BTF\n";
        assert_eq!(weir_lines_since(before, moved), ["weir: no BTF"]);
        assert_eq!(
            weir_lines_since("", "<3>weir: without a time\n"),
            ["<3>weir: without a time"]
        );
    }

    #[test]
    fn parameters_come_from_the_kernel_command_line() {
        assert_eq!(
            parameters_of_command_line(
                "ro quiet weir.off root=/dev/vda weir.observe=1 weird.x=1\n"
            ),
            ["off", "observe=1"]
        );
    }

    #[test]
    fn refusals_say_what_to_do() {
        let path = Path::new("/m/weir.ko");
        assert_eq!(
            explain_refusal(path, Errno::ENOEXEC, Refusal::OtherKernel),
            "the kernel refused /m/weir.ko: Exec format error; it was built for another kernel, or is no module: rebuild it with `dkms autoinstall` or `make install`"
        );
        assert_eq!(
            explain_refusal(path, Errno::ENOENT, Refusal::Other),
            "the kernel refused /m/weir.ko: No such file or directory; see the kernel's words below and `weir doctor`"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Finding the kernel a guest boots: a Debian package, a debug kernel, or a path.
//!
//! `debian:6.12` is the newest 6.12 kernel of the archive in the cloud flavour,
//! `debian:6.12:generic` the one for real hardware, `debian:6.12:rt` the same with PREEMPT_RT, each
//! with `:arm64` behind it that of the other architecture, `debian:7.2.13+deb14-cloud-amd64` the one
//! with that release: [`debian`].

use crate::arch::Arch;
use crate::cache::Cache;
use crate::debian;
use crate::debug_kernel::{self, Kind};
use crate::kernel::{Kernel, open_kernel_at};
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The kernel that `--kernel` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelSpec {
    /// The newest kernel of a series from Debian's archive.
    Debian {
        /// The series, as in `6.12`.
        series: String,
        /// `cloud`, `generic` or `rt`.
        flavour: String,
        /// Its architecture, as in `arm64`; this machine's if it is not said.
        arch: Arch,
    },
    /// A kernel of Debian's archive by what `uname -r` says in it.
    Exact {
        /// The release, as in `7.2.13+deb14-cloud-amd64`.
        release: String,
        /// The architecture that the release ends with.
        arch: Arch,
    },
    /// One that `make debug-kernel` built.
    Debug(Kind),
    /// A vmlinuz with a modules directory beside it, or the root of an unpacked package.
    Path(PathBuf),
}

impl FromStr for KernelSpec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<KernelSpec> {
        if let Some(rest) = text.strip_prefix("debian:") {
            if let Some((_, _, arch)) = debian::release_parts(rest) {
                return Ok(KernelSpec::Exact {
                    release: rest.to_owned(),
                    arch,
                });
            }
            let named = |arch: &Arch| rest.strip_suffix(arch.debian_name())?.strip_suffix(':');
            let all = [Arch::HERE].into_iter().chain(Arch::OTHERS);
            let (rest, arch) = all
                .filter_map(|arch| Some((named(&arch)?, arch)))
                .next()
                .unwrap_or((rest, Arch::HERE));
            let (series, flavour) = rest.split_once(':').unwrap_or((rest, "cloud"));
            let is_series = matches!(series.split_once('.'), Some((a, b)) if a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok());
            ensure!(
                is_series,
                "kernel `{text}`: `{series}` is not a kernel series like 6.12 or 6.1"
            );
            ensure!(
                debian::flavour_suffix(flavour, arch).is_some(),
                "kernel `{text}`: unknown flavour `{flavour}`, known: {}",
                debian::flavour_names(arch)
            );
            return Ok(KernelSpec::Debian {
                series: series.to_owned(),
                flavour: flavour.to_owned(),
                arch,
            });
        }
        if let Some(kind) = Kind::ALL
            .into_iter()
            .find(|kind| kind.kernel_name() == text)
        {
            return Ok(KernelSpec::Debug(kind));
        }
        if Path::new(text).exists() {
            return Ok(KernelSpec::Path(PathBuf::from(text)));
        }
        bail!(
            "kernel `{text}`: neither a file nor a kernel the lab can fetch; \
             write debian:6.12, debian:7.3:generic, debian:6.12:arm64 (`weir kernels` lists them), debug, \
             debug-kcsan, or the path of a vmlinuz"
        )
    }
}

impl KernelSpec {
    /// The architecture of the guest; a path is of a kernel for this machine.
    pub fn arch(&self) -> Arch {
        match self {
            KernelSpec::Debian { arch, .. } | KernelSpec::Exact { arch, .. } => *arch,
            KernelSpec::Debug(_) | KernelSpec::Path(_) => Arch::HERE,
        }
    }
}

impl Kernel {
    /// Finds the kernel, fetching it if necessary.
    pub fn get(cache: &Cache, spec: &KernelSpec) -> Result<Kernel> {
        match spec {
            KernelSpec::Debian {
                series,
                flavour,
                arch,
            } => debian::fetch_newest(cache, series, flavour, *arch),
            KernelSpec::Exact { release, arch } => debian::fetch_exact(cache, release, *arch),
            KernelSpec::Debug(kind) => debug_kernel::built_kernel(cache, *kind),
            KernelSpec::Path(path) => open_kernel_at(path),
        }
    }

    /// Is it a debug kernel, many times slower than others?
    pub(crate) fn is_instrumented(&self) -> bool {
        Kind::ALL
            .iter()
            .any(|kind| self.release.ends_with(kind.localversion()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read() {
        let debian = |series: &str, flavour: &str| KernelSpec::Debian {
            series: series.into(),
            flavour: flavour.into(),
            arch: Arch::Amd64,
        };
        assert_eq!(
            "debian:6.12".parse::<KernelSpec>().unwrap(),
            debian("6.12", "cloud")
        );
        assert_eq!(
            "debian:6.12:generic".parse::<KernelSpec>().unwrap(),
            debian("6.12", "generic")
        );
        assert_eq!(
            "debian:6.1:rt".parse::<KernelSpec>().unwrap(),
            debian("6.1", "rt")
        );
        for text in ["debian:7.3:arm64", "debian:7.3:cloud:arm64"] {
            assert_eq!(
                text.parse::<KernelSpec>().unwrap(),
                KernelSpec::Debian {
                    series: "7.3".into(),
                    flavour: "cloud".into(),
                    arch: Arch::Arm64,
                }
            );
        }
        assert_eq!(
            "debian:6.12:16k:arm64".parse::<KernelSpec>().unwrap(),
            KernelSpec::Debian {
                series: "6.12".into(),
                flavour: "16k".into(),
                arch: Arch::Arm64,
            }
        );
        assert_eq!(
            "debian:6.12:amd64".parse::<KernelSpec>().unwrap(),
            debian("6.12", "cloud")
        );
        assert_eq!(
            "debian:7.2.13+deb14-cloud-arm64"
                .parse::<KernelSpec>()
                .unwrap(),
            KernelSpec::Exact {
                release: "7.2.13+deb14-cloud-arm64".into(),
                arch: Arch::Arm64,
            }
        );
        assert_eq!(
            "debug".parse::<KernelSpec>().unwrap(),
            KernelSpec::Debug(Kind::Kasan)
        );
        assert_eq!(
            "debug-kcsan".parse::<KernelSpec>().unwrap(),
            KernelSpec::Debug(Kind::Kcsan)
        );
        assert_eq!(
            "/".parse::<KernelSpec>().unwrap(),
            KernelSpec::Path("/".into())
        );
    }

    #[test]
    fn bad_specs_say_what_would_be_right() {
        let error = |text: &str| text.parse::<KernelSpec>().unwrap_err().to_string();
        assert_eq!(
            error("debian:six"),
            "kernel `debian:six`: `six` is not a kernel series like 6.12 or 6.1"
        );
        assert_eq!(
            error("debian:6.12:arm"),
            "kernel `debian:6.12:arm`: unknown flavour `arm`, known: cloud, generic, rt"
        );
        assert_eq!(
            error("debian:6.12:16k"),
            "kernel `debian:6.12:16k`: unknown flavour `16k`, known: cloud, generic, rt"
        );
        assert_eq!(
            error("debian:6.12:arm:arm64"),
            "kernel `debian:6.12:arm:arm64`: unknown flavour `arm`, known: 16k, cloud, generic, rt"
        );
        assert!(error("fedora:40").contains(
            "write debian:6.12, debian:7.3:generic, debian:6.12:arm64 (`weir kernels` lists them), debug, \
             debug-kcsan, or the path of a vmlinuz"
        ));
    }
}

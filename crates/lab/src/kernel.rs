// SPDX-License-Identifier: GPL-2.0-only
//! Finding the kernel a guest boots: a Debian package, a debug kernel, or a path.
//!
//! `debian:6.12` is the newest 6.12 kernel of the archive in the cloud flavour,
//! `debian:6.12:generic` the one for real hardware, `debian:6.12:rt` the same with PREEMPT_RT.
//! Image, modules and headers are unpacked side by side; the headers packages expect to lie under
//! /usr, so the few absolute paths in them are turned to the cache.

use crate::apt::Apt;
use crate::cache::Cache;
use crate::debug_kernel::{self, Kind};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Debian's flavours, and what the names of their packages end with.
const FLAVOURS: &[(&str, &str)] = &[
    ("cloud", "cloud-amd64"),
    ("generic", "amd64"),
    ("rt", "rt-amd64"),
];

/// What `--kernel` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelSpec {
    /// The newest kernel of a series from Debian's archive.
    Debian {
        /// The series, as in `6.12`.
        series: String,
        /// One of [`FLAVOURS`].
        flavour: String,
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
            let (series, flavour) = rest.split_once(':').unwrap_or((rest, "cloud"));
            let is_series = matches!(series.split_once('.'), Some((a, b)) if a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok());
            ensure!(
                is_series,
                "kernel `{text}`: `{series}` is not a kernel series like 6.12 or 6.1"
            );
            ensure!(
                suffix(flavour).is_some(),
                "kernel `{text}`: unknown flavour `{flavour}`, known: {}",
                flavours()
            );
            return Ok(KernelSpec::Debian {
                series: series.to_owned(),
                flavour: flavour.to_owned(),
            });
        }
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.kernel() == text) {
            return Ok(KernelSpec::Debug(kind));
        }
        if Path::new(text).exists() {
            return Ok(KernelSpec::Path(PathBuf::from(text)));
        }
        bail!(
            "kernel `{text}`: neither a file nor a kernel the lab can fetch; \
             write debian:6.12, debian:6.1, debian:6.12:generic, debian:6.12:rt, debug, debug-kcsan, \
             or the path of a vmlinuz"
        )
    }
}

/// What the names of a flavour's packages end with; `None` for a flavour that Debian does not have.
fn suffix(flavour: &str) -> Option<&'static str> {
    let known = FLAVOURS.iter().find(|(name, _)| *name == flavour);
    known.map(|(_, suffix)| *suffix)
}

fn flavours() -> String {
    let names: Vec<_> = FLAVOURS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// A kernel that is there, ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Release of the kernel (`uname -r`).
    pub release: String,
    /// The bootable image.
    pub image: PathBuf,
    /// The folder `lib/modules/<release>`.
    pub modules: PathBuf,
    /// A tree that out-of-tree modules are built against, if there is one.
    pub headers: Option<PathBuf>,
}

impl Kernel {
    /// Finds the kernel, fetching it if necessary.
    pub fn get(cache: &Cache, spec: &KernelSpec) -> Result<Kernel> {
        match spec {
            KernelSpec::Debian { series, flavour } => debian(cache, series, flavour),
            KernelSpec::Debug(kind) => debug_kernel::built(cache, *kind),
            KernelSpec::Path(path) => at_path(path),
        }
    }

    /// Is it a debug kernel, many times slower than others?
    pub(crate) fn is_instrumented(&self) -> bool {
        Kind::ALL
            .iter()
            .any(|kind| self.release.ends_with(kind.localversion()))
    }
}

fn debian(cache: &Cache, series: &str, flavour: &str) -> Result<Kernel> {
    let apt = Apt::open(cache)?;
    let suffix = suffix(flavour).with_context(|| format!("unknown flavour `{flavour}`"))?;
    let pattern = format!(
        r"^linux-image-{}\.[0-9.]+[-+][a-z0-9]+-{suffix}-unsigned$",
        series.replace('.', r"\.")
    );
    let newest = apt
        .names(&pattern)?
        .into_iter()
        .max_by_key(|name| version_key(name))
        .with_context(|| {
            format!("this host's Debian mirrors have no {series} kernel in the flavour {flavour}; Debian 12 has 6.1, and its security archive 6.12: is there a `debian-security` mirror among this host's apt sources?")
        })?;
    let release = newest
        .trim_start_matches("linux-image-")
        .trim_end_matches("-unsigned")
        .to_owned();
    let headers = format!("linux-headers-{release}");
    let root = cache.directory(&format!("kernels/{release}"), |into| {
        let parts = apt.depends(&headers)?;
        let parts = parts.iter().map(String::as_str).filter(|name| {
            // PREEMPT_RT kernels have common headers of their own.
            name.ends_with("-common")
                || name.ends_with("-common-rt")
                || name.starts_with("linux-kbuild-")
        });
        apt.unpack(parts.chain([newest.as_str(), headers.as_str()]), into)
            .with_context(|| format!("the kernel {release}"))
    })?;
    let headers = root.join("usr/src").join(&headers);
    relocate(&headers, &root)?;
    Ok(Kernel {
        image: root.join(format!("boot/vmlinuz-{release}")),
        modules: root.join("lib/modules").join(&release),
        headers: Some(headers),
        release,
    })
}

/// The headers' top Makefile includes another one by its absolute path under /usr.
fn relocate(headers: &Path, root: &Path) -> Result<()> {
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).with_context(|| format!("{}", makefile.display()))?;
    let Some(included) = text
        .strip_prefix("include ")
        .and_then(|rest| rest.find("/usr/src/").map(|at| rest[at..].trim()))
    else {
        bail!(
            "{}: not the Makefile of a Debian headers package: {}",
            makefile.display(),
            text.trim()
        );
    };
    let relocated = format!("include {}{included}\n", root.display());
    // A build against them meanwhile must not find it half written.
    if relocated == text {
        return Ok(());
    }
    fs::write(&makefile, relocated).with_context(|| format!("{}", makefile.display()))
}

/// The numbers in a package name, in order: 6.12.117 is newer than 6.12.99, ABI 56 newer than 9.
fn version_key(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

pub(crate) fn at_path(path: &Path) -> Result<Kernel> {
    let path = path
        .canonicalize()
        .with_context(|| format!("kernel {}", path.display()))?;
    let (image, root) = if path.is_dir() {
        let image = fs::read_dir(path.join("boot"))
            .with_context(|| {
                format!(
                    "kernel {}: a directory must hold boot/vmlinuz-*",
                    path.display()
                )
            })?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .find(|file| {
                file.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
            })
            .with_context(|| format!("kernel {}: no boot/vmlinuz-* in it", path.display()))?;
        (image, path.clone())
    } else {
        let beside = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        let root = if beside.join("lib/modules").is_dir() {
            beside
        } else {
            beside.join("..")
        };
        (path.clone(), root)
    };
    let all = root.join("lib/modules");
    let name = image
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let release = match name
        .strip_prefix("vmlinuz-")
        .filter(|release| all.join(release).is_dir())
    {
        Some(release) => release.to_owned(),
        None => only_entry(&all).with_context(|| {
            format!(
                "kernel {}: which modules belong to it? Put lib/modules/RELEASE beside it",
                path.display()
            )
        })?,
    };
    let modules = all.join(&release);
    let build = [
        modules.join("build"),
        root.join("usr/src")
            .join(format!("linux-headers-{release}")),
    ];
    Ok(Kernel {
        headers: build
            .into_iter()
            .find(|path| path.join("Makefile").is_file()),
        release,
        image,
        modules,
    })
}

fn only_entry(directory: &Path) -> Result<String> {
    let names: Vec<_> = fs::read_dir(directory)
        .with_context(|| format!("{}", directory.display()))?
        .filter_map(|entry| {
            entry
                .ok()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
        })
        .collect();
    match names.as_slice() {
        [name] => Ok(name.clone()),
        _ => bail!("{}: {} entries, not one", directory.display(), names.len()),
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
        assert!(error("fedora:40").contains(
            "write debian:6.12, debian:6.1, debian:6.12:generic, debian:6.12:rt, debug, debug-kcsan, \
             or the path of a vmlinuz"
        ));
    }

    #[test]
    fn the_newest_is_found_by_number() {
        let mut names = [
            "linux-image-6.12.99+deb12-cloud-amd64-unsigned",
            "linux-image-6.12.117+deb12-cloud-amd64-unsigned",
        ];
        names.sort_by_key(|name| version_key(name));
        assert!(names[1].contains("117"));
        assert!(
            version_key("linux-image-6.1.0-56-cloud-amd64")
                > version_key("linux-image-6.1.0-9-cloud-amd64")
        );
    }
}

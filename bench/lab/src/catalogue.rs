// SPDX-License-Identifier: GPL-2.0-only
//! Every kernel image that Debian's archive holds, for who wants to ask what it says of itself.
//!
//! More than can be booted: archives keep signed images of older versions without headers, and
//! hosts run them. Of each release it is the package that holds the image, the signed one if there
//! is one: the kernel is the same.

use crate::apt::{Apt, Place};
use crate::arch::Arch;
use crate::cache::Cache;
use crate::debian::{all_releases, version_key};
use anyhow::{Context, Result};
use kernel_image::KernelFile;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;

/// Names of images before their release, the first that there is being taken. A `linux-image-R` is
/// empty where there is a `linux-binary-R`.
const PACKAGES: [(&str, &str); 4] = [
    ("linux-binary-", ""),
    ("linux-binary-unsigned-", ""),
    ("linux-image-", ""),
    ("linux-image-", "-unsigned"),
];

/// An image in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InArchive {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The series, as in `6.12`.
    pub series: String,
    /// The flavour: what stands before and after the architecture, `generic` if nothing does.
    pub flavour: String,
    /// The architecture that the kernel is for.
    pub arch: Arch,
    /// The package that holds it.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// Every suite that has this release.
    pub suites: Vec<String>,
    /// Number of the distribution's release, in the order they are asked.
    from: usize,
}

/// All of them, newest first; the lists of every release are fetched if they are old.
pub fn read_catalogue(cache: &Cache) -> Result<Vec<InArchive>> {
    let mut all: BTreeMap<String, InArchive> = BTreeMap::new();
    for (from, release) in all_releases().enumerate() {
        for arch in [Arch::HERE].into_iter().chain(Arch::OTHERS) {
            let apt = Apt::set_up(cache, release, arch)?;
            let arch_name = arch.debian_name();
            let names = apt.package_names(&format!(
                r"^linux-(image|binary|binary-unsigned)-[0-9]+\.[0-9]+\.[0-9][-+a-z0-9.]*-{arch_name}(-[0-9]+k)?(-unsigned)?$"
            ))?;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for one in pick_images(&apt.find_places(&names)?, arch, from) {
                let known = all
                    .entry(one.release.clone())
                    .or_insert_with(|| one.clone());
                for suite in one.suites {
                    if !known.suites.contains(&suite) {
                        known.suites.push(suite);
                    }
                }
            }
        }
    }
    let mut all: Vec<InArchive> = all.into_values().collect();
    all.sort_by_key(|one| Reverse((version_key(&one.release), one.release.clone())));
    Ok(all)
}

/// One image for each release among the packages.
fn pick_images(places: &[Place], arch: Arch, from: usize) -> Vec<InArchive> {
    let mut found: BTreeMap<&str, (usize, &Place, Vec<String>)> = BTreeMap::new();
    for place in places {
        let Some((rank, release)) = release_of(&place.package) else {
            continue;
        };
        let best = found.entry(release).or_insert((rank, place, Vec::new()));
        if rank < best.0 {
            (best.0, best.1) = (rank, place);
        }
        if !best.2.contains(&place.suite) {
            best.2.push(place.suite.clone());
        }
    }
    let one = |(release, (_, place, suites)): (&str, (usize, &Place, Vec<String>))| {
        let series: Vec<&str> = release.splitn(3, '.').take(2).collect();
        Some(InArchive {
            release: release.to_owned(),
            series: series.join("."),
            flavour: flavour_of(release, arch)?,
            arch,
            package: place.package.clone(),
            version: place.version.clone(),
            suites,
            from,
        })
    };
    found.into_iter().filter_map(one).collect()
}

/// The release in a package's name, and how good the package is: 0 is best.
fn release_of(package: &str) -> Option<(usize, &str)> {
    PACKAGES
        .iter()
        .enumerate()
        .filter_map(|(rank, (before, after))| {
            let release = package.strip_prefix(before)?.strip_suffix(after)?;
            let is_it = release.starts_with(|c: char| c.is_ascii_digit())
                && (!after.is_empty() || !release.ends_with("-unsigned"));
            is_it.then_some((rank, release))
        })
        .next()
}

/// The words of a release around its architecture: `cloud` of `-cloud-arm64`, `16k` of
/// `-arm64-16k`.
fn flavour_of(release: &str, arch: Arch) -> Option<String> {
    let (before, after) = release.rsplit_once(&format!("-{}", arch.debian_name()))?;
    let before = ["cloud", "rt"]
        .into_iter()
        .find(|name| before.ends_with(&format!("-{name}")));
    let parts: Vec<&str> = before.into_iter().chain(after.strip_prefix('-')).collect();
    Some(match parts.is_empty() {
        true => "generic".to_owned(),
        false => parts.join("-"),
    })
}

impl InArchive {
    /// Of these, the newest of each series, flavour and architecture in each release of the
    /// distribution.
    pub fn newest_of_each(all: &[InArchive]) -> Vec<InArchive> {
        let mut newest: BTreeMap<_, &InArchive> = BTreeMap::new();
        for one in all {
            let key = (one.from, &one.series, &one.flavour, one.arch.debian_name());
            let best = newest.entry(key).or_insert(one);
            if version_key(&one.release) > version_key(&best.release) {
                *best = one;
            }
        }
        all.iter()
            .filter(|one| newest.values().any(|other| other == one))
            .cloned()
            .collect()
    }

    /// Fetches and verifies the package, reads the kernel in it, and keeps neither.
    pub fn read(&self, cache: &Cache) -> Result<KernelFile> {
        let from = all_releases().nth(self.from).context("a release")?;
        let apt = Apt::set_up(cache, from, self.arch)?;
        let wanted = format!("{}={}", self.package, self.version);
        let directory = apt.download_packages([wanted.as_str()])?;
        let file = fs::read_dir(directory.path())?
            .next()
            .with_context(|| format!("{wanted}: nothing was downloaded"))??;
        KernelFile::open(&file.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(package: &str, suite: &str) -> Place {
        Place {
            package: package.to_owned(),
            version: "1".to_owned(),
            suite: suite.to_owned(),
        }
    }

    #[test]
    fn the_package_that_holds_the_image_is_taken() {
        let places = [
            place("linux-image-6.1.0-47-amd64-unsigned", "bookworm"),
            place("linux-image-6.1.0-47-amd64", "bookworm"),
            place("linux-image-6.1.0-47-amd64", "bookworm-security"),
            place("linux-image-7.3.4+deb13-rt-amd64", "trixie-backports"),
            place(
                "linux-binary-unsigned-7.3.4+deb13-rt-amd64",
                "trixie-backports",
            ),
            place("linux-binary-7.3.4+deb13-rt-amd64", "trixie-backports"),
        ];
        let found: Vec<_> = pick_images(&places, Arch::Amd64, 0)
            .into_iter()
            .map(|one| (one.package, one.flavour, one.suites.join(" ")))
            .collect();
        let wanted = [
            (
                "linux-image-6.1.0-47-amd64",
                "generic",
                "bookworm bookworm-security",
            ),
            (
                "linux-binary-7.3.4+deb13-rt-amd64",
                "rt",
                "trixie-backports",
            ),
        ];
        let wanted = wanted.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(found, wanted);
    }

    #[test]
    fn flavours_stand_around_the_architecture() {
        for (release, is) in [
            ("6.12.118+deb13-arm64-16k", "16k"),
            ("7.3.4+deb13-cloud-arm64", "cloud"),
            ("7.3.4+deb13-arm64", "generic"),
        ] {
            assert_eq!(flavour_of(release, Arch::Arm64).as_deref(), Some(is));
        }
        assert_eq!(flavour_of("6.1.0-47-amd64", Arch::Arm64), None);
    }

    #[test]
    fn the_newest_of_each_is_found() {
        let names = [
            "7.2.9+deb13-amd64",
            "7.2.12+deb13-amd64",
            "7.2.12+deb13-rt-amd64",
        ];
        let places = names.map(|name| place(&format!("linux-binary-{name}"), "s"));
        let all = pick_images(&places, Arch::Amd64, 0);
        let newest: Vec<_> = InArchive::newest_of_each(&all)
            .into_iter()
            .map(|one| one.release)
            .collect();
        assert_eq!(newest, ["7.2.12+deb13-amd64", "7.2.12+deb13-rt-amd64"]);
    }
}

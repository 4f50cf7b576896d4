// SPDX-License-Identifier: GPL-2.0-only
//! Kernels of Debian's archive: which there are, and how their packages are unpacked.
//!
//! A series is looked for in the release that guests are made of, then in its backports and newer
//! releases, in the order of [`NEWER`]. The first that has it gives its newest, so a kernel comes
//! from the release that supports it longest, and no lists are fetched that are not needed. One
//! that a later release has newer is asked for by what `uname -r` says in it.
//!
//! Packages have two layouts. Up to 6.18, `linux-image-R-unsigned` holds `boot/vmlinuz-R` and
//! `lib/modules/R`. Since then these are in `linux-binary-unsigned-R` and `linux-modules-R`, both
//! below `usr/lib/modules/R` (the image as `vmlinuz.unsigned`), and `linux-image-R` is empty. Debian
//! 13's own 6.12 is in between: its image in `boot`, its modules below `usr`.
//! Headers are as before: image, modules and headers are unpacked side by side, and the one
//! absolute path in the headers is turned to the cache.

use crate::apt::{Apt, BASE, BASE_WITH_BACKPORTS, NEWER, Release};
use crate::arch::Arch;
use crate::cache::Cache;
use crate::kernel::Kernel;
use crate::toolchain;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Debian's flavours, by name, and what the names of their packages have before and behind the
/// architecture. That of 16 KiB pages is for arm64 alone.
const FLAVOURS: &[(&str, &str, &str)] = &[
    ("16k", "", "-16k"),
    ("cloud", "cloud-", ""),
    ("generic", "", ""),
    ("rt", "rt-", ""),
];

fn flavours_of(
    arch: Arch,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    let has = move |name: &str| name != "16k" || arch == Arch::Arm64;
    FLAVOURS.iter().filter(move |(name, ..)| has(name))
}

/// All releases, in the order they are asked for a kernel.
pub(crate) fn all_releases() -> impl Iterator<Item = &'static Release> {
    [&BASE, &BASE_WITH_BACKPORTS].into_iter().chain(NEWER)
}

/// The end of the names of a flavour's packages; `None` for a flavour that Debian does not have.
pub fn flavour_suffix(flavour: &str, arch: Arch) -> Option<String> {
    let (_, before, behind) = flavours_of(arch).find(|(name, ..)| *name == flavour)?;
    Some(format!("{before}{}{behind}", arch.debian_name()))
}

/// The flavours' names, for messages.
pub fn flavour_names(arch: Arch) -> String {
    let names: Vec<_> = flavours_of(arch).map(|(name, ..)| *name).collect();
    names.join(", ")
}

/// A kernel that an archive offers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Offer {
    /// The release, as `uname -r` prints it.
    release: String,
    /// The packages with its image and modules.
    packages: Vec<String>,
}

/// The newest kernel of a series, fetched if it is not in the cache, with what modules for it are
/// built with.
pub fn fetch_newest(cache: &Cache, series: &str, flavour: &str, arch: Arch) -> Result<Kernel> {
    let suffix =
        flavour_suffix(flavour, arch).with_context(|| format!("unknown flavour `{flavour}`"))?;
    let what = format!(
        "{series} kernel for {} in the flavour {flavour}",
        arch.debian_name()
    );
    let open = |release: &Release| Apt::set_up(cache, release, arch);
    let (apt, offer, release) =
        find_in_releases(&what, open, |apt| newest_offer(apt, series, &suffix))?;
    fetch_kernel(cache, &apt, &offer, arch, release)
}

/// The kernel of this release (`uname -r`), fetched if it is not in the cache, with what modules
/// for it are built with.
pub fn fetch_exact(cache: &Cache, wanted: &str, arch: Arch) -> Result<Kernel> {
    let escaped = wanted.replace('.', r"\.").replace('+', r"\+");
    let what = format!("kernel {wanted} with its headers");
    let open = |release: &Release| Apt::set_up(cache, release, arch);
    let (apt, offer, release) = find_in_releases(&what, open, |apt| {
        let names = apt.package_names(&format!(
            "^linux-(headers|image|binary-unsigned|modules)-{escaped}(-unsigned)?$"
        ))?;
        let mut offers = parse_offers(&names).into_iter();
        Ok(offers.find(|offer| offer.release == wanted))
    })?;
    fetch_kernel(cache, &apt, &offer, arch, release)
}

/// The lists of the first release that has a package.
pub(crate) fn open_with_package(cache: &Cache, package: &str, arch: Arch) -> Result<Apt> {
    let pattern = format!("^{}$", package.replace('.', r"\."));
    let open = |release: &Release| Apt::set_up(cache, release, arch);
    let what = format!("package {package}");
    let (apt, ..) = find_in_releases(&what, open, |apt| Ok(apt.package_names(&pattern)?.pop()))?;
    Ok(apt)
}

/// The first release that has what is looked for. One whose lists cannot be fetched is named and
/// passed over: a mirror may have one that is expired, and another that has the kernel.
fn find_in_releases<A, T>(
    what: &str,
    open: impl Fn(&'static Release) -> Result<A>,
    find: impl Fn(&A) -> Result<Option<T>>,
) -> Result<(A, T, &'static Release)> {
    let mut failed = Vec::new();
    for release in all_releases() {
        let lists = match open(release) {
            Ok(lists) => lists,
            Err(why) => {
                failed.push(why);
                continue;
            }
        };
        if let Some(found) = find(&lists)? {
            for why in &failed {
                eprintln!("weir: {why:#}\nweir: going on without it");
            }
            return Ok((lists, found, release));
        }
    }
    if failed.len() == all_releases().count() {
        return Err(failed.swap_remove(0));
    }
    let failed: Vec<_> = failed.iter().map(|why| format!("; {why:#}")).collect();
    bail!(
        "this host's Debian mirrors have no {what}: {}{}",
        asked_releases(),
        failed.concat()
    )
}

/// The releases in which a kernel was looked for, for messages.
fn asked_releases() -> String {
    let names: Vec<_> = all_releases().map(|release| release.name).collect();
    format!(
        "asked were {}, with updates, and security archives if there is a `debian-security` mirror among this \
         host's apt sources. `weir kernels --all` lists what there is",
        names.join(", ")
    )
}

/// The newest kernel of a series with this suffix in the lists.
fn newest_offer(apt: &Apt, series: &str, suffix: &str) -> Result<Option<Offer>> {
    let version = format!(r"{}\.[0-9.]+[-+][a-z0-9.]+", series.replace('.', r"\."));
    let offers = parse_offers(&kernel_packages(apt, &version, suffix)?);
    Ok(offers
        .into_iter()
        .max_by_key(|offer| version_key(&offer.release)))
}

/// Names of the packages that kernels consist of, for versions and flavours by regular expression.
fn kernel_packages(apt: &Apt, version: &str, suffix: &str) -> Result<Vec<String>> {
    apt.package_names(&format!(
        "^linux-(headers|image|binary-unsigned|modules)-{version}-{suffix}(-unsigned)?$"
    ))
}

/// The kernels that are complete in a list of packages. Archives keep some signed images without
/// the rest.
fn parse_offers(names: &[String]) -> Vec<Offer> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let has_all = |packages: &[String]| packages.iter().all(|name| names.contains(name.as_str()));
    names
        .iter()
        .filter_map(|name| name.strip_prefix("linux-headers-"))
        .filter_map(|release| {
            let split = vec![
                format!("linux-binary-unsigned-{release}"),
                format!("linux-modules-{release}"),
            ];
            let whole = vec![format!("linux-image-{release}-unsigned")];
            let packages = [split, whole].into_iter().find(|names| has_all(names))?;
            Some(Offer {
                release: release.to_owned(),
                packages,
            })
        })
        .collect()
}

/// A kernel that `--kernel` takes, for `weir kernels`.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    /// The value of `--kernel` that gets it.
    pub name: String,
    /// The series, as in `6.12`.
    pub series: String,
    /// The flavour: `16k`, `cloud`, `generic` or `rt`.
    pub flavour: &'static str,
    /// The architecture, by Debian's name.
    pub architecture: &'static str,
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The version of its packages; `None` for one that the archive has no longer.
    pub version: Option<String>,
    /// The suite it is in; `None` for one that the archive has no longer.
    pub suite: Option<String>,
    /// Is it in the cache?
    pub cached: bool,
}

/// The lists that [`list_kernels`] goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// Those in the cache, however old; nothing is fetched.
    Cached,
    /// Those in the cache, and of the guests' release new ones.
    Known,
    /// New ones of every release, for each architecture that guests may have.
    All,
}

/// The newest kernel of each series, flavour and architecture, in each release of the distribution
/// that has a newer one than those asked before it; and what else is in the cache.
pub fn list_kernels(cache: &Cache, lists: Lists) -> Result<Vec<Listed>> {
    let mut listed: Vec<Listed> = Vec::new();
    for release in all_releases() {
        for arch in [Arch::HERE].into_iter().chain(Arch::OTHERS) {
            let is_fetched = match lists {
                Lists::Cached => false,
                Lists::Known => *release == BASE && arch == Arch::HERE,
                Lists::All => true,
            };
            let apt = match is_fetched {
                true => Some(Apt::set_up(cache, release, arch)?),
                false => Apt::open_if_fetched(cache, release, arch),
            };
            if let Some(apt) = apt {
                add_offers(cache, &apt, &mut listed)?;
            }
        }
    }
    for release in cached_releases(cache)? {
        if listed.iter().all(|one| one.release != release) {
            listed.extend(Listed::from_release(
                &release,
                format!("debian:{release}"),
                true,
            ));
        }
    }
    listed.sort_by_key(|one| (version_key(&one.release), one.name.clone()));
    Ok(listed)
}

impl Listed {
    /// `None` for a release that is not Debian's.
    fn from_release(release: &str, name: String, cached: bool) -> Option<Listed> {
        let (series, flavour, arch) = release_parts(release)?;
        Some(Listed {
            name,
            series,
            flavour,
            architecture: arch.debian_name(),
            release: release.to_owned(),
            version: None,
            suite: None,
            cached,
        })
    }
}

/// Series, flavour and architecture of a release of Debian's, such as `6.1.0-56-cloud-amd64`.
pub(crate) fn release_parts(release: &str) -> Option<(String, &'static str, Arch)> {
    let mut numbers = release.splitn(3, '.');
    let (major, minor, rest) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    if !is_number(major) || !is_number(minor) || !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let all = [Arch::HERE].into_iter().chain(Arch::OTHERS);
    let named = all.flat_map(|arch| flavours_of(arch).map(move |(name, ..)| (*name, arch)));
    let fitting = named.filter_map(|(flavour, arch)| {
        let suffix = format!("-{}", flavour_suffix(flavour, arch)?);
        rest.ends_with(&suffix)
            .then_some((suffix.len(), flavour, arch))
    });
    // `-amd64` ends `-rt-amd64`, too.
    let (_, flavour, arch) = fitting.max_by_key(|(length, ..)| *length)?;
    Some((format!("{major}.{minor}"), flavour, arch))
}

/// Releases of the kernels in the cache.
fn cached_releases(cache: &Cache) -> Result<Vec<String>> {
    let path = cache.path_below(KERNELS);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).with_context(|| format!("{}", path.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // What is being made has an end of its own: `.partial`.
        if release_parts(&name).is_some() && cache.path_below(&kernel_place(&name)).is_dir() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Adds the newest of each series and flavour that is not listed yet.
fn add_offers(cache: &Cache, apt: &Apt, listed: &mut Vec<Listed>) -> Result<()> {
    let mut found = Vec::new();
    for (flavour, before, behind) in flavours_of(apt.arch) {
        let version = r"[0-9]+\.[0-9]+\.[0-9.]+[-+][a-z0-9.]+";
        let suffix = format!("{before}{}{behind}", apt.arch.debian_name());
        let mut offers = parse_offers(&kernel_packages(apt, version, &suffix)?);
        offers.sort_by_key(|offer| std::cmp::Reverse(version_key(&offer.release)));
        let mut series_seen = BTreeSet::new();
        for offer in offers {
            let Some((series, ..)) = release_parts(&offer.release) else {
                continue;
            };
            if !series_seen.insert(series.clone()) {
                continue;
            }
            let same = |one: &&Listed| {
                one.series == series
                    && one.flavour == *flavour
                    && one.architecture == apt.arch.debian_name()
            };
            let key = version_key(&offer.release);
            let name = match listed.iter().find(same) {
                None if *flavour == "cloud" => format!("debian:{series}{}", arch_suffix(apt.arch)),
                None => format!("debian:{series}:{flavour}{}", arch_suffix(apt.arch)),
                Some(_) => format!("debian:{}", offer.release),
            };
            let is_older = |one: &Listed| version_key(&one.release) >= key;
            if !listed.iter().filter(same).any(is_older) {
                let cached = cache.path_below(&kernel_place(&offer.release)).is_dir();
                let one = Listed::from_release(&offer.release, name, cached);
                found.extend(one.map(|one| (one, offer.packages)));
            }
        }
    }
    let packages: Vec<&str> = found
        .iter()
        .filter_map(|(_, packages)| packages.first().map(String::as_str))
        .collect();
    let places = apt.find_places(&packages)?;
    listed.extend(found.into_iter().map(|(one, packages)| {
        let place = places
            .iter()
            .find(|place| Some(&place.package) == packages.first());
        Listed {
            version: place.map(|place| place.version.clone()),
            suite: place.map(|place| place.suite.clone()),
            ..one
        }
    }));
    Ok(())
}

/// An architecture behind the name of a kernel; nothing for this machine's.
fn arch_suffix(arch: Arch) -> String {
    arch.cache_suffix().replace('-', ":")
}

/// The cache's directory of kernels.
const KERNELS: &str = "kernels";

/// The place of a kernel in the cache.
fn kernel_place(release: &str) -> String {
    format!("{KERNELS}/{release}")
}

/// Image and modules of an unpacked kernel, in any of the three layouts.
fn find_image_and_modules(root: &Path, release: &str) -> (PathBuf, PathBuf) {
    let merged = root.join("usr/lib/modules").join(release);
    let modules = match merged.is_dir() {
        true => merged,
        false => root.join("lib/modules").join(release),
    };
    let beside = modules.join("vmlinuz.unsigned");
    match beside.is_file() {
        true => (beside, modules),
        false => (root.join(format!("boot/vmlinuz-{release}")), modules),
    }
}

/// Unpacks a kernel, if that was not done before. One `from` a release that is newer than the
/// guests' comes with tools that were built for a newer C library; they and its compiler are made
/// to run here. One of another architecture needs a compiler for it.
fn fetch_kernel(
    cache: &Cache,
    apt: &Apt,
    offer: &Offer,
    arch: Arch,
    from: &'static Release,
) -> Result<Kernel> {
    let release = &offer.release;
    let is_foreign = arch != Arch::HERE;
    let headers = format!("linux-headers-{release}");
    let root = cache.make_directory(&kernel_place(release), |into| {
        let parts = apt.dependencies_of(&headers)?;
        // Programs, of the same version for each architecture.
        let is_kbuild = |name: &&str| name.starts_with("linux-kbuild-");
        let parts = parts.iter().map(String::as_str).filter(|name| {
            // PREEMPT_RT kernels may have common headers of their own.
            name.ends_with("-common")
                || name.ends_with("-common-rt")
                || is_kbuild(name)
                // With the list of what is built in.
                || *name == format!("linux-base-{release}")
        });
        let (kbuild, parts): (Vec<_>, Vec<_>) =
            parts.partition(|name| is_foreign && is_kbuild(name));
        let packages = offer.packages.iter().map(String::as_str);
        apt.unpack_packages(
            parts.into_iter().chain(packages).chain([headers.as_str()]),
            into,
        )
        .with_context(|| format!("the kernel {release}"))?;
        if !kbuild.is_empty() {
            Apt::set_up(cache, from, Arch::HERE)?
                .unpack_packages(kbuild, into)
                .with_context(|| format!("what builds modules for {release}"))?;
        }
        match from.is_release_of_guests() {
            true => Ok(()),
            false => toolchain::wrap_programs(&into.join("usr/lib")),
        }
    })?;
    let headers = root.join("usr/src").join(&headers);
    relocate_headers(&headers, &root)?;
    let tools = match from.is_release_of_guests() && !is_foreign {
        true => None,
        false => Some(toolchain::get(cache, from, arch, &headers)?),
    };
    let (image, modules) = find_image_and_modules(&root, release);
    Ok(Kernel {
        image,
        modules,
        headers: Some(headers),
        tools,
        arch,
        release: release.clone(),
    })
}

/// The headers' top Makefile names other directories by their absolute path under /usr.
fn relocate_headers(headers: &Path, root: &Path) -> Result<()> {
    const SOURCES: &str = "/usr/src/";
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).with_context(|| format!("{}", makefile.display()))?;
    let mut relocated = String::new();
    for line in text.lines() {
        let known = line.starts_with("include ") || line.starts_with("KBUILD_OUTPUT");
        let (Some(value), true) = (line.find('/'), known) else {
            bail!(
                "{}: not the Makefile of a Debian headers package: {line}",
                makefile.display()
            );
        };
        // Moved with the cache since, it has the path of another root before it.
        let at = line.rfind(SOURCES).unwrap_or(value);
        relocated += &format!("{}{}{}\n", &line[..value], root.display(), &line[at..]);
    }
    // A build against them meanwhile must not find it half written.
    if relocated == text {
        return Ok(());
    }
    fs::write(&makefile, relocated).with_context(|| format!("{}", makefile.display()))
}

/// The numbers in a package name, in order: 6.12.117 is newer than 6.12.99, ABI 56 newer than 9.
pub(crate) fn version_key(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_release_whose_lists_are_not_to_be_had_is_passed_over_and_named() {
        let open = |release: &'static Release| match release.name {
            "trixie" => Err(anyhow!("trixie's lists are expired")),
            name => Ok(name),
        };
        let in_testing = |lists: &&str| Ok((*lists == "testing").then_some(7));
        let (_, found, release) = find_in_releases("7.99 kernel", open, in_testing).unwrap();
        assert_eq!((found, release.name), (7, "testing"));

        let nowhere = |_: &&str| Ok(None::<()>);
        let why = find_in_releases("7.99 kernel", open, nowhere)
            .unwrap_err()
            .to_string();
        assert!(why.starts_with("this host's Debian mirrors have no 7.99 kernel: asked were "));
        assert!(why.ends_with("; trixie's lists are expired"), "{why}");

        let closed = |_: &'static Release| Err::<(), _>(anyhow!("no network"));
        let why = find_in_releases("7.99 kernel", closed, |_| Ok(None::<()>)).unwrap_err();
        assert_eq!(why.to_string(), "no network");
    }

    #[test]
    fn an_image_is_found_in_each_layout() {
        let root = tempfile::tempdir().unwrap();
        let found = |release: &str| {
            let (image, modules) = find_image_and_modules(root.path(), release);
            [image, modules].map(|path| {
                let path = path.strip_prefix(root.path()).unwrap();
                path.display().to_string()
            })
        };
        let has = |file: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        has("boot/vmlinuz-6.1");
        has("lib/modules/6.1/modules.order");
        has("boot/vmlinuz-6.12+deb13");
        has("usr/lib/modules/6.12+deb13/modules.order");
        has("usr/lib/modules/7.3/vmlinuz.unsigned");
        assert_eq!(found("6.1"), ["boot/vmlinuz-6.1", "lib/modules/6.1"]);
        assert_eq!(
            found("6.12+deb13"),
            ["boot/vmlinuz-6.12+deb13", "usr/lib/modules/6.12+deb13"]
        );
        assert_eq!(
            found("7.3"),
            [
                "usr/lib/modules/7.3/vmlinuz.unsigned",
                "usr/lib/modules/7.3"
            ]
        );
    }

    #[test]
    fn both_layouts_are_known_and_remains_are_no_kernels() {
        let names = [
            "linux-headers-6.12.9+deb13-amd64",
            "linux-image-6.12.9+deb13-amd64-unsigned",
            "linux-headers-7.3.4+deb13-amd64",
            "linux-binary-unsigned-7.3.4+deb13-amd64",
            "linux-modules-7.3.4+deb13-amd64",
            "linux-image-7.3.4+deb13-amd64",
            "linux-image-6.18.15+deb13-amd64",
            "linux-headers-7.4.1+deb13-amd64",
            "linux-modules-7.4.1+deb13-amd64",
        ]
        .map(str::to_owned);
        assert_eq!(
            parse_offers(&names),
            [
                Offer {
                    release: "6.12.9+deb13-amd64".into(),
                    packages: vec!["linux-image-6.12.9+deb13-amd64-unsigned".into()],
                },
                Offer {
                    release: "7.3.4+deb13-amd64".into(),
                    packages: vec![
                        "linux-binary-unsigned-7.3.4+deb13-amd64".into(),
                        "linux-modules-7.3.4+deb13-amd64".into(),
                    ],
                },
            ]
        );
    }

    #[test]
    fn a_release_says_what_it_is() {
        let said = |release: &str| {
            release_parts(release)
                .map(|(series, flavour, arch)| format!("{series} {flavour} {arch:?}"))
        };
        for (release, parts) in [
            ("6.1.0-56-cloud-amd64", "6.1 cloud Amd64"),
            ("6.1.0-56-rt-amd64", "6.1 rt Amd64"),
            ("7.3.4+deb13-amd64", "7.3 generic Amd64"),
            ("6.12.118+deb13-cloud-arm64", "6.12 cloud Arm64"),
            ("6.12.117+deb12-arm64-16k", "6.12 16k Arm64"),
        ] {
            assert_eq!(said(release).as_deref(), Some(parts));
        }
        for other in [
            "debug",
            "6.12.1-weir-debug",
            "6.12-amd64",
            "7.3.4+deb13-amd64.partial",
            "6.12.117+deb12-amd64-16k",
        ] {
            assert_eq!(said(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_cached_is_listed_without_any_lists() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(root.path()).unwrap();
        for name in ["6.1.0-9-rt-amd64", "debug", "7.3.4+deb13-amd64.partial"] {
            fs::create_dir_all(root.path().join("kernels").join(name)).unwrap();
        }
        let listed = list_kernels(&cache, Lists::Cached).unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        let one = &listed[0];
        assert_eq!(one.name, "debian:6.1.0-9-rt-amd64");
        assert_eq!((&*one.series, one.flavour, one.cached), ("6.1", "rt", true));
        assert_eq!((&one.version, &one.suite), (&None, &None));
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

    #[test]
    fn headers_are_turned_to_wherever_the_cache_is() {
        let cache = tempfile::tempdir().unwrap();
        let makefile = cache.path().join("Makefile");
        let relocated = |before: &str| {
            fs::write(&makefile, before).unwrap();
            relocate_headers(cache.path(), Path::new("/new/root"))?;
            anyhow::Ok(fs::read_to_string(&makefile).unwrap())
        };
        for (before, after) in [
            (
                "include /usr/src/linux-headers-6.12-common/Makefile\n",
                "include /new/root/usr/src/linux-headers-6.12-common/Makefile\n",
            ),
            (
                "include /old/root/usr/src/linux-headers-6.12-common/Makefile\n",
                "include /new/root/usr/src/linux-headers-6.12-common/Makefile\n",
            ),
            (
                "KBUILD_OUTPUT=/usr/src/linux-headers-7.3\ninclude /usr/src/c/Makefile\n",
                "KBUILD_OUTPUT=/new/root/usr/src/linux-headers-7.3\ninclude /new/root/usr/src/c/Makefile\n",
            ),
        ] {
            assert_eq!(relocated(before).unwrap(), after);
        }
        let error = relocated("all:\n").unwrap_err().to_string();
        assert!(error.ends_with("not the Makefile of a Debian headers package: all:"));
    }
}

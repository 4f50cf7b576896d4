// SPDX-License-Identifier: GPL-2.0-only
//! Debian packages, without touching the host's own package state.
//!
//! The lab runs the host's apt on roots of its own, one per [`Release`] and architecture: own
//! sources, lists, status (empty) and downloads. So the result depends on the archive alone, not on what the host has
//! installed, and nothing needs root. Three things are taken from the host: which mirrors it uses
//! (from its own apt sources, as apt itself lists them), how it reaches them (proxy settings), and
//! Debian's keys, by which apt verifies everything it fetches.

use crate::arch::Arch;
use crate::cache::Cache;
use crate::tool::{run_for_output, run_to_success};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Newer versions of some of [`BASE`]'s packages, only for who asks for them by
/// `PACKAGE/BACKPORTS`.
pub const BACKPORTS: &str = "bookworm-backports";
/// Debian's keys, from the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists younger than this are not fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// The host's configuration of apt.
const HOST: &str = "/etc/apt";
/// Answers that apt gave of these lists; it takes a second to say one again.
const ANSWERS: &str = "answers";

/// Suites of the distribution that are used together, in an apt root of their own.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// Its name for people and, for all but [`BASE`], that of its root in the cache behind `apt-`.
    pub name: &'static str,
    root: &'static str,
    /// On the mirror of the distribution.
    suites: &'static [&'static str],
    /// On the mirror of its security updates, if the host uses one.
    security: Option<&'static str>,
}

/// The release whose packages guests are made of, on any host; it has both 6.1 and 6.12 kernels.
pub const BASE: Release = Release {
    name: "bookworm",
    root: "apt",
    suites: &["bookworm", "bookworm-updates"],
    security: Some("bookworm-security"),
};

/// [`BASE`] with its backports, apart: guests are made of the release itself.
pub const BASE_WITH_BACKPORTS: Release = Release {
    name: BACKPORTS,
    root: "apt-backports",
    suites: &["bookworm", "bookworm-updates", BACKPORTS],
    security: Some("bookworm-security"),
};

/// Releases with kernels that [`BASE`] does not have, in the order they are asked for them. Their
/// lists are 10 to 20 MB each, and fetched only then.
pub const NEWER: &[Release] = &[
    Release {
        name: "trixie",
        root: "apt-trixie",
        suites: &["trixie", "trixie-updates", "trixie-backports"],
        security: Some("trixie-security"),
    },
    Release {
        name: "testing",
        root: "apt-testing",
        suites: &["testing"],
        security: None,
    },
    Release {
        name: "unstable",
        root: "apt-unstable",
        suites: &["unstable"],
        security: None,
    },
];

impl Release {
    /// Is it the guests' own, with backports or without? What was built for it runs wherever the
    /// lab does.
    pub fn is_release_of_guests(&self) -> bool {
        self.suites[0] == BASE.suites[0]
    }
}

/// A package in the lists of one suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The package's name.
    pub package: String,
    /// The version of the package there.
    pub version: String,
    /// The suite, such as `trixie-backports`.
    pub suite: String,
}

/// The apt root in the cache.
pub struct Apt {
    root: PathBuf,
    /// Architecture of the packages.
    pub arch: Arch,
}

impl Apt {
    /// The release and its updates. Sets the root up; fetches the lists if there are none or old
    /// ones.
    pub fn open(cache: &Cache, arch: Arch) -> Result<Apt> {
        Apt::set_up(cache, &BASE, arch)
    }

    /// The release with its backports, of what runs on this machine.
    pub fn open_with_backports(cache: &Cache) -> Result<Apt> {
        Apt::set_up(cache, &BASE_WITH_BACKPORTS, Arch::HERE)
    }

    fn root_for(cache: &Cache, release: &Release, arch: Arch) -> Apt {
        Apt {
            root: cache.path_below(&format!("{}{}", release.root, arch.cache_suffix())),
            arch,
        }
    }

    /// The root of a release whose lists were fetched before, however old; `None` if they were not.
    pub fn open_if_fetched(cache: &Cache, release: &Release, arch: Arch) -> Option<Apt> {
        let apt = Apt::root_for(cache, release, arch);
        apt.written_at("updated").map(|_| apt)
    }

    /// The root of a release. Sets it up; fetches the lists if there are none or old ones.
    pub fn set_up(cache: &Cache, release: &Release, arch: Arch) -> Result<Apt> {
        let apt = Apt::root_for(cache, release, arch);
        for directory in ["lists/partial", "archives/partial"] {
            let path = apt.root.join(directory);
            fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        }
        ensure!(
            Path::new(KEYRING).exists(),
            "{KEYRING} is missing, so packages could not be verified: install debian-archive-keyring"
        );
        if apt.is_fresh() {
            return Ok(apt);
        }
        let sources = release_sources(&host_targets()?, release, arch)?;
        let write = |name: &str, text: &str| {
            fs::write(apt.root.join(name), text)
                .with_context(|| format!("{}/{name}", apt.root.display()))
        };
        write("status", "")?;
        let known = fs::read_to_string(apt.root.join("sources.list")).unwrap_or_default();
        let is_known = known == sources && apt.written_at("updated").is_some();
        if !is_known || apt.written_at("updated").is_none_or(is_old) {
            if !is_known {
                // Should fetching fail, what is there is not of these sources.
                let _ = fs::remove_file(apt.root.join("updated"));
                write("sources.list", &sources)?;
            }
            let fetched = apt.update().with_context(|| {
                format!("fetching the package lists of Debian's {}", release.name)
            });
            match fetched {
                // Without a network the old lists still name what is in the cache.
                Err(why) if is_known => {
                    eprintln!("weir: {why:#}\nweir: going on with the lists fetched before");
                    return Ok(apt);
                }
                fetched => fetched?,
            }
            write("updated", "")?;
        }
        // Now, at the latest, it is what the host says.
        write("sources.list", &sources)?;
        Ok(apt)
    }

    /// Fetches the lists. apt alone takes a failure for a warning and forgets or keeps what it had.
    fn update(&self) -> Result<()> {
        run_to_success(self.apt_command("apt-get").args([
            "-o",
            "APT::Update::Error-Mode=any",
            "update",
        ]))?;
        let answers = self.root.join(ANSWERS);
        match answers.exists() {
            true => fs::remove_dir_all(&answers)
                .with_context(|| format!("removing {}", answers.display())),
            false => Ok(()),
        }
    }

    /// The time at which a file of this root was written.
    fn written_at(&self, name: &str) -> Option<SystemTime> {
        fs::metadata(self.root.join(name)).ok()?.modified().ok()
    }

    /// Are the lists young, and from where the host says? Asking apt that takes a second, of each
    /// guest.
    fn is_fresh(&self) -> bool {
        let asked = self.written_at("sources.list");
        self.written_at("updated").is_some_and(|time| !is_old(time))
            && last_change(Path::new(HOST)).is_some_and(|changed| asked > Some(changed))
    }

    /// An apt program that sees only this root.
    fn apt_command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C.UTF-8");
        let root = self.root.display();
        let arch = self.arch.debian_name();
        for option in [
            format!("Dir::State={root}"),
            format!("Dir::State::lists={root}/lists"),
            format!("Dir::State::status={root}/status"),
            format!("Dir::Cache={root}"),
            format!("Dir::Cache::archives={root}/archives"),
            format!("Dir::Etc::sourcelist={root}/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("APT::Architecture={arch}"),
            format!("APT::Architectures={arch}"),
            // The cache belongs to the user who runs weir; apt's own user could not write there.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command
    }

    /// The answer of `apt-cache` about the lists.
    fn ask_cache(&self, question: &[&str]) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        question.hash(&mut hasher);
        let directory = self.root.join(ANSWERS);
        let path = directory.join(format!("{:016x}", hasher.finish()));
        if path.exists() {
            return fs::read_to_string(&path).with_context(|| format!("{}", path.display()));
        }
        let text = run_for_output(self.apt_command("apt-cache").args(question))?;
        // Not made under its name: half an answer would stand.
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let aside = tempfile::NamedTempFile::new_in(&directory)
            .with_context(|| format!("writing into {}", directory.display()))?;
        fs::write(aside.path(), &text).with_context(|| format!("{}", aside.path().display()))?;
        aside
            .persist(&path)
            .with_context(|| format!("{}", path.display()))?;
        Ok(text)
    }

    /// Names of packages that match a regular expression.
    pub fn package_names(&self, pattern: &str) -> Result<Vec<String>> {
        let text = self.ask_cache(&["search", "--names-only", pattern])?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect())
    }

    /// Names of the packages that `package` depends on directly.
    pub fn dependencies_of(&self, package: &str) -> Result<Vec<String>> {
        let text = self.ask_cache(&["depends", "--important", package])?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_once("Depends: "))
            .map(|(_, name)| name.to_owned())
            .collect())
    }

    /// The places of packages, newest version first for each.
    pub fn find_places(&self, packages: &[&str]) -> Result<Vec<Place>> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let text = self.ask_cache(&[&["madison"], packages].concat())?;
        Ok(text.lines().filter_map(parse_place).collect())
    }

    /// `packages` (`NAME` or `NAME/SUITE`) and the packages with the shared libraries they need,
    /// directly or not, each as `NAME=VERSION`.
    pub fn resolve_with_libraries(&self, packages: &[&str]) -> Result<BTreeSet<String>> {
        let text = run_for_output(
            self.apt_command("apt-get")
                .args(["install", "--no-install-recommends", "--print-uris", "-y"])
                .args(packages),
        )?;
        // Lines look like: 'URI' name_version_arch.deb size hash
        let wanted: BTreeSet<&str> = packages
            .iter()
            .filter_map(|package| package.split('/').next())
            .collect();
        let names = text
            .lines()
            .filter(|line| line.starts_with('\''))
            .filter_map(|line| {
                let mut parts = line.split_whitespace().nth(1)?.split('_');
                Some((parts.next()?, parts.next()?))
            })
            // Debian's policy: a shared library is in a package named after it. The interpreters'
            // libraries are only needed by scripts, which guests do not run.
            .filter(|(name, _)| {
                wanted.contains(name) || name.starts_with("lib") || *name == "zlib1g"
            })
            .filter(|(name, _)| !name.starts_with("libperl") && !name.starts_with("libpython"))
            // The colon of an epoch cannot be in a file's name.
            .map(|(name, version)| format!("{name}={}", version.replace("%3a", ":")))
            .collect();
        Ok(names)
    }

    /// Downloads packages (`NAME`, `NAME=VERSION` or `NAME/SUITE`), verified, into a directory that
    /// goes with the value.
    pub fn download_packages<'a>(
        &self,
        packages: impl IntoIterator<Item = &'a str>,
    ) -> Result<tempfile::TempDir> {
        let downloads =
            tempfile::tempdir_in(&self.root).context("making a directory for downloads")?;
        run_to_success(
            self.apt_command("apt-get")
                .arg("download")
                .args(packages)
                .current_dir(downloads.path()),
        )
        .context("downloading packages")?;
        Ok(downloads)
    }

    /// Downloads packages (`NAME`, `NAME=VERSION` or `NAME/SUITE`), verified, and unpacks them over
    /// each other into `into`.
    pub fn unpack_packages<'a>(
        &self,
        packages: impl IntoIterator<Item = &'a str>,
        into: &Path,
    ) -> Result<()> {
        let downloads = self.download_packages(packages)?;
        for entry in fs::read_dir(downloads.path())? {
            run_to_success(
                Command::new("dpkg-deb")
                    .arg("-x")
                    .arg(entry?.path())
                    .arg(into),
            )?;
        }
        Ok(())
    }
}

/// Reads a line of `apt-cache madison`: `NAME | VERSION | URI SUITE/COMPONENT ARCH Packages`.
fn parse_place(line: &str) -> Option<Place> {
    let mut parts = line.split('|').map(str::trim);
    let (package, version, from) = (parts.next()?, parts.next()?, parts.next()?);
    let suite = from.split_whitespace().nth(1)?.rsplit_once('/')?.0;
    Some(Place {
        package: package.to_owned(),
        version: version.to_owned(),
        suite: suite.to_owned(),
    })
}

fn is_old(updated: SystemTime) -> bool {
    // A time in the future says nothing.
    SystemTime::now()
        .duration_since(updated)
        .map_or(true, |age| age > FRESH)
}

/// The time at which a file or directory in `path`, or itself, was last changed.
fn last_change(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    let mut last = metadata.modified().ok()?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).ok()? {
            last = last.max(last_change(&entry.ok()?.path())?);
        }
    }
    Some(last)
}

/// The host's own package indexes, one line each: `SUITE|URI`.
fn host_targets() -> Result<String> {
    run_for_output(Command::new("apt-get").env("LC_ALL", "C.UTF-8").args([
        "indextargets",
        "--format",
        "$(RELEASE)|$(REPO_URI)",
        "Created-By: Packages",
    ]))
    .context("asking apt for this host's package sources (the lab needs a Debian host)")
}

/// Sources for a release from the mirrors of the host's targets.
fn release_sources(targets: &str, release: &Release, arch: Arch) -> Result<String> {
    let archive = |wanted: &str| {
        targets.lines().find_map(|line| {
            let (_, uri) = line.split_once('|')?;
            let last = uri.trim_end_matches('/').rsplit('/').next()?;
            (last == wanted).then(|| uri.to_owned())
        })
    };
    let Some(main) = archive("debian") else {
        bail!(
            "no Debian archive among this host's apt sources, so there is nowhere to get kernels from: \
             add one (a `debian` mirror, see sources.list(5)) or give --kernel a PATH. Sources found: {}",
            if targets.trim().is_empty() {
                "none"
            } else {
                targets.trim()
            }
        );
    };
    let line = |uri: &str, suite: &str| {
        let arch = arch.debian_name();
        format!("deb [arch={arch} signed-by={KEYRING}] {uri} {suite} main\n")
    };
    let mut sources: String = release
        .suites
        .iter()
        .map(|suite| line(&main, suite))
        .collect();
    if let (Some(suite), Some(security)) = (release.security, archive("debian-security")) {
        sources += &line(&security, suite);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_the_hosts_own_and_suites_are_the_labs() {
        let targets = "trixie|http://mirror.example/pub/debian/\ntrixie-security|http://sec.example/debian-security/\n\
                       nodistro|https://other.example/node_20.x/\n";
        let sources = super::release_sources(targets, &BASE, Arch::Amd64).expect("a Debian host");
        assert_eq!(
            sources
                .lines()
                .map(|line| line.split("] ").nth(1).unwrap())
                .collect::<Vec<_>>(),
            [
                "http://mirror.example/pub/debian/ bookworm main",
                "http://mirror.example/pub/debian/ bookworm-updates main",
                "http://sec.example/debian-security/ bookworm-security main",
            ]
        );
        assert!(
            sources
                .lines()
                .all(|line| line.contains(&format!("signed-by={KEYRING}")))
        );
        let unstable =
            super::release_sources(targets, &NEWER[2], Arch::Arm64).expect("a Debian host");
        assert_eq!(
            unstable,
            format!(
                "deb [arch=arm64 signed-by={KEYRING}] http://mirror.example/pub/debian/ unstable main\n"
            )
        );
    }

    #[test]
    fn places_are_read() {
        let line = " linux-image-6.1.0-47-amd64 | 6.1.170-3 | http://mirror.example/debian bookworm/main amd64 Packages";
        let found = parse_place(line).expect("a place");
        assert_eq!(
            (&*found.package, &*found.version, &*found.suite),
            ("linux-image-6.1.0-47-amd64", "6.1.170-3", "bookworm")
        );
        assert_eq!(parse_place("N: nothing found"), None);
    }

    #[test]
    fn what_was_built_for_the_guests_release_needs_no_other_library() {
        assert!(BASE.is_release_of_guests() && BASE_WITH_BACKPORTS.is_release_of_guests());
        assert!(!NEWER.iter().any(Release::is_release_of_guests));
    }

    #[test]
    fn each_release_has_a_root_of_its_own() {
        let mut roots: Vec<_> = NEWER.iter().map(|release| release.root).collect();
        roots.extend([BASE.root, BASE_WITH_BACKPORTS.root]);
        roots.sort_unstable();
        let all = roots.len();
        roots.dedup();
        assert_eq!(roots.len(), all);
    }

    #[test]
    fn any_change_of_the_hosts_sources_is_seen() {
        let host = tempfile::tempdir().unwrap();
        let parts = host.path().join("sources.list.d");
        fs::create_dir(&parts).unwrap();
        fs::write(parts.join("debian.sources"), "").unwrap();
        let before = last_change(host.path()).unwrap();
        let later = before + Duration::from_secs(60);
        let file = fs::File::options()
            .write(true)
            .open(parts.join("debian.sources"))
            .unwrap();
        file.set_modified(later).unwrap();
        assert_eq!(last_change(host.path()), Some(later));
        assert_eq!(last_change(&host.path().join("none")), None);
        assert!(is_old(SystemTime::now() + Duration::from_secs(60)));
        assert!(!is_old(SystemTime::now()));
    }

    #[test]
    fn a_host_without_debian_sources_is_told_what_to_do() {
        let error = release_sources("jammy|http://archive.example/ubuntu/\n", &BASE, Arch::HERE)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no Debian archive among this host's apt sources"),
            "{error}"
        );
        assert!(error.contains("--kernel a PATH"), "{error}");
        assert!(error.contains("archive.example"), "{error}");
        assert!(
            release_sources("", &BASE, Arch::HERE)
                .unwrap_err()
                .to_string()
                .contains("Sources found: none")
        );
    }
}

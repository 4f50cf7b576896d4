// SPDX-License-Identifier: GPL-2.0-only
//! What the files of a systemd unit ask for.
//!
//! ```ini
//! # /etc/systemd/system/db.service.d/weir.conf
//! [Service]
//! X-Weir-DirtyMin=16M
//! ```
//!
//! systemd skips keys that begin with `X-`, in any section and without a warning, and does not keep
//! them: they are in no property that D-Bus tells. So files are looked for as systemd does
//! (systemd.unit(5)). Example, for `a-b@1.service`:
//!
//! ```text
//! unit file   a-b@1.service, else a-b@.service, in the first directory that has it
//! drop-ins    *.conf in a-b@1.service.d, a-b@.service.d, a-@1.service.d, a-@.service.d, a-.service.d
//!             of each directory, then in service.d of each; ordered by name, and of two that are
//!             called alike the first that was found
//! ```
//!
//! Later files win, and an empty value takes back what came before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that systemd's own manager reads, the first before others. All are root's.
const DIRECTORIES: [&str; 13] = [
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
    "etc/systemd/system",
    "etc/systemd/system.attached",
    "run/systemd/system",
    "run/systemd/system.attached",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
];
/// Whenever systemd reads its units again, it makes generators' directories anew in this one.
pub const RELOADED: &str = "run/systemd";
/// Beginning of a key.
pub const PREFIX: &str = "X-Weir-";
/// Kinds of units that have a cgroup, and the section of each in its file.
const KINDS: [(&str, &str); 6] = [
    ("service", "Service"),
    ("slice", "Slice"),
    ("scope", "Scope"),
    ("socket", "Socket"),
    ("mount", "Mount"),
    ("swap", "Swap"),
];
/// Directory of the drop-ins that an administrator writes.
pub const WRITTEN: &str = "etc/systemd/system";

/// The unit whose cgroup this is. Above one there are slices alone: what a unit makes below its own
/// cgroup may have any name.
pub fn unit_of(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    let mut above = above.split('/').skip(1);
    if !above.all(|name| name.ends_with(".slice")) {
        return None;
    }
    // As systemd does with names that a file of a controller could have.
    let name = name.strip_prefix('_').unwrap_or(name);
    section_of(name).map(|_| name)
}

/// The section of a unit's file that has what the unit's cgroup is to have, as `Service`; none if it
/// is no kind of unit that has a cgroup.
pub fn section_of(unit: &str) -> Option<&'static str> {
    let (_, kind) = unit.rsplit_once('.')?;
    let (_, section) = KINDS.iter().find(|(known, _)| *known == kind)?;
    Some(section)
}

/// The name by which systemd knows the unit that has a file called `name`: an alias is a link to it,
/// an instance may have its template's. None if there is no such file, or it is masked.
pub fn find_unit(root: &Path, name: &str) -> Option<String> {
    let names = [Some(name.to_owned()), template_of(name)];
    let of = |name: &str| DIRECTORIES.map(|directory| root.join(directory).join(name));
    let file = names.iter().flatten().flat_map(|name| of(name));
    let file = file
        .into_iter()
        .find(|file| fs::symlink_metadata(file).is_ok())?;
    let to = fs::read_link(&file).unwrap_or_default();
    let to = to.file_name().and_then(|to| to.to_str());
    match to {
        Some("null") => None,
        Some(to)
            if section_of(to) == section_of(name) && Some(to) != template_of(name).as_deref() =>
        {
            Some(to.into())
        }
        _ => Some(name.into()),
    }
}

/// A value, and the file that has it.
pub type UnitValue = (String, PathBuf);

/// Reads the requests in the unit's files, by key. `root` is the machine's root directory.
pub fn read(root: &Path, unit: &str) -> BTreeMap<String, UnitValue> {
    let mut asked = BTreeMap::new();
    for file in unit_files(root, unit) {
        // One that is gone by now says nothing.
        let text = fs::read(&file).unwrap_or_default();
        for (key, value) in parse_assignments(&String::from_utf8_lossy(&text)) {
            if value.is_empty() {
                asked.remove(&key);
            } else {
                asked.insert(key, (value, file.clone()));
            }
        }
    }
    asked
}

/// The unit file and its drop-ins, in the order in which they count.
fn unit_files(root: &Path, unit: &str) -> Vec<PathBuf> {
    let directories = DIRECTORIES.map(|directory| root.join(directory));
    let names = find_aliases(&directories, unit);
    let mut files: Vec<PathBuf> = [Some(unit.to_string()), template_of(unit)]
        .into_iter()
        .flatten()
        .flat_map(|name| directories.iter().map(move |at| at.join(&name)))
        .find(|file| file.exists())
        .into_iter()
        .collect();
    let mut places = Vec::new();
    for name in names {
        let mut above = Vec::new();
        add_lineage(&name, &mut above);
        places.extend(directories.iter().flat_map(|at| {
            let at = above.iter().map(|name| at.join(format!("{name}.d")));
            at.collect::<Vec<_>>()
        }));
    }
    let kind = unit.rsplit('.').next().unwrap_or_default();
    places.extend(directories.iter().map(|at| at.join(format!("{kind}.d"))));
    let mut drop_ins = BTreeMap::new();
    for place in places {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if Path::new(&name)
                .extension()
                .is_some_and(|end| end == "conf")
            {
                drop_ins.entry(name).or_insert_with(|| entry.path());
            }
        }
    }
    files.extend(drop_ins.into_values());
    files
}

/// The unit's name, and those that are links to its file.
fn find_aliases(directories: &[PathBuf], unit: &str) -> Vec<String> {
    let mut names = vec![unit.to_string()];
    for directory in directories {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
            let to = fs::read_link(entry.path()).unwrap_or_default();
            if to.file_name().is_some_and(|name| name == unit) {
                names.extend(entry.file_name().into_string());
            }
        }
    }
    names
}

/// `a@.service` of `a@1.service`.
fn template_of(unit: &str) -> Option<String> {
    let (prefix, instance, kind) = split_name(unit)?;
    instance.filter(|instance| !instance.is_empty())?;
    Some(format!("{prefix}@.{kind}"))
}

/// The unit, its template, and the same for each part of its name before a dash.
fn add_lineage(unit: &str, names: &mut Vec<String>) {
    names.push(unit.into());
    if let Some(template) = template_of(unit) {
        add_lineage(&template, names);
    }
    let Some((prefix, instance, kind)) = split_name(unit) else {
        return;
    };
    let shorter = prefix.strip_suffix('-').unwrap_or(prefix);
    let Some(dash) = shorter.rfind('-').filter(|at| *at > 0) else {
        return;
    };
    let above = &prefix[..=dash];
    match instance.filter(|instance| !instance.is_empty()) {
        Some(instance) => add_lineage(&format!("{above}@{instance}.{kind}"), names),
        None => add_lineage(&format!("{above}.{kind}"), names),
    }
}

/// Prefix, instance if there is an `@`, and kind.
fn split_name(unit: &str) -> Option<(&str, Option<&str>, &str)> {
    let (name, kind) = unit.rsplit_once('.')?;
    let (prefix, instance) = match name.split_once('@') {
        Some((prefix, instance)) => (prefix, Some(instance)),
        None => (name, None),
    };
    Some((prefix, instance, kind))
}

/// weir's keys and their values, as systemd reads lines: a `\` at the end goes on in the next one
/// that is no comment.
fn parse_assignments(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut line = String::new();
    for part in text.lines().map(str::trim) {
        if part.starts_with(['#', ';']) {
            continue;
        }
        if let Some(part) = part.strip_suffix('\\') {
            line.push_str(part);
            line.push(' ');
            continue;
        }
        line.push_str(part);
        if let Some((key, value)) = line.split_once('=') {
            let key = key.trim();
            if key.starts_with(PREFIX) {
                found.push((key.into(), value.trim().into()));
            }
        }
        line.clear();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_cgroup_is_below_slices_alone() {
        for (path, unit) in [
            ("/system.slice/db.service", Some("db.service")),
            ("/a.slice/a-b.slice", Some("a-b.slice")),
            ("/system.slice/_cpu.service", Some("cpu.service")),
            ("/system.slice/docker-1.scope", Some("docker-1.scope")),
            ("/user.slice/user-1.slice", Some("user-1.slice")),
            ("/system.slice/x.service/db.service", None),
            ("/system.slice/docker-1.scope/system.slice/db.service", None),
            ("/docker/db.service", None),
            ("/system.slice/db", None),
            ("/", None),
        ] {
            assert_eq!(unit_of(path), unit, "{path}");
        }
    }

    #[test]
    fn a_unit_is_found_by_its_file_its_template_and_its_alias() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path();
        write(root, "usr/lib/systemd/system/ssh.service", "");
        write(root, "etc/systemd/system/db@.service", "");
        let link = |name: &str, to: &str| {
            let link = root.join("etc/systemd/system").join(name);
            std::os::unix::fs::symlink(to, link).expect("made");
        };
        link("sshd.service", "/usr/lib/systemd/system/ssh.service");
        link("off.service", "/dev/null");
        for (name, found) in [
            ("ssh.service", Some("ssh.service")),
            ("sshd.service", Some("ssh.service")),
            ("db@1.service", Some("db@1.service")),
            ("off.service", None),
            ("none.service", None),
        ] {
            assert_eq!(find_unit(root, name).as_deref(), found, "{name}");
        }
    }

    fn names(unit: &str) -> String {
        let mut names = Vec::new();
        add_lineage(unit, &mut names);
        names.join(" ")
    }

    #[test]
    fn names_are_shortened_as_systemd_does() {
        assert_eq!(names("db.service"), "db.service");
        assert_eq!(names("-a.service"), "-a.service");
        assert_eq!(
            names("foo-bar-baz.slice"),
            "foo-bar-baz.slice foo-bar-.slice foo-.slice"
        );
        assert_eq!(
            names("a-b@1.service"),
            "a-b@1.service a-b@.service a-.service a-@1.service a-@.service"
        );
    }

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, text).expect("written");
    }

    fn asked(root: &Path, unit: &str) -> String {
        let asked = read(root, unit);
        let words = asked.iter().map(|(key, (value, file))| {
            let file = file.strip_prefix(root).expect("below").display();
            format!("{key}={value}@{file}")
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn later_files_win_and_the_first_directory_hides_others() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path();
        let key = |value: &str| format!("[Service]\nX-Weir-DirtyMin={value}\n");
        write(root, "usr/lib/systemd/system/a-b@.service", &key("1"));
        assert_eq!(
            asked(root, "a-b@1.service"),
            "X-Weir-DirtyMin=1@usr/lib/systemd/system/a-b@.service"
        );
        write(root, "etc/systemd/system/a-b@.service", &key("2"));
        write(
            root,
            "usr/lib/systemd/system/a-.service.d/50.conf",
            &key("3"),
        );
        write(root, "run/systemd/system/a-b@.service.d/50.conf", &key("4"));
        write(root, "etc/systemd/system/service.d/10.conf", &key("5"));
        write(root, "etc/systemd/system/service.d/90.txt", &key("6"));
        assert_eq!(
            asked(root, "a-b@1.service"),
            "X-Weir-DirtyMin=4@run/systemd/system/a-b@.service.d/50.conf"
        );
        write(root, "etc/systemd/system/a-b@1.service.d/50.conf", "");
        assert_eq!(
            asked(root, "a-b@1.service"),
            "X-Weir-DirtyMin=5@etc/systemd/system/service.d/10.conf"
        );
        write(root, "etc/systemd/system/a-b@1.service.d/60.conf", &key(""));
        assert_eq!(asked(root, "a-b@1.service"), "");
    }

    #[test]
    fn what_is_called_otherwise_counts_too() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path();
        write(root, "lib/systemd/system/ssh.service", "");
        write(
            root,
            "etc/systemd/system/sshd.service.d/a.conf",
            "X-Weir-DirtyBytes=64M",
        );
        assert_eq!(asked(root, "ssh.service"), "");
        let link = root.join("etc/systemd/system/sshd.service");
        std::os::unix::fs::symlink("/lib/systemd/system/ssh.service", link).expect("made");
        assert_eq!(
            asked(root, "ssh.service"),
            "X-Weir-DirtyBytes=64M@etc/systemd/system/sshd.service.d/a.conf"
        );
    }

    #[test]
    fn lines_are_read_as_systemd_reads_them() {
        let text = "[Service]\n# X-Weir-DirtyMin=1\n;X-Weir-DirtyMin=2\n  X-Weir-DirtyMin = 3M \n\
                    Environment=A \\\nX-Weir-DirtyMin=4\nX-Weir-DirtyBytes=\\\n# not this\n  5M\nx-weir-dirtymin=6\n";
        assert_eq!(
            parse_assignments(text),
            [
                ("X-Weir-DirtyMin".into(), "3M".into()),
                ("X-Weir-DirtyBytes".to_string(), "5M".to_string())
            ]
        );
    }
}

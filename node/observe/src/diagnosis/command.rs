// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup's file as a shell takes it. The user who makes a cgroup chooses its name, and what is
//! printed is typed by root.

use crate::model::cgroup::INODE;
use crate::model::cgroup::ROOT;

/// The file of a cgroup, by the cgroup's path, or by its inode where that is all there is.
pub(super) fn cgroup_file(path: &str, file: &str) -> String {
    if let Some(inode) = path.strip_prefix(INODE) {
        return format!("\"$(find {ROOT} -inum {inode})\"/{file}");
    }
    match path.trim_matches('/') {
        "" => format!("{ROOT}/{file}"),
        path => shell_quoted(&format!("{ROOT}/{path}/{file}")),
    }
}

/// Quotes text as one word. What cannot be seen is written out, as bash, zsh and ksh read it: a
/// terminal would obey it.
pub(super) fn shell_quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:".contains(c);
    let is_seen = |c: char| c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
    if text.chars().all(is_plain) {
        return text.into();
    }
    if text.chars().all(is_seen) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let letters = text.chars().map(|c| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if is_seen(c) => c.to_string(),
        c => {
            let letter = c.to_string();
            let bytes = letter.bytes().map(|byte| format!("\\x{byte:02x}"));
            bytes.collect()
        }
    });
    format!("$'{}'", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_one_word() {
        for name in [
            "system.slice/db@1.service",
            "a b",
            "it's",
            "Z\u{fc}rich",
            "\u{1b}]0;x\u{7}; rm -rf $(x) `y` \\ '\u{202e}",
            "-n",
        ] {
            let file = cgroup_file(name, "memory.high");
            assert!(!file.contains(['\u{1b}', '\u{202e}']), "{file}");
            let shell = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {file}")])
                .output()
                .expect("ran");
            let read = String::from_utf8_lossy(&shell.stdout).into_owned();
            assert_eq!(read, format!("{ROOT}/{name}/memory.high"), "{file}");
        }
        assert_eq!(cgroup_file("/", "io.max"), "/sys/fs/cgroup/io.max");
        assert_eq!(
            cgroup_file("inode:7", "io.max"),
            "\"$(find /sys/fs/cgroup -inum 7)\"/io.max"
        );
    }
}

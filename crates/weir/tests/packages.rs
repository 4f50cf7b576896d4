// SPDX-License-Identifier: GPL-2.0-only
//! debian/ keeps up with the tree, and the tree with Debian. What the packages do is tested by
//! `make test-containers`.

use std::process::Command;

fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_changelog_has_an_entry_for_this_version() {
    let newest = read("debian/changelog");
    let expected = format!("weir ({}) ", env!("CARGO_PKG_VERSION"));
    assert!(
        newest.starts_with(&expected),
        "debian/changelog begins with {:?}",
        newest.lines().next()
    );
}

/// Clippy sees what the tree itself asks of Rust's library (`incompatible_msrv`); what language it
/// speaks, and dependencies that ask for more than they say, only a compiler of that version.
#[test]
fn no_dependency_asks_for_a_newer_rust_than_debian_has() {
    // Not --offline: of some packages nothing is built here, so a new machine does not have them
    // yet.
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let version = |text: &str| -> Vec<u32> {
        let parts = text.split('.').map(|part| part.parse().expect("a number"));
        parts.collect()
    };
    let oldest = version(env!("CARGO_PKG_RUST_VERSION"));
    let packages = metadata["packages"].as_array().expect("a list");
    let (mut said, mut newer) = (0, Vec::new());
    for package in packages {
        let Some(wanted) = package["rust_version"].as_str() else {
            continue;
        };
        said += 1;
        if version(wanted) > [oldest.clone(), vec![0]].concat() {
            newer.push(format!("{}: {wanted}", package["id"]));
        }
    }
    assert!(said > 100, "only {said} of {} say so", packages.len());
    assert_eq!(newer, Vec::<String>::new());
}

fn weir(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(args)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Names of weir's commands, by its help.
fn commands() -> Vec<String> {
    let help = weir(&["--help"]);
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let lines = list.split("\n\n").next().into_iter().flat_map(str::lines);
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn each_shell_completes_each_command() {
    for (shell, file) in [
        ("bash", "weir.bash"),
        ("zsh", "_weir"),
        ("fish", "weir.fish"),
    ] {
        let script = weir(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
        let loads = read(&format!("packaging/completions/{file}"));
        assert!(
            loads.contains(&format!("weir completions {shell}")),
            "{file}"
        );
        assert!(read("Makefile").contains(&format!("packaging/completions/{file}")));
    }
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_weir"));
    let path = format!(
        "{}:{}",
        binary.parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let typed = "source packaging/completions/weir.bash
        COMP_WORDS=(weir plan --kn) COMP_CWORD=2; _weir weir --kn plan; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-c", typed])
        .env("PATH", path)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--knob\n");
}

#[test]
fn each_command_has_a_man_page() {
    let directory = tempfile::tempdir().expect("made");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/man.sh");
    let made = Command::new(script).arg(directory.path()).status();
    assert!(made.expect("runs").success());
    let pages = std::fs::read_dir(directory.path()).expect("there").count();
    // And weir.1 itself.
    assert_eq!(pages, commands().len() + 1);
    for command in commands() {
        let page = directory.path().join(format!("weir-{command}.1"));
        let text = std::fs::read_to_string(page).unwrap_or_else(|why| panic!("{command}: {why}"));
        let head = format!(".TH WEIR-{} 1", command.to_uppercase());
        assert!(text.starts_with(&head), "{command}: {text:.60}");
        assert!(text.contains(".SH DESCRIPTION\n") && text.ends_with(".BR weir (1)\n"));
    }
}

/// Files below a folder that end in `.md`.
fn pages(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => pages(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect()
}

#[test]
fn links_of_installed_pages_lead_to_installed_pages() {
    let directory = tempfile::tempdir().expect("made");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/docs.sh");
    let made = Command::new(script).arg(directory.path()).status();
    assert!(made.expect("runs").success());
    assert!(read("debian/rules").contains("\ttools/docs.sh debian/weir/usr/share/doc/weir\n"));
    let pages = pages(directory.path());
    assert!(pages.len() > 40, "{}", pages.len());
    let (mut links, mut broken) = (0, Vec::new());
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("text");
        let folder = page.parent().expect("a folder");
        for rest in text.split("](").skip(1) {
            let link = rest.split(')').next().unwrap_or(rest);
            let path = link.split('#').next().unwrap_or(link);
            if path.is_empty() || path.contains("://") || path.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            if !folder.join(path).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(links > 50, "{links}");
    assert_eq!(broken, Vec::<String>::new());
}

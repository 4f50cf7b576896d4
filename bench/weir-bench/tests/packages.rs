// SPDX-License-Identifier: GPL-2.0-only
//! debian/ keeps up with the tree, and the tree with Debian. What the packages do is tested by
//! `make test-containers`.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
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

/// Output of the built binary where it is started as `program`, which packages install.
fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .arg0(program)
        .args(args)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Names of a program's commands, by its help.
fn commands(program: &str) -> Vec<String> {
    let help = output_of(program, &["--help"]);
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let lines = list.split("\n\n").next().into_iter().flat_map(str::lines);
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn each_shell_completes_each_command() {
    for program in ["weir", "weir-bench"] {
        let commands = commands(program);
        for (shell, file) in [
            ("bash", format!("{program}.bash")),
            ("zsh", format!("_{program}")),
            ("fish", format!("{program}.fish")),
        ] {
            let script = output_of(program, &["completions", shell]);
            for command in &commands {
                assert!(script.contains(command), "{shell}: {command}");
            }
            let loads = read(&format!("packaging/completions/{file}"));
            assert!(
                loads.contains(&format!("{program} completions {shell}")),
                "{file}"
            );
            assert!(read("Makefile").contains(&format!("packaging/completions/{file}")));
        }
    }
    let folder = tempfile::tempdir().expect("made");
    let binary = folder.path().join("weir");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir-bench"), &binary).expect("linked");
    let before = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{before}", folder.path().display());
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

/// Pages that `tools/man.sh` writes with this argument, by their names.
fn man_pages(of: &[&str]) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().expect("made");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/man.sh");
    let made = Command::new(script).arg(directory.path()).args(of).status();
    assert!(made.expect("runs").success());
    let entries = std::fs::read_dir(directory.path()).expect("there");
    let entries = entries.map(|entry| entry.expect("readable"));
    entries
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect()
}

fn assert_pages(pages: &BTreeMap<String, String>, program: &str, commands: &[String]) {
    // And the program's own.
    assert_eq!(pages.len(), commands.len() + 1);
    assert!(pages[&format!("{program}.1")].contains(".TH WEIR"));
    for command in commands {
        let text = &pages[&format!("{program}-{command}.1")];
        let name = format!("{program}-{command}");
        assert!(
            text.starts_with(&format!(".TH {} 1", name.to_uppercase())),
            "{text:.60}"
        );
        let ends = text.ends_with(&format!(".BR {program} (1)\n"));
        assert!(text.contains(".SH DESCRIPTION\n") && ends, "{command}");
    }
}

#[test]
fn each_command_has_a_man_page() {
    let all = commands("weir");
    assert_pages(&man_pages(&[]), "weir", &all);
    // Those that a node has, too, are on its pages.
    let is_nodes = |name: &String| ["completions", "doctor"].contains(&name.as_str());
    let bench = commands("weir-bench");
    let bench: Vec<String> = bench.into_iter().filter(|name| !is_nodes(name)).collect();
    let pages = man_pages(&["bench"]);
    assert_pages(&pages, "weir-bench", &bench);
    for (name, text) in &pages {
        for command in &bench {
            assert!(
                !text.contains(&format!("weir {command}")),
                "{name}: {command}"
            );
        }
    }
    let node: Vec<String> = all
        .into_iter()
        .filter(|name| !bench.contains(name))
        .collect();
    assert_pages(&man_pages(&["node"]), "weir", &node);
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

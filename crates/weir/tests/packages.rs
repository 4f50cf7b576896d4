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

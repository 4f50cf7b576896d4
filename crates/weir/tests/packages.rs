// SPDX-License-Identifier: GPL-2.0-only
//! debian/ keeps up with the tree. What the packages do is tested by `make test-containers`.

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

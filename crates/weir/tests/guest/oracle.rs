// SPDX-License-Identifier: GPL-2.0-only
//! `weir doctor --btf` against the module: what it says of a kernel in a file, and what the module
//! does on that kernel.

use crate::module::passes;
use lab::Cache;
use lab::kernel::{Kernel, KernelSpec};
use std::path::Path;
use std::process::Command;

/// The exit status of `weir doctor --btf`, and what it says.
fn judged(file: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["doctor", "--btf"])
        .arg(file)
        .output()
        .expect("weir runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{output:?}");
    (output.status.code(), text)
}

/// The image is judged here, its BTF and the module in a guest.
fn agrees(kernel: &str) {
    let spec: KernelSpec = kernel.parse().expect("a kernel");
    let cache = Cache::discover().expect("a cache");
    let image = Kernel::get(&cache, &spec).expect("fetched");
    let (status, text) = judged(&image.image);
    assert_eq!(status, Some(0));
    assert!(text.ends_with(&format!("Linux {} can run weir.\n", image.release)));
    // Headers come with a vmlinux that holds types and nothing else.
    let types = image.headers.expect("headers").join("vmlinux");
    if types.exists() {
        let (status, text) = judged(&types);
        assert_eq!(status, Some(2));
        assert!(!text.contains("FAIL"));
    }
    passes(kernel, "oracle.sh", &["--make", "WEIR_FAULTS=y"], &[]);
}

#[test]
fn agrees_with_the_module_on_6_12() {
    agrees("debian:6.12");
}

#[test]
fn agrees_with_the_module_on_6_1() {
    agrees("debian:6.1");
}

#[test]
#[ignore = "another release's kernel: make proof"]
fn agrees_with_the_module_on_7_3() {
    agrees("debian:7.3");
}

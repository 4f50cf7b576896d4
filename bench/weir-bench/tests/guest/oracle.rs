// SPDX-License-Identifier: GPL-2.0-only
//! `weir doctor --btf` against the module: what it says of a kernel in a file, and what the module
//! does on that kernel.

use crate::common;
use crate::module::{TESTS, counted};
use kernel_image::KernelFile;
use lab::Cache;
use lab::kernel::Kernel;
use lab::kernel_spec::KernelSpec;
use std::path::Path;
use std::process::Command;

/// The exit status of `weir doctor --btf`, and what it says.
pub fn judged(file: &Path) -> (Option<i32>, String) {
    judged_together(&[file])
}

/// The same of files of one kernel.
fn judged_together(files: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["doctor", "--btf"])
        .args(files)
        .output()
        .expect("weir runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{output:?}");
    (output.status.code(), text)
}

/// What the image tells, its BTF alone leaves open in part, and with its configuration and symbols
/// beside it nothing. Debian ships no System.map but a placeholder: the symbols are the image's.
fn is_told_without_its_image(kernel: &Kernel, whole: &str) {
    let file = KernelFile::open(&kernel.image).expect("read");
    let place = tempfile::tempdir().expect("made");
    let write = |name: String, bytes: &[u8]| {
        let path = place.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let lines = file.symbol_names().expect("symbols");
    let map: String = lines
        .map(|name| format!("ffffffff81000000 T {name}\n"))
        .collect();
    let types = write("vmlinux".into(), file.btf.as_deref().expect("BTF"));
    let map = write(format!("System.map-{}", kernel.release), map.as_bytes());
    let config = kernel.headers.as_ref().expect("headers").join(".config");
    let config = std::fs::read(config).expect("a configuration");
    let config = write(format!("config-{}", kernel.release), &config);
    let (status, text) = judged(&types);
    assert_eq!(status, Some(2), "{text}");
    let open = |text: &str| text.lines().filter(|line| line.starts_with('?')).count();
    assert!(open(&text) > 0, "{text}");
    let (_, text) = judged_together(&[&types, &config]);
    assert!(!text.contains("FAIL"), "{text}");
    let (status, text) = judged_together(&[&types, &config, &map]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(open(&text), 0, "{text}");
    assert_eq!(text.lines().last(), whole.lines().last());
}

/// A kernel that is locked down, with cgroup v2, v1 and both.
#[test]
fn doctor_tells_what_a_host_forbids_and_hides_nothing_of_v1() {
    let tap = format!("{TESTS}/tap.sh:/tap.sh");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/doctor.sh");
    let machine = ["--count-instructions", "--cpus", "1", "--memory", "1G"];
    let files = ["--no-module", "--file", &tap, script];
    common::passes(&[&machine[..], &files].concat());
}

/// The image is judged here, its BTF and the module in a guest.
fn agrees(kernel: &str) {
    let spec: KernelSpec = kernel.parse().expect("a kernel");
    let cache = Cache::discover().expect("a cache");
    let image = Kernel::get(&cache, &spec).expect("fetched");
    let (status, text) = judged(&image.image);
    assert_eq!(status, Some(0));
    assert!(text.ends_with(&format!("Linux {} can run weir.\n", image.release)));
    is_told_without_its_image(&image, &text);
    // Headers come with a vmlinux that holds types and nothing else.
    let types = image.headers.expect("headers").join("vmlinux");
    if types.exists() {
        let (status, text) = judged(&types);
        assert_eq!(status, Some(2));
        assert!(!text.contains("FAIL"));
    }
    let options = ["--cpus", "1", "--make", "WEIR_FAULTS=y"];
    counted(kernel, "oracle.sh", &options, &[]);
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

#[test]
#[ignore = "a minute: make proof"]
fn agrees_with_the_module_on_rt() {
    agrees("debian:6.12:rt");
}

#[test]
#[ignore = "another release's kernel: make proof"]
fn agrees_with_the_module_on_7_3_rt() {
    agrees("debian:7.3:rt");
}

/// arm64's 6.1 hands no arguments to whom ftrace calls: the module does not even build for it.
#[test]
#[ignore = "another architecture: make proof-arm64"]
fn a_kernel_without_arguments_is_refused() {
    let spec: KernelSpec = "debian:6.1:arm64".parse().expect("a kernel");
    let cache = Cache::discover().expect("a cache");
    let kernel = Kernel::get(&cache, &spec).expect("fetched");
    let (status, text) = judged(&kernel.image);
    assert_eq!(status, Some(1));
    assert!(text.contains("FAIL  ftrace args"), "{text}");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = lab::module::build_weir_module(&cache, &kernel, &tree, &[]);
    let why = format!("{:#}", built.expect_err("not built"));
    assert!(
        why.contains("weir needs CONFIG_DYNAMIC_FTRACE_WITH_ARGS"),
        "{why}"
    );
}

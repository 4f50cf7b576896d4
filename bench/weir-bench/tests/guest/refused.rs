// SPDX-License-Identifier: GPL-2.0-only
//! `weir doctor --btf` against the module on kernels that are built to be refused
//! (`lab::refused_kernel`). Both must say the same, and for the same reason.

use crate::common;
use crate::module::TESTS;
use crate::oracle::judged;
use lab::Cache;
use lab::kernel::Kernel;
use lab::refused_kernel::{Variant, build};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What is right of a variant.
enum Right {
    /// The oracle sees nothing in the way, and the module loads. In the guest it sees the limits of
    /// writers' passes, or misses them.
    Loads { sees: &'static str },
    /// The oracle says so in each line that fails, and the module in its refusal.
    Refused {
        oracle: &'static str,
        module: &'static str,
    },
    /// The oracle says so in each line that fails, and the compiler when the module is built.
    NotBuilt {
        oracle: &'static str,
        compiler: &'static str,
    },
}

/// The oracle refuses the kernel, and each of its reasons has these words.
fn refuses(image: &Path, words: &str) {
    let (status, text) = judged(image);
    assert_eq!(status, Some(1), "{text}");
    let reasons: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("FAIL"))
        .collect();
    assert!(!reasons.is_empty(), "{text}");
    for reason in reasons {
        assert!(reason.contains(words), "{reason}");
    }
}

/// What the module does in a guest with these disks, by `refused.sh`.
fn guest(kernel: &Kernel, disks: &[&str], arguments: &[&str]) {
    let image = kernel.image.to_str().expect("a path of UTF-8");
    let tap = format!("{TESTS}/tap.sh:/tap.sh");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/refused.sh");
    let options = [
        "--kernel",
        image,
        "--count-instructions",
        "--cpus",
        "1",
        "--memory",
        "1G",
        "--file",
        &tap,
    ];
    common::passes(&[&options, disks, &[script], arguments].concat());
}

fn agrees(variant: Variant, right: Right) {
    /// All kernels are built of one tree.
    static TREE: Mutex<()> = Mutex::new(());
    let _alone = TREE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = Cache::discover().expect("a cache");
    let begun = Instant::now();
    let kernel = build(&cache, variant).expect("built");
    println!("{}: built in {:.0?}", kernel.release, begun.elapsed());
    match right {
        Right::Loads { sees } => {
            let (status, text) = judged(&kernel.image);
            assert_eq!(status, Some(0), "{text}");
            guest(&kernel, &["--disk", "d=1G,ext4,8M/s"], &["loads", sees]);
        }
        Right::Refused { oracle, module } => {
            refuses(&kernel.image, oracle);
            guest(&kernel, &[], &["refused", module]);
        }
        Right::NotBuilt { oracle, compiler } => {
            refuses(&kernel.image, oracle);
            let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let built = lab::module::build_weir_module(&cache, &kernel, &tree, &[]);
            let why = format!("{:#}", built.expect_err("not built"));
            println!("{why}");
            assert!(why.contains(compiler), "{why}");
        }
    }
}

/// The control: without it the others prove nothing.
#[test]
#[ignore = "builds a kernel: make refused"]
fn as_it_is() {
    agrees(Variant::AsItIs, Right::Loads { sees: "all" });
}

/// The global limits, by which the module proves its hook, come from the function; those of a writer
/// from a copy. The oracle does not look into code. The module counts such passes, and soon
/// leaves all to the kernel.
#[test]
#[ignore = "builds a kernel: make refused"]
fn half_inlined() {
    agrees(Variant::HalfInlined, Right::Loads { sees: "none" });
}

#[test]
#[ignore = "builds a kernel: make refused"]
fn memcg_inlined() {
    agrees(Variant::MemcgInlined, Right::Loads { sees: "none" });
}

#[test]
#[ignore = "builds a kernel: make refused"]
fn inlined() {
    let right = Right::Refused {
        oracle: "domain_dirty_limits",
        module: "this kernel has no function domain_dirty_limits",
    };
    agrees(Variant::Inlined, right);
}

#[test]
#[ignore = "builds a kernel: make refused"]
fn another_argument() {
    let both = "domain_dirty_limits() has other arguments than weir knows";
    let right = Right::Refused {
        oracle: both,
        module: both,
    };
    agrees(Variant::AnotherArgument, right);
}

#[test]
#[ignore = "builds a kernel: make refused"]
fn another_tracepoint() {
    let both = "tracepoint balance_dirty_pages has other arguments than weir knows";
    let right = Right::Refused {
        oracle: both,
        module: both,
    };
    agrees(Variant::AnotherTracepoint, right);
}

#[test]
#[ignore = "builds a kernel: make refused"]
fn no_btf() {
    let right = Right::Refused {
        oracle: "BTF",
        module: "cannot read /sys/kernel/btf/vmlinux",
    };
    agrees(Variant::NoBtf, right);
}

#[test]
#[ignore = "builds a kernel: make refused"]
fn no_ftrace() {
    let right = Right::NotBuilt {
        oracle: "ftrace",
        compiler: "weir needs CONFIG_DYNAMIC_FTRACE_WITH_ARGS",
    };
    agrees(Variant::NoFtrace, right);
}

// SPDX-License-Identifier: GPL-2.0-only
//! Compiles `policy/*.c`, the same files the kernel module is made of, into this crate.
//!
//! As strict as in the kernel: freestanding, no floating point, no warning. A debug build also
//! traps on undefined behaviour, so a test that provokes an overflow or an oversized shift dies
//! there. A fuzzing build is instrumented for libFuzzer, which only clang can do.

use std::{env, fs};

const SOURCES: &str = "../../policy";

fn main() {
    let mut build = cc::Build::new();
    build
        .include(SOURCES)
        .std("gnu11")
        .opt_level(2)
        .flag("-ffreestanding")
        // Else no function is inlined, as another could be linked in its place.
        .flag("-fvisibility=hidden")
        .flag("-Wextra")
        .warnings(true)
        .warnings_into_errors(true)
        .flag_if_supported("-mgeneral-regs-only");
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build
            .flag("-fsanitize=undefined")
            .flag("-fsanitize-undefined-trap-on-error");
    }
    // Set by cargo from `--cfg fuzzing`.
    if env::var_os("CARGO_CFG_FUZZING").is_some() {
        build.compiler("clang").flag("-fsanitize=fuzzer-no-link");
    }

    println!("cargo::rerun-if-changed={SOURCES}");
    let entries = fs::read_dir(SOURCES)
        .unwrap_or_else(|e| panic!("cannot list {SOURCES} (the C sources of the policy): {e}"));
    for entry in entries {
        let path = entry
            .unwrap_or_else(|e| panic!("cannot list {SOURCES}: {e}"))
            .path();
        println!("cargo::rerun-if-changed={}", path.display());
        if path.extension().is_some_and(|extension| extension == "c") {
            build.file(path);
        }
    }
    build.compile("weir_policy");
}

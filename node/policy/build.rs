// SPDX-License-Identifier: GPL-2.0-only
//! Compiles `policy/*.c`, the same files the kernel module is made of, into this crate.
//!
//! As strict as in the kernel: freestanding, no floating point, no warning. A debug build also
//! traps on undefined behaviour, so a test that provokes an overflow or an oversized shift dies
//! there. A fuzzing build is instrumented for libFuzzer, which only clang can do.

use std::{env, fs, path::Path};

const SOURCES: &str = "../../policy";
/// Not part of the policy: how this compiler lays its structs out, for a test.
const LAYOUT: &str = "src/layout.c";

/// The list of the module's periods, in milliseconds.
const PERIODS: &str = "../../policy/names.h";

/// Writes each `#define WEIR_NAME_MS VALUE` with the comment above it as a Rust constant.
fn periods() -> String {
    let text = fs::read_to_string(PERIODS).unwrap_or_else(|e| panic!("{PERIODS}: {e}"));
    let (mut rust, mut about) = (String::new(), String::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(comment) = line.strip_prefix("/* ") {
            about = comment.trim_end_matches(" */").to_owned();
        }
        let ["#define", name, value] = words[..] else {
            continue;
        };
        let Some(name) = name
            .strip_prefix("WEIR_")
            .filter(|name| name.ends_with("_MS"))
        else {
            continue;
        };
        let value = value.trim_start_matches("WEIR_").trim_end_matches("ULL");
        rust += &format!("/// {about} In milliseconds.\npub const {name}: u64 = {value};\n");
    }
    rust
}

fn main() {
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("periods.rs"), periods()).expect("writing periods.rs");
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
    println!("cargo::rerun-if-changed={LAYOUT}");
    build.file(Path::new(LAYOUT)).compile("weir_policy");
}

// SPDX-License-Identifier: GPL-2.0-only
//! Looks for input on which the policy breaks a promise, guided by libFuzzer.
//!
//! The promises are those of `policy::check`, which `cargo test` checks too. Only the C code is
//! instrumented (see `build.rs`), so the guidance is about what is under test and a stable Rust
//! toolchain will do. `make fuzz` builds and runs this for a while.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::check::Case;

fuzz_target!(|bytes: &[u8]| {
    if let Some(case) = Case::from_bytes(bytes) {
        case.check();
    }
});

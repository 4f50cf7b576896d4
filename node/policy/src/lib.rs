// SPDX-License-Identifier: GPL-2.0-only
//! weir's decisions, callable from Rust.
//!
//! The decisions themselves are the C files in `policy/`, which the kernel module is made of too;
//! `build.rs` compiles those very files into this crate. Here are only their types and thin, safe
//! wrappers, one Rust module per C file. Which decision is made, why, and a worked example with
//! numbers stand at the top of each C file; each example is a test here.
//!
//! Units: page counts (of 4 KiB, whatever the running kernel's pages are) unless a name says otherwise. Every function is pure, accepts any
//! input and never panics: out-of-range counts saturate.

pub mod amend;
pub mod arith;
pub mod assist;
pub mod bandwidth;
pub mod btf;
pub mod ceiling;
#[cfg(any(test, feature = "check"))]
pub mod check;
pub mod credit;
pub mod division;
pub mod drain;
pub mod fair;
mod ffi;
pub mod floor;
pub mod headroom;
pub mod names;
pub mod narrow;
pub mod needs;
pub mod objective;
pub mod parse;
pub mod pass;
pub mod pause;
pub mod reclaim;
pub mod recorded;
pub mod reserve;
pub mod subtree;
pub mod tier;
pub mod window;

/// log2 of the bytes of a page: the unit that the C files count in when a program calls them. A kernel's
/// pages may be larger (`knobs::PageSize`).
pub const PAGE_SHIFT: u32 = ffi::WEIR_PAGE_SHIFT;
/// The most pages Linux can express as a dirty limit (16 TiB); larger counts saturate to it.
pub const PAGES_MAX: u64 = ffi::WEIR_PAGES_MAX as u64;
/// "No ceiling", and a `memory.max` that is `max`.
pub const UNLIMITED: u64 = ffi::WEIR_UNLIMITED as u64;

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    /// FNV-1a, as `tools/ffi.py` has it.
    #[test]
    fn the_bindings_are_of_these_headers() {
        let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policy");
        let entries = fs::read_dir(policy).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_header = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "h");
        let mut headers: Vec<PathBuf> = paths.filter(is_header).collect();
        headers.sort();
        let bytes = headers
            .iter()
            .flat_map(|path| fs::read(path).expect("a header"));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(
            hash,
            crate::ffi::FINGERPRINT,
            "run tools/ffi.py, which takes bindgen"
        );
    }
}

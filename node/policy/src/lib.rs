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
pub mod floor;
pub mod headroom;
#[cfg(test)]
mod layout;
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
pub const PAGE_SHIFT: u32 = 12;
/// The most pages Linux can express as a dirty limit (16 TiB); larger counts saturate to it.
pub const PAGES_MAX: u64 = u32::MAX as u64;
/// "No ceiling", and a `memory.max` that is `max`.
pub const UNLIMITED: u64 = u64::MAX;

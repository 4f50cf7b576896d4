// SPDX-License-Identifier: GPL-2.0-only
//! What can only be seen in a guest: a stock kernel from the archive, booted in QEMU.
//!
//! One program, so that guests of one file run beside those of another: cargo runs programs one
//! after the other.

mod arm64;
mod common;
mod explain;
mod host;
mod lab;
mod module;
mod node;
mod oracle;
mod patched;
mod proof;
mod refused;
mod rt;
mod run;
mod scale;
mod tiers;

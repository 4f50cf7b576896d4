// SPDX-License-Identifier: GPL-2.0-only
//! weir on the machine it runs on: can it run here ([`doctor`]) or
//! on another kernel ([`oracle`]), loading and unloading
//! ([`module`]), what is in effect now ([`status`]), tiers of memory ([`tier`]), a
//! unit's rate of writing ([`bandwidth`]).

pub mod bandwidth;
pub mod doctor;
pub mod module;
pub mod oracle;
mod refusal;
pub mod requirements;
pub mod status;
mod system;
pub mod tier;

pub use system::System;

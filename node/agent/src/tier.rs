// SPDX-License-Identifier: GPL-2.0-only
//! Tiers of memory: keeps cgroups at their shares of the fast ones. [`balancer`] has the whole;
//! `policy/tier_plan.c` decides what is moved, [`engine`] says how.

mod address_space;
pub mod balancer;
mod choice;
mod damon;
mod engine;
mod groups;
mod heat;
pub mod host;
mod metrics;
mod move_pages;
mod reclaim;
pub mod settings;
pub mod status;
mod stuck;
mod sys;
mod totals;
mod worker;

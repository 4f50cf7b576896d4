// SPDX-License-Identifier: GPL-2.0-only
//! The agent: keeps knobs as a policy file says, on cgroups as they appear, and shows what the host
//! and its cgroups do to Prometheus.
//!
//! ```text
//! policy file ─► rules ─► reconciler ─► memory.dirty_*        run: one thread, ticks and bells
//! units, labels ─► requests ─┘ └─► saved values, journal         inotify tells of new cgroups
//! memory.tier_stat, limits ─► tier ─► pages between tiers        a thread of its own moves them
//! PSI trigger, usage, pgsteal ─► reclaim ─► memory.high          a thread of its own
//! fsyncs, pressure ─► objective ─► memory.dirty_bytes of others  a thread of its own
//! rules, memory.stat ─► stock ─► memory.high, io.max, queue/*    a thread of its own, no module
//! flushers, memory.stat ─► assist ─► sync_file_range()           threads of their own
//! stalls, and who caused them ─► owed ─► counters                a thread of its own
//! cgroup files, /proc, /sys/kernel/weir ─► metrics ─► http      threads of their own
//! ```
//!
//! A further part that looks and acts is another [`controller::Controller`].

pub mod assist;
pub mod containers;
pub mod controller;
mod desired_settings;
mod dirty_pages;
mod disk_queue;
mod drain_rates;
mod enforcer;
mod family;
mod file_stamp;
mod flat_keyed;
mod flushers;
pub mod globs;
mod http;
pub mod journal;
mod knob_file;
mod knob_states;
mod limits;
pub mod metrics;
pub mod objective;
mod owed;
mod policy_file;
pub mod preview;
pub mod reclaim;
pub mod reconciler;
mod requested_limits;
pub mod requests;
pub mod rules;
pub mod run;
mod saved_file;
mod saved_limits;
pub mod saved_values;
pub mod setting;
mod slow_file;
mod step;
pub mod stock;
mod stock_file;
pub mod stock_section;
mod thread;
pub mod tier;
pub mod tree;
mod watch;

pub use run::{Error, Options, run};

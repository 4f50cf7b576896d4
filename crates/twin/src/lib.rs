// SPDX-License-Identifier: GPL-2.0-only
//! The twin: a scenario on a model of Linux's dirty throttling instead of a kernel.
//!
//! A discrete-event simulation in integers: tasks dirty pages, flushers submit them, disks write
//! them, and the throttle paces the tasks by what it finds. A run of a minute takes a fraction of a
//! second and is the same every time, so hosts of any size can be tried, and knobs be searched.
//! Each mechanism is a file that says at its top what it models, with an example in numbers:
//!
//! | file | what |
//! | --- | --- |
//! | [`domain`] | limits, freerun, the smoothed limit, of the host and of each cgroup |
//! | [`share`] | what part of a domain's limit each disk is entitled to |
//! | [`controller`] | position ratio, base rate, bandwidth, how long a pause is |
//! | [`throttle`] | a writer's pass |
//! | [`flusher`] | background, periodic and sync writeback |
//! | [`device`] | a disk, who gets room in its queue, limits and weights |
//! | [`journal`] | commits, and who waits for them |
//! | [`task`], [`fio`] | fio's processes and options |
//! | [`memory`] | tiers of memory, who holds it, what reading it costs, and the agent that moves it |
//! | [`ram`] | what memory is free, and who waits when little is |
//! | [`psi`] | pressure stall information |
//! | [`weir`] | the module: which counts the policy is handed, what its answer does, and who waits for whose weight |
//! | [`setup`], [`run`] | from a scenario, and to its figures |
//!
//! weir's decisions are made by `policy/`, the code the module is made of. What is not modelled is
//! refused by key ([`setup`]) and listed in `docs/twin.md`, with how far off the twin is.

mod clock;
mod controller;
mod device;
mod domain;
mod fio;
mod flusher;
mod journal;
mod latency;
mod memory;
mod pages;
mod psi;
mod ram;
mod random;
mod run;
mod setup;
mod share;
mod task;
mod throttle;
mod watch;
mod weir;
mod world;

pub use run::{Outcome, run, run_and_watch};
pub use setup::{Refusal, dirty_limit};
pub use watch::{Seen, Watched};

// SPDX-License-Identifier: GPL-2.0-only
//! The twin: a scenario on a model of Linux's dirty throttling instead of a kernel.
//!
//! A discrete-event simulation in integers: tasks dirty pages, flushers submit them, disks write
//! them, and the throttle paces the tasks by what it finds. A run of a minute takes a fraction of a
//! second and is the same every time, so hosts of any size can be tried, and knobs be searched.
//! Each mechanism is a file that says at its top what it models, with an example in numbers.
//!
//! The modelled kernel is a stack of layers, named as the kernel names them. Each owns the one
//! below it ([`layer`]): calls go down, events go up, through [`host`]:
//!
//! | layer | what |
//! | --- | --- |
//! | [`task`] | fio's processes, their options and syscalls |
//! | [`writeback`], [`vmscan`] | the throttle, flushers, reclaim |
//! | [`weir`] | the module: which counts the policy is handed, and what its answer does |
//! | [`jbd2`] | ext4's commits, and who waits for them |
//! | [`xlog`] | xfs's log |
//! | [`blk`] | a disk, who gets room in its queue, limits and weights |
//! | [`mm`] | pages, cgroups, the dirty limits and rates they make |
//! | [`sched`] | CPUs, pressure stall information |
//! | [`sim`] | clock, event queue, random numbers |
//!
//! Beside it are [`memory`], tiers of memory and who holds it, and [`probe`], who looks at it all.
//! [`setup`] makes a host of a scenario, [`mod@run`] figures of its phases.
//!
//! weir's decisions are made by `policy/`, the code the module is made of. What is not modelled is
//! refused by key ([`setup`]) and listed in `docs/twin.md`, with how far off the twin is.

#[macro_use]
mod layer;

mod blk;
mod host;
mod jbd2;
mod machine;
mod memory;
mod mm;
mod probe;
mod run;
mod sched;
mod setup;
mod sim;
mod task;
mod trace;
mod vmscan;
mod weir;
mod writeback;
mod xlog;

pub use probe::Watched;
pub use run::{RunResults, WatchLevel, run, run_and_watch};
pub use setup::{Levels, Refusal, dirty_levels};
pub use trace::{cgroup_inode, task_id};

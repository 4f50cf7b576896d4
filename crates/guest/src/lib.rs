// SPDX-License-Identifier: GPL-2.0-only
//! Everything that runs inside a guest.
//!
//! The lab puts the `weir` binary into an initramfs as `/init`, next to a [`protocol::Plan`]. The
//! kernel starts it as process 1. It mounts what a Linux host has mounted, forks the agent that
//! carries out the plan, and stays behind as a minimal init: it reaps orphans, and when the agent has
//! ended, whichever way, it powers the machine off through sysrq. An orderly shutdown would first
//! write the dirty pages back, which takes minutes on the slow disks scenarios are about.
//!
//! Three outputs, three purposes: events go over the [channel](channel), the console is the kernel's
//! log for people, and the verdict about the kernel's health is made here, from `/dev/kmsg`
//! ([`klog`]), because only the guest sees all of it.

pub mod channel;
pub mod klog;
pub mod memory;
pub mod protocol;

mod cgroups;
mod disks;
mod flusher;
pub mod jobs;
mod limits;
mod phases;
mod record;
mod sample;
mod schedule;
mod script;
mod system;
mod tiers;
mod weir_agent;

use anyhow::{Context, Result};
use channel::Channel;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, fork};
use protocol::{Event, PLAN_PATH, Plan, Work};

/// True if this process is the first one of a guest: process 1, started by a kernel as `/init`
/// (and not, say, the entry point of a container).
pub fn is_guest() -> bool {
    std::process::id() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == "/init")
}

/// Carries out `/plan.json` and powers the machine off. Only for process 1 of a guest.
pub fn init() -> ! {
    if let Err(error) = system::mount_all() {
        eprintln!("weir guest: {error:#}");
        system::power_off();
    }
    // SAFETY: no thread has been started yet. The kernel gives process 1 no PATH.
    unsafe { std::env::set_var("PATH", "/usr/sbin:/usr/bin") };
    // SAFETY: no thread has been started yet, so the child may use the heap and locks freely.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            agent();
            std::process::exit(0)
        }
        Ok(ForkResult::Parent { child }) => loop {
            match waitpid(None, None::<WaitPidFlag>) {
                Ok(status) if status.pid() == Some(child) => system::power_off(),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => {
                    eprintln!("weir guest: waiting for the agent: {error}");
                    system::power_off();
                }
            }
        },
        Err(error) => {
            eprintln!("weir guest: cannot fork the agent: {error}");
            system::power_off()
        }
    }
}

/// The agent: does the work, reports whatever happened, then what the kernel log says.
fn agent() {
    let channel = match Channel::open() {
        Ok(channel) => channel,
        Err(error) => return eprintln!("weir guest: {error:#}"),
    };
    channel.send(&Event::Boot {
        release: system::kernel_release(),
    });
    channel.watch();
    if let Err(error) = work(&channel) {
        channel.send(&Event::Problem {
            text: format!("{error:#}"),
            failed: false,
        });
    }
    channel.send(&klog::scan());
    channel.send(&Event::End);
}

fn work(channel: &Channel) -> Result<()> {
    let text = std::fs::read_to_string(PLAN_PATH).context(PLAN_PATH)?;
    let plan: Plan = serde_json::from_str(&text)
        .with_context(|| format!("{PLAN_PATH}: not a plan this agent understands"))?;
    system::load_modules(&plan.modules)?;
    disks::prepare(&plan, channel)?;
    let prepared = || {
        disks::slow_down(&plan)?;
        channel.prepared()
    };
    match &plan.work {
        Work::Script { args, env } => {
            prepared()?;
            script::run(args, env, channel)
        }
        Work::Scenario {
            scenario,
            arm,
            record,
        } => phases::run(scenario, *arm, *record, channel, &prepared),
    }
}

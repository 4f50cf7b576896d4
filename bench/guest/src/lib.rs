// SPDX-License-Identifier: GPL-2.0-only
//! Everything that runs inside a guest.
//!
//! The lab puts the `weir` binary into an initramfs as `/init`, next to a
//! [`protocol::GuestConfig`]. The kernel starts it as process 1. It mounts what a Linux host has
//! mounted, forks the agent that does the work it is given, and stays behind as a minimal init: it reaps orphans, and when the agent
//! has ended, whichever way, it powers the machine off through sysrq. An orderly shutdown would
//! first write the dirty pages back, which takes minutes on the slow disks scenarios are about.
//!
//! Three outputs, three purposes: events go over a serial port, the console is the kernel's
//! log for people, and the verdict about the kernel's health is made here, from `/dev/kmsg`
//! ([`runner::klog`]), because only the guest sees all of it.
//!
//! What runs a scenario, once the disks are there, is the crate `runner`, which a host has in
//! common with guests.

pub mod protocol;

mod disks;
mod script;
mod serial;
mod system;
mod work;

use anyhow::{Context, Result, anyhow};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, fork};
use protocol::{CONFIG_PATH, Event, GuestConfig, MODULE_PATH, OUT, Work};
use runner::klog::{self, Log};
use runner::{Channel, Machine};
use std::path::Path;
use std::process::Command;

/// True if this process is the first one of a guest: process 1, started by a kernel as `/init`
/// (and not, say, the entry point of a container).
pub fn is_guest() -> bool {
    std::process::id() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == "/init")
}

/// Carries out `/guest.json` and powers the machine off. Only for process 1 of a guest.
pub fn init() -> ! {
    if let Err(error) = system::mount_all() {
        eprintln!("weir guest: {error:#}");
        system::power_off();
    }
    // All that runs here inherits it. fio spins for as long as a sleep may be late, which is dear to
    // emulate; the kernel's 50 us of slack is most of that.
    if let Err(error) = nix::sys::prctl::set_timerslack(1) {
        eprintln!("weir guest: setting the slack of timers: {error}");
    }
    // SAFETY: no thread has been started yet. The kernel gives process 1 no PATH.
    unsafe { std::env::set_var("PATH", "/usr/sbin:/usr/bin") };
    // SAFETY: no thread has been started yet, so the child may use the heap and locks freely.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            run_agent();
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
fn run_agent() {
    let channel = match serial::open() {
        Ok(channel) => channel,
        Err(error) => return eprintln!("weir guest: {error:#}"),
    };
    if let Err(error) = work::receive_work(&channel) {
        return eprintln!("weir guest: {error:#}");
    }
    channel.send(&Event::Boot {
        release: runner::system::kernel_release(),
    });
    channel.start_heartbeat();
    if let Err(error) = run_work(&channel) {
        channel.send(&Event::Problem {
            text: format!("{error:#}"),
            failed: false,
        });
    }
    channel.send(&klog::scan_log(&mut Log::from_start(), 0));
    channel.send(&Event::End);
}

fn run_work(channel: &Channel) -> Result<()> {
    let text = std::fs::read_to_string(CONFIG_PATH).context(CONFIG_PATH)?;
    let config: GuestConfig = serde_json::from_str(&text)
        .with_context(|| format!("{CONFIG_PATH}: not a config this agent understands"))?;
    system::load_modules(&config.modules)?;
    let site = disks::prepare_disks(&config, channel)?;
    let machine = Guest {
        config: &config,
        channel,
    };
    match &config.work {
        Work::Script { args, env, out } => {
            machine.throttle_disks()?;
            system::bring_up_loopback();
            if *out {
                system::make_dir(OUT)?;
            }
            script::run(args, env, channel)?;
            match out {
                true => script::send_files(Path::new(OUT), channel),
                false => Ok(()),
            }
        }
        Work::Scenario {
            scenario,
            arm,
            record,
        } => runner::run(scenario, *arm, *record, &site, channel, &machine),
    }
}

/// The machine of a scenario that runs in a guest.
struct Guest<'a> {
    config: &'a GuestConfig,
    channel: &'a Channel,
}

impl Machine for Guest<'_> {
    fn load_module(&self) -> Result<()> {
        self.channel.send_stage("insmod weir.ko");
        runner::system::run(Command::new("insmod").arg(MODULE_PATH)).map_err(|error| {
            anyhow!(
                "the module refused to load: {error:#}; the kernel log says: {}",
                module_log()
            )
        })
    }

    fn throttle_disks(&self) -> Result<()> {
        disks::set_disk_bandwidths(self.config)?;
        serial::await_disk_throttle(self.channel)
    }
}

/// The module's latest lines in the kernel log.
fn module_log() -> String {
    let messages = Log::from_start().read_messages().unwrap_or_default();
    let own: Vec<_> = messages
        .into_iter()
        .filter(|message| message.starts_with("weir:"))
        .collect();
    if own.is_empty() {
        "nothing".to_owned()
    } else {
        own[own.len().saturating_sub(5)..].join("; ")
    }
}

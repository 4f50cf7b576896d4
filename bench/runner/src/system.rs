// SPDX-License-Identifier: GPL-2.0-only
//! The kernel that a scenario runs on: its controllers, the module's parameters, commands.

use anyhow::{Context, Result, bail, ensure};
use scenario::measured::Cpu;
use scenario::model::Cgroup;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Mount point of cgroup v2.
pub const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Controllers that a scenario's cgroups need: what is measured comes of memory and io, their files
/// of others.
pub fn needed_controllers(cgroups: &BTreeMap<String, Cgroup>) -> BTreeSet<String> {
    let files = cgroups.values().flat_map(|cgroup| cgroup.files.keys());
    files
        .filter_map(|file| file.split_once('.'))
        .map(|(controller, _)| controller)
        .filter(|controller| *controller != "cgroup")
        .chain(["memory", "io"])
        .map(str::to_owned)
        .collect()
}

/// Lets the children of the cgroup at `directory` use these controllers.
///
/// # Errors
/// The kernel's.
pub fn enable_controllers(directory: &Path, controllers: &BTreeSet<String>) -> Result<()> {
    let file = directory.join("cgroup.subtree_control");
    let words: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    let words = words.join(" ");
    std::fs::write(&file, &words)
        .with_context(|| format!("writing `{words}` to {}", file.display()))
}

/// Writes the module's parameters.
pub fn write_parameters(parameters: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in parameters {
        ensure!(
            name != "assist",
            "assist = {value} is the agent's: only the twin has it (`--on twin`)"
        );
        ensure!(
            value != "auto",
            "{name} = \"auto\" is what the agent finds by looking: only the twin has it (`--on twin`)"
        );
        let file = Path::new("/sys/module/weir/parameters").join(name);
        std::fs::write(&file, value)
            .with_context(|| format!("writing `{value}` to {}", file.display()))?;
    }
    Ok(())
}

/// Switches the multi-generational LRU on or off.
///
/// # Errors
/// This kernel has none.
pub fn set_lru_gen(on: bool) -> Result<()> {
    let file = "/sys/kernel/mm/lru_gen/enabled";
    let value = if on { "y" } else { "n" };
    std::fs::write(file, value).with_context(|| format!("lru_gen: writing `{value}` to {file}"))
}

/// Keeps all of this process in memory, what it maps later included: jobs that allocate would have
/// the kernel swap out the process that watches them.
///
/// # Errors
/// It takes CAP_IPC_LOCK or a larger RLIMIT_MEMLOCK.
pub fn lock_memory() -> Result<()> {
    use nix::sys::mman::{MlockAllFlags, mlockall};
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
        .context("locking the sampler's memory")
}

/// CPU time of all CPUs since the machine was started.
///
/// # Errors
/// /proc/stat is not as the kernel documents it.
pub fn read_cpu_time() -> Result<Cpu> {
    let text = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    parse_cpu_time(&text).context("/proc/stat: no line of all CPUs")
}

/// Nanoseconds of a tick of /proc/stat (`USER_HZ`, 100 a second on x86-64).
const TICK_NS: u64 = 10_000_000;

/// The first line: `cpu`, then ticks in user mode, niced, in the kernel, idle, waiting for I/O, in
/// interrupts and in softirqs.
fn parse_cpu_time(text: &str) -> Option<Cpu> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else {
        return None;
    };
    Some(Cpu {
        user_ns: (user + nice) * TICK_NS,
        system_ns: (system + irq + softirq) * TICK_NS,
    })
}

/// Runs a command to its end; its output becomes part of the error if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// A time in whole nanoseconds.
pub fn to_nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Release of the running kernel (`uname -r`).
pub fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|text| text.trim().to_owned())
        .unwrap_or_else(|error| format!("unknown ({error})"))
}

/// A line of /proc/meminfo, as `MemAvailable:`, in bytes.
pub fn read_meminfo(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_count_as_the_kernels_time() {
        let text = "cpu  10 1 20 1000 5 2 3 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n";
        let cpu = parse_cpu_time(text).expect("read");
        assert_eq!((cpu.user_ns, cpu.system_ns), (110_000_000, 250_000_000));
        assert_eq!(parse_cpu_time("cpu0 1 2 3\n"), None);
    }
}

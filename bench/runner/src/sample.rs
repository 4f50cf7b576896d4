// SPDX-License-Identifier: GPL-2.0-only
//! Watching a phase: dirty memory over time, and counters before and after.
//!
//! Watching must not change what is watched. The host's dirty + writeback pages come from
//! `/proc/vmstat`, which is precise enough and flushes nothing, every 50 ms. A cgroup's come from
//! `memory.dirty_stat`, which reads the module's own counters. Without the module there is only
//! `memory.stat`, and reading that flushes the kernel's per-cgroup statistics, which are up to
//! seconds stale otherwise and which the dirty throttling itself goes by: a reader makes the stock
//! kernel throttle better than it does. So it is read only every two seconds, and a cgroup's
//! figures in the stock arm are coarse.

use crate::cgroups::parse_flat_key;
use crate::flusher::Flushers;
use crate::site::MountedDisk;
use crate::system;
use anyhow::{Context, Result};
use knobs::PageSize;
use observe::read::{cgroup, host};
use scenario::measured::{Cpu, IoStalls};
use scenario::rundir::{BeforeAfter, DiskBytes, PhaseResult, Pressure, Series};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(50);
/// Flushers and pressure are looked at at every n-th sample.
const SECOND: usize = 20;
/// `memory.stat` is read at every n-th sample.
const COARSE: usize = 40;
const SECTOR: u64 = 512;
const NS_PER_MS: u64 = 1_000_000;

/// Disks and cgroups that are watched.
pub struct Watched {
    /// Disks, by their names.
    pub disks: BTreeMap<String, MountedDisk>,
    /// Paths in the scenario, and where they are.
    pub cgroups: Vec<(String, PathBuf)>,
}

/// A phase being watched.
pub struct PhaseWatch {
    start: Instant,
    before: Counters,
    watched: Watched,
    stop: Arc<AtomicBool>,
    sampler: JoinHandle<Sampled>,
}

/// Samples and counters of the sampler.
#[derive(Default)]
struct Sampled {
    series: BTreeMap<String, Series>,
    flushers: Flushers,
    io_stalls: Vec<IoStalls>,
}

#[derive(Clone, Default)]
struct Counters {
    disks: BTreeMap<String, DiskBytes>,
    pressure: Pressure,
    events: BTreeMap<String, u64>,
    cpu: Cpu,
    dirty_stat: BTreeMap<String, String>,
    written: BTreeMap<String, u64>,
    cgroup_pressure: BTreeMap<String, Pressure>,
    oom_kills: BTreeMap<String, u64>,
}

/// Counters of /proc/vmstat that are kept, by how their names begin: `allocstall` is one per zone.
const EVENTS: &[&str] = &[
    "allocstall",
    "nr_vmscan_",
    "oom_kill",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pswp",
    "workingset_refault",
];

impl PhaseWatch {
    /// Starts to sample what is watched.
    pub fn start(watched: Watched) -> Result<PhaseWatch> {
        let before = Counters::read(&watched)?;
        let stop = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        let (flag, cgroups) = (stop.clone(), watched.cgroups.clone());
        let sampler = std::thread::spawn(move || sample_until_stopped(&cgroups, start, &flag));
        Ok(PhaseWatch {
            start,
            before,
            watched,
            stop,
            sampler,
        })
    }

    /// Ends; everything but the jobs' results is filled in.
    pub fn finish_phase(self, phase: &str) -> Result<PhaseResult> {
        let elapsed = self.start.elapsed();
        let after = Counters::read(&self.watched)?;
        self.stop.store(true, Ordering::Relaxed);
        let Sampled {
            series: samples,
            flushers,
            io_stalls,
        } = self
            .sampler
            .join()
            .map_err(|_| anyhow::anyhow!("the sampling thread panicked"))?;
        let disks = after.disks.iter().map(|(name, after)| {
            let before = self.before.disks.get(name).copied().unwrap_or_default();
            let moved = DiskBytes {
                written: after.written - before.written,
                read: after.read - before.read,
                queued_ns: after
                    .queued_ns
                    .zip(before.queued_ns)
                    .map(|(after, before)| after.saturating_sub(before)),
            };
            (name.clone(), moved)
        });
        let dirty_stat = after.dirty_stat.into_iter().map(|(path, after)| {
            let before = self
                .before
                .dirty_stat
                .get(&path)
                .cloned()
                .unwrap_or_default();
            (path, BeforeAfter { before, after })
        });
        let written = after.written.into_iter().map(|(path, after)| {
            let before = self.before.written.get(&path).copied().unwrap_or_default();
            (path, after.saturating_sub(before))
        });
        let cgroup_pressure = after.cgroup_pressure.into_iter().map(|(path, after)| {
            let before = self.before.cgroup_pressure.get(&path);
            let before = before.copied().unwrap_or_default();
            let lost = Pressure {
                io_some_ns: after.io_some_ns - before.io_some_ns,
                io_full_ns: after.io_full_ns - before.io_full_ns,
                ..Pressure::default()
            };
            (path, lost)
        });
        let oom_kills = after.oom_kills.into_iter().map(|(path, after)| {
            let before = self.before.oom_kills.get(&path).copied();
            (path, after.saturating_sub(before.unwrap_or_default()))
        });
        let events = after.events.into_iter().map(|(name, after)| {
            let before = self.before.events.get(&name).copied().unwrap_or_default();
            (name, after.saturating_sub(before))
        });
        Ok(PhaseResult {
            phase: phase.to_owned(),
            elapsed_ns: system::to_nanoseconds(elapsed),
            jobs: BTreeMap::new(),
            samples,
            disks: disks.collect(),
            io_stalls,
            oom_kills: oom_kills.collect(),
            killed: Vec::new(),
            cgroup_pressure: cgroup_pressure.collect(),
            pressure: Pressure {
                io_some_ns: after.pressure.io_some_ns - self.before.pressure.io_some_ns,
                io_full_ns: after.pressure.io_full_ns - self.before.pressure.io_full_ns,
                mem_some_ns: after.pressure.mem_some_ns - self.before.pressure.mem_some_ns,
                mem_full_ns: after.pressure.mem_full_ns - self.before.pressure.mem_full_ns,
            },
            flusher_cpu_ns: flushers.flushing_ns(),
            events: events.collect(),
            cpu: Some(Cpu {
                user_ns: after.cpu.user_ns - self.before.cpu.user_ns,
                system_ns: after.cpu.system_ns - self.before.cpu.system_ns,
            }),
            dirty_stat: dirty_stat.collect(),
            written: written.collect(),
            memory: BTreeMap::new(),
            tiers: None,
        })
    }
}

impl Counters {
    fn read(watched: &Watched) -> Result<Counters> {
        let mut counters = Counters::default();
        for (name, disk) in &watched.disks {
            counters.disks.insert(name.clone(), read_disk_bytes(disk)?);
        }
        counters.pressure = Pressure {
            io_some_ns: read_stall_ns(Path::new(IO), "some")?,
            io_full_ns: read_stall_ns(Path::new(IO), "full")?,
            mem_some_ns: read_stall_ns(Path::new(MEMORY), "some")?,
            mem_full_ns: read_stall_ns(Path::new(MEMORY), "full")?,
        };
        let vmstat = fs::read_to_string("/proc/vmstat").context("/proc/vmstat")?;
        counters.events = parse_events(&vmstat);
        counters.cpu = system::read_cpu_time()?;
        let stack = host::read_stack(Path::new("/"));
        for (path, directory) in &watched.cgroups {
            if let Some(file) = dirty_stat_file(directory) {
                let text =
                    fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
                counters.dirty_stat.insert(path.clone(), text);
            }
            let file = directory.join("io.stat");
            let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            counters
                .written
                .insert(path.clone(), cgroup::written_bytes(&text, &stack));
            // A cgroup whose parent hands no memory controller down has none.
            let text = fs::read_to_string(directory.join("memory.events")).unwrap_or_default();
            let kills = parse_flat_key(&text, "oom_kill");
            counters
                .oom_kills
                .extend(kills.map(|kills| (path.clone(), kills)));
            let file = directory.join("io.pressure");
            let pressure = Pressure {
                io_some_ns: read_stall_ns(&file, "some")?,
                io_full_ns: read_stall_ns(&file, "full")?,
                ..Pressure::default()
            };
            counters.cgroup_pressure.insert(path.clone(), pressure);
        }
        Ok(counters)
    }
}

/// The counters that are kept of /proc/vmstat's text.
fn parse_events(vmstat: &str) -> BTreeMap<String, u64> {
    vmstat
        .lines()
        .filter(|line| EVENTS.iter().any(|event| line.starts_with(event)))
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// A cgroup's `memory.dirty_stat`, if this kernel has it.
fn dirty_stat_file(cgroup: &Path) -> Option<PathBuf> {
    Some(cgroup.join(knobs::stat_file())).filter(|file| file.exists())
}

/// Of the device that has the requests: before 6.4 the kernel counts a bio of the device mapper when
/// it begins, so a disk would seem to have written all that it still queues.
fn read_disk_bytes(disk: &MountedDisk) -> Result<DiskBytes> {
    // Documentation/block/stat.rst: read sectors are the third field, written ones the seventh, and
    // milliseconds of all requests the eleventh.
    let file = disk.lowest_device().join("stat");
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let fields: Vec<u64> = text
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    if fields.len() < 11 {
        anyhow::bail!(
            "{}: not the format the kernel documents: {text}",
            file.display()
        );
    }
    Ok(DiskBytes {
        written: fields[6] * SECTOR,
        read: fields[2] * SECTOR,
        queued_ns: Some(fields[10] * NS_PER_MS),
    })
}

const IO: &str = "/proc/pressure/io";
const MEMORY: &str = "/proc/pressure/memory";

/// The `total=` of a line of a file of pressure, in nanoseconds.
fn read_stall_ns(file: &Path, line: &str) -> Result<u64> {
    let name = file.display();
    let text =
        fs::read_to_string(file).with_context(|| format!("{name} (is PSI switched off?)"))?;
    let us = parse_total(&text, line);
    let us = us.with_context(|| format!("{name}: no total in its line `{line}`"))?;
    Ok(us * 1000)
}

fn parse_total(text: &str, line: &str) -> Option<u64> {
    text.lines()
        .find(|text| text.starts_with(line))?
        .rsplit_once("total=")?
        .1
        .trim()
        .parse()
        .ok()
}

/// Runs in a thread of its own. A subject that cannot be read has no sample at that time.
fn sample_until_stopped(
    cgroups: &[(String, PathBuf)],
    start: Instant,
    stop: &AtomicBool,
) -> Sampled {
    let mut sampled = Sampled::default();
    let ns = || system::to_nanoseconds(start.elapsed());
    let precise: Vec<bool> = cgroups
        .iter()
        .map(|(_, directory)| dirty_stat_file(directory).is_some())
        .collect();
    let mut next = start;
    for round in 0.. {
        let mut add = |subject: &str, bytes: Option<u64>| {
            if let Some(bytes) = bytes {
                let series = sampled.series.entry(subject.to_owned()).or_default();
                series.at_ns.push(ns());
                series.dirty_bytes.push(bytes);
            }
        };
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let page = PageSize::running().bytes();
        add(
            "host",
            sum_two_keys(&vmstat, "nr_dirty", "nr_writeback").map(|pages| pages * page),
        );
        for ((path, directory), precise) in cgroups.iter().zip(&precise) {
            let (file, keys) = match precise {
                true => (knobs::stat_file(), ("dirty", "writeback")),
                false if round % COARSE == 0 => ("memory.stat", ("file_dirty", "file_writeback")),
                false => continue,
            };
            let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
            add(path, sum_two_keys(&text, keys.0, keys.1));
        }
        if let Some(host) = sampled.series.get_mut("host") {
            for (series, key) in [
                (&mut host.writeback_bytes, "nr_writeback"),
                (&mut host.limit_bytes, "nr_dirty_threshold"),
                (&mut host.background_bytes, "nr_dirty_background_threshold"),
            ] {
                series.extend(parse_flat_key(&vmstat, key).map(|pages| pages * page));
            }
        }
        let over = stop.load(Ordering::Relaxed);
        if over || round % SECOND == 0 {
            sampled.flushers.sample_workers();
            let io = Path::new(IO);
            if let (Ok(some_ns), Ok(full_ns)) =
                (read_stall_ns(io, "some"), read_stall_ns(io, "full"))
            {
                sampled.io_stalls.push(IoStalls {
                    at_ns: ns(),
                    some_ns,
                    full_ns,
                });
            }
        }
        if over {
            break;
        }
        next += EVERY;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    sampled
}

fn sum_two_keys(text: &str, one: &str, other: &str) -> Option<u64> {
    Some(parse_flat_key(text, one)? + parse_flat_key(text, other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_totals_are_found_by_line() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n";
        assert_eq!(parse_total(text, "some"), Some(123));
        assert_eq!(parse_total(text, "full"), Some(45));
        assert_eq!(parse_total("", "full"), None);
    }

    #[test]
    fn only_the_events_that_are_kept_are_read() {
        let text = "nr_dirty 5\nallocstall_dma32 1\nallocstall_normal 2\noom_kill 0\n";
        let kept = parse_events(text);
        assert_eq!(kept.len(), 3);
        assert_eq!(kept["allocstall_normal"], 2);
    }
}

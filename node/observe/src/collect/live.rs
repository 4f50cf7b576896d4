// SPDX-License-Identifier: GPL-2.0-only
//! A look at the running kernel for some time.

use super::covered::Covered;
use super::homes::Homes;
use super::tasks::{self, Asleep, Tasks, now_ns};
use super::tracefs::Tracefs;
use crate::model::cgroup::{ROOT, subtract_totals};
use crate::model::host::{self as devices_of, HostSettings};
use crate::model::observation::Observation;
use crate::model::target::Target;
use crate::model::trace::Trace;
use crate::model::wait::{Wait, Waits};
use crate::read::cgroup::Want;
use crate::read::recording::{Recording, Samples};
use crate::read::{cgroup, host};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two rounds: taking events, looking at tasks and at the host's counters.
const ROUND: Duration = Duration::from_millis(100);
/// While that is recorded, which may last for hours: with a thousand tasks some two million
/// instructions each.
const RECORDED_ROUND: Duration = Duration::from_millis(400);
/// Events kept in memory at most: the look ends early then.
const MOST_EVENTS: usize = 4_000_000;

/// Tasks that are asked whether they serve a FUSE filesystem.
const MOST_DAEMONS: usize = 500;

/// Finds the target that a cgroup's path, absolute or below the root, or a process's id names.
///
/// # Errors
/// There is no such cgroup or process.
pub fn find_target(text: &str) -> Result<Target> {
    cgroup::mounted_directory(Path::new("/"))?;
    if let Ok(process) = text.parse() {
        let home = tasks::home_of(Path::new("/"), process)
            .with_context(|| match Path::new("/proc").join(text).exists() {
                true => format!(
                    "process {process} is in a cgroup outside of what is mounted at {ROOT}: this is another cgroup \
                     namespace; run weir in the machine's, with `nsenter -t 1 -C -m weir explain {process}`"
                ),
                false => format!("there is no process {process}"),
            })?;
        return Ok(Target::Process(process, home));
    }
    let below = path_below_root(text);
    let directory = Path::new(ROOT).join(&below);
    if below.split('/').any(|part| part == "..") || !directory.join("cgroup.procs").is_file() {
        bail!("there is no cgroup {below} below {ROOT}");
    }
    // A threaded cgroup has no pages of its own.
    Ok(Target::Cgroup(tasks::domain_of(Path::new("/"), below)))
}

fn target_directory(target: &Target) -> PathBuf {
    let below = match target {
        Target::Host => "",
        Target::Cgroup(path) | Target::Process(_, path) => path,
    };
    Path::new(ROOT).join(below)
}

/// A cgroup's path below the root, as cgroups are called everywhere else: `db` for
/// `/sys/fs/cgroup//db/`, or `./db`.
fn path_below_root(text: &str) -> String {
    let path = Path::new(text);
    let path = path.strip_prefix(ROOT).unwrap_or(path);
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        Component::ParentDir => Some(".."),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Options of a look.
#[derive(Clone, Copy, Debug)]
pub struct LookOptions {
    /// Time to look.
    pub time: Duration,
    /// Bytes of the kernel's buffer for each CPU. What it has no room for is lost, and counted.
    pub buffer: u64,
}

impl LookOptions {
    /// A thousand throttled writers fill it between two rounds: it is emptied when it is half full.
    pub const BUFFER: u64 = 1 << 20;

    /// Options for a look of this time, with the usual buffer.
    pub fn for_time(time: Duration) -> LookOptions {
        LookOptions {
            time,
            buffer: LookOptions::BUFFER,
        }
    }
}

/// Looks until the time or `stop` is set. With a recording, events and samples go there and not
/// into memory, and what it returns has only the rest.
///
/// # Errors
/// Events cannot be had, or the recording cannot be written.
pub fn observe_target(
    target: &Target,
    look: LookOptions,
    stop: &AtomicBool,
    mut recording: Option<&mut Recording>,
) -> Result<Observation> {
    let here = Path::new("/");
    cgroup::mounted_directory(here)?;
    let mut tracing = Tracefs::start_waits(Path::new("/sys/kernel"), look.buffer)?;
    let mut trace = Trace::default();
    let mut blind = tracing
        .blind
        .iter()
        .map(|why| format!("when pauses end cannot be seen ({why}): times are the announced ones"))
        .collect::<Vec<_>>();
    blind.extend(describe_hidden(here));
    blind.extend(tracing.blind_to_syncs.iter().map(|why| {
        format!("fsync is seen of ext4 alone ({why}): of others it is estimated from looks")
    }));
    let process = match target {
        Target::Process(process, _) => Some(*process),
        Target::Host | Target::Cgroup(_) => None,
    };
    let time = look.time;
    let before = (cgroup::read_all(here, Want::ALL), host::read_devices(here));
    let is_fuse = |kind: &String| kind.starts_with("fuse") || kind == "virtiofs";
    let has_fuse = before
        .1
        .iter()
        .any(|device| device.filesystem.as_ref().is_some_and(is_fuse));
    let mut watched = Tasks::new(&target_directory(target), process, has_fuse);
    let mut told = ToldSleeps::new(here);
    let scanned = host::read_vmscan(here);
    let mut samples = Samples::default();
    let round = match recording {
        Some(_) => RECORDED_ROUND,
        None => ROUND,
    };
    let start = Instant::now();
    let begin = now_ns();
    // Reading all for the first time took a while, in which tasks were paused, too.
    tracing.read_buffers(&mut trace)?;
    told.note_events(&mut trace);
    trace.seen.extend(tracing.enabled.iter().cloned());
    trace.cut_before(begin);
    told.noted = trace.events.len();
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        let asleep = watched.look_at_next();
        samples.limits.push((now_ns(), host::read_limits(here)));
        tracing.read_buffers(&mut trace)?;
        told.note_events(&mut trace);
        told.divide_waits(asleep);
        if let Some(recording) = recording.as_deref_mut() {
            samples.pressure.push((now_ns(), host::read_pressure(here)));
            let born = watched.take_born().into_iter();
            samples.progress.extend(born.filter(|(ns, _)| *ns > begin));
            samples.progress.push((now_ns(), watched.next_progress()));
            samples.tasks.extend(watched.newly_found());
            recording.write_round(&mut trace.events, &mut samples)?;
            told.noted = 0;
            if recording.is_full() {
                blind.push("ended early: a longer recording could not be read".into());
                break;
            }
        } else if trace.events.len() > MOST_EVENTS {
            blind.push(format!("ended after {MOST_EVENTS} events"));
            break;
        }
        // Between rounds a buffer that fills up is emptied, so that nothing is lost for want of
        // room.
        let next = (start.elapsed() + round).min(time);
        while start.elapsed() < next
            && tracing.wait_for_data(next.saturating_sub(start.elapsed()))?
        {
            tracing.read_buffers(&mut trace)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let end = (now_ns(), host::read_limits(here));
    tracing.finish_trace(&mut trace)?;
    told.note_events(&mut trace);
    trace.cut_after(end);
    if let Some(recording) = recording {
        recording.write_round(&mut trace.events, &mut samples)?;
    }
    let (mut cgroups, mut devices) = (cgroup::read_all(here, Want::ALL), host::read_devices(here));
    subtract_totals(&mut cgroups, &before.0);
    devices_of::subtract_totals(&mut devices, &before.1);
    blind.extend(describe_gone(here, target));
    let state = std::fs::read_to_string("/sys/kernel/weir/state").ok();
    trace.names = watched.task_names();
    let told_of: Vec<u32> = told.asked.keys().copied().collect();
    let mut homes = watched.homes;
    // Of a process only its own tasks are.
    if process.is_none() {
        homes.extend(told.asked);
    }
    let fuse_waits = |waits: &BTreeMap<String, Waits>| {
        waits.values().any(|waits| waits.contains_key(&Wait::Fuse))
    };
    let has_clients = fuse_waits(&told.waits);
    let seen = Observation::from_trace(trace);
    // Recorded stalls are in a file by now, and not among these.
    let stalled = seen.stalls.iter().map(|stall| stall.task).chain(told_of);
    let stalled: BTreeSet<u32> = stalled.collect();
    let serving = stalled.into_iter().take(MOST_DAEMONS);
    let serving = serving.filter(|task| has_clients && tasks::serves_fuse(*task));
    let fuse_daemons: BTreeSet<u32> = serving.collect();
    let mut names = seen.names.clone();
    for daemon in &fuse_daemons {
        names
            .entry(*daemon)
            .or_insert_with(|| tasks::task_name(*daemon).unwrap_or_default());
    }
    Ok(Observation {
        is_live: true,
        seconds,
        limits: samples.limits,
        host: Some(HostSettings::read(here)),
        cgroups,
        devices,
        waits: told.waits,
        within: Some(told.within),
        fuse_daemons,
        names,
        homes,
        flushers: watched.flushers,
        vmscan: Some(host::read_vmscan(here).counts_since(scanned)),
        weir: state.map(|state| state.trim().to_string()),
        drain_seconds: host::drain_seconds(here),
        blind,
        ..seen
    })
}

/// Sleeps that events tell of, and the cgroups of their tasks.
struct ToldSleeps {
    homes: Homes,
    covered: Covered,
    /// Events that were taken note of.
    noted: usize,
    asked: BTreeMap<u32, String>,
    waits: BTreeMap<String, Waits>,
    within: BTreeMap<String, Waits>,
}

impl ToldSleeps {
    fn new(root: &Path) -> ToldSleeps {
        ToldSleeps {
            homes: Homes::new(root),
            covered: Covered::default(),
            noted: 0,
            asked: BTreeMap::new(),
            waits: BTreeMap::new(),
            within: BTreeMap::new(),
        }
    }

    /// Takes note of new events, and asks for the cgroups of their tasks.
    fn note_events(&mut self, trace: &mut Trace) {
        let mut new = trace.events.split_off(self.noted.min(trace.events.len()));
        self.homes.absorb_origins(&mut new);
        self.covered.note_events(&new);
        let now = now_ns();
        for event in new.iter().filter(|event| event.task > 0) {
            if let Some(home) = self.homes.find_home(event.task, now) {
                self.asked.insert(event.task, home);
            }
        }
        trace.events.append(&mut new);
        self.noted = trace.events.len();
    }

    /// Divides looks by whether they fell inside of what events tell.
    fn divide_waits(&mut self, asleep: Vec<Asleep>) {
        for found in asleep {
            let waits = match self.covered.is_covered(found.task, found.ns) {
                true => &mut self.within,
                false => &mut self.waits,
            };
            let waits = waits.entry(found.home).or_default();
            *waits.entry(found.wait).or_default() += found.seconds;
        }
        self.covered
            .retain_tasks(|task| Path::new("/proc").join(task.to_string()).exists());
    }
}

/// Says what a cgroup namespace hides of its machine.
fn describe_hidden(root: &Path) -> Option<String> {
    cgroup::is_namespaced(root).then(|| {
        format!(
            "what is mounted at {ROOT} is a cgroup namespace's, whose own cgroup is `/` here; those outside are told \
             by their inodes, and commands for them work in the machine's: `nsenter -t 1 -C -m weir explain`"
        )
    })
}

/// Says so if it is not there any more.
fn describe_gone(root: &Path, target: &Target) -> Option<String> {
    let top = root.join(ROOT.trim_start_matches('/'));
    match target {
        Target::Cgroup(path) if !top.join(path).is_dir() => Some(format!(
            "the cgroup /{path} was removed meanwhile: its files could not be read"
        )),
        Target::Process(process, _) if !root.join(format!("proc/{process}")).is_dir() => {
            Some(format!("process {process} has ended meanwhile"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_found_however_its_path_is_typed() {
        for (typed, path) in [
            ("db", "db"),
            ("/db", "db"),
            ("./a//db/.", "a/db"),
            ("/sys/fs/cgroup/a b/db/", "a b/db"),
            ("/sys/fs/cgroupdb", "sys/fs/cgroupdb"),
            ("/sys/fs/cgroup", ""),
            ("a/../db", "a/../db"),
        ] {
            assert_eq!(path_below_root(typed), path, "{typed}");
        }
    }

    #[test]
    fn a_namespace_is_told_from_the_machine() {
        let root = tempfile::tempdir().expect("made");
        let top = root.path().join("sys/fs/cgroup");
        std::fs::create_dir_all(&top).expect("made");
        assert_eq!(describe_hidden(root.path()), None);
        std::fs::write(top.join("cgroup.type"), "domain\n").expect("written");
        let said = describe_hidden(root.path()).expect("a part");
        assert!(said.contains("nsenter -t 1 -C -m weir explain"), "{said}");
    }

    #[test]
    fn who_is_gone_is_told() {
        let root = tempfile::tempdir().expect("made");
        std::fs::create_dir_all(root.path().join("sys/fs/cgroup/db")).expect("made");
        let gone = |target| describe_gone(root.path(), &target);
        assert_eq!(gone(Target::Host), None);
        assert_eq!(gone(Target::Cgroup("db".into())), None);
        let said = gone(Target::Cgroup("web".into())).expect("gone");
        assert!(said.starts_with("the cgroup /web was removed"), "{said}");
        let said = gone(Target::Process(7, "db".into())).expect("gone");
        assert_eq!(said, "process 7 has ended meanwhile");
    }
}

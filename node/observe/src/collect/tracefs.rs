// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's events, through a trace instance of our own.
//!
//! An instance (`/sys/kernel/tracing/instances/weir-PID`) has its own buffer, filters and clock, so
//! nothing that others trace is touched, and it needs no BTF, no compiler and no BPF: it is there
//! on every kernel with tracefs. Its price is a record for each pause instead of a sum in the
//! kernel; a pause lasts milliseconds, its two records take microseconds, and when nothing is
//! throttled there are none.
//!
//! The throttle's tracepoint fires before a pause. What ends it is a return probe of ours on
//! `io_schedule_timeout()`, which hardly anything but the throttle calls: one record when the task
//! runs again, so their distance is what was really slept, waiting for a CPU included.
//!
//! Whatever way the process ends but by SIGKILL, instance and probe go with it; what a killed one
//! left is removed by the next.

use crate::model::event::{JOURNAL_BEGAN, JOURNAL_ENDED, SYNC_BEGAN, SYNC_ENDED, WOKE};
use crate::model::trace::Trace;
use crate::read::trace::{Formats, decode};
use anyhow::{Context, Result, bail};
use knobs::PageSize;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Mount points of tracefs below /sys/kernel, on its own or below debugfs.
const PLACES: [&str; 2] = ["tracing", "debug/tracing"];
/// Tasks that can sleep in the throttle at once without a wake-up being missed; the most the kernel
/// takes.
const SLEEPERS: u32 = 4096;
/// Time that memory for the buffer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Functions that each fsync goes through: msync, O_SYNC writes and io_uring call the first; fsync
/// and fdatasync do as well, unless the compiler has made it part of their own functions, as it has
/// on 6.1. One that goes through two of them is seen as the inner one.
const SYNCING: [&str; 6] = [
    "vfs_fsync_range",
    // A copy-up of overlayfs, the flush of a loop device.
    "vfs_fsync",
    "__x64_sys_fsync",
    "__x64_sys_fdatasync",
    "__arm64_sys_fsync",
    "__arm64_sys_fdatasync",
];
/// Functions that umount, syncfs, freezing, remounting and sync go through. The first may be a part
/// of the second.
const FLUSHING: [&str; 4] = [
    "sync_filesystem",
    "__x64_sys_syncfs",
    "__arm64_sys_syncfs",
    "ksys_sync",
];
/// Functions in which a task that does not sync waits for ext4's journal: for the transaction that
/// is being committed, and for room in the log.
const JOURNAL: [&str; 2] = ["wait_transaction_locked", "__jbd2_log_wait_for_space"];
/// Events that probes on fsync stand in for.
const EXT4_SYNCS: [&str; 2] = ["ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit"];
/// Events that tell which task made another, and which were moved: of those that end before they
/// are asked for.
const ORIGINS: [&str; 2] = ["sched/sched_process_fork", "cgroup/cgroup_attach_task"];
/// weir's own event, which comes and goes with its module.
const DECIDED: &str = "weir/dirty_pause";
/// Events that are asked for only of files: they come with every pass or switch, not with every
/// pause.
const TOO_MANY: [&str; 2] = ["writeback/global_dirty_state", "sched/sched_switch"];

/// Tracing, until it is dropped.
pub struct Tracefs {
    root: PathBuf,
    instance: PathBuf,
    group: String,
    pipes: Vec<File>,
    formats: Formats,
    page: Vec<u8>,
    /// Probes of ours, without their group.
    probes: Vec<&'static str>,
    /// Names of the events that are recorded.
    pub enabled: Vec<String>,
    /// Why the end of pauses cannot be seen, if so.
    pub blind: Option<String>,
    /// Why waits for fsync are not seen of every filesystem, if so.
    pub blind_to_syncs: Option<String>,
}

impl Tracefs {
    /// Makes the instance, with so many bytes for each CPU, and turns the events on; `kernel` is
    /// /sys/kernel.
    ///
    /// # Errors
    /// There is no tracefs, no permission, or no such event.
    pub fn start(kernel: &Path, buffer: u64) -> Result<Tracefs> {
        let mut tracing = Tracefs::make_instance(kernel, "")?;
        tracing.set_up(buffer)?;
        tracing.write("tracing_on", "1")?;
        Ok(tracing)
    }

    /// The same, with each fsync, umount and syncfs of any filesystem and each wait for ext4's journal,
    /// as far as the kernel takes probes on them: `blind_to_syncs` says so if not. Beside another
    /// instance of the same process.
    ///
    /// # Errors
    /// As for [`Tracefs::start`].
    pub fn start_waits(kernel: &Path, buffer: u64) -> Result<Tracefs> {
        let mut tracing = Tracefs::make_instance(kernel, "w")?;
        tracing.set_up(buffer)?;
        let syncing = [&SYNCING[..], &FLUSHING].concat();
        let placed = tracing
            .place_probe(&format!("r{SLEEPERS}"), SYNC_ENDED, &syncing)
            .and_then(|()| tracing.place_probe("p", SYNC_BEGAN, &syncing));
        match placed {
            Ok(()) => EXT4_SYNCS
                .iter()
                .try_for_each(|event| tracing.disable_event(event))?,
            Err(why) => tracing.blind_to_syncs = Some(format!("{why:#}")),
        }
        // Without ext4, or with these inlined, there is nothing to wait in.
        let _ = tracing
            .place_probe(&format!("r{SLEEPERS}"), JOURNAL_ENDED, &JOURNAL)
            .and_then(|()| tracing.place_probe("p", JOURNAL_BEGAN, &JOURNAL));
        tracing.write("tracing_on", "1")?;
        Ok(tracing)
    }

    /// Asks for weir's own event if its module has been loaded since.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn follow_module(&mut self) -> Result<()> {
        let state = self.instance.join(format!("events/{DECIDED}/enable"));
        if fs::read_to_string(state).is_ok_and(|state| state.trim() == "0") {
            self.enable_event(DECIDED)?;
        }
        Ok(())
    }

    fn disable_event(&mut self, event: &str) -> Result<()> {
        if !self.has_event(event) {
            return Ok(());
        }
        let name = event.rsplit('/').next().unwrap_or(event);
        self.enabled.retain(|enabled| enabled != name);
        self.write(&format!("events/{event}/enable"), "0")
    }

    /// The same with nothing but the beginning and the end of each fsync, of any filesystem: by
    /// probes on what fsync, fdatasync, msync and O_SYNC writes go through.
    ///
    /// # Errors
    /// As for [`Tracefs::start`], or the kernel takes no such probes.
    pub fn start_syncs(kernel: &Path, buffer: u64) -> Result<Tracefs> {
        let mut tracing = Tracefs::make_instance(kernel, "")?;
        tracing.open(buffer)?;
        // The return probe first: misses are counted of the first line of ours.
        tracing.place_probe(&format!("r{SLEEPERS}"), SYNC_ENDED, &SYNCING)?;
        tracing.place_probe("p", SYNC_BEGAN, &SYNCING)?;
        tracing.enable_origins()?;
        tracing.write("tracing_on", "1")?;
        Ok(tracing)
    }

    /// The same with nothing but reads of disks: which task queues one, and which the disk has
    /// completed. Beside another instance of the same process.
    ///
    /// # Errors
    /// As for [`Tracefs::start`].
    pub fn start_reads(kernel: &Path, buffer: u64) -> Result<Tracefs> {
        let mut tracing = Tracefs::make_instance(kernel, "r")?;
        tracing.open(buffer)?;
        for event in decode::READS {
            if !tracing.has_event(event) {
                bail!("this kernel has no event {event}: it was built without block layer tracing");
            }
            // Writes are none of its business, and on a busy disk most of what there is.
            tracing.write(&format!("events/{event}/filter"), "rwbs ~ \"R*\"")?;
            let format = tracing.instance.join(format!("events/{event}/format"));
            let text = fs::read_to_string(&format)
                .with_context(|| format!("cannot read {}", format.display()))?;
            tracing.formats.add_live(&text)?;
            tracing.write(&format!("events/{event}/enable"), "1")?;
        }
        tracing.enable_origins()?;
        tracing.write("tracing_on", "1")?;
        Ok(tracing)
    }

    /// Looks at which task made another, and which were moved.
    fn enable_origins(&mut self) -> Result<()> {
        for event in ORIGINS {
            if self.has_event(event) {
                self.enable_event(event)?;
            }
        }
        Ok(())
    }

    /// Makes the instance; `kind` tells it from others of this process.
    fn make_instance(kernel: &Path, kind: &str) -> Result<Tracefs> {
        let places = PLACES.map(|place| kernel.join(place));
        let root = places.iter().find(|root| root.join("instances").is_dir());
        let Some(root) = root else {
            bail!(match fs::read_dir(&places[0]).map_err(|why| why.kind()) {
                Err(ErrorKind::PermissionDenied) => "reading the kernel's events takes root",
                _ =>
                    "the kernel's events cannot be read: tracefs is not mounted; as root, run `mount -t tracefs tracefs /sys/kernel/tracing`",
            });
        };
        let id = format!("{}{kind}", std::process::id());
        remove_leftovers(root, &id);
        let instance = root.join(format!("instances/weir-{id}"));
        create_instance(&instance).map_err(|why| match why.kind() {
            ErrorKind::OutOfMemory => anyhow::anyhow!(
                "the kernel has no memory for a trace buffer, nor had it for {} s: try again",
                PATIENCE.as_secs()
            ),
            ErrorKind::PermissionDenied => anyhow::anyhow!(
                "reading the kernel's events takes root, and a kernel that is not locked down"
            ),
            _ => anyhow::anyhow!(
                "cannot make the trace instance {}: {why}",
                instance.display()
            ),
        })?;
        Ok(Tracefs {
            root: root.into(),
            instance,
            group: format!("weir_{id}"),
            pipes: Vec::new(),
            formats: Formats::new(PageSize::running()),
            page: vec![0; 1 << 16],
            probes: Vec::new(),
            enabled: Vec::new(),
            blind: None,
            blind_to_syncs: None,
        })
    }

    /// Opens the buffers; nothing is recorded yet.
    fn open(&mut self, buffer: u64) -> Result<()> {
        // Turning events on one by one takes a while, in which the first one would fill the buffer.
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", &(buffer >> 10).to_string())?;
        let per_cpu = self.instance.join("per_cpu");
        for cpu in
            fs::read_dir(&per_cpu).with_context(|| format!("cannot list {}", per_cpu.display()))?
        {
            let pipe = cpu?.path().join("trace_pipe_raw");
            // A read with nothing there must not wait.
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
                .open(&pipe);
            self.pipes
                .push(opened.with_context(|| format!("cannot open {}", pipe.display()))?);
        }
        Ok(())
    }

    fn set_up(&mut self, buffer: u64) -> Result<()> {
        self.open(buffer)?;
        let placed = self.place_probe(&format!("r{SLEEPERS}"), WOKE, &["io_schedule_timeout"]);
        self.blind = placed.err().map(|why| format!("{why:#}"));
        let throttle = "writeback/balance_dirty_pages";
        if !self.has_event(throttle) {
            bail!(
                "this kernel has no event {throttle}: it is not one that throttles writers by their rate (3.2 and newer do)"
            );
        }
        // Passes without a pause are the most of them, and need not be seen.
        self.write(&format!("events/{throttle}/filter"), "pause > 0")?;
        for event in decode::KNOWN
            .iter()
            .filter(|event| !TOO_MANY.contains(event))
        {
            if self.has_event(event) {
                self.enable_event(event)?;
            }
        }
        Ok(())
    }

    fn has_event(&self, event: &str) -> bool {
        self.instance.join("events").join(event).is_dir()
    }

    fn enable_event(&mut self, event: &str) -> Result<()> {
        let format = self.instance.join(format!("events/{event}/format"));
        let text = fs::read_to_string(&format)
            .with_context(|| format!("cannot read {}", format.display()))?;
        self.formats.add(&text)?;
        self.write(&format!("events/{event}/enable"), "1")?;
        let name = event.rsplit('/').next().unwrap_or(event);
        if !self.enabled.iter().any(|enabled| enabled == name) {
            self.enabled.push(name.into());
        }
        Ok(())
    }

    /// Places an event of ours on the first function, and on those of the others that this kernel
    /// has, and turns it on.
    fn place_probe(&mut self, kind: &str, event: &'static str, functions: &[&str]) -> Result<()> {
        let name = format!("{}/{event}", self.group);
        let file = self.root.join("kprobe_events");
        for (number, function) in functions.iter().enumerate() {
            let placed = append_line(&file, &format!("{kind}:{name} {function}"));
            if number == 0 {
                placed?;
                self.probes.push(event);
            }
        }
        self.enable_event(&name)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.instance.join(file);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write `{text}` to {}", path.display()))
    }

    /// Sleeps until the time has passed, a signal comes, or a CPU's buffer is half full (the
    /// kernel's `buffer_percent`); true if that is why.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait_for_data(&self, time: Duration) -> Result<bool> {
        let full = |pipe| PollFd::new(pipe, PollFlags::POLLIN);
        let mut pipes: Vec<_> = self.pipes.iter().map(|pipe| full(pipe.as_fd())).collect();
        // Up to the next millisecond: rounded down it would spin through the last one.
        let time = PollTimeout::try_from(time + Duration::from_millis(1));
        match poll(&mut pipes, time.unwrap_or(PollTimeout::MAX)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(why) => Err(why).context("cannot wait for the trace instance's buffers"),
        }
    }

    /// Pipes that become readable when a CPU's buffer is half full.
    pub fn trace_pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().map(AsFd::as_fd)
    }

    /// Takes what the buffers have.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read_buffers(&mut self, trace: &mut Trace) -> Result<()> {
        for pipe in &mut self.pipes {
            loop {
                match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(length) => {
                        self.formats.decode_page(&self.page[..length], trace)?;
                    }
                    Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                    Err(why) if why.kind() == ErrorKind::Interrupted => {}
                    Err(why) => {
                        return Err(why).context("cannot read the trace instance's buffers");
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the rest, and counts what was lost.
    ///
    /// # Errors
    /// As for [`Tracefs::read_buffers`].
    pub fn finish_trace(mut self, trace: &mut Trace) -> Result<()> {
        self.write("tracing_on", "0")?;
        self.read_buffers(trace)?;
        trace.seen.extend(self.enabled.iter().cloned());
        trace.lost = 0;
        for cpu in fs::read_dir(self.instance.join("per_cpu"))? {
            let stats = fs::read_to_string(cpu?.path().join("stats")).unwrap_or_default();
            let lost = stats
                .lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(key, _)| matches!(*key, "overrun" | "dropped events"));
            trace.lost += lost
                .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
                .sum::<u64>();
        }
        trace.lost += self.missed_wakeups();
        Ok(())
    }

    /// Wake-ups so far that the probe had no room for: their pauses pass for not slept.
    pub fn missed_wakeups(&self) -> u64 {
        count_missed(&self.root, &self.group)
    }
}

/// Makes the instance. The kernel takes its buffer from what is free at that moment, which on a host
/// short of memory is enough now and then.
fn create_instance(instance: &Path) -> std::io::Result<()> {
    let begin = Instant::now();
    loop {
        match fs::create_dir(instance) {
            Err(why) if why.kind() == ErrorKind::OutOfMemory && begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            made => return made,
        }
    }
}

/// Misses of the probe in this group. Both files have a line for each probe, in one order; the one
/// with misses has no groups.
fn count_missed(root: &Path, group: &str) -> u64 {
    let text = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let (events, profile) = (text("kprobe_events"), text("kprobe_profile"));
    let ours = format!(":{group}/");
    let mut lines = events.lines().zip(profile.lines());
    let line = lines.find_map(|(event, line)| event.contains(&ours).then_some(line));
    line.and_then(|line| line.split_whitespace().next_back()?.parse().ok())
        .unwrap_or(0)
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        self.pipes.clear();
        // No caller is left to report an error to; the next run tries again.
        let _ = fs::remove_dir(&self.instance);
        for event in &self.probes {
            let _ = append_line(
                &self.root.join("kprobe_events"),
                &format!("-:{}/{event}", self.group),
            );
        }
    }
}

/// kprobe_events must be appended to: opening it otherwise removes all programs' probes.
fn append_line(file: &Path, line: &str) -> Result<()> {
    let mut opened = OpenOptions::new()
        .append(true)
        .open(file)
        .with_context(|| format!("cannot open {}", file.display()))?;
    opened
        .write_all(line.as_bytes())
        .with_context(|| format!("the kernel refused `{line}` in {}", file.display()))
}

/// Removes what processes that are gone have left. What is called as ours will be is, too: numbers
/// of a container's processes are small and come again. The kernel keeps what is in use.
fn remove_leftovers(root: &Path, ours: &str) {
    let gone = |id: &str| {
        let process = id.trim_end_matches(['w', 'r']).parse::<u32>();
        process.is_ok_and(|of| id == ours || !Path::new(&format!("/proc/{of}")).exists())
    };
    for entry in fs::read_dir(root.join("instances"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        if name
            .to_str()
            .and_then(|name| name.strip_prefix("weir-"))
            .is_some_and(gone)
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let probes = fs::read_to_string(root.join("kprobe_events")).unwrap_or_default();
    for probe in probes
        .lines()
        .filter_map(|line| line.split_once(":weir_")?.1.split_whitespace().next())
    {
        if probe.split_once('/').is_some_and(|(id, _)| gone(id)) {
            let _ = append_line(&root.join("kprobe_events"), &format!("-:weir_{probe}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tracefs_it_says_what_to_type() {
        let kernel = tempfile::tempdir().expect("made");
        fs::create_dir(kernel.path().join("tracing")).expect("made");
        let error = Tracefs::start(kernel.path(), 1 << 20).err().expect("none");
        assert!(
            error.to_string().contains("mount -t tracefs tracefs"),
            "{error}"
        );
    }

    #[test]
    fn misses_are_those_of_our_probe() {
        let root = tempfile::tempdir().expect("made");
        assert_eq!(count_missed(root.path(), "weir_41"), 0);
        for (file, text) in [
            (
                "kprobe_events",
                "p:mine/x vfs_read\nr4096:weir_4/throttle_woke io_schedule_timeout\nr4096:weir_41/throttle_woke io_schedule_timeout\n",
            ),
            (
                "kprobe_profile",
                "  x             9   1\n  throttle_woke    8   2\n  throttle_woke    7   3\n",
            ),
        ] {
            fs::write(root.path().join(file), text).expect("written");
        }
        let missed = |group| count_missed(root.path(), group);
        assert_eq!(
            (missed("weir_4"), missed("weir_41"), missed("weir_1")),
            (2, 3, 0)
        );
    }

    #[test]
    fn what_cannot_be_set_up_leaves_nothing_behind() {
        let kernel = tempfile::tempdir().expect("made");
        let instances = kernel.path().join("debug/tracing/instances");
        fs::create_dir_all(&instances).expect("made");
        // Processes that are gone have left one each, one that is there has one of its own.
        fs::create_dir(instances.join("weir-4294967294")).expect("made");
        let ours = format!("weir-{}", std::process::id());
        fs::create_dir(instances.join(ours)).expect("made");
        fs::create_dir(instances.join("weir-1")).expect("made");
        let error = Tracefs::start(kernel.path(), 1 << 20).err().expect("none");
        assert!(format!("{error:#}").contains("cannot "), "{error:#}");
        let mut left = fs::read_dir(&instances).expect("there").flatten();
        let name = left.next().expect("one").file_name();
        assert_eq!((name.to_str(), left.count()), (Some("weir-1"), 0));
    }
}

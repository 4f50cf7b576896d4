// SPDX-License-Identifier: GPL-2.0-only
//! One guest: a QEMU process, what it says, and how it ended.
//!
//! The guest's events arrive over a socket pair, the guest's second serial port; the first is the
//! console and goes to a file. Disks are fast until the guest says that it has prepared them
//! ([`Event::Prepared`]): laying files out on a disk of 256 KB/s takes minutes that show nothing.
//! QEMU is always told to emulate (TCG): nested KVM hangs on some machines, and results should not
//! depend on what the host allows.
//!
//! Nothing outlives the run. The QEMU process is killed by its id when the value that holds it is
//! dropped, and by the kernel (`PR_SET_PDEATHSIG`) if weir itself dies. Disk images and the
//! initramfs are files without a name, handed over as open descriptors: they vanish with the last
//! process that has them open, however that one ends.

use crate::emulator::Emulator;
use crate::madt;
use crate::monitor::Monitor;
use crate::numa;
use crate::tsc;
use crate::watchdog::Silence;
use anyhow::{Context, Result, bail};
use guest::protocol::Event;
use nix::sys::signal::Signal;
use scenario::model::Tier;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a guest is booted that does not reach its process 1.
const BOOTS: u32 = 3;

/// How often a silent guest is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long guests may be silent, in time that they could use (see [`Silence`]).
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Until process 1 says its first word. A boot takes 5 to 10 s of CPU time.
    boot: Duration,
    /// From then on. A guest beats every five seconds.
    later: Duration,
}

const PATIENCE: Patience = Patience {
    boot: Duration::from_secs(60),
    later: Duration::from_secs(60),
};

/// A kernel that checks every access to memory, many CPUs, or some emulated by one thread: a boot
/// takes minutes of CPU time, and beats are late.
const PATIENCE_WHEN_SLOW: Patience = Patience {
    boot: Duration::from_secs(300),
    later: Duration::from_secs(300),
};

/// More CPUs than that are slow.
const FEW_CPUS: u32 = 8;
/// The same where one thread emulates them all.
const FEW_CPUS_IN_TURN: u32 = 2;

/// A disk of the machine, a sparse image of its size.
pub struct Drive {
    /// Size in bytes.
    pub size: u64,
    /// Bytes per second, or as fast as it goes.
    pub write_bandwidth: Option<u64>,
    /// Bytes per second, or as fast as it goes.
    pub read_bandwidth: Option<u64>,
}

/// What to boot.
pub struct Machine<'a> {
    /// What emulates it.
    pub emulator: &'a Emulator,
    /// The kernel image.
    pub image: &'a Path,
    /// The initramfs, without a name.
    pub initramfs: File,
    /// RAM in bytes; the sum of the tiers, if there are any.
    pub memory: u64,
    /// Kinds of memory, fastest first; none: all of one kind.
    pub tiers: &'a [Tier],
    /// The last of them can be taken out.
    pub dimm: bool,
    /// Number of CPUs.
    pub cpus: u32,
    /// CPUs that its kernel makes per-CPU data for, if more than there are.
    pub possible_cpus: u32,
    /// Disks of the guest, in order.
    pub drives: &'a [Drive],
    /// One emulating thread, and a time stamp counter that counts the instructions of all CPUs.
    pub count_instructions: bool,
    /// A kernel that takes minutes to boot.
    pub instrumented: bool,
    /// More kernel command line.
    pub append: &'a str,
    /// Where the console's output goes.
    pub console: &'a Path,
    /// Where disk images may be made when memory is too scarce for them.
    pub scratch: &'a Path,
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It said everything it had to say.
    Complete,
    /// QEMU ended before that.
    Died(String),
    /// Before its disks were ready, its kernel said that a CPU's timer interrupts do not come.
    TimerLost,
    /// Nothing was heard for so long.
    Silent(Duration),
    /// It was still busy when its time was up.
    Deadline,
    /// It said something that is not an event.
    Garbled(String),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Complete => write!(out, "it ended"),
            End::Died(status) => write!(out, "QEMU ended: {status}"),
            End::TimerLost => write!(out, "a CPU's timer is silent"),
            End::Silent(silence) => write!(out, "nothing heard for {} s", silence.as_secs()),
            End::Deadline => write!(out, "its time was up"),
            End::Garbled(text) => write!(out, "it said something unreadable ({text})"),
        }
    }
}

/// A boot that failed before script or scenario began, and after which the guest is booted again.
#[derive(Clone, Debug)]
pub struct FailedBoot {
    /// Counted from 1.
    pub number: u32,
    /// How it ended.
    pub end: End,
    /// Where its console's output is kept.
    pub log: PathBuf,
}

impl fmt::Display for FailedBoot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "boot {} of {BOOTS} failed before anything was run ({}; see {}), booting again",
            self.number,
            self.end,
            self.log.display()
        )
    }
}

/// Told what happens to a guest.
pub trait Listener {
    /// It said something.
    fn event(&mut self, event: Event);
    /// It is booted again.
    fn failed_boot(&mut self, failed: &FailedBoot);
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Already dead is fine, and nothing else can go wrong with one's own child.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the machine and hands each event over until the guest has ended, one way or another.
///
/// A guest that dies or hangs before its process 1 says a word is booted again, [`BOOTS`] times in
/// all: emulated CPUs lose a timer or trip over code patching now and then
/// (`docs/experiments/0002-boots-under-load.md`), and nothing of weir has run by then. Each failed
/// boot's console is kept beside the last one's, as `console.boot-N.log`. A guest that has said
/// anything at all is never booted again, whatever becomes of it.
pub fn boot(machine: Machine<'_>, limit: Duration, listener: &mut dyn Listener) -> Result<End> {
    let few = match machine.count_instructions {
        true => FEW_CPUS_IN_TURN,
        false => FEW_CPUS,
    };
    let slow = machine.instrumented || machine.cpus > few;
    let patience = if slow { PATIENCE_WHEN_SLOW } else { PATIENCE };
    boot_within(&machine, limit, patience, listener)
}

fn boot_within(
    machine: &Machine<'_>,
    limit: Duration,
    patience: Patience,
    listener: &mut dyn Listener,
) -> Result<End> {
    let kept = |number: u32| machine.console.with_extension(format!("boot-{number}.log"));
    for number in 1..BOOTS {
        // Of an earlier run with the same directory.
        match std::fs::remove_file(kept(number)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{}", kept(number).display()));
            }
            _ => {}
        }
    }
    let mut number = 1;
    loop {
        let (end, spoke) = attempt(machine, limit, patience, &mut |event| listener.event(event))?;
        let lost = match end {
            End::Died(_) | End::Silent(_) => !spoke,
            // Seen only before the disks were ready, so neither script nor scenario had begun.
            End::TimerLost => true,
            _ => false,
        };
        if number == BOOTS || !lost {
            return Ok(end);
        }
        let log = kept(number);
        std::fs::rename(machine.console, &log)
            .with_context(|| format!("keeping a failed boot's console as {}", log.display()))?;
        listener.failed_boot(&FailedBoot { number, end, log });
        number += 1;
    }
}

/// One boot: how it ended, and whether the guest said anything.
fn attempt(
    machine: &Machine<'_>,
    limit: Duration,
    patience: Patience,
    on_event: &mut dyn FnMut(Event),
) -> Result<(End, bool)> {
    let images = images(machine.drives, machine.memory, machine.scratch)?;
    let console =
        File::create(machine.console).with_context(|| format!("{}", machine.console.display()))?;
    let (channel_here, channel_there) = UnixStream::pair().context("a socket pair")?;
    let (monitor_here, monitor_there) = UnixStream::pair().context("a socket pair")?;
    let mut kept: Vec<RawFd> = images.iter().map(AsRawFd::as_raw_fd).collect();
    kept.extend([machine.initramfs.as_raw_fd(), console.as_raw_fd()]);
    kept.extend([channel_there.as_raw_fd(), monitor_there.as_raw_fd()]);
    let madt = (machine.possible_cpus > machine.cpus)
        .then(|| madt_file(machine.possible_cpus))
        .transpose()?;
    kept.extend(madt.iter().map(AsRawFd::as_raw_fd));
    let inherited = Inherited {
        images: &images,
        console: &console,
        madt: madt.as_ref(),
        channel: &channel_there,
        monitor: &monitor_there,
    };

    let mut command = machine.emulator.command();
    command
        .args(arguments(machine, &inherited)?)
        .stdin(Stdio::null())
        .stdout(console.try_clone().context("the console's file")?)
        .stderr(console.try_clone().context("the console's file")?);
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            for fd in &kept {
                if nix::libc::fcntl(*fd, nix::libc::F_SETFD, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let mut running = Running(command.spawn().context("starting QEMU")?);
    // QEMU's copies are now the only ones, so that their end is QEMU's.
    drop((channel_there, monitor_there));
    let events = channel_here.try_clone().context("the guest's channel")?;
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(events).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut slow_down = || slow_down(machine.drives, &monitor_here, &channel_here);
    let deadline = Instant::now() + limit;
    let mut spoke = false;
    let end = listen(
        &receiver,
        &mut running,
        (deadline, patience),
        machine.console,
        &mut slow_down,
        &mut spoke,
        on_event,
    );
    drop(running);
    drop(receiver);
    if reader.join().is_err() {
        bail!("the thread that reads the guest's events panicked");
    }
    Ok((end?, spoke))
}

/// Gives the disks the speed they are to have, and tells the guest that they have it.
fn slow_down(drives: &[Drive], monitor: &UnixStream, mut guest: &UnixStream) -> Result<()> {
    let mut monitor = Monitor::new(monitor.try_clone()?)?;
    for (index, drive) in drives.iter().enumerate() {
        monitor.throttle(
            &drive_id(index),
            drive.write_bandwidth,
            drive.read_bandwidth,
        )?;
    }
    guest
        .write_all(b"\n")
        .context("telling the guest that its disks are set up")
}

/// Does the kernel say that a CPU's timer has stopped? Process 1 may go on on another CPU, and
/// beat, while whatever waits for that one waits for ever. A loaded host had one such boot in some
/// sixty.
fn has_lost_a_timer(console: &Path) -> bool {
    const WORDS: &[u8] = b"kthread timer wakeup didn't happen";
    let console = std::fs::read(console).unwrap_or_default();
    console.windows(WORDS.len()).any(|window| window == WORDS)
}

fn listen(
    lines: &Receiver<Vec<u8>>,
    running: &mut Running,
    (deadline, patience): (Instant, Patience),
    console: &Path,
    on_prepared: &mut dyn FnMut() -> Result<()>,
    spoke: &mut bool,
    on_event: &mut dyn FnMut(Event),
) -> Result<End> {
    let mut silence = Silence::of(running.0.id());
    let mut prepared = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left.min(LOOK)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                return Ok(End::Deadline);
            }
            Err(RecvTimeoutError::Timeout) => {
                if !prepared && has_lost_a_timer(console) {
                    return Ok(End::TimerLost);
                }
                let most = if *spoke {
                    patience.later
                } else {
                    patience.boot
                };
                if silence.length() >= most {
                    return Ok(End::Silent(most));
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = running.0.wait().context("waiting for QEMU")?;
                return Ok(End::Died(status.to_string()));
            }
        };
        *spoke = true;
        silence.broken();
        match serde_json::from_slice(&line) {
            Ok(Event::End) => return Ok(End::Complete),
            Ok(Event::Prepared) => {
                prepared = true;
                on_prepared()?;
            }
            Ok(event) => on_event(event),
            Err(error) => {
                let shown: String = String::from_utf8_lossy(&line).chars().take(200).collect();
                return Ok(End::Garbled(format!("{error}: {shown}")));
            }
        }
    }
}

/// What QEMU is given as open descriptors, besides the initramfs.
struct Inherited<'a> {
    images: &'a [File],
    console: &'a File,
    madt: Option<&'a File>,
    channel: &'a UnixStream,
    monitor: &'a UnixStream,
}

/// A file without a name.
fn madt_file(possible_cpus: u32) -> Result<File> {
    let mut file = tempfile::tempfile().context("making a file for an ACPI table")?;
    file.write_all(&madt::table(possible_cpus))
        .context("writing an ACPI table")?;
    Ok(file)
}

/// QEMU refers to files it inherits by these paths.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The name of a drive, the same in arguments and in the monitor's commands.
fn drive_id(index: usize) -> String {
    format!("disk{index}")
}

fn arguments(machine: &Machine<'_>, inherited: &Inherited<'_>) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        arguments.push(option.into());
        arguments.push(value.as_ref().into());
    };
    add("-name", &"weir-lab");
    let hmat = if machine.tiers.is_empty() {
        ""
    } else {
        ",hmat=on"
    };
    add("-M", &format!("q35{hmat}"));
    if machine.count_instructions {
        // One instruction takes one nanosecond of virtual time, and time that nothing runs in is
        // skipped.
        add("-accel", &"tcg,thread=single");
        add("-icount", &"shift=0,sleep=off");
    } else {
        add("-accel", &"tcg,thread=multi");
    }
    let mut cpu = "max".to_owned();
    // Counting, a string instruction is one for each of its rounds: a page copied byte by byte
    // would be 4,096. Without these two Linux and the C library copy by words.
    if machine.count_instructions {
        cpu += ",-erms,-fsrm";
    }
    // While a kernel with KASAN identifies its CPU, it forgets for an instant that its page tables
    // have five levels, and reports whatever an interrupt reads then as a wild access.
    if machine.instrumented {
        cpu += ",-la57";
    }
    add("-cpu", &cpu);
    match inherited.madt {
        // Sockets make firmware switch to x2APIC, whose numbers have more than eight bits.
        Some(table) => {
            let (cpus, possible) = (machine.cpus, machine.possible_cpus);
            add(
                "-smp",
                &format!("{cpus},maxcpus={possible},sockets={possible},cores=1,threads=1"),
            );
            add(
                "-acpitable",
                &format!("sig=APIC,rev=3,data={}", path_of(table)),
            );
        }
        None => add("-smp", &machine.cpus.to_string()),
    }
    add(
        "-m",
        &numa::memory(machine.memory, machine.tiers, machine.dimm),
    );
    add("-display", &"none");
    add("-kernel", &machine.image);
    add("-initrd", &path_of(&machine.initramfs));
    // panic=-1 with -no-reboot: a panic ends QEMU at once. The log buffer holds all of a noisy run.
    // no_timer_check: on a busy machine the kernel finds the emulated timer wanting while it boots,
    // and stops there.
    let mut append = "console=ttyS0 quiet panic=-1 log_buf_len=4M no_timer_check".to_owned();
    // Counting, the frequency is 1 GHz and the kernel finds it. reliable: nor need it compare the
    // counter with a slower clock later, which a busy host distorts as much.
    if let Some(khz) = tsc::khz().filter(|_| !machine.count_instructions) {
        append += &format!(" tsc_early_khz={khz} tsc=reliable");
    }
    if inherited.madt.is_some() {
        append += &format!(" {}", madt::kernel_options(machine.cpus));
    }
    add("-append", &format!("{append} {}", machine.append));
    add(
        "-chardev",
        &format!("file,id=console,path={}", path_of(inherited.console)),
    );
    add("-serial", &"chardev:console");
    for (id, socket) in [
        ("channel", inherited.channel),
        ("monitor", inherited.monitor),
    ] {
        add(
            "-chardev",
            &format!("socket,id={id},fd={}", socket.as_raw_fd()),
        );
    }
    add("-serial", &"chardev:channel");
    add("-mon", &"chardev=monitor,mode=control");
    for (index, image) in inherited.images.iter().enumerate() {
        let id = drive_id(index);
        add(
            "-drive",
            &format!(
                "if=none,id={id},format=raw,cache=unsafe,aio=threads,discard=unmap,werror=report,rerror=report,file={}",
                path_of(image)
            ),
        );
        add(
            "-device",
            &format!("virtio-blk-pci,drive={id},serial=weir-{index}"),
        );
    }
    let tiers = numa::arguments(machine.tiers, machine.cpus, machine.dimm)?;
    arguments.extend(tiers.into_iter().map(OsString::from));
    arguments.push("-nodefaults".into());
    arguments.push("-no-reboot".into());
    Ok(arguments)
}

/// Sparse images without a name: in memory if that has room for all of them, full, beside the
/// guest; else on disk.
fn images(drives: &[Drive], memory: u64, scratch: &Path) -> Result<Vec<File>> {
    let total: u64 = drives.iter().map(|drive| drive.size).sum();
    let tmpfs = Path::new("/dev/shm");
    let fits = room(tmpfs).is_ok_and(|room| room > total)
        && available_memory().is_some_and(|room| room > total + memory);
    let place = if fits { tmpfs } else { scratch };
    if !fits {
        let room = room(place)?;
        if room < total {
            bail!(
                "the guest's disks may grow to {} MiB, but {} has {} MiB left: free some space, or make the disks smaller",
                total >> 20,
                place.display(),
                room >> 20
            );
        }
    }
    drives
        .iter()
        .map(|drive| {
            let image = tempfile::tempfile_in(place)?;
            image.set_len(drive.size)?;
            Ok(image)
        })
        .collect::<std::io::Result<_>>()
        .with_context(|| format!("making disk images in {}", place.display()))
}

/// Free space of a filesystem, in bytes.
fn room(path: &Path) -> Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path).with_context(|| format!("{}", path.display()))?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

/// Memory the host can give away without swapping, in bytes.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Witness;
    use scenario::executor::Outcome;
    use std::os::unix::fs::PermissionsExt;

    /// In place of QEMU's dynamic linker: counts the boots in `boots` and finds the channel's
    /// socket.
    const FAKE: &str = r#"#!/bin/bash
cd "${0%/*}" || exit 9
echo boot >>boots
mapfile -t seen <boots
boot=${#seen[@]}
all=$*
channel=${all#*socket,id=channel,fd=}
channel=${channel%% *}
says() { echo "$1" >&"$channel"; }
hello='{"event":"boot","release":"6.12"}'
echo "console of boot $boot"
"#;

    #[derive(Default)]
    struct Heard {
        events: u32,
        failed: Vec<String>,
        witness: Witness,
    }

    impl Listener for Heard {
        fn event(&mut self, event: Event) {
            self.events += 1;
            self.witness.note(&event);
        }
        fn failed_boot(&mut self, failed: &FailedBoot) {
            let console = std::fs::read_to_string(&failed.log).unwrap();
            let name = failed.log.file_name().unwrap().to_string_lossy();
            let end = &failed.end;
            self.failed
                .push(format!("{}: {end}, {name}: {console}", failed.number));
        }
    }

    /// What becomes of an emulator that does this, and how often it was started.
    fn booted(does: &str) -> (End, Heard, usize, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("lib/x86_64-linux-gnu");
        std::fs::create_dir_all(&bin).unwrap();
        let program = bin.join("ld-linux-x86-64.so.2");
        std::fs::write(&program, format!("{FAKE}{does}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let console = root.path().join("console.log");
        std::fs::write(root.path().join("console.boot-2.log"), "of an earlier run").unwrap();
        let machine = Machine {
            emulator: &Emulator::at(root.path().into()),
            image: Path::new("/nonexistent"),
            initramfs: tempfile::tempfile().unwrap(),
            memory: 1 << 30,
            tiers: &[],
            dimm: false,
            cpus: 1,
            possible_cpus: 1,
            drives: &[],
            count_instructions: false,
            instrumented: false,
            append: "",
            console: &console,
            scratch: root.path(),
        };
        let patience = Patience {
            boot: Duration::from_secs(1),
            later: Duration::from_secs(3),
        };
        let mut heard = Heard::default();
        let limit = Duration::from_secs(60);
        let end = boot_within(&machine, limit, patience, &mut heard).unwrap();
        let boots = std::fs::read_to_string(bin.join("boots")).unwrap();
        (end, heard, boots.lines().count(), root)
    }

    fn kept(root: &tempfile::TempDir, name: &str) -> Option<String> {
        std::fs::read_to_string(root.path().join(name)).ok()
    }

    #[test]
    fn a_guest_that_hangs_or_dies_before_its_first_word_is_booted_again() {
        let (end, heard, boots, root) = booted(
            r#"case $boot in
            1) exec sleep 1000 ;;
            2) exit 3 ;;
            *) says "$hello"; says '{"event":"end"}'; exec sleep 1000 ;;
            esac"#,
        );
        assert_eq!((end, heard.events, boots), (End::Complete, 1, 3));
        assert_eq!(
            heard.failed,
            [
                "1: nothing heard for 1 s, console.boot-1.log: console of boot 1\n",
                "2: QEMU ended: exit status: 3, console.boot-2.log: console of boot 2\n",
            ]
        );
        assert_eq!(kept(&root, "console.log").unwrap(), "console of boot 3\n");
    }

    #[test]
    fn a_guest_that_lost_a_timer_before_its_disks_were_ready_is_booted_again() {
        let (end, heard, boots, _root) = booted(
            r#"says "$hello"
            case $boot in
            1) echo "rcu: rcu_preempt kthread timer wakeup didn't happen for 5251 jiffies!"
               exec sleep 1000 ;;
            *) says '{"event":"end"}'; exec sleep 1000 ;;
            esac"#,
        );
        assert_eq!((end, boots), (End::Complete, 2));
        assert_eq!(heard.failed.len(), 1);
        assert!(heard.failed[0].starts_with("1: a CPU's timer is silent"));
    }

    #[test]
    fn three_failed_boots_are_enough() {
        for (does, end) in [
            ("exec sleep 1000", End::Silent(Duration::from_secs(1))),
            // A guest that is busy and says nothing.
            ("while :; do :; done", End::Silent(Duration::from_secs(1))),
            ("exit 3", End::Died("exit status: 3".into())),
        ] {
            let (got, heard, boots, root) = booted(does);
            assert_eq!((&got, heard.events, boots), (&end, 0, 3), "{does}");
            assert_eq!(heard.failed.len(), 2, "{does}");
            assert_eq!(kept(&root, "console.log").unwrap(), "console of boot 3\n");
            let outcome = heard
                .witness
                .outcome(&got, &root.path().join("console.log"));
            assert!(matches!(outcome, Outcome::Inconclusive(_)), "{outcome:?}");
        }
    }

    #[test]
    fn a_guest_that_said_anything_is_never_booted_again() {
        for (does, end) in [
            (
                "says \"$hello\"; exec sleep 1000",
                End::Silent(Duration::from_secs(3)),
            ),
            (
                "says \"$hello\"; exit 3",
                End::Died("exit status: 3".into()),
            ),
            (
                "says '{\"event\":\"beat\"}'; exit 3",
                End::Died("exit status: 3".into()),
            ),
        ] {
            let (got, heard, boots, root) = booted(does);
            assert_eq!((got, heard.events, boots), (end, 1, 1), "{does}");
            assert!(heard.failed.is_empty(), "{does}");
            let stale = kept(&root, "console.boot-2.log");
            assert_eq!(stale, None, "the log of an earlier run is still there");
        }
        let (end, _, boots, _root) = booted("says nonsense; exec sleep 1000");
        assert!(matches!(end, End::Garbled(_)), "{end:?}");
        assert_eq!(boots, 1);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Guests that do not boot, with a script in place of QEMU.

use super::*;
use crate::arch::Arch;
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
monitor=${all#*socket,id=monitor,fd=}
monitor=${monitor%% *}
# answers LAST: what the lab asks its monitor, up to this command
answers() {
    while read -r -u "$monitor" asked; do
        case $asked in
        *'"migrate"'*) state=${asked#*file:}; echo state >"${state%%\"*}"; says_monitor '{}' ;;
        *query-migrate*) says_monitor '{"status":"completed"}' ;;
        *query-status*) says_monitor '{"status":"paused"}' ;;
        *) says_monitor '{}' ;;
        esac
        case $asked in *"\"$1\""*) return ;; esac
    done
}
says_monitor() { echo "{\"return\":$1}" >&"$monitor"; }
case $all in
*-incoming*)
    answers cont
    read -r -u "$channel" bytes
    echo "$bytes" >>work ;;
esac
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
        self.witness.record_event(&event);
    }
    fn failed_boot(&mut self, failed: &FailedBoot) {
        let console = std::fs::read_to_string(&failed.log).unwrap();
        let name = failed.log.file_name().unwrap().to_string_lossy();
        let end = &failed.end;
        self.failed
            .push(format!("{}: {end}, {name}: {console}", failed.number));
    }
}

/// An emulator that does this.
fn emulator(does: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let bin = root.path().join("lib/x86_64-linux-gnu");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join("ld-linux-x86-64.so.2");
    std::fs::write(&program, format!("{FAKE}{does}\n")).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let emulator = Emulator::at_root(root.path().into(), Arch::HERE);
    std::fs::create_dir_all(emulator.program_path().parent().unwrap()).unwrap();
    std::fs::write(emulator.program_path(), "").unwrap();
    (root, bin)
}

/// What a machine refers to.
struct Parts {
    root: std::path::PathBuf,
    emulator: Emulator,
    base: Base,
    work: File,
    cache: Cache,
    console: std::path::PathBuf,
}

impl Parts {
    fn at(root: &Path, arch: Arch) -> Parts {
        Parts {
            root: root.into(),
            emulator: Emulator::at_root(root.into(), arch),
            base: Base::bare("/bin/true".into()),
            work: tempfile::tempfile().unwrap(),
            cache: Cache::open_at(root.join("cache")).unwrap(),
            console: root.join("console.log"),
        }
    }

    fn machine(&self) -> Machine<'_> {
        Machine {
            emulator: &self.emulator,
            image: Path::new("/bin/true"),
            base: &self.base,
            work: &self.work,
            cache: &self.cache,
            memory: 1 << 30,
            tiers: &[],
            dimm: false,
            cpus: 1,
            possible_cpus: 1,
            drives: &[],
            disk_memory: &[],
            count_instructions: false,
            instrumented: false,
            append: "",
            console: &self.console,
            scratch: &self.root,
        }
    }
}

/// What becomes of it, and how often it was started.
fn booted(does: &str) -> (End, Heard, usize, tempfile::TempDir) {
    let (root, bin) = emulator(does);
    std::fs::write(root.path().join("console.boot-2.log"), "of an earlier run").unwrap();
    let parts = Parts::at(root.path(), Arch::HERE);
    let machine = parts.machine();
    let patience = Patience {
        boot: Duration::from_secs(1),
        later: Duration::from_secs(3),
    };
    let mut heard = Heard::default();
    let limit = Duration::from_secs(60);
    let start = Start::Boot(tempfile::tempfile().unwrap());
    let end = boot_with_retries(&machine, &start, limit, patience, &mut heard).unwrap();
    let boots = std::fs::read_to_string(bin.join("boots")).unwrap();
    (end, heard, boots.lines().count(), root)
}

fn kept(root: &tempfile::TempDir, name: &str) -> Option<String> {
    std::fs::read_to_string(root.path().join(name)).ok()
}

/// The command line of a guest, and its kernel's.
fn command_line(arch: Arch, tiers: &[Tier]) -> Result<String> {
    let root = tempfile::tempdir()?;
    let parts = Parts::at(root.path(), arch);
    let (file, (socket, _other)) = (tempfile::tempfile()?, UnixStream::pair()?);
    let machine = Machine {
        tiers,
        cpus: 2,
        possible_cpus: 2,
        append: "of=ours",
        ..parts.machine()
    };
    let inherited = Inherited {
        images: &[],
        console: &file,
        madt: None,
        channel: &socket,
        monitor: &socket,
    };
    let words = machine_arguments(&machine, &Start::Boot(tempfile::tempfile()?), &inherited)?;
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Ok(words.join(" "))
}

#[test]
fn each_architecture_has_its_own_board_and_console() {
    let (pc, arm) = (
        command_line(Arch::Amd64, &[]).unwrap(),
        command_line(Arch::Arm64, &[]).unwrap(),
    );
    for words in ["-M q35 ", " console=ttyS0 ", " no_timer_check"] {
        assert!(pc.contains(words) && !arm.contains(words), "{words}: {pc}");
    }
    for words in ["-M virt,", " console=ttyAMA0 "] {
        assert!(arm.contains(words) && !pc.contains(words), "{words}: {arm}");
    }
    assert!(pc.contains(" of=ours") && arm.contains(" of=ours"));
}

#[test]
fn tiers_are_refused_where_no_table_describes_them() {
    let tier = Tier {
        name: "0".into(),
        size_bytes: 1 << 30,
        latency_ns: 80,
        bandwidth: 1 << 30,
    };
    assert!(command_line(Arch::Amd64, std::slice::from_ref(&tier)).is_ok());
    let error = command_line(Arch::Arm64, &[tier]).unwrap_err().to_string();
    assert!(error.contains("take a kernel without `:arm64`"), "{error}");
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
            .judge_outcome(&got, &root.path().join("console.log"));
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

/// What becomes of a guest that counts instructions, with work of so many bytes.
fn counted(root: &Path, work: u64) -> Result<(End, Heard)> {
    let parts = Parts::at(root, Arch::HERE);
    parts.work.set_len(work)?;
    let machine = Machine {
        disk_memory: &[1 << 20],
        count_instructions: true,
        ..parts.machine()
    };
    let mut heard = Heard::default();
    let end = boot(machine, Duration::from_secs(60), &mut heard)?;
    Ok((end, heard))
}

#[test]
fn guests_that_count_are_booted_once_and_continued_each_with_its_work() {
    let (root, bin) = emulator(
        r#"case $all in
            *-incoming*memory-backend-file,id=work*id=memory0*) says "$hello"; says '{"event":"end"}' ;;
            *id=memory0*) says "the machine that is saved has disks" ;;
            *) says '{"event":"booted"}'; answers query-migrate ;;
            esac
            exec sleep 1000"#,
    );
    for work in [100, 70_000] {
        let (end, heard) = counted(root.path(), work).unwrap();
        assert_eq!((end, heard.events), (End::Complete, 1));
    }
    let said = |name| std::fs::read_to_string(bin.join(name)).unwrap();
    assert_eq!(
        said("boots").lines().count(),
        3,
        "one boot, two that continue it"
    );
    assert_eq!(said("work"), "100\n70000\n");
}

#[test]
fn a_boot_that_fails_is_not_kept() {
    let (root, bin) = emulator("exit 3");
    let (end, heard) = counted(root.path(), 100).unwrap();
    assert_eq!(
        (end, heard.failed.len()),
        (End::Died("exit status: 3".into()), 2)
    );
    let boots = std::fs::read_to_string(bin.join("boots")).unwrap();
    assert_eq!(boots.lines().count(), 3);
    let kept = std::fs::read_dir(root.path().join("cache/snapshots")).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().path()).collect();
    assert!(
        kept.iter().all(|path| path.extension().is_some()),
        "{kept:?}"
    );
}

#[test]
fn a_process_1_of_another_weir_is_said() {
    let (root, _bin) = emulator(r#"says "$hello"; says '{"event":"end"}'; exec sleep 1000"#);
    let error = counted(root.path(), 100).map(|(end, _)| end).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("does not wait for work: build that weir again"),
        "{error}"
    );
}

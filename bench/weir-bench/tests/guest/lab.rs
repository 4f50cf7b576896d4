// SPDX-License-Identifier: GPL-2.0-only
//! Guests for real: a stock kernel from the archive, booted in QEMU, and what becomes of it.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const WEIR: &str = env!("CARGO_BIN_EXE_weir-bench");

/// Where it is not the host's clock or a boot that matters.
const COUNTED: &[&str] = &["--count-instructions", "--cpus", "1", "--memory", "1G"];

/// `weir exec` with `options`, on a script.
fn exec(options: &[&str], script: &str, args: &[&str]) -> Output {
    let mut file = tempfile::NamedTempFile::new().expect("a file for the script");
    file.write_all(script.as_bytes())
        .expect("writing the script");
    Command::new(WEIR)
        .args(["exec", "--no-module"])
        .args(options)
        .arg(file.path())
        .args(args)
        .output()
        .expect("running weir")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_script_has_its_arguments_files_disks_and_exit_status() {
    let mut file = tempfile::NamedTempFile::new().expect("a file to copy");
    file.write_all(b"from the host\n").expect("writing it");
    let copy = format!("{}:/etc/copied", file.path().display());
    let script = r#"
        echo "args: $*; env: $COLOUR"; cat /etc/copied
        grep -o ' /mnt/[a-z]* [a-z0-9]*' /proc/mounts
        test -b /dev/weir/blank && echo "blank $(cat /sys/block/$(basename $(readlink /dev/weir/blank))/size)"
        cat /sys/fs/cgroup/cgroup.subtree_control; fio --version; no-such-program
        khz=$(sed -n 's/.* tsc_early_khz=\([0-9]*\) .*/\1/p' /proc/cmdline)
        dmesg | grep -q "tsc: Detected $((khz / 1000)).$(printf %03d $((khz % 1000))) MHz" && echo "clock as told"
        exit 3"#;
    let output = exec(
        &[
            "--disk",
            "a=200M,ext4",
            "--disk",
            "b=400M,xfs",
            "--disk",
            "c=200M,btrfs",
            "--disk",
            "d=100M,vfat",
            "--disk",
            "blank=1M",
            "--file",
            &copy,
            "--env",
            "COLOUR=blue",
        ],
        script,
        &["one", "--two"],
    );
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    for line in [
        "args: one --two; env: blue",
        "from the host",
        " /mnt/a ext4",
        " /mnt/b xfs",
        " /mnt/c btrfs",
        " /mnt/d vfat",
        "blank 2048",
        "cpu io memory pids",
        "fio-3.",
        "clock as told",
    ] {
        assert!(out.contains(line), "no `{line}` in:\n{out}{err}");
    }
    assert!(
        out.contains("no-such-program: not found"),
        "stderr of the script is missing:\n{out}"
    );
    assert!(err.contains("kernel 6.12."), "{err}");
}

/// Both continue the same boot, whose kernel has chosen its place once.
#[test]
fn guests_that_count_continue_one_boot_and_share_no_more() {
    let said = || {
        let disk = ["--disk", "d=64M,ext4"];
        let script = "grep -w _text /proc/kallsyms; cat /proc/sys/kernel/random/uuid
            ls /left /mnt/d/left; echo mine >/left; echo mine >/mnt/d/left; sync";
        let output = exec(&[COUNTED, &disk].concat(), script, &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let (first, second) = (said(), said());
    let line = |text: &str, number| text.lines().nth(number).map(str::to_owned);
    assert!(first.contains(" T _text"), "{first}");
    assert_eq!(line(&first, 0), line(&second, 0), "another boot");
    assert_ne!(line(&first, 1), line(&second, 1), "the same random numbers");
    assert_eq!(second.matches("No such file").count(), 2, "{second}");
}

#[test]
fn a_kernel_that_panics_has_failed_and_its_log_is_named() {
    let output = exec(
        COUNTED,
        "echo before; sleep 1; echo c >/proc/sysrq-trigger",
        &[],
    );
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{err}");
    // What a script began is never begun again.
    assert_eq!(times("before", &text(&output.stdout)), 1);
    assert!(!err.contains("booting again"), "{err}");
    assert!(
        err.contains("failed: the guest's kernel complained: "),
        "{err}"
    );
    let log = err
        .split("see ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("a path");
    let log = std::fs::read_to_string(log).expect("the log that was named");
    assert!(
        log.contains("Kernel panic - not syncing: sysrq triggered crash"),
        "{log}"
    );
}

#[test]
fn a_kernel_that_warns_has_failed_whatever_the_script_says() {
    let output = exec(
        COUNTED,
        "echo 'WARNING: planted' > /dev/kmsg; echo 'ok 1 - fine'",
        &[],
    );
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{err}");
    assert!(
        err.contains("the guest's kernel complained: WARNING: planted"),
        "{err}"
    );
}

/// How often a line is in a text.
fn times(line: &str, text: &str) -> usize {
    text.lines().filter(|said| *said == line).count()
}

#[test]
fn a_guest_that_does_not_end_is_inconclusive() {
    let output = exec(&["--timeout", "30s"], "sleep 1000", &[]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{err}");
    assert!(
        err.contains("inconclusive: the guest was not done when its time was up; see "),
        "{err}"
    );
}

/// Both wait for the watchdog's minute, in which their guests use no CPU: so they do it side by
/// side.
#[test]
fn only_a_guest_that_has_not_begun_is_booted_again() {
    std::thread::scope(|scope| {
        scope.spawn(a_silent_script_is_inconclusive_and_not_run_again);
        a_lost_boot_is_repeated_and_said();
    });
}

fn a_silent_script_is_inconclusive_and_not_run_again() {
    // The script's parent is the agent: stopped, it beats no more.
    let script = "echo began; sleep 1; kill -STOP $PPID; sleep 1000";
    let output = exec(&[], script, &[]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(126), "{err}");
    assert!(
        err.contains("inconclusive: the guest hangs: nothing heard for 60 s; see "),
        "{err}"
    );
    assert_eq!(times("began", &out), 1, "{out}{err}");
    assert!(!err.contains("booting again"), "{err}");
}

/// The first boot's emulator is killed, the second's stopped: the third runs the script, once.
fn a_lost_boot_is_repeated_and_said() {
    let mut file = tempfile::NamedTempFile::new().expect("a file for the script");
    file.write_all(b"echo began; echo 'ok 1 - fine'; exit 7")
        .expect("writing the script");
    let weir = Command::new(WEIR)
        .args(["exec", "--no-module"])
        .arg(file.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("running weir");
    let first = emulator_of(weir.id(), 0);
    signal(first, "KILL");
    signal(emulator_of(weir.id(), first), "STOP");
    let output = weir.wait_with_output().expect("weir's output");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(7), "{out}{err}");
    assert_eq!(times("began", &out), 1, "{out}{err}");
    for (number, why) in [
        (1, "QEMU ended: signal: 9 (SIGKILL)"),
        (2, "nothing heard for 60 s"),
    ] {
        let said = format!("boot {number} of 3 failed before anything was run ({why}; see ");
        let log = err
            .split(&said)
            .nth(1)
            .and_then(|rest| rest.split(')').next());
        let log = log.unwrap_or_else(|| panic!("no `{said}` in:\n{err}"));
        assert!(
            log.ends_with(&format!("console.boot-{number}.log")),
            "{err}"
        );
        assert!(std::path::Path::new(log).is_file(), "{log} was not kept");
    }
}

/// A kernel that finds no process 1 panics: the emulator ends each time.
#[test]
#[ignore = "three boots: make proof"]
fn a_guest_that_never_boots_has_failed_after_three_boots() {
    let output = exec(&["--append", "rdinit=/nonexistent"], "echo began", &[]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(125), "{out}{err}");
    assert_eq!(err.matches("booting again").count(), 2, "{err}");
    assert!(err.contains("Kernel panic - not syncing"), "{err}");
    assert_eq!(times("began", &out), 0, "{out}");
}

/// The QEMU that this weir has started, once there is one other than `before`.
fn emulator_of(weir: u32, before: u32) -> u32 {
    let is_emulator = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != before && text(&line).contains("weir-lab")
    };
    for _ in 0..60_000 {
        if let Some(pid) = children(weir).into_iter().find(is_emulator) {
            return pid;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("weir {weir} starts no QEMU");
}

fn signal(pid: u32, name: &str) {
    // The shell's own: there may be no other.
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status();
    assert!(sent.expect("sh runs").success(), "{name} to {pid}");
}

#[test]
fn what_cannot_be_run_is_refused_with_what_would_be_right() {
    for (options, why) in [
        (
            ["--kernel", "debian:5"],
            "`5` is not a kernel series like 6.12 or 6.1",
        ),
        (
            ["--kernel", "debian:6.12:arm"],
            "unknown flavour `arm`, known: cloud, generic, rt",
        ),
        (
            ["--kernel", "debian:7.99"],
            "have no 7.99 kernel for amd64 in the flavour cloud",
        ),
        (
            ["--kernel", "vmlinux"],
            "neither a file nor a kernel the lab can fetch",
        ),
        (
            ["--disk", "huge=1000T,ext4"],
            "free some space, or make the disks smaller",
        ),
        (
            ["--disk", "slow=1G,ext3"],
            "unknown filesystem `ext3`, known: ext4, xfs, btrfs, vfat, swap, none",
        ),
        (
            ["--file", "/etc/passwd:there"],
            "absolute path in the guest",
        ),
    ] {
        let output = exec(&options, "true", &[]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {err}");
        assert!(err.contains(why), "{options:?}: {err}");
    }
    let output = Command::new(WEIR)
        .args(["exec", "no-such.sh"])
        .output()
        .expect("running weir");
    assert!(text(&output.stderr).contains("cannot read the script no-such.sh"));
}

/// The kernel's list of the process's children.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn no_guest_outlives_weir() {
    let mut file = tempfile::NamedTempFile::new().expect("a file for the script");
    file.write_all(b"echo up; sleep 1000")
        .expect("writing the script");
    let mut weir = Command::new(WEIR)
        .args(["exec", "--no-module"])
        .arg(file.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("running weir");
    let mut first = [0; 2];
    std::io::Read::read_exact(weir.stdout.as_mut().expect("a pipe"), &mut first)
        .expect("the script's output");
    let guests = children(weir.id());
    assert_eq!(guests.len(), 1, "one QEMU");
    // What ctrl-c does, less kindly.
    weir.kill().expect("killing weir");
    weir.wait().expect("waiting for weir");
    let status = format!("/proc/{}", guests[0]);
    for _ in 0..600 {
        if !std::path::Path::new(&status).exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("QEMU {} still runs", guests[0]);
}

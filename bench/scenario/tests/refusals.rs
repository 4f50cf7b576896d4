// SPDX-License-Identifier: GPL-2.0-only
//! Every refusal, by its full text: people read these, so they are part of the interface.
//!
//! Each case changes one thing in a valid file and gives the whole message it must cause.

use config::problem::Problems;

/// Line numbers in the cases count from the `title` line = 1.
const VALID: &str = r#"title = "one noisy writer"
[host]
memory = "2G"
cpus = 2
sysctl = { "vm.dirty_bytes" = "32M" }
[[disk]]
name = "slow"
write_bandwidth = "256K/s"
filesystem = "ext4"
[cgroup.victim]
"memory.dirty_min" = "16M"
[[job]]
name = "victim"
cgroup = "victim"
fio = { rw = "write", bs = "4k", size = "32M" }
[[phase]]
name = "solo"
jobs = ["victim"]
duration = "10s"
[[phase]]
name = "again"
jobs = ["victim"]
duration = "10s"
delay = { victim = "5s" }
[phase.set.victim]
"memory.dirty_min" = "0"
[[expect]]
metric = "victim.iops"
arm = "weir"
phase = "again"
at_least = "0.99 * solo"
"#;

fn refusal(text: &str) -> Problems {
    scenario::parse("t", "t.toml", text).expect_err("must be refused")
}

/// Replaces `from` (which must be there) by `to` and compares the complaints, one per line.
#[track_caller]
fn check(from: &str, to: &str, complaints: &str) {
    assert!(
        VALID.contains(from),
        "the case changes something that is not there: {from}"
    );
    let got = refusal(&VALID.replacen(from, to, 1)).to_string();
    assert_eq!(
        got,
        complaints.trim(),
        "\n--- got\n{got}\n--- wanted\n{}",
        complaints.trim()
    );
}

#[test]
fn the_file_the_cases_change_is_valid() {
    scenario::parse("t", "t.toml", VALID).unwrap_or_else(|p| panic!("{p}"));
}

#[test]
fn unknown_keys() {
    check(
        "memory = \"2G\"",
        "memori = \"2G\"",
        r#"t.toml:3: key `host.memori`: unknown key, did you mean `memory`? known: cpus, lru_gen, memory, sysctl, weir"#,
    );
    check(
        "title =",
        "titel =",
        r#"t.toml:1: key `titel`: unknown key, did you mean `title`? known: agent, cgroup, disk, expect, host, job, phase, tier, title, twin"#,
    );
    check(
        "write_bandwidth",
        "write_bw",
        r#"t.toml:8: key `disk[0].write_bw`: unknown key, did you mean `write_bandwidth`? known: encrypted, filesystem, io_cost, kind, latency, mount_options, name, parallel, read_bandwidth, seek, size, submit_bandwidth, write_bandwidth"#,
    );
    check(
        "duration = \"10s\"\n[[",
        "duraton = \"10s\"\n[[",
        r#"t.toml:19: key `phase[0].duraton`: unknown key, did you mean `duration`? known: clean, delay, duration, jobs, name, set"#,
    );
    check(
        "at_least",
        "at_last",
        r#"
t.toml:27: key `expect[0]`: says no bound: add `at_least` or `at_most`, for example `at_least = "0.99 * solo"`
t.toml:31: key `expect[0].at_last`: unknown key, did you mean `at_least`? known: arm, at_least, at_most, metric, phase"#,
    );
    check(
        "cgroup = \"victim\"",
        "weight = 3",
        r#"t.toml:14: key `job[0].weight`: unknown key, known: cgroup, disk, fio, memory, name, network, sync"#,
    );
}

/// The job says what it runs, so it is not told to run fio.
#[test]
fn a_wrong_table_is_no_missing_one() {
    check(
        r#"fio = { rw = "write", bs = "4k", size = "32M" }"#,
        r#"sync = { call = "fsync" }"#,
        r#"t.toml:15: key `job[0].sync.call`: no call `fsync`, did you mean `sync`? known: sync, syncfs"#,
    );
}

#[test]
fn wrong_types() {
    check(
        "\"2G\"",
        "2",
        r#"t.toml:3: key `host.memory`: is an integer, but must be a size, as in `"2G"`"#,
    );
    check(
        "cpus = 2",
        "cpus = \"two\"",
        r#"t.toml:4: key `host.cpus`: is a string, but must be a number of CPUs, as in `2`"#,
    );
    check(
        "cpus = 2",
        "cpus = 0",
        r#"t.toml:4: key `host.cpus`: `0` CPUs: a host has 1 to 1024"#,
    );
    check(
        "jobs = [\"victim\"]",
        "jobs = \"victim\"",
        r#"t.toml:18: key `phase[0].jobs`: is a string, but must be a list of jobs, as in `["victim"]`"#,
    );
    check(
        "[[disk]]",
        "[disk]",
        r#"
t.toml:6: key `disk`: is a table, but must be written as `[[disk]]`
t.toml:12: key `job[0]`: has nowhere to write: define a `[[disk]]`"#,
    );
    check(
        "[cgroup.victim]\n\"memory.dirty_min\" = \"16M\"",
        "cgroup = 7",
        r#"
t.toml:10: key `disk[0].cgroup`: unknown key, known: encrypted, filesystem, io_cost, kind, latency, mount_options, name, parallel, read_bandwidth, seek, size, submit_bandwidth, write_bandwidth
t.toml:13: key `job[0].cgroup`: no cgroup `victim` is defined, there are none
t.toml:24: key `phase[1].set.victim`: no cgroup `victim` is defined, there are none"#,
    );
    check(
        "delay = { victim = \"5s\" }",
        "clean = \"yes\"",
        r#"t.toml:24: key `phase[1].clean`: is a string, but must be true or false"#,
    );
    check(
        "bs = \"4k\"",
        "bs = [4]",
        r#"t.toml:15: key `job[0].fio.bs`: is an array, but must be a string or a number"#,
    );
}

#[test]
fn wrong_units() {
    check(
        "\"2G\"",
        "\"2X\"",
        r#"t.toml:3: key `host.memory`: `2X` is not a size: write a whole number with K, M, G or T (powers of 1024), as in `32M`"#,
    );
    check(
        "\"2G\"",
        "\"64M\"",
        r#"t.toml:3: key `host.memory`: is too small to boot a distribution kernel: at least `512M`"#,
    );
    check(
        "\"2G\"",
        "\"99999999999G\"",
        r#"t.toml:3: key `host.memory`: `99999999999G` is not a size: more than 1 PiB"#,
    );
    check(
        "\"10s\"",
        "\"999999999m\"",
        r#"t.toml:19: key `phase[0].duration`: `999999999m` is not a duration: longer than 366 days"#,
    );
    check(
        "[[disk]]",
        "[twin]\ncall = \"2m\"\n[[disk]]",
        r#"t.toml:7: key `twin.call`: is too long: at most `1m`"#,
    );
    check(
        "256K/s",
        "256K",
        r#"t.toml:8: key `disk[0].write_bandwidth`: `256K` is not a bandwidth: expected an amount per second, as in `256K/s` or `20M/s`"#,
    );
    check(
        "256K/s",
        "fast/s",
        r#"t.toml:8: key `disk[0].write_bandwidth`: `fast/s` is not a bandwidth: write a size per second, as in `256K/s` or `20M/s`"#,
    );
    for fast in ["99999999T/s", "99999999999999999999T/s"] {
        check(
            "256K/s",
            fast,
            &format!(
                "t.toml:8: key `disk[0].write_bandwidth`: `{fast}` is not a bandwidth: more than 1 PiB per second"
            ),
        );
    }
    check(
        "256K/s",
        "0/s",
        r#"t.toml:8: key `disk[0].write_bandwidth`: `0/s` is not a bandwidth: more than 0 is needed"#,
    );
    check(
        "\"10s\"",
        "\"10\"",
        r#"t.toml:19: key `phase[0].duration`: `10` is not a duration: say the unit, as in `500ms`, `30s` or `5m`"#,
    );
    check(
        "\"10s\"",
        "\"10h\"",
        r#"t.toml:19: key `phase[0].duration`: `10h` is not a duration: write a whole number with ns, us, ms, s or m (minutes), as in `500ms`, `30s` or `5m`"#,
    );
    check(
        "\"10s\"",
        "\"5ms\"",
        r#"t.toml:19: key `phase[0].duration`: is too short to measure anything: at least `1s`"#,
    );
    check(
        "\"5s\"",
        "\"5us\"",
        r#"t.toml:24: key `phase[1].delay.victim`: `5us` is finer than the clock of a scenario: whole milliseconds, as in `500ms`"#,
    );
    check(
        "\"32M\" }",
        "\"lots\" }",
        r#"t.toml:5: key `host.sysctl."vm.dirty_bytes"`: `lots` is not a size: write a whole number with K, M, G or T (powers of 1024), as in `32M`"#,
    );
    check(
        "\"vm.dirty_bytes\" = \"32M\"",
        "\"vm.dirty_ratio\" = \"20M\"",
        r#"t.toml:5: key `host.sysctl."vm.dirty_ratio"`: `20M` is not what `vm.dirty_ratio` takes: a whole number without a unit"#,
    );
    check(
        "\"vm.dirty_bytes\" = \"32M\"",
        "\"vm.dirty_ratio\" = 101",
        r#"t.toml:5: key `host.sysctl."vm.dirty_ratio"`: `101` is not a percentage: 0 to 100"#,
    );
    check(
        "[[disk]]",
        "weir = { drain_seconds = \"30s\" }\n[[disk]]",
        r#"t.toml:6: key `host.weir.drain_seconds`: `30s` is not what `drain_seconds` takes: whole seconds, 0 (off) to 3600, or `auto` on the twin"#,
    );
    check(
        "[[disk]]",
        "weir = { drain_second = 30 }\n[[disk]]",
        r#"t.toml:6: key `host.weir.drain_second`: weir has no host-wide option `drain_second`, did you mean `drain_seconds`? known: assist, drain_seconds, drain_tighten, fair, tier_ratio, tiers"#,
    );
    check(
        "[[disk]]",
        "weir = { drain_tighten = 1 }\n[[disk]]",
        r#"t.toml:6: key `host.weir.drain_tighten`: is an integer, but must be true or false"#,
    );
    check(
        "filesystem",
        "size = \"1M\"\nfilesystem",
        r#"t.toml:9: key `disk[0].size`: is too small for a filesystem: at least `256M` (it is sparse: only what is written is used)"#,
    );
}

#[test]
fn undefined_and_misplaced_names() {
    check(
        "cgroup = \"victim\"",
        "cgroup = \"victin\"",
        r#"t.toml:14: key `job[0].cgroup`: no cgroup `victin` is defined, did you mean `victim`? known: victim"#,
    );
    check(
        "cgroup = \"victim\"",
        "disk = \"fast\"",
        r#"t.toml:14: key `job[0].disk`: no disk `fast` is defined, known: slow"#,
    );
    check(
        "jobs = [\"victim\"]",
        "jobs = [\"noisy\"]",
        r#"
t.toml:18: key `phase[0].jobs[0]`: no job `noisy` is defined, known: victim
t.toml:31: key `expect[0].at_least`: bound `0.99 * solo`: `weir.solo.victim.iops` cannot be measured: job `victim` does not run in phase `solo`, which runs: noisy"#,
    );
    check(
        "jobs = [\"victim\"]",
        "jobs = []",
        r#"t.toml:18: key `phase[0].jobs`: a phase without jobs measures nothing: name at least one"#,
    );
    check(
        "jobs = [\"victim\"]",
        "jobs = [\"victim\", \"victim\"]",
        r#"t.toml:18: key `phase[0].jobs[1]`: `victim` is in this phase already: use fio's `numjobs` for several of one kind"#,
    );
    check(
        "{ victim = \"5s\" }",
        "{ noisy = \"5s\" }",
        r#"t.toml:24: key `phase[1].delay.noisy`: no job `noisy` in this phase, known: victim"#,
    );
    check(
        "[phase.set.victim]",
        "[phase.set.noisy]",
        r#"t.toml:25: key `phase[1].set.noisy`: no cgroup `noisy` is defined, known: victim"#,
    );
    check(
        "name = \"again\"",
        "name = \"solo\"",
        r#"
t.toml:21: key `phase[1].name`: `solo` is already defined above: names must differ
t.toml:28: key `expect[0].metric`: `weir.again.victim.iops` cannot be measured: no phase `again`, known: solo"#,
    );
    check(
        "name = \"victim\"",
        "name = \"host\"",
        r#"
t.toml:12: key `job[0]`: runs in no phase: name `host` in the `jobs` of one, or remove it
t.toml:13: key `job[0].name`: `host` has a meaning of its own in metric names: choose another
t.toml:18: key `phase[0].jobs[0]`: no job `victim` is defined, known: host
t.toml:22: key `phase[1].jobs[0]`: no job `victim` is defined, known: host
t.toml:28: key `expect[0].metric`: `weir.again.victim.iops` cannot be measured: nothing called `victim` is measured, known: cgroup/PATH, disk/NAME, host"#,
    );
    check(
        "name = \"victim\"",
        "name = \"a.b\"",
        r#"
t.toml:12: key `job[0]`: runs in no phase: name `a.b` in the `jobs` of one, or remove it
t.toml:13: key `job[0].name`: `a.b` cannot be a name: letters, digits, `-` and `_`, a letter first
t.toml:18: key `phase[0].jobs[0]`: no job `victim` is defined, known: a.b
t.toml:22: key `phase[1].jobs[0]`: no job `victim` is defined, known: a.b
t.toml:28: key `expect[0].metric`: `weir.again.victim.iops` cannot be measured: nothing called `victim` is measured, known: a.b, cgroup/PATH, disk/NAME, host"#,
    );
    check(
        "ext4",
        "ntfs",
        r#"t.toml:9: key `disk[0].filesystem`: no filesystem `ntfs` here, did you mean `nfs`? known: btrfs, ext4, fuse, nfs, swap, vfat, xfs"#,
    );
    check(
        "\"vm.dirty_bytes\"",
        "\"dirty_bytes\"",
        r#"t.toml:5: key `host.sysctl.dirty_bytes`: `dirty_bytes` is not a sysctl, as in `vm.dirty_bytes`; they begin with: vm, kernel, fs, net, dev, user"#,
    );
    check(
        "[cgroup.victim]",
        "[cgroup.\"victim/inner\"]\n[cgroup.victim]",
        r#"t.toml:15: key `job[0].cgroup`: `victim` has the child `victim/inner`: a cgroup with children cannot hold processes, use a leaf"#,
    );
    check(
        "[cgroup.victim]",
        "[cgroup.\"../up\"]\n[cgroup.victim]",
        r#"t.toml:10: key `cgroup."../up"`: `../up` is not a cgroup's path below the root, as in `victim` or `pod.slice/victim`"#,
    );
    check(
        "[[job]]",
        "[[disk]]\nname = \"other\"\nfilesystem = \"xfs\"\n[[job]]",
        r#"t.toml:15: key `job[0]`: `disk` is missing: name the disk that holds the job's files, known: slow, other"#,
    );
    check(
        "[[phase]]",
        "[[job]]\nname = \"idle\"\nfio = { rw = \"read\", size = \"1M\" }\n[[phase]]",
        r#"t.toml:16: key `job[1]`: runs in no phase: name `idle` in the `jobs` of one, or remove it"#,
    );
}

#[test]
fn cgroup_files() {
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"memory.dirty_mim\" = \"16M\"",
        r#"t.toml:11: key `cgroup.victim."memory.dirty_mim"`: weir has no file `memory.dirty_mim`, did you mean `memory.dirty_min`? known: memory.dirty_bandwidth, memory.dirty_bytes, memory.dirty_min, memory.dirty_ratio, memory.dirty_weight, memory.toptier_ratio, memory.writeback_bytes"#,
    );
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"memory.dirty_min\" = \"16 M\"",
        r#"t.toml:11: key `cgroup.victim."memory.dirty_min"`: memory.dirty_min: invalid value `16 M`: expected bytes with optional K, M, G or T, or `max`"#,
    );
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"memory.dirty_ratio\" = 101",
        r#"t.toml:11: key `cgroup.victim."memory.dirty_ratio"`: memory.dirty_ratio: invalid value `101`: expected a whole number from 0 (off) to 100"#,
    );
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"memory.dirty_weight\" = 0",
        r#"t.toml:11: key `cgroup.victim."memory.dirty_weight"`: memory.dirty_weight: invalid value `0`: expected a whole number from 1 to 10000"#,
    );
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"memory.dirty_stat\" = 1",
        r#"t.toml:11: key `cgroup.victim."memory.dirty_stat"`: `memory.dirty_stat` is read, not written: expectations can use its counters"#,
    );
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"memory.hihg\" = \"16M\"",
        r#"t.toml:11: key `cgroup.victim."memory.hihg"`: not a cgroup file that can be set here, did you mean `memory.high`? known: cgroup.freeze, cgroup.max.depth, cgroup.max.descendants, copies, cpu.idle, cpu.max, cpu.max.burst, cpu.weight, cpu.weight.nice, io.bfq.weight, io.max, io.prio.class, io.weight, memory.dirty_bandwidth, memory.dirty_bytes, memory.dirty_min, memory.dirty_ratio, memory.dirty_weight, memory.high, memory.low, memory.max, memory.min, memory.oom.group, memory.swap.high, memory.swap.max, memory.toptier_ratio, memory.writeback_bytes, pids.max"#,
    );
    check(
        "\"memory.dirty_min\" = \"16M\"",
        "\"io.latency\" = \"16M\"",
        r#"t.toml:11: key `cgroup.victim."io.latency"`: `io.latency` wants a device number, which is not known before the guest has booted: throttle the `[[disk]]` instead"#,
    );
}

#[test]
fn fio_options() {
    check(
        "bs = \"4k\"",
        "blocksiez = \"4k\"",
        r#"t.toml:15: key `job[0].fio.blocksiez`: fio has no option `blocksiez`, did you mean `blocksize`?"#,
    );
    check(
        "bs = \"4k\"",
        "directory = \"/mnt\"",
        r#"t.toml:15: key `job[0].fio.directory`: weir sets fio's `directory` itself: files live on the job's `disk`"#,
    );
    check(
        "bs = \"4k\"",
        "startdelay = 5",
        r#"t.toml:15: key `job[0].fio.startdelay`: weir sets fio's `startdelay` itself: use the phase's `delay`"#,
    );
    check(
        "bs = \"4k\"",
        "bs = \"4x\"",
        r#"t.toml:15: key `job[0].fio.bs`: `4x` is not a size for fio's `bs`: a whole number with k, m, g or t (powers of 1024), as in `4k`"#,
    );
    check(
        "rw = \"write\"",
        "rw = \"wirte\"",
        r#"t.toml:15: key `job[0].fio.rw`: fio has no `rw` = `wirte`, did you mean `write`? known: randread, randrw, randtrim, randtrimwrite, randwrite, read, readwrite, rw, trim, trimwrite, write"#,
    );
    check(
        "rw = \"write\", ",
        "",
        r#"t.toml:15: key `job[0].fio`: does not say what to do: add for example `rw = "write"`"#,
    );
    check(
        ", size = \"32M\"",
        "",
        r#"t.toml:15: key `job[0].fio`: does not say how large the file is: add for example `size = "32M"`"#,
    );
    check(
        "fio = { rw = \"write\", bs = \"4k\", size = \"32M\" }",
        "",
        r#"t.toml:12: key `job[0]`: `fio` is missing: add for example `fio = { rw = "write", bs = "4k", size = "32M" }`"#,
    );
}

#[test]
fn expectations() {
    check(
        "victim.iops",
        "cgroup/victim.nr_pases",
        r#"t.toml:28: key `expect[0].metric`: `weir.again.cgroup/victim.nr_pases` cannot be measured: no metric `nr_pases` of a cgroup, did you mean `nr_passes`? known: bandwidth_held_usec, ceiling, dirty, dirty_max_bytes, dirty_median_bytes, disk_bw_bytes, floor, floor_unused, foreign, in_effect, io_full_pct, io_some_pct, mem_full_pct, mem_some_pct, nr_bandwidth_held, nr_ceiling_held, nr_floor_admitted, nr_floor_released, nr_missed, nr_passes, nr_throttled, nr_throttled_below_floor, nr_throttled_by_ancestor, nr_throttled_by_ceiling, nr_throttled_by_cgroup, nr_throttled_by_device, nr_throttled_by_host, nr_throttled_by_unknown, nr_weight_held, nr_would_admit, nr_would_hold, nr_would_pace, nr_would_wait, nr_writeback_held, oom_kills, subtree_dirty, subtree_writeback, throttled_by_ancestor_usec, throttled_by_ceiling_usec, throttled_by_cgroup_usec, throttled_by_device_usec, throttled_by_host_usec, throttled_by_unknown_usec, throttled_usec, weight_held_usec, weight_portion, writeback, writeback_held_usec"#,
    );
    check(
        "victim.iops",
        "victim.iosp",
        r#"t.toml:28: key `expect[0].metric`: `weir.again.victim.iosp` cannot be measured: no metric `iosp` of a job, did you mean `iops`? known: bw_bytes, clat_max_ns, clat_p50_ns, clat_p999_ns, clat_p99_ns, iops, jain, spread_pct, sync_max_ns, sync_p50_ns, sync_p99_ns, total_ios"#,
    );
    check(
        "victim.iops",
        "noisy.iops",
        r#"t.toml:28: key `expect[0].metric`: `weir.again.noisy.iops` cannot be measured: nothing called `noisy` is measured, known: cgroup/PATH, disk/NAME, host, victim"#,
    );
    check(
        "victim.iops",
        "iops",
        r#"t.toml:28: key `expect[0].metric`: `iops` is not `SUBJECT.METRIC`, as in `victim.iops` or `host.dirty_max_bytes`"#,
    );
    check(
        "victim.iops",
        "disk/fast.bw_bytes",
        r#"t.toml:28: key `expect[0].metric`: `weir.again.disk/fast.bw_bytes` cannot be measured: no disk `fast`, known: slow"#,
    );
    check(
        "victim.iops",
        "cgroup/noisy.dirty_max_bytes",
        r#"t.toml:28: key `expect[0].metric`: `weir.again.cgroup/noisy.dirty_max_bytes` cannot be measured: no cgroup `noisy`, known: victim"#,
    );
    check(
        "arm = \"weir\"",
        "arm = \"wier\"",
        r#"t.toml:29: key `expect[0].arm`: no arm `wier`, did you mean `weir`? known: stock, weir"#,
    );
    check(
        "arm = \"weir\"\n",
        "",
        r#"t.toml:27: key `expect[0]`: `arm` is missing: add for example `arm = "weir"`"#,
    );
    check(
        "arm = \"weir\"\nphase = \"again\"\n",
        "",
        r#"t.toml:28: key `expect[0].metric`: `victim.iops` is not a full name `ARM.PHASE.SUBJECT.METRIC`: write one, or add `arm` and `phase`"#,
    );
    check(
        "phase = \"again\"\nat",
        "phase = \"later\"\nat",
        r#"t.toml:28: key `expect[0].metric`: `weir.later.victim.iops` cannot be measured: no phase `later`, known: again, solo"#,
    );
    check(
        "at_least = \"0.99 * solo\"",
        "",
        r#"t.toml:27: key `expect[0]`: says no bound: add `at_least` or `at_most`, for example `at_least = "0.99 * solo"`"#,
    );
    check(
        "0.99 * solo",
        "0.99*solo",
        r#"t.toml:31: key `expect[0].at_least`: bound `0.99*solo`: `0.99*solo` is not a number, a size (`64M`), a bandwidth (`20M/s`) or a time (`2ms`); `*`, `+` and `-` want spaces around them"#,
    );
    check(
        "0.99 * solo",
        "0.99 *",
        r#"t.toml:31: key `expect[0].at_least`: bound `0.99 *`: a number, a size, a time or a metric is missing at the end"#,
    );
    check(
        "0.99 * solo",
        "0.99 solo",
        r#"t.toml:31: key `expect[0].at_least`: bound `0.99 solo`: `solo` where `*`, `+` or `-` was expected"#,
    );
    check(
        "0.99 * solo",
        "2ms",
        r#"t.toml:31: key `expect[0].at_least`: bound `2ms`: `iops` is a plain number and cannot be compared with a time"#,
    );
    check(
        "0.99 * solo",
        "weir.solo.victim.clat_p99_ns",
        r#"t.toml:31: key `expect[0].at_least`: bound `weir.solo.victim.clat_p99_ns`: `iops` is a plain number and cannot be compared with a time"#,
    );
    check(
        "0.99 * solo",
        "weir.later.victim.iops",
        r#"t.toml:31: key `expect[0].at_least`: bound `weir.later.victim.iops`: `weir.later.victim.iops` cannot be measured: no phase `later`, known: again, solo"#,
    );
    check(
        "0.99 * solo",
        "solo * stock",
        r#"t.toml:31: key `expect[0].at_least`: bound `solo * stock`: a product of two measures is not comparable with one: at most one factor may be a metric, a size or a time"#,
    );
}

#[test]
fn whole_files() {
    assert_eq!(
        refusal("").to_string(),
        r#"t.toml:1: `title` is missing: add for example `title = "One noisy writer, one victim"`
t.toml:1: `host` is missing: add for example `[host]`
t.toml:1: nothing would run: add at least one `[[phase]]`"#
    );
    assert_eq!(
        refusal("title = \"a\nb\"").to_string(),
        r#"t.toml:1: not TOML: invalid basic string, expected `"`
t.toml:2: not TOML: key with no value, expected `=`
t.toml:2: not TOML: invalid unquoted key, expected letters, numbers, `-`, `_`"#
    );
    assert_eq!(
        refusal("title = 1\ntitle = 2").to_string(),
        r#"t.toml:2: not TOML: duplicate key"#
    );
    let missing =
        scenario::load(std::path::Path::new("does/not/exist.toml")).expect_err("is not there");
    assert_eq!(
        missing.to_string(),
        "does/not/exist.toml: cannot read the scenario: No such file or directory (os error 2)"
    );
    // It is refused before memory is full of it.
    let endless = scenario::load(std::path::Path::new("/dev/zero")).expect_err("is not text");
    assert_eq!(
        endless.to_string(),
        "/dev/zero: cannot read the scenario: it has more than 16 MiB"
    );
}

#[test]
fn all_problems_of_a_file_are_told_at_once_in_line_order() {
    let text = VALID
        .replace("2G", "2X")
        .replace("256K/s", "256K")
        .replace("0.99 * solo", "fast");
    let lines: Vec<usize> = refusal(&text).0.iter().map(|p| p.line).collect();
    assert_eq!(lines, [3, 8, 31]);
}

#[test]
fn sharing_disks() {
    let file = "\"memory.dirty_min\" = \"16M\"";
    check(
        file,
        "\"io.max\" = \"fast wbps=1M\"",
        r#"t.toml:11: key `cgroup.victim."io.max"`: no disk `fast` is defined, known: slow"#,
    );
    check(
        file,
        "\"io.max\" = \"slow wbps=0\"",
        r#"t.toml:11: key `cgroup.victim."io.max"`: `slow wbps=0` is no limit: `wbps=0`: expected more than 0, or `max`; write a disk's name and limits, as in `slow wbps=1M riops=100`"#,
    );
    check(
        "write_bandwidth = \"256K/s\"",
        "io_cost = true",
        r#"t.toml:8: key `disk[0].io_cost`: `io.weight` divides what a disk is known to do: add `write_bandwidth`"#,
    );
    check(
        "fio = {",
        "network = { bandwidth = \"1M/s\" }\nfio = {",
        r#"t.toml:15: key `job[0].network`: `buffer` is missing: add for example `buffer = "256K"`"#,
    );
    check(
        "[[disk]]",
        "[twin]\nstall = \"2s\"\nstall_every = \"1s\"\n[[disk]]",
        r#"t.toml:6: key `twin`: `stall` needs a longer `stall_every`, as in `stall_every = "10s"`"#,
    );
    check(
        "[[disk]]",
        "[twin]\nqueue = 1\n[[disk]]",
        r#"t.toml:6: key `twin`: `queue` is 2 to 65535 requests"#,
    );
    check(
        "[[disk]]",
        "[twin]\nvary = 101\n[[disk]]",
        r#"t.toml:6: key `twin`: `vary` is 0 to 100 percent"#,
    );
}

// SPDX-License-Identifier: GPL-2.0-only
//! `memory.max` and filesystems without cgroup writeback, held against guests of 6.12.117 that count
//! instructions: one run of each, written before the model was touched. Figures of guests stand beside
//! those of the twin.

use scenario::model::Arm;

/// The machine of such guests, one disk, a writer in `pod` that is faster than it.
fn run(arm: Arm, disk: &str, filesystem: &str, pod: &str, size: &str, seconds: u64) -> Figures {
    let text = format!(
        r#"
title = "a writer within memory.max"
[host]
memory = "1G"
cpus = 1
[[disk]]
name = "d"
write_bandwidth = "{disk}"
filesystem = "{filesystem}"
[cgroup.pod]
{pod}
[[job]]
name = "a"
cgroup = "pod"
fio = {{ rw = "write", bs = "64k", size = "{size}", overwrite = 0, fallocate = "none" }}
[[phase]]
name = "p"
jobs = ["a"]
duration = "{seconds}s"
[twin]
call = "700ns"
page = "6400ns"
rewrite = "2000ns"
refill = "13900ns"
wake = "3700ns"
look = "400us"
scan = "2480ns"
start = "280ms"
flusher = "1860M/s"
"#
    );
    let scenario = scenario::parse("limits", "limits.toml", &text).expect("valid");
    let outcome = twin::run(&scenario, arm, 1).expect("modelled");
    Figures(arm, outcome.metrics)
}

struct Figures(Arm, scenario::metric::Figures);

impl Figures {
    fn get(&self, name: &str) -> Option<f64> {
        let name = format!("{}.p.{name}", self.0.name());
        self.1.get(&name).map(|figure| figure.value)
    }

    /// Asserts that a figure is within a tenth of the guest's.
    fn is_near(&self, name: &str, guest: f64) {
        let twin = self.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert!(
            (twin - guest).abs() <= 0.1 * guest.abs(),
            "{name}: {twin}, guest {guest}"
        );
    }
}

#[test]
fn a_writer_is_killed_whose_disk_completes_nothing() {
    let pod = "\"memory.max\" = \"32M\"\n\"memory.dirty_ratio\" = 75";
    let stock = run(Arm::Stock, "1M/s", "ext4", pod, "128m", 40);
    stock.is_near("cgroup/pod.dirty_max_bytes", 24.23e6);
    stock.is_near("host.dirty_max_bytes", 24.23e6);
    stock.is_near("cgroup/pod.oom_kills", 1.0);
    stock.is_near("host.oom_kills", 1.0);
    assert_eq!(
        stock.get("a.iops"),
        None,
        "a fio that was killed says nothing"
    );
    let weir = run(Arm::Weir, "1M/s", "ext4", pod, "128m", 40);
    weir.is_near("cgroup/pod.dirty_max_bytes", 13.92e6);
    weir.is_near("host.disk_bw_bytes", 0.979e6);
    weir.is_near("cgroup/pod.oom_kills", 0.0);
}

#[test]
fn a_bio_in_time_keeps_it_alive() {
    let pod = "\"memory.max\" = \"64M\"\n\"memory.dirty_bytes\" = \"24M\"";
    let stock = run(Arm::Stock, "4M/s", "ext4", pod, "256m", 20);
    stock.is_near("cgroup/pod.dirty_max_bytes", 56.79e6);
    stock.is_near("cgroup/pod.oom_kills", 0.0);
    stock.is_near("a.iops", 72.28);
    stock.is_near("host.disk_bw_bytes", 4.078e6);
    let weir = run(Arm::Weir, "4M/s", "ext4", pod, "256m", 20);
    // Held although the kernel's own counts, two seconds old, would let it go.
    weir.is_near("cgroup/pod.dirty_max_bytes", 19.01e6);
    weir.is_near("a.iops", 69.11);
    weir.is_near("host.disk_bw_bytes", 4.121e6);
}

#[test]
fn a_larger_limit_on_a_faster_disk() {
    let pod = "\"memory.max\" = \"128M\"\n\"memory.dirty_bytes\" = \"16M\"";
    let stock = run(Arm::Stock, "32M/s", "ext4", pod, "512m", 15);
    stock.is_near("cgroup/pod.dirty_max_bytes", 121.9e6);
    stock.is_near("cgroup/pod.oom_kills", 0.0);
    let weir = run(Arm::Weir, "32M/s", "ext4", pod, "512m", 15);
    weir.is_near("cgroup/pod.dirty_max_bytes", 12.63e6);
    weir.is_near("a.iops", 509.3);
    weir.is_near("host.disk_bw_bytes", 32.76e6);
}

#[test]
fn pages_of_vfat_are_the_cgroups_and_its_writeback_is_not() {
    let pod = "\"memory.max\" = \"64M\"\n\"memory.dirty_bytes\" = \"16M\"";
    for arm in Arm::ALL {
        let run = run(arm, "8M/s", "vfat", pod, "256m", 20);
        // The ceiling does nothing: 41.3 and 45.7 MiB in the guests of the two arms. Eight buffers are
        // charged with each page.
        run.is_near("host.dirty_max_bytes", 47.89e6);
        run.is_near("cgroup/pod.oom_kills", 0.0);
        run.is_near("cgroup/pod.disk_bw_bytes", 0.0);
        run.is_near("host.disk_bw_bytes", 8.16e6);
        let held = run.get("cgroup/pod.dirty_max_bytes").expect("measured");
        assert!(held > 41e6, "{held}");
    }
}

#[test]
fn who_makes_a_file_longer_on_vfat_waits_for_its_allocation_table() {
    let pod = "\"memory.max\" = \"96M\"";
    let stock = run(Arm::Stock, "8M/s", "vfat", pod, "256m\", numjobs = \"2", 15);
    // 91 in a guest, where one of the two holds a lock meanwhile; 0 without such waits.
    let full = stock.get("host.io_full_pct").expect("measured");
    assert!(full > 60.0, "{full}");
    stock.is_near("host.disk_bw_bytes", 8.02e6);
    stock.is_near("host.dirty_max_bytes", 71.5e6);
}

#[test]
fn a_daemon_with_writeback_cache_may_hold_a_hundredth() {
    let pod = "\"memory.dirty_bytes\" = \"64K\"";
    let fuse = run(Arm::Weir, "8M/s", "fuse", pod, "256m", 20);
    let all = run(Arm::Weir, "8M/s", "nfs", pod, "256m", 20);
    // A ceiling does nothing on either; of 1 GiB the host's limit is some 170 MiB.
    let held = fuse.get("host.dirty_max_bytes").expect("measured");
    assert!((1e6..2.5e6).contains(&held), "{held}");
    let held = all.get("host.dirty_max_bytes").expect("measured");
    assert!(held > 100e6, "{held}");
    fuse.is_near("a.bw_bytes", 8.1e6);
}

#[test]
fn a_bandwidth_holds_on_vfat() {
    let pod = "\"memory.dirty_bandwidth\" = \"2M\"";
    let weir = run(Arm::Weir, "8M/s", "vfat", pod, "256m", 20);
    // 1.98 MiB/s in a guest.
    weir.is_near("a.bw_bytes", 2.07e6);
    let held = weir.get("cgroup/pod.bandwidth_held_usec").expect("counted");
    assert!(held > 15e6, "{held} us of 20 s");
}

#[test]
fn a_limit_above_bounds_what_is_below() {
    let pod = "\"memory.max\" = \"64M\"\n[cgroup.\"pod/inner\"]";
    let text = format!(
        "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 1\n\
         [[disk]]\nname = \"d\"\nwrite_bandwidth = \"4M/s\"\nfilesystem = \"ext4\"\n\
         [cgroup.pod]\n{pod}\n[[job]]\nname = \"a\"\ncgroup = \"pod/inner\"\n\
         fio = {{ rw = \"write\", bs = \"64k\", size = \"256m\", overwrite = 0, fallocate = \"none\" }}\n\
         [[phase]]\nname = \"p\"\njobs = [\"a\"]\nduration = \"10s\"\n"
    );
    let scenario = scenario::parse("t", "t.toml", &text).expect("valid");
    let outcome = twin::run(&scenario, Arm::Stock, 1).expect("modelled");
    let held = outcome.metrics["stock.p.cgroup/pod.dirty_max_bytes"].value;
    assert!(held < 58e6, "{held}");
}

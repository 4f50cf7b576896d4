// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups and files on one disk have to do with each other, and disks that are not as they
//! should be: what must come out follows by hand.

use scenario::model::Arm;

/// One minute of jobs on two CPUs and one disk of 40 MiB/s. Jobs are given by cgroup, name, keys
/// and fio options.
struct Host<'a> {
    twin: &'a str,
    disk: &'a str,
    cgroups: &'a [(&'a str, &'a str)],
    jobs: &'a [(&'a str, &'a str, &'a str)],
}

impl Host<'_> {
    fn run(&self) -> impl Fn(&str) -> f64 + use<> {
        let mut text = format!(
            "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 2\n\
             sysctl = {{ \"vm.dirty_bytes\" = \"32M\", \"vm.dirty_background_bytes\" = \"16M\", \"vm.dirty_expire_centisecs\" = 30000 }}\n\
             [twin]\ncall = \"1us\"\npage = \"1us\"\ndisk = \"40M/s\"\n{}\n\
             [[disk]]\nname = \"d\"\nfilesystem = \"ext4\"\n{}\n",
            self.twin, self.disk
        );
        for (path, files) in self.cgroups {
            text += &format!("[cgroup.\"{path}\"]\n{files}\n");
        }
        for (name, cgroup, fio) in self.jobs {
            let (keys, fio) = fio.split_once(';').unwrap_or(("", fio));
            text += &format!(
                "[[job]]\nname = \"{name}\"\ncgroup = \"{cgroup}\"\n{keys}\nfio = {{ {fio} }}\n"
            );
        }
        let names: Vec<String> = self
            .jobs
            .iter()
            .map(|job| format!("\"{}\"", job.0))
            .collect();
        let jobs = names.join(", ");
        text += &format!("[[phase]]\nname = \"p\"\njobs = [{jobs}]\nduration = \"60s\"\n");
        let scenario = scenario::parse("t", "t.toml", &text)
            .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let outcome = twin::run(&scenario, Arm::Stock, 1)
            .unwrap_or_else(|refusals| panic!("{refusals:?}\n{text}"));
        move |metric| outcome.metrics[&format!("stock.p.{metric}")].value
    }
}

const PLAIN: Host = Host {
    twin: "",
    disk: "",
    cgroups: &[("a", ""), ("b", "")],
    jobs: &[],
};
const FLOOD: &str = "rw = \"write\", bs = \"64k\", size = \"256m\"";
const RANDOM_READS: &str = "rw = \"randread\", bs = \"4k\", size = \"256m\"";
const MIB: f64 = 1048576.0;

fn is_near(value: f64, expected: f64, percent: f64) {
    let off = (value / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{value} is {off:.1} % off {expected}");
}

/// What one may not write waits in writeback, not in the disk's line: the disk is the other's, but
/// the pool is full of it.
#[test]
fn io_max_holds_writeback_and_leaves_the_disk_to_others() {
    let figure = Host {
        cgroups: &[("a", "\"io.max\" = \"d wbps=1M\""), ("b", "")],
        jobs: &[("held", "a", FLOOD), ("reader", "b", RANDOM_READS)],
        ..PLAIN
    }
    .run();
    is_near(figure("cgroup/a.disk_bw_bytes"), MIB, 15.0);
    let (held, in_flight) = (
        figure("host.dirty_median_bytes"),
        figure("host.writeback_median_bytes"),
    );
    assert!(
        held > 20.0 * MIB && in_flight > 4.0 * MIB,
        "{in_flight} of {held}"
    );
    // 39 of 40 MiB/s are left; two microseconds of CPU time follow each.
    let alone = Host {
        jobs: &[("reader", "b", RANDOM_READS)],
        ..PLAIN
    }
    .run();
    assert!(figure("reader.iops") > 0.95 * alone("reader.iops"));
}

#[test]
fn io_max_limits_requests_and_whole_subtrees() {
    let figure = Host {
        cgroups: &[
            ("a", "\"io.max\" = \"d riops=50\""),
            ("up", "\"io.max\" = \"d rbps=2M\""),
            ("up/x", ""),
            ("up/y", "\"io.max\" = \"d rbps=512K\""),
        ],
        jobs: &[
            ("few", "a", RANDOM_READS),
            ("x", "up/x", RANDOM_READS),
            ("y", "up/y", RANDOM_READS),
        ],
        ..PLAIN
    }
    .run();
    is_near(figure("few.iops"), 50.0, 2.0);
    is_near(figure("y.bw_bytes"), 0.5 * MIB, 2.0);
    is_near(figure("x.bw_bytes"), 1.5 * MIB, 4.0);
}

/// 100 : 400 of a disk of 6 MiB/s, whether it is a flood or a reader that has them.
#[test]
fn io_weight_divides_what_waits_at_the_disk() {
    let readers = |weight: &str| {
        Host {
            disk: "write_bandwidth = \"6M/s\"\nio_cost = true",
            cgroups: &[("a", "\"io.weight\" = 100"), ("b", weight)],
            jobs: &[
                (
                    "a",
                    "a",
                    "rw = \"randread\", bs = \"64k\", numjobs = 4, size = \"64m\"",
                ),
                (
                    "b",
                    "b",
                    "rw = \"randread\", bs = \"64k\", numjobs = 4, size = \"64m\"",
                ),
            ],
            ..PLAIN
        }
        .run()
    };
    let figure = readers("\"io.weight\" = 400");
    is_near(figure("b.bw_bytes") / figure("a.bw_bytes"), 4.0, 3.0);
    let figure = readers("");
    is_near(figure("b.bw_bytes") / figure("a.bw_bytes"), 1.0, 3.0);
}

#[test]
fn a_weight_without_effect_is_refused() {
    let text = "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 1\n[twin]\ndisk = \"1M/s\"\n[[disk]]\nname = \"d\"\n\
                filesystem = \"ext4\"\n[cgroup.a]\n\"io.weight\" = 200\n[[job]]\nname = \"w\"\ncgroup = \"a\"\n\
                fio = { rw = \"write\", size = \"1m\" }\n[[phase]]\nname = \"p\"\njobs = [\"w\"]\nduration = \"1s\"\n";
    let scenario = scenario::parse("t", "t.toml", text).unwrap_or_else(|why| panic!("{why}"));
    let refusals = twin::run(&scenario, Arm::Stock, 1).expect_err("nothing divides");
    assert_eq!(refusals[0].0, "cgroup.a.\"io.weight\"");
    assert!(refusals[0].1.contains("io_cost"), "{}", refusals[0].1);
}

/// A reader waits 97.7 of 99.7 us; a writer with a rate does not wait at all. In the two seconds in
/// which the reader moves to the other CPU it counts for about half: CPUs are weighed.
#[test]
fn pressure_of_a_cgroup_is_that_of_its_tasks() {
    let figure = Host {
        cgroups: &[("up/a", ""), ("up", ""), ("b", "")],
        jobs: &[
            ("reader", "up/a", RANDOM_READS),
            (
                "calm",
                "b",
                "rw = \"write\", bs = \"4k\", size = \"1m\", rate = \"8k\"",
            ),
        ],
        ..PLAIN
    }
    .run();
    for path in ["up/a", "up"] {
        is_near(figure(&format!("cgroup/{path}.io_full_pct")), 98.0, 1.5);
        is_near(figure(&format!("cgroup/{path}.io_some_pct")), 98.0, 1.5);
    }
    assert!(figure("cgroup/b.io_some_pct") < 0.1);
}

/// One second of five.
#[test]
fn while_a_disk_stands_still_everybody_waits() {
    let jobs = &[("reader", "a", RANDOM_READS)];
    let stalls = Host {
        twin: "stall = \"1s\"\nstall_every = \"5s\"",
        jobs,
        ..PLAIN
    };
    let (figure, alone) = (stalls.run(), Host { jobs, ..PLAIN }.run());
    is_near(figure("reader.iops") / alone("reader.iops"), 0.8, 3.0);
    is_near(figure("reader.clat_max_ns"), 1e9, 0.1);
}

/// Their pages are clean, as the kernel has it, and lost; who syncs is told, and fio stops.
#[test]
fn one_request_of_ten_fails() {
    let figure = Host {
        twin: "fails = 10",
        jobs: &[
            ("flood", "a", FLOOD),
            (
                "synced",
                "b",
                "rw = \"write\", bs = \"4k\", size = \"1m\", fsync = 1",
            ),
        ],
        ..PLAIN
    }
    .run();
    let (lost, all) = (figure("disk/d.bw_bytes"), figure("cgroup/a.disk_bw_bytes"));
    is_near(lost / all, 0.9, 3.0);
    assert!(figure("synced.total_ios") < 200.0);
    assert!(figure("flood.total_ios") > 10_000.0);
}

/// As fast as its data come, if nothing else holds it; and if it takes them only twice a second, as
/// much as the buffer holds.
#[test]
fn who_receives_writes_what_comes() {
    let receives = |fio: &str| {
        let keys = "network = { bandwidth = \"2M/s\", buffer = \"256K\" }";
        Host {
            jobs: &[(
                "rsync",
                "a",
                &format!("{keys};rw = \"write\", bs = \"64k\", size = \"256m\"{fio}"),
            )],
            ..PLAIN
        }
        .run()
    };
    is_near(receives("")("rsync.bw_bytes"), 2.0 * MIB, 0.5);
    // Four operations that are there, and then it thinks for half a second.
    let figure = receives(", thinktime = \"500ms\", thinktime_blocks = 4");
    is_near(figure("rsync.iops"), 8.0, 1.0);
}

/// 32 pages of the flood's are in line before the commit's two, once in two seconds, or 64 if its
/// flusher has come to the other CPU: a write() of the other may wait for 531 or 1,031 ms, but not
/// for the record. (Its rate is such that it meets commits, which come at whole seconds, at all
/// times.)
#[test]
fn a_write_waits_for_a_commit_that_has_its_inode() {
    let longest = |options: &str| {
        let figure = Host {
            disk: &format!("write_bandwidth = \"256K/s\"\nmount_options = \"{options}\""),
            jobs: &[
                ("flood", "a", FLOOD),
                (
                    "small",
                    "b",
                    "rw = \"write\", bs = \"4k\", size = \"1m\", rate = \"19k\"",
                ),
            ],
            ..PLAIN
        }
        .run();
        figure("small.clat_max_ns") / 1e6
    };
    let (often, never) = (longest("commit=1"), longest("commit=300"));
    assert!((500.0..1050.0).contains(&often), "{often}");
    assert!(never < 210.0, "a pause: {never}");
}

/// Sixty-four CPUs have 32 slots each, of which 64 flushers have 192 together, 3 s of them; of a
/// queue of 32 they have 24.
#[test]
fn a_commit_waits_for_no_more_than_the_queue() {
    let longest = |cpus: u32, twin: &str| {
        let text = format!(
            "title = \"t\"\n[host]\nmemory = \"4G\"\ncpus = {cpus}\n\
             sysctl = {{ \"vm.dirty_bytes\" = \"256M\", \"vm.dirty_background_bytes\" = \"128M\" }}\n[twin]\n{twin}\n\
             [[disk]]\nname = \"d\"\nfilesystem = \"ext4\"\nwrite_bandwidth = \"16M/s\"\n[cgroup.a]\ncopies = 64\n[cgroup.b]\n\
             [[job]]\nname = \"flood\"\ncgroup = \"a\"\nfio = {{ rw = \"write\", bs = \"64k\", size = \"1g\", numjobs = {cpus} }}\n\
             [[job]]\nname = \"small\"\ncgroup = \"b\"\nfio = {{ rw = \"write\", bs = \"4k\", size = \"1m\", rate = \"19k\" }}\n\
             [[phase]]\nname = \"p\"\njobs = [\"flood\", \"small\"]\nduration = \"60s\"\n"
        );
        let scenario = scenario::parse("t", "t.toml", &text).unwrap_or_else(|why| panic!("{why}"));
        let outcome = twin::run(&scenario, Arm::Stock, 1).unwrap_or_else(|why| panic!("{why:?}"));
        outcome.metrics["stock.p.small.clat_max_ns"].value / 1e9
    };
    let (all, sata) = (longest(64, ""), longest(64, "queue = 32"));
    // The same write() may be throttled after, for 204 ms at most.
    assert!((1.5..3.3).contains(&all), "{all}");
    assert!((0.3..0.6).contains(&sata), "{sata}");
}

/// Without delayed allocation the grower's dirty pages are in the transaction that the other has
/// committed once a cycle. A cycle is a second's thought, 31 ms for a page and the journal's three,
/// and c / 4 for what was dirtied in its c seconds: c = 1.031 + c / 4, so 0.727 a second; else
/// 0.970.
#[test]
fn a_commit_carries_the_data_of_files_that_grow() {
    let synced = |options: &str| {
        let figure = Host {
            disk: &format!("write_bandwidth = \"512K/s\"\nmount_options = \"commit=300{options}\""),
            jobs: &[
                (
                    "grower",
                    "a",
                    "rw = \"write\", bs = \"16k\", size = \"256m\", rate = \"128k\", overwrite = 0, fallocate = \"none\"",
                ),
                (
                    "synced",
                    "a",
                    "rw = \"write\", bs = \"4k\", size = \"1m\", fsync = 1, thinktime = \"1s\"",
                ),
            ],
            ..PLAIN
        }
        .run();
        figure("synced.iops")
    };
    is_near(synced(",nodelalloc"), 0.727, 4.0);
    is_near(synced(",nodelalloc,data=writeback"), 0.97, 4.0);
    is_near(synced(""), 0.97, 4.0);
}

// SPDX-License-Identifier: GPL-2.0-only
//! Readers and writers that sync: what each gets from a disk whose speed is known follows by hand.

use scenario::model::Arm;

/// One minute of jobs on one CPU and one disk: the disk's keys, and each job's name and fio
/// options.
fn run(disk: &str, jobs: &[(&str, &str)]) -> impl Fn(&str) -> f64 + use<> {
    let mut text = format!(
        "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 1\n\
         sysctl = {{ \"vm.dirty_bytes\" = \"256M\", \"vm.dirty_background_bytes\" = \"128M\" }}\n\
         [twin]\ncall = \"1us\"\npage = \"1us\"\ndisk = \"40M/s\"\n\
         [[disk]]\nname = \"d\"\nfilesystem = \"ext4\"\n{disk}\n"
    );
    for (name, fio) in jobs {
        text += &format!(
            "[cgroup.{name}]\n[[job]]\nname = \"{name}\"\ncgroup = \"{name}\"\n\
             fio = {{ size = \"256m\", {fio} }}\n"
        );
    }
    let names: Vec<String> = jobs.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    text += &format!(
        "[[phase]]\nname = \"p\"\njobs = [{}]\nduration = \"60s\"\n",
        names.join(", ")
    );
    let scenario = scenario::parse("t", "t.toml", &text)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let outcome = twin::run(&scenario, Arm::Stock, 1).expect("modelled");
    move |metric| outcome.metrics[&format!("stock.p.{metric}")].value
}

fn is_near(value: f64, expected: f64, percent: f64) {
    let off = (value / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{value} is {off:.1} % off {expected}");
}

const FLOOD: (&str, &str) = ("flood", "rw = \"write\", bs = \"64k\"");

/// 40 MiB/s are 97.66 us a page; 2 us of CPU time follow before the next is asked for.
#[test]
fn alone_at_random_a_reader_waits_for_each_page() {
    let figure = run("", &[("reader", "rw = \"randread\", bs = \"4k\"")]);
    is_near(figure("reader.iops"), 1e6 / 99.66, 0.5);
    assert!(
        figure("host.io_full_pct") > 95.0,
        "it does nothing but wait"
    );
    assert_eq!(figure("disk/d.bw_bytes"), 0.0, "nothing is written");
}

/// The kernel reads ahead while it computes.
#[test]
fn alone_in_order_a_reader_keeps_the_disk_busy() {
    let figure = run("", &[("reader", "rw = \"read\", bs = \"4k\"")]);
    is_near(figure("reader.bw_bytes"), 40.0 * 1048576.0, 1.0);
}

/// Each read waits for the write that is under way. A bio of 8 MiB is six of 1,280 KiB, 31.25 ms
/// each, and a seventh of 12.5: seven reads in 205.5 ms, and some more before the first write.
#[test]
fn on_a_shared_disk_reads_overtake_all_writes_but_one() {
    let reader = ("reader", "rw = \"randread\", bs = \"4k\"");
    let without_commits = "mount_options = \"commit=300\"";
    let figure = run(without_commits, &[reader, FLOOD]);
    is_near(figure("reader.iops"), 7e3 / 205.5, 8.0);
}

/// The lab bounds reads and writes each by themselves, but both take its 32 tags, and a flood leaves
/// few: guests' reads wait for them (scenarios/window/reader.toml).
#[test]
fn with_a_bandwidth_of_their_own_reads_meet_writes_at_the_tags_only() {
    let bounds = "write_bandwidth = \"1M/s\"\nread_bandwidth = \"2M/s\"";
    let reader = ("reader", "rw = \"randread\", bs = \"16k\"");
    let alone = run(bounds, &[reader])("reader.bw_bytes");
    is_near(alone, 2.0 * 1048576.0, 1.0);
    let figure = run(bounds, &[reader, FLOOD]);
    let beside = figure("reader.bw_bytes");
    assert!((0.02..0.95).contains(&(beside / alone)), "{beside}");
    is_near(figure("disk/d.bw_bytes"), 1048576.0, 3.0);
}

/// A page takes 15.6 ms, the filesystem's three 46.9. fdatasync waits for the journal now and then
/// all the same: a commit of the time stamps every five seconds takes 1 % of the disk.
#[test]
fn a_writer_that_syncs_waits_for_its_page_and_the_filesystem() {
    let slow = "write_bandwidth = \"256K/s\"";
    let synced = |option: &str| {
        let fio = format!("rw = \"write\", bs = \"4k\", {option} = 1");
        run(slow, &[("synced", &fio)])("synced.iops")
    };
    is_near(synced("fdatasync"), 64.0 * 0.99, 0.5);
    is_near(synced("fsync"), 16.0, 1.0);
}

/// Beside a flood 32 pages, half a second, are in line before the page, before the blocks of the
/// commit and before its record.
#[test]
fn beside_a_flood_each_sync_waits_three_times() {
    let synced = ("synced", "rw = \"write\", bs = \"4k\", fsync = 1");
    let figure = run("write_bandwidth = \"256K/s\"", &[synced, FLOOD]);
    is_near(figure("synced.iops"), 1.0 / 1.56, 10.0);
}

#[test]
fn a_disk_that_is_read_has_a_speed() {
    let text = "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 1\n[[disk]]\nname = \"d\"\nfilesystem = \"ext4\"\n\
                write_bandwidth = \"1M/s\"\n[[job]]\nname = \"r\"\nfio = { rw = \"read\", size = \"1m\" }\n\
                [[phase]]\nname = \"p\"\njobs = [\"r\"]\nduration = \"1s\"\n";
    let scenario = scenario::parse("t", "t.toml", text).unwrap_or_else(|why| panic!("{why}"));
    let refusals = twin::run(&scenario, Arm::Stock, 1).expect_err("how fast?");
    assert_eq!(refusals[0].0, "disk[0].read_bandwidth");
}

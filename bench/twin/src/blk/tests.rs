// SPDX-License-Identifier: GPL-2.0-only
//! One disk by itself.

use super::*;
use crate::mm::domain::PAGE;
use crate::sim::clock::{MS, SECOND};
use scenario::model::DiskKind;

fn request(hctx: u32) -> Request {
    Request {
        what: What::Pages {
            file: 0,
            last: true,
            unwritten: false,
        },
        pages: 1,
        sector: 0,
        hctx,
        cgroup: 0,
    }
}

#[test]
fn a_queue_is_for_all_cpus() {
    let all = |throttled, queue| {
        let traits = Traits {
            queue,
            ..Traits::default()
        };
        let mut disk = Device::new(1 << 20, throttled, traits);
        let hctxs = |disk: &mut Device, hctx| {
            let before = disk.inflight;
            while disk.has_room(hctx) {
                disk.queue_request(request(hctx), 0);
            }
            disk.inflight - before
        };
        let first = hctxs(&mut disk, 0);
        (
            first,
            first + (1..64).map(|hctx| hctxs(&mut disk, hctx)).sum::<u32>(),
        )
    };
    assert_eq!(all(true, None), (32, 192));
    assert_eq!(all(false, None), (192, 192));
    assert_eq!(all(false, Some(32)), (24, 24));
}

/// Of two hctxs with a slot each, where there is room for one: waiters get it in turn, whichever
/// slot was theirs.
#[test]
fn who_waits_for_any_slot_is_let_in_in_turn() {
    let mut disk = Device::new(PAGE * 100, true, Traits::default());
    disk.wb_normal = 1;
    disk.queue_request(request(0), 0);
    assert!(!disk.has_room(1));
    disk.add_slot_waiter(Waiter::Flusher(1), 1);
    disk.add_slot_waiter(Waiter::Flusher(0), 0);
    done(&mut disk, 10 * MS);
    assert!(matches!(
        disk.take_waiters_to_wake(0).0[..],
        [Waiter::Flusher(1)]
    ));
    disk.queue_request(request(1), 10 * MS);
    assert!(
        disk.take_waiters_to_wake(1).0.is_empty(),
        "the other waits still"
    );
    done(&mut disk, 20 * MS);
    assert!(matches!(
        disk.take_waiters_to_wake(1).0[..],
        [Waiter::Flusher(0)]
    ));
}

fn done(disk: &mut Device, at: Ns) -> Request {
    disk.complete_first(at).expect("in time").request
}

fn read(task: u32) -> Request {
    Request {
        what: What::Read(task),
        ..request(0)
    }
}

#[test]
fn worked_example() {
    let mut disk = Device::new(256 << 10, true, Traits::default());
    assert_eq!(disk.largest, 1);
    let first = disk.queue_request(request(1), 0).expect("the first");
    while disk.has_room(1) {
        assert_eq!(disk.queue_request(request(1), 0), None);
    }
    assert_eq!((first * 32, disk.pages_in_flight()), (500 * MS, 32));
    disk.add_slot_waiter(Waiter::Flusher(7), 1);
    disk.add_slot_waiter(Waiter::Task(8), 1);
    assert_eq!(disk.complete_first(first - 1).err(), Some(first));
    let complete = disk.complete_first(first).expect("in time");
    assert_eq!((complete.request.hctx, complete.next), (1, Some(2 * first)));
    assert!(disk.has_room(1));
    for free in 2..=4 {
        assert!(disk.take_waiters_to_wake(1).0.is_empty(), "four at once");
        done(&mut disk, free * first);
    }
    let all = disk.take_waiters_to_wake(1).0;
    assert!(matches!(all[..], [Waiter::Flusher(7), Waiter::Task(8)]));
}

#[test]
fn a_server_commits_all_at_once() {
    let traits = Traits {
        burst: 1000 * MS,
        ..Traits::default()
    };
    let mut server = Device::new(256 << 10, true, traits);
    let commit =
        |server: &mut Device, at| server.hold_uncommitted(request(0), at).expect("a server");
    assert_eq!(commit(&mut server, 1300 * MS), Some(2000 * MS));
    assert_eq!(commit(&mut server, 1500 * MS), None);
    assert_eq!(
        (
            server.pages_in_flight(),
            server.take_committed().len(),
            server.pages_in_flight()
        ),
        (2, 2, 0)
    );
    let mut disk = Device::new(1, true, Traits::default());
    assert!(disk.hold_uncommitted(request(0), 0).is_err());
}

#[test]
fn each_cpu_has_slots_of_its_own() {
    let mut disk = Device::new(256 << 10, true, Traits::default());
    for _ in 0..32 {
        disk.queue_request(request(0), 0);
    }
    assert!(!disk.has_room(0) && disk.has_room(1));
    assert!(disk.take_waiters_to_wake(0).0.is_empty());
}

/// A page takes 10 ms. Three writes are in line when three reads come: the first write is under
/// way, two reads overtake the others, the third comes after the next write.
#[test]
fn reads_overtake_but_starve_nobody() {
    let mut disk = Device::new(PAGE * 100, true, Traits::default());
    for _ in 0..3 {
        disk.queue_request(request(0), 0);
    }
    for task in 0..3 {
        disk.queue_request(read(task), 0);
    }
    let kinds: Vec<bool> = (1..=6)
        .map(|at| done(&mut disk, at * 10 * MS).is_read())
        .collect();
    assert_eq!(kinds, [false, true, true, false, true, false]);
    assert_eq!(
        (disk.written, disk.complete_first(SECOND).err()),
        (3 * PAGE, Some(Ns::MAX))
    );
}

#[test]
fn reads_apart_wait_for_no_write() {
    let traits = Traits {
        read_bandwidth: Some(PAGE * 1000),
        ..Traits::default()
    };
    let mut disk = Device::new(PAGE * 100, true, traits);
    assert_eq!(disk.queue_request(request(0), 0), Some(10 * MS));
    assert_eq!(
        (
            disk.queue_request(read(1), 0),
            disk.queue_request(read(2), 0)
        ),
        (Some(MS), None)
    );
    assert!(done(&mut disk, 2 * MS).is_read());
    assert!(done(&mut disk, 2 * MS).is_read());
    assert_eq!(disk.complete_first(2 * MS).err(), Some(10 * MS));
}

/// It stands still at 5 ms for 100: what is under way and what comes meanwhile is late by that.
#[test]
fn a_disk_that_stands_still() {
    let traits = Traits {
        stalls: (100 * MS, SECOND),
        ..Traits::default()
    };
    let mut disk = Device::new(PAGE * 100, true, traits);
    assert_eq!(disk.queue_request(request(0), 0), Some(10 * MS));
    assert_eq!(disk.delay_requests(5 * MS), Some(1005 * MS));
    assert_eq!(disk.complete_first(10 * MS).err(), Some(110 * MS));
    assert_eq!(disk.complete_first(110 * MS).expect("late").next, None);
    assert_eq!(disk.delay_requests(SECOND), Some(2 * SECOND));
    assert_eq!(
        disk.queue_request(request(0), SECOND + MS),
        Some(SECOND + 110 * MS)
    );
}

#[test]
fn each_third_request_fails() {
    let traits = Traits {
        fails: 3,
        ..Traits::default()
    };
    let mut disk = Device::new(PAGE * 100, true, traits);
    for _ in 0..7 {
        disk.queue_request(request(0), 0);
    }
    let failed: Vec<bool> = (0..7)
        .map(|_| disk.complete_first(SECOND).expect("in time").failed)
        .collect();
    assert_eq!(failed, [false, false, true, false, false, true, false]);
    assert_eq!(disk.written, 5 * PAGE);
}

/// A disk of a kind, or with such times.
fn of_kind(kind: DiskKind) -> Device {
    let preset = kind.preset();
    let traits = Traits {
        read_bandwidth: Some(preset.reads.bandwidth),
        queue: Some(preset.queue),
        medium: Some(Medium {
            reads: preset.reads,
            writes: preset.writes,
        }),
        ..Traits::default()
    };
    Device::new(preset.writes.bandwidth, false, traits)
}

/// How many operations of 4 KiB a disk does in a second, `depth` of them at a time.
fn operations(kind: DiskKind, what: What, depth: u64, in_order: bool) -> u64 {
    let mut disk = of_kind(kind);
    let mut next = 0;
    let mut submit = |disk: &mut Device, at: Ns| {
        next += if in_order { 1 } else { 1000 };
        let request = Request {
            what,
            sector: sector_of(0, next),
            ..request(0)
        };
        disk.queue_request(request, at)
    };
    let mut due = submit(&mut disk, 0).expect("the first");
    for _ in 1..depth {
        submit(&mut disk, 0);
    }
    let mut done = 0;
    while due <= SECOND {
        let complete = disk.complete_first(due).expect("in time");
        done += 1;
        due = submit(&mut disk, due).or(complete.next).expect("more");
    }
    done
}

#[test]
fn kinds_of_disks_do_what_is_published_of_them() {
    let (reads, writes) = (What::Read(0), request(0).what);
    for (kind, what, depth, published) in [
        (DiskKind::Ssd, reads, 1, 13_000),
        (DiskKind::Ssd, writes, 1, 36_000),
        (DiskKind::Ssd, reads, 24, 98_000),
        (DiskKind::Ssd, writes, 24, 88_000),
        (DiskKind::Nvme, reads, 1, 19_000),
        (DiskKind::Nvme, writes, 1, 60_000),
        (DiskKind::Nvme, reads, 64, 600_000),
        (DiskKind::Usb, reads, 1, 1_010),
        (DiskKind::Usb, writes, 1, 141),
    ] {
        let done = operations(kind, what, depth, false);
        let is_near = done.abs_diff(published) <= published / 5;
        assert!(
            is_near,
            "{kind:?} at {depth}: {done}, published {published}"
        );
    }
}

#[test]
fn a_head_moves_only_where_requests_do_not_follow() {
    let in_order = operations(DiskKind::Hdd, request(0).what, 8, true);
    let near = operations(DiskKind::Hdd, request(0).what, 8, false);
    // But for the way to the first.
    assert!((37_100..37_200).contains(&in_order), "{in_order}");
    assert!((200..250).contains(&near), "{near}");
    // A read between two writes costs the way there and back.
    let mut disk = of_kind(DiskKind::Hdd);
    let at = |what, file, page| Request {
        what,
        sector: sector_of(file, page),
        ..request(0)
    };
    let writes = request(0).what;
    disk.queue_request(at(writes, 0, 0), 0);
    disk.queue_request(at(writes, 0, 1), 0);
    disk.queue_request(at(writes, 0, 2), 0);
    disk.queue_request(at(What::Read(0), 1, 0), 0);
    let mut last = 0;
    while let Some(next) = disk
        .complete_first(disk.queue.first_due())
        .expect("due")
        .next
    {
        last = next;
    }
    assert!((35 * MS..38 * MS).contains(&last), "{last}");
}

#[test]
fn what_has_left_the_line_is_not_overtaken() {
    let mut disk = of_kind(DiskKind::Nvme);
    let due = disk.queue_request(request(0), 0).expect("the first");
    disk.queue_request(request(0), 0);
    assert!(due > 10_000, "{due}");
    // Both writes have left the line, neither is complete.
    disk.queue_request(read(0), 8_000);
    let kinds =
        |disk: &Device| -> Vec<bool> { disk.queue.all_requests().map(Request::is_read).collect() };
    assert_eq!(kinds(&disk), [false, false, true]);
}

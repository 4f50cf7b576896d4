// SPDX-License-Identifier: GPL-2.0-only
//! One disk by itself.

use super::*;
use crate::mm::domain::PAGE;
use crate::sim::clock::MS;

fn request(hctx: u32) -> Request {
    Request {
        what: What::Pages {
            file: 0,
            last: true,
            unwritten: false,
        },
        pages: 1,
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
                disk.submit(request(hctx), 0);
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
    disk.submit(request(0), 0);
    assert!(!disk.has_room(1));
    disk.wait(Waiter::Flusher(1), 1);
    disk.wait(Waiter::Flusher(0), 0);
    done(&mut disk, 10 * MS);
    assert!(matches!(disk.woken(0).0[..], [Waiter::Flusher(1)]));
    disk.submit(request(1), 10 * MS);
    assert!(disk.woken(1).0.is_empty(), "the other waits still");
    done(&mut disk, 20 * MS);
    assert!(matches!(disk.woken(1).0[..], [Waiter::Flusher(0)]));
}

fn done(disk: &mut Device, at: Ns) -> Request {
    disk.complete(at).expect("in time").request
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
    let first = disk.submit(request(1), 0).expect("the first");
    while disk.has_room(1) {
        assert_eq!(disk.submit(request(1), 0), None);
    }
    assert_eq!((first * 32, disk.pages()), (500 * MS, 32));
    disk.wait(Waiter::Flusher(7), 1);
    disk.wait(Waiter::Task(8), 1);
    assert_eq!(disk.complete(first - 1).err(), Some(first));
    let complete = disk.complete(first).expect("in time");
    assert_eq!((complete.request.hctx, complete.next), (1, Some(2 * first)));
    assert!(disk.has_room(1));
    for free in 2..=4 {
        assert!(disk.woken(1).0.is_empty(), "four at once");
        done(&mut disk, free * first);
    }
    let all = disk.woken(1).0;
    assert!(matches!(all[..], [Waiter::Flusher(7), Waiter::Task(8)]));
}

#[test]
fn a_server_commits_all_at_once() {
    let traits = Traits {
        burst: 1000 * MS,
        ..Traits::default()
    };
    let mut server = Device::new(256 << 10, true, traits);
    let commit = |server: &mut Device, at| server.commits(request(0), at).expect("a server");
    assert_eq!(commit(&mut server, 1300 * MS), Some(2000 * MS));
    assert_eq!(commit(&mut server, 1500 * MS), None);
    assert_eq!(
        (server.pages(), server.committed().len(), server.pages()),
        (2, 2, 0)
    );
    let mut disk = Device::new(1, true, Traits::default());
    assert!(disk.commits(request(0), 0).is_err());
}

#[test]
fn each_cpu_has_slots_of_its_own() {
    let mut disk = Device::new(256 << 10, true, Traits::default());
    for _ in 0..32 {
        disk.submit(request(0), 0);
    }
    assert!(!disk.has_room(0) && disk.has_room(1));
    assert!(disk.woken(0).0.is_empty());
}

/// A page takes 10 ms. Three writes are in line when three reads come: the first write is under
/// way, two reads overtake the others, the third comes after the next write.
#[test]
fn reads_overtake_but_starve_nobody() {
    let mut disk = Device::new(PAGE * 100, true, Traits::default());
    for _ in 0..3 {
        disk.submit(request(0), 0);
    }
    for task in 0..3 {
        disk.submit(read(task), 0);
    }
    let kinds: Vec<bool> = (1..=6)
        .map(|at| done(&mut disk, at * 10 * MS).is_read())
        .collect();
    assert_eq!(kinds, [false, true, true, false, true, false]);
    assert_eq!(
        (disk.written, disk.complete(SECOND).err()),
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
    assert_eq!(disk.submit(request(0), 0), Some(10 * MS));
    assert_eq!(
        (disk.submit(read(1), 0), disk.submit(read(2), 0)),
        (Some(MS), None)
    );
    assert!(done(&mut disk, 2 * MS).is_read());
    assert!(done(&mut disk, 2 * MS).is_read());
    assert_eq!(disk.complete(2 * MS).err(), Some(10 * MS));
}

/// It stands still at 5 ms for 100: what is under way and what comes meanwhile is late by that.
#[test]
fn a_disk_that_stands_still() {
    let traits = Traits {
        stalls: (100 * MS, SECOND),
        ..Traits::default()
    };
    let mut disk = Device::new(PAGE * 100, true, traits);
    assert_eq!(disk.submit(request(0), 0), Some(10 * MS));
    assert_eq!(disk.stands_still(5 * MS), Some(1005 * MS));
    assert_eq!(disk.complete(10 * MS).err(), Some(110 * MS));
    assert_eq!(disk.complete(110 * MS).expect("late").next, None);
    assert_eq!(disk.stands_still(SECOND), Some(2 * SECOND));
    assert_eq!(
        disk.submit(request(0), SECOND + MS),
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
        disk.submit(request(0), 0);
    }
    let failed: Vec<bool> = (0..7)
        .map(|_| disk.complete(SECOND).expect("in time").failed)
        .collect();
    assert_eq!(failed, [false, false, true, false, false, true, false]);
    assert_eq!(disk.written, 5 * PAGE);
}

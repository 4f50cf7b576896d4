// SPDX-License-Identifier: GPL-2.0-only
//! Many writers whose pauses are all the longest there is: what Linux does with them, as seen in
//! guests (docs/experiments/0016-hosts-no-lab-has.md).

use observe::event::What;
use scenario::model::{Arm, Scenario};
use std::collections::HashMap;

/// 200 dd on 19 MiB/s, 24 pages a second each, on a machine as the guest's: one CPU of a billion
/// instructions a second, 32 requests of 64 KiB in line.
fn guest(filesystem: &str) -> Scenario {
    let text = format!(
        r#"
title = "200 dd"
[host]
memory = "8G"
cpus = 1
sysctl = {{ "vm.dirty_bytes" = "300M", "vm.dirty_background_bytes" = "150M" }}
[[disk]]
name = "n"
size = "1T"
write_bandwidth = "19M/s"
filesystem = "{filesystem}"
[twin]
call = "1us"
page = "8us"
wake = "15us"
queue = 8
[[job]]
name = "dd"
fio = {{ rw = "write", bs = "4k", size = "1g", numjobs = 200, ramp_time = 40 }}
[[phase]]
name = "all"
jobs = ["dd"]
duration = "40s"
"#
    );
    scenario::parse("guest", "guest.toml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Of neighbours that had slept since one tick and woke in one the guest woke 193 in the opposite
/// order and none in the same.
#[test]
fn who_slept_last_wakes_first() {
    let outcome = twin::run_and_watch(
        &guest("xfs"),
        Arm::Stock,
        1,
        twin::WatchLevel::Passes,
        &mut |_, _| {},
    )
    .unwrap_or_else(|refusals| panic!("{refusals:?}"));
    let all = &outcome.watched[0];
    let tick = |at: u64| at / 4_000_000;
    let mut since = HashMap::new();
    let (mut reversed, mut same, mut last) = (0, 0, (0, 0, 0));
    for (at, event) in all.events.iter().enumerate() {
        let now = tick(event.ns);
        match &event.what {
            What::Pause(pass) if pass.pause_ms > 0 => {
                since.insert(event.task, (at, now));
            }
            _ => {}
        }
        if event.what != What::Woke {
            continue;
        }
        let (order, began) = since[&event.task];
        if (now, began) == (last.0, last.1) {
            let counted = if order < last.2 {
                &mut reversed
            } else {
                &mut same
            };
            *counted += 1;
        }
        last = (now, began, order);
    }
    assert!(reversed > 1000 && same * 20 < reversed, "{reversed} {same}");
}

/// 5.4 and 4.8 % between the fastest and the slowest in a guest: each task's turn is the same 51
/// ticks, and a page a second is 4 % of its rate.
#[test]
fn nobody_leaves_his_tick() {
    let outcome =
        twin::run(&guest("xfs"), Arm::Stock, 1).unwrap_or_else(|refusals| panic!("{refusals:?}"));
    let spread = outcome.metrics["stock.all.dd.spread_pct"].value;
    assert!((2.5..7.0).contains(&spread), "{spread}");
}

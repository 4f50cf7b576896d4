// SPDX-License-Identifier: GPL-2.0-only
//! Plain text, or JSON, one after the other.

use super::view::View;
use super::{Looks, screen};
use crate::output;
use anyhow::Result;
use observe::interval::Interval;
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

/// An interval with its end, in seconds since 1970.
#[derive(Serialize)]
struct Stamped<'a> {
    time: f64,
    #[serde(flatten)]
    interval: &'a Interval,
}

/// Prints looks until `-n` is reached, weir is asked to end, or the reader is gone.
pub fn run(
    mut looks: Looks,
    view: &View,
    json: bool,
    number: Option<u64>,
    stop: &AtomicBool,
) -> Result<()> {
    for _ in 0..number.unwrap_or(u64::MAX) {
        let Some(interval) = looks.wait_for_interval(view.every, stop)? else {
            break;
        };
        if json {
            output::print_line(json_line(view, &interval)?)?;
        } else {
            output::print(screen::plain_text(view, &interval))?;
        }
    }
    Ok(())
}

/// The cgroups that the view has, in its order, and all devices.
pub fn json_line(view: &View, interval: &Interval) -> Result<String> {
    let cgroups = view.visible_rows(interval).into_iter().cloned().collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let stamped = Stamped {
        time: now.as_secs_f64(),
        interval: &Interval {
            cgroups,
            devices: interval.devices.clone(),
            weir: interval.weir.clone(),
            notes: interval.notes.clone(),
            host: interval.host.clone(),
            ..*interval
        },
    };
    Ok(serde_json::to_string(&stamped)?)
}

// SPDX-License-Identifier: GPL-2.0-only
//! From which level on each domain holds writers, and how many pauses it decided.
//!
//! A writer runs free while both the host and its cgroup are below their freerun level. One that
//! is above its own does not show a cgroup's own limit, nor does one below it show that the
//! cgroup's does no harm: so each is said. Example: freerun 24 MiB and 31.2 MiB held on the host,
//! 100 pauses; freerun 915 KiB and 1 MiB held in /victim, 20 pauses.

use super::group::Group;
use super::limit;
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::text::format_size;
use policy::pause::Decider;
use serde::Serialize;

/// A domain as a pass of the throttle sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// The domain that it is of.
    #[serde(serialize_with = "super::domain::serialize_decider")]
    pub domain: Decider,
    /// Writers are held from so many bytes on; absent if unknown.
    pub freerun_bytes: Option<u64>,
    /// Dirty and in writeback: of the host the median, of others at the end; absent if unknown.
    pub held_bytes: Option<u64>,
    /// Pauses that it decided.
    pub pauses: usize,
}

impl Level {
    /// The level in words, of the group whose path is given.
    pub fn to_sentence(&self, path: &str) -> String {
        let whose = match self.domain {
            Decider::Host => "the host",
            Decider::Cgroup => path,
            Decider::Ceiling => "its ceiling",
            Decider::Ancestor => "the cgroup above",
            Decider::Device => "the device",
            Decider::Unknown => "an unknown domain",
        };
        let bytes = |what: &str, bytes: Option<u64>| {
            bytes.map(|bytes| format!("{what} {}", format_size(bytes)))
        };
        let held = bytes(" holds", self.held_bytes);
        let freerun = bytes(" throttles above", self.freerun_bytes);
        let both: Vec<String> = [held, freerun].into_iter().flatten().collect();
        format!(
            "{whose}{}: {} {}",
            both.join(" and"),
            self.pauses,
            if self.pauses == 1 { "pause" } else { "pauses" }
        )
    }
}

/// The host's and the cgroup's own, and those that decided a pause besides.
pub fn find_levels(seen: &Observation, group: &Group) -> Vec<Level> {
    let decisions = group.pause_decisions(seen);
    let path = group.domain_path(seen);
    let mut levels: Vec<Level> = Vec::new();
    for domain in [Decider::Host, Decider::Cgroup].into_iter().chain(
        decisions
            .iter()
            .map(|(domain, ..)| *domain)
            .filter(|domain| !matches!(domain, Decider::Host | Decider::Cgroup)),
    ) {
        if levels.iter().any(|level| level.domain == domain) {
            continue;
        }
        let mut own = decisions.iter().filter(|(of, ..)| *of == domain);
        let pauses = own.clone().count();
        let described = own
            .next_back()
            .map(|(.., throttled)| &throttled.pause)
            .filter(|_| domain != Decider::Device && domain != Decider::Unknown);
        let level = match domain {
            Decider::Host => {
                let freerun = seen
                    .limits
                    .last()
                    .map(|(_, limits)| limits.freerun_pages() * PAGE);
                (freerun, limit::median_held(seen))
            }
            Decider::Cgroup if path.is_empty() => continue,
            _ => match described {
                Some(pause) => (Some(pause.freerun_pages() * PAGE), Some(pause.dirty * PAGE)),
                None => levels_by_files(seen, &path),
            },
        };
        // Nothing at all is known of it.
        if pauses == 0 && level.0.is_none() {
            continue;
        }
        levels.push(Level {
            domain,
            freerun_bytes: level.0,
            held_bytes: level.1,
            pauses,
        });
    }
    levels
}

/// A cgroup that decided nothing, by its files.
fn levels_by_files(seen: &Observation, path: &str) -> (Option<u64>, Option<u64>) {
    let Some(cgroup) = seen.cgroup_at(path) else {
        return (None, None);
    };
    let host = seen.limits.last().map(|(_, limits)| *limits);
    let limit = limit::limit_by_files(seen, |path| seen.cgroup_at(path), cgroup);
    let freerun = host.zip(limit).map(|(host, limit)| {
        let pages = limit / PAGE;
        let background = policy::arith::scale_pages(pages, host.background, host.thresh.max(1));
        policy::arith::freerun_level(pages, background) * PAGE
    });
    (freerun, freerun.map(|_| cgroup.dirty + cgroup.writeback))
}

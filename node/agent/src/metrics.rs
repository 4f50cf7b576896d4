// SPDX-License-Identifier: GPL-2.0-only
//! What a scrape shows, read when it is asked for.
//!
//! How many series there are is bounded: of the cgroups that are asked for, those that a rule names
//! come first, then those nearest to the root, `max_cgroups` in all. Example: 3,000 containers, 40
//! of them with rules, `max_cgroups` 1000: the 40, all slices, and as many containers as there is
//! room for, by name; the rest is a number in `weir_cgroups_left_out`.
//!
//! What it costs is bounded too: one scrape is read at a time, and one that comes within a second
//! of another gets what that got.

mod cgroups;
mod host;
mod module;
mod own;

use crate::family::{Family, Newborn, open_metrics, plain_text};
use crate::http::{Request, Response, wants_open_metrics};
use crate::tree::{CgroupDir, Hierarchy};
use glob::Pattern;
use observe::read::host::read_stack;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A scrape younger than this is handed out again.
const FRESH: Duration = Duration::from_secs(1);
/// A series that begins at zero is shown so for this long, for a second scraper of the host.
const AT_ZERO: Duration = Duration::from_secs(15);

/// Selects the cgroups that have metrics.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Most cgroups that have metrics.
    pub max_cgroups: usize,
    /// Only those that match one of these; all if there are none.
    pub only: Vec<Pattern>,
}

/// Metrics that the agent's own parts published last.
#[derive(Debug, Default)]
pub struct Published {
    /// Metrics of the agent's parts.
    pub families: Vec<Arc<[Family]>>,
    /// Directories of cgroups that rules name.
    pub kept: BTreeSet<PathBuf>,
}

/// Answers scrapes with the metrics of the host and the agent.
pub struct Exporter {
    /// The machine's root directory.
    root: PathBuf,
    tree: Hierarchy,
    shown: Shown,
    published: Mutex<Published>,
    last: Mutex<Option<(Instant, String)>>,
    newborn: Mutex<Newborn>,
    own: own::Own,
    answered: AtomicU64,
    refused: AtomicU64,
}

impl Exporter {
    /// Metrics of the machine below `root`.
    pub fn new(root: PathBuf, tree: Hierarchy, shown: Shown) -> Exporter {
        Exporter {
            root,
            tree,
            shown,
            published: Mutex::default(),
            last: Mutex::default(),
            newborn: Mutex::default(),
            own: own::Own::default(),
            answered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Takes what the agent's parts say from now on.
    pub fn store_published(&self, published: Published) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = published;
    }

    /// Answers a request, and counts it.
    pub fn answer_request(&self, asked: Result<Request, Response>) -> Response {
        let response = asked.map_or_else(
            |refused| refused,
            |request| match request.path.as_str() {
                "/metrics" => self.answer_scrape(wants_open_metrics(&request.accept)),
                "/" => Response::plain_text("200 OK", "weir agent: metrics are at /metrics\n"),
                _ => Response::plain_text("404 Not Found", "not found: expected / or /metrics\n"),
            },
        );
        let count = if response.status.starts_with("200") {
            &self.answered
        } else {
            &self.refused
        };
        count.fetch_add(1, Ordering::Relaxed);
        response
    }

    fn answer_scrape(&self, open: bool) -> Response {
        let text = match self.scrape_text() {
            Ok(text) => text,
            Err(why) => {
                return Response::plain_text("500 Internal Server Error", format!("{why}\n"));
            }
        };
        if open {
            Response {
                status: "200 OK",
                kind: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                body: text,
            }
        } else {
            Response {
                status: "200 OK",
                kind: "text/plain; version=0.0.4; charset=utf-8",
                body: plain_text(&text),
            }
        }
    }

    fn scrape_text(&self) -> Result<String, std::fmt::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(text.clone());
        }
        let began = Instant::now();
        let mut families = self.gather_families();
        let mut newborn = self.newborn.lock().unwrap_or_else(PoisonError::into_inner);
        newborn.hold_at_zero(&mut families, began, AT_ZERO);
        self.own.note_scrape(began.elapsed());
        families.extend(self.own.agent_families());
        let requests = [("answered", &self.answered), ("refused", &self.refused)];
        let mut family =
            Family::counter("weir_agent_http_requests", "Requests, by how they ended.");
        for (result, count) in requests {
            family.add(&[("result", &result.into())], count.load(Ordering::Relaxed));
        }
        families.push(family);
        let text = open_metrics(families)?;
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    fn gather_families(&self) -> Vec<Family> {
        let (mut families, kept) = {
            let published = self
                .published
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let families: Vec<Family> = published
                .families
                .iter()
                .flat_map(|part| part.to_vec())
                .collect();
            (families, published.kept.clone())
        };
        families.extend(host::host_families(&self.root));
        families.extend(module::module_families(&self.root));
        let (places, left_out) = self.choose_cgroups(&kept);
        families.extend(cgroups::cgroup_families(&places, &read_stack(&self.root)));
        families.push(
            Family::gauge("weir_cgroups_shown", "Cgroups that have metrics here.")
                .with(places.len() as u64),
        );
        families.push(
            Family::gauge(
                "weir_cgroups_left_out",
                "Cgroups that would have metrics here but for --max-cgroups.",
            )
            .with(left_out as u64),
        );
        families
    }

    /// The cgroups that are shown, and how many more would be.
    fn choose_cgroups(&self, kept: &BTreeSet<PathBuf>) -> (Vec<CgroupDir>, usize) {
        let mut places = Vec::new();
        self.tree.walk(self.tree.root(), |place| {
            let only = &self.shown.only;
            if only.is_empty()
                || only
                    .iter()
                    .any(|glob| crate::globs::matches_path(glob, &place.path))
            {
                places.push(place.clone());
            }
            true
        });
        let rank = |place: &CgroupDir| {
            let depth = place.path.trim_end_matches('/').matches('/').count();
            (!kept.contains(&place.directory), depth)
        };
        // What is equal in rank stays ordered by name.
        places.sort_by_key(rank);
        let left_out = places.len().saturating_sub(self.shown.max_cgroups);
        places.truncate(self.shown.max_cgroups);
        (places, left_out)
    }
}

#[cfg(test)]
mod tests;

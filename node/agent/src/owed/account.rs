// SPDX-License-Identifier: GPL-2.0-only
//! Counters of who owes whom, in a bounded number of series.
//!
//! A pair of cgroups has a series for each limit and device. Of the series there may be, three
//! quarters are for pairs; when they are taken, what is new goes to its victim's
//! `culprit="other"`; when all are, to `victim="other"` as well, which takes no room of them. So a
//! scrape has `most` series and one for each limit at most, whatever tenants do.
//!
//! A series stays when its cgroups go, so no counter falls while a scraper looks. Only to make room
//! for another one, once in a minute, those are given up of which a cgroup is gone, and to which
//! nothing was added in a quarter of an hour: all that scrape have it by then. The totals by limit
//! go on.

use super::Machine;
use crate::containers::Pod;
use crate::family::Family;
use observe::owed::{Limit, Owed};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stands for the cgroups that there is no room for.
const OTHER: &str = "other";
/// A series to which something was added within this time is not given up.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// Between two times that it is looked for what can be given up.
const CLEARED: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    victim: String,
    culprit: String,
    limit: Limit,
    device: String,
}

#[derive(Debug)]
struct Series {
    seconds: f64,
    added: Instant,
    /// The pods that the victim and the culprit are of.
    pods: [Option<Pod>; 2],
}

/// All counters of the machine.
#[derive(Debug)]
pub struct Account {
    machine: Machine,
    most: usize,
    series: BTreeMap<Key, Series>,
    lost: BTreeMap<Limit, f64>,
    /// Records that the kernel's buffers had no room for.
    missing: u64,
    cpu: Duration,
    cleared: Option<Instant>,
}

impl Account {
    /// An account of the machine with this root directory, whose cgroups are at `cgroups`.
    pub fn new(root: &Path, cgroups: &Path, most: usize) -> Account {
        Account {
            machine: Machine {
                root: root.into(),
                cgroups: cgroups.into(),
            },
            most,
            series: BTreeMap::new(),
            lost: BTreeMap::new(),
            missing: 0,
            cpu: Duration::ZERO,
            cleared: None,
        }
    }

    /// Adds what was lost in a stretch of time, in which so many records were.
    pub fn add(&mut self, owed: &[Owed], missing: u64) {
        self.missing = self.missing.saturating_add(missing);
        let now = Instant::now();
        for of in owed {
            *self.lost.entry(of.limit).or_default() += of.seconds;
            let key = self.series_key(of, now);
            let pods = [&key.victim, &key.culprit];
            let machine = &self.machine;
            let series = self.series.entry(key.clone()).or_insert_with(|| Series {
                seconds: 0.0,
                added: now,
                pods: pods.map(|path| Pod::of_cgroup(&machine.root, &machine.cgroups, path)),
            });
            series.seconds += of.seconds;
            series.added = now;
        }
    }

    /// Notes the CPU time that looking took since the start.
    pub fn set_cpu_time(&mut self, cpu: Duration) {
        self.cpu = cpu;
    }

    /// The key of the pair, or that of `other` if there is no room for it.
    fn series_key(&mut self, of: &Owed, now: Instant) -> Key {
        let own = Key {
            victim: of.victim.clone(),
            culprit: of.culprit.clone(),
            limit: of.limit,
            device: of.device.clone(),
        };
        if self.series.contains_key(&own) {
            return own;
        }
        self.clear(now);
        if self.series.len() < self.most - self.most / 4 {
            return own;
        }
        let others = Key {
            culprit: OTHER.into(),
            device: String::new(),
            ..own
        };
        if self.series.contains_key(&others) || self.series.len() < self.most {
            return others;
        }
        Key {
            victim: OTHER.into(),
            ..others
        }
    }

    /// Gives up what no scraper can miss, if there is no room for a pair.
    fn clear(&mut self, now: Instant) {
        let is_due = |at: Instant| now.duration_since(at) >= CLEARED;
        let is_full = self.series.len() >= self.most - self.most / 4;
        if !is_full || !self.cleared.is_none_or(is_due) {
            return;
        }
        self.cleared = Some(now);
        let cgroups = &self.machine.cgroups;
        let is_gone = |path: &str| {
            path.starts_with('/') && !cgroups.join(path.trim_start_matches('/')).is_dir()
        };
        self.series.retain(|key, series| {
            now.duration_since(series.added) < KEPT
                || !(is_gone(&key.victim) || is_gone(&key.culprit))
        });
    }

    /// The same for scrapes.
    pub fn to_families(&self) -> Arc<[Family]> {
        let mut stalls = Family::counter(
            "weir_stall",
            "Time that tasks of the victim lost because of the culprit, to a limit.",
        )
        .in_seconds()
        .beginning_at_zero();
        for (key, series) in &self.series {
            let texts: [Arc<str>; 4] = [
                key.victim.as_str().into(),
                key.culprit.as_str().into(),
                key.limit.name().into(),
                key.device.as_str().into(),
            ];
            let pods = series.pods.iter().zip(POD_LABELS);
            let pods: Vec<(&'static str, Arc<str>)> = pods
                .filter_map(|(pod, names)| Some((pod.as_ref()?, names)))
                .flat_map(|(pod, names)| {
                    let values = [&pod.namespace, &pod.name, &pod.container];
                    names.into_iter().zip(values)
                })
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name, Arc::from(value.as_str())))
                .collect();
            let labels: Vec<(&'static str, &Arc<str>)> = LABELS
                .into_iter()
                .zip(&texts)
                .chain(pods.iter().map(|(name, value)| (*name, value)))
                .collect();
            stalls.add(&labels, series.seconds);
        }
        let mut lost =
            Family::counter("weir_stall_lost", "Time that tasks lost to a limit.").in_seconds();
        for limit in Limit::ALL {
            let seconds = self.lost.get(&limit).copied().unwrap_or(0.0);
            lost.add(&[("limit", &Arc::from(limit.name()))], seconds);
        }
        Arc::from([
            stalls,
            lost,
            Family::gauge("weir_stall_series", "Series of weir_stall_seconds_total.")
                .with(self.series.len() as u64),
            Family::counter(
                "weir_stall_missed_events",
                "Records that the kernel's buffers had no room for: times are too low.",
            )
            .with(self.missing),
            Family::counter("weir_stall_looking", "CPU time that it takes to know this.")
                .in_seconds()
                .with(self.cpu.as_secs_f64()),
        ])
    }
}

const LABELS: [&str; 4] = ["victim", "culprit", "limit", "device"];
const POD_LABELS: [[&str; 3]; 2] = [
    ["victim_namespace", "victim_pod", "victim_container"],
    ["culprit_namespace", "culprit_pod", "culprit_container"],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::open_metrics;
    use observe::diagnosis::Decider;
    use observe::owed::UNKNOWN;

    fn of(victim: &str, culprit: &str, seconds: f64) -> Owed {
        Owed {
            victim: victim.into(),
            culprit: culprit.into(),
            limit: Limit::Throttle(Decider::Host),
            device: "254:0".into(),
            seconds,
        }
    }

    fn account(most: usize) -> (tempfile::TempDir, Account) {
        let dir = tempfile::tempdir().expect("made");
        let account = Account::new(dir.path(), dir.path(), most);
        (dir, account)
    }

    fn sum(account: &Account) -> f64 {
        account.series.values().map(|series| series.seconds).sum()
    }

    #[test]
    fn series_are_bounded_and_nothing_is_lost() {
        let (_dir, mut account) = account(40);
        for round in 1..=3 {
            for n in 0..500 {
                account.add(&[of(&format!("/v{}", n % 25), &format!("/c{n}"), 1.0)], 0);
            }
            assert!(account.series.len() <= 40 + Limit::ALL.len());
            assert_eq!(sum(&account), f64::from(round * 500));
        }
        let others = account.series.keys().filter(|key| key.culprit == OTHER);
        assert_eq!(others.count(), 11, "ten victims, and all the rest");
        assert_eq!(account.lost[&Limit::Throttle(Decider::Host)], 1500.0);
    }

    #[test]
    fn series_outlive_their_cgroups_until_there_is_no_room() {
        let (dir, mut account) = account(4);
        std::fs::create_dir(dir.path().join("here")).expect("made");
        account.add(&[of("/here", "/here", 1.0), of("/here", "/gone", 2.0)], 0);
        account.add(&[of("/here", UNKNOWN, 3.0)], 0);
        account.add(&[of("/here", "/new", 4.0)], 0);
        let has = |account: &Account, culprit: &str| {
            account.series.keys().any(|key| key.culprit == culprit)
        };
        assert!(has(&account, "/gone") && !has(&account, "/new") && has(&account, OTHER));
        let later = Instant::now() + KEPT + CLEARED;
        account.clear(later);
        assert!(has(&account, "/here") && has(&account, UNKNOWN) && !has(&account, "/gone"));
        assert_eq!(
            account.lost[&Limit::Throttle(Decider::Host)],
            10.0,
            "the total goes on"
        );
    }

    #[test]
    fn a_scrape_names_pods_where_there_are_any() {
        let (dir, mut account) = account(100);
        let id = "b".repeat(64);
        let bundle = dir
            .path()
            .join("run/containers/storage/overlay-containers")
            .join(&id);
        std::fs::create_dir_all(bundle.join("userdata")).expect("made");
        let text = r#"{"annotations":{"io.kubernetes.pod.namespace":"shop",
            "io.kubernetes.pod.name":"web-1","io.kubernetes.container.name":"nginx"}}"#;
        std::fs::write(bundle.join("userdata/config.json"), text).expect("written");
        account.add(
            &[of("/db", &format!("/kubepods/podx/crio-{id}.scope"), 1.5)],
            7,
        );
        account.set_cpu_time(Duration::from_millis(250));
        let text = open_metrics(account.to_families().to_vec()).expect("written");
        for wanted in [
            "weir_stall_seconds_total{victim=\"/db\",culprit=\"/kubepods/podx/crio-",
            "limit=\"host\",device=\"254:0\",culprit_namespace=\"shop\",culprit_pod=\"web-1\",\
             culprit_container=\"nginx\"} 1.5\n",
            "weir_stall_lost_seconds_total{limit=\"host\"} 1.5\n",
            "weir_stall_lost_seconds_total{limit=\"fsync\"} 0.0\n",
            "weir_stall_series 1\n",
            "weir_stall_missed_events_total 7\n",
            "weir_stall_looking_seconds_total 0.25\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
    }
}

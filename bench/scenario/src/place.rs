// SPDX-License-Identifier: GPL-2.0-only
//! The places that honour each key: one table. `weir check --on`, each executor and the column
//! *where* of `docs/scenarios.md` follow it.

use crate::executor::Refusal;
use crate::metric::{Name, Places, metric_table};
use crate::model::Scenario;
use knobs::Knob;
use serde::{Deserialize, Serialize};

/// Places that run scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// QEMU guests that boot a stock distribution kernel.
    Lab,
    /// A model of one.
    Twin,
    /// The machine that weir runs on.
    Host,
}

impl Place {
    /// All places where scenarios run.
    pub const ALL: [Place; 3] = [Place::Lab, Place::Twin, Place::Host];

    /// The place's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Place::Lab => "lab",
            Place::Twin => "twin",
            Place::Host => "host",
        }
    }

    /// The place called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<Place> {
        Place::ALL.into_iter().find(|place| place.name() == name)
    }
}

/// Treatment of a key by a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Honour {
    Yes,
    /// Takes it, and does as without.
    Ignores,
    /// Under a condition that the place checks itself: what follows its name in the docs.
    If(&'static str),
    /// Refuses it: why, and what to do.
    No(&'static str),
    /// Refuses the whole section.
    NoSection(&'static str),
}

use Honour::{If, Ignores, No, NoSection, Yes};

/// Keys that all places treat alike.
pub struct Row {
    /// Heading of the section in `docs/scenarios.md`.
    pub section: &'static str,
    /// Tables that the keys stand in; `*` is any name.
    within: &'static [&'static str],
    /// The keys; [`KNOBS`] for weir's own files.
    keys: &'static [&'static str],
    /// Treatment of the keys by lab, twin and host.
    honours: [Honour; 3],
}

impl Row {
    /// Keys of the row.
    pub fn key_names(&self) -> Vec<&'static str> {
        match self.keys {
            KNOBS => Knob::ALL.map(Knob::file_name).into(),
            keys => keys.into(),
        }
    }

    fn honour_of_place(&self, place: Place) -> Honour {
        self.honours[place as usize]
    }

    /// The column *where* of the docs.
    pub fn describe_places(&self) -> String {
        if self.honours == [Yes; 3] {
            return "all".into();
        }
        let all = || Place::ALL.into_iter().map(|place| (place.name(), place));
        let yes = all().filter(|(_, place)| self.honour_of_place(*place) == Yes);
        let others = all().filter_map(|(name, place)| match self.honour_of_place(place) {
            Ignores => Some(format!("{name} ignores it")),
            If(condition) => Some(format!("{name}{condition}")),
            Yes | No(_) | NoSection(_) => None,
        });
        let yes: Vec<&str> = yes.map(|(name, _)| name).collect();
        let parts = [yes.join(", ")].into_iter().chain(others);
        parts.collect::<Vec<_>>().join("; ")
    }

    /// `true` if the row is about the key whose tables and names are `path`.
    fn matches_path(&self, path: &[String]) -> bool {
        let Some((last, within)) = path.split_last() else {
            return false;
        };
        let fits = |(pattern, name): (&&str, &String)| *pattern == "*" || *pattern == name;
        within.len() == self.within.len()
            && self.within.iter().zip(within).all(fits)
            && self.key_names().contains(&&**last)
    }
}

/// Stands for the names of all knobs.
const KNOBS: &[&str] = &[];
const TIERS: Honour = NoSection(
    "weir does not change a machine's memory: run the scenario in the lab or on the twin",
);
const AGENT: Honour =
    NoSection("weir starts no agent on a host: run the scenario in the lab or on the twin");
/// Why a host refuses what would change reclaim for all that runs on it.
pub const SHARED: &str =
    "changes how a machine that others use reclaims memory: run the scenario in the lab";
/// Why the twin refuses what only the lab has.
pub const LAB: &str = "the twin does not model it: run the scenario in the lab";
const MODEL: Honour = No("the twin does not model it: run the scenario in the lab or on a host");

const DISK: Honour = No(
    "only the twin has kinds of disks: give a `write_bandwidth`, or run the scenario on the twin",
);

const fn row(
    section: &'static str,
    within: &'static [&'static str],
    keys: &'static [&'static str],
    honours: [Honour; 3],
) -> Row {
    Row {
        section,
        within,
        keys,
        honours,
    }
}

/// Of each key whether lab, twin and host honour it. Keys whose values decide (fio's options,
/// sysctls of the twin) are for the place itself to check.
#[rustfmt::skip] // a table
pub const ROWS: &[Row] = &[
    row("[host]", &["host"], &["memory"], [Yes; 3]),
    row("[host]", &["host"], &["cpus"], [Yes; 3]),
    row("[host]", &["host"], &["sysctl"], [Yes, If(": below"), Yes]),
    row("[host]", &["host"], &["weir"], [Yes; 3]),
    row("[host]", &["host"], &["lru_gen"], [Yes, If(" where jobs allocate"), No(SHARED)]),
    row("[[tier]]", &["tier"], &["name"], [Yes, Yes, TIERS]),
    row("[[tier]]", &["tier"], &["size"], [Yes, Yes, TIERS]),
    row("[[tier]]", &["tier"], &["latency"], [Yes, Yes, TIERS]),
    row("[[tier]]", &["tier"], &["bandwidth"], [Yes, Yes, TIERS]),
    row("[agent]", &["agent"], &["engine"], [Yes, Yes, AGENT]),
    row("[agent]", &["agent"], &["lend"], [Yes, Yes, AGENT]),
    row("[agent]", &["agent"], &["interval"], [Yes, Yes, AGENT]),
    row("[agent]", &["agent"], &["reclaim"], [Yes, No(LAB), AGENT]),
    row("[agent]", &["agent"], &["policy"], [Yes, No(LAB), AGENT]),
    row("[[disk]]", &["disk"], &["name"], [Yes; 3]),
    row("[[disk]]", &["disk"], &["size"], [Yes, Ignores, Yes]),
    row("[[disk]]", &["disk"], &["write_bandwidth"], [Yes; 3]),
    row("[[disk]]", &["disk"], &["read_bandwidth"], [Yes; 3]),
    row("[[disk]]", &["disk"], &["filesystem"], [If(" without `nfs`, `fuse`"), Yes,
        If(" without `nfs`, `fuse`, `swap`")]),
    row("[[disk]]", &["disk"], &["mount_options"], [Yes, If(": below"), Yes]),
    row("[[disk]]", &["disk"], &["encrypted"], [Yes, If(" needs `[twin] flusher`"), Yes]),
    row("[[disk]]", &["disk"], &["submit_bandwidth"], [Yes, Yes,
        No("weir cannot slow down a machine's CPUs: use `encrypted`, or run the scenario on the twin")]),
    row("[[disk]]", &["disk"], &["io_cost"], [Yes; 3]),
    row("[[disk]]", &["disk"], &["kind"], [DISK, Yes, DISK]),
    row("[[disk]]", &["disk"], &["latency", "seek"], [DISK, Yes, DISK]),
    row("[[disk]]", &["disk"], &["parallel"], [DISK, Yes, DISK]),
    row("[cgroup.NAME]", &["cgroup", "*"], KNOBS, [Yes; 3]),
    row("[cgroup.NAME]", &["cgroup", "*"], &["memory.max", "memory.high", "memory.min"], [Yes; 3]),
    row("[cgroup.NAME]", &["cgroup", "*"], &["memory.low"], [Yes, If(" with `[[tier]]`"), Yes]),
    row("[cgroup.NAME]", &["cgroup", "*"], &["io.max"], [Yes; 3]),
    row("[cgroup.NAME]", &["cgroup", "*"], &["io.weight"], [Yes, If(" with `io_cost`"), Yes]),
    row("[cgroup.NAME]", &["cgroup", "*"], &["memory.swap.high", "memory.swap.max",
        "memory.oom.group", "io.bfq.weight", "io.prio.class", "cpu.max", "cpu.max.burst",
        "cpu.weight", "cpu.weight.nice", "cpu.idle", "pids.max", "cgroup.freeze",
        "cgroup.max.depth", "cgroup.max.descendants"], [Yes, MODEL, Yes]),
    row("[cgroup.NAME]", &["cgroup", "*"], &["copies"],
        [No("the lab makes no copies of a cgroup: run the scenario on the twin"), Yes,
        No("only the twin makes copies of a cgroup")]),
    row("[[job]]", &["job"], &["name"], [Yes; 3]),
    row("[[job]]", &["job"], &["cgroup"], [Yes; 3]),
    row("[[job]]", &["job"], &["disk"], [Yes; 3]),
    row("[[job]]", &["job"], &["fio"], [Yes, If(": below"), Yes]),
    row("[[job]]", &["job"], &["memory"], [Yes; 3]),
    row("[[job]]", &["job"], &["sync"], [Yes, MODEL, Yes]),
    row("[[job]]", &["job"], &["network"],
        [No("the lab has no network to receive over: run the scenario on the twin"), Yes,
        No("only the twin has a network to receive over")]),
    row("[[job]]", &["job", "memory"], &["size"], [Yes; 3]),
    row("[[job]]", &["job", "memory"], &["pattern"], [Yes; 3]),
    row("[[job]]", &["job", "memory"], &["hot"], [Yes; 3]),
    row("[[job]]", &["job", "memory"], &["hot_reads"], [Yes; 3]),
    row("[[job]]", &["job", "memory"], &["backing"], [Yes, Ignores, Yes]),
    row("[[job]]", &["job", "memory"], &["threads"], [Yes; 3]),
    row("[[job]]", &["job", "memory"], &["rate"], [Yes; 3]),
    row("[[job]]", &["job", "memory"], &["writes"], [Yes, Ignores, Yes]),
    row("[[job]]", &["job", "memory"], &["huge_pages"], [Yes, MODEL, Yes]),
    row("[[phase]]", &["phase"], &["name"], [Yes; 3]),
    row("[[phase]]", &["phase"], &["jobs"], [Yes; 3]),
    row("[[phase]]", &["phase"], &["duration"], [Yes; 3]),
    row("[[phase]]", &["phase"], &["delay"], [Yes; 3]),
    row("[[phase]]", &["phase"], &["set"], [Yes; 3]),
    row("[[phase]]", &["phase"], &["clean"], [Yes; 3]),
];

/// Keys of `scenario` that `place` refuses whatever their values, in the file's order, and
/// expectations of what is not measured there.
pub fn refused_keys(scenario: &Scenario, place: Place) -> Vec<Refusal> {
    let mut refused: Vec<Refusal> = Vec::new();
    for key in &scenario.keys {
        let row = ROWS.iter().find(|row| row.matches_path(&key.path));
        match row.map(|row| row.honour_of_place(place)) {
            Some(No(why)) => refused.push(Refusal::new(&*key.text, why)),
            Some(NoSection(why)) => refused.push(Refusal::new(&*key.path[0], why)),
            _ => {}
        }
    }
    for (index, disk) in scenario.disks.iter().enumerate() {
        if place != Place::Twin && !disk.filesystem.is_local() {
            let what = format!(
                "weir makes no {} here: run the scenario on the twin",
                disk.filesystem.name()
            );
            refused.push(Refusal::new(format!("disk[{index}].filesystem"), what));
        }
    }
    for expect in &scenario.expects {
        let of_bound = expect.bound.0.iter().flat_map(|term| &term.metrics);
        for name in [&expect.metric].into_iter().chain(of_bound) {
            let what = match places_measuring(name) {
                Places::Twin if place != Place::Twin => format!("only the twin measures `{name}`"),
                Places::Kernels if place == Place::Twin => {
                    format!("the twin does not measure `{name}`: run the scenario in the lab")
                }
                _ => continue,
            };
            refused.push(Refusal::new(format!("expect[{}]", expect.index), what));
        }
    }
    refused.dedup();
    refused
}

/// Places that measure a metric, by its full name.
fn places_measuring(name: &str) -> Places {
    let Some(name) = Name::parse_full_name(name) else {
        return Places::All;
    };
    let kinds = ["host", "disk", "cgroup"];
    let kind = |subject: &str| {
        let first = subject.split('/').next();
        kinds.into_iter().find(|kind| first == Some(kind))
    };
    let mut rows = metric_table().iter();
    let row =
        rows.find(|row| row.name == name.metric && kind(row.subject_kind()) == kind(&name.subject));
    row.map_or(Places::All, |row| row.places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_all_that_it_refuses() {
        let text = r#"
            title = "t"
            [host]
            memory = "1G"
            cpus = 1
            [[disk]]
            name = "d"
            kind = "hdd"
            filesystem = "nfs"
            [cgroup."a.slice/many"]
            copies = 3
            "cpu.weight" = 200
            [[job]]
            name = "j"
            network = { bandwidth = "1M/s", buffer = "1M" }
            fio = { rw = "write", size = "1M" }
            [[phase]]
            name = "p"
            jobs = ["j"]
            duration = "1s"
            [[expect]]
            metric = "stock.p.j.jain"
            at_least = 1
        "#;
        let scenario = crate::parse("t", "t.toml", text).expect("a scenario");
        let keys = |place| -> Vec<String> {
            let refused = refused_keys(&scenario, place).into_iter();
            refused.map(|refusal| refusal.key).collect()
        };
        let both = [
            "disk[0].kind",
            "cgroup.\"a.slice/many\".copies",
            "job[0].network",
            "disk[0].filesystem",
            "expect[0]",
        ];
        assert_eq!(keys(Place::Lab), both);
        assert_eq!(keys(Place::Host), both);
        assert_eq!(
            keys(Place::Twin),
            ["cgroup.\"a.slice/many\".\"cpu.weight\""]
        );
    }

    #[test]
    fn places_are_told_as_in_the_docs() {
        let of = |key| {
            ROWS.iter()
                .find(|row| row.key_names().contains(&key))
                .expect(key)
                .describe_places()
        };
        assert_eq!(of("cpus"), "all");
        assert_eq!(of("engine"), "lab, twin");
        assert_eq!(of("copies"), "twin");
        assert_eq!(of("encrypted"), "lab, host; twin needs `[twin] flusher`");
        assert_eq!(of("backing"), "lab, host; twin ignores it");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! `[[job]]` and `[[phase]]`: who writes or reads, and when.

use super::{cgroup, name, tier};
use crate::fio;
use crate::model::{Backing, Filesystem, Job, Network, Phase, Scenario, Sync, SyncCall};
use config::problem::suggest_known;
use config::reader::{Table, Value};
use config::units;
use std::collections::BTreeMap;

/// From call to call of a job that syncs, if the file does not say.
const SYNC_EVERY_MS: u64 = 1000;

/// Names in `scenario` that a value may refer to; complains when it is none of them.
fn read_reference(value: &Value, kind: &str, known: &[&str]) -> Option<String> {
    let word = value.string(&format!("a {kind}'s name"))?;
    if !known.contains(&word) {
        value.complain(format!(
            "no {kind} `{}` is defined, {}",
            word.escape_debug(),
            suggest_known(word, known.iter().copied())
        ));
    }
    Some(word.into())
}

pub(super) fn read_jobs(root: &Table, scenario: &Scenario) -> Vec<Job> {
    let mounted = scenario
        .disks
        .iter()
        .filter(|d| d.filesystem != Filesystem::Swap);
    let disks: Vec<&str> = mounted.map(|d| d.name.as_str()).collect();
    let cgroups: Vec<&str> = scenario.cgroups.keys().map(String::as_str).collect();
    let mut jobs: Vec<Job> = Vec::new();
    for table in root.array_of_tables(
        "job",
        &["name", "cgroup", "disk", "fio", "memory", "sync", "network"],
    ) {
        let taken: Vec<&str> = jobs.iter().map(|j| j.name.as_str()).collect();
        let name = name(&table, &taken);
        let cgroup = table.optional("cgroup").and_then(|v| {
            let path = read_reference(&v, "cgroup", &cgroups)?;
            let inner = format!("{path}/");
            if let Some(child) = cgroups.iter().find(|c| c.starts_with(&inner)) {
                v.complain(format!("`{path}` has the child `{child}`: a cgroup with children cannot hold processes, use a leaf"));
            }
            Some(path)
        });
        let memory = tier::read_memory(&table);
        let sync = read_sync(&table);
        let kinds = ["fio", "memory", "sync"].into_iter();
        let kinds: Vec<Value> = kinds.filter_map(|kind| table.optional(kind)).collect();
        if let [_, second, ..] = &kinds[..] {
            second.complain("`fio`, `memory` and `sync` exclude each other: use two jobs");
        }
        let is_other = ["memory", "sync"]
            .iter()
            .any(|kind| table.optional(kind).is_some());
        let has_files = memory
            .as_ref()
            .is_none_or(|memory| memory.backing == Backing::File);
        let disk = match (table.optional("disk"), disks.as_slice()) {
            (Some(value), _) if !has_files => {
                value.complain("memory that is no file's is on no disk: leave it out");
                None
            }
            _ if !has_files => None,
            (Some(value), _) => read_reference(&value, "disk", &disks),
            (None, [only]) => Some((*only).to_string()),
            (None, []) => {
                table.complain("has nowhere to write: define a `[[disk]]`");
                None
            }
            (None, several) => {
                table.complain(format!(
                    "`disk` is missing: name the disk that holds the job's files, known: {}",
                    several.join(", ")
                ));
                None
            }
        };
        jobs.push(Job {
            name,
            cgroup,
            disk: disk.unwrap_or_default(),
            fio: match is_other {
                true => BTreeMap::new(),
                false => fio_options(&table),
            },
            network: read_network(&table, is_other),
            memory,
            sync,
        });
    }
    jobs
}

fn read_sync(job: &Table) -> Option<Sync> {
    let table = job.optional("sync")?.as_table(&["call", "every"])?;
    let call = table.required("call", "call = \"syncfs\"")?;
    let call = call.parse_with("`sync` or `syncfs`", |text| match text {
        "sync" => Ok(SyncCall::Sync),
        "syncfs" => Ok(SyncCall::Syncfs),
        _ => Err(format!(
            "no call `{}`, {}",
            text.escape_debug(),
            suggest_known(text, ["sync", "syncfs"])
        )),
    });
    let every = table.optional("every");
    let every_ms = every.and_then(|value| {
        value.parse_with("a duration, as in `\"1s\"`", units::parse_milliseconds)
    });
    Some(Sync {
        call: call?,
        every_ms: every_ms.unwrap_or(SYNC_EVERY_MS),
    })
}

fn read_network(job: &Table, writes_nothing: bool) -> Option<Network> {
    let value = job.optional("network")?;
    if writes_nothing {
        value.complain("`network` is for jobs that write a file");
    }
    let table = value.as_table(&["bandwidth", "buffer"])?;
    let bandwidth = table.required("bandwidth", "bandwidth = \"117M/s\"")?;
    let buffer = table.required("buffer", "buffer = \"256K\"")?;
    Some(Network {
        bandwidth: bandwidth
            .parse_with("a bandwidth, as in `\"117M/s\"`", units::parse_bandwidth)?,
        buffer_bytes: buffer.parse_with("a size, as in `\"256K\"`", units::parse_size)?,
    })
}

fn fio_options(job: &Table) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let Some(table) = job.required(
        "fio",
        "fio = { rw = \"write\", bs = \"4k\", size = \"32M\" }",
    ) else {
        return options;
    };
    for (option, value) in table
        .as_entries("a table of fio options")
        .unwrap_or_default()
    {
        let Some(text) = value.as_scalar() else {
            continue;
        };
        if let Err(why) = fio::check_option(option).and_then(|()| fio::check_value(option, &text)) {
            value.complain(why);
        }
        options.insert(option.into(), text);
    }
    if !["rw", "readwrite"].iter().any(|o| options.contains_key(*o)) {
        table.complain("does not say what to do: add for example `rw = \"write\"`");
    }
    if !["size", "filesize"]
        .iter()
        .any(|o| options.contains_key(*o))
    {
        table.complain("does not say how large the file is: add for example `size = \"32M\"`");
    }
    options
}

pub(super) fn read_phases(root: &Table, scenario: &Scenario) -> Vec<Phase> {
    let jobs: Vec<&str> = scenario.jobs.iter().map(|j| j.name.as_str()).collect();
    let mut phases: Vec<Phase> = Vec::new();
    let all = root.array_of_tables(
        "phase",
        &["name", "jobs", "duration", "delay", "set", "clean"],
    );
    if all.is_empty() {
        root.complain("nothing would run: add at least one `[[phase]]`");
    }
    for table in all {
        let taken: Vec<&str> = phases.iter().map(|p| p.name.as_str()).collect();
        let name = name(&table, &taken);
        let running = read_running_jobs(&table, &jobs);
        let duration = table.required("duration", "duration = \"30s\"");
        let duration_ms = duration
            .as_ref()
            .and_then(|v| v.parse_with("a duration, as in `\"30s\"`", units::parse_milliseconds));
        if let (Some(value), Some(..1000)) = (&duration, duration_ms) {
            value.complain("is too short to measure anything: at least `1s`");
        }
        phases.push(Phase {
            name,
            delay_ms: read_delays(&table, &running),
            jobs: running,
            duration_ms: duration_ms.unwrap_or_default(),
            set: read_knob_changes(&table, scenario),
            clean: table
                .optional("clean")
                .and_then(|v| v.as_boolean())
                .unwrap_or(false),
        });
    }
    if !phases.is_empty() {
        let tables = root
            .optional("job")
            .and_then(|v| v.as_array("written as `[[job]]`"));
        for (table, job) in tables.iter().flatten().zip(jobs) {
            if !phases.iter().any(|p| p.jobs.iter().any(|j| j == job)) {
                table.complain(format!(
                    "runs in no phase: name `{job}` in the `jobs` of one, or remove it"
                ));
            }
        }
    }
    phases
}

fn read_running_jobs(phase: &Table, jobs: &[&str]) -> Vec<String> {
    let Some(value) = phase.required("jobs", "jobs = [\"victim\"]") else {
        return Vec::new();
    };
    let Some(items) = value.as_array("a list of jobs, as in `[\"victim\"]`") else {
        return Vec::new();
    };
    if items.is_empty() {
        value.complain("a phase without jobs measures nothing: name at least one");
    }
    let mut running: Vec<String> = Vec::new();
    for item in items {
        let Some(job) = read_reference(&item, "job", jobs) else {
            continue;
        };
        if running.contains(&job) {
            item.complain(format!(
                "`{job}` is in this phase already: use fio's `numjobs` for several of one kind"
            ));
        }
        running.push(job);
    }
    running
}

fn read_delays(phase: &Table, running: &[String]) -> BTreeMap<String, u64> {
    let mut delays = BTreeMap::new();
    let entries = phase
        .optional("delay")
        .and_then(|v| v.as_entries("a table, as in `{ victim = \"10s\" }`"));
    for (job, value) in entries.unwrap_or_default() {
        if !running.iter().any(|r| r == job) {
            value.complain(format!(
                "no job `{job}` in this phase, {}",
                suggest_known(job, running.iter().map(String::as_str))
            ));
        }
        if let Some(ms) = value.parse_with("a duration, as in `\"10s\"`", units::parse_milliseconds)
        {
            delays.insert(job.into(), ms);
        }
    }
    delays
}

fn read_knob_changes(
    phase: &Table,
    scenario: &Scenario,
) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut set = BTreeMap::new();
    let entries = phase
        .optional("set")
        .and_then(|v| v.as_entries("a table of cgroups, as in `[phase.set.victim]`"));
    for (path, table) in entries.unwrap_or_default() {
        if !scenario.cgroups.contains_key(path) {
            let known = scenario.cgroups.keys().map(String::as_str);
            table.complain(format!(
                "no cgroup `{path}` is defined, {}",
                suggest_known(path, known)
            ));
        }
        let mut knobs = BTreeMap::new();
        for (file, value) in table
            .as_entries("a table of weir's knobs")
            .unwrap_or_default()
        {
            if let Some(text) = cgroup::read_knob(file, &value) {
                knobs.insert(file.to_string(), text);
            }
        }
        set.insert(path.to_string(), knobs);
    }
    set
}

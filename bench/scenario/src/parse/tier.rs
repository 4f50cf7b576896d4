// SPDX-License-Identifier: GPL-2.0-only
//! `[[tier]]`, a job's `memory`, `[agent]`: memory of several speeds, who reads it and who moves
//! it.

use super::{LEAST_MEMORY, name};
use crate::model::{Agent, Backing, ENGINES, HostSpec, JobMemory, Pattern, Tier, parse_node_lists};
use config::problem::suggest_known;
use config::reader::{Table, Value};
use config::units;

/// As many as the module takes.
const MOST_TIERS: usize = 8;
/// Memory that a page table's lowest level maps, and the piece that hot memory comes in.
const PIECE: u64 = 2 << 20;
const MOST_THREADS: u64 = 256;
/// Reads of a hot set, if the file does not say how many.
const HOT_READS: u32 = 90;
const INTERVAL_MS: u64 = 1000;

pub(super) fn read_tiers(root: &Table) -> Vec<Tier> {
    let mut tiers: Vec<Tier> = Vec::new();
    for table in root.array_of_tables("tier", &["name", "size", "latency", "bandwidth"]) {
        let taken: Vec<&str> = tiers.iter().map(|tier| tier.name.as_str()).collect();
        let name = name(&table, &taken);
        let size = table.required("size", "size = \"1280M\"");
        let size_bytes = size
            .as_ref()
            .and_then(|v| v.parse_with("a size, as in `\"1280M\"`", units::parse_size))
            .unwrap_or_default();
        if let (true, Some(value), 1..LEAST_MEMORY) = (tiers.is_empty(), &size, size_bytes) {
            value.complain("is too small to boot a distribution kernel in: at least `512M`");
        }
        let latency = table.required("latency", "latency = \"80ns\"");
        let latency_ns = latency
            .as_ref()
            .and_then(|v| v.parse_with("a time, as in `\"80ns\"`", units::parse_nanoseconds))
            .unwrap_or_default();
        if let (Some(value), Some(before)) = (&latency, tiers.last()) {
            if latency_ns < before.latency_ns {
                value.complain(format!(
                    "is less than that of `{}` above it: the fastest tier comes first",
                    before.name
                ));
            }
        }
        let bandwidth = table
            .required("bandwidth", "bandwidth = \"200G/s\"")
            .and_then(|v| v.parse_with("a bandwidth, as in `\"200G/s\"`", units::parse_bandwidth))
            .unwrap_or_default();
        if tiers.len() == MOST_TIERS {
            table.complain(format!("too many tiers: at most {MOST_TIERS}"));
        }
        tiers.push(Tier {
            name,
            size_bytes,
            latency_ns,
            bandwidth,
        });
    }
    tiers
}

/// Checks that the module would take `text` for its `tiers` on a host with as many nodes.
pub(super) fn check_node_lists(text: &str, there: usize) -> Result<(), String> {
    let wrong = |why: String| {
        format!("`{text}` does not list nodes, fastest first, as in `0;1` or `0-1;2`: {why}")
    };
    let there = there.max(1);
    let lists = parse_node_lists(text).map_err(wrong)?;
    if lists.len() > MOST_TIERS {
        return Err(wrong(format!("weir knows {MOST_TIERS} tiers")));
    }
    let mut seen = vec![false; there];
    for node in lists.into_iter().flatten() {
        match seen.get_mut(node) {
            Some(seen) if *seen => return Err(wrong(format!("node {node} is there twice"))),
            Some(seen) => *seen = true,
            None => {
                return Err(wrong(format!(
                    "the host has nodes 0 to {}, one for each `[[tier]]`, not {node}",
                    there - 1
                )));
            }
        }
    }
    Ok(())
}

/// A job's `memory`, if it has one.
pub(super) fn read_memory(job: &Table) -> Option<JobMemory> {
    let value = job.optional("memory")?;
    let table = value.as_table(&[
        "size",
        "backing",
        "pattern",
        "hot",
        "hot_reads",
        "threads",
        "rate",
        "writes",
        "huge_pages",
    ])?;
    let size_bytes = table
        .required("size", "size = \"345M\"")
        .and_then(|v| read_size(&v))
        .unwrap_or(u64::MAX);
    let backing = table
        .optional("backing")
        .and_then(|v| v.parse_with("`anonymous`, `file` or `shared`", parse_backing));
    let threads = table.optional("threads").and_then(|v| {
        let threads = v.as_unsigned("a number of threads, as in `4`")?;
        if !(1..=MOST_THREADS).contains(&threads) {
            v.complain(format!("`{threads}` threads: 1 to {MOST_THREADS}"));
        }
        u32::try_from(threads).ok()
    });
    let rate = table.optional("rate").and_then(|v| {
        let rate = v.as_unsigned("reads or mappings per second, as in `100000`")?;
        if rate == 0 {
            v.complain("is 0: at least 1 a second");
        }
        Some(rate)
    });
    let pattern = read_pattern(&table, size_bytes);
    if pattern.is_allocating() {
        for key in ["backing", "threads", "writes"] {
            if let Some(value) = table.optional(key) {
                value.complain("has no meaning for a job that allocates: leave it out");
            }
        }
    }
    Some(JobMemory {
        size_bytes,
        backing: backing.unwrap_or(Backing::Anonymous),
        pattern,
        threads: threads.unwrap_or(1),
        rate,
        writes_pct: read_percent(&table, "writes").unwrap_or(0),
        huge_pages: table
            .optional("huge_pages")
            .and_then(|v| v.as_boolean())
            .unwrap_or(false),
    })
}

fn read_pattern(table: &Table, size_bytes: u64) -> Pattern {
    let word = table
        .required("pattern", "pattern = \"random\"")
        .and_then(|v| {
            v.parse_with(
                "`random`, `hotcold`, `fault` or `churn`",
                |text| match text {
                    "random" | "hotcold" | "fault" | "churn" => Ok(text.to_owned()),
                    _ => Err(format!(
                        "no pattern `{}`, {}",
                        text.escape_debug(),
                        suggest_known(text, ["random", "hotcold", "fault", "churn"])
                    )),
                },
            )
        });
    if word.as_deref() != Some("hotcold") {
        for key in ["hot", "hot_reads"] {
            if let (Some(value), Some(_)) = (table.optional(key), &word) {
                value.complain("only has a meaning with `pattern = \"hotcold\"`");
            }
        }
        return match word.as_deref() {
            Some("fault") => Pattern::Fault,
            Some("churn") => Pattern::Churn,
            _ => Pattern::Random,
        };
    }
    let hot = table.required("hot", "hot = \"157M\"");
    let hot_bytes = hot.as_ref().and_then(read_size).unwrap_or_default();
    if let Some(value) = hot.filter(|_| hot_bytes >= size_bytes) {
        value.complain("leaves nothing that is cold: less than `size`");
    }
    Pattern::HotCold {
        hot_bytes,
        hot_reads_pct: read_percent(table, "hot_reads").unwrap_or(HOT_READS),
    }
}

/// A size that is worth moving.
fn read_size(value: &Value) -> Option<u64> {
    let bytes = value.parse_with("a size, as in `\"345M\"`", units::parse_size)?;
    if bytes < PIECE {
        value.complain("is too small to tell tiers apart by: at least `2M`");
    }
    Some(bytes)
}

fn read_percent(table: &Table, key: &str) -> Option<u32> {
    table
        .optional(key)?
        .parse_with("a percentage, as in `\"90%\"`", |text| {
            match text.strip_suffix('%').map(str::parse::<u32>) {
                Some(Ok(n @ 0..=100)) => Ok(n),
                _ => Err(format!(
                    "`{}` is not a percentage: `0%` to `100%`",
                    text.escape_debug()
                )),
            }
        })
}

fn parse_backing(text: &str) -> Result<Backing, String> {
    match text {
        "anonymous" => Ok(Backing::Anonymous),
        "file" => Ok(Backing::File),
        "shared" => Ok(Backing::Shared),
        _ => Err(format!(
            "no backing `{}`, {}",
            text.escape_debug(),
            suggest_known(text, ["anonymous", "file", "shared"])
        )),
    }
}

/// `[agent]`: what moves memory between tiers in arm `weir`.
pub(super) fn read_agent(root: &Table, host: &HostSpec) -> Option<Agent> {
    let value = root.optional("agent")?;
    let table = value.as_table(&["engine", "lend", "interval", "reclaim", "policy"])?;
    let reclaim = table
        .optional("reclaim")
        .and_then(|v| v.as_boolean())
        .unwrap_or(false);
    let policy = table
        .optional("policy")
        .and_then(|v| v.string("the text of a policy file"))
        .unwrap_or_default();
    if !host.weir.contains_key("tiers") && !reclaim && policy.is_empty() {
        table.complain(
            "has nothing to do: it moves memory between the tiers that `[host]` names, as in `weir = { tiers = \"0;1\" }`, has allocators reclaim by `reclaim = true`, or keeps a `policy`",
        );
    }
    let engine = table.optional("engine").and_then(|v| {
        v.parse_with("an engine, as in `\"move_pages\"`", |text| {
            if ENGINES.contains(&text) {
                return Ok(text.to_owned());
            }
            Err(format!(
                "no engine `{}`, {}",
                text.escape_debug(),
                suggest_known(text, ENGINES.iter().copied())
            ))
        })
    });
    let interval_ms = table
        .optional("interval")
        .and_then(|v| v.parse_with("a duration, as in `\"1s\"`", units::parse_milliseconds));
    Some(Agent {
        engine: engine.unwrap_or_else(|| ENGINES[0].to_owned()),
        lend: table
            .optional("lend")
            .and_then(|v| v.as_boolean())
            .unwrap_or(true),
        interval_ms: interval_ms.unwrap_or(INTERVAL_MS),
        reclaim,
        policy: policy.into(),
    })
}

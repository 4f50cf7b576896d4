// SPDX-License-Identifier: GPL-2.0-only
//! Memory of several speeds, who reads it, and who moves it: `[[tier]]`, a job's `memory`,
//! `[agent]`.

use serde::{Deserialize, Serialize};

/// Memory of one kind: a NUMA node, numbered as in the file, the first of them with all CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// For people: `dram`, `cxl`.
    pub name: String,
    /// Bytes; all tiers together are the host's memory.
    pub size_bytes: u64,
    /// Of one access from a CPU without other load.
    pub latency_ns: u64,
    /// Bytes per second that all CPUs together can read.
    pub bandwidth: u64,
}

impl Tier {
    /// Latency and bandwidth of one that says neither: DRAM, memory behind CXL, and a third as
    /// good from tier to tier.
    pub fn default_speed(index: usize) -> (u64, u64) {
        const DRAM: (u64, u64) = (80, 200 << 30);
        const CXL: (u64, u64) = (250, 48 << 30);
        match index {
            0 => DRAM,
            _ => (1..index).fold(CXL, |(latency, bandwidth), _| (latency * 3, bandwidth / 3)),
        }
    }
}

/// A job that fills memory and reads it at random for as long as its phase lasts, and checks all of
/// it in the end; or one that allocates memory over and over ([`Pattern::is_allocating`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMemory {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Kind of the memory.
    #[serde(default)]
    pub backing: Backing,
    /// Parts of it by how often they are read.
    #[serde(default)]
    pub pattern: Pattern,
    /// Number of threads that read.
    #[serde(default = "one_thread")]
    pub threads: u32,
    /// Accesses per second of all of them together, or mappings per second of a job that allocates;
    /// `None` = as fast as they can.
    #[serde(default)]
    pub rate: Option<u64>,
    /// Writes in percent of all accesses.
    #[serde(default)]
    pub writes_pct: u32,
    /// Asks for huge pages, or asks for none.
    #[serde(default)]
    pub huge_pages: bool,
}

fn one_thread() -> u32 {
    1
}

/// Kinds of a job's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// A process's own.
    #[default]
    Anonymous,
    /// Page cache of a file on the job's disk.
    File,
    /// Anonymous, and mapped by two processes.
    Shared,
}

/// Parts of a job's memory by how often they are read, or the way it is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Every page is as likely as any other.
    #[default]
    Random,
    /// A part, in pieces of 2 MiB all over the memory, is read more often than the rest.
    HotCold {
        /// Size of the hot part.
        hot_bytes: u64,
        /// Share of all reads that go to the hot part, in percent.
        hot_reads_pct: u32,
    },
    /// Maps memory, touches each page once and unmaps it, over and over; each fault is timed.
    Fault,
    /// The same, but before it unmaps the memory it goes through all of it again, checks what is
    /// there and changes it.
    Churn,
}

impl Pattern {
    /// `true` if the job maps and unmaps memory all the time, rather than reading what it has.
    pub fn is_allocating(self) -> bool {
        matches!(self, Pattern::Fault | Pattern::Churn)
    }
}

/// The agent that enforces tier budgets, has fast allocators reclaim, or keeps a policy: arm `weir`
/// only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Mechanism that moves pages: one of [`ENGINES`].
    pub engine: String,
    /// A cgroup above its budget keeps what no other wants.
    pub lend: bool,
    /// Milliseconds from one look to the next.
    pub interval_ms: u64,
    /// Its policy has `[reclaim]`: cgroups that allocate beyond their share reclaim for themselves.
    #[serde(default)]
    pub reclaim: bool,
    /// Further text of its policy file.
    #[serde(default)]
    pub policy: String,
}

/// Mechanisms that an agent can move pages by.
pub const ENGINES: &[&str] = &["auto", "move_pages", "damon", "damon+move_pages", "reclaim"];

/// The most nodes a kernel can have.
const MOST_NODES: usize = 1024;

/// Nodes of each tier, fastest first, of a list as the module's `tiers` takes it: `0-1;2`.
///
/// # Errors
/// What of it is no list of nodes.
pub fn parse_node_lists(text: &str) -> Result<Vec<Vec<usize>>, String> {
    let nodes = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < MOST_NODES => Ok(first..=last),
            _ => Err(format!("`{range}` is neither a node nor a range")),
        }
    };
    let tier = |list: &str| -> Result<Vec<usize>, String> {
        let ranges: Vec<_> = list.split(',').map(nodes).collect::<Result<_, _>>()?;
        Ok(ranges.into_iter().flatten().collect())
    };
    text.strip_suffix(';')
        .unwrap_or(text)
        .split(';')
        .map(tier)
        .collect()
}

// SPDX-License-Identifier: GPL-2.0-only
//! A scenario after parsing and validation: plain data that lab, twin and host read alike.
//!
//! Byte sizes are `u64` bytes, bandwidths bytes per second, durations milliseconds. Every name that
//! refers to something (a job's cgroup, a phase's job) has been checked to exist.

mod disk;
mod memory;

pub use disk::{DiskKind, Preset, Timing};
pub use memory::{Agent, Backing, ENGINES, JobMemory, Pattern, Tier, parse_node_lists};

pub use config::reader::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// File stem, e.g. `dirty-knobs`.
    pub name: String,
    /// Title, in one line.
    pub title: String,
    /// The host to boot or model.
    pub host: HostSpec,
    /// Kinds of memory the host has, fastest first; none: all of one kind.
    #[serde(default)]
    pub tiers: Vec<Tier>,
    /// In file order; the first is mounted first.
    pub disks: Vec<Disk>,
    /// By cgroup path below the root, `/`-separated (`pod.slice/victim`).
    pub cgroups: BTreeMap<String, Cgroup>,
    /// Jobs, in file order.
    pub jobs: Vec<Job>,
    /// Run one after the other in one guest.
    pub phases: Vec<Phase>,
    /// Expectations that a run must meet.
    pub expects: Vec<Expect>,
    /// Properties of the host that a model has to be told; lab and host have them of their own.
    #[serde(default)]
    pub twin: Twin,
    /// Work of the agent in arm `weir`, if there is one.
    #[serde(default)]
    pub agent: Option<Agent>,
    /// All keys of the file, to be refused where they cannot be honoured.
    #[serde(skip)]
    pub keys: Vec<Key>,
}

impl Scenario {
    /// Nodes of the fastest tier: the module's if it is told which, else the first.
    pub fn top_nodes(&self) -> Vec<usize> {
        let told = self
            .host
            .weir
            .get("tiers")
            .map(|text| parse_node_lists(text));
        match told {
            Some(Ok(lists)) => lists.into_iter().next().unwrap_or_default(),
            _ => vec![0],
        }
    }
}

/// Kernels whose reclaim a model can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reclaim {
    /// Up to 5.15: it sleeps for a time.
    #[serde(rename = "5.14")]
    Waits,
    /// As published for 5.16: it sleeps for events.
    #[serde(rename = "5.16-rc")]
    Throttles,
    /// Reclaim as in Linux 6.12.
    #[serde(rename = "6.12")]
    Today,
}

impl Reclaim {
    /// By the name that scenario files have for it.
    pub fn from_name(name: &str) -> Option<Reclaim> {
        match name {
            "5.14" => Some(Reclaim::Waits),
            "5.16-rc" => Some(Reclaim::Throttles),
            "6.12" => Some(Reclaim::Today),
            _ => None,
        }
    }
}

/// Properties that a real machine brings along and a model has to be told. A model has a default
/// where `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Twin {
    /// CPU time of a `write()` besides its pages.
    pub call_ns: Option<u64>,
    /// CPU time of a page that is written to.
    pub page_ns: Option<u64>,
    /// The same if it is dirty already; a `page` if `None`.
    #[serde(default)]
    pub rewrite_ns: Option<u64>,
    /// CPU time of a page that is read from the page cache; a `page` if `None`.
    #[serde(default)]
    pub read_ns: Option<u64>,
    /// Time of such a store through a mapping.
    #[serde(default)]
    pub store_ns: Option<u64>,
    /// CPU time that each 31st page takes more which a write takes from free memory.
    #[serde(default)]
    pub refill_ns: Option<u64>,
    /// CPU time of a page that is looked at because memory is scarce.
    #[serde(default)]
    pub scan_ns: Option<u64>,
    /// CPU time that a `write()` takes more after its task has slept: caches are cold.
    pub wake_ns: Option<u64>,
    /// Time of fio from its start to its first operation; it ends so much later, too.
    #[serde(default)]
    pub start_ns: Option<u64>,
    /// Bytes per second that one flusher can submit: its own CPU time bounds that.
    pub flusher_bandwidth: Option<u64>,
    /// Cost of each further page of a large folio for a flusher, in percent of a page by itself;
    /// 100 if `None`, where the bandwidth is that of the scenario's own files.
    #[serde(default)]
    pub flusher_more_pct: Option<u64>,
    /// Bytes per second of a disk without a `write_bandwidth`.
    pub disk_bandwidth: Option<u64>,
    /// Bytes of memory that are no page cache and stay so.
    pub anonymous_bytes: Option<u64>,
    /// Interval at which disks report what they have written, as an NFS server does that commits.
    pub burst_ns: Option<u64>,
    /// Disks stand still for so long.
    #[serde(default)]
    pub stall_ns: Option<u64>,
    /// Time between two such stalls.
    #[serde(default)]
    pub stall_every_ns: Option<u64>,
    /// Each so many-th request of a disk fails.
    #[serde(default)]
    pub fails: Option<u64>,
    /// Requests that a disk takes at a time, whichever CPU they come from.
    #[serde(default)]
    pub queue: Option<u16>,
    /// Requests of one size take a time that varies by up to so many percent, up and down.
    #[serde(default)]
    pub vary: Option<u8>,
    /// Bytes that an access of a job that reads memory moves.
    #[serde(default)]
    pub access_bytes: Option<u64>,
    /// Kernel whose reclaim takes memory that jobs map.
    #[serde(default)]
    pub reclaim: Option<Reclaim>,
    /// Bytes per second that the agent can move from tier to tier.
    #[serde(default)]
    pub migrate_bandwidth: Option<u64>,
    /// CPU time of a look at the host, 20 times a second: measuring is work too.
    pub look_ns: Option<u64>,
    /// Age that the kernel's counts of a cgroup's pages may reach: reading `memory.stat` adds them
    /// up.
    #[serde(default)]
    pub counts_ns: Option<u64>,
}

/// The machine a scenario runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSpec {
    /// Guest RAM in bytes.
    pub memory_bytes: u64,
    /// Number of CPUs.
    pub cpus: u32,
    /// sysctl name (`vm.dirty_bytes`) to the value written; byte sizes already expanded to digits.
    pub sysctl: BTreeMap<String, String>,
    /// Parameter of the module to the value written: arm `weir` only.
    #[serde(default)]
    pub weir: BTreeMap<String, String>,
    /// State of the multi-generational LRU; `None` leaves it as the kernel has it.
    #[serde(default)]
    pub lru_gen: Option<bool>,
}

/// A filesystem the lab knows how to make and mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// ext4, default options.
    Ext4,
    /// XFS, default options.
    Xfs,
    /// btrfs, default options.
    Btrfs,
    /// FAT32: no cgroup writeback.
    Vfat,
    /// A server's, over NFS: twin only, no cgroup writeback.
    Nfs,
    /// A daemon's, with writeback cache: twin only, no cgroup writeback and a strict limit.
    Fuse,
    /// None: anonymous memory is swapped out to the disk, and no job has files there.
    Swap,
}

/// A block device with one filesystem on it, mounted at `/mnt/<name>`, or with swap space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Referred to by jobs; also the mount point's last component.
    pub name: String,
    /// Capacity in bytes (sparse on the host).
    pub size_bytes: u64,
    /// Throttle in bytes per second; `None` = as fast as the host.
    pub write_bandwidth: Option<u64>,
    /// Throttle in bytes per second; `None` = as fast as the host.
    pub read_bandwidth: Option<u64>,
    /// Under dm-crypt, set up so that who submits a write encrypts it: the flusher.
    #[serde(default)]
    pub encrypted: bool,
    /// Bandwidth that one CPU can submit to it, bytes per second; `None` = nothing but the kernel's
    /// own work.
    #[serde(default)]
    pub submit_bandwidth: Option<u64>,
    /// Its bandwidth is divided by `io.weight`: iocost is switched on for it, with
    /// `write_bandwidth` as its model.
    #[serde(default)]
    pub io_cost: bool,
    /// Kind of the disk: twin only. `None` = a line of requests, without latency or seeks.
    #[serde(default)]
    pub kind: Option<DiskKind>,
    /// Time of an operation of 4 KiB by itself; the kind's if `None`.
    #[serde(default)]
    pub latency_ns: Option<u64>,
    /// Operations that it works on at a time; the kind's if `None`.
    #[serde(default)]
    pub parallel: Option<u32>,
    /// Further time of a request that does not follow the last; the kind's if `None`.
    #[serde(default)]
    pub seek_ns: Option<u64>,
    /// Filesystem that it is formatted with.
    pub filesystem: Filesystem,
    /// As after `mount -o`; the filesystem's defaults if `None`.
    pub mount_options: Option<String>,
}

/// A cgroup and the files written into it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    /// File name to value, stock cgroup v2 files: both arms.
    pub files: BTreeMap<String, String>,
    /// File name to value, weir's files (`memory.dirty_*`): arm `weir` only.
    pub knobs: BTreeMap<String, String>,
    /// Not one cgroup but so many of a kind below this one, each with these files; the processes of
    /// a job in it are dealt out to them in turn. Twin only.
    #[serde(default)]
    pub copies: Option<u32>,
}

/// A fio job, whose options carry fio's own names and value syntax, a job that reads or allocates
/// memory, or one that syncs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name in metrics and phases.
    pub name: String,
    /// Cgroup the processes run in; `None` = root.
    pub cgroup: Option<String>,
    /// Disk the job's files live on; empty if it has none.
    pub disk: String,
    /// fio option to value, in fio's own names; empty if this is no fio job.
    pub fio: BTreeMap<String, String>,
    /// Memory that it reads or allocates, if this is no fio job.
    #[serde(default)]
    pub memory: Option<JobMemory>,
    /// Calls that it syncs by, if this is no fio job. Its operations are the calls.
    #[serde(default)]
    pub sync: Option<Sync>,
    /// Connection that its data come over, if not from its own memory. Twin only.
    #[serde(default)]
    pub network: Option<Network>,
}

impl Job {
    /// fio's `rw` under either of its names; `None` if the option is not given.
    pub fn fio_pattern(&self) -> Option<&str> {
        let pattern = self.fio.get("rw").or_else(|| self.fio.get("readwrite"));
        pattern.map(String::as_str)
    }

    /// `true` if its processes run in the cgroup at `path` or in one below that.
    pub fn is_in_subtree(&self, path: &str) -> bool {
        let home = self.cgroup.as_deref();
        let below = home.and_then(|home| home.strip_prefix(path));
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }

    /// `true` if it allocates memory over and over.
    pub fn is_allocating(&self) -> bool {
        let memory = self.memory.as_ref();
        memory.is_some_and(|memory| memory.pattern.is_allocating())
    }
}

/// Calls that a job makes as long as its phase lasts, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// The system call.
    pub call: SyncCall,
    /// From the beginning of one call to that of the next, in milliseconds; at once if a call took
    /// longer.
    pub every_ms: u64,
}

/// A system call that writes back what is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncCall {
    /// sync(2): all filesystems.
    Sync,
    /// syncfs(2): that of the job's disk.
    Syncfs,
}

/// A connection that a job receives what it writes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Bytes per second.
    pub bandwidth: u64,
    /// Bytes that may have come without the job having taken them: then the sender waits.
    pub buffer_bytes: u64,
}

/// A stretch of time in which some jobs run together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name in metrics.
    pub name: String,
    /// Names of the jobs that run.
    pub jobs: Vec<String>,
    /// Each fio job's run time in milliseconds (fio `runtime` + `time_based`); jobs that read
    /// memory all end this long after the last job of the phase has started.
    pub duration_ms: u64,
    /// Job name to milliseconds it starts after the phase does (lets another fill the dirty pool
    /// first).
    pub delay_ms: BTreeMap<String, u64>,
    /// Cgroup path to weir knobs that replace the cgroup's own from this phase on (arm `weir`
    /// only).
    pub set: BTreeMap<String, BTreeMap<String, String>>,
    /// Write everything back (sync) before the phase begins, so that it starts with a clean pool.
    pub clean: bool,
}

/// `stock` (no module), `weir` (module loaded, knobs set) or `patched` (another kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The kernel as the distribution ships it.
    Stock,
    /// The same kernel with the module loaded and the scenario's knobs set.
    Weir,
    /// A kernel with patches, without the module; of the scenario's knobs those that it has. Lab
    /// only.
    Patched,
}

impl Arm {
    /// Those of every place, in the order results are printed.
    pub const ALL: [Arm; 2] = [Arm::Stock, Arm::Weir];

    /// As in metric names and scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Stock => "stock",
            Arm::Weir => "weir",
            Arm::Patched => "patched",
        }
    }

    /// The arm called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<Arm> {
        let all = Arm::ALL.into_iter().chain([Arm::Patched]);
        all.into_iter().find(|arm| arm.name() == name)
    }
}

/// One thing a run must show: `ARM.PHASE.METRIC` against a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expect {
    /// Index of its `[[expect]]` in the file, counted from 0.
    pub index: usize,
    /// Flat metric name, `ARM.PHASE.SUBJECT.METRIC`.
    pub metric: String,
    /// Side of `bound` that is met.
    pub op: Op,
    /// The bound to compare with.
    pub bound: Bound,
    /// As printed, made from the file's own words.
    pub text: String,
}

/// Comparison of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// observed >= bound
    AtLeast,
    /// observed <= bound
    AtMost,
}

/// A sum of products: constants and other metrics (`0.99 * weir.solo.victim.iops`, `64M * 1.05`,
/// `stock.contended.host.dirty_max_bytes + 16M`). Evaluated on medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound(pub Vec<Term>);

/// A product in a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Constant factor, sizes already in bytes, times in nanoseconds.
    pub factor: f64,
    /// Full metric names multiplied in.
    pub metrics: Vec<String>,
}

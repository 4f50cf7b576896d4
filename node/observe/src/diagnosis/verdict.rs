// SPDX-License-Identifier: GPL-2.0-only
//! What a diagnosis says; `--json` prints these as they are.

use super::holders::Holder;
use super::killed::Killed;
use super::levels::Level;
use super::lost::{Lost, TaskLost};
use super::reclaim_split::Split;
use super::remedy::Remedy;
use super::stock::StockVerdict;
use crate::model::wait::Wait;
use policy::pause::Decider;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Why tasks stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum Cause {
    /// A limit on dirty pages; [`Decider::Unknown`] where what is needed to tell is missing.
    Throttle(Decider),
    /// A limit on writing, `io.max`, behind writeback.
    IoMax,
    /// Bytes that the cgroup, or one above it, may dirty a second, set through weir.
    Bandwidth,
    /// fsync, or the filesystem's journal.
    FsyncOrJournal,
    /// Reclaim of memory.
    Reclaim,
    /// The tasks waited, but for nothing that has to do with writeback.
    NotWriteback,
    /// No stall was found.
    Nothing,
}

impl From<Cause> for &'static str {
    fn from(cause: Cause) -> &'static str {
        match cause {
            Cause::Throttle(Decider::Host) => "host_limit",
            Cause::Throttle(Decider::Cgroup | Decider::Ceiling) => "cgroup_limit",
            Cause::Throttle(Decider::Ancestor) => "ancestor_limit",
            Cause::Throttle(Decider::Device) => "device_limit",
            Cause::Throttle(Decider::Unknown) => "cannot_tell",
            Cause::IoMax => "io_max",
            Cause::Bandwidth => "bandwidth",
            Cause::FsyncOrJournal => "fsync_or_journal",
            Cause::Reclaim => "reclaim",
            Cause::NotWriteback => "not_writeback",
            Cause::Nothing => "nothing",
        }
    }
}

fn by_decider<S: Serializer>(seconds: &BTreeMap<Decider, f64>, json: S) -> Result<S::Ok, S::Error> {
    json.collect_map(seconds.iter().map(|(decider, s)| (decider.name(), s)))
}

/// Verdicts for all groups asked about.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Length of the observation.
    pub seconds: f64,
    /// One verdict per cgroup, worst first.
    pub verdicts: Vec<Verdict>,
    /// Cgroups whose tasks were killed for memory.
    pub killed: Vec<Killed>,
    /// Events that the buffers lost.
    pub lost_events: u64,
    /// Notes on what could not be seen, for people.
    pub notes: Vec<String>,
}

/// Why a group of tasks stalled.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The cgroup, `/` for the root.
    pub cgroup: String,
    /// The cause that stalled it.
    pub cause: Cause,
    /// The reason, in a sentence.
    pub because: String,
    /// The cgroup or device that is behind it.
    pub culprit: Option<String>,
    /// The device for which most of the time was lost.
    pub device: Option<String>,
    /// Time lost in what stalled it.
    pub lost: Lost,
    /// Tasks that lost most of it, most first; those that were seen only now and then are left out.
    pub tasks: Vec<TaskLost>,
    /// Seconds by kind: throttle, bandwidth, ceiling, reclaim, fsync, FUSE, other.
    pub seconds_by_kind: BTreeMap<&'static str, f64>,
    /// Throttled seconds by the domain that decided.
    #[serde(serialize_with = "by_decider")]
    pub seconds_by_domain: BTreeMap<Decider, f64>,
    /// Each domain's freerun level, and how many pauses it decided; of the throttle only.
    pub levels: Vec<Level>,
    /// The parts of reclaim's time, and for whom; absent unless that is the cause.
    pub reclaim: Option<Split>,
    /// The derivation of the limit, sentence by sentence.
    pub limit: Vec<String>,
    /// Bytes dirty and in writeback, by cgroup, most first.
    pub holders: Vec<Holder>,
    /// The part that bounds the drain, and whether sleeping helps.
    pub drain: String,
    /// The kernel's next steps.
    pub next: String,
    /// Settings that change it, best first.
    pub remedies: Vec<Remedy>,
    /// Why there is none, if so, and where to look.
    pub unchanged: Option<Unchanged>,
    /// `true` if others wait for it, or it is below a ceiling, so it is held on purpose.
    pub is_on_purpose: bool,
    /// The cgroup that waits for it, if one does.
    #[serde(skip)]
    pub held_for: Option<String>,
    /// The event that its tasks wait for, where that is no limit.
    #[serde(skip)]
    pub waits_for: Option<Wait>,
    /// Verdict on the kernel's own knobs, whether they suffice; absent if that cannot be told.
    pub stock: Option<StockVerdict>,
    /// `io.pressure` of the cgroup, some, seconds; absent if unknown.
    pub io_pressure_seconds: Option<f64>,
}

/// Reason why there is no remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The wait is known, and no setting shortens it.
    NothingHelps,
    /// The source that was looked at does not show what would help.
    NotShown,
}

/// Why there is no remedy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unchanged {
    /// The reason, in a word.
    pub why: Why,
    /// The reason, in words.
    pub because: String,
    /// The command to type to see more.
    pub command: String,
}

impl Unchanged {
    /// In a sentence.
    pub fn to_sentence(&self) -> String {
        match self.why {
            Why::NothingHelps => format!("known: nothing helps: {}", self.because),
            Why::NotShown => format!("this source does not show which: {}", self.because),
        }
    }
}

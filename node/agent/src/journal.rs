// SPDX-License-Identifier: GPL-2.0-only
//! What the agent says: a line for each thing it did or could not do, for people or (`--json`) for
//! programs.

use crate::setting::Origin;
use config::problem::Problem;
use knobs::Knob;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JournalEvent {
    /// The agent has started.
    Started {
        /// Address of the metrics, if they are served.
        listen: Option<String>,
        /// Rules in effect.
        rules: usize,
    },
    /// Any host that reaches the address can read the metrics.
    Exposed {
        /// Address of the metrics.
        listen: String,
    },
    /// A knob was set because a rule, a unit or a label says so.
    Set {
        /// Path of the cgroup.
        cgroup: String,
        /// The knob that was set.
        knob: Knob,
        /// The knob's text before.
        from: String,
        /// The text that was written.
        to: String,
        /// The rule, unit or label that sets it.
        #[serde(flatten)]
        origin: Origin,
    },
    /// A knob whose rule is gone is again what it was.
    PutBack {
        /// Path of the cgroup.
        cgroup: String,
        /// The knob that was put back.
        knob: Knob,
        /// The knob's text before.
        from: String,
        /// The text that was written.
        to: String,
    },
    /// A knob whose rule is gone was changed by another program meanwhile, and stays.
    Left {
        /// Path of the cgroup.
        cgroup: String,
        /// The knob that was left.
        knob: Knob,
        /// The knob's text now.
        value: String,
    },
    /// A request of a unit or a label is not granted; everything else is.
    NotGranted {
        /// Path of the cgroup.
        cgroup: String,
        /// The unit or label that asks for it.
        #[serde(flatten)]
        origin: Origin,
        /// Why it is not granted.
        why: String,
    },
    /// A knob could not be read or written; it is tried again.
    Failed {
        /// Path of the cgroup.
        cgroup: String,
        /// The knob that was not set.
        knob: Knob,
        /// Why it was not set.
        why: String,
    },
    /// Cgroups that a rule matches have none of the files; they are looked at again.
    Waiting {
        /// Number of knobs that wait.
        knobs: usize,
        /// A cgroup that lacks such a file.
        cgroup: String,
    },
    /// The policy file was read again and is in effect.
    Policy {
        /// Rules in effect.
        rules: usize,
    },
    /// The policy file is not in effect; what was before still is.
    Refused {
        /// Problems found in the file.
        problems: Vec<Problem>,
    },
    /// Values that were written over cannot be remembered.
    #[serde(rename = "forgetful")]
    StateNotSaved {
        /// Why notes cannot be kept.
        why: String,
    },
    /// New cgroups are found by regular scans only.
    #[serde(rename = "deaf")]
    WatchLost {
        /// Why new cgroups are not reported.
        why: String,
    },
    /// Tiers are on, and pages can be moved.
    Engine {
        /// Name of the engine.
        engine: String,
        /// Why by this.
        why: String,
    },
    /// Pages cannot be moved this way any more.
    EngineFailed {
        /// Name of the engine.
        engine: String,
        /// Why the engine failed.
        why: String,
    },
    /// Tiers were switched off.
    TiersOff,
    /// Tiers cannot be kept, or not told of.
    Tiers {
        /// Why tiers cannot be kept.
        why: String,
    },
    /// Allocations have to reclaim: limits follow.
    ReclaimBegins,
    /// Idle memory is asked for as well, so many MiB at a time.
    ReclaimIdle {
        /// At a time.
        mib: u64,
    },
    /// No allocation has to reclaim any more, and no limit is set.
    ReclaimEnds,
    /// So many threads start writeback beside a device's flushers now.
    Assisted {
        /// The device's number, as in `253:0`.
        device: String,
        /// 0 when the flushers are alone again.
        threads: u64,
    },
    /// Writeback cannot be started.
    Assist {
        /// Why it cannot.
        why: String,
    },
    /// A cgroup that allocates beyond its share has a limit now, which follows its part.
    Limited {
        /// Path of the cgroup.
        cgroup: String,
        /// The limit that it begins with, in MiB.
        to_mib: u64,
    },
    /// A cgroup would have a limit if that were not only observed.
    WouldLimit {
        /// Path of the cgroup.
        cgroup: String,
        /// Memory that the cgroup holds, in MiB.
        usage_mib: u64,
        /// The limit, in MiB.
        to_mib: u64,
    },
    /// A cgroup's limit is again what it was.
    LimitPutBack {
        /// Path of the cgroup.
        cgroup: String,
        /// Name of the file that has the limit.
        limit: &'static str,
        /// Bytes, or `max`.
        to: String,
    },
    /// A limit was changed by another program, and stays.
    LimitLeft {
        /// Path of the cgroup.
        cgroup: String,
        /// Name of the file that has the limit.
        limit: &'static str,
        /// The limit's text now.
        value: String,
    },
    /// The pages that others may hold for the sake of a cgroup have changed.
    Budget {
        /// Index of the objective in the policy file, from 0.
        objective: usize,
        /// The measured value and the bound that it should not exceed.
        measured: String,
        /// The limit of each of the others, in KiB; none: as much as it likes.
        each_kib: Option<u64>,
        /// Number of the others.
        others: usize,
        /// Observe mode: the limit is printed and not set.
        observing: bool,
    },
    /// The pages that a disk may have in flight for the sake of a cgroup have changed.
    Queue {
        /// Index of the objective in the policy file, from 0.
        objective: usize,
        /// The measured value and the bound that it should not exceed.
        measured: String,
        /// The disk's name.
        disk: String,
        /// The disk's limit in flight, in KiB; none: as much as it likes.
        to_kib: Option<u64>,
        /// Observe mode: the queue stays as it is.
        observing: bool,
    },
    /// The pages that flushers of others may have under writeback for the sake of a cgroup have
    /// changed.
    Window {
        /// Index of the objective in the policy file, from 0.
        objective: usize,
        /// The measured value and the bound that it should not exceed.
        measured: String,
        /// The limit of each of the others, in KiB; none: as much as it likes.
        each_kib: Option<u64>,
        /// Number of the others.
        others: usize,
        /// Observe mode: the window is printed and not set.
        observing: bool,
    },
    /// A cgroup has a ceiling or a window for an objective's sake, which follows.
    Ceiling {
        /// Path of the cgroup.
        cgroup: String,
        /// Name of the file that has it.
        limit: &'static str,
        /// The value that it begins with, in KiB.
        to_kib: u64,
    },
    /// Objectives cannot be kept, or not as they should be.
    Objective {
        /// The problem, for people.
        why: String,
    },
    /// Stalls cannot be charged to culprits, or not as they should be.
    Stalls {
        /// The problem, for people.
        why: String,
    },
    /// Allocators cannot be limited, or not as they should be.
    Reclaim {
        /// The problem, for people.
        why: String,
    },
    /// A file of the stock kernel was set for want of the module; some then follow.
    StockSet {
        /// Path of the cgroup, or `host`.
        at: String,
        /// The file, or its part.
        setting: String,
        /// The file's value before.
        from: String,
        /// The value that was written.
        to: String,
    },
    /// A limit had been reset to the file's default, and was set again.
    StockSetAgain {
        /// Path of the cgroup.
        at: String,
        /// The file, or its part.
        setting: String,
        /// The value that was written again.
        to: String,
    },
    /// A file of the stock kernel would be set if that were not only observed.
    StockWouldSet {
        /// Path of the cgroup, or `host`.
        at: String,
        /// The file, or its part.
        setting: String,
        /// The file's value now.
        from: String,
        /// The value that would be written.
        to: String,
    },
    /// A file of the stock kernel holds again what it held before.
    StockPutBack {
        /// Path of the cgroup, or `host`.
        at: String,
        /// The file, or its part.
        setting: String,
        /// The value that was written.
        to: String,
    },
    /// A cgroup's limit was set below another program's.
    StockSetBelow {
        /// Path of the cgroup.
        at: String,
        /// The file, or its part.
        setting: String,
        /// The other program's limit.
        found: String,
        /// The value that was written.
        to: String,
    },
    /// A file of the stock kernel holds another program's value, which stays.
    StockLeft {
        /// Path of the cgroup, or `host`.
        at: String,
        /// The file, or its part.
        setting: String,
        /// The file's value now.
        value: String,
    },
    /// An `io.max` was set, and no objective bounds what others' fsync waits for behind it.
    StockInBursts {
        /// Path of the cgroup.
        at: String,
    },
    /// Rules are kept by another means from now on, as an automatic mode follows the module.
    Mode {
        /// `module` or `stock`.
        mode: &'static str,
    },
    /// Rules cannot be kept without the module, or not as they should be.
    Stock {
        /// The problem, for people.
        why: String,
    },
    /// The agent ends, and leaves the knobs as they are.
    Ended,
}

/// Words for the limit of each cgroup that an objective limits, up to the noun.
fn describe_allowance(others: usize, each_kib: Option<u64>, observing: bool) -> String {
    let may = if observing {
        "would be allowed"
    } else {
        "may have"
    };
    let each = each_kib.map_or("any number of".into(), |kib| format!("{kib} KiB of"));
    format!("each of {others} others {may} {each}")
}

impl fmt::Display for JournalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalEvent::Started { listen, rules } => {
                let listen = listen.as_ref().map_or("no metrics".to_string(), |at| {
                    format!("metrics at http://{at}/metrics")
                });
                write!(f, "started: {rules} rules, {listen}")
            }
            JournalEvent::Exposed { listen } => write!(
                f,
                "note: {listen} is not a loopback address: any host that reaches it can read the metrics, which name all cgroups"
            ),
            JournalEvent::Set {
                cgroup,
                knob,
                from,
                to,
                origin,
            } => write!(
                f,
                "{}: {} = {to}, was {} ({origin})",
                cgroup.escape_debug(),
                knob.file_name(),
                from.escape_debug()
            ),
            JournalEvent::PutBack {
                cgroup,
                knob,
                from,
                to,
            } => write!(
                f,
                "{}: {} = {to} as before, was {} (nothing names it any more)",
                cgroup.escape_debug(),
                knob.file_name(),
                from.escape_debug()
            ),
            JournalEvent::Left {
                cgroup,
                knob,
                value,
            } => write!(
                f,
                "{}: {} stays {} (its rule is gone, but another program changed it since)",
                cgroup.escape_debug(),
                knob.file_name(),
                value.escape_debug()
            ),
            JournalEvent::NotGranted {
                cgroup,
                origin,
                why,
            } => write!(
                f,
                "error: {}: {origin}: {why}; ignored",
                cgroup.escape_debug()
            ),
            JournalEvent::Failed { cgroup, knob, why } => write!(
                f,
                "error: {}: {}: {why}; trying again",
                cgroup.escape_debug(),
                knob.file_name()
            ),
            JournalEvent::Waiting { knobs, cgroup } => write!(
                f,
                "waiting for {knobs} files that are not there, as in {}: is weir's module loaded (`weir status`), is memory in the \
                 parent's cgroup.subtree_control? Looking again",
                cgroup.escape_debug()
            ),
            JournalEvent::Policy { rules } => write!(f, "policy read again: {rules} rules"),
            JournalEvent::Refused { problems } => {
                write!(
                    f,
                    "error: the policy is refused, the one before stays in effect"
                )?;
                problems
                    .iter()
                    .try_for_each(|problem| write!(f, "\n{problem}"))
            }
            JournalEvent::StateNotSaved { why } => write!(
                f,
                "error: {why}: knobs that are set now cannot be put back after a restart; trying again"
            ),
            JournalEvent::WatchLost { why } => {
                write!(
                    f,
                    "note: {why}: new cgroups are found by regular scans only"
                )
            }
            JournalEvent::Engine { engine, why } => {
                write!(f, "tiers: pages are moved by {engine}: {why}")
            }
            JournalEvent::EngineFailed { engine, why } => {
                write!(f, "error: tiers: {engine} failed: {why}")
            }
            JournalEvent::TiersOff => f.write_str("tiers: off"),
            JournalEvent::Tiers { why } => write!(f, "error: tiers: {why}"),
            JournalEvent::ReclaimBegins => {
                f.write_str("reclaim: allocations wait for it: limiting the fastest allocators")
            }
            JournalEvent::ReclaimIdle { mib } => write!(
                f,
                "reclaim: has the kernel reclaim what is idle on the host, {mib} MiB at a time"
            ),
            JournalEvent::ReclaimEnds => f.write_str("reclaim: no allocation waits any more"),
            JournalEvent::Assisted { device, threads: 0 } => {
                write!(f, "assist: {device}: its flushers are alone again")
            }
            JournalEvent::Assisted { device, threads } => write!(
                f,
                "assist: {device}: {threads} {} writeback, as one flusher cannot feed it",
                if *threads == 1 {
                    "thread starts"
                } else {
                    "threads start"
                }
            ),
            JournalEvent::Assist { why } => write!(f, "error: assist: {why}"),
            JournalEvent::Limited { cgroup, to_mib } => write!(
                f,
                "{}: memory.high = {to_mib} MiB and following, was max (allocates beyond its share)",
                cgroup.escape_debug()
            ),
            JournalEvent::WouldLimit {
                cgroup,
                usage_mib,
                to_mib,
            } => write!(
                f,
                "{}: memory.high would be {to_mib} MiB, usage is {usage_mib} MiB (observing)",
                cgroup.escape_debug()
            ),
            JournalEvent::LimitPutBack { cgroup, limit, to } => {
                write!(f, "{}: {limit} = {to} as before", cgroup.escape_debug())
            }
            JournalEvent::LimitLeft {
                cgroup,
                limit,
                value,
            } => write!(
                f,
                "{}: {limit} stays {}: another program set it",
                cgroup.escape_debug(),
                value.escape_debug()
            ),
            JournalEvent::Budget {
                objective,
                measured,
                each_kib,
                others,
                observing,
            } => {
                let each = describe_allowance(*others, *each_kib, *observing);
                write!(f, "objective {objective}: {measured}: {each} dirty pages")
            }
            JournalEvent::Queue {
                objective,
                measured,
                disk,
                to_kib,
                observing,
            } => {
                let may = if *observing { "could" } else { "may" };
                let kib = to_kib.map_or("as much as it takes".into(), |kib| format!("{kib} KiB"));
                write!(
                    f,
                    "objective {objective}: {measured}: {} {may} have {kib} in flight",
                    disk.escape_debug()
                )
            }
            JournalEvent::Window {
                objective,
                measured,
                each_kib,
                others,
                observing,
            } => {
                let each = describe_allowance(*others, *each_kib, *observing);
                write!(
                    f,
                    "objective {objective}: {measured}: {each} pages under writeback"
                )
            }
            JournalEvent::Ceiling {
                cgroup,
                limit,
                to_kib,
            } => write!(
                f,
                "{}: {limit} = {to_kib} KiB and following, was max (for an objective)",
                cgroup.escape_debug()
            ),
            JournalEvent::Objective { why } => write!(f, "error: objectives: {why}"),
            JournalEvent::Stalls { why } => write!(f, "note: who owes whom: {why}"),
            JournalEvent::Reclaim { why } => write!(f, "error: reclaim: {why}"),
            JournalEvent::StockSet {
                at,
                setting,
                from,
                to,
            } => write!(
                f,
                "{}: {setting} = {to}, was {} (for want of the module)",
                at.escape_debug(),
                from.escape_debug()
            ),
            JournalEvent::StockSetAgain { at, setting, to } => write!(
                f,
                "{}: {setting} = {to} again: it was reset to its default, as systemd does",
                at.escape_debug()
            ),
            JournalEvent::StockWouldSet {
                at,
                setting,
                from,
                to,
            } => write!(
                f,
                "{}: {setting} would be {to}, is {} (observing)",
                at.escape_debug(),
                from.escape_debug()
            ),
            JournalEvent::StockSetBelow {
                at,
                setting,
                found,
                to,
            } => write!(
                f,
                "{}: {setting} = {to}, below another program's {}",
                at.escape_debug(),
                found.escape_debug()
            ),
            JournalEvent::StockPutBack { at, setting, to } => {
                write!(f, "{}: {setting} = {to} as before", at.escape_debug())
            }
            JournalEvent::StockLeft { at, setting, value } => write!(
                f,
                "{}: {setting} stays {}: another program set it",
                at.escape_debug(),
                value.escape_debug()
            ),
            JournalEvent::StockInBursts { at } => write!(
                f,
                "{}: others' fsync waits behind what its io.max lets go at a time; an [[objective]] bounds that",
                at.escape_debug()
            ),
            JournalEvent::Mode { mode: "stock" } => write!(
                f,
                "mode stock: no module is loaded, the kernel's own files stand for knobs; \
                 `systemctl status weir` or `weir load` says why"
            ),
            JournalEvent::Mode { mode } => write!(f, "mode {mode}: knobs are the module's"),
            JournalEvent::Stock { why } => write!(f, "error: stock: {why}"),
            JournalEvent::Ended => write!(f, "ended; knobs stay as they are"),
        }
    }
}

/// Log that events are written to. Copies write to the same place.
#[derive(Clone)]
pub struct Journal {
    out: Arc<Mutex<dyn Write + Send>>,
    json: bool,
}

impl Journal {
    /// To `out`, a line or a JSON object each.
    pub fn new(out: impl Write + Send + 'static, json: bool) -> Journal {
        Journal {
            out: Arc::new(Mutex::new(out)),
            json,
        }
    }

    /// Writes the event to the log.
    pub fn log_event(&self, event: &JournalEvent) {
        let line = if self.json {
            serde_json::to_string(event).unwrap_or_else(|why| format!("{{\"error\":\"{why}\"}}"))
        } else {
            event.to_string()
        };
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a reader the line is lost; the knobs are still kept.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// Text that a test's journal has written.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

#[cfg(test)]
impl Said {
    /// Takes the text that was written since the last call.
    pub(crate) fn take_text(&self) -> String {
        let said = std::mem::take(&mut *self.0.lock().expect("one at a time"));
        String::from_utf8(said).expect("text")
    }
}

#[cfg(test)]
impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one at a time").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

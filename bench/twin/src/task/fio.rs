// SPDX-License-Identifier: GPL-2.0-only
//! A job's fio options, as far as the twin knows what they do. Every other one is a problem that
//! names it: an option that was passed over would make the twin run another job than the lab.

use crate::mm::domain::PAGE;
use crate::sim::clock::{MS, Ns, SECOND};
use crate::task::alloc::Maps;
use scenario::model::Job;

/// Calls by which a writer makes its file durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// After so many operations.
    pub every: u64,
    /// And the filesystem writes what it knows of the file, too: not for `fdatasync`.
    pub commits: bool,
}

/// Work of each process of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Reads, does not write.
    pub reads: bool,
    /// In random order, each block once per round.
    pub random: bool,
    /// Pages of an operation.
    pub op_pages: u64,
    /// Operations in a round over the file.
    pub ops: u64,
    /// Bytes per second of each process.
    pub rate: Option<u64>,
    /// Number of processes (`numjobs`).
    pub processes: u32,
    /// Time that it runs; the phase says if `None`.
    pub runtime: Option<Ns>,
    /// Time that it runs before it is measured.
    pub ramp: Ns,
    /// Sleep after so many operations.
    pub think: Option<(Ns, u64)>,
    /// Forgets the file at its end, dirty pages and all.
    pub unlink: bool,
    /// Calls of fsync, if a writer makes any.
    pub sync: Option<Sync>,
    /// A writer has the kernel forget its file before each round but the first; the kernel writes
    /// what is dirty of it first.
    pub forgets: bool,
    /// `true` if it writes through a mapping.
    pub maps: bool,
    /// The file has no blocks before they are written to.
    pub grows: bool,
    /// Pages of its own that it fills before it begins; such a job has no file.
    pub holds: u64,
    /// Network over which it receives what it writes.
    pub network: Option<Received>,
    /// It maps memory and does nothing else; such a job has no file.
    pub maps_memory: Option<Maps>,
}

impl Work {
    /// Of a job that maps memory.
    pub fn for_maps(maps: Maps) -> Work {
        Work {
            reads: false,
            random: false,
            op_pages: 0,
            ops: 1,
            rate: None,
            processes: 1,
            runtime: None,
            ramp: 0,
            think: None,
            unlink: false,
            sync: None,
            forgets: false,
            maps: false,
            grows: false,
            holds: 0,
            network: None,
            maps_memory: Some(maps),
        }
    }

    /// Pages of the file of each process.
    pub fn file_pages(&self) -> u64 {
        if self.holds > 0 || self.maps_memory.is_some() {
            return 0;
        }
        self.ops * self.op_pages
    }
}

/// Data over a network, which come at its pace, whether the job takes them or not, until the buffer
/// is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Time that an operation's bytes take.
    pub operation: Ns,
    /// And those that fill the buffer.
    pub fills: Ns,
}

/// Options that change nothing of what is modelled.
const WITHOUT_EFFECT: &[&str] = &[
    "fallocate",
    "group_reporting",
    "invalidate",
    "overwrite",
    "thread",
];

/// Obstacle to running `job`: option (or none for the job as a whole) and reason.
pub type Refusal = (String, String);

/// Work of a job.
///
/// # Errors
/// Every option the twin does not model, and every value it cannot read.
pub fn parse_job(job: &Job) -> Result<Work, Vec<Refusal>> {
    let mut reader = OptionReader {
        job,
        refusals: Vec::new(),
    };
    let rw = reader
        .option_text("rw")
        .or(reader.option_text("readwrite"))
        .unwrap_or_default();
    let (reads, random) = match rw {
        "write" => (false, false),
        "randwrite" => (false, true),
        "read" => (true, false),
        "randread" => (true, true),
        other => {
            reader.refuse_option(
                "rw",
                format!("the twin models read, write, randread and randwrite, not `{other}`"),
            );
            (false, false)
        }
    };
    if reads && reader.option_text("invalidate") == Some("0") {
        reader.refuse_option(
            "invalidate",
            "the twin's readers find nothing in the cache: invalidate=1 only".into(),
        );
    }
    let engine = reader.option_text("ioengine").unwrap_or("psync");
    let is_null = engine == "null";
    if !["psync", "sync", "pvsync", "pvsync2", "mmap", "null"].contains(&engine) {
        reader.refuse_option(
            "ioengine",
            format!("the twin models psync, sync, pvsync, pvsync2, mmap and null, not `{engine}`"),
        );
    }
    if is_null {
        reader.check_null_engine(reads);
    }
    let depth = reader
        .read_number("iodepth")
        .filter(|_| is_null)
        .unwrap_or(1);
    for (option, only) in [
        ("direct", "0"),
        ("iodepth", "1"),
        ("nrfiles", "1"),
        ("loops", "1"),
    ] {
        let is_taken = option == "iodepth" && is_null;
        if !is_taken
            && reader
                .option_text(option)
                .is_some_and(|value| value != only)
        {
            reader.refuse_option(option, format!("the twin models {option}={only} only"));
        }
    }
    let op = reader
        .read_size("bs")
        .or(reader.read_size("blocksize"))
        .unwrap_or(PAGE);
    if op == 0 || op % PAGE != 0 {
        reader.refuse_option("bs", "the twin counts whole pages: a multiple of 4k".into());
    }
    let size = reader
        .read_size("size")
        .or(reader.read_size("filesize"))
        .unwrap_or(0);
    let (op_pages, ops) = ((op / PAGE).max(1), size / op.max(PAGE));
    if ops == 0 {
        reader.refuse_option("size", "is less than one operation: at least `bs`".into());
    }
    let think = reader
        .read_time("thinktime", MS / 1000)
        .filter(|ns| *ns > 0);
    let blocks = reader.read_number("thinktime_blocks").unwrap_or(1);
    let sync = [("fsync", true), ("fdatasync", false)]
        .into_iter()
        .find_map(|(option, commits)| {
            let every = reader.read_number(option).filter(|every| *every > 0)?;
            Some(Sync { every, commits })
        })
        .filter(|_| !reads);
    let work = Work {
        reads,
        random,
        op_pages,
        ops: ops.max(1),
        rate: reader.read_size("rate").filter(|rate| *rate > 0),
        processes: reader
            .read_number("numjobs")
            .unwrap_or(1)
            .clamp(1, 1_000_000) as u32,
        runtime: reader.read_time("runtime", SECOND),
        ramp: reader.read_time("ramp_time", SECOND).unwrap_or(0),
        think: think.map(|ns| (ns, blocks.max(1))),
        unlink: reader.read_number("unlink") == Some(1),
        sync,
        maps: !reads && engine == "mmap",
        forgets: !reads && !is_null && reader.option_text("invalidate") != Some("0"),
        grows: reader.option_text("overwrite") == Some("0")
            && reader.option_text("fallocate") == Some("none"),
        holds: if is_null {
            op_pages.saturating_mul(depth)
        } else {
            0
        },
        network: reader.read_network(op, reads),
        maps_memory: None,
    };
    reader.refuse_unknown();
    if reader.refusals.is_empty() {
        Ok(work)
    } else {
        Err(reader.refusals)
    }
}

struct OptionReader<'a> {
    job: &'a Job,
    refusals: Vec<Refusal>,
}

impl<'a> OptionReader<'a> {
    fn option_text(&self, option: &str) -> Option<&'a str> {
        self.job.fio.get(option).map(String::as_str)
    }

    fn read_network(&mut self, op: u64, reads: bool) -> Option<Received> {
        let network = self.job.network?;
        let time = |bytes: u64| {
            let time = u128::from(bytes) * u128::from(SECOND) / u128::from(network.bandwidth);
            Ns::try_from(time).unwrap_or(Ns::MAX / 4)
        };
        if reads {
            self.refuse_option(
                "rw",
                "a job with `network` writes what it receives: rw=write or randwrite".into(),
            );
        }
        if network.buffer_bytes < op {
            self.refuse_option(
                "bs",
                "is more than the network's `buffer`: at most its size".into(),
            );
        }
        Some(Received {
            operation: time(op),
            fills: time(network.buffer_bytes),
        })
    }

    /// Refuses what does not fit a job of the null engine, which holds memory and does nothing
    /// else.
    fn check_null_engine(&mut self, reads: bool) {
        if reads {
            self.refuse_option("rw", "with ioengine=null the twin models writers only: fio fills their buffers, which takes memory".into());
        }
        for option in ["fsync", "fdatasync", "unlink"] {
            if self.read_number(option).is_some_and(|number| number > 0) {
                self.refuse_option(option, "there is no file with ioengine=null: 0 only".into());
            }
        }
        if self.job.network.is_some() {
            self.refuse_option(
                "ioengine",
                "a job with `network` writes to a file: not ioengine=null".into(),
            );
        }
    }

    fn refuse_option(&mut self, option: &str, why: String) {
        self.refusals.push((option.into(), why));
    }

    fn read_number(&mut self, option: &str) -> Option<u64> {
        let text = self.option_text(option)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.refuse_option(option, format!("`{text}` is not a whole number"));
        }
        number
    }

    /// fio's `k`, `m`, `g`, `t`, powers of 1024.
    fn read_size(&mut self, option: &str) -> Option<u64> {
        let text = self.option_text(option)?;
        let size = config::units::parse_size(text).ok();
        if size.is_none() {
            self.refuse_option(
                option,
                format!("the twin reads one size with k, m, g or t, not `{text}`"),
            );
        }
        size
    }

    /// A time; a bare number counts `unit`s.
    fn read_time(&mut self, option: &str, unit: Ns) -> Option<Ns> {
        let text = self.option_text(option)?;
        let time = match text.parse::<u64>() {
            Ok(number) => number
                .checked_mul(unit)
                .filter(|ns| *ns <= config::units::LONGEST_NS),
            Err(_) => config::units::parse_nanoseconds(text).ok(),
        };
        if time.is_none() {
            self.refuse_option(
                option,
                format!("`{text}` is not a time, as in `500ms` or `12s`"),
            );
        }
        time
    }

    fn refuse_unknown(&mut self) {
        const READ: &[&str] = &[
            "rw",
            "readwrite",
            "ioengine",
            "direct",
            "iodepth",
            "nrfiles",
            "loops",
            "bs",
            "blocksize",
            "size",
            "filesize",
            "rate",
            "numjobs",
            "runtime",
            "ramp_time",
            "thinktime",
            "thinktime_blocks",
            "unlink",
            "fsync",
            "fdatasync",
        ];
        let known = |option: &str| READ.contains(&option) || WITHOUT_EFFECT.contains(&option);
        let unknown: Vec<&String> = self
            .job
            .fio
            .keys()
            .filter(|option| !known(option))
            .collect();
        for option in unknown {
            self.refusals.push((
                option.clone(),
                format!("the twin does not model fio's `{option}`"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(options: &[(&str, &str)]) -> Job {
        Job {
            memory: None,
            sync: None,
            network: None,
            name: "a".into(),
            cgroup: None,
            disk: "d".into(),
            fio: options
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
        }
    }

    #[test]
    fn fios_units() {
        let work = parse_job(&job(&[
            ("rw", "write"),
            ("bs", "16k"),
            ("size", "32M"),
            ("rate", "500k"),
            ("thinktime", "12s"),
            ("thinktime_blocks", "960"),
            ("runtime", "40"),
        ]))
        .expect("a job");
        assert_eq!((work.op_pages, work.ops), (4, 2048));
        assert_eq!(work.rate, Some(512_000));
        assert_eq!(work.think, Some((12 * SECOND, 960)));
        assert_eq!(work.runtime, Some(40 * SECOND));
    }

    #[test]
    fn readers_and_who_syncs() {
        let of = |options: &[(&str, &str)]| {
            let options = [&[("size", "1M")], options].concat();
            parse_job(&job(&options))
        };
        let reader = of(&[("rw", "randread"), ("fsync", "1")]).expect("a job");
        assert!(reader.reads && reader.random && reader.sync.is_none());
        let synced = |option| of(&[("rw", "write"), (option, "8")]).expect("a job").sync;
        let of_both = |commits| Some(Sync { every: 8, commits });
        assert_eq!(synced("fsync"), of_both(true));
        assert_eq!(synced("fdatasync"), of_both(false));
        assert_eq!(
            of(&[("rw", "write"), ("fsync", "0")]).expect("a job").sync,
            None
        );
        let kept = of(&[("rw", "read"), ("invalidate", "0")]).expect_err("refused");
        assert_eq!(kept[0].0, "invalidate");
    }

    #[test]
    fn who_holds_memory() {
        let of = |options: &[(&str, &str)]| {
            let options = [
                &[("ioengine", "null"), ("size", "1M"), ("bs", "1M")],
                options,
            ]
            .concat();
            parse_job(&job(&options))
        };
        let held = of(&[("rw", "write"), ("iodepth", "3")])
            .expect("a job")
            .holds;
        assert_eq!(held, 3 * 256);
        let refused = |options| of(options).expect_err("refused")[0].0.clone();
        assert_eq!(refused(&[("rw", "randread")]), "rw");
        assert_eq!(refused(&[("rw", "write"), ("fsync", "1")]), "fsync");
    }

    #[test]
    fn what_is_not_modelled_is_named() {
        let refusals = parse_job(&job(&[
            ("rw", "randrw"),
            ("size", "1M"),
            ("sync", "1"),
            ("direct", "1"),
        ]))
        .expect_err("refused");
        let options: Vec<&str> = refusals.iter().map(|(option, _)| option.as_str()).collect();
        assert_eq!(options, ["rw", "direct", "sync"]);
    }
}

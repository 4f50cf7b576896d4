// SPDX-License-Identifier: GPL-2.0-only
//! `weir-memory`: what the process of a memory job does from its start to its end.

use super::allocator::{Allocator, Orders};
use super::reader::{Known, MemoryReader};
use super::region::Region;
use super::{PROGRAM, Report};
use crate::system::to_nanoseconds;
use anyhow::{Context, Result, anyhow, bail};
use scenario::model::{Backing, JobMemory};
use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// `weir-memory JSON [FILE]`
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{PROGRAM}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments
        .next()
        .context("say what memory, as in '{\"size_bytes\": 104857600}'")?;
    let memory: JobMemory = serde_json::from_str(&text).with_context(|| format!("`{text}`"))?;
    if memory.threads == 0 || memory.writes_pct > 100 || memory.rate == Some(0) {
        bail!(
            "`{text}`: expected at least one thread and one access, and at most as many writes as accesses"
        );
    }
    if memory.pattern.is_allocating() {
        return run_allocator(&memory);
    }
    let region = Region::map_memory(&memory, arguments.next().map(PathBuf::from).as_deref())?;
    region.fill_pages(memory.backing)?;
    if memory.backing == Backing::Shared {
        // SAFETY: threads are only started below.
        unsafe { region.fork_sharer()? };
    }
    println!("ready");
    let (ops, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut report, known) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..memory.threads as usize)
            .map(|index| MemoryReader {
                region: &region,
                memory: &memory,
                index,
                ops: &ops,
                stop: &stop,
            })
            .map(|reader| scope.spawn(move || reader.run()))
            .collect();
        let measured = measure_accesses(&ops, || {});
        stop.store(true, Ordering::Relaxed);
        let known: Vec<Option<Known>> = threads
            .into_iter()
            .map(|thread| thread.join().ok())
            .collect();
        (measured, known)
    });
    let known: Vec<Known> = known
        .into_iter()
        .collect::<Option<_>>()
        .ok_or_else(|| anyhow!("a thread panicked"))?;
    (report.hot, report.hot_nowhere) = region.locate_pages(&region.hot)?;
    (report.cold, _) = region.locate_pages(&region.cold)?;
    report.huge_bytes = huge_page_bytes()?;
    report.corrupt_pages = count_corrupt_pages(&region, &memory, &known);
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn run_allocator(memory: &JobMemory) -> Result<()> {
    let orders = Orders::default();
    let (mut report, done) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let allocator = Allocator::new(memory, &orders)?;
            println!("ready");
            allocator.run()
        });
        let measured = measure_accesses(&AtomicU64::new(0), || {
            orders.marks.fetch_add(1, Ordering::Relaxed);
        });
        orders.stop.store(true, Ordering::Relaxed);
        let done = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        anyhow::Ok((measured, done))
    })?;
    report.ops = done.touched;
    report.corrupt_pages = done.corrupt;
    report.allocations = Some(done.allocations);
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Waits for the end of standard input; counts from the last `mark` in it, or from now. `marked`
/// is called at each.
fn measure_accesses(ops: &AtomicU64, mut marked: impl FnMut()) -> Report {
    let mut from = (Instant::now(), ops.load(Ordering::Relaxed));
    // What cannot be read any more has ended.
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line == "mark" {
            from = (Instant::now(), ops.load(Ordering::Relaxed));
            marked();
        }
    }
    Report {
        ops: ops.load(Ordering::Relaxed) - from.1,
        elapsed_ns: to_nanoseconds(from.0.elapsed()),
        ..Report::default()
    }
}

/// Number of pages that do not hold what they should, or did not when a thread read them.
fn count_corrupt_pages(region: &Region, memory: &JobMemory, known: &[Known]) -> u64 {
    let threads = memory.threads as usize;
    let mut wrong: BTreeSet<usize> = known.iter().flat_map(|one| one.wrong.clone()).collect();
    for page in 0..region.pages {
        let writes = known[page % threads].writes.get(page / threads);
        if !region.is_intact(page, writes.copied().unwrap_or(0)) {
            wrong.insert(page);
        }
    }
    wrong.len() as u64
}

/// Bytes of this process in huge pages.
fn huge_page_bytes() -> Result<u64> {
    let file = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(file).context(file)?;
    let mut total = 0;
    for key in ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"] {
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        let kib = value.and_then(|value| value.trim().strip_suffix("kB")?.trim().parse().ok());
        total += kib.unwrap_or(0u64) << 10;
    }
    Ok(total)
}

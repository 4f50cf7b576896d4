// SPDX-License-Identifier: GPL-2.0-only
//! `weir kernels`: which kernels there are for `--kernel`, and what the oracle says of those that
//! are new in the archive.

mod record;

use anyhow::{Context, Result};
use lab::Cache;
use lab::catalogue::{InArchive, read_catalogue};
use lab::debian::{Listed, Lists, list_kernels};
use record::{KernelVerdict, Opinion, VerdictRecord};
use std::path::PathBuf;
use std::process::ExitCode;
use weir::host::oracle;
use weir::output;

/// List the kernels that --kernel takes, and which are cached
///
/// Lists the newest kernel of each series, flavour and architecture. Kernels of newer releases and
/// of another architecture are listed once one of them was asked for, or with --all. Without a
/// network, weir uses the lists that it fetched before.
///
/// Exit status: 0 listed; with --new 0 every kernel would load the module, as far as its file tells,
/// 1 one would not, 2 one could not be judged.
#[derive(clap::Args, Debug)]
pub struct KernelsArgs {
    /// Ask all releases, for both architectures; fetches up to 100 MB of package lists
    #[arg(long, conflicts_with_all = ["cached", "new"])]
    all: bool,
    /// List only what is in the cache; fetches nothing
    #[arg(long, conflicts_with = "new")]
    cached: bool,
    /// Ask `weir doctor --btf` about each kernel of the archive that the record does not have, and
    /// add its verdict; after an interruption, the next call goes on where this one stopped
    #[arg(long)]
    new: bool,
    /// With --new: ask only about the newest of each series, flavour, architecture and release of
    /// the distribution
    #[arg(long, requires = "new")]
    newest: bool,
    /// The record of verdicts; docs/kernels.tsv of weir's source tree if not given
    #[arg(long, value_name = "FILE", requires = "new")]
    record: Option<PathBuf>,
    /// One JSON array instead of text
    #[arg(long)]
    json: bool,
}

/// The record's path in the source tree.
const RECORD: &str = "docs/kernels.tsv";

/// Runs the subcommand.
pub fn run(args: &KernelsArgs) -> Result<ExitCode> {
    let cache = Cache::discover()?;
    if args.new {
        return add_new_verdicts(args, &cache);
    }
    let lists = match (args.all, args.cached) {
        (true, _) => Lists::All,
        (_, true) => Lists::Cached,
        _ => Lists::Known,
    };
    let lock = cache.lock()?;
    let mut kernels = list_kernels(&cache, lists)?;
    drop(lock);
    kernels.retain(|one| one.cached || !args.cached);
    if args.json {
        output::print_json(&serde_json::to_value(&kernels)?)?;
    } else {
        output::print(kernel_table(&kernels))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each.
fn kernel_table(kernels: &[Listed]) -> String {
    let or_gone = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let head = ["--kernel", "release", "version", "suite", "cached"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(kernels.iter().map(|one| {
        let cached = if one.cached { "yes" } else { "-" };
        let (version, suite) = (or_gone(&one.version), or_gone(&one.suite));
        [&one.name, &one.release, &version, &suite, cached].map(str::to_owned)
    }));
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].len());
        widths.max().unwrap_or_default()
    };
    let widths = [0, 1, 2, 3].map(width);
    let line = |row: &[String; 5]| {
        let cells = widths.iter().zip(row);
        let cells: String = cells
            .map(|(width, cell)| format!("{cell:<width$}  "))
            .collect();
        format!("{cells}{}\n", row[4])
    };
    rows.iter().map(line).collect()
}

/// Asks the oracle about what the record does not have, newest first. Each verdict is on the disk
/// before the next kernel is fetched.
fn add_new_verdicts(args: &KernelsArgs, cache: &Cache) -> Result<ExitCode> {
    let path = match &args.record {
        Some(path) => path.clone(),
        None => lab::cache::source_tree()
            .context(
                "no record of verdicts: run from inside weir's source tree, or give --record FILE",
            )?
            .join(RECORD),
    };
    let lock = cache.lock()?;
    let all = read_catalogue(cache)?;
    drop(lock);
    let mut record = VerdictRecord::open(&path)?;
    let wanted = match args.newest {
        true => InArchive::newest_of_each(&all),
        false => all,
    };
    let missing: Vec<&InArchive> = wanted
        .iter()
        .filter(|one| !record.has_verdict(one))
        .collect();
    output::print_note(format_args!(
        "weir: {} kernels in the archive, {} of them not in {}",
        wanted.len(),
        missing.len(),
        path.display()
    ));
    let (mut asked, mut failed) = (Vec::new(), false);
    for (number, one) in missing.iter().enumerate() {
        let verdict = match judge_archived_kernel(cache, one) {
            Ok(verdict) => verdict,
            Err(why) => {
                output::print_note(format_args!("weir: {}: {why:#}", one.release));
                failed = true;
                continue;
            }
        };
        if !args.json {
            output::print_line(format_args!(
                "{}/{}  {}",
                number + 1,
                missing.len(),
                verdict.to_text()
            ))?;
        }
        record.add(verdict.clone())?;
        asked.push(verdict);
    }
    if args.json {
        output::print_json(&asked)?;
    }
    Ok(ExitCode::from(match failed {
        true => 2,
        false => u8::from(asked.iter().any(KernelVerdict::is_refused)),
    }))
}

/// Fetches a kernel and asks the oracle.
fn judge_archived_kernel(cache: &Cache, one: &InArchive) -> Result<KernelVerdict> {
    let opinion = Opinion::from_checks(&oracle::judge_kernel(&one.read(cache)?));
    Ok(KernelVerdict::new(one, opinion))
}

/// The default record, for messages and tests.
#[cfg(test)]
fn default_record() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(RECORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(cached: bool, suite: Option<&str>) -> Listed {
        Listed {
            name: "debian:6.12".into(),
            series: "6.12".into(),
            flavour: "cloud",
            architecture: "amd64",
            release: "6.12.9-cloud-amd64".into(),
            version: suite.map(|_| "6.12.9-1".into()),
            suite: suite.map(str::to_owned),
            cached,
        }
    }

    #[test]
    fn what_is_cached_and_what_is_gone_is_marked() {
        let text = kernel_table(&[one(true, None), one(false, Some("bookworm-security"))]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().skip(2).collect())
            .collect();
        assert_eq!(rows[0], ["version", "suite", "cached"]);
        assert_eq!(rows[1], ["-", "-", "yes"]);
        assert_eq!(rows[2], ["6.12.9-1", "bookworm-security", "-"]);
    }

    #[test]
    fn the_shipped_record_can_be_read() {
        let record = VerdictRecord::open(&default_record()).expect("the record");
        assert!(record.sorted_rows().count() > 0);
    }
}

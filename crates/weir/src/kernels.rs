// SPDX-License-Identifier: GPL-2.0-only
//! `weir kernels`: which kernels there are for `--kernel`.

use crate::output;
use anyhow::Result;
use lab::Cache;
use lab::debian::{Listed, list};
use std::process::ExitCode;

/// List the kernels that --kernel takes, and which are cached
///
/// Of each series, flavour and architecture it is the newest. Kernels of newer releases are listed
/// once one of them was asked for, or with --all; those of another architecture once one was asked
/// for.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Ask all releases of the distribution; fetches up to 50 MB of package lists
    #[arg(long)]
    all: bool,
    /// One JSON array instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let cache = Cache::discover()?;
    let lock = cache.lock()?;
    let kernels = list(&cache, args.all)?;
    drop(lock);
    if args.json {
        output::json(&serde_json::to_value(&kernels)?)?;
    } else {
        output::print(text(&kernels))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each.
fn text(kernels: &[Listed]) -> String {
    let mut lines = vec![format!(
        "{:<26} {:<32} {:<10} {}",
        "--kernel", "release", "from", "cached"
    )];
    lines.extend(kernels.iter().map(|one| {
        let cached = if one.cached { "yes" } else { "-" };
        format!(
            "{:<26} {:<32} {:<10} {cached}",
            one.name, one.release, one.from
        )
    }));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cached_is_marked() {
        let one = |cached| Listed {
            name: "debian:6.12".into(),
            release: "6.12.9-cloud-amd64".into(),
            from: "bookworm",
            cached,
        };
        let text = text(&[one(true), one(false)]);
        let last: Vec<_> = text
            .lines()
            .map(|line| line.split_whitespace().last())
            .collect();
        assert_eq!(last, [Some("cached"), Some("yes"), Some("-")]);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The scenario language: one TOML file says which host, which cgroups, which fio jobs, in which
//! phases, and what must come out. This crate turns the file into [`model::Scenario`] and refuses
//! whatever it does not know.
//!
//! The rule is that a scenario either means exactly what it says or is not run at all. So nothing
//! has a silent fallback: an unknown key, a size without its unit, a cgroup that was never defined,
//! an expectation about a metric that no run can produce are errors, each with file, line, key and
//! what would be right, and all of a file's errors are reported at once:
//!
//! ```text
//! noisy.toml:4: key `host.memori`: unknown key, did you mean `memory`? known: cpus, lru_gen, memory, sysctl, weir
//! noisy.toml:9: key `disk[0].write_bandwidth`: `256K` is not a bandwidth: expected an amount per second, as in `256K/s` or `20M/s`
//! ```
//!
//! How it is built: [`config`] reads TOML and collects problems;
//! [`mod@parse`] is the language, one function per section; [`expect`] the little expression language
//! of expectations; [`measured`] what a run measures and [`metric`] the figures that come of it;
//! [`rundir`] what a run leaves in a directory; [`fio`] the option names fio knows;
//! [`io_max`] a cgroup file that names disks; [`executor`] what runs a scenario, [`place`] which
//! keys are honoured where, and [`effect`] which do nothing.

pub mod effect;
pub mod executor;
pub mod expect;
pub mod fio;
pub mod io_max;
pub mod measured;
pub mod metric;
pub mod model;
mod parse;
pub mod place;
pub mod rundir;

use config::problem::Problems;
use std::path::Path;

/// Reads and checks the scenario file at `path`; its stem becomes the scenario's name.
///
/// # Errors
/// Everything that is wrong with the file, each problem with its line; or why it could not be read.
pub fn load(path: &Path) -> Result<model::Scenario, Problems> {
    let shown = path.display().to_string();
    let text = config::read_text(path, "scenario")?;
    let name = path
        .file_stem()
        .map_or_else(|| "scenario".into(), |s| s.to_string_lossy().into_owned());
    parse(&name, &shown, &text)
}

/// Checks the scenario `text`. `name` is what the scenario is called in results, `file` how
/// problems name the file.
///
/// # Errors
/// Everything that is wrong with the text, in line order.
pub fn parse(name: &str, file: &str, text: &str) -> Result<model::Scenario, Problems> {
    parse::parse_scenario(name, file, text)
}

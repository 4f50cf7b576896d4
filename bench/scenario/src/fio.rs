// SPDX-License-Identifier: GPL-2.0-only
//! Options of fio that a job may use: those fio has, less those the lab sets itself. A misspelt
//! option would otherwise be found only when a guest has booted.

use config::problem::nearest_known;

/// fio's own list, with how it was made.
const OPTIONS: &str = include_str!("../data/fio-3.33-options.txt");

/// Options that would take the result, the place of the files or the order of events away from the
/// lab, with what to use instead.
const RESERVED: &[(&str, &str)] = &[
    ("name", "the job's own `name` is used"),
    ("directory", "files live on the job's `disk`"),
    ("description", "the job's own `name` is used"),
    ("stonewall", "use phases"),
    ("wait_for", "use phases"),
    ("wait_for_previous", "use phases"),
    ("startdelay", "use the phase's `delay`"),
    (
        "time_based",
        "jobs always run for the phase's `duration`, or for their own `runtime`",
    ),
    ("create_only", "files are laid out before the first phase"),
    ("cgroup", "use the job's `cgroup`"),
    ("cgroup_weight", "use a `[cgroup.NAME]` table"),
    ("cgroup_nodelete", "use a `[cgroup.NAME]` table"),
    ("exec_prerun", "a scenario runs fio only"),
    ("exec_postrun", "a scenario runs fio only"),
    ("ioscheduler", "the disk's own scheduler is measured"),
    ("stats", "results come from fio's statistics"),
    ("disable_clat", "results come from fio's statistics"),
    ("gtod_reduce", "results come from fio's statistics"),
    ("clat_percentiles", "results come from fio's statistics"),
    ("percentile_list", "results come from fio's statistics"),
    ("write_bw_log", "use `weir run --out` for samples"),
    ("write_iops_log", "use `weir run --out` for samples"),
    ("write_lat_log", "use `weir run --out` for samples"),
    ("write_hist_log", "use `weir run --out` for samples"),
    ("write_iolog", "use `weir run --out` for samples"),
];

/// Every option name and alias that fio has.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.lines().filter(|line| !line.starts_with('#'))
}

/// Checks that a job may set `option`.
///
/// # Errors
/// What is wrong with it: unknown to fio (with the nearest name fio has), or set by the lab.
pub fn check_option(option: &str) -> Result<(), String> {
    if let Some((_, instead)) = RESERVED.iter().find(|(name, _)| *name == option) {
        return Err(format!("weir sets fio's `{option}` itself: {instead}"));
    }
    if option_names().any(|name| name == option) {
        return Ok(());
    }
    let guess = nearest_known(option, option_names())
        .map(|o| format!(", did you mean `{o}`?"))
        .unwrap_or_else(|| "; `fio --cmdhelp=all` lists them".into());
    Err(format!("fio has no option `{option}`{guess}"))
}

/// Directions fio's `rw` knows.
const DIRECTIONS: &[&str] = &[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];

/// Checks that fio would take `value` for `option`, for the options where a slip is likely; fio
/// judges the others.
///
/// # Errors
/// What is wrong with the value and what one looks like.
pub fn check_value(option: &str, value: &str) -> Result<(), String> {
    match option {
        "rw" | "readwrite" => {
            let direction = value.split(':').next().unwrap_or(value);
            if DIRECTIONS.contains(&direction) {
                return Ok(());
            }
            Err(format!(
                "fio has no `{option}` = `{direction}`, {}",
                config::problem::suggest_known(direction, DIRECTIONS.iter().copied())
            ))
        }
        "size" | "filesize" | "io_size" | "bs" | "blocksize" | "rate" => {
            let fits = value
                .split([',', '-'])
                .all(|part| part.is_empty() || is_amount(part, option.ends_with("size")));
            if fits && value.starts_with(|c: char| c.is_ascii_digit()) {
                return Ok(());
            }
            Err(format!(
                "`{value}` is not a size for fio's `{option}`: a whole number with k, m, g or t (powers of 1024), as in `4k`"
            ))
        }
        _ => Ok(()),
    }
}

/// fio's sizes: `4k`, `4KiB`, and percentages where a file's size is meant.
fn is_amount(text: &str, percent: bool) -> bool {
    let unit = text
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .to_ascii_lowercase();
    let known = [
        "", "b", "k", "m", "g", "t", "p", "kb", "mb", "gb", "tb", "pb", "kib", "mib", "gib", "tib",
        "pib",
    ];
    text.starts_with(|c: char| c.is_ascii_digit())
        && (known.contains(&unit.as_str()) || (percent && unit == "%"))
}

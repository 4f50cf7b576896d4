// SPDX-License-Identifier: GPL-2.0-only
//! The section `[stock]` of a policy file: rules are kept by files of a stock kernel, for hosts that
//! allow no module. Without it rules are weir's own files.
//!
//! ```toml
//! [stock]
//! mode = "on"                        # or auto: while no module is loaded; observe: says what it would
//!                                    # set; off
//! limit = ["/batch.slice/*"]         # who leaves room for floors
//! sysctl = { "vm.dirty_bytes" = "192M", "vm.dirty_background_bytes" = "16M" }
//! drain_seconds = "auto"             # or 30: writers run free for what disks write in that time
//! bdi = { "8:16" = { max_bytes = "64M", min_bytes = "8M" } }
//! ```

use crate::globs::{self, matches_path};
use crate::limits::Mode;
use crate::stock_file::StockSetting;
use config::reader::{Table, Value};
use config::units;
use glob::Pattern;
use policy::drain::SECONDS_MAX;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Keys of the section.
pub const KEYS: &[&str] = &["mode", "limit", "sysctl", "drain_seconds", "bdi"];

const MODES: &str = "`on`, `auto`, `observe` or `off`";
const SYSCTLS: [&str; 4] = [
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
];
const TIMES: [&str; 2] = ["vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs"];
const STRICT: &str = "strict_limit";
const BDI: [&str; 5] = ["max_ratio", "min_ratio", "max_bytes", "min_bytes", STRICT];

/// Seconds of drain that writers run free for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainSeconds {
    /// Seconds as many as help, none where none do.
    Auto,
    /// The number that the policy file gives.
    Given(u64),
}

/// The section, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StockSettings {
    /// Mode in which settings are kept.
    pub mode: Mode,
    /// `true` if the mode follows the module: on while it is not loaded, off while it is.
    pub is_automatic: bool,
    /// Cgroups that leave room for floors.
    limit: Vec<Pattern>,
    /// Time that writers run free, beyond the host's own limit.
    pub drain: Option<DrainSeconds>,
    /// Files of the host.
    pub host: BTreeMap<StockSetting, String>,
    /// Parts of the host's limit that devices may or are to have, in bytes, by the file that takes
    /// percent of it.
    pub parts: BTreeMap<StockSetting, u64>,
}

impl StockSettings {
    /// Reads the section; what is wrong is noted with the table.
    pub fn read(table: &Table) -> StockSettings {
        let mode = table
            .optional("mode")
            .and_then(|value| value.parse_with(MODES, parse_mode));
        let (mode, is_automatic) = mode.unwrap_or((Mode::On, false));
        let limit = table.optional("limit");
        let sysctl = table.optional("sysctl").map(|value| read_sysctls(&value));
        let drain = table
            .optional("drain_seconds")
            .and_then(|value| read_seconds(&value));
        let bdi = table.optional("bdi").map(|value| read_bdi(&value));
        let (bdi, parts) = bdi.unwrap_or_default();
        StockSettings {
            mode,
            is_automatic,
            limit: limit.map_or_else(Vec::new, |value| globs::read_patterns(&value)),
            drain,
            host: sysctl.into_iter().flatten().chain(bdi).collect(),
            parts,
        }
    }

    /// Returns whether rules are kept without the module.
    pub fn is_stock(&self) -> bool {
        self.mode != Mode::Off
    }

    /// Has an automatic mode follow the module: files of the stock kernel are for a host without it.
    pub fn follow_module(&mut self, is_loaded: bool) {
        if self.is_automatic {
            self.mode = if is_loaded { Mode::Off } else { Mode::On };
        }
    }

    /// Returns whether the cgroup at `path` leaves room for floors.
    pub fn may_limit(&self, path: &str) -> bool {
        self.limit.iter().any(|glob| matches_path(glob, path))
    }
}

fn parse_mode(text: &str) -> Result<(Mode, bool), String> {
    match text {
        "auto" => Ok((Mode::On, true)),
        _ => Mode::parse(text)
            .map(|mode| (mode, false))
            .map_err(|_| format!("expected {MODES}")),
    }
}

/// Returns whether the host below `root` has the module loaded, and not switched off by `weir.off`.
pub fn is_module_loaded(root: &Path) -> bool {
    let state = fs::read_to_string(root.join("sys/kernel/weir/state"));
    state.is_ok_and(|state| state.trim() != "off")
}

fn read_seconds(value: &Value) -> Option<DrainSeconds> {
    let text = value.as_scalar()?;
    let seconds = match text.as_str() {
        "auto" => Some(DrainSeconds::Auto),
        text => text.parse().ok().map(DrainSeconds::Given),
    };
    let is_known =
        |of: &DrainSeconds| !matches!(of, DrainSeconds::Given(n) if !(1..=SECONDS_MAX).contains(n));
    let seconds = seconds.filter(is_known);
    if seconds.is_none() {
        value.complain(format!(
            "expected `\"auto\"`, or whole seconds of 1 to {SECONDS_MAX}"
        ));
    }
    seconds
}

fn read_sysctls(value: &Value) -> Vec<(StockSetting, String)> {
    let entries = value.as_entries("a table, as in `{ \"vm.dirty_bytes\" = \"192M\" }`");
    let entries = entries.unwrap_or_default().into_iter();
    let settings = entries.filter_map(|(name, value)| {
        let path = name.replace('.', "/");
        if TIMES.contains(&name) {
            let number = value.as_unsigned("a number of centiseconds")?;
            return Some((
                StockSetting::File(format!("proc/sys/{path}")),
                number.to_string(),
            ));
        }
        if !SYSCTLS.contains(&name) {
            let known = [&SYSCTLS[..], &TIMES].concat().join(", ");
            value.complain(format!("not a sysctl that the agent sets: it sets {known}"));
            return None;
        }
        let (level, kind) = path.rsplit_once('_')?;
        let number = match kind {
            "bytes" => value.parse_with("a size, as in `\"192M\"`", units::parse_size)?,
            _ => value.as_unsigned("a number of percent").filter(|n| {
                let is_percent = (1..=100).contains(n);
                if !is_percent {
                    value.complain("expected 1 to 100");
                }
                is_percent
            })?,
        };
        Some((
            StockSetting::Level(level.into()),
            format!("{kind} {number}"),
        ))
    });
    settings.collect()
}

/// Files of devices that hold a number, and those that hold a part of the host's limit in percent, for
/// which the section has bytes.
type DeviceSettings = (BTreeMap<StockSetting, String>, BTreeMap<StockSetting, u64>);

fn read_bdi(value: &Value) -> DeviceSettings {
    let (mut numbers, mut parts) = DeviceSettings::default();
    let devices = value.as_entries("a table, as in `{ \"8:16\" = { max_bytes = \"64M\" } }`");
    for (device, value) in devices.unwrap_or_default() {
        let halves = device.split_once(':');
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !halves.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) {
            value.complain("not a device's numbers, as in `8:16`: see /sys/class/bdi");
            continue;
        }
        let Some(table) = value.as_table(&BDI) else {
            continue;
        };
        let file = |name: &str| format!("sys/class/bdi/{device}/{name}");
        for bound in ["max", "min"] {
            let ratio = StockSetting::Percent(file(&format!("{bound}_ratio")));
            let percent = table.optional(&format!("{bound}_ratio"));
            let bytes = table.optional(&format!("{bound}_bytes"));
            if let (Some(_), Some(bytes)) = (&percent, &bytes) {
                bytes.complain(format!("is {bound}_ratio in bytes: give one of them"));
            }
            let percent = percent.and_then(|value| value.as_unsigned("a number of percent"));
            let bytes = bytes
                .and_then(|value| value.parse_with("a size, as in `\"64M\"`", units::parse_size));
            if bytes.is_some() && bound == "max" {
                // Without it the kernel holds a device to its part once the host is at its own limit.
                numbers.insert(StockSetting::File(file(STRICT)), "1".into());
            }
            numbers.extend(percent.map(|percent| (ratio.clone(), percent.to_string())));
            parts.extend(bytes.map(|bytes| (ratio, bytes)));
        }
        let strict = table.optional(STRICT);
        let strict = strict.and_then(|value| value.as_unsigned("0 or 1"));
        numbers.extend(strict.map(|of| (StockSetting::File(file(STRICT)), of.to_string())));
    }
    (numbers, parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn read(text: &str) -> Result<StockSettings, String> {
        let rules = Rules::parse("agent.toml", text);
        rules
            .map(|rules| rules.stock)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn it_is_off_until_the_section_is_there() {
        assert!(!read("").expect("valid").is_stock());
        assert!(read("[stock]\n").expect("valid").is_stock());
        assert!(!read("[stock]\nmode = \"off\"\n").expect("valid").is_stock());
    }

    #[test]
    fn an_automatic_mode_follows_the_module() {
        let mut auto = read("[stock]\nmode = \"auto\"\n").expect("valid");
        assert!(auto.is_stock(), "until the module was looked for");
        auto.follow_module(true);
        assert!(!auto.is_stock());
        auto.follow_module(false);
        assert!(auto.is_stock());
        let mut on = read("[stock]\n").expect("valid");
        on.follow_module(true);
        assert!(on.is_stock(), "a mode that was chosen stays");
    }

    #[test]
    fn a_module_that_is_switched_off_counts_as_none() {
        let root = tempfile::tempdir().expect("made");
        assert!(!is_module_loaded(root.path()));
        let directory = root.path().join("sys/kernel/weir");
        fs::create_dir_all(&directory).expect("made");
        for (state, is_loaded) in [("idle\n", true), ("active\n", true), ("off\n", false)] {
            fs::write(directory.join("state"), state).expect("written");
            assert_eq!(is_module_loaded(root.path()), is_loaded, "{state}");
        }
    }

    #[test]
    fn the_hosts_files_are_read() {
        let text = "[stock]\nlimit = \"/batch/*\"\n\
                    sysctl = { \"vm.dirty_bytes\" = \"1M\", \"vm.dirty_background_ratio\" = 5, \
                    \"vm.dirty_expire_centisecs\" = 500 }\n\
                    bdi = { \"8:16\" = { max_ratio = 10, strict_limit = 1 } }\n";
        let settings = read(text).expect("valid");
        assert!(settings.may_limit("/batch/a") && !settings.may_limit("/db"));
        let level = |name: &str| StockSetting::Level(format!("vm/{name}"));
        let file = |name: &str| StockSetting::File(name.into());
        let expected = [
            (level("dirty"), "bytes 1048576"),
            (level("dirty_background"), "ratio 5"),
            (file("proc/sys/vm/dirty_expire_centisecs"), "500"),
            (
                StockSetting::Percent("sys/class/bdi/8:16/max_ratio".into()),
                "10",
            ),
            (file("sys/class/bdi/8:16/strict_limit"), "1"),
        ];
        let expected = expected.map(|(setting, value)| (setting, value.to_owned()));
        assert_eq!(settings.host, BTreeMap::from(expected));
    }

    #[test]
    fn a_devices_bytes_are_parts_of_the_hosts_limit_which_hold() {
        let text = "[stock]\nbdi = { \"8:16\" = { max_bytes = \"64M\", min_bytes = \"8M\" }, \
                    \"8:32\" = { max_bytes = \"1M\", strict_limit = 0 } }\n";
        let settings = read(text).expect("valid");
        let percent = |name: &str| StockSetting::Percent(format!("sys/class/bdi/{name}"));
        let expected = [
            (percent("8:16/max_ratio"), 64 << 20),
            (percent("8:16/min_ratio"), 8 << 20),
            (percent("8:32/max_ratio"), 1 << 20),
        ];
        assert_eq!(settings.parts, BTreeMap::from(expected));
        let strict = |device, value: &str| {
            let file = format!("sys/class/bdi/{device}/strict_limit");
            (StockSetting::File(file), value.to_owned())
        };
        let expected = [strict("8:16", "1"), strict("8:32", "0")];
        assert_eq!(settings.host, BTreeMap::from(expected));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            (
                "mode = \"maybe\"",
                "expected `on`, `auto`, `observe` or `off`",
            ),
            (
                "sysctl = { \"vm.swappiness\" = 1 }",
                "it sets vm.dirty_bytes",
            ),
            ("sysctl = { \"vm.dirty_ratio\" = 101 }", "expected 1 to 100"),
            ("bdi = { \"sda\" = { max_ratio = 1 } }", "as in `8:16`"),
            ("bdi = { \"8:0\" = { max = 1 } }", "max"),
            (
                "bdi = { \"8:0\" = { max_ratio = 1, max_bytes = \"1M\" } }",
                "is max_ratio in bytes: give one of them",
            ),
            ("bdi = { \"8:0\" = { min_bytes = 1.5 } }", "as in `\"64M\"`"),
            ("drain_seconds = 0", "expected `\"auto\"`, or whole seconds"),
            ("drain_seconds = \"30s\"", "whole seconds of 1 to 3600"),
            ("limits = [\"/a\"]", "did you mean `limit`"),
        ] {
            let why = read(&format!("[stock]\n{line}\n")).expect_err(line);
            assert!(why.contains(words), "{why}");
        }
    }
}

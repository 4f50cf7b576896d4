// SPDX-License-Identifier: GPL-2.0-only
//! `io.max` of a cgroup in a scenario: as the kernel has it, but with a disk's name where the
//! kernel wants a device's number, which is not known before a guest has booted; several disks are
//! separated by `;`.
//!
//! Example. `"slow wbps=1M riops=100; fast wbps=20M"`.

use config::units;

/// Limits of a cgroup on one disk, per second; `None` is `max`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoMax {
    /// Name of the disk.
    pub disk: String,
    /// Bytes read per second.
    pub rbps: Option<u64>,
    /// Bytes written per second.
    pub wbps: Option<u64>,
    /// Read requests per second.
    pub riops: Option<u64>,
    /// Write requests per second.
    pub wiops: Option<u64>,
}

impl IoMax {
    /// As written into the kernel's file for the device with this number.
    pub fn kernel_line(&self, number: &str) -> String {
        let value = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
        format!(
            "{number} rbps={} wbps={} riops={} wiops={}",
            value(self.rbps),
            value(self.wbps),
            value(self.riops),
            value(self.wiops)
        )
    }
}

/// Reads the value of `io.max`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_io_max(text: &str) -> Result<Vec<IoMax>, String> {
    text.split(';').map(parse_disk_limits).collect()
}

fn parse_disk_limits(text: &str) -> Result<IoMax, String> {
    let wrong = |why: String| {
        format!(
            "`{text}` is no limit: {why}; write a disk's name and limits, as in `slow wbps=1M riops=100`"
        )
    };
    let mut words = text.split_whitespace();
    let mut limits = IoMax {
        disk: words
            .next()
            .ok_or_else(|| wrong("it is empty".into()))?
            .into(),
        ..IoMax::default()
    };
    let mut any = false;
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| wrong(format!("`{word}` has no `=`")))?;
        let slot = match key {
            "rbps" => &mut limits.rbps,
            "wbps" => &mut limits.wbps,
            "riops" => &mut limits.riops,
            "wiops" => &mut limits.wiops,
            _ => {
                return Err(wrong(format!(
                    "`{key}` is none of rbps, wbps, riops, wiops"
                )));
            }
        };
        any = true;
        *slot = match value {
            "max" => None,
            _ => match units::parse_size(value).map_err(wrong)? {
                0 => return Err(wrong(format!("`{word}`: expected more than 0, or `max`"))),
                limit => Some(limit),
            },
        };
    }
    if any {
        Ok(limits)
    } else {
        Err(wrong("it limits nothing".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_by_name_as_the_kernel_has_them_by_number() {
        let limits = parse_io_max("slow wbps=1M riops=100; fast wbps=max rbps=20M").expect("two");
        assert_eq!(
            limits[0].kernel_line("254:0"),
            "254:0 rbps=max wbps=1048576 riops=100 wiops=max"
        );
        assert_eq!(
            (limits[1].disk.as_str(), limits[1].rbps, limits[1].wbps),
            ("fast", Some(20 << 20), None)
        );
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for (text, why) in [
            ("", "it is empty"),
            ("slow", "it limits nothing"),
            ("slow wbps", "`wbps` has no `=`"),
            ("slow wbps=0", "expected more than 0"),
            ("slow bps=1M", "none of rbps"),
            ("slow wbps=1Q", "is not a size"),
            ("slow wbps=1M;", "it is empty"),
        ] {
            let refusal = parse_io_max(text).expect_err(text);
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}

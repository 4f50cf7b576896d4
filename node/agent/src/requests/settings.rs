// SPDX-License-Identifier: GPL-2.0-only
//! The section `[requests]` of a policy file: whose requests are granted.
//!
//! ```toml
//! [requests]
//! systemd = "on"         # or off
//! containers = "limits"  # or all; or off
//! ```

use crate::setting::Setting;
use config::reader::Table;
use knobs::Knob;

/// Keys of the section.
pub const KEYS: &[&str] = &["systemd", "containers"];

/// Requests that containers may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containers {
    /// No request; labels are not read.
    #[default]
    Off,
    /// Requests that limit the container itself. An image brings labels, too: its maker is not to
    /// take from others by a floor, or by a weight above the default.
    Limits,
    /// Every knob, floors and any weight included.
    All,
}

/// The section, checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSettings {
    /// `true` if units of systemd get what they ask for.
    pub systemd: bool,
    /// Requests that containers are granted.
    pub containers: Containers,
}

impl RequestSettings {
    /// Settings for a policy file that has no such section.
    pub fn without_section() -> RequestSettings {
        RequestSettings {
            systemd: true,
            containers: Containers::Limits,
        }
    }

    /// Reads the section; what is wrong is noted with the table.
    pub fn read(table: &Table) -> RequestSettings {
        let systemd = table.optional("systemd").and_then(|value| {
            value.parse_with("`on` or `off`", |text| match text {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err("expected `on` or `off`".into()),
            })
        });
        let wanted = "`limits`, `all` or `off`";
        let containers = table.optional("containers").and_then(|value| {
            value.parse_with(wanted, |text| match text {
                "off" => Ok(Containers::Off),
                "limits" => Ok(Containers::Limits),
                "all" => Ok(Containers::All),
                _ => Err(format!("expected {wanted}")),
            })
        });
        let usual = RequestSettings::without_section();
        RequestSettings {
            systemd: systemd.unwrap_or(usual.systemd),
            containers: containers.unwrap_or(usual.containers),
        }
    }

    /// Allows a container this setting, or refuses it.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn check_allowed(&self, knob: Knob, setting: &Setting) -> Result<(), String> {
        let takes = matches!(knob, Knob::DirtyMin | Knob::DirtyWeight);
        if takes && setting.value > knob.default() && self.containers != Containers::All {
            return Err(format!(
                "{} = {} takes from others: allow it by `containers = \"all\"` in [requests] of the policy file",
                knob.file_name(),
                setting.text
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use crate::setting::Origin;

    fn read(text: &str) -> Result<RequestSettings, String> {
        let rules = Rules::parse("agent.toml", text);
        rules
            .map(|rules| rules.requests)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_policy_file_grants_them_and_no_policy_file_does_not() {
        assert_eq!(Rules::default().requests.containers, Containers::Off);
        assert!(!Rules::default().requests.systemd);
        assert_eq!(read(""), Ok(RequestSettings::without_section()));
        assert_eq!(read("[requests]\n"), Ok(RequestSettings::without_section()));
        let all = read("[requests]\nsystemd = \"off\"\ncontainers = \"all\"\n").expect("valid");
        assert_eq!((all.systemd, all.containers), (false, Containers::All));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("systemd = \"yes\"", "expected `on` or `off`"),
            ("containers = \"on\"", "expected `limits`, `all` or `off`"),
            ("container = \"all\"", "did you mean `containers`"),
        ] {
            let why = read(&format!("[requests]\n{line}\n")).expect_err(line);
            assert!(why.contains(words) && why.contains("agent.toml:2"), "{why}");
        }
    }

    #[test]
    fn a_container_limits_itself_and_takes_nothing() {
        let asks = |settings: RequestSettings, knob: Knob, text| {
            let setting = Setting::parse(knob, text, Origin::Line(1)).expect("valid");
            settings.check_allowed(knob, &setting).is_ok()
        };
        let all = RequestSettings {
            containers: Containers::All,
            ..RequestSettings::without_section()
        };
        for (knob, text, granted) in [
            (Knob::DirtyBytes, "64M", true),
            (Knob::DirtyRatio, "5", true),
            (Knob::DirtyBandwidth, "8M", true),
            (Knob::DirtyWeight, "100", true),
            (Knob::DirtyWeight, "101", false),
            (Knob::DirtyMin, "0", true),
            (Knob::DirtyMin, "1", false),
        ] {
            assert_eq!(
                asks(RequestSettings::without_section(), knob, text),
                granted,
                "{knob:?}"
            );
            assert!(asks(all, knob, text));
        }
    }
}

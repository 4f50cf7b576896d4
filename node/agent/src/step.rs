// SPDX-License-Identifier: GPL-2.0-only
//! What is to be done with one knob. Example, for a rule that says `memory.dirty_min` = 16M:
//!
//! ```text
//! file says   saved says       rule    what is done
//! 0           -                16M     noted as found 0, written 16M
//! 16777216    0 -> 16M         16M     nothing
//! 4194304     0 -> 16M         16M     written 16M: while there is a rule, it holds
//! 16777216    0 -> 16M         none    written 0, as it was found
//! 0           0 -> 16M         none    nothing: the module was loaded anew
//! 4194304     0 -> 16M         none    left: another program wrote it
//! 16777216    -                16M     nothing, and nothing will be put back: it was so before
//! ```
//!
//! A label counts only where the knob would be at its default without it: an image brings labels,
//! and is not to lift what an operator or a runtime has set.

use crate::saved_values::SavedValue;
use crate::setting::{Origin, Setting};
use knobs::Knob;

/// The next write towards the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The knob is as its rule says.
    Unchanged,
    /// Write this, and who says so.
    Set(String, Origin),
    /// Write this, which is what was found.
    PutBack(String),
    /// The knob is what was found: the entry has done its duty.
    Forget,
    /// Another program wrote it meanwhile, and stays.
    Leave,
}

/// Decides for a knob whose file says `says`, that a rule names or the saved values have an entry
/// for.
pub fn next_step(
    knob: Knob,
    says: &str,
    rule: Option<&Setting>,
    entry: Option<&SavedValue>,
) -> Step {
    let same = |value: u64| knob.parse(says) == Ok(value);
    let same_text = |text: &str| knob.parse(text).is_ok_and(same);
    let otherwise = match entry {
        Some(entry) if same_text(&entry.written) => &entry.found,
        _ => says,
    };
    let gives_way = |rule: &&Setting| matches!(rule.origin, Origin::Label(_));
    let rule = rule.filter(|rule| !gives_way(rule) || knob.is_default(otherwise));
    match (rule, entry) {
        (Some(rule), _) if same(rule.value) => Step::Unchanged,
        (Some(rule), _) => Step::Set(rule.text.clone(), rule.origin.clone()),
        (None, Some(entry)) if same_text(&entry.found) => Step::Forget,
        (None, Some(entry)) if same_text(&entry.written) => Step::PutBack(entry.found.clone()),
        (None, Some(_)) => Step::Leave,
        (None, None) => Step::Forget,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::SettingUnit;
    use crate::tree::CgroupDir;

    /// The example at the top.
    #[test]
    fn worked_example() {
        let rule = Setting {
            text: "16M".into(),
            value: 16 << 20,
            unit: SettingUnit::Knob,
            origin: Origin::Line(3),
        };
        let place = CgroupDir {
            directory: "/".into(),
            path: "/a".into(),
            inode: 1,
            delegated: false,
        };
        let entry = SavedValue::new(&place, Knob::DirtyMin, "0", "16M");
        let step = |says, rule, entry| next_step(Knob::DirtyMin, says, rule, entry);
        let (rule, entry) = (Some(&rule), Some(&entry));
        let set = Step::Set("16M".into(), Origin::Line(3));
        assert_eq!(step("0", rule, None), set);
        assert_eq!(step("16777216", rule, entry), Step::Unchanged);
        assert_eq!(step("4194304", rule, entry), set);
        assert_eq!(step("16777216", None, entry), Step::PutBack("0".into()));
        assert_eq!(step("0", None, entry), Step::Forget);
        assert_eq!(step("4194304", None, entry), Step::Leave);
        assert_eq!(step("16777216", rule, None), Step::Unchanged);
        assert_eq!(step("what no module says", rule, entry), set);
    }

    #[test]
    fn a_label_gives_way_to_what_was_set() {
        let origin = Origin::Label("weir.dev/dirty-bytes".into());
        let label = Setting::parse(Knob::DirtyBytes, "64M", origin.clone()).expect("valid");
        let place = CgroupDir {
            directory: "/".into(),
            path: "/a".into(),
            inode: 1,
            delegated: false,
        };
        let entry = |found| SavedValue::new(&place, Knob::DirtyBytes, found, "64M");
        let step = |says, entry: Option<&SavedValue>| {
            next_step(Knob::DirtyBytes, says, Some(&label), entry)
        };
        let (own, others) = (entry("max"), entry("1048576"));
        let set = Step::Set("64M".into(), origin.clone());
        assert_eq!(step("max", None), set);
        assert_eq!(step("67108864", Some(&own)), Step::Unchanged);
        assert_eq!(step("max", Some(&own)), set, "the module was loaded anew");
        assert_eq!(step("1048576", None), Step::Forget);
        assert_eq!(step("1048576", Some(&own)), Step::Leave);
        let back = Step::PutBack("1048576".into());
        assert_eq!(step("67108864", Some(&others)), back);
    }
}

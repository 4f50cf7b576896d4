// SPDX-License-Identifier: GPL-2.0-only
//! Which knobs a cgroup is to have, from all who may say so.

use crate::requests::Requests;
use crate::rules::Rules;
use crate::setting::Setting;
use crate::tree::{CgroupDir, Hierarchy};
use knobs::Knob;
use std::collections::BTreeMap;

/// Settings that a cgroup is granted of what it asks for, and what rules say, which counts more.
/// Seconds are left as they are.
pub fn desired_settings(
    requests: &Requests,
    rules: &Rules,
    tree: &Hierarchy,
    place: &CgroupDir,
) -> BTreeMap<Knob, Setting> {
    let memory_max = || tree.memory_max(&place.directory);
    let asked = requests.granted_to(place);
    let ruled = rules.settings_for(&place.path, place.delegated);
    // Of two that name a knob the later one counts.
    let all = asked.iter().map(|(knob, setting)| (*knob, setting));
    all.chain(ruled)
        .filter_map(|(knob, setting)| Some((knob, setting.resolve_percent(memory_max)?)))
        .collect()
}

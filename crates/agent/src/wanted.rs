// SPDX-License-Identifier: GPL-2.0-only
//! Which knobs a cgroup is to have, from all who may say so.

use crate::requests::Requests;
use crate::rules::Rules;
use crate::setting::Setting;
use crate::tree::{Place, Tree};
use knobs::Knob;
use std::collections::BTreeMap;

/// Settings that a cgroup is granted of what it asks for, and what rules say, which counts more.
/// Seconds are left as they are.
pub fn wanted(
    requests: &Requests,
    rules: &Rules,
    tree: &Tree,
    place: &Place,
) -> BTreeMap<Knob, Setting> {
    let memory_max = || tree.memory_max(&place.directory);
    let asked = requests.of(place);
    let ruled = rules.wanted(&place.path, place.delegated);
    // Of two that name a knob the later one counts.
    let all = asked.iter().map(|(knob, setting)| (*knob, setting));
    all.chain(ruled)
        .filter_map(|(knob, setting)| Some((knob, setting.of(memory_max)?)))
        .collect()
}

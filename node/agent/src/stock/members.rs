// SPDX-License-Identifier: GPL-2.0-only
//! Which cgroups have wishes, and who leaves room for floors.

use crate::desired_settings::desired_settings;
use crate::requests::Requests;
use crate::rules::Rules;
use crate::setting::Setting;
use crate::tree::{CgroupDir, Hierarchy};
use knobs::{Knob, PAGE};
use policy::UNLIMITED;
use std::collections::BTreeMap;

/// A cgroup that rules name, or that leaves room for floors.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The cgroup and its directory.
    pub place: CgroupDir,
    /// Pages that it may have dirty; [`UNLIMITED`] without a ceiling.
    pub ceiling: u64,
    /// The same in seconds of what disks write for it.
    pub seconds: Option<Setting>,
    /// Percent of its dirtyable memory that may be dirty; 0 for any.
    pub ratio: u64,
    /// Pages that others leave it.
    pub floor: u64,
    /// Bytes a second that it may dirty.
    pub bandwidth: Option<u64>,
    /// The cgroup's weight among those that share a disk.
    pub weight: Option<u64>,
    /// `true` if it leaves room for floors.
    pub leaves_room: bool,
}

impl Member {
    fn new(place: &CgroupDir, wanted: &BTreeMap<Knob, Setting>, leaves_room: bool) -> Member {
        let value = |knob: Knob| {
            let setting = wanted.get(&knob).filter(|of| !of.is_in_time())?;
            Some(setting.value).filter(|value| *value != knob.default())
        };
        let pages = |knob| value(knob).map(|bytes| bytes / PAGE);
        Member {
            place: place.clone(),
            ceiling: pages(Knob::DirtyBytes).unwrap_or(UNLIMITED),
            seconds: wanted
                .get(&Knob::DirtyBytes)
                .filter(|of| of.is_in_time())
                .cloned(),
            ratio: value(Knob::DirtyRatio).unwrap_or(0),
            floor: pages(Knob::DirtyMin).unwrap_or(0),
            bandwidth: value(Knob::DirtyBandwidth),
            weight: value(Knob::DirtyWeight),
            leaves_room,
        }
    }
}

/// Finds all members, and hands on the directories that were looked into. The lowest cgroup of
/// those that match, and neither has a floor nor is above or below one that has, is to leave room.
pub fn find_members(
    tree: &Hierarchy,
    rules: &Rules,
    requests: &Requests,
    mut seen: impl FnMut(&CgroupDir),
) -> Vec<Member> {
    let mut members = Vec::new();
    tree.walk(tree.root(), |place| {
        seen(place);
        if place.is_root() {
            return true;
        }
        let wanted = desired_settings(requests, rules, tree, place);
        let leaves_room = !place.delegated && rules.stock.may_limit(&place.path);
        if leaves_room || !wanted.is_empty() {
            members.push(Member::new(place, &wanted, leaves_room));
        }
        true
    });
    let path = |member: &Member| member.place.path.clone();
    let floors: Vec<String> = members.iter().filter(|of| of.floor > 0).map(path).collect();
    let rooms: Vec<String> = members
        .iter()
        .filter(|of| of.leaves_room)
        .map(path)
        .collect();
    for member in &mut members {
        let own = &member.place.path;
        let is_near = |floor: &String| is_below(own, floor) || is_below(floor, own);
        let is_above = |other: &String| other != own && is_below(other, own);
        member.leaves_room &= !floors.iter().any(is_near) && !rooms.iter().any(is_above);
    }
    members
}

/// Pages of all floors; one below another is a part of it.
pub fn sum_floors(members: &[Member]) -> u64 {
    let mut sum = 0;
    let mut above: Option<&str> = None;
    // Parents come first.
    for member in members.iter().filter(|of| of.floor > 0) {
        if above.is_none_or(|above| !is_below(&member.place.path, above)) {
            sum += member.floor;
            above = Some(&member.place.path);
        }
    }
    sum
}

/// Returns whether a path is another's, or below it.
fn is_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Journal, Said};
    use crate::requests::settings::RequestSettings;
    use std::fs;
    use std::path::Path;

    fn requests(root: &Path) -> Requests {
        Requests::new(
            root,
            RequestSettings::without_section(),
            Journal::new(Said::default(), false),
        )
    }

    #[test]
    fn the_lowest_that_match_leave_room_and_those_with_floors_do_not() {
        let dir = tempfile::tempdir().expect("made");
        for path in ["pods/a/x", "pods/a/y", "pods/db/z", "sys"] {
            fs::create_dir_all(dir.path().join(path)).expect("made");
        }
        let rules = "[stock]\nlimit = [\"/pods\", \"/pods/**\"]\n\
                     [[rule]]\ncgroup = \"/pods/db\"\nset = { \"memory.dirty_min\" = \"16M\" }\n\
                     [[rule]]\ncgroup = \"/pods/a/x\"\nset = { \"memory.dirty_bytes\" = \"8M\", \"memory.dirty_weight\" = 100 }\n";
        let rules = Rules::parse("agent.toml", rules).expect("valid");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let members = find_members(&tree, &rules, &requests(dir.path()), |_| ());
        let leave: Vec<&str> = members
            .iter()
            .filter(|of| of.leaves_room)
            .map(|of| of.place.path.as_str())
            .collect();
        assert_eq!(leave, ["/pods/a/x", "/pods/a/y"]);
        let of = |path: &str| {
            members
                .iter()
                .find(|of| of.place.path == path)
                .expect("there")
        };
        assert_eq!(
            (of("/pods/db").floor, of("/pods/a/x").ceiling),
            (4096, 2048)
        );
        assert_eq!(of("/pods/a/x").weight, None, "the default");
    }

    #[test]
    fn units_may_ask_and_rules_count_more() {
        let dir = tempfile::tempdir().expect("made");
        let (units, tree) = (
            dir.path().join("etc/systemd/system"),
            dir.path().join("cgroup"),
        );
        fs::create_dir_all(&units).expect("made");
        for unit in ["a", "b"] {
            fs::create_dir_all(tree.join(format!("system.slice/{unit}.service"))).expect("made");
            let text = "[Service]\nX-Weir-DirtyBytes=8M\nX-Weir-DirtyMin=4M\n";
            fs::write(units.join(format!("{unit}.service")), text).expect("written");
        }
        let rules = "[stock]\n[[rule]]\ncgroup = \"/system.slice/b.service\"\n\
                     set = { \"memory.dirty_bytes\" = \"16M\" }\n";
        let rules = Rules::parse("agent.toml", rules).expect("valid");
        let tree = Hierarchy::open(&tree).expect("a hierarchy");
        let members = find_members(&tree, &rules, &requests(dir.path()), |_| ());
        let held: Vec<(u64, u64)> = members.iter().map(|of| (of.ceiling, of.floor)).collect();
        assert_eq!(held, [(2048, 1024), (4096, 1024)]);
    }
}

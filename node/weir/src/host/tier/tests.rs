// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use agent::tier::status::{CgroupStatus, TierStatus};

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().expect("made"));
        machine.write(TIERS, "\n");
        machine.write("sys/module/weir/parameters/tier_ratio", "0\n");
        machine.write("sys/devices/system/node/has_memory", "0-1\n");
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn tier(&self, rank: u32, nodes: &str) {
        let path = format!("sys/devices/virtual/memory_tiering/memory_tier{rank}/nodelist");
        self.write(&path, nodes);
    }

    fn switch(&self, action: Action, tiers: Option<&str>) -> Result<String> {
        let args = TierArgs {
            action,
            tiers: tiers.map(String::from),
            ratio: None,
            state: "/nowhere".into(),
            json: false,
        };
        let system = System::at_root(self.0.path(), "6.12");
        switch_tiers(&system, &args)?;
        Ok(system.read_text(TIERS).unwrap_or_default())
    }

    fn refused(&self, tiers: Option<&str>) -> String {
        let refused = self.switch(Action::On, tiers);
        format!("{:#}", refused.expect_err("refused"))
    }
}

#[test]
fn the_kernels_tiers_are_taken_fastest_first() {
    let machine = Machine::new();
    machine.tier(56, "2\n");
    machine.tier(4, "0-1\n");
    assert_eq!(machine.switch(Action::On, None).expect("on"), "0-1;2");
    assert_eq!(
        machine.switch(Action::On, Some("0;1,2")).expect("on"),
        "0;1,2"
    );
    assert_eq!(machine.switch(Action::Off, None).expect("off"), "");
}

#[test]
fn a_kernel_that_knows_one_tier_is_to_be_told() {
    let machine = Machine::new();
    let why = machine.refused(None);
    assert!(why.contains("does not report memory tiers"), "{why}");
    machine.tier(4, "0-1\n");
    let why = machine.refused(None);
    assert!(why.contains("all memory in one tier (nodes 0-1)"), "{why}");
    assert!(why.contains("weir tier on --tiers '0;1'"), "{why}");
    assert_eq!(machine.switch(Action::On, Some("0;1")).expect("on"), "0;1");
    machine.write("sys/devices/system/node/has_memory", "0\n");
    let why = machine.refused(None);
    assert!(why.contains("one node of memory"), "{why}");
}

#[test]
fn what_is_no_list_is_refused_before_the_module_sees_it() {
    let machine = Machine::new();
    let why = machine.refused(Some("0;fast"));
    assert!(why.contains("`0;fast` is no list of tiers"), "{why}");
    let empty = Machine(tempfile::tempdir().expect("made"));
    let why = empty.refused(Some("0;1"));
    assert!(why.contains("not loaded"), "{why}");
    empty.switch(Action::Off, None).expect("off already");
    empty.write("sys/module/weir/parameters/observe", "N\n");
    let why = empty.refused(Some("0;1"));
    assert!(why.contains("knows no tiers"), "{why}");
}

#[test]
fn status_shows_who_has_what() {
    assert!(status_text(None, None).contains("tiers are off"));
    assert!(status_text(Some("0;1"), None).contains("no agent runs"));
    let tier = |nodes: &str, capacity| TierStatus {
        nodes: nodes.into(),
        capacity,
        free: 1 << 20,
        headroom: 512 << 10,
    };
    let cgroup = |cgroup: &str, bytes: [u64; 2], budget: Option<u64>| CgroupStatus {
        cgroup: cgroup.into(),
        bytes: bytes.to_vec(),
        budget: vec![budget, budget.map(|budget| budget / 3)],
        words: "within its budget".into(),
        ..CgroupStatus::default()
    };
    let mut stuck = cgroup("/b", [1 << 20, 0], None);
    stuck.shared_pages = 12;
    stuck.problem = Some("no room".into());
    let agent = BalancerStatus {
        engine: Some("damon".into()),
        why: "it is the best".into(),
        lend: true,
        tiers: vec![tier("0-1", 3 << 30), tier("2", 1 << 30)],
        cgroups: vec![
            cgroup("/a", [75 << 20, 25 << 20], Some(75 << 20)),
            stuck,
            cgroup("/empty", [0, 0], None),
        ],
        ..BalancerStatus::default()
    };
    let expected = "\
tiers are on: 0-1;2 (nodes, fastest first)
pages are moved by damon: it is the best (at rest)
memory that no other cgroup wants is lent

tier  nodes  capacity  free  kept free
0     0-1        3.0G  1.0M     512.0K
1     2          1.0G  1.0M     512.0K

cgroup  tier 0  budget  tier 1  down  up  how it stands
/a       75.0M   75.0M   25.0M     0   0  within its budget
/b        1.0M     max       0     0   0  within its budget
/b: no room
/b: 12 pages are shared by several processes (counted in each) and stay
";
    let shown = status_text(Some("0-1;2"), Some(&agent));
    assert_eq!(shown.replace("  \n", "\n"), expected, "\n{shown}");
}

// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::tier::host::TIERS;
use crate::tier::status::FILE;
use std::fs;
use std::path::Path;

/// A host of files: 1,000 pages of fast memory, 1,000 of slow, nothing free above.
struct Machine {
    dir: tempfile::TempDir,
    balancer: TierBalancer,
    settings: Rc<RefCell<TierSettings>>,
}

impl Machine {
    fn new(tiers: &str) -> Machine {
        let dir = tempfile::tempdir().expect("made");
        write(dir.path(), TIERS, tiers);
        let zone = |node, free| {
            format!("Node {node}, zone Normal\n  pages free {free}\n  high 0\n  present 100000\n")
        };
        let text = zone(0, 1000) + &zone(1, 60_000);
        write(dir.path(), "proc/zoneinfo", &text);
        for (cgroup, fast, slow) in [("first", 60_000, 0), ("late", 20_000, 40_000)] {
            let below = format!("sys/fs/cgroup/{cgroup}");
            let stat = format!(
                "tier0 nodes=0 bytes={}\ntier1 nodes=1 bytes={}\n",
                fast * 4096,
                slow * 4096
            );
            write(dir.path(), &format!("{below}/memory.tier_stat"), &stat);
            write(
                dir.path(),
                &format!("{below}/memory.max"),
                &(80_000 * 4096).to_string(),
            );
        }
        let settings = Rc::new(RefCell::new(TierSettings::default()));
        let balancer = TierBalancer::new(
            TierHost::at_root(dir.path()),
            Hierarchy::open(&dir.path().join("sys/fs/cgroup")).expect("a hierarchy"),
            Rc::clone(&settings),
            dir.path().join("run"),
            Journal::new(std::io::sink(), false),
        );
        Machine {
            dir,
            balancer,
            settings,
        }
    }

    fn told(&self) -> Option<BalancerStatus> {
        BalancerStatus::read(&self.dir.path().join("run").join(FILE)).expect("readable")
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has one")).expect("made");
    fs::write(path, text).expect("written");
}

#[test]
fn it_plans_what_makes_room_first() {
    let mut machine = Machine::new("0;1\n");
    machine.balancer.on_tick();
    let told = machine.told().expect("told");
    assert_eq!(told.engine.as_deref(), Some("move_pages"));
    assert!(
        told.why.contains("no DAMON: this kernel has none"),
        "{}",
        told.why
    );
    assert!(told.moving);
    let states: Vec<_> = told
        .cgroups
        .iter()
        .map(|one| (one.cgroup.as_str(), one.state.as_str(), one.budget[0]))
        .collect();
    let budget = Some(40_000 * 4096);
    assert_eq!(
        states,
        [("/first", "returns", budget), ("/late", "takes", budget)]
    );
    let moves = &machine.balancer.moves;
    let ways: Vec<_> = moves.iter().map(|one| (&*one.cgroup, one.way)).collect();
    assert_eq!(ways, [("/first", Way::Down), ("/late", Way::Up)]);
    assert!(
        moves[0].pages <= 10_000 && moves[1].pages <= moves[0].pages,
        "half at most"
    );
}

#[test]
fn switched_off_it_tells_nothing() {
    let mut machine = Machine::new("0;1\n");
    machine.balancer.on_tick();
    assert!(machine.told().is_some());
    write(machine.dir.path(), TIERS, "\n");
    machine.balancer.on_tick();
    assert_eq!(machine.told(), None);
    assert!(machine.balancer.metric_families().is_empty());
}

#[test]
fn one_tier_is_told_and_nothing_moved() {
    let mut machine = Machine::new("0-1\n");
    machine.balancer.on_tick();
    let told = machine.told().expect("told");
    assert_eq!((told.engine.as_deref(), told.moving), (None, false));
    assert!(told.why.contains("one tier"), "{}", told.why);
}

#[test]
fn memory_that_is_gone_is_told_and_found_again() {
    let mut machine = Machine::new("0;1\n");
    machine.balancer.on_tick();
    let both = fs::read_to_string(machine.dir.path().join("proc/zoneinfo")).expect("there");
    let one = both.split("Node 1").next().expect("node 0");
    let tick = |machine: &mut Machine| {
        while machine
            .balancer
            .worker
            .as_ref()
            .is_some_and(Worker::is_busy)
        {
            machine.balancer.finish_step();
        }
        machine.balancer.looked = None;
        machine.balancer.on_tick();
        machine.told().expect("told")
    };
    write(machine.dir.path(), "proc/zoneinfo", one);
    let told = tick(&mut machine);
    assert_eq!((told.engine.as_deref(), told.moving), (None, false));
    assert!(told.why.contains("one tier has memory"), "{}", told.why);
    assert_eq!(told.tiers[1].capacity, 0);
    assert_eq!(told.cgroups[0].budget[0], Some(80_000 * 4096), "all of it");
    write(machine.dir.path(), "proc/zoneinfo", &both);
    let told = tick(&mut machine);
    assert_eq!(told.engine.as_deref(), Some("move_pages"));
    assert_eq!(told.cgroups[0].budget[0], Some(40_000 * 4096));
}

#[test]
fn an_engine_that_is_not_there_is_told_with_the_reason() {
    let mut machine = Machine::new("0;1\n");
    machine.settings.borrow_mut().engine = Choice::Damon;
    machine.balancer.on_tick();
    let told = machine.told().expect("told");
    assert_eq!((told.engine.as_deref(), told.moving), (None, false));
    assert!(told.why.contains("no /sys/kernel/mm/damon"), "{}", told.why);
    machine.settings.borrow_mut().engine = Choice::MovePages;
    machine.balancer.looked = None;
    machine.balancer.on_tick();
    let told = machine.told().expect("told");
    assert_eq!(told.engine.as_deref(), Some("move_pages"));
}

#[test]
fn at_rest_it_looks_when_something_stirs() {
    let mut machine = Machine::new("0;1\n");
    let budgets = |machine: &Machine| -> Vec<_> {
        let told = machine.told().expect("told");
        told.cgroups.iter().map(|one| one.budget[0]).collect()
    };
    machine.balancer.on_tick();
    let before = budgets(&machine);
    while machine
        .balancer
        .worker
        .as_ref()
        .is_some_and(Worker::is_busy)
    {
        machine.balancer.finish_step();
    }
    let parameter = "sys/module/weir/parameters/tier_ratio";
    write(machine.dir.path(), parameter, "25\n");
    machine.balancer.moving = false;
    machine.balancer.looked = Some(Instant::now());
    machine.balancer.on_tick();
    assert_ne!(budgets(&machine), before, "a ratio counts at once");
    let free = |pages: u64| BTreeMap::from([(0, 5000), (1, pages)]);
    assert!(!free_has_changed(&free(5000), &free(5000 - STIR)));
    assert!(free_has_changed(&free(5000), &free(5001 + STIR)));
    assert!(free_has_changed(&free(5000), &BTreeMap::new()));
}

// SPDX-License-Identifier: GPL-2.0-only
use super::*;

fn reading(held: [u64; 2]) -> Reading {
    let mut group = Group::default();
    group.held[..2].copy_from_slice(&held);
    Reading {
        path: "/a".into(),
        directory: "/".into(),
        group,
        leaf: true,
        file: None,
    }
}

/// Of so many pages looked at in each tier so many are touched soon, so many later.
fn touched(looked: u64, soon: [u64; 2], later: [u64; 2]) -> Heat {
    Heat {
        directory: "/".into(),
        looked: vec![looked; 2],
        hot: soon.into(),
        warm: later.into(),
        soon: Duration::from_millis(500),
        later: Duration::from_secs(2),
    }
}

/// So many percent of 5,000 pages are hot in each tier, and the others are not touched.
fn heat(hot: [u64; 2]) -> Heat {
    let hot = hot.map(|percent| percent * 50);
    touched(5_000, hot, hot)
}

fn change(way: Way, fit: bool) -> Move {
    Move {
        cgroup: "/a".into(),
        directory: "/".into(),
        tier: 0,
        way,
        from: Vec::new(),
        held: 0,
        to: Vec::new(),
        pages: 0,
        fit,
    }
}

fn moved(moved: u64) -> MoveOutcome {
    MoveOutcome {
        moved,
        ..MoveOutcome::default()
    }
}

/// What the plan is told of it.
fn told(heats: &mut Heats, reading: &Reading) -> Group {
    let mut groups = [reading.group];
    heats.inform_plan(std::slice::from_ref(reading), &mut groups);
    groups[0]
}

/// Of 20,000 pages below, 40 % hot, 6,000 change places; then so many percent are hot. Whether it
/// goes on.
fn goes_on(heats: &mut Heats, after: u64) -> bool {
    let read = reading([80_000, 20_000]);
    heats.add_sample(vec![heat([50, 40])]);
    assert_eq!(told(heats, &read).hot[..2], [40_000, 8_000]);
    heats.begin_trial(&read.directory);
    heats.note_outcome(&change(Way::Down, true), &moved(6_000));
    heats.note_outcome(&change(Way::Up, true), &moved(6_000));
    heats.add_sample(vec![heat([50, after])]);
    told(heats, &read).heat_known == HEAT_GUESSED
}

#[test]
fn what_changes_nothing_is_not_tried_for_ever() {
    assert!(goes_on(&mut Heats::default(), 25));
    let mut heats = Heats::default();
    assert!(!goes_on(&mut heats, 39));
    // Much more is hot down there than there was.
    let read = reading([80_000, 20_000]);
    heats.add_sample(vec![heat([50, 90])]);
    assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
}

#[test]
fn what_may_be_chance_is_no_success_yet() {
    let mut heats = Heats::default();
    let read = reading([80_000, 24_000]);
    // 10 % of 24,000, give or take 260.
    let sample = |hot| touched(1_500, [0, hot], [0, hot]);
    heats.add_sample(vec![sample(150)]);
    told(&mut heats, &read);
    heats.begin_trial(&read.directory);
    heats.note_outcome(&change(Way::Up, true), &moved(1_000));
    heats.add_sample(vec![sample(128)]);
    // 350 fewer for 1,000: more than an eighth, but two samples differ by 360 as a rule.
    assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
    assert!(heats.0[&read.directory].trial.is_some(), "not judged");
    // What comes up to fill a budget is compared like the rest.
    heats.note_outcome(&change(Way::Up, false), &moved(5_000));
    told(&mut heats, &read);
    assert!(heats.0[&read.directory].trial.is_some(), "no sample yet");
    heats.add_sample(vec![sample(130)]);
    assert_ne!(told(&mut heats, &read).heat_known, HEAT_GUESSED, "in vain");
}

/// Of 300 trials, those that were found to be worth it, if of 100 pages that come up so many are
/// fewer hot below.
fn worth(percent: u64) -> usize {
    let mut random = 1_u64;
    let mut sample = |below: u64| {
        let hot = (0..1_500).filter(|_| {
            // xorshift
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % 24_000 < below
        });
        let hot = hot.count() as u64;
        touched(1_500, [0, hot], [0, hot])
    };
    let read = reading([65_000, 24_000]);
    let mut trial = || {
        let (mut heats, mut below) = (Heats::default(), 2_400);
        heats.add_sample(vec![sample(below)]);
        told(&mut heats, &read);
        heats.begin_trial(&read.directory);
        while heats.0[&read.directory].trial.is_some() {
            heats.note_outcome(&change(Way::Up, true), &moved(600));
            below -= (600 * percent / 100).min(below);
            heats.add_sample(vec![sample(below)]);
            told(&mut heats, &read);
        }
        heats.0[&read.directory].vain == 0
    };
    (0..300).filter(|_| trial()).count()
}

#[test]
fn chance_seldom_keeps_pages_changing_places() {
    let (none, half) = (worth(0), worth(50));
    assert!(none < 300 / 20, "{none} of 300 for nothing");
    assert!(half > 300 * 19 / 20, "{half} of 300 that were worth it");
}

/// Of 6,000 pages that came up none was worth it, and so many went down meanwhile for other
/// reasons. Whether it goes on.
fn goes_on_beside(lost: u64) -> bool {
    let mut heats = Heats::default();
    let read = reading([80_000, 20_000]);
    heats.add_sample(vec![heat([50, 40])]);
    told(&mut heats, &read);
    heats.begin_trial(&read.directory);
    heats.note_outcome(&change(Way::Up, true), &moved(6_000));
    heats.note_outcome(&change(Way::Down, false), &moved(lost));
    heats.add_sample(vec![heat([50, 40])]);
    told(&mut heats, &read).heat_known == HEAT_GUESSED
}

#[test]
fn while_other_pages_move_nothing_is_judged_but_beside_a_few() {
    assert!(goes_on_beside(3_001));
    assert!(!goes_on_beside(300));
}

#[test]
fn memory_that_is_read_evenly_stays_where_it_is() {
    let mut heats = Heats::default();
    let read = reading([80_000, 20_000]);
    // Each page every 1.8 seconds: 24 % in half a second, 67 % in two.
    let evenly = |looked| touched(looked, [looked * 24 / 100; 2], [looked * 67 / 100; 2]);
    heats.add_sample(vec![evenly(5_000)]);
    assert_ne!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
    // As many in half a second, but the same ones all the time.
    heats.add_sample(vec![touched(5_000, [1_200; 2], [1_200; 2])]);
    let group = told(&mut heats, &read);
    assert_eq!((group.heat_known, group.hot[1]), (HEAT_GUESSED, 4_801));
    // Of few pages it cannot be told.
    heats.add_sample(vec![touched(5, [0, 1], [0, 1])]);
    assert_ne!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
}

#[test]
fn heat_is_wanted_of_who_has_pages_in_two_tiers() {
    let mut heats = Heats::default();
    let one = reading([80_000, 20]);
    assert_eq!(heats.due_cgroups(&[one], &[]), []);
    let two = [reading([80_000, 20_000])];
    assert_eq!(heats.due_cgroups(&two, &[]).len(), 1);
    heats.add_sample(vec![heat([50, 40])]);
    assert_eq!(heats.due_cgroups(&two, &[]), [], "just told");
    let other = [Reading {
        directory: "/proc".into(),
        ..reading([80_000, 20_000])
    }];
    assert_eq!(heats.due_cgroups(&other, &[]).len(), 1, "not known");
}

#[test]
fn it_is_wanted_again_when_pages_have_changed_places_and_not_on_the_way_to_a_budget() {
    let mut heats = Heats::default();
    let two = [reading([80_000, 20_000])];
    heats.add_sample(vec![heat([50, 40])]);
    let exchange = change(Way::Up, true);
    assert_eq!(
        heats
            .due_cgroups(&two, std::slice::from_ref(&exchange))
            .len(),
        1
    );
    heats.note_outcome(&exchange, &moved(100));
    assert_eq!(told(&mut heats, &two[0]).heat_known, HEAT_GUESSED);
    let down = change(Way::Down, false);
    assert_eq!(heats.due_cgroups(&two, std::slice::from_ref(&down)), []);
    heats.note_outcome(&down, &moved(100));
    assert_ne!(told(&mut heats, &two[0]).heat_known, HEAT_GUESSED, "old");
    assert_eq!(
        heats.due_cgroups(&two, &[]).len(),
        1,
        "there is nothing else to do"
    );
}

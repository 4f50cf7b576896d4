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

/// So many percent of 5,000 pages are hot in each tier.
fn heat(hot: [u64; 2]) -> Heat {
    Heat {
        directory: "/".into(),
        looked: vec![5_000, 5_000],
        hot: hot.map(|percent| percent * 50).into(),
    }
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

fn moved(moved: u64) -> Outcome {
    Outcome {
        moved,
        ..Outcome::default()
    }
}

/// What the plan is told of it.
fn told(heats: &mut Heats, reading: &Reading) -> Group {
    let mut groups = [reading.group];
    heats.tell(std::slice::from_ref(reading), &mut groups);
    groups[0]
}

/// Of 20,000 pages below, 40 % hot, 4,000 change places; then so many percent are hot. Whether it goes on.
fn goes_on(heats: &mut Heats, after: u64) -> bool {
    let read = reading([80_000, 20_000]);
    heats.learn(vec![heat([50, 40])]);
    assert_eq!(told(heats, &read).hot[..2], [40_000, 8_000]);
    heats.begin(&read.directory);
    heats.note(&change(Way::Down, true), &moved(4_000));
    heats.note(&change(Way::Up, true), &moved(4_000));
    heats.learn(vec![heat([50, after])]);
    told(heats, &read).heat_known == HEAT_GUESSED
}

#[test]
fn what_changes_nothing_is_not_tried_for_ever() {
    assert!(goes_on(&mut Heats::default(), 25));
    let mut heats = Heats::default();
    assert!(!goes_on(&mut heats, 39));
    // Much more is hot down there than there was.
    let read = reading([80_000, 20_000]);
    heats.learn(vec![heat([50, 90])]);
    assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
}

#[test]
fn what_may_be_chance_is_no_success_yet() {
    let mut heats = Heats::default();
    let read = reading([80_000, 24_000]);
    // 10 % of 24,000, give or take 190.
    let sample = |hot| Heat {
        looked: vec![1_500, 1_500],
        hot: vec![0, hot],
        ..heat([0, 0])
    };
    heats.learn(vec![sample(150)]);
    told(&mut heats, &read);
    heats.begin(&read.directory);
    heats.note(&change(Way::Up, true), &moved(1_000));
    heats.learn(vec![sample(128)]);
    // 350 fewer for 1,000: more than a quarter, but two samples differ by 260 as a rule.
    assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
    assert!(heats.0[&read.directory].trial.is_some(), "not judged");
    // What comes up to fill a budget is compared like the rest.
    heats.note(&change(Way::Up, false), &moved(1_200));
    heats.learn(vec![sample(130)]);
    assert_ne!(told(&mut heats, &read).heat_known, HEAT_GUESSED, "in vain");
}

/// Of 300 trials, those that were found to be worth it, if of 100 pages that come up so many are fewer hot below.
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
        Heat {
            looked: vec![1_500, 1_500],
            hot: vec![0, hot.count() as u64],
            ..heat([0, 0])
        }
    };
    let read = reading([65_000, 24_000]);
    let mut trial = || {
        let (mut heats, mut below) = (Heats::default(), 2_400);
        heats.learn(vec![sample(below)]);
        told(&mut heats, &read);
        heats.begin(&read.directory);
        while heats.0[&read.directory].trial.is_some() {
            heats.note(&change(Way::Up, true), &moved(600));
            below -= (600 * percent / 100).min(below);
            heats.learn(vec![sample(below)]);
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

#[test]
fn while_other_pages_move_nothing_is_judged() {
    let mut heats = Heats::default();
    let read = reading([80_000, 20_000]);
    heats.learn(vec![heat([50, 40])]);
    told(&mut heats, &read);
    heats.begin(&read.directory);
    heats.note(&change(Way::Up, true), &moved(4_000));
    heats.note(&change(Way::Down, false), &moved(1));
    assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
}

#[test]
fn heat_is_wanted_of_who_has_pages_in_two_tiers() {
    let mut heats = Heats::default();
    let one = reading([80_000, 20]);
    let two = reading([80_000, 20_000]);
    assert_eq!(heats.wanted(&[one], &[]), []);
    assert_eq!(heats.wanted(std::slice::from_ref(&two), &[]).len(), 1);
    heats.learn(vec![heat([50, 40])]);
    assert_eq!(
        heats.wanted(std::slice::from_ref(&two), &[]),
        [],
        "just told"
    );
    let other = Reading {
        directory: "/proc".into(),
        ..reading([80_000, 20_000])
    };
    assert_eq!(heats.wanted(&[other], &[]), [], "nothing moves");
    let moves = [change(Way::Up, true)];
    assert_eq!(heats.wanted(&[two], &moves).len(), 1);
}

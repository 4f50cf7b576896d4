// SPDX-License-Identifier: GPL-2.0-only
//! How the knobs that rules name stand, and which are to be tried again.

use crate::tree::CgroupDir;
use knobs::Knob;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A knob that could not be set is tried again this many ticks in a row, then with each scan.
pub const RETRIES: u32 = 10;

/// State of a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobState {
    /// The knob holds what its rule says.
    InEffect,
    /// The knob's file is not there.
    Waiting,
    /// The knob could not be read or written: why.
    Failing(String),
}

/// The knobs of all cgroups.
#[derive(Default)]
pub struct KnobStates {
    knobs: BTreeMap<(PathBuf, Knob), KnobState>,
    /// Directories to look at again at the next ticks, and how often yet.
    again: BTreeMap<PathBuf, u32>,
}

impl KnobStates {
    /// Notes how a knob stands; whether that is news.
    pub fn set_state(&mut self, place: &CgroupDir, knob: Knob, standing: KnobState) -> bool {
        if standing != KnobState::InEffect {
            self.again.entry(place.directory.clone()).or_default();
        }
        let key = (place.directory.clone(), knob);
        self.knobs.insert(key, standing.clone()) != Some(standing)
    }

    /// Forgets a knob that no rule names any more.
    pub fn remove(&mut self, place: &CgroupDir, knob: Knob) {
        self.knobs.remove(&(place.directory.clone(), knob));
    }

    /// Forgets cgroups for which this does not hold.
    pub fn retain_directories(&mut self, there: impl Fn(&PathBuf) -> bool) {
        self.knobs.retain(|(directory, _), _| there(directory));
        self.again.retain(|directory, _| there(directory));
    }

    /// Directories of all cgroups.
    pub fn cgroup_directories(&self) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = self.knobs.keys().map(|(at, _)| at.clone()).collect();
        directories.dedup();
        directories
    }

    /// Number of knobs in such a state, and the directory of one.
    pub fn count_states(&self, wanted: impl Fn(&KnobState) -> bool) -> (usize, Option<PathBuf>) {
        let mut found = self.knobs.iter().filter(|(_, standing)| wanted(standing));
        let first = found.next().map(|((directory, _), _)| directory.clone());
        (usize::from(first.is_some()) + found.count(), first)
    }

    /// Takes the directories that are due; what is looked at must be handed to
    /// [`KnobStates::note_try`].
    pub fn take_due(&mut self) -> BTreeMap<PathBuf, u32> {
        std::mem::take(&mut self.again)
    }

    /// A directory was looked at again, after so many times before. If it still lacks something its
    /// turn comes again, unless that has been tried often enough.
    pub fn note_try(&mut self, directory: &PathBuf, tries: u32) {
        if let Some(more) = self.again.get_mut(directory) {
            *more = tries + 1;
            if *more >= RETRIES {
                self.again.remove(directory);
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups come with: knobs that the maker of a unit or a container asks for, beside the
//! policy file.
//!
//! |asked for by|key|file|
//! |---|---|---|
//! |a systemd unit|`X-Weir-DirtyBytes=64M`|unit file, drop-ins ([`units`])|
//! |a container|label or annotation `weir.dev/dirty-bytes: 64M`|what its runtime notes ([`containers`])|
//!
//! Both are root's to say: unit files are in root's directories, and who may start a container by
//! root's Docker or Podman may be root. But an image brings labels, and whoever made it is nobody
//! to trust: [`settings::Containers`]. Nothing is granted in a delegated subtree (a user's systemd,
//! rootless containers), whose owner chooses names; nor below a unit's or a container's own cgroup,
//! where its root may make others that are called like a neighbour. A pod of Kubernetes is
//! weir-nri's.
//!
//! Who is nearer to the host's owner wins, knob by knob: a rule over a unit, a unit over a label.
//!
//! A unit's files are read when its cgroup appears and whenever systemd reads them again; a
//! container's never change.

pub mod settings;
pub mod units;

use crate::containers;
use crate::journal::{Event, Journal};
use crate::look::{Look, look};
use crate::setting::{Origin, Setting};
use crate::tree::Place;
use knobs::Knob;
use settings::{Containers, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a label's or annotation's name begins with.
const PREFIX: &str = "weir.dev/";
/// Labels of a container that are looked at, and bytes of a value: an image that has more does not
/// fill the journal.
const MOST_LABELS: usize = 32;
const MOST_BYTES: usize = 64;

/// A cgroup's requests.
#[derive(Default)]
struct Known {
    granted: BTreeMap<Knob, Setting>,
    /// What was refused, in words.
    refused: Vec<(Origin, String)>,
    /// They are to be read again.
    is_stale: bool,
}

/// What all cgroups ask for.
pub struct Requests {
    root: PathBuf,
    settings: Settings,
    journal: Journal,
    /// By the cgroup's inode.
    known: BTreeMap<u64, Known>,
    loaded: Look,
}

impl Requests {
    /// On the machine with this root directory.
    pub fn new(root: &Path, settings: Settings, journal: Journal) -> Requests {
        Requests {
            root: root.into(),
            settings,
            journal,
            known: BTreeMap::new(),
            loaded: look(&root.join(units::RELOADED)),
        }
    }

    /// Grants by other settings from now on.
    pub fn follow(&mut self, settings: Settings) {
        self.settings = settings;
        self.read_again();
    }

    /// Whether systemd has read its units again since the last call.
    pub fn have_changed(&mut self) -> bool {
        let before = self.loaded;
        self.loaded = look(&self.root.join(units::RELOADED));
        let changed = self.settings.systemd && self.loaded != before;
        if changed {
            self.read_again();
        }
        changed
    }

    fn read_again(&mut self) {
        self.known
            .values_mut()
            .for_each(|known| known.is_stale = true);
    }

    /// Forgets cgroups for which this does not hold.
    pub fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.known.retain(|inode, _| is_there(*inode));
    }

    /// How many are granted and refused.
    pub fn count(&self) -> (u64, u64) {
        self.known
            .values()
            .fold((0, 0), |(granted, refused), known| {
                (
                    granted + known.granted.len() as u64,
                    refused + known.refused.len() as u64,
                )
            })
    }

    /// What the cgroup gets of what it asks for.
    pub fn of(&mut self, place: &Place) -> &BTreeMap<Knob, Setting> {
        let before = self.known.remove(&place.inode).unwrap_or(Known {
            is_stale: true,
            ..Known::default()
        });
        let known = if before.is_stale {
            let known = self.read(place);
            for (origin, why) in &known.refused {
                if !before.refused.iter().any(|(_, before)| before == why) {
                    self.journal.say(&Event::NotGranted {
                        cgroup: place.path.clone(),
                        origin: origin.clone(),
                        why: why.clone(),
                    });
                }
            }
            known
        } else {
            before
        };
        &self.known.entry(place.inode).or_insert(known).granted
    }

    fn read(&self, place: &Place) -> Known {
        let mut known = Known::default();
        if place.delegated {
            return known;
        }
        let id =
            containers::id_at(&place.path).filter(|_| self.settings.containers != Containers::Off);
        if let Some(id) = id {
            match containers::read(&self.root, id) {
                // Of a runtime that is not known, or not there yet.
                None => known.is_stale = true,
                Some(notes) if containers::is_pod(&notes) => {}
                Some(notes) => {
                    let notes = notes.into_iter();
                    let notes = notes.filter(|(key, _)| key.starts_with(PREFIX));
                    for (key, text) in notes.take(MOST_LABELS) {
                        let origin = Origin::Label(key.chars().take(MOST_BYTES).collect());
                        let may =
                            |knob: Knob, setting: &Setting| self.settings.allow(knob, setting);
                        known.take(&key, &text, label, origin, may);
                    }
                }
            }
        }
        let unit = units::unit_of(&place.path).filter(|_| self.settings.systemd);
        for (key, (text, file)) in
            unit.map_or_else(BTreeMap::new, |unit| units::read(&self.root, unit))
        {
            let file = file
                .strip_prefix(&self.root)
                .map_or(file.clone(), |below| Path::new("/").join(below));
            let origin = Origin::Unit {
                file: file.display().to_string(),
                key: key.clone(),
            };
            known.take(&key, &text, key_of_unit, origin, |_, _| Ok(()));
        }
        known
    }
}

impl Known {
    /// Grants one request, if its key, which `key_of` makes of a knob, its value and its maker are
    /// right.
    fn take(
        &mut self,
        key: &str,
        text: &str,
        key_of: fn(Knob) -> String,
        origin: Origin,
        may: impl Fn(Knob, &Setting) -> Result<(), String>,
    ) {
        let knob = Knob::DIRTY.into_iter().find(|knob| key_of(*knob) == key);
        let granted = match knob {
            _ if key.len().max(text.len()) > MOST_BYTES => Err("too long".into()),
            None => Err(format!(
                "unknown key `{}`: expected {}",
                key.escape_debug(),
                Knob::DIRTY.map(key_of).join(", ")
            )),
            Some(knob) => Setting::parse(knob, text, origin.clone())
                .and_then(|setting| may(knob, &setting).map(|()| (knob, setting))),
        };
        match granted {
            Ok((knob, setting)) => {
                self.granted.insert(knob, setting);
            }
            Err(why) => self.refused.push((origin, why)),
        }
    }
}

/// As in `weir.dev/dirty-min`.
fn label(knob: Knob) -> String {
    format!("{PREFIX}{}", knob.name().replace('_', "-"))
}

/// As in `X-Weir-DirtyMin`.
fn key_of_unit(knob: Knob) -> String {
    let words = knob.name().split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    format!("{}{}", units::PREFIX, words.collect::<String>())
}

#[cfg(test)]
mod tests;

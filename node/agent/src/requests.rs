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
//! root's Docker or Podman may be root. But an image brings labels, and its maker is not to be
//! trusted: [`settings::Containers`]. Nothing is granted in a delegated subtree (a user's systemd,
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
use crate::file_stamp::{FileStamp, read_stamp};
use crate::journal::{Journal, JournalEvent};
use crate::setting::{Origin, Setting};
use crate::tree::CgroupDir;
use knobs::Knob;
use settings::{Containers, RequestSettings};
use std::collections::BTreeMap;
use std::mem::replace;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Beginning of a label's or annotation's name.
const PREFIX: &str = "weir.dev/";
/// Labels of a container that are looked at, and bytes of a value: an image that has more does not
/// fill the journal.
const MOST_LABELS: usize = 32;
const MOST_BYTES: usize = 64;

/// A cgroup's requests.
#[derive(Default)]
struct CgroupRequests {
    granted: BTreeMap<Knob, Setting>,
    /// Requests that were refused, in words.
    refused: Vec<(Origin, String)>,
    /// `true` if the requests need not be read again.
    is_read: bool,
}

/// Requests of all cgroups. Clones share them: the reconciler's thread grants them, or, in stock
/// mode, the thread that keeps rules without the module.
#[derive(Clone)]
pub struct Requests(Arc<Mutex<State>>);

struct State {
    root: PathBuf,
    settings: RequestSettings,
    journal: Journal,
    /// Requests by the cgroup's inode.
    known: BTreeMap<u64, CgroupRequests>,
    loaded: FileStamp,
}

impl Requests {
    /// On the machine with this root directory.
    pub fn new(root: &Path, settings: RequestSettings, journal: Journal) -> Requests {
        Requests(Arc::new(Mutex::new(State {
            root: root.into(),
            settings,
            journal,
            known: BTreeMap::new(),
            loaded: read_stamp(&root.join(units::RELOADED)),
        })))
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants by other settings from now on.
    pub fn follow_settings(&self, settings: RequestSettings) {
        let mut state = self.lock_state();
        state.settings = settings;
        state.read_again();
    }

    /// Returns whether systemd has read its units again since the last call.
    pub fn have_changed(&self) -> bool {
        let mut state = self.lock_state();
        let loaded = read_stamp(&state.root.join(units::RELOADED));
        let before = replace(&mut state.loaded, loaded);
        let changed = state.settings.systemd && state.loaded != before;
        if changed {
            state.read_again();
        }
        changed
    }

    /// Forgets cgroups for which this does not hold.
    pub fn retain_cgroups(&self, is_there: impl Fn(u64) -> bool) {
        self.lock_state().known.retain(|inode, _| is_there(*inode));
    }

    /// Numbers of requests granted and refused.
    pub fn count_requests(&self) -> (u64, u64) {
        let state = self.lock_state();
        state
            .known
            .values()
            .fold((0, 0), |(granted, refused), known| {
                let more = (known.granted.len() as u64, known.refused.len() as u64);
                (granted + more.0, refused + more.1)
            })
    }

    /// The part of its requests that the cgroup is granted.
    pub fn granted_to(&self, place: &CgroupDir) -> BTreeMap<Knob, Setting> {
        let mut state = self.lock_state();
        let before = state.known.remove(&place.inode).unwrap_or_default();
        let known = if before.is_read {
            before
        } else {
            let known = state.read(place);
            state.report_refusals(place, &known, &before);
            known
        };
        let granted = known.granted.clone();
        state.known.insert(place.inode, known);
        granted
    }
}

impl State {
    fn read_again(&mut self) {
        self.known
            .values_mut()
            .for_each(|known| known.is_read = false);
    }

    /// Says what is refused, unless it was before.
    fn report_refusals(&self, place: &CgroupDir, known: &CgroupRequests, before: &CgroupRequests) {
        let is_news = |request: &&(Origin, String)| !before.refused.contains(request);
        for (origin, why) in known.refused.iter().filter(is_news) {
            self.journal.log_event(&JournalEvent::NotGranted {
                cgroup: place.path.clone(),
                origin: origin.clone(),
                why: why.clone(),
            });
        }
    }

    /// Reads the requests that the cgroup's makers have now.
    fn read(&self, place: &CgroupDir) -> CgroupRequests {
        let mut known = CgroupRequests {
            is_read: true,
            ..CgroupRequests::default()
        };
        if place.delegated {
            return known;
        }
        if let (true, Some(id)) = (
            self.settings.containers != Containers::Off,
            containers::own_container_id(&place.path),
        ) {
            self.add_labels(id, &mut known);
        }
        if let (true, Some(unit)) = (self.settings.systemd, units::unit_of(&place.path)) {
            self.add_keys(unit, &mut known);
        }
        known
    }

    fn add_labels(&self, id: &str, known: &mut CgroupRequests) {
        let Some(notes) = containers::read(&self.root, id) else {
            // Of a runtime that is not known, or not there yet.
            known.is_read = false;
            return;
        };
        if containers::is_pod(&notes) {
            return;
        }
        let labels = notes.iter().filter(|(key, _)| key.starts_with(PREFIX));
        for (key, text) in labels.take(MOST_LABELS) {
            let origin = Origin::Label(key.chars().take(MOST_BYTES).collect());
            let may = |knob: Knob, setting: &Setting| self.settings.check_allowed(knob, setting);
            known.grant_request(key, text, label_key, origin, may);
        }
    }

    fn add_keys(&self, unit: &str, known: &mut CgroupRequests) {
        for (key, (text, file)) in units::read(&self.root, unit) {
            let below = file.strip_prefix(&self.root).unwrap_or(&file);
            let origin = Origin::Unit {
                file: Path::new("/").join(below).display().to_string(),
                key: key.clone(),
            };
            known.grant_request(&key, &text, unit_key, origin, |_, _| Ok(()));
        }
    }
}

impl CgroupRequests {
    /// Grants one request, if its key, which `key_of` makes of a knob, its value and its maker are
    /// right.
    fn grant_request(
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

/// The knob's key among labels, as in `weir.dev/dirty-min`.
fn label_key(knob: Knob) -> String {
    format!("{PREFIX}{}", knob.name().replace('_', "-"))
}

/// The knob's key in a unit file, as in `X-Weir-DirtyMin`.
fn unit_key(knob: Knob) -> String {
    let words = knob.name().split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    format!("{}{}", units::PREFIX, words.collect::<String>())
}

#[cfg(test)]
mod tests;

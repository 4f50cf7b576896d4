// SPDX-License-Identifier: GPL-2.0-only
//! Ceilings that objectives ask for where there is no module to set them.

use crate::tree::Place;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Ceilings in pages that other parts ask for, by inode.
#[derive(Clone, Default)]
pub struct Asked(Arc<Mutex<BTreeMap<u64, (Place, u64)>>>);

impl Asked {
    /// Asks for a ceiling of a cgroup, or, with none, for it no more.
    pub fn ask(&self, place: &Place, pages: Option<u64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pages {
            Some(pages) => all.insert(place.inode, (place.clone(), pages)),
            None => all.remove(&place.inode),
        };
    }

    /// All that are asked for.
    pub fn all(&self) -> BTreeMap<u64, (Place, u64)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

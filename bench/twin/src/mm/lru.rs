// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup's pages of the cache in the order they came, as runs of pages that follow each other in
//! a file. A run of which the file has been forgotten since counts for nothing; what has not is all
//! there. A file's last run grows up to 1 MiB, wherever it stands: those pages are taken for as old
//! as its first.

use std::collections::VecDeque;

/// Pages a run has at most.
const LONGEST: u64 = 256;

/// Pages that came together.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Index of the first page in its file.
    pub start: u64,
    /// File that the pages belong to.
    pub file: u32,
    /// Number of pages in the run.
    pub pages: u16,
    /// Number of times that the file had been forgotten when they came.
    pub invalidate_seq: u16,
}

impl Run {
    /// The page after the last.
    pub fn end_page(&self) -> u64 {
        self.start + u64::from(self.pages)
    }

    /// The run without its first `pages`.
    pub fn skip_pages(&mut self, pages: u64) {
        self.start += pages;
        self.pages -= pages as u16;
    }
}

/// All runs of a cgroup.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    runs: VecDeque<Run>,
    /// Number of runs that have been taken out.
    gone: u64,
}

impl Lru {
    /// Pages of a file have come, of which `last` says where in the line its last run is.
    pub fn push(
        &mut self,
        last: &mut u64,
        (file, invalidate_seq): (u32, u16),
        mut start: u64,
        mut pages: u64,
    ) {
        let place = last.checked_sub(self.gone).map(|place| place as usize);
        if let Some(last) = place.and_then(|place| self.runs.get_mut(place)) {
            if (last.file, last.invalidate_seq, last.end_page()) == (file, invalidate_seq, start) {
                let more = pages.min(LONGEST.saturating_sub(u64::from(last.pages)));
                last.pages += more as u16;
                start += more;
                pages -= more;
            }
        }
        while pages > 0 {
            let part = pages.min(LONGEST);
            self.runs.push_back(Run {
                start,
                file,
                pages: part as u16,
                invalidate_seq,
            });
            *last = self.gone + self.runs.len() as u64 - 1;
            start += part;
            pages -= part;
        }
    }

    /// Takes the oldest run off the list.
    pub fn pop(&mut self) -> Option<Run> {
        let run = self.runs.pop_front()?;
        self.gone += 1;
        Some(run)
    }

    /// Puts back the rest of the oldest run.
    pub fn put_back(&mut self, run: Run) {
        self.gone -= 1;
        self.runs.push_front(run);
    }

    /// Empties all runs of a file, in their places: the numbers of its lives begin anew, and runs
    /// of lives before would be taken for some of now.
    pub fn empty_runs(&mut self, file: u32) {
        for run in self.runs.iter_mut().filter(|run| run.file == file) {
            run.pages = 0;
        }
    }

    /// Number of runs in the list.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Pages in them, of files that have lived so often.
    #[cfg(any(test, debug_assertions))]
    pub fn count_live_pages(&self, lives: impl Fn(u32) -> u16) -> u64 {
        let live = self
            .runs
            .iter()
            .filter(|run| lives(run.file) == run.invalidate_seq);
        live.map(|run| u64::from(run.pages)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_one_run() {
        let mut line = Lru::default();
        let (mut one, mut other) = (0, 0);
        for start in [0, 100, 200] {
            line.push(&mut one, (1, 0), start, 100);
            line.push(&mut other, (2, 0), 2 * start, 1);
        }
        line.push(&mut one, (1, 1), 300, 1);
        assert_eq!(
            line.len(),
            6,
            "256, 44 and three of another file, and one of another life"
        );
        let mut oldest = line.pop().expect("a run");
        assert_eq!((oldest.start, oldest.pages), (0, 256));
        oldest.skip_pages(250);
        line.put_back(oldest);
        assert_eq!(line.count_live_pages(|_| 0), 53);
        line.pop();
        line.push(&mut 0, (1, 0), 256, 1);
        assert_eq!(line.len(), 6, "what is no more in the line does not grow");
    }
}

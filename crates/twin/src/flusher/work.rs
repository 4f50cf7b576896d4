// SPDX-License-Identifier: GPL-2.0-only
//! What a flusher does next: which work, which file, and for how long it is that one's turn.

use super::{Kind, Turn, Work};
use crate::clock::HZ;
use crate::domain::INTERVAL;
use crate::world::World;

/// The least a file gets in its turn, and what turns are multiples of.
const TURN: u64 = 1024;

impl World {
    /// A file's turn is over.
    pub(super) fn end_turn(&mut self, wb: usize) {
        let now = self.tick();
        let before = match self.wbs[wb].flusher.work {
            Some(Work {
                kind: Kind::Periodic { before },
                ..
            }) => before,
            _ => now,
        };
        let flusher = &mut self.wbs[wb].flusher;
        let Some(turn) = flusher.turn.take() else {
            return;
        };
        let file = &mut self.files[turn.file as usize];
        let wrote = turn.pages - turn.left;
        if let Some(work) = &mut flusher.work {
            work.pages_left = work.pages_left.saturating_sub(wrote);
        }
        if let Some((_, progress)) = &mut flusher.began {
            *progress |= wrote > 0 || file.pages.dirty() == 0;
        }
        if file.pages.dirty() == 0 {
            file.listed = false;
        } else if turn.left == 0 && file.dirtied_at <= before {
            flusher.more.push_back(turn.file);
        } else {
            file.dirtied_at = now;
            flusher.dirty.push_back(turn.file);
        }
        if now > self.wbs[wb].rates.stamp + INTERVAL {
            self.adapt(wb, &[]);
        }
    }

    /// Gives the next file its turn; false if the work is done.
    pub(super) fn begin_turn(&mut self, wb: usize) -> bool {
        loop {
            let Some(work) = self.wbs[wb].flusher.work else {
                return false;
            };
            let now = self.tick();
            if let Some((began, progress)) = self.wbs[wb].flusher.began {
                let flusher = &mut self.wbs[wb].flusher;
                let is_over = progress && (now > began + HZ / 10 || work.pages_left == 0);
                match flusher.round.front().copied().filter(|_| !is_over) {
                    Some(file) => {
                        flusher.round.pop_front();
                        self.open_turn(wb, work, file);
                        return true;
                    }
                    None => {
                        flusher.began = None;
                        if !progress && work.queued {
                            flusher.work = None;
                            return false;
                        }
                    }
                }
            }
            let enough = work.pages_left == 0
                || (work.kind == Kind::Background && !self.is_over_background(wb));
            let flusher = &mut self.wbs[wb].flusher;
            if enough {
                flusher.work = None;
                return false;
            }
            if flusher.round.is_empty() {
                let before = match work.kind {
                    Kind::Periodic { .. } => now.saturating_sub(self.machine.expire),
                    _ => now,
                };
                flusher.round.append(&mut flusher.more);
                while let Some(file) = flusher.dirty.front().copied() {
                    if self.files[file as usize].dirtied_at > before {
                        break;
                    }
                    flusher.dirty.pop_front();
                    flusher.round.push_back(file);
                }
                if let Some(work) = &mut flusher.work {
                    work.queued = true;
                }
            }
            flusher.began = Some((now, false));
        }
    }

    fn open_turn(&mut self, wb: usize, work: Work, file: u32) {
        let pages = if work.kind == Kind::Sync {
            u64::MAX
        } else {
            let half_a_second = self.wbs[wb].rates.average / 2;
            let most = half_a_second
                .min(self.domain.limit / 8)
                .min(work.pages_left);
            (most + TURN) / TURN * TURN
        };
        let cursor = self.files[file as usize].cursor;
        let wb = &mut self.wbs[wb];
        let now = self.now / crate::clock::TICK;
        if wb.files_in_flight == 0 && now > wb.rates.stamp + HZ {
            wb.rates.restart(wb.counts.dirtied, wb.counts.written, now);
        }
        wb.flusher.turn = Some(Turn {
            file,
            pages,
            left: pages,
            origin: cursor,
            wrapped: false,
        });
    }

    /// Finds something to do; false if there is nothing.
    pub(super) fn begin_work(&mut self, wb: usize) -> bool {
        let now = self.tick();
        let periodic = self.machine.periodic;
        let due = periodic > 0 && now >= self.wbs[wb].flusher.last_periodic + periodic;
        let (kind, pages_left) = if self.syncing {
            if self.wbs[wb].counts.dirty == 0 {
                return false;
            }
            (Kind::Sync, u64::MAX)
        } else if std::mem::take(&mut self.wbs[wb].flusher.wanted) {
            (Kind::Wanted, self.wbs[wb].counts.dirty)
        } else if due {
            self.wbs[wb].flusher.last_periodic = now;
            let before = now.saturating_sub(self.machine.expire);
            (Kind::Periodic { before }, self.counts.dirty)
        } else if self.wbs[wb].counts.dirty > 0 && self.is_over_background(wb) {
            (Kind::Background, u64::MAX)
        } else {
            return false;
        };
        self.wbs[wb].flusher.work = Some(Work {
            kind,
            pages_left,
            queued: false,
        });
        true
    }
}

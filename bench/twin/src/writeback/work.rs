// SPDX-License-Identifier: GPL-2.0-only
//! The next step of a flusher: its work, its file, and the length of that file's turn.

use super::Writeback;
use super::flusher::{WbReason, WbWritebackWork, WritebackControl};
use crate::mm::domain::BANDWIDTH_INTERVAL;
use crate::sim::clock::HZ;

/// The least a file gets in its turn, and what turns are multiples of.
const TURN: u64 = 1024;

impl Writeback {
    /// A file's turn is over.
    pub(super) fn end_turn(&mut self, wb: usize) {
        let now = self.current_tick();
        let before = match self.flushers[wb].work {
            Some(WbWritebackWork {
                reason: WbReason::Periodic { before },
                ..
            }) => before,
            _ => now,
        };
        let flusher = &mut self.flushers[wb];
        let Some(turn) = flusher.turn.take() else {
            return;
        };
        if let Some(call) = flusher.call.take() {
            self.hooks.weir_window_end(wb, &call);
        }
        let file = &mut self.hooks.files[turn.file as usize];
        let wrote = turn.pages - turn.nr_to_write;
        if let Some(work) = &mut flusher.work {
            work.nr_pages = work.nr_pages.saturating_sub(wrote);
        }
        if let Some((_, progress)) = &mut flusher.began {
            *progress |= wrote > 0 || file.pages.dirty_pages() == 0;
        }
        if file.pages.dirty_pages() == 0 {
            file.listed = false;
        } else if turn.nr_to_write == 0 && file.dirtied_when <= before {
            flusher.b_more_io.push_back(turn.file);
        } else {
            file.dirtied_when = now;
            flusher.b_dirty.push_back(turn.file);
        }
        if now > self.wbs[wb].rates.bw_time_stamp + BANDWIDTH_INTERVAL {
            self.update_wb_bandwidth(wb, &[]);
        }
    }

    /// Gives the next file its turn; false if the work is done.
    pub(super) fn begin_turn(&mut self, wb: usize) -> bool {
        loop {
            let Some(work) = self.flushers[wb].work else {
                return false;
            };
            let now = self.current_tick();
            if let Some((began, progress)) = self.flushers[wb].began {
                let flusher = &mut self.flushers[wb];
                let is_over = progress && (now > began + HZ / 10 || work.nr_pages == 0);
                match flusher.b_io.front().copied().filter(|_| !is_over) {
                    Some(file) => {
                        flusher.b_io.pop_front();
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
            // What may run for ever stops for a sync.
            let gives_way = self.syncing
                && matches!(
                    work.reason,
                    WbReason::Background | WbReason::Periodic { .. }
                );
            let enough = work.nr_pages == 0
                || gives_way
                || (work.reason == WbReason::Background && !self.wb_over_bg_thresh(wb));
            let flusher = &mut self.flushers[wb];
            if enough {
                flusher.work = None;
                return false;
            }
            if flusher.b_io.is_empty() {
                let before = match work.reason {
                    WbReason::Periodic { .. } => {
                        now.saturating_sub(self.hooks.sysctl.dirty_expire_interval)
                    }
                    _ => now,
                };
                flusher.b_io.append(&mut flusher.b_more_io);
                while let Some(file) = flusher.b_dirty.front().copied() {
                    if self.hooks.files[file as usize].dirtied_when > before {
                        break;
                    }
                    flusher.b_dirty.pop_front();
                    flusher.b_io.push_back(file);
                }
                if let Some(work) = &mut flusher.work {
                    work.queued = true;
                }
            }
            flusher.began = Some((now, false));
        }
    }

    fn open_turn(&mut self, index: usize, work: WbWritebackWork, file: u32) {
        let pages = if work.reason == WbReason::Sync {
            u64::MAX
        } else {
            let half_a_second = self.wbs[index].rates.avg_write_bandwidth / 2;
            let most = half_a_second
                .min(self.domain.dirty_limit / 8)
                .min(work.nr_pages);
            (most + TURN) / TURN * TURN
        };
        let origin = self.files[file as usize].writeback_index;
        let now = self.current_tick();
        let flusher = &mut self.flushers[index];
        let wb = &mut self.hooks.wbs[index];
        if wb.writeback_inodes == 0 && now > wb.rates.bw_time_stamp + HZ {
            wb.rates
                .restart_measure(wb.counts.dirtied, wb.counts.written, now);
        }
        // What waits for its pages, as sync does, is not held.
        flusher.call = match work.reason {
            WbReason::Sync => None,
            _ => self.hooks.weir_window_begin(index),
        };
        flusher.turn = Some(WritebackControl {
            file,
            pages,
            nr_to_write: pages,
            origin,
            wrapped: false,
        });
    }

    /// Finds something to do; false if there is nothing.
    pub(super) fn begin_work(&mut self, wb: usize) -> bool {
        let now = self.current_tick();
        let periodic = self.sysctl.dirty_writeback_interval;
        let due = periodic > 0 && now >= self.flushers[wb].last_old_flush + periodic;
        let (reason, nr_pages) = if self.syncing {
            if self.wbs[wb].counts.dirty == 0 {
                return false;
            }
            (WbReason::Sync, u64::MAX)
        } else if std::mem::take(&mut self.flushers[wb].vmscan) {
            (WbReason::Vmscan, self.wbs[wb].counts.dirty)
        } else if due {
            self.flushers[wb].last_old_flush = now;
            let before = now.saturating_sub(self.sysctl.dirty_expire_interval);
            (WbReason::Periodic { before }, self.counts.dirty)
        } else if self.wbs[wb].counts.dirty > 0 && self.wb_over_bg_thresh(wb) {
            (WbReason::Background, u64::MAX)
        } else {
            return false;
        };
        self.flushers[wb].work = Some(WbWritebackWork {
            reason,
            nr_pages,
            queued: false,
        });
        true
    }
}

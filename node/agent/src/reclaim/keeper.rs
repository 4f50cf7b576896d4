// SPDX-License-Identifier: GPL-2.0-only
//! The thread: waits for the trigger, and steps while allocations have to reclaim.

use super::candidates::{self, Reading, ReclaimCounts};
use super::host::{HostMemory, ZoneMemory};
use super::idle::Idle;
use super::settings::ReclaimSettings;
use super::status::ReclaimStatus;
use crate::journal::{Journal, JournalEvent};
use crate::limits::{self, FoundLimit, Mode, Refused};
use crate::saved_limits::SavedLimits;
use crate::tree::{CgroupDir, Hierarchy};
use anyhow::{Context, Result};
use knobs::PAGE;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use policy::UNLIMITED;
use policy::reclaim::{self, Group};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two steps of an episode.
const STEP: Duration = Duration::from_millis(100);
/// Between two looks for cgroups that are new or have grown.
const FIND: Duration = Duration::from_secs(1);
/// An episode ends so long after the last allocation that had to reclaim.
const CALM: Duration = Duration::from_secs(5);
/// A limit that was not come near for so long is put back.
const UNUSED: Duration = Duration::from_secs(10);
/// A cgroup is near its limit with this part of it left.
const NEAR: u64 = 32;
/// Part of memory that a cgroup holds at least to be limited.
const PART: u64 = 100;
/// Changes of a limit by less than 256 KiB are not written.
const CHANGE: u64 = 64;
/// Times that a limit is written over before it is left to the other program.
const CONTESTS: u32 = 10;

/// A cgroup in an episode.
struct Member {
    place: CgroupDir,
    reading: Reading,
    group: Group,
    /// Another program's limit in bytes, which the agent's stands below; none for `max`.
    original: Option<u64>,
    /// Times that another program has written over the agent's limit.
    contests: u32,
    /// The time at which it was last near its limit.
    near: Instant,
}

/// The thread's state.
pub struct ReclaimKeeper {
    host: HostMemory,
    tree: Hierarchy,
    settings: ReclaimSettings,
    saved: SavedLimits,
    journal: Journal,
    status: Arc<Mutex<ReclaimStatus>>,
    trigger: File,
    /// Cgroups of the episode, by inode.
    members: BTreeMap<u64, Member>,
    /// Pages reclaimed and read back of limited cgroups while they were limited.
    limited: ReclaimCounts,
    idle: Idle,
    headroom: u64,
    /// Pages that were free in the last step.
    free: u64,
    stalls: u64,
    /// The time at which an allocation last had to reclaim; none between episodes.
    stalled: Option<Instant>,
    stepped: Instant,
    found: Option<Instant>,
    episodes: u64,
    steps: u64,
    said: Option<String>,
}

impl ReclaimKeeper {
    /// Sets the trigger; nothing else is done before it fires.
    ///
    /// # Errors
    /// The kernel has no such trigger for this process.
    pub fn new(
        host: HostMemory,
        tree: Hierarchy,
        settings: ReclaimSettings,
        saved: SavedLimits,
        journal: Journal,
        status: Arc<Mutex<ReclaimStatus>>,
    ) -> Result<ReclaimKeeper> {
        Ok(ReclaimKeeper {
            trigger: host.set_trigger()?,
            stalls: host.allocation_stalls()?,
            headroom: reclaim::next_headroom(host.read_zones()?.managed, 0, 0, false),
            free: 0,
            limited: ReclaimCounts::default(),
            idle: Idle::new(tree.root()),
            host,
            tree,
            settings,
            saved,
            journal,
            status,
            members: BTreeMap::new(),
            stalled: None,
            stepped: Instant::now(),
            found: None,
            episodes: 0,
            steps: 0,
            said: None,
        })
    }

    /// Runs until the other end of `ended` is closed; then puts all limits back.
    pub fn run(mut self, ended: &UnixStream) {
        while let Ok(fired) = self.wait_for_trigger(ended) {
            if let Err(why) = self.follow_episode(fired) {
                self.report_once(&format!("{why:#}"));
            }
            self.publish_status();
        }
        for (_, member) in std::mem::take(&mut self.members) {
            self.release_limit(&member);
        }
        self.publish_status();
    }

    /// Waits for the trigger or the next step; `true` if the trigger fired, an error if it is over.
    fn wait_for_trigger(&self, ended: &UnixStream) -> Result<bool, ()> {
        let timeout = match self.stalled {
            None => PollTimeout::NONE,
            Some(_) => {
                let left = (self.stepped + STEP).saturating_duration_since(Instant::now());
                // Up to the next millisecond: rounded down it would spin through the last one.
                let left = left + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
            }
        };
        let mut fds = [
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.trigger.as_fd(), PollFlags::POLLPRI),
        ];
        // A signal ends the wait early, which is as good as any other end.
        let _ = poll(&mut fds, timeout);
        match fds.map(|fd| fd.any() == Some(true)) {
            [true, _] => Err(()),
            [false, fired] => Ok(fired),
        }
    }

    fn follow_episode(&mut self, fired: bool) -> Result<()> {
        let stalls = self.host.allocation_stalls()?;
        let stalled = stalls != self.stalls;
        self.stalls = stalls;
        let now = Instant::now();
        match self.stalled {
            None if fired && stalled => {
                self.episodes += 1;
                self.free = 0;
                self.stalled = Some(now);
                self.stepped = now;
                self.journal.log_event(&JournalEvent::ReclaimBegins);
                self.find_members(self.host.read_zones()?.managed, self.host.free_swap()?);
            }
            None => {}
            Some(_) if now < self.stepped + STEP => {
                self.note_stall(stalled, now);
            }
            Some(last) => {
                self.note_stall(stalled, now);
                self.run_step(stalled, now)?;
                let is_calm = !stalled && now - last > CALM;
                if is_calm && self.members.values().all(|of| of.group.limit == UNLIMITED) {
                    self.stalled = None;
                    self.members.clear();
                    self.idle.forget_counts();
                    self.journal.log_event(&JournalEvent::ReclaimEnds);
                }
            }
        }
        Ok(())
    }

    fn note_stall(&mut self, stalled: bool, now: Instant) {
        if stalled {
            self.stalled = Some(now);
        }
    }

    fn run_step(&mut self, stalled: bool, now: Instant) -> Result<()> {
        let elapsed = now - self.stepped;
        self.stepped = now;
        self.steps += 1;
        let ZoneMemory { managed, free } = self.host.read_zones()?;
        let swap = self.host.free_swap()?;
        self.headroom = reclaim::next_headroom(managed, self.headroom, self.free, stalled);
        self.free = free;
        if self.found.is_none_or(|found| now - found >= FIND) {
            self.find_members(managed, swap);
        }
        self.measure_members(elapsed, now, swap);
        let groups: Vec<Group> = self.members.values().map(|member| member.group).collect();
        let host = reclaim::HostMemory {
            memory: free + groups.iter().map(|group| group.usage).sum::<u64>(),
            free,
            headroom: self.headroom,
        };
        let limits = reclaim::next_limits(&host, &groups);
        let inodes: Vec<u64> = self.members.keys().copied().collect();
        for (inode, limit) in inodes.into_iter().zip(limits) {
            self.apply_limit(inode, limit, now);
        }
        self.ask_for_idle(managed, now)
    }

    /// Idle memory goes before that of limited cgroups.
    fn ask_for_idle(&mut self, managed: u64, now: Instant) -> Result<()> {
        let is_wanted = self.members.values().any(|of| of.group.limit != UNLIMITED);
        if !is_wanted || !self.idle.is_due(now) {
            return Ok(());
        }
        let is_first = self.idle.request_idle(managed, self.limited, now);
        if is_first.context("memory.reclaim of the root")? {
            let mib = reclaim::idle_pages(managed) >> 8;
            self.journal.log_event(&JournalEvent::ReclaimIdle { mib });
        }
        Ok(())
    }

    /// Looks for cgroups that are large enough to be limited. Those that are limited stay.
    fn find_members(&mut self, managed: u64, swap: u64) {
        self.found = Some(Instant::now());
        let found = candidates::find_candidates(&self.tree, managed / PART);
        self.members.retain(|inode, member| {
            member.group.limit != UNLIMITED || found.iter().any(|place| place.inode == *inode)
        });
        for place in found {
            if self.settings.is_exempt(&place.path) {
                continue;
            }
            let Some(original) = limits::read_bytes(self.saved.limit(), &place.directory) else {
                continue;
            };
            if let Some(member) = self.members.get_mut(&place.inode) {
                let is_due = member.group.fixed != 0 && member.near.elapsed() > UNUSED;
                if is_due && self.settings.mode == Mode::On && original.is_none() {
                    (member.group.fixed, member.contests) = (0, 0);
                }
                if member.group.limit == UNLIMITED {
                    member.original = original;
                }
                continue;
            }
            let Some(reading) = candidates::read(&self.tree, &place.directory, swap) else {
                continue;
            };
            let group = Group {
                limit: UNLIMITED,
                weight: self.settings.weight_of(&place.path),
                ..Group::default()
            };
            let member = Member {
                reading,
                group,
                original,
                contests: 0,
                near: Instant::now(),
                place,
            };
            self.members.insert(member.place.inode, member);
        }
    }

    /// Reads all counters, and forgets cgroups that are gone.
    fn measure_members(&mut self, elapsed: Duration, now: Instant, swap: u64) {
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let (saved, tree, limited) = (&mut self.saved, &self.tree, &mut self.limited);
        self.members.retain(|_, member| {
            let reading = candidates::read(tree, &member.place.directory, swap);
            let Some(reading) = reading.filter(|_| member.place.is_there()) else {
                // If it cannot be noted now, it will be with the next limit.
                let _ = saved.forget_limit(&member.place);
                return false;
            };
            let before = member.reading;
            let group = &mut member.group;
            group.rate = reclaim::update_rate(group.rate, reading.allocated_since(&before), ms);
            let counts = reading.counts.counts_since(before.counts);
            group.stolen = reclaim::update_rate(group.stolen, counts.stolen, ms);
            group.refaulted = reclaim::update_rate(group.refaulted, counts.refaulted, ms);
            if group.limit != UNLIMITED {
                *limited = limited.add_counts(counts);
            }
            (group.usage, group.protection) = (reading.usage, reading.protection);
            group.pinned = reading.pinned;
            if reading.usage.saturating_add(group.limit / NEAR) >= group.limit {
                member.near = now;
            }
            member.reading = reading;
            true
        });
    }

    fn apply_limit(&mut self, inode: u64, limit: u64, now: Instant) {
        let file = self.saved.limit();
        let Some(member) = self.members.get_mut(&inode) else {
            return;
        };
        let before = Some(member.group.limit).filter(|limit| *limit != UNLIMITED);
        // Unused, no lower than another program's, or nothing can be reclaimed of it any more.
        let original = member.original.map_or(UNLIMITED, |bytes| bytes / PAGE);
        let is_over = now - member.near > UNUSED || limit >= original;
        if before.is_some() && is_over {
            if let Some(member) = self.members.remove(&inode) {
                self.release_limit(&member);
            }
            return;
        }
        if limit >= original || before.is_some_and(|before| before.abs_diff(limit) < CHANGE) {
            return;
        }
        let cgroup = member.place.path.clone();
        if self.settings.mode == Mode::Observe {
            member.group.fixed = 1;
            let (is, bytes) = (member.group.usage, limit);
            self.journal.log_event(&JournalEvent::WouldLimit {
                cgroup,
                usage_mib: is >> 8,
                to_mib: bytes >> 8,
            });
            return;
        }
        match limits::set(
            &mut self.saved,
            &member.place,
            member.original,
            before,
            limit,
        ) {
            Ok(()) => {
                member.group.limit = limit;
                if before.is_none() {
                    member.near = now;
                    self.journal.log_event(&JournalEvent::Limited {
                        cgroup,
                        to_mib: limit >> 8,
                    });
                }
            }
            // The next step stands below it.
            Err(Refused::Found(FoundLimit::Foreign(value))) if member.contests < CONTESTS => {
                member.contests += 1;
                member.group.limit = UNLIMITED;
                member.original = value.parse().ok();
                member.near = now;
            }
            Err(Refused::Found(FoundLimit::Foreign(value))) => {
                member.group.limit = UNLIMITED;
                member.group.fixed = 1;
                member.near = now;
                self.journal.log_event(&JournalEvent::LimitLeft {
                    cgroup,
                    limit: file,
                    value,
                });
            }
            Err(Refused::Found(_)) => {
                self.members.remove(&inode);
            }
            Err(Refused::Failed(why)) => self.report_once(&format!("{cgroup}: {why:#}")),
        }
    }

    /// Puts a cgroup's limit back.
    fn release_limit(&mut self, member: &Member) {
        if member.group.limit == UNLIMITED {
            return;
        }
        let (place, pages) = (&member.place, member.group.limit);
        if let Err(why) = limits::put_back(&mut self.saved, place, pages, &self.journal) {
            self.report_once(&why);
        }
    }

    /// Says what is wrong, once.
    fn report_once(&mut self, why: &str) {
        if self.said.as_deref() != Some(why) {
            self.journal
                .log_event(&JournalEvent::Reclaim { why: why.into() });
            self.said = Some(why.into());
        }
    }

    fn publish_status(&self) {
        let limited = self.members.values();
        let limits = limited.filter(|member| member.group.limit != UNLIMITED);
        let status = ReclaimStatus {
            active: self.stalled.is_some(),
            episodes: self.episodes,
            steps: self.steps,
            headroom: self.headroom,
            idle_asked: self.idle.asked,
            limits: limits
                .map(|member| (member.place.path.clone(), member.group.limit))
                .collect(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

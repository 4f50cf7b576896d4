// SPDX-License-Identifier: GPL-2.0-only
//! Pressure stall information for I/O and memory, by the kernel's own definition.
//!
//! A CPU stalls on I/O, *some*, while any task that last ran on it waits for I/O, and *fully* while
//! none is runnable there besides. The host's figure is the mean over CPUs, weighted by how long
//! each had anything to do at all, taken every two seconds. A cgroup's is the same of its own tasks
//! and those of cgroups below it. A pause in the dirty throttle is waiting for I/O; so is a
//! flusher's wait for a slot of its device. A writer that waits for its next rate-limited write
//! does nothing.
//!
//! Memory is the same with one more who stalls: who *runs* to find some (direct reclaim, kswapd)
//! loses that time too, so a CPU stalls on memory, *some*, while any task there reclaims or waits,
//! and *fully* while no other task is runnable there.
//!
//! Example. Of two CPUs one is idle, the other has one task that pauses half of the time: some and
//! full are 50 %. A flusher that is busy on that CPU all the time: some 50 %, full 0.

use crate::sim::clock::{Ns, TICK};

/// Decay of the 10 s average per 2 s period, in 1/2048 (`EXP_10s`).
const KEPT: u64 = 1677;
const OF: u64 = 2048;

/// Activities of a task or flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsiFlags {
    /// Neither running nor waiting for I/O.
    Nothing,
    /// Running or waiting for a CPU.
    Running,
    /// Waiting for I/O.
    Iowait,
    /// Running, or waiting for a CPU, to find memory.
    MemstallRunning,
    /// Waiting for memory.
    Memstall,
}

/// Stalled time, as PSI counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// At least one task was stalled.
    pub some: Ns,
    /// All tasks with work were stalled.
    pub full: Ns,
}

/// By a group, since the host began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostTime {
    /// Time stalled on I/O.
    pub io: Lost,
    /// Time stalled on memory.
    pub memory: Lost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Tasks by what they do. Who does nothing is not counted in the beginning, so of these there
    /// may be fewer than none.
    tasks: [i32; 5],
    since: Ns,
    lost: LostTime,
    busy: Ns,
}

impl LostTime {
    /// Time lost since it was `before`.
    pub fn growth_since(&self, before: &LostTime) -> LostTime {
        let since = |now: Lost, before: Lost| Lost {
            some: now.some - before.some,
            full: now.full - before.full,
        };
        LostTime {
            io: since(self.io, before.io),
            memory: since(self.memory, before.memory),
        }
    }
}

/// The group of all tasks.
pub const HOST: u32 = 0;

/// Tasks that are looked at together: CPUs, who is on them, and what has been lost.
#[derive(Clone, Debug)]
struct PsiGroup {
    /// Group whose tasks include these.
    parent: Option<u32>,
    cpus: Vec<Cpu>,
    lost: LostTime,
}

impl PsiGroup {
    fn new(parent: Option<u32>, cpus: usize, now: Ns) -> PsiGroup {
        let idle = Cpu {
            since: now,
            ..Cpu::default()
        };
        PsiGroup {
            parent,
            cpus: vec![idle; cpus],
            lost: LostTime::default(),
        }
    }
}

/// The host's pressure and that of its cgroups.
#[derive(Clone, Debug)]
pub struct Psi {
    groups: Vec<PsiGroup>,
    /// A bit for each idle CPU.
    idle: Vec<u64>,
    /// Time of the last averages, and memory's of the host over ten seconds, in 2,048ths of a
    /// percent.
    averaged: Ns,
    memory_10: u64,
}

impl Psi {
    /// Pressure of `cpus` CPUs.
    pub fn new(cpus: u32, now: Ns) -> Psi {
        let cpus = cpus.max(1) as usize;
        let idle = |word: usize| u64::MAX >> (64 - (cpus - word * 64).min(64));
        Psi {
            groups: vec![PsiGroup::new(None, cpus, now)],
            idle: (0..cpus.div_ceil(64)).map(idle).collect(),
            averaged: now,
            memory_10: 0,
        }
    }

    /// One more group, whose tasks are `parent`'s too.
    pub fn add(&mut self, parent: u32, now: Ns) -> u32 {
        let cpus = self.groups[0].cpus.len();
        self.groups.push(PsiGroup::new(Some(parent), cpus, now));
        self.groups.len() as u32 - 1
    }

    fn host_cpus(&self) -> &[Cpu] {
        &self.groups[0].cpus
    }

    /// A CPU for a task that last ran on `last`: that one if idle, else the least busy.
    pub fn choose_cpu(&self, last: u16) -> u16 {
        if self.running_on(last) == 0 {
            return last;
        }
        if let Some(word) = self.idle.iter().position(|word| *word != 0) {
            return (word as u32 * 64 + self.idle[word].trailing_zeros()) as u16;
        }
        let least = self
            .host_cpus()
            .iter()
            .enumerate()
            .min_by_key(|(_, cpu)| cpu.running_tasks());
        least.map_or(last, |(index, _)| index as u16)
    }

    /// Number of tasks that run or want to run on a CPU.
    pub fn running_on(&self, cpu: u16) -> u32 {
        self.host_cpus()[usize::from(cpu)].running_tasks() as u32
    }

    /// A task of a group on `cpu` goes from one state to another.
    pub fn change_state(&mut self, cpu: u16, group: u32, from: PsiFlags, to: PsiFlags, now: Ns) {
        if from == to {
            return;
        }
        let mut next = Some(group);
        while let Some(group) = next {
            let group = &mut self.groups[group as usize];
            group.cpus[usize::from(cpu)].change_state(from, to, now);
            next = group.parent;
        }
        let (word, bit) = (usize::from(cpu) / 64, cpu % 64);
        let is_idle = u64::from(self.running_on(cpu) == 0);
        self.idle[word] = (self.idle[word] & !(1 << bit)) | (is_idle << bit);
    }

    /// Takes the mean over CPUs since the last time.
    pub fn average_groups(&mut self, now: Ns) {
        self.groups
            .iter_mut()
            .for_each(|group| group.average_cpus(now));
    }

    /// The same by the clock, every two seconds: part of an average over ten.
    pub fn update_memory_average(&mut self, now: Ns) {
        let before = std::mem::replace(&mut self.averaged, now);
        let lost = self.groups[0].lost.memory.some;
        self.average_groups(now);
        let lost = self.groups[0].lost.memory.some - lost;
        let now = lost * 100 * OF / (now - before).max(1);
        self.memory_10 = (self.memory_10 * KEPT + now.min(100 * OF) * (OF - KEPT)) / OF;
    }

    /// Percent of the last ten seconds in which a task waited for memory.
    pub fn memory_stall_percent(&self) -> u32 {
        (self.memory_10 / OF) as u32
    }

    /// Time that the host has lost so far to I/O.
    pub fn host_io_lost(&self) -> Lost {
        self.groups[0].lost.io
    }

    /// Time lost so far by each group, the host first.
    pub fn lost_by_group(&self) -> Vec<LostTime> {
        self.groups.iter().map(|group| group.lost).collect()
    }
}

impl PsiGroup {
    fn average_cpus(&mut self, now: Ns) {
        let (mut sums, mut weights) = ([0u128; 4], 0u128);
        for cpu in &mut self.cpus {
            cpu.account_elapsed_time(now);
            let weight = u128::from(cpu.busy / TICK);
            let LostTime { io, memory } = std::mem::take(&mut cpu.lost);
            let lost = [io.some, io.full, memory.some, memory.full];
            for (sum, lost) in sums.iter_mut().zip(lost) {
                *sum += u128::from(lost) * weight;
            }
            weights += weight;
            cpu.busy = 0;
        }
        let mean = sums.map(|sum| (sum / weights.max(1)) as Ns);
        let LostTime { io, memory } = &mut self.lost;
        io.some += mean[0];
        io.full += mean[1];
        memory.some += mean[2];
        memory.full += mean[3];
    }
}

impl Cpu {
    fn running_tasks(&self) -> i32 {
        self.tasks[PsiFlags::Running as usize] + self.tasks[PsiFlags::MemstallRunning as usize]
    }

    fn change_state(&mut self, from: PsiFlags, to: PsiFlags, now: Ns) {
        self.account_elapsed_time(now);
        self.tasks[from as usize] -= 1;
        self.tasks[to as usize] += 1;
        debug_assert!(from == PsiFlags::Nothing || self.tasks[from as usize] >= 0);
    }

    fn account_elapsed_time(&mut self, now: Ns) {
        let elapsed = now - self.since;
        self.since = now;
        let [_, running, waiting, reclaiming, stalled] = self.tasks;
        if waiting > 0 {
            self.lost.io.some += elapsed;
            if running + reclaiming == 0 {
                self.lost.io.full += elapsed;
            }
        }
        if reclaiming + stalled > 0 {
            self.lost.memory.some += elapsed;
            if running == 0 {
                self.lost.memory.full += elapsed;
            }
        }
        if running + waiting + reclaiming + stalled > 0 {
            self.busy += elapsed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::clock::SECOND;

    fn io(psi: &Psi) -> Vec<(Ns, Ns)> {
        let totals = psi.lost_by_group().into_iter();
        totals.map(|lost| (lost.io.some, lost.io.full)).collect()
    }

    #[test]
    fn worked_example() {
        let mut psi = Psi::new(2, 0);
        psi.change_state(0, HOST, PsiFlags::Nothing, PsiFlags::Running, 0);
        psi.change_state(0, HOST, PsiFlags::Running, PsiFlags::Iowait, SECOND);
        psi.average_groups(2 * SECOND);
        assert_eq!(io(&psi), [(SECOND, SECOND)]);
        psi.change_state(0, HOST, PsiFlags::Nothing, PsiFlags::Running, 2 * SECOND);
        psi.average_groups(4 * SECOND);
        assert_eq!(io(&psi), [(3 * SECOND, SECOND)], "somebody runs: not full");
    }

    #[test]
    fn an_idle_cpu_has_no_say() {
        let mut psi = Psi::new(64, 0);
        psi.change_state(5, HOST, PsiFlags::Nothing, PsiFlags::Iowait, 0);
        psi.average_groups(2 * SECOND);
        assert_eq!(io(&psi)[0].1, 2 * SECOND);
    }

    /// Two cgroups on one CPU: one runs all the time, the other waits all the time. It is fully
    /// stalled, the host never.
    #[test]
    fn a_cgroup_knows_its_own_tasks() {
        let mut psi = Psi::new(1, 0);
        let above = psi.add(HOST, 0);
        let (runs, waits) = (psi.add(above, 0), psi.add(above, 0));
        psi.change_state(0, runs, PsiFlags::Nothing, PsiFlags::Running, 0);
        psi.change_state(0, waits, PsiFlags::Nothing, PsiFlags::Iowait, 0);
        psi.average_groups(SECOND);
        let stalled = (SECOND, SECOND);
        assert_eq!(io(&psi), [(SECOND, 0), (SECOND, 0), (0, 0), stalled]);
    }

    /// kswapd on one of two CPUs, alone for a second and beside a task for another; then a task
    /// waits for memory there.
    #[test]
    fn who_looks_for_memory_is_stalled_though_it_runs() {
        let mut psi = Psi::new(2, 0);
        psi.change_state(1, HOST, PsiFlags::Nothing, PsiFlags::MemstallRunning, 0);
        psi.change_state(1, HOST, PsiFlags::Nothing, PsiFlags::Running, SECOND);
        psi.update_memory_average(2 * SECOND);
        let memory = |some, full| LostTime {
            io: Lost::default(),
            memory: Lost { some, full },
        };
        assert_eq!(psi.lost_by_group(), [memory(2 * SECOND, SECOND)]);
        assert_eq!(psi.memory_stall_percent(), 18, "of ten seconds");
        psi.change_state(
            1,
            HOST,
            PsiFlags::MemstallRunning,
            PsiFlags::Nothing,
            2 * SECOND,
        );
        psi.change_state(1, HOST, PsiFlags::Running, PsiFlags::Memstall, 2 * SECOND);
        psi.update_memory_average(4 * SECOND);
        assert_eq!(psi.lost_by_group(), [memory(4 * SECOND, 3 * SECOND)]);
    }
}

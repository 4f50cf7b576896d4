// SPDX-License-Identifier: GPL-2.0-only
//! Pressure stall information for I/O, by the kernel's own definition.
//!
//! A CPU stalls on I/O, *some*, while any task that last ran on it waits for I/O, and *fully* while none is runnable there besides.
//! The host's figure is the mean over CPUs, weighted by how long each had anything to do at all, taken
//! every two seconds. A pause in the dirty throttle is waiting for I/O; so is a flusher's wait for a slot of its device. A writer that
//! waits for its next rate-limited write does nothing.
//!
//! Example. Of two CPUs one is idle, the other has one task that pauses half of the time: some and full are 50 %.
//! A flusher that is busy on that CPU all the time: some 50 %, full 0.

use crate::clock::{Ns, TICK};

/// What a task or flusher is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Neither running nor waiting for I/O.
    Nothing,
    /// Running or waiting for a CPU.
    Running,
    /// Waiting for I/O.
    Waiting,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    running: u32,
    waiting: u32,
    since: Ns,
    some: Ns,
    full: Ns,
    busy: Ns,
}

/// The CPUs, who is on them, and what has been lost.
#[derive(Clone, Debug)]
pub struct Psi {
    cpus: Vec<Cpu>,
    some: Ns,
    full: Ns,
}

impl Psi {
    /// Of `cpus` CPUs.
    pub fn new(cpus: u32, now: Ns) -> Psi {
        let idle = Cpu {
            since: now,
            ..Cpu::default()
        };
        Psi {
            cpus: vec![idle; cpus.max(1) as usize],
            some: 0,
            full: 0,
        }
    }

    /// A CPU for somebody who last ran on `last`: that one if idle, else the least busy.
    pub fn place(&self, last: u16) -> u16 {
        if self.cpus[usize::from(last)].running == 0 {
            return last;
        }
        let least = self
            .cpus
            .iter()
            .enumerate()
            .min_by_key(|(_, cpu)| cpu.running);
        least.map_or(last, |(index, _)| index as u16)
    }

    /// How many run or want to run on a CPU.
    pub fn running(&self, cpu: u16) -> u32 {
        self.cpus[usize::from(cpu)].running
    }

    /// Somebody on `cpu` goes from one state to another.
    pub fn turn(&mut self, cpu: u16, from: Doing, to: Doing, now: Ns) {
        if from == to {
            return;
        }
        let cpu = &mut self.cpus[usize::from(cpu)];
        cpu.pass_time(now);
        match from {
            Doing::Running => cpu.running -= 1,
            Doing::Waiting => cpu.waiting -= 1,
            Doing::Nothing => {}
        }
        match to {
            Doing::Running => cpu.running += 1,
            Doing::Waiting => cpu.waiting += 1,
            Doing::Nothing => {}
        }
    }

    /// Takes the mean over CPUs since the last time.
    pub fn average(&mut self, now: Ns) {
        let (mut some, mut full, mut weights) = (0u128, 0u128, 0u128);
        for cpu in &mut self.cpus {
            cpu.pass_time(now);
            let weight = u128::from(cpu.busy / TICK);
            some += u128::from(cpu.some) * weight;
            full += u128::from(cpu.full) * weight;
            weights += weight;
            (cpu.some, cpu.full, cpu.busy) = (0, 0, 0);
        }
        let weights = weights.max(1);
        self.some += (some / weights) as Ns;
        self.full += (full / weights) as Ns;
    }

    /// Time lost so far, some and full.
    pub fn totals(&self) -> (Ns, Ns) {
        (self.some, self.full)
    }
}

impl Cpu {
    fn pass_time(&mut self, now: Ns) {
        let elapsed = now - self.since;
        self.since = now;
        if self.waiting > 0 {
            self.some += elapsed;
            if self.running == 0 {
                self.full += elapsed;
            }
        }
        if self.waiting + self.running > 0 {
            self.busy += elapsed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn worked_example() {
        let mut psi = Psi::new(2, 0);
        psi.turn(0, Doing::Nothing, Doing::Running, 0);
        psi.turn(0, Doing::Running, Doing::Waiting, SECOND);
        psi.average(2 * SECOND);
        assert_eq!(psi.totals(), (SECOND, SECOND));
        psi.turn(0, Doing::Nothing, Doing::Running, 2 * SECOND);
        psi.average(4 * SECOND);
        assert_eq!(
            psi.totals(),
            (3 * SECOND, SECOND),
            "somebody runs: not full"
        );
    }

    #[test]
    fn an_idle_cpu_has_no_say() {
        let mut psi = Psi::new(64, 0);
        psi.turn(5, Doing::Nothing, Doing::Waiting, 0);
        psi.average(2 * SECOND);
        assert_eq!(psi.totals().1, 2 * SECOND);
    }
}

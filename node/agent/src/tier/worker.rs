// SPDX-License-Identifier: GPL-2.0-only
//! The thread that moves pages, so that the agent goes on with everything else meanwhile.

use crate::tier::choice::Chosen;
use crate::tier::engine::{Engine, Heat, Move, MoveOutcome, Watched};
use crate::tier::host::Tier;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// Work of a step: to move pages, then to look how hot some cgroups' are.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// Moves to carry out.
    pub moves: Vec<Move>,
    /// Cgroups whose heat is wanted then.
    pub watched: Vec<Watched>,
    /// The tiers to move between.
    pub tiers: Vec<Tier>,
}

/// Results of a step.
pub struct StepResults {
    /// One outcome for each move.
    pub outcomes: Vec<MoveOutcome>,
    /// Heat of those it was wanted of, if the engine can tell.
    pub heat: Result<Vec<Heat>, String>,
    /// Why the engine cannot go on.
    pub broken: Option<String>,
}

/// An engine at work. Dropped, it ends what it does.
pub struct Worker {
    /// The engine's name.
    pub name: &'static str,
    /// Why it is this one.
    pub why: String,
    /// `true` if it can tell how hot pages are.
    pub tells_heat: bool,
    todo: Option<Sender<Orders>>,
    done: Receiver<StepResults>,
    /// Readable when a step is done.
    bell: UnixStream,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(chosen: Chosen) -> std::io::Result<Worker> {
        let Chosen { engine, why } = chosen;
        let (name, tells_heat) = (engine.name(), engine.tells_heat());
        let (todo, orders) = channel();
        let (finished, done) = channel();
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("tier".into())
            .spawn(move || run_steps(engine, &orders, &finished, ring, &seen))?;
        Ok(Worker {
            name,
            why,
            tells_heat,
            todo: Some(todo),
            done,
            bell,
            stop,
            thread: Some(thread),
            busy: false,
        })
    }

    /// Returns whether a step is under way.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins a step. There must be none under way.
    pub fn begin_step(&mut self, orders: Orders) {
        let sent = self.todo.as_ref().map(|todo| todo.send(orders));
        self.busy = matches!(sent, Some(Ok(())));
    }

    /// Readable when a step is done.
    pub fn done_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Quiets the bell.
    pub fn clear_wake(&mut self) {
        let mut sink = [0; 8];
        while self.bell.read(&mut sink).is_ok_and(|length| length > 0) {}
    }

    /// The step that is done, if it is.
    pub fn take_done(&mut self) -> Option<StepResults> {
        let done = match self.done.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => StepResults {
                outcomes: Vec::new(),
                heat: Ok(Vec::new()),
                broken: Some("its thread ended".into()),
            },
            Ok(done) => done,
        };
        self.busy = false;
        Some(done)
    }
}

fn run_steps(
    mut engine: Box<dyn Engine>,
    orders: &Receiver<Orders>,
    finished: &Sender<StepResults>,
    mut ring: UnixStream,
    stop: &AtomicBool,
) {
    for orders in orders {
        let outcomes = engine.carry_out_moves(&orders.moves, stop);
        let heat = match orders.watched.is_empty() || engine.why_broken().is_some() {
            true => Ok(Vec::new()),
            false => engine.sample_heat(&orders.tiers, &orders.watched, stop),
        };
        let done = StepResults {
            outcomes,
            heat,
            broken: engine.why_broken(),
        };
        // The receiver is gone: the worker is being dropped.
        if finished.send(done).is_err() || ring.write_all(b"!").is_err() {
            break;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.todo = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said where it happened.
            let _ = thread.join();
        }
    }
}

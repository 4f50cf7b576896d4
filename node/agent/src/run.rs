// SPDX-License-Identifier: GPL-2.0-only
//! The agent as a process: one thread for its controllers, which sleeps until a second is over, a
//! cgroup appears or a signal comes; and threads that answer scrapes, which share nothing with it
//! but what it published last.

use crate::assist::Assistants;
use crate::controller::Controller;
use crate::enforcer::{Enforcer, SharedPolicy};
use crate::http;
use crate::journal::{Journal, JournalEvent};
use crate::metrics::{Exporter, Published, Shown};
use crate::objective::Objectives;
use crate::owed::Stalls;
use crate::policy_file::PolicyFile;
use crate::reclaim::Reclaim;
use crate::reconciler::Reconciler;
use crate::requested_limits::RequestedLimits;
use crate::requests::Requests;
use crate::rules::Rules;
use crate::saved_values::SavedValues;
use crate::stock::Stock;
use crate::stock_section::is_module_loaded;
use crate::tier::{self, host::TierHost};
use crate::tree::Hierarchy;
use anyhow::{Context, Result};
use config::problem::Problems;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use observe::read::cgroup;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_secs(1);

/// Options of a run of the agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policy file; without one it only exports.
    pub policy: Option<PathBuf>,
    /// Rules for pods, which weir-nri writes; the file need not be there.
    pub pods: Option<PathBuf>,
    /// Address to answer scrapes at; no scrapes if left out.
    pub listen: Option<SocketAddr>,
    /// Selects the cgroups that have metrics.
    pub shown: Shown,
    /// Series of who owes whom at most; no look at stalls if 0.
    pub max_stalls: usize,
    /// Time between scans.
    pub scan_every: Duration,
    /// File that keeps what was written over.
    pub state: PathBuf,
    /// The machine's root directory.
    pub root: PathBuf,
}

/// Why the agent ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy is refused at the start; nothing was changed.
    #[error(transparent)]
    Policy(#[from] Problems),
    /// The agent cannot start, or go on: why, for people.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// Runs until SIGTERM or SIGINT; SIGHUP reads the policy again.
///
/// # Errors
/// It cannot start, or go on.
pub fn run(options: &Options, journal: &Journal) -> Result<(), Error> {
    let policy = options
        .policy
        .as_deref()
        .map(|policy| PolicyFile::open(policy, options.pods.as_deref()))
        .transpose()?;
    let (file, rules) = policy.unzip();
    let mut rules = rules.unwrap_or_default();
    rules.stock.follow_module(is_module_loaded(&options.root));
    Ok(run_with_rules(options, file, rules, journal)?)
}

fn run_with_rules(
    options: &Options,
    file: Option<PolicyFile>,
    rules: Rules,
    journal: &Journal,
) -> Result<()> {
    let cgroups = cgroup::mounted_directory(&options.root)?;
    let tree = Hierarchy::open(&cgroups)?;
    let saved = SavedValues::open(&options.state)?;
    let mut signals = Signals::register_signals().context("cannot take signals")?;
    let exporter = Arc::new(Exporter::new(
        options.root.clone(),
        tree.clone(),
        options.shown.clone(),
    ));
    let listening = options.listen.map(bind_listener).transpose()?;
    journal.log_event(&JournalEvent::Started {
        listen: listening.as_ref().map(|(_, address)| address.to_string()),
        rules: rules.len(),
    });
    let others = SharedPolicy::from_rules(&rules);
    let directory = options.state.parent().unwrap_or(Path::new("/"));
    let tiers = tier::balancer::TierBalancer::new(
        TierHost::at_root(&options.root),
        tree.clone(),
        Rc::clone(&others.tier),
        directory.into(),
        journal.clone(),
    );
    let reclaim = Reclaim::new(
        &options.root,
        tree.clone(),
        Rc::clone(&others.reclaim),
        directory,
        journal.clone(),
    );
    let assistants = Assistants::new(
        &options.root,
        tree.clone(),
        Rc::clone(&others.assist),
        journal.clone(),
    );
    let asked = RequestedLimits::default();
    let objectives = Objectives::new(
        tree.clone(),
        Rc::clone(&others.objectives),
        (Rc::clone(&others.stock), asked.clone()),
        directory,
        journal.clone(),
    );
    let requests = Requests::new(&options.root, rules.requests, journal.clone());
    let stock = Stock::new(
        &options.root,
        tree.clone(),
        Rc::clone(&others.rules),
        (asked, requests.clone()),
        directory,
        journal.clone(),
    );
    let stalls = Stalls::new(&options.root, &tree, options.max_stalls, journal);
    let reconciler = Reconciler::new(tree, rules, requests, saved, journal.clone());
    let every = options.scan_every;
    let root = &options.root;
    let enforcer = Enforcer::start(reconciler, file, journal.clone(), every, others, root);
    let mut controllers: Vec<Box<dyn Controller>> = vec![
        Box::new(enforcer),
        Box::new(tiers),
        Box::new(reclaim),
        Box::new(assistants),
        Box::new(objectives),
        Box::new(stock),
        Box::new(stalls),
    ];
    publish_metrics(&controllers, &exporter);
    if let Some((listener, address)) = listening {
        if !address.ip().is_loopback() {
            journal.log_event(&JournalEvent::Exposed {
                listen: address.to_string(),
            });
        }
        let answering = Arc::clone(&exporter);
        http::serve_requests(
            listener,
            Arc::new(move |request| answering.answer_request(request)),
        )
        .context("cannot answer scrapes")?;
    }
    let mut next = Instant::now() + TICK;
    loop {
        let woken = wait_for_events(&controllers, &signals, next).context("cannot wait")?;
        for at in woken {
            controllers[at].on_wake();
        }
        match signals.take_signal() {
            Some(Signal::End) => break,
            Some(Signal::Reload) => controllers.iter_mut().for_each(|part| part.reload()),
            None => {}
        }
        if Instant::now() >= next {
            controllers.iter_mut().for_each(|part| part.on_tick());
            // After a pause, as of a machine that slept, ticks are not made up for.
            next = Instant::now() + TICK;
        }
        publish_metrics(&controllers, &exporter);
    }
    journal.log_event(&JournalEvent::Ended);
    Ok(())
}

fn bind_listener(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let bound = TcpListener::bind(address)
        .and_then(|listener| Ok((listener.local_addr()?, listener)))
        .with_context(|| format!("cannot listen on {address}: give another with --listen"))?;
    Ok((bound.1, bound.0))
}

fn publish_metrics(controllers: &[Box<dyn Controller>], exporter: &Exporter) {
    exporter.store_published(Published {
        families: controllers
            .iter()
            .map(|part| part.metric_families())
            .collect(),
        kept: controllers
            .iter()
            .flat_map(|part| part.preferred_cgroups())
            .collect(),
    });
}

/// Sleeps until something happens; the controllers that are woken.
fn wait_for_events(
    controllers: &[Box<dyn Controller>],
    signals: &Signals,
    until: Instant,
) -> nix::Result<Vec<usize>> {
    let bells = controllers
        .iter()
        .enumerate()
        .filter_map(|(at, part)| Some((at, part.wake_fd()?)));
    let bells: Vec<_> = bells.collect();
    let mut fds = vec![PollFd::new(signals.bell.as_fd(), PollFlags::POLLIN)];
    fds.extend(
        bells
            .iter()
            .map(|(_, fd)| PollFd::new(*fd, PollFlags::POLLIN)),
    );
    let left = until.saturating_duration_since(Instant::now());
    // Up to the next millisecond: rounded down it would spin through the last one.
    let left = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, left) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(why) => return Err(why),
    }
    let rung = fds[1..].iter().map(|fd| fd.any() == Some(true));
    Ok(rung
        .zip(&bells)
        .filter(|(rung, _)| *rung)
        .map(|(_, (at, _))| *at)
        .collect())
}

/// Signals as something to poll.
struct Signals {
    bell: UnixStream,
    end: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

enum Signal {
    End,
    Reload,
}

impl Signals {
    fn register_signals() -> std::io::Result<Signals> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let signals = Signals {
            bell,
            end: Arc::default(),
            reload: Arc::default(),
        };
        for (signal, flag) in [
            (SIGTERM, &signals.end),
            (SIGINT, &signals.end),
            (SIGHUP, &signals.reload),
        ] {
            // In this order: who is woken finds the flag set.
            flag::register(signal, Arc::clone(flag))?;
            pipe::register(signal, ring.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Takes the signal that came since the last call.
    fn take_signal(&mut self) -> Option<Signal> {
        let mut sink = [0; 64];
        while self
            .bell
            .read(&mut sink)
            .is_ok_and(|length| length == sink.len())
        {}
        if self.end.load(Ordering::Relaxed) {
            return Some(Signal::End);
        }
        self.reload
            .swap(false, Ordering::Relaxed)
            .then_some(Signal::Reload)
    }
}

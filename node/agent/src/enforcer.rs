// SPDX-License-Identifier: GPL-2.0-only
//! The policy as a controller: its file, who keeps the knobs, and when they look.

use crate::assist::settings as assist;
use crate::controller::Controller;
use crate::family::Family;
use crate::journal::{Journal, JournalEvent};
use crate::limits::Mode;
use crate::objective::settings as objective;
use crate::policy_file::PolicyFile;
use crate::reclaim::settings as reclaim;
use crate::reconciler::Reconciler;
use crate::rules::Rules;
use crate::stock_section as stock;
use crate::tier::settings as tier;
use config::problem::Problems;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Keeps a hierarchy as a policy file says.
pub struct Enforcer {
    reconciler: Reconciler,
    file: Option<PolicyFile>,
    journal: Journal,
    scan_every: Duration,
    scanned: Instant,
    scanning: Duration,
    /// `true` if the file as it is now is in effect.
    accepted: bool,
    /// Since when, in seconds since the epoch.
    accepted_at: f64,
    reloads: [u64; 2],
    shared: SharedPolicy,
    /// The machine's root directory, below which the module shows its state.
    root: PathBuf,
    is_module_loaded: bool,
}

/// Sections of a policy that other controllers read.
#[derive(Clone)]
pub struct SharedPolicy {
    /// The policy's section of tiers.
    pub tier: Rc<RefCell<tier::TierSettings>>,
    /// The policy's section of allocators.
    pub reclaim: Rc<RefCell<reclaim::ReclaimSettings>>,
    /// The policy's section of assistants of flushers.
    pub assist: Rc<RefCell<assist::AssistSettings>>,
    /// The policy's section of stock mode.
    pub stock: Rc<RefCell<stock::StockSettings>>,
    /// The whole policy, for the part that keeps rules without the module.
    pub rules: Rc<RefCell<Rules>>,
    /// The policy's objectives, in file order.
    pub objectives: Rc<RefCell<Vec<objective::ObjectiveSettings>>>,
}

impl SharedPolicy {
    /// Knobs by state, as `rules` name them.
    pub fn from_rules(rules: &Rules) -> SharedPolicy {
        SharedPolicy {
            tier: Rc::new(RefCell::new(rules.tier.clone())),
            reclaim: Rc::new(RefCell::new(rules.reclaim.clone())),
            assist: Rc::new(RefCell::new(rules.assist.clone())),
            stock: Rc::new(RefCell::new(rules.stock.clone())),
            rules: Rc::new(RefCell::new(rules.clone())),
            objectives: Rc::new(RefCell::new(rules.objectives.clone())),
        }
    }

    fn store_rules(&self, rules: &Rules) {
        *self.tier.borrow_mut() = rules.tier.clone();
        *self.reclaim.borrow_mut() = rules.reclaim.clone();
        *self.assist.borrow_mut() = rules.assist.clone();
        *self.stock.borrow_mut() = rules.stock.clone();
        *self.rules.borrow_mut() = rules.clone();
        *self.objectives.borrow_mut() = rules.objectives.clone();
    }
}

impl Enforcer {
    /// Scans for the first time.
    pub fn start(
        reconciler: Reconciler,
        file: Option<PolicyFile>,
        journal: Journal,
        scan_every: Duration,
        others: SharedPolicy,
        root: &Path,
    ) -> Enforcer {
        let mut enforcer = Enforcer {
            reconciler,
            file,
            journal,
            scan_every,
            scanned: Instant::now(),
            scanning: Duration::ZERO,
            accepted: true,
            accepted_at: seconds_since_epoch(),
            reloads: [0; 2],
            shared: others,
            root: root.into(),
            is_module_loaded: stock::is_module_loaded(root),
        };
        enforcer.tell_mode();
        enforcer.scan_hierarchy();
        enforcer
    }

    fn scan_hierarchy(&mut self) {
        self.scanned = Instant::now();
        self.reconciler.scan_all();
        self.scanning += self.scanned.elapsed();
    }

    fn apply_policy(&mut self, read: Result<Rules, Problems>) {
        self.accepted = read.is_ok();
        self.reloads[usize::from(self.accepted)] += 1;
        match read {
            Ok(rules) => {
                self.accepted_at = seconds_since_epoch();
                self.journal
                    .log_event(&JournalEvent::Policy { rules: rules.len() });
                self.put_in_effect(rules);
            }
            Err(problems) => self.journal.log_event(&JournalEvent::Refused {
                problems: problems.0,
            }),
        }
    }
}

impl Enforcer {
    fn put_in_effect(&mut self, mut rules: Rules) {
        rules.stock.follow_module(self.is_module_loaded);
        self.shared.store_rules(&rules);
        self.reconciler.follow_rules(rules);
    }

    /// Has an automatic stock mode begin or end as the module goes or comes. The knobs are set here,
    /// before the next controller puts back what stood for them: no cgroup is without either.
    fn follow_module(&mut self) {
        let is_loaded = stock::is_module_loaded(&self.root);
        if std::mem::replace(&mut self.is_module_loaded, is_loaded) == is_loaded {
            return;
        }
        if self.reconciler.rules().stock.is_automatic {
            self.put_in_effect(self.reconciler.rules().clone());
            self.tell_mode();
        }
    }

    /// Says which way an automatic mode went.
    fn tell_mode(&self) {
        if self.reconciler.rules().stock.is_automatic {
            self.journal.log_event(&JournalEvent::Mode {
                mode: self.current_mode(),
            });
        }
    }

    /// The means by which rules are kept.
    fn current_mode(&self) -> &'static str {
        match (self.reconciler.rules().stock.mode, self.is_module_loaded) {
            (Mode::On, _) => "stock",
            (Mode::Off, true) => "module",
            _ => "none",
        }
    }
}

fn seconds_since_epoch() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

impl Controller for Enforcer {
    fn on_tick(&mut self) {
        if let Some(read) = self.file.as_mut().and_then(PolicyFile::reread_if_changed) {
            self.apply_policy(read);
        }
        self.follow_module();
        if self.reconciler.is_overdue() || self.scanned.elapsed() >= self.scan_every {
            self.scan_hierarchy();
        } else {
            self.reconciler.retry_failed();
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.reconciler.watch().map(|watch| watch.as_fd())
    }

    fn on_wake(&mut self) {
        self.reconciler.visit_new_cgroups();
    }

    fn reload(&mut self) {
        if let Some(read) = self.file.as_mut().map(PolicyFile::read) {
            self.apply_policy(read);
        }
    }

    fn preferred_cgroups(&self) -> Vec<PathBuf> {
        self.reconciler.kept_directories()
    }

    fn metric_families(&self) -> Arc<[Family]> {
        let counts = self.reconciler.counts();
        let gauge = |name, help, value: u64| Family::gauge(name, help).with(value);
        let mut knobs = Family::gauge(
            "weir_agent_knobs",
            "Knobs that rules name, by how they stand.",
        );
        for (state, number) in [
            ("set", counts.set),
            ("waiting", counts.waiting),
            ("failing", counts.failing),
        ] {
            knobs.add(&[("state", &Arc::from(state))], number);
        }
        let mut writes = Family::counter(
            "weir_agent_writes",
            "Attempts to set a knob, by how they ended.",
        );
        let mut requests = Family::gauge(
            "weir_agent_requests",
            "What units and containers ask for, by whether they get it.",
        );
        let (granted, refused) = self.reconciler.requests().count_requests();
        for (state, number) in [("granted", granted), ("refused", refused)] {
            requests.add(&[("state", &Arc::from(state))], number);
        }
        let mut modes = Family::gauge(
            "weir_agent_mode",
            "1 for what rules are kept by: the module, files of the stock kernel, or none.",
        );
        for mode in ["module", "stock", "none"] {
            modes.add(&[("mode", &Arc::from(mode))], mode == self.current_mode());
        }
        let mut reloads = Family::counter(
            "weir_agent_policy_reloads",
            "Times the policy was read again.",
        );
        for (result, wrote, read) in [
            ("failed", counts.failed, self.reloads[0]),
            ("succeeded", counts.written, self.reloads[1]),
        ] {
            let result: Arc<str> = result.into();
            writes.add(&[("result", &result)], wrote);
            reloads.add(&[("result", &result)], read);
        }
        Arc::from([
            modes,
            gauge(
                "weir_agent_rules",
                "Rules in effect.",
                self.reconciler.rules().len() as u64,
            ),
            Family::gauge(
                "weir_agent_policy_accepted",
                "0 if the policy file as it is now was refused.",
            )
            .with(self.accepted),
            Family::gauge(
                "weir_agent_policy_accepted_timestamp",
                "When the rules in effect were read, since the epoch.",
            )
            .in_seconds()
            .with(self.accepted_at),
            reloads,
            gauge(
                "weir_agent_cgroups",
                "Cgroups that the last scan found.",
                counts.cgroups,
            ),
            gauge(
                "weir_agent_watched_cgroups",
                "Cgroups whose children are heard of at once.",
                counts.watched,
            ),
            knobs,
            requests,
            writes,
            Family::counter("weir_agent_scans", "Scans of all cgroups.").with(counts.scans),
            Family::counter("weir_agent_scanning", "Time that regular scans took.")
                .in_seconds()
                .with(self.scanning.as_secs_f64()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::open_metrics;
    use crate::journal::Said;
    use crate::requests::Requests;
    use crate::saved_values::SavedValues;
    use crate::tree::Hierarchy;
    use std::fs;

    #[test]
    fn the_module_takes_over_and_leaves() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path();
        let (cgroup, module) = (root.join("cgroup/db"), root.join("sys/kernel/weir"));
        fs::create_dir_all(&cgroup).expect("made");
        let policy = root.join("agent.toml");
        let text = "[stock]\nmode = \"auto\"\n\
                    [[rule]]\ncgroup = \"/db\"\nset = { \"memory.dirty_bytes\" = \"8M\" }\n";
        fs::write(&policy, text).expect("written");
        let (file, rules) = PolicyFile::open(&policy, None).expect("valid");
        let tree = Hierarchy::open(&root.join("cgroup")).expect("a hierarchy");
        let said = Said::default();
        let journal = Journal::new(said.clone(), false);
        let requests = Requests::new(root, rules.requests, journal.clone());
        let saved = SavedValues::open(&root.join("agent.json")).expect("none");
        let shared = SharedPolicy::from_rules(&rules);
        let reconciler = Reconciler::new(tree, rules, requests, saved, journal.clone());
        let every = Duration::from_secs(3600);
        let mut enforcer =
            Enforcer::start(reconciler, Some(file), journal, every, shared.clone(), root);
        enforcer.on_tick();
        let is_stock = || shared.rules.borrow().stock.is_stock();
        let mode = |enforcer: &Enforcer| {
            let text = open_metrics(enforcer.metric_families().to_vec()).expect("written");
            let line = text
                .lines()
                .find(|line| line.starts_with("weir_agent_mode") && line.ends_with(" 1"));
            line.map(String::from).unwrap_or_default()
        };
        assert!(is_stock() && mode(&enforcer).contains("stock"));

        // As the module does: its files, and then its state.
        fs::write(cgroup.join("memory.dirty_bytes"), "max\n").expect("written");
        fs::create_dir_all(&module).expect("made");
        fs::write(module.join("state"), "idle\n").expect("written");
        enforcer.on_tick();
        let knob = fs::read_to_string(cgroup.join("memory.dirty_bytes")).expect("there");
        assert_eq!(knob.trim(), "8M", "the request is kept by the module");
        assert!(!is_stock() && mode(&enforcer).contains("module"));

        // A policy that is read again does not change that.
        fs::write(&policy, format!("{text}# more\n")).expect("written");
        enforcer.reload();
        assert!(!is_stock());

        fs::remove_dir_all(&module).expect("removed");
        fs::remove_file(cgroup.join("memory.dirty_bytes")).expect("removed");
        enforcer.on_tick();
        assert!(is_stock() && mode(&enforcer).contains("stock"));
        let said = said.take_text();
        assert_eq!(said.matches("mode ").count(), 3, "{said}");
    }
}

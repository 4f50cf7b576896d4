// SPDX-License-Identifier: GPL-2.0-only
//! `weir agent` in arm `weir` of a scenario that has an agent: started when the knobs are set,
//! ended with the last phase.
//!
//! What it says goes to the console, for people.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scenario::model::Agent;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const POLICY: &str = "/etc/weir/agent.toml";
/// Time that the agent may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running agent.
pub struct RunningAgent(Child);

impl RunningAgent {
    /// Writes its policy and starts it.
    pub fn start(agent: &Agent) -> Result<RunningAgent> {
        for directory in ["/etc/weir", "/run/weir"] {
            fs::create_dir_all(directory).with_context(|| format!("making {directory}"))?;
        }
        fs::write(POLICY, policy_text(agent)).context(POLICY)?;
        let child = Command::new("weir")
            .args(["agent", "--listen", "none", "--policy", POLICY])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start weir agent")?;
        Ok(RunningAgent(child))
    }

    /// Fails if it has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.0.try_wait().context("waiting for weir agent")? {
            Some(status) => {
                bail!("weir agent ended ({status}); the console's log has what it said")
            }
            None => Ok(()),
        }
    }

    /// Ends it as a service manager would.
    pub fn end_agent(mut self) -> Result<()> {
        self.check_alive()?;
        let pid = Pid::from_raw(i32::try_from(self.0.id())?);
        kill(pid, Signal::SIGTERM).context("ending weir agent")?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.0.try_wait().context("waiting for weir agent")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("weir agent failed as it ended: {status}"),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        bail!("weir agent did not end within {} s", PATIENCE.as_secs())
    }
}

fn policy_text(agent: &Agent) -> String {
    let reclaim = if agent.reclaim { "[reclaim]\n" } else { "" };
    format!(
        "{reclaim}[tier]\nengine = \"{}\"\nlend = {}\ninterval = \"{}ms\"\n{}",
        agent.engine, agent.lend, agent.interval_ms, agent.policy
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_says_what_the_scenario_does() {
        let agent = Agent {
            engine: "damon".into(),
            lend: false,
            interval_ms: 500,
            reclaim: true,
            policy: "[[rule]]\n".into(),
        };
        assert_eq!(
            policy_text(&agent),
            "[reclaim]\n[tier]\nengine = \"damon\"\nlend = false\ninterval = \"500ms\"\n[[rule]]\n"
        );
    }
}

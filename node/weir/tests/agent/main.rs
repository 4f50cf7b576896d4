// SPDX-License-Identifier: GPL-2.0-only
//! `weir agent` as a process, on a machine of plain files; `make metrics` has a real Prometheus
//! scrape it, and `guest/agent.sh` has it on a real kernel.

mod machine;
mod prometheus;

use assert_cmd::Command;
use machine::{Agent, Machine, get, until};
use predicates::str::{contains, starts_with};
use std::fs;
use std::path::PathBuf;

const FLOOR: &str =
    "[[rule]]\ncgroup = \"/pods.slice/*\"\nset = { \"memory.dirty_min\" = \"16M\" }\n";

/// A machine with one pod's cgroup, and a policy file.
fn bench(policy: &str) -> (Machine, PathBuf) {
    let machine = Machine::new();
    machine.appear("pods.slice");
    machine.appear("pods.slice/db.scope");
    machine.write("etc/agent.toml", policy);
    let file = machine.root().join("etc/agent.toml");
    (machine, file)
}

fn floor(machine: &Machine, cgroup: &str) -> String {
    let text = fs::read_to_string(machine.cgroup(cgroup, "memory.dirty_min")).expect("there");
    text.trim().into()
}

#[test]
fn knobs_are_kept_through_reloads_and_restarts() {
    let (machine, policy) = bench(FLOOR);
    let mut agent = Agent::start(&machine, &policy, &[]);
    let set = |cgroup: &str, line| {
        format!("/pods.slice/{cgroup}: memory.dirty_min = 16M, was 0 (rule at line {line})")
    };
    assert_eq!(agent.says(), set("db.scope", 1));
    machine.appear("pods.slice/batch.scope");
    assert_eq!(agent.says(), set("batch.scope", 1), "heard of at once");

    machine.write("etc/agent.toml", "[[rule]]\ncgroup = \"pods\"\n");
    assert_eq!(
        agent.says(),
        "error: the policy is refused, the one before stays in effect"
    );
    assert!(
        agent
            .says()
            .contains("agent.toml:1: key `rule[0]`: `set` is missing")
    );
    assert!(
        agent
            .says()
            .contains("agent.toml:2: key `rule[0].cgroup`: `pods` would match no cgroup")
    );
    let metrics = || get(&agent.address, "/metrics", "").expect("answered");
    until("the refusal in metrics", || {
        metrics().contains("\nweir_agent_policy_accepted 0\n")
    });
    assert_eq!(floor(&machine, "pods.slice/db.scope"), "16M");
    assert!(metrics().contains("\nweir_agent_knobs{state=\"set\"} 2\n"));

    machine.write(
        "etc/agent.toml",
        "[[rule]]\ncgroup = \"/pods.slice/db*\"\nset = { \"memory.dirty_min\" = \"32M\" }\n",
    );
    agent.signal("HUP");
    assert_eq!(agent.says(), "policy read again: 1 rules");
    let mut said = [agent.says(), agent.says()];
    said.sort();
    assert_eq!(
        said,
        [
            "/pods.slice/batch.scope: memory.dirty_min = 0 as before, was 16M (nothing names it any more)",
            "/pods.slice/db.scope: memory.dirty_min = 32M, was 16M (rule at line 1)",
        ]
    );
    assert_eq!(agent.end(), ["ended; knobs stay as they are"]);
    assert_eq!(floor(&machine, "pods.slice/db.scope"), "32M");

    machine.write("etc/agent.toml", "# nothing any more\n");
    let mut agent = Agent::start(&machine, &policy, &[]);
    assert_eq!(
        agent.says(),
        "/pods.slice/db.scope: memory.dirty_min = 0 as before, was 32M (nothing names it any more)"
    );
    assert_eq!(agent.end(), ["ended; knobs stay as they are"]);
}

#[test]
fn programs_are_told_in_json() {
    let (machine, policy) = bench(FLOOR);
    let state = machine.root().join("run/agent.json");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["agent", "--json", "--listen", "none", "--root"])
        .arg(machine.root())
        .arg("--policy")
        .arg(&policy)
        .arg("--state")
        .arg(&state)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let out = child.stdout.take().expect("piped");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    let mut next = || -> serde_json::Value {
        let line = lines.next().expect("says something").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(
        next(),
        serde_json::json!({"event": "started", "listen": null, "rules": 1})
    );
    let set = serde_json::json!({
        "event": "set", "cgroup": "/pods.slice/db.scope", "knob": "memory.dirty_min", "from": "0", "to": "16M", "line": 1,
    });
    assert_eq!(next(), set);
    // Its reader is gone: the agent goes on without.
    drop(lines);
    machine.appear("pods.slice/batch.scope");
    until("a floor that nobody is told of", || {
        floor(&machine, "pods.slice/batch.scope") == "16M"
    });
    child.kill().expect("ended");
    child.wait().expect("ended");
}

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

#[test]
fn a_policy_is_checked_without_running() {
    let (machine, policy) = bench(FLOOR);
    weir()
        .args(["agent", "--check"])
        .arg(&policy)
        .assert()
        .code(0)
        .stdout(contains("agent.toml: valid: 1 rule\n"));
    weir()
        .args(["agent", "--dry-run", "--root"])
        .arg(machine.root())
        .arg("--check")
        .arg(&policy)
        .assert()
        .code(0)
        .stdout(contains(
            ": 1 cgroup\n  /pods.slice/db.scope: memory.dirty_min = ",
        ))
        .stdout(contains(", is 0\n"));
    assert_eq!(
        floor(&machine, "pods.slice/db.scope"),
        "0",
        "nothing is written"
    );
    machine.write(
        "etc/agent.toml",
        "[[rule]]\ncgroup = \"/a\"\nset = { \"memory.dirty_ratio\" = 200 }\n",
    );
    let why = format!(
        "{}:3: key `rule[0].set.\"memory.dirty_ratio\"`: memory.dirty_ratio: invalid value `200`: expected a whole number from 0 (off) to 100\n",
        policy.display()
    );
    weir()
        .args(["agent", "--check"])
        .arg(&policy)
        .assert()
        .code(1)
        .stderr(why.clone());
    weir()
        .args(["agent", "--json", "--check"])
        .arg(&policy)
        .assert()
        .code(1)
        .stdout(contains("\"line\": 3"));
    // It does not even start with it.
    weir()
        .args(["agent", "--listen", "none", "--policy"])
        .arg(&policy)
        .arg("--root")
        .arg(machine.root())
        .assert()
        .code(1)
        .stderr(why);
    assert_eq!(floor(&machine, "pods.slice/db.scope"), "0");
}

#[test]
fn what_keeps_it_from_starting_is_said() {
    let (machine, policy) = bench(FLOOR);
    let start = |options: &[&str]| {
        let mut command = weir();
        command
            .args(["agent", "--policy"])
            .arg(&policy)
            .arg("--root")
            .arg(machine.root());
        command
            .arg("--state")
            .arg(machine.root().join("run/agent.json"))
            .args(options);
        command.assert().code(2)
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    start(&["--listen", &address]).stderr(starts_with(format!(
        "weir: cannot listen on {address}: give another with --listen"
    )));
    start(&["--listen", "localhost"]).stderr(contains("write an address and a port"));
    start(&["--show", "pods"]).stderr(contains("would match no cgroup"));
    machine.write("run/agent.json", "{");
    start(&["--listen", "none"]).stderr(contains(
        "agent.json does not say what the knobs were before: remove it",
    ));
    let nowhere = machine.root().join("etc");
    let nowhere = nowhere.to_str().expect("text");
    weir()
        .args(["agent", "--listen", "none", "--root", nowhere])
        .assert()
        .code(2)
        .stderr(contains("no cgroup2 is mounted at"));
    assert_eq!(
        floor(&machine, "pods.slice/db.scope"),
        "0",
        "nothing was set"
    );
}

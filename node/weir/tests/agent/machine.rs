// SPDX-License-Identifier: GPL-2.0-only
//! A machine of plain files, and the agent looking at it.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for any machine; nothing waits that long where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its files are below a directory.
pub struct Machine(tempfile::TempDir);

impl Machine {
    /// With the module loaded, a disk, and no cgroups yet.
    pub fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().expect("made"));
        for (file, text) in [
            ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
            ("sys/kernel/weir/state", "active\n"),
            ("sys/kernel/weir/limit_bytes", "33554432\n"),
            ("sys/kernel/weir/limit_in_force_bytes", "16777216\n"),
            ("sys/kernel/weir/floors_bytes", "16777216\n"),
            ("sys/kernel/weir/floors_wanted_bytes", "16777216\n"),
            ("sys/kernel/weir/unused_bytes", "8388608\n"),
            ("sys/kernel/weir/groups", "1\n"),
            ("sys/kernel/weir/missed", "0\n"),
            ("sys/kernel/weir/beat_age_ms", "120\n"),
            ("sys/class/bdi/254:0/max_ratio", "100\n"),
            (
                "proc/self/mountinfo",
                "32 1 254:0 / /mnt/d rw,relatime - ext4 /dev/vda rw\n",
            ),
        ] {
            machine.write(file, text);
        }
        machine.go_on(0);
        machine
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Where a file of a cgroup is.
    pub fn cgroup(&self, path: &str, file: &str) -> PathBuf {
        self.root().join("sys/fs/cgroup").join(path).join(file)
    }

    /// Makes or replaces a file.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) {
        let file = self.root().join(file);
        fs::create_dir_all(file.parent().expect("has one")).expect("made");
        fs::write(file, text).expect("written");
    }

    /// Time goes on: counters are those of the second `now`.
    pub fn go_on(&self, now: u64) {
        self.write(
            "proc/vmstat",
            "nr_dirty 2048\nnr_writeback 512\nnr_dirty_threshold 8192\nnr_dirty_background_threshold 4096\n",
        );
        let (sectors, busy) = (now * 2048, now * 500);
        self.write(
            "proc/diskstats",
            &format!(" 254       0 vda 10 0 80 5 20 0 {sectors} 9 0 {busy} 14 0 0 0 0\n"),
        );
        for cgroup in [
            "pods.slice",
            "pods.slice/db.scope",
            "pods.slice/batch.scope",
        ] {
            if self.cgroup(cgroup, "").exists() {
                self.fill(cgroup, now);
            }
        }
    }

    /// A cgroup with all its files, which appears at once.
    pub fn appear(&self, cgroup: &str) {
        let name = cgroup.replace('/', "-");
        let aside = format!("../../../aside/{name}");
        for (file, value) in [
            ("memory.dirty_min", "0"),
            ("memory.dirty_bytes", "max"),
            ("memory.dirty_ratio", "0"),
            ("memory.dirty_bandwidth", "max"),
            ("memory.dirty_weight", "100"),
            ("memory.writeback_bytes", "max"),
        ] {
            self.write(self.cgroup(&aside, file), &format!("{value}\n"));
        }
        self.fill(&aside, 0);
        fs::rename(self.cgroup(&aside, ""), self.cgroup(cgroup, "")).expect("moved");
    }

    fn fill(&self, cgroup: &str, now: u64) {
        let (written, waited, slept) = (now << 20, now * 100_000, now * 50_000);
        for (file, text) in [
            (
                "memory.stat",
                "file_dirty 4194304\nfile_writeback 1048576\nactive_file 1\ninactive_file 2\n"
                    .into(),
            ),
            (
                "io.stat",
                format!("254:0 rbytes=10 wbytes={written} rios=1 wios={now}\n"),
            ),
            (
                "io.pressure",
                format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={waited}\n"),
            ),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n".into(),
            ),
            ("memory.dirty_stat", dirty_stat(now, slept)),
        ] {
            self.write(self.cgroup(cgroup, file), &text);
        }
    }
}

fn dirty_stat(now: u64, slept: u64) -> String {
    let mut text = format!(
        "in_effect 1\ndirty 4194304\nwriteback 1048576\nfloor 16777216\nfloor_unused 8388608\nceiling 67108864\n\
         nr_passes {passes}\nnr_floor_admitted {now}\nnr_ceiling_held {now}\nnr_weight_held {now}\nweight_held_usec {slept}\n\
         nr_bandwidth_held {now}\nbandwidth_held_usec {slept}\n\
         nr_writeback_held {now}\nwriteback_held_usec {slept}\n",
        passes = 4 * now
    );
    for by in ["unknown", "host", "cgroup", "ceiling", "ancestor", "device"] {
        text.push_str(&format!(
            "nr_throttled_by_{by} {now}\nthrottled_by_{by}_usec {slept}\n"
        ));
    }
    text
}

/// Waits until `done`, and says what was waited for if that takes forever.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited a minute for this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running agent.
pub struct Agent {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    /// Where its metrics are.
    pub address: String,
}

impl Agent {
    /// Starts it on a free port, with a scan an hour.
    pub fn start(machine: &Machine, policy: &Path, options: &[&str]) -> Agent {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("agent")
            .args(["--listen", "127.0.0.1:0", "--scan-every", "60m", "--root"])
            .arg(machine.root())
            .arg("--policy")
            .arg(policy)
            .arg("--state")
            .arg(machine.root().join("run/agent.json"))
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = child.stdout.take().expect("piped");
        let mut said = BufReader::new(out).lines();
        let first = said.next().expect("says something").expect("text");
        let address = first
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .unwrap_or_else(|| panic!("no address in: {first}"))
            .to_string();
        Agent {
            child,
            said,
            address,
        }
    }

    /// The next line it says.
    pub fn says(&mut self) -> String {
        self.said.next().expect("says something").expect("text")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{signal} {id}"))
            .status();
        assert!(sent.expect("sent").success());
    }

    /// Ends it; what else it said.
    pub fn end(mut self) -> Vec<String> {
        self.signal("TERM");
        let rest: Vec<String> = self.said.by_ref().map(|line| line.expect("text")).collect();
        assert!(self.child.wait().expect("ended").success());
        rest
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of what is at `path` of the server at `address`.
pub fn get(address: &str, path: &str, accept: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.0\r\nAccept: {accept}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.into())
}

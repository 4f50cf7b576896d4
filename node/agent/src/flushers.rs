// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's threads that write back, by the device that they write to.
//!
//! They are workers of a queue that is bound to no CPU, and work on other things, too. A worker's
//! name says what it is at: `kworker/u8:2+flush-253:0`, and after a `-` what it was last at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kernel threads are listed this often: the kernel makes and ends some each minute.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// Activity of one device's flushers at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlusherActivity {
    /// A flusher was on a CPU, or in line for one.
    pub ran: bool,
    /// A flusher waited: for the disk, the journal or memory.
    pub waited: bool,
}

/// Workers that may be flushers.
#[derive(Default)]
pub struct FlusherThreads {
    /// Kernel threads by number: `true` for a worker that is bound to no CPU.
    threads: BTreeMap<u32, bool>,
    listed: Option<Instant>,
}

impl FlusherThreads {
    /// Activity of the flushers that are at work now, by device, as in `253:0`.
    pub fn sample_activity(
        &mut self,
        root: &Path,
        now: Instant,
    ) -> BTreeMap<String, FlusherActivity> {
        if self.listed.is_none_or(|then| now - then >= LIST_EVERY) {
            self.list_workers(root);
            self.listed = Some(now);
        }
        let mut found: BTreeMap<String, FlusherActivity> = BTreeMap::new();
        for (thread, _) in self.threads.iter().filter(|(_, is_worker)| **is_worker) {
            let own = |file| fs::read_to_string(root.join(format!("proc/{thread}/{file}")));
            let name = own("comm").unwrap_or_default();
            let Some((_, device)) = name.trim().split_once("+flush-") else {
                continue;
            };
            let stat = own("stat").unwrap_or_default();
            let state = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.chars().next());
            let doing = found.entry(device.to_owned()).or_default();
            match state {
                Some('R') => doing.ran = true,
                Some('D') => doing.waited = true,
                _ => {}
            }
        }
        found
    }

    /// Finds workers among the children of kthreadd, or in all of `/proc` on kernels that list no
    /// children. What was no worker is not looked at again.
    fn list_workers(&mut self, root: &Path) {
        let children = fs::read_to_string(root.join("proc/2/task/2/children"));
        let numbers: Vec<u32> = match children {
            Ok(text) => text.split_whitespace().flat_map(str::parse).collect(),
            Err(_) => fs::read_dir(root.join("proc"))
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect(),
        };
        let before = std::mem::take(&mut self.threads);
        let is_worker = |number| {
            let name = fs::read_to_string(root.join(format!("proc/{number}/comm")));
            name.is_ok_and(|name| name.starts_with("kworker/u"))
        };
        let kind = |number| {
            before
                .get(&number)
                .copied()
                .unwrap_or_else(|| is_worker(number))
        };
        self.threads = numbers
            .into_iter()
            .map(|number| (number, kind(number)))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_at_work_are_told_by_device() {
        let dir = tempfile::tempdir().expect("made");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        };
        let thread = |number: u32, name: &str, state: &str| {
            write(&format!("proc/{number}/comm"), &format!("{name}\n"));
            let stat = format!("{number} ({name}) {state} 2 0\n");
            write(&format!("proc/{number}/stat"), &stat);
        };
        write("proc/2/task/2/children", "3 7 8 9 10 11 ");
        thread(3, "kworker/0:1+flush-8:0", "R");
        thread(7, "kworker/u8:1-flush-253:0", "I");
        thread(8, "kworker/u8:2+flush-253:0", "R");
        thread(9, "kworker/u8:3+flush-253:0", "D");
        thread(10, "kworker/u8:4+flush-8:16", "I");
        thread(11, "kworker/u8:5+events_unbound", "R");
        let mut flushers = FlusherThreads::default();
        let doing = |ran, waited| FlusherActivity { ran, waited };
        let expected = [("253:0", doing(true, true)), ("8:16", doing(false, false))];
        let expected = expected.map(|(device, doing)| (device.to_owned(), doing));
        let now = Instant::now();
        assert_eq!(flushers.sample_activity(dir.path(), now), expected.into());
        write("proc/2/task/2/children", "10 ");
        let later = flushers.sample_activity(dir.path(), now + LIST_EVERY);
        assert_eq!(later.keys().collect::<Vec<_>>(), ["8:16"]);
    }
}

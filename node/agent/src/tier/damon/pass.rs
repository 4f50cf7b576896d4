// SPDX-License-Identifier: GPL-2.0-only
//! A pass of kdamonds over memory: set up, started, waited for, ended.
//!
//! How long that can take. The kernel tells how far a kdamond is, and ends it, only between two
//! passes, and a process that asks sleeps until then, not to be woken even by a kill. So a pass
//! must be short: [`Dose`]. Before its first one a kdamond waits for a CPU like any thread; if it
//! was not seen to be done with one after [`PATIENCE`], the step is given up.

use crate::tier::damon::admin::Admin;
use crate::tier::damon::owners::Range;
use crate::tier::damon::scheme::{self, Pace, Scheme};
use crate::tier::engine::PATIENCE;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Passes that may be repeated are, until they are seen to be done.
pub const OFTEN: Pace = Pace {
    sample: 50_000,
    apply: 50_000,
};

/// A page that a pass has looked at would be cold for the next: with so many kdamonds, of which one
/// after the other is seen to be done, it comes late enough for that before a second one.
pub fn single_pace(kdamonds: usize) -> Pace {
    Pace {
        sample: 50_000,
        apply: 100_000 + 100_000 * kdamonds as u64,
    }
}

/// Work of one kdamond in a pass.
pub struct KdamondJob<'a> {
    /// Number of the kdamond.
    pub kdamond: usize,
    /// Addresses that it looks at.
    pub ranges: &'a [Range],
    /// Schemes that it applies there, each once or more.
    pub schemes: Vec<Scheme>,
}

/// Result of one scheme in a pass, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemeResult {
    /// Ranges of addresses gone through: each once in each pass.
    pub tried: u64,
    /// Bytes that the scheme was applied to.
    pub bytes: u64,
}

/// Why a pass came to nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The kernel refuses.
    Refused(String),
    /// The pass was not done in time. With less to do it may be.
    Late(String),
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Refused(why)
    }
}

/// Pages to deal with at once: as many as take about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dose {
    pages: u64,
    least: u64,
    most: u64,
}

impl Dose {
    /// A dose of so many pages to begin with, and within these bounds.
    pub const fn new(pages: u64, least: u64, most: u64) -> Dose {
        Dose { pages, least, most }
    }

    /// Pages that one pass takes now.
    pub fn pages(self) -> u64 {
        self.pages
    }

    /// Adapts to `pages` having taken `took`.
    pub fn adapt_to(&mut self, pages: u64, took: Duration) {
        if took > Duration::from_secs(2) {
            self.pages = (self.pages.min(pages) / 2).max(self.least);
        } else if took < Duration::from_secs(1) {
            self.pages = (self.pages * 2).min(self.most);
        }
    }
}

/// Carries out jobs of different kdamonds at a time; what each scheme did, of none if it was told
/// to stop.
///
/// # Errors
/// The kernel refuses, or it takes too long.
pub fn run(
    admin: &Admin,
    jobs: &[KdamondJob],
    pace: &Pace,
    stop: &AtomicBool,
) -> Result<Vec<Vec<SchemeResult>>, Fault> {
    set_up(admin, jobs, pace)?;
    run_again(admin, jobs, stop)
}

fn has_schemes(job: &&KdamondJob) -> bool {
    !job.schemes.is_empty()
}

/// Tells kdamonds what to do.
///
/// # Errors
/// The kernel refuses.
pub fn set_up(admin: &Admin, jobs: &[KdamondJob], pace: &Pace) -> Result<(), Fault> {
    for job in jobs.iter().filter(has_schemes) {
        scheme::set_up(admin, job.kdamond, job.ranges, &job.schemes, pace)?;
    }
    Ok(())
}

/// [`run`] with jobs that are set up.
pub fn run_again(
    admin: &Admin,
    jobs: &[KdamondJob],
    stop: &AtomicBool,
) -> Result<Vec<Vec<SchemeResult>>, Fault> {
    if stop.load(Ordering::Relaxed) {
        return Ok(vec![Vec::new(); jobs.len()]);
    }
    for job in jobs.iter().filter(has_schemes) {
        admin.start_kdamond(job.kdamond)?;
    }
    let wait = |job: &KdamondJob| -> Result<Vec<SchemeResult>, Fault> {
        if job.schemes.is_empty() {
            return Ok(Vec::new());
        }
        let look = || read_results(admin, job.kdamond, job.schemes.len());
        let done = poll_until(PATIENCE, stop, look);
        admin.end_kdamond(job.kdamond)?;
        Ok(done?.unwrap_or_default())
    };
    jobs.iter().map(wait).collect()
}

/// Results of each scheme, once all did something.
fn read_results(
    admin: &Admin,
    kdamond: usize,
    schemes: usize,
) -> Result<Option<Vec<SchemeResult>>, String> {
    let stat = |at: usize, name: &str| -> Result<u64, String> {
        let file = format!("{kdamond}/contexts/0/schemes/{at}/stats/{name}");
        let text = admin.read(&file)?;
        text.parse()
            .map_err(|_| format!("{file} is `{text}`, not a number"))
    };
    admin.write(format!("{kdamond}/state"), "update_schemes_stats")?;
    let mut all = Vec::new();
    for at in 0..schemes {
        let tried = stat(at, "nr_tried")?;
        if tried == 0 {
            return match admin.is_running(kdamond) {
                true => Ok(None),
                false => Err("a kdamond ended by itself".into()),
            };
        }
        let bytes = stat(at, "sz_applied")?;
        all.push(SchemeResult { tried, bytes });
    }
    Ok(Some(all))
}

/// Looks again and again until there is something; nothing if it is told to stop.
fn poll_until<T>(
    patience: Duration,
    stop: &AtomicBool,
    mut look: impl FnMut() -> Result<Option<T>, String>,
) -> Result<Option<T>, Fault> {
    let until = Instant::now() + patience;
    loop {
        let seen = look()?;
        if seen.is_some() || stop.load(Ordering::Relaxed) {
            return Ok(seen);
        }
        if Instant::now() >= until {
            return Err(Fault::Late(format!(
                "DAMON was not done after {patience:.0?}: its thread, kdamond, gets too little CPU time"
            )));
        }
        sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_is_for_ever() {
        let go = AtomicBool::new(false);
        let never = || Ok(None::<()>);
        let late = poll_until(Duration::from_millis(30), &go, never);
        let Err(Fault::Late(why)) = late else {
            panic!("{late:?}");
        };
        assert!(why.contains("30ms") && why.contains("CPU time"), "{why}");
        assert_eq!(
            poll_until(PATIENCE, &AtomicBool::new(true), never),
            Ok(None)
        );
        let mut looks = 0;
        let third = || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        };
        assert_eq!(poll_until(PATIENCE, &go, third), Ok(Some(3)));
        // What is there late is there.
        assert_eq!(poll_until(Duration::ZERO, &go, || Ok(Some(1))), Ok(Some(1)));
        let refused = poll_until(PATIENCE, &go, || Err::<Option<()>, _>("no".into()));
        assert_eq!(refused, Err(Fault::Refused("no".into())));
    }

    #[test]
    fn what_took_long_is_done_in_smaller_parts() {
        let mut dose = Dose::new(1000, 100, 4000);
        let mut after = |pages, millis| {
            dose.adapt_to(pages, Duration::from_millis(millis));
            dose.pages()
        };
        assert_eq!(after(1000, 1500), 1000);
        assert_eq!(
            [after(1000, 400), after(9, 400), after(9, 400)],
            [2000, 4000, 4000]
        );
        assert_eq!(after(500, 31_000), 250, "half of what took long");
        assert_eq!([after(250, 3000), after(125, 3000)], [125, 100]);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! From runs to verdicts.

use crate::stats::{Summary, summarize_metrics};
use crate::{Judged, Outcome, Report, Run, Verdict};
use scenario::metric::Name;
use scenario::model::{Arm, Expect, Op, Scenario};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn summarize_runs(scenario: &Scenario, arms: &[Arm], runs: &[Run]) -> Report {
    let done = || runs.iter().filter(|run| run.outcome == Outcome::Done);
    let metrics = summarize_metrics(done());
    let mut finished = BTreeMap::new();
    for run in done() {
        *finished.entry(run.arm).or_insert(0) += 1;
    }
    let kernels: BTreeSet<String> = runs
        .iter()
        .map(|run| run.kernel.clone())
        .filter(|kernel| !kernel.is_empty())
        .collect();
    let expects: Vec<Judged> = scenario
        .expects
        .iter()
        .map(|expect| judge_expectation(expect, arms, &metrics))
        .collect();
    let mut troubles: Vec<String> = runs.iter().filter_map(describe_trouble).collect();
    for arm in arms
        .iter()
        .filter(|arm| !runs.iter().any(|run| run.arm == **arm))
    {
        troubles.push(format!("arm {}: no guest reported at all", arm.name()));
    }
    Report {
        verdict: overall_verdict(runs, &expects, &troubles),
        title: scenario.title.clone(),
        kernels: kernels.into_iter().collect(),
        finished,
        metrics,
        expects,
        troubles,
    }
}

/// The worst news wins; a report in which nothing was judged although something should have been is
/// no pass.
fn overall_verdict(runs: &[Run], expects: &[Judged], troubles: &[String]) -> Verdict {
    let any = |verdict| expects.iter().any(|e| e.verdict == verdict);
    if runs
        .iter()
        .any(|run| matches!(run.outcome, Outcome::Failed(_)))
    {
        Verdict::Fail
    } else if !troubles.is_empty() || any(Verdict::Inconclusive) {
        Verdict::Inconclusive
    } else if any(Verdict::Fail) {
        Verdict::Fail
    } else if expects.is_empty() || any(Verdict::Pass) {
        Verdict::Pass
    } else {
        Verdict::Inconclusive
    }
}

fn describe_trouble(run: &Run) -> Option<String> {
    let (how, why) = match &run.outcome {
        Outcome::Done => return None,
        Outcome::Failed(why) => ("failed", why),
        Outcome::Inconclusive(why) => ("is inconclusive", why),
    };
    Some(format!("a guest of arm {} {how}: {why}", run.arm.name()))
}

fn judge_expectation(expect: &Expect, arms: &[Arm], metrics: &BTreeMap<String, Summary>) -> Judged {
    let median = |name: &str| metrics.get(name).map(|summary| summary.median);
    let needed: Vec<&str> = std::iter::once(expect.metric.as_str())
        .chain(
            expect
                .bound
                .0
                .iter()
                .flat_map(|term| term.metrics.iter().map(String::as_str)),
        )
        .collect();
    let observed = median(&expect.metric);
    let bound = expect
        .bound
        .0
        .iter()
        .map(|term| {
            term.metrics
                .iter()
                .try_fold(term.factor, |product, m| Some(product * median(m)?))
        })
        .sum::<Option<f64>>();
    let absent_arm = needed
        .iter()
        .filter_map(|name| Name::parse_full_name(name))
        .map(|name| name.arm)
        .find(|arm| !arms.contains(arm));
    let (verdict, why) = if let Some(arm) = absent_arm {
        (Verdict::Skipped, format!("arm {} was not run", arm.name()))
    } else if let (Some(observed), Some(bound)) = (observed, bound) {
        let met = match expect.op {
            Op::AtLeast => observed >= bound,
            Op::AtMost => observed <= bound,
        };
        (
            if met { Verdict::Pass } else { Verdict::Fail },
            String::new(),
        )
    } else {
        let missing = needed
            .iter()
            .find(|name| median(name).is_none())
            .unwrap_or(&"a metric");
        (Verdict::Inconclusive, format!("{missing} was not measured"))
    };
    Judged {
        text: expect.text.clone(),
        metric: expect.metric.clone(),
        verdict,
        observed,
        bound,
        why,
    }
}

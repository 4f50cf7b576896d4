// SPDX-License-Identifier: GPL-2.0-only
//! The language, one function per section. A section that has a problem still yields what it could
//! read, so that later sections can be checked against its names; any problem at all voids the
//! result in the end.

mod cgroup;
mod host;
mod tier;
mod workload;

use crate::expect;
use crate::metric::Name;
use crate::model::{Arm, Expect, Op, Scenario};
use config::problem::{Problems, suggest_known};
use config::reader::{self, Table, Value};

/// Smaller guests do not boot a distribution kernel with its initramfs.
const LEAST_MEMORY: u64 = 512 << 20;

pub(crate) fn parse_scenario(name: &str, file: &str, text: &str) -> Result<Scenario, Problems> {
    let known = &[
        "title", "host", "tier", "twin", "disk", "cgroup", "job", "phase", "expect", "agent",
    ];
    reader::read(file, text, known, |root| read_sections(name, root))
}

fn read_sections(name: &str, root: &Table) -> Scenario {
    let title = root
        .required("title", "title = \"One noisy writer, one victim\"")
        .and_then(|v| v.string("a string"))
        .unwrap_or_default();
    let tiers = tier::read_tiers(root);
    let host = host::read_host(root, &tiers);
    let disks = host::read_disks(root);
    let mut scenario = Scenario {
        name: name.into(),
        title: title.into(),
        agent: tier::read_agent(root, &host),
        host,
        tiers,
        cgroups: cgroup::read_cgroups(root, &disks),
        disks,
        jobs: Vec::new(),
        phases: Vec::new(),
        expects: Vec::new(),
        twin: host::read_twin(root),
        keys: root.keys_of_file(),
    };
    scenario.jobs = workload::read_jobs(root, &scenario);
    scenario.phases = workload::read_phases(root, &scenario);
    scenario.expects = read_expectations(root, &scenario);
    scenario
}

/// A name used in metrics: starts with a letter, no dots, not taken.
fn name(table: &Table, taken: &[&str]) -> String {
    let Some(value) = table.required("name", "name = \"victim\"") else {
        return String::new();
    };
    let Some(name) = value.string("a string") else {
        return String::new();
    };
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !fits {
        value.complain(format!(
            "`{}` cannot be a name: letters, digits, `-` and `_`, a letter first",
            name.escape_debug()
        ));
    } else if ["host", "stock", "weir", "patched", "disk", "cgroup"].contains(&name) {
        value.complain(format!(
            "`{name}` has a meaning of its own in metric names: choose another"
        ));
    } else if taken.contains(&name) {
        value.complain(format!(
            "`{name}` is already defined above: names must differ"
        ));
    }
    name.into()
}

fn read_expectations(root: &Table, scenario: &Scenario) -> Vec<Expect> {
    let mut expects = Vec::new();
    let tables = root.array_of_tables("expect", &["metric", "arm", "phase", "at_least", "at_most"]);
    for (index, table) in tables.into_iter().enumerate() {
        let Some(subject) = table.required("metric", "metric = \"victim.iops\"") else {
            continue;
        };
        let Some(metric) = read_metric_name(&table, &subject) else {
            continue;
        };
        if let Err(why) = metric.check_measurable(scenario) {
            subject.complain(format!("`{metric}` cannot be measured: {why}"));
            continue;
        }
        let bounds = [
            ("at_least", Op::AtLeast, ">="),
            ("at_most", Op::AtMost, "<="),
        ];
        let mut bounded = false;
        for (key, op, sign) in bounds {
            let Some(value) = table.optional(key) else {
                continue;
            };
            bounded = true;
            let Some(words) = value.as_scalar() else {
                continue;
            };
            match expect::parse_bound(&words, &metric, scenario) {
                Ok(bound) => expects.push(Expect {
                    index,
                    metric: metric.to_string(),
                    op,
                    text: format!("{metric} {sign} {words}"),
                    bound,
                }),
                Err(why) => value.complain(why),
            }
        }
        if !bounded {
            table.complain("says no bound: add `at_least` or `at_most`, for example `at_least = \"0.99 * solo\"`");
        }
    }
    expects
}

/// The full name: `metric` as it stands, or put together with `arm` and `phase`.
fn read_metric_name(table: &Table, metric: &Value) -> Option<Name> {
    let words = metric.string("a metric name, as in `victim.iops`")?;
    let (arm, phase) = (table.optional("arm"), table.optional("phase"));
    if arm.is_none() && phase.is_none() {
        let full = Name::parse_full_name(words);
        if full.is_none() {
            metric.complain(format!(
                "`{words}` is not a full name `ARM.PHASE.SUBJECT.METRIC`: write one, or add `arm` and `phase`"
            ));
        }
        return full;
    }
    let Some((subject, last)) = words.rsplit_once('.') else {
        metric.complain(format!(
            "`{words}` is not `SUBJECT.METRIC`, as in `victim.iops` or `host.dirty_max_bytes`"
        ));
        return None;
    };
    let arm = table.required("arm", "arm = \"weir\"")?;
    let phase = table.required("phase", "phase = \"contended\"")?;
    let arm = arm.parse_with("`stock`, `weir` or `patched`", |a| {
        Arm::from_name(a).ok_or_else(|| {
            format!(
                "no arm `{a}`, {}",
                suggest_known(a, Arm::ALL.map(Arm::name))
            )
        })
    })?;
    let phase = phase.string("a phase's name")?;
    Some(Name {
        arm,
        phase: phase.into(),
        subject: subject.into(),
        metric: last.into(),
    })
}

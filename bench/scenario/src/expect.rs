// SPDX-License-Identifier: GPL-2.0-only
//! The right-hand side of an expectation: a sum of products, words separated by spaces.
//!
//! ```text
//! at_least = 0.99                                              a number
//! at_most  = "2ms"                                             a time, size or bandwidth
//! at_least = "0.99 * solo"                                     this metric and arm, in phase solo
//! at_least = "0.95 * stock"                                    this metric and phase, in arm stock
//! at_most  = "stock.contended.host.dirty_max_bytes + 16M"      any other metric by its full name
//! ```
//!
//! The spaces matter: `cgroup/a-b` is a name, `a - b` a difference. What is added or compared must
//! be of one kind, so `2ms` against IOPS is refused rather than compared as numbers.

use crate::metric::{Name, Unit, unit_of_metric};
use crate::model::{Arm, Bound, Scenario, Term};
use config::units;

/// Parses `text` as the bound of the metric `of`.
///
/// # Errors
/// What is wrong: grammar, a name nothing has, units that do not fit.
pub fn parse_bound(text: &str, of: &Name, scenario: &Scenario) -> Result<Bound, String> {
    let mut words = text.split_whitespace();
    let mut terms = Vec::new();
    let mut sign = 1.0;
    loop {
        let (term, next) = parse_product(&mut words, sign, of, scenario)
            .map_err(|why| format!("bound `{text}`: {why}"))?;
        terms.push(term);
        match next {
            None => return Ok(Bound(terms)),
            Some(Sign::Plus) => sign = 1.0,
            Some(Sign::Minus) => sign = -1.0,
        }
    }
}

enum Sign {
    Plus,
    Minus,
}

/// Reads one product and the sign that ends it, if any.
fn parse_product<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    sign: f64,
    of: &Name,
    scenario: &Scenario,
) -> Result<(Term, Option<Sign>), String> {
    let mut term = Term {
        factor: sign,
        metrics: Vec::new(),
    };
    let mut units = Vec::new();
    let next = loop {
        let word = words
            .next()
            .ok_or("a number, a size, a time or a metric is missing at the end")?;
        match parse_operand(word, of, scenario)? {
            Operand::Constant(value, unit) => {
                term.factor *= value;
                units.extend(unit);
            }
            Operand::Metric(name) => {
                units.push(unit_of_metric(&name.metric));
                term.metrics.push(name.to_string());
            }
        }
        match words.next() {
            None => break None,
            Some("*") => {}
            Some("+") => break Some(Sign::Plus),
            Some("-") => break Some(Sign::Minus),
            Some(other) => {
                return Err(format!("`{other}` where `*`, `+` or `-` was expected"));
            }
        }
    };
    let wanted = unit_of_metric(&of.metric);
    // Plain numbers scale; at most one factor may carry a unit, and it has to be the metric's.
    match units.as_slice() {
        [] => {}
        [unit] if unit.may_bound(wanted) => {}
        [unit] => {
            return Err(format!(
                "`{}` is {} and cannot be compared with {}",
                of.metric,
                wanted.in_words(),
                unit.in_words()
            ));
        }
        _ => return Err("a product of two measures is not comparable with one: at most one factor may be a metric, a size or a time".into()),
    }
    Ok((term, next))
}

enum Operand {
    Constant(f64, Option<Unit>),
    Metric(Name),
}

fn parse_operand(word: &str, of: &Name, scenario: &Scenario) -> Result<Operand, String> {
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return parse_constant(word);
    }
    let name = if let Some(full) = Name::parse_full_name(word) {
        full
    } else if let Some(arm) = Arm::from_name(word) {
        Name { arm, ..of.clone() }
    } else if scenario.phases.iter().any(|p| p.name == word) {
        Name {
            phase: word.into(),
            ..of.clone()
        }
    } else {
        return Err(format!(
            "`{word}` is neither a number, a size, a time, an arm, a phase nor a full name `ARM.PHASE.SUBJECT.METRIC`"
        ));
    };
    name.check_measurable(scenario)
        .map_err(|why| format!("`{name}` cannot be measured: {why}"))?;
    Ok(Operand::Metric(name))
}

fn parse_constant(word: &str) -> Result<Operand, String> {
    if let Ok(number) = word.parse::<f64>() {
        if number.is_finite() {
            return Ok(Operand::Constant(number, None));
        }
    }
    let (value, unit) = if let Ok(bytes) = units::parse_size(word) {
        (bytes, Unit::Bytes)
    } else if let Ok(rate) = units::parse_bandwidth(word) {
        (rate, Unit::Bandwidth)
    } else if let Ok(ns) = units::parse_nanoseconds(word) {
        (ns, Unit::Nanoseconds)
    } else {
        return Err(format!(
            "`{word}` is not a number, a size (`64M`), a bandwidth (`20M/s`) or a time (`2ms`); `*`, `+` and `-` want spaces around them"
        ));
    };
    Ok(Operand::Constant(value as f64, Some(unit)))
}

// SPDX-License-Identifier: GPL-2.0-only
//! A summary for people: a value and its range in one unit.

use crate::Summary;
use config::Unit;
use report::{format_value, scale_for, significant_digits};

/// `10.8 (9.14..12.0)`, `526 (401..640) ms`; without the range for a single run.
pub(crate) fn format_summary(summary: &Summary, unit: Unit) -> String {
    if summary.n == 1 {
        return format_value(summary.median, unit);
    }
    let finite = [summary.median, summary.max / 10.0, summary.min];
    let largest = finite.into_iter().filter(|value| value.is_finite());
    let (scale, suffix) = scale_for(largest.fold(0.0, f64::max), unit);
    let [median, min, max] = [summary.median, summary.min, summary.max].map(|value| {
        if value.is_finite() {
            significant_digits(value / scale)
        } else {
            NEVER.into()
        }
    });
    format!("{median} ({min}..{max}){suffix}")
}

/// A time after which something had not happened yet, within a range.
const NEVER: &str = "never";
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_shares_its_unit_and_a_single_run_has_none() {
        let three = Summary {
            median: 526e6,
            min: 401e6,
            max: 1640e6,
            n: 3,
            unit: Unit::Nanoseconds,
        };
        assert_eq!(
            format_summary(&three, Unit::Nanoseconds),
            "526 (401..1640) ms"
        );
        let one = Summary { n: 1, ..three };
        assert_eq!(format_summary(&one, Unit::Nanoseconds), "526 ms");
        let never = Summary {
            max: f64::INFINITY,
            n: 3,
            ..one
        };
        assert_eq!(
            format_summary(&never, Unit::Nanoseconds),
            "526 (401..never) ms"
        );
        let never = Summary {
            median: f64::INFINITY,
            n: 1,
            ..never
        };
        assert_eq!(format_summary(&never, Unit::Nanoseconds), "not settled");
    }
}

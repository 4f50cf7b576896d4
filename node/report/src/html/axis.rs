// SPDX-License-Identifier: GPL-2.0-only
//! Axes: where the marks are and what they say. A mark is a round number in the unit that is
//! printed: 256, 512, 768 KiB and not 244.1 KiB.

/// Quantity that an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AxisUnit {
    Bytes,
    Rate,
    /// From a millisecond to minutes.
    Seconds,
    Percent,
    Ratio,
}

impl AxisUnit {
    /// For the page's script.
    pub(super) fn name(self) -> &'static str {
        match self {
            AxisUnit::Bytes => "bytes",
            AxisUnit::Rate => "rate",
            AxisUnit::Seconds => "seconds",
            AxisUnit::Percent => "percent",
            AxisUnit::Ratio => "ratio",
        }
    }

    /// `true` if values span orders of magnitude: pauses, and rates, whose first guess by the
    /// kernel is 100 MB/s.
    pub(super) fn is_logarithmic(self) -> bool {
        matches!(self, AxisUnit::Seconds | AxisUnit::Rate)
    }

    /// The least that an axis tells from nothing, and the least it reaches up to.
    fn log_range(self) -> (f64, f64) {
        match self {
            AxisUnit::Rate => (1024.0, 102400.0),
            _ => (1e-4, 1e-3),
        }
    }

    /// The value of one printed unit for values up to `most`, and its name.
    fn scale_for(self, most: f64) -> (f64, &'static str) {
        let size = |names: [&'static str; 4]| match most {
            m if m >= 1073741824.0 => (1073741824.0, names[3]),
            m if m >= 1048576.0 => (1048576.0, names[2]),
            m if m >= 1024.0 => (1024.0, names[1]),
            _ => (1.0, names[0]),
        };
        match self {
            AxisUnit::Bytes => size(["B", "KiB", "MiB", "GiB"]),
            AxisUnit::Rate => size(["B/s", "KiB/s", "MiB/s", "GiB/s"]),
            AxisUnit::Seconds if most < 1.0 => (0.001, "ms"),
            AxisUnit::Seconds => (1.0, "s"),
            AxisUnit::Percent => (1.0, "%"),
            AxisUnit::Ratio => (1.0, ""),
        }
    }

    /// A value in words.
    pub(super) fn format_value(self, value: f64) -> String {
        let (scale, name) = self.scale_for(value.abs());
        format!(
            "{} {name}",
            crate::format::significant_digits(value / scale)
        )
        .trim_end()
        .into()
    }
}

/// A vertical axis from `low` to `high`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) unit: AxisUnit,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Values and what is written at them.
    pub(super) marks: Vec<(f64, String)>,
}

impl Axis {
    /// For values up to `most`, the least of which is `least` (only a logarithmic axis does not
    /// begin at 0).
    pub(super) fn new(unit: AxisUnit, least: f64, most: f64) -> Axis {
        if unit.is_logarithmic() {
            return Axis::new_logarithmic(unit, least, most);
        }
        let most = match (unit, most > 0.0) {
            // There is nothing above all of the time.
            (AxisUnit::Percent, true) => most.min(95.0) * 1.05,
            (_, true) => most * 1.05,
            (_, false) => 1.0,
        };
        let (scale, name) = unit.scale_for(most);
        let step = round_step(most / scale / 5.0) * scale;
        let count = (most / step).ceil() as usize;
        let marks = (0..=count).map(|n| {
            let value = n as f64 * step;
            (
                value,
                format!("{} {name}", format_mark(value / scale))
                    .trim_end()
                    .into(),
            )
        });
        Axis {
            unit,
            low: 0.0,
            high: count as f64 * step,
            marks: marks.collect(),
        }
    }

    fn new_logarithmic(unit: AxisUnit, least: f64, most: f64) -> Axis {
        // Decades of the printed unit: 1, 10, 100 KiB/s, 1 MiB/s.
        let decade = |power: i32| match unit {
            AxisUnit::Rate => 10f64.powi(power.rem_euclid(3)) * 1024f64.powi(power.div_euclid(3)),
            _ => 10f64.powi(power),
        };
        let (finest, coarsest) = unit.log_range();
        let (least, most) = (least.max(finest), most.max(coarsest));
        let first = (-6..30).rfind(|n| decade(*n) <= least).unwrap_or(-6);
        let last = (first + 1..36).find(|n| decade(*n) >= most).unwrap_or(36);
        let marks = (first..=last).map(|power| {
            let value = decade(power);
            let (scale, name) = unit.scale_for(value * 1.001);
            (value, format!("{} {name}", format_mark(value / scale)))
        });
        Axis {
            unit,
            low: decade(first),
            high: decade(last),
            marks: marks.collect(),
        }
    }

    /// Position of a value, 0 at the bottom and 1 at the top.
    pub(super) fn position_of(&self, value: f64) -> f64 {
        let place = if self.unit.is_logarithmic() {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }
}

/// Marks of the time axis, in seconds.
pub(super) fn time_marks(seconds: f64) -> Vec<f64> {
    let step = round_step(seconds / 8.0);
    let count = (seconds / step + 1e-9).floor() as usize;
    (0..=count).map(|n| n as f64 * step).collect()
}

/// The next of 1, 2, 5, 10, 20, ... that is not less.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// A round number without the noise of fractions.
pub(super) fn format_mark(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn marks_are_round_in_the_unit_they_print() {
        let axis = Axis::new(AxisUnit::Bytes, 0.0, 30.0 * 1048576.0);
        assert_eq!(
            words(&axis),
            ["0 MiB", "10 MiB", "20 MiB", "30 MiB", "40 MiB"]
        );
        assert_eq!(axis.position_of(20.0 * 1048576.0), 0.5);
        assert_eq!(
            words(&Axis::new(AxisUnit::Ratio, 0.0, 1.7))[..3],
            ["0", "0.5", "1"]
        );
        assert_eq!(time_marks(60.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(time_marks(0.0), [0.0]);
        assert_eq!(Axis::new(AxisUnit::Percent, 0.0, 100.0).high, 100.0);
    }

    #[test]
    fn pauses_have_decades() {
        let axis = Axis::new(AxisUnit::Seconds, 0.004, 3.0);
        assert_eq!(words(&axis), ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert!((axis.position_of(0.1) - 0.5).abs() < 1e-9);
        assert_eq!(
            axis.position_of(0.0),
            0.0,
            "what is below stays at the edge"
        );
        let rates = Axis::new(AxisUnit::Rate, 0.0, 1e8);
        assert_eq!(rates.marks.first(), Some(&(1024.0, "1 KiB/s".into())));
        assert_eq!(
            rates.marks.last(),
            Some(&(104_857_600.0, "100 MiB/s".into()))
        );
        let empty = Axis::new(AxisUnit::Seconds, f64::INFINITY, 0.0);
        assert!(empty.low < empty.high, "{empty:?}");
    }
}

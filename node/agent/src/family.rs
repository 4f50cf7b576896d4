// SPDX-License-Identifier: GPL-2.0-only
//! Metrics as plain values, and how they are written: OpenMetrics by its own crate, and the text
//! format of Prometheus, which older readers ask for, made of it.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A metric with all its samples.
#[derive(Clone, Debug)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricKind,
    begins_at_zero: bool,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
}

#[derive(Clone, Debug)]
struct Sample {
    labels: Vec<(&'static str, Arc<str>)>,
    value: SampleValue,
}

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleValue {
    /// A whole number, as of a count.
    Whole(u64),
    /// Seconds, and what else has fractions.
    Real(f64),
}

impl From<u64> for SampleValue {
    fn from(value: u64) -> SampleValue {
        SampleValue::Whole(value)
    }
}

impl From<f64> for SampleValue {
    fn from(value: f64) -> SampleValue {
        SampleValue::Real(value)
    }
}

impl From<bool> for SampleValue {
    fn from(value: bool) -> SampleValue {
        SampleValue::Whole(value.into())
    }
}

/// Values of a series' labels.
type SeriesName = Vec<Arc<str>>;

/// Times at which series that begin at zero were first shown, by the family's name.
#[derive(Debug, Default)]
pub struct Newborn(BTreeMap<&'static str, BTreeMap<SeriesName, Instant>>);

impl Newborn {
    /// A scrape at `now` shows these families: what it shows first, and others showed less than
    /// `hold` ago, is 0 in it.
    pub fn hold_at_zero(&mut self, families: &mut [Family], now: Instant, hold: Duration) {
        for family in families.iter_mut().filter(|family| family.begins_at_zero) {
            family.hold_new_at_zero(self.0.entry(family.name).or_default(), now, hold);
        }
    }
}

impl Family {
    fn new(kind: MetricKind, name: &'static str, help: &'static str) -> Family {
        Family {
            name,
            help,
            unit: None,
            kind,
            begins_at_zero: false,
            samples: Vec::new(),
        }
    }

    /// A metric that only grows. Neither `_total` nor a unit belongs in the name: both are added.
    pub fn counter(name: &'static str, help: &'static str) -> Family {
        Family::new(MetricKind::Counter, name, help)
    }

    /// A metric that rises and falls.
    pub fn gauge(name: &'static str, help: &'static str) -> Family {
        Family::new(MetricKind::Gauge, name, help)
    }

    /// Marks the values as bytes.
    pub fn in_bytes(self) -> Family {
        Family {
            unit: Some(Unit::Bytes),
            ..self
        }
    }

    /// Marks the values as seconds.
    pub fn in_seconds(self) -> Family {
        Family {
            unit: Some(Unit::Seconds),
            ..self
        }
    }

    /// Marks a counter whose series appear with a value, which no `rate()` would see: scrapes show
    /// each at 0 first.
    pub fn beginning_at_zero(self) -> Family {
        Family {
            begins_at_zero: true,
            ..self
        }
    }

    /// Puts 0 in place of values of series that no scrape has shown for `hold`; `first` is when each
    /// was first shown.
    fn hold_new_at_zero(
        &mut self,
        first: &mut BTreeMap<SeriesName, Instant>,
        now: Instant,
        hold: Duration,
    ) {
        if !self.begins_at_zero {
            return;
        }
        let before = std::mem::take(first);
        for sample in &mut self.samples {
            let name: SeriesName = sample
                .labels
                .iter()
                .map(|(_, text)| Arc::clone(text))
                .collect();
            let since = before.get(&name).copied().unwrap_or(now);
            first.insert(name, since);
            if now.duration_since(since) < hold {
                sample.value = SampleValue::Real(0.0);
            }
        }
    }

    /// Adds the only sample.
    pub fn with(mut self, value: impl Into<SampleValue>) -> Family {
        self.add(&[], value);
        self
    }

    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&'static str, &Arc<str>)], value: impl Into<SampleValue>) {
        self.samples.push(Sample {
            labels: labels
                .iter()
                .map(|(name, text)| (*name, Arc::clone(text)))
                .collect(),
            value: value.into(),
        });
    }

    fn encode_samples(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        // A family without samples says nothing.
        if self.samples.is_empty() {
            return Ok(());
        }
        let kind = match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
        };
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)?;
        for sample in &self.samples {
            let labels: Vec<(&str, &str)> = sample
                .labels
                .iter()
                .map(|(name, text)| (*name, text.as_ref()))
                .collect();
            if labels.is_empty() {
                self.encode_value(&mut metric, sample.value)?;
            } else {
                let labels = labels.as_slice();
                self.encode_value(&mut metric.encode_family(&labels)?, sample.value)?;
            }
        }
        Ok(())
    }

    fn encode_value(&self, encoder: &mut MetricEncoder, value: SampleValue) -> fmt::Result {
        match value {
            SampleValue::Whole(value) => self.encode_number(encoder, value),
            SampleValue::Real(value) => self.encode_number(encoder, value),
        }
    }

    fn encode_number(
        &self,
        encoder: &mut MetricEncoder,
        value: impl EncodeCounterValue + EncodeGaugeValue,
    ) -> fmt::Result {
        match self.kind {
            MetricKind::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
            MetricKind::Gauge => encoder.encode_gauge(&value),
        }
    }
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|family| family.encode_samples(&mut encoder))
    }
}

/// Encodes the families as OpenMetrics 1.0 text.
///
/// # Errors
/// None that is known of: it is written to memory.
pub fn open_metrics(families: Vec<Family>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// OpenMetrics as Prometheus' text format 0.0.4: a counter is described by the name its samples
/// have, and units and the end are not marked.
pub fn plain_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // Its name depends on the type, which comes next.
            help = rest.split_once(' ');
            continue;
        }
        match line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            Some((name, kind)) => {
                let end = if kind == "counter" { "_total" } else { "" };
                if let Some((_, words)) = help.take() {
                    text.push_str(&format!("# HELP {name}{end} {words}\n"));
                }
                text.push_str(&format!("# TYPE {name}{end} {kind}\n"));
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let mut throttled = Family::counter("weir_cgroup_throttled", "Slept.").in_seconds();
        let hostile: Arc<str> = "/a\"b\\x2d\nc".into();
        throttled.add(&[("cgroup", &hostile), ("by", &"host".into())], 1.5);
        vec![
            throttled,
            Family::gauge("weir_host_dirty", "Dirty pages.")
                .in_bytes()
                .with(u64::MAX),
            Family::counter("weir_scans", "Scans.").with(3_u64),
            Family::gauge("weir_nothing", "Left out."),
        ]
    }

    #[test]
    fn open_metrics_has_units_types_and_an_end() {
        let expected = "\
# HELP weir_cgroup_throttled_seconds Slept.
# TYPE weir_cgroup_throttled_seconds counter
# UNIT weir_cgroup_throttled_seconds seconds
weir_cgroup_throttled_seconds_total{cgroup=\"/a\\\"b\\\\x2d\\nc\",by=\"host\"} 1.5
# HELP weir_host_dirty_bytes Dirty pages.
# TYPE weir_host_dirty_bytes gauge
# UNIT weir_host_dirty_bytes bytes
weir_host_dirty_bytes 18446744073709551615
# HELP weir_scans Scans.
# TYPE weir_scans counter
weir_scans_total 3
# EOF
";
        assert_eq!(open_metrics(families()).expect("written"), expected);
    }

    #[test]
    fn plain_text_names_counters_as_their_samples() {
        let expected = "\
# HELP weir_cgroup_throttled_seconds_total Slept.
# TYPE weir_cgroup_throttled_seconds_total counter
weir_cgroup_throttled_seconds_total{cgroup=\"/a\\\"b\\\\x2d\\nc\",by=\"host\"} 1.5
# HELP weir_host_dirty_bytes Dirty pages.
# TYPE weir_host_dirty_bytes gauge
weir_host_dirty_bytes 18446744073709551615
# HELP weir_scans_total Scans.
# TYPE weir_scans_total counter
weir_scans_total 3
";
        let text = open_metrics(families()).expect("written");
        assert_eq!(plain_text(&text), expected);
    }

    #[test]
    fn a_series_is_shown_at_zero_first() {
        let mut newborn = Newborn::default();
        let began = Instant::now();
        let hold = Duration::from_secs(15);
        let mut scrape = |after: u64, victims: &[(&str, f64)]| {
            let mut family = Family::counter("stall", "Lost.")
                .in_seconds()
                .beginning_at_zero();
            for (victim, lost) in victims {
                family.add(&[("victim", &Arc::from(*victim))], *lost);
            }
            let mut families = [family, Family::counter("x", "Others.").with(7)];
            newborn.hold_at_zero(&mut families, began + Duration::from_secs(after), hold);
            let text = open_metrics(families.to_vec()).expect("written");
            assert!(text.contains("x_total 7"), "{text}");
            let lines = text.lines().filter(|line| line.starts_with("stall_"));
            lines
                .map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(scrape(0, &[("/a", 1.5)]), ["0.0"]);
        assert_eq!(
            scrape(14, &[("/a", 2.5)]),
            ["0.0"],
            "another scraper's first"
        );
        assert_eq!(scrape(15, &[("/a", 2.5), ("/b", 9.0)]), ["2.5", "0.0"]);
        assert_eq!(scrape(30, &[("/a", 3.0), ("/b", 9.0)]), ["3.0", "9.0"]);
        // Given up, and there again.
        assert_eq!(scrape(45, &[("/b", 9.0)]), ["9.0"]);
        assert_eq!(scrape(60, &[("/a", 1.0), ("/b", 9.0)]), ["0.0", "9.0"]);
    }
}

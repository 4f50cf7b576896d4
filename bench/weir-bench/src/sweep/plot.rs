// SPDX-License-Identifier: GPL-2.0-only
//! Figures of a sweep, drawn: as bars on a terminal, as curves in an SVG file that needs nothing
//! else.
//!
//! A panel per figure. In the SVG the values of the first key stand side by side, in the order
//! given and equally far apart: values of sweeps mostly double, and some are no numbers. Each
//! combination of the other keys is a line. All panels begin at 0.

use super::set::Setting;
use anyhow::{Context, Result};
use report::escape_text;
use scenario::metric::Unit;
use std::fmt::Write as _;
use std::path::Path;

/// A figure over all settings.
pub struct Panel {
    /// The figure's full name.
    pub name: String,
    /// The figure's unit.
    pub unit: Unit,
    /// Values by combination, if it was measured.
    pub points: Vec<(Vec<Setting>, Option<f64>)>,
}

impl Panel {
    fn largest_figure(&self) -> f64 {
        let figures = self.points.iter().filter_map(|(_, figure)| *figure);
        figures.fold(0.0, f64::max)
    }

    /// The first key's values, in the order given.
    fn axis_values(&self) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::new();
        for (settings, _) in &self.points {
            let value = settings.first().map_or("", |(_, value)| value.as_str());
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// A line for each combination of the other keys: its label, and places along the axis with
    /// figures.
    fn curve_lines(&self) -> Vec<(String, Vec<(usize, f64)>)> {
        let along = self.axis_values();
        let mut lines: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
        for (settings, figure) in &self.points {
            let Some(((_, value), others)) = settings.split_first() else {
                continue;
            };
            let (label, place) = (label_of(others), along.iter().position(|v| v == value));
            let line = match lines.iter().position(|(known, _)| *known == label) {
                Some(line) => line,
                None => {
                    lines.push((label, Vec::new()));
                    lines.len() - 1
                }
            };
            lines[line].1.extend(place.zip(*figure));
        }
        lines
    }
}

fn label_of(settings: &[Setting]) -> String {
    let each = settings.iter().map(|(key, value)| format!("{key}={value}"));
    each.collect::<Vec<_>>().join(" ")
}

/// Columns of the longest bar.
const WIDTH: f64 = 40.0;

/// Bars, for a terminal.
pub fn draw_bars(panels: &[Panel]) -> String {
    let mut out = String::new();
    for panel in panels {
        let (most, unit) = (panel.largest_figure(), panel.unit);
        // The table above says of which keys.
        let label = |settings: &[Setting]| {
            let values: Vec<&str> = settings.iter().map(|(_, value)| value.as_str()).collect();
            values.join(" ")
        };
        let labels = panel.points.iter().map(|(settings, _)| label(settings));
        let labels: Vec<String> = labels.collect();
        let wide = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        let _ = writeln!(out, "\n{}", panel.name);
        for (label, (_, figure)) in labels.iter().zip(&panel.points) {
            let (bar, text) = match figure {
                Some(figure) => (draw_bar(*figure, most), report::format_value(*figure, unit)),
                None => (String::new(), "-".into()),
            };
            let _ = writeln!(out, "  {label:>wide$} {bar} {text}");
        }
    }
    out
}

/// A bar, to an eighth of a column.
fn draw_bar(figure: f64, most: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = if most > 0.0 {
        (figure / most * WIDTH * 8.0).round() as usize
    } else {
        0
    };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Width and height of a panel, in pixels.
const PANEL: (f64, f64) = (640.0, 220.0);
/// Left of the axis, above and below the panel.
const MARGIN: (f64, f64, f64) = (90.0, 28.0, 40.0);
/// Told apart by people who do not see all colours, too (Okabe and Ito's).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// Curves, one panel below the other.
pub fn draw_svg(title: &str, panels: &[Panel]) -> String {
    let (left, above, below) = MARGIN;
    let tall = above + PANEL.1 + below;
    let keys = panels.first().map_or(0, |panel| panel.curve_lines().len());
    let legend = if keys > 1 { 18.0 * keys as f64 } else { 0.0 };
    let (width, height) = (
        left + PANEL.0 + 30.0,
        40.0 + legend + tall * panels.len() as f64,
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escape_text(title)
    );
    if let (Some(panel), true) = (panels.first(), keys > 1) {
        for (index, (label, _)) in panel.curve_lines().iter().enumerate() {
            let (y, colour) = (44.0 + 18.0 * index as f64, COLOURS[index % COLOURS.len()]);
            let _ = writeln!(
                out,
                "<text x=\"{left}\" y=\"{y}\" fill=\"{colour}\">{}</text>",
                escape_text(label)
            );
        }
    }
    for (index, panel) in panels.iter().enumerate() {
        draw_panel(&mut out, panel, 40.0 + legend + tall * index as f64 + above);
    }
    out + "</svg>\n"
}

fn draw_panel(out: &mut String, panel: &Panel, top: f64) {
    let (left, bottom) = (MARGIN.0, top + PANEL.1);
    let along = panel.axis_values();
    let most = if panel.largest_figure() > 0.0 {
        panel.largest_figure() * 1.05
    } else {
        1.0
    };
    let x = |place: usize| left + PANEL.0 * (place as f64 + 0.5) / along.len().max(1) as f64;
    let y = |figure: f64| bottom - PANEL.1 * figure / most;
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        top - 8.0,
        escape_text(&panel.name)
    );
    for quarter in 0..=4 {
        let figure = most * f64::from(quarter) / 4.0;
        let (at, right) = (y(figure), left + PANEL.0);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            report::format_value(figure, panel.unit)
        );
    }
    for (place, value) in along.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(place),
            bottom + 16.0,
            escape_text(value)
        );
    }
    if let Some((key, _)) = panel
        .points
        .first()
        .and_then(|(settings, _)| settings.first())
    {
        let middle = left + PANEL.0 / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            bottom + 32.0,
            escape_text(key)
        );
    }
    for (index, (label, points)) in panel.curve_lines().iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let path = points
            .iter()
            .map(|(place, figure)| format!("{:.1},{:.1}", x(*place), y(*figure)));
        let path: Vec<String> = path.collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (place, figure) in points {
            let told = format!(
                "{label} {}: {}",
                along[*place],
                report::format_value(*figure, panel.unit)
            );
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{}</title></circle>",
                x(*place),
                y(*figure),
                escape_text(told.trim())
            );
        }
    }
}

/// Writes a file that is not there yet.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let why = || format!("cannot write {}", path.display());
    let mut file = std::fs::File::create_new(path).with_context(why)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).with_context(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(unit: Unit) -> Panel {
        let point = |a: &str, b: &str, figure| {
            let settings = vec![
                ("x".to_owned(), a.to_owned()),
                ("y<".to_owned(), b.to_owned()),
            ];
            (settings, figure)
        };
        Panel {
            name: "weir.p.host.io_full_pct".into(),
            unit,
            points: vec![
                point("1M", "1", Some(0.0)),
                point("1M", "2", Some(40.0)),
                point("2M", "1", None),
                point("2M", "2", Some(20.0)),
            ],
        }
    }

    #[test]
    fn the_longest_bar_is_the_largest_figure() {
        let drawn = draw_bars(&[panel(Unit::Percent)]);
        let bars: Vec<usize> = drawn
            .lines()
            .skip(2)
            .map(|l| l.matches('█').count())
            .collect();
        assert_eq!(bars, [0, 40, 0, 20], "{drawn}");
        assert!(drawn.contains("2M 1  -"), "{drawn}");
    }

    #[test]
    fn a_curve_for_each_combination_of_the_other_keys() {
        let panel = panel(Unit::Percent);
        let lines = panel.curve_lines();
        assert_eq!(lines[0], ("y<=1".into(), vec![(0, 0.0)]));
        assert_eq!(lines[1], ("y<=2".into(), vec![(0, 40.0), (1, 20.0)]));
        let drawn = draw_svg("a & b", &[panel]);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert_eq!(drawn.matches("<circle").count(), 3);
        assert!(drawn.contains("a &amp; b") && drawn.contains("y&lt;=2") && !drawn.contains("NaN"));
    }
}

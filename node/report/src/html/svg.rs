// SPDX-License-Identifier: GPL-2.0-only
//! One panel as inline SVG: axes, lines, areas, dots. Colours and dashes are classes of page.css;
//! page.js reads values back from the paths, so that the page holds every point once.
//!
//! Paths are in tenths of the picture's units, relative, as integers: `M0 2100l20-31 20 4`.

use super::axis::{Axis, format_mark, time_marks};
use super::pictures::{Mark, MarkKind, Panel};
use super::text::escape_text;
use super::thin::{self, Point};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 278.0;
/// Room for words of an axis as large as a telephone needs them.
const LEFT: f64 = 112.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 48.0;
/// Width of a letter, about.
const LETTER: f64 = 7.0;
/// Of the plot, without its margins.
const INNER: (f64, f64) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);

/// A panel and what was left out of it.
pub(super) struct Drawn {
    pub(super) svg: String,
    /// Points there are, points drawn; lines and dots.
    pub(super) thinned: (usize, usize),
}

/// Draws a panel; `id` is unique on the page.
pub(super) fn draw_panel(
    id: &str,
    title: &str,
    panel: &Panel,
    axis: &Axis,
    seconds: f64,
    phases: &[(f64, String)],
) -> Drawn {
    let mut drawn = Drawn {
        svg: String::new(),
        thinned: (0, 0),
    };
    let mut marks = String::new();
    for (index, mark) in panel.marks.iter().enumerate() {
        marks += &draw_mark(index, mark, axis, seconds, &mut drawn.thinned);
    }
    drawn.svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" tabindex=\"0\" \
         aria-labelledby=\"{id}-t {id}-d\" data-seconds=\"{seconds}\" data-low=\"{}\" data-high=\"{}\" \
         data-unit=\"{}\" data-scale=\"{}\" data-box=\"{LEFT} {TOP} {} {}\">\n\
         <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n\
         <clipPath id=\"{id}-c\"><rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n\
         {}{}\
         <g clip-path=\"url(#{id}-c)\"><g transform=\"translate({LEFT} {TOP})\"><g class=\"plot\"><g transform=\"scale(.1)\">\n{marks}</g></g></g></g>\n\
         </svg>\n",
        axis.low,
        axis.high,
        axis.unit.name(),
        if axis.unit.is_logarithmic() {
            "log"
        } else {
            "linear"
        },
        INNER.0,
        INNER.1,
        escape_text(title),
        escape_text(&describe_panel(panel)),
        // A line on the edge is whole.
        TOP - 2.0,
        INNER.0,
        INNER.1 + 4.0,
        draw_grid(axis, seconds),
        phase_lines(phases, seconds),
    );
    drawn
}

/// The picture in words, for readers who do not see it.
fn describe_panel(panel: &Panel) -> String {
    let lines = panel.marks.iter().take(12).filter_map(|mark| {
        let sums = mark.summarize_points()?;
        Some(format!(
            "{}: {} to {}, median {}.",
            mark.name,
            panel.unit.format_value(sums.least),
            panel.unit.format_value(sums.most),
            panel.unit.format_value(sums.median)
        ))
    });
    lines.collect::<Vec<_>>().join(" ")
}

fn draw_grid(axis: &Axis, seconds: f64) -> String {
    let bottom = TOP + INNER.1;
    let mut out = String::from("<g class=\"grid\">\n");
    for (value, words) in &axis.marks {
        let y = format_mark(TOP + (1.0 - axis.position_of(*value)) * INNER.1);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y}h{}\"/><text x=\"{}\" y=\"{y}\" dy=\".35em\" text-anchor=\"end\">{}</text>",
            INNER.0,
            LEFT - 8.0,
            escape_text(words)
        );
    }
    out += "</g>\n<g class=\"times\">\n";
    for at in time_marks(seconds) {
        let x = format_mark(LEFT + part_of_width(at, seconds) * INNER.0);
        let _ = writeln!(
            out,
            "<path d=\"M{x} {bottom}v5\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 22.0,
            format_mark(at)
        );
    }
    let _ = writeln!(
        out,
        "</g>\n<text class=\"unit\" x=\"{}\" y=\"{}\" text-anchor=\"end\">seconds</text>",
        WIDTH - RIGHT,
        HEIGHT - 4.0
    );
    out
}

fn phase_lines(phases: &[(f64, String)], seconds: f64) -> String {
    if phases.len() < 2 {
        return String::new();
    }
    let mut out = String::from("<g class=\"phases\">\n");
    let mut free_from = 0.0;
    for (at, name) in phases {
        let x = LEFT + part_of_width(*at, seconds) * INNER.0;
        let _ = writeln!(out, "<path d=\"M{} {TOP}v{}\"/>", format_mark(x), INNER.1);
        // A name that would cover the one before is left out: the page's head has them all.
        if x >= free_from {
            free_from = x + LETTER * (name.chars().count() + 2) as f64;
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" dx=\"4\">{}</text>",
                format_mark(x),
                TOP + 11.0,
                escape_text(name)
            );
        }
    }
    out + "</g>\n"
}

fn part_of_width(at: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { at / seconds } else { 0.0 }
}

fn draw_mark(
    index: usize,
    mark: &Mark,
    axis: &Axis,
    seconds: f64,
    thinned: &mut (usize, usize),
) -> String {
    let place = |(at, value): &(f64, f64)| -> Point {
        let x = part_of_width(*at, seconds) * INNER.0 * 10.0;
        let y = (1.0 - axis.position_of(*value)) * INNER.1 * 10.0;
        (x.round() as i32, y.round() as i32)
    };
    let mut path = String::new();
    for run in mark.points.split(|(_, value)| value.is_nan()) {
        let points: Vec<Point> = run.iter().map(place).collect();
        let kept = match mark.kind {
            MarkKind::Dots => thin::thin_dots(&points),
            MarkKind::Line | MarkKind::Area => thin::thin_line(&points),
        };
        thinned.0 += points.len();
        thinned.1 += kept.len();
        match mark.kind {
            MarkKind::Dots => dots_path(&kept, &mut path),
            MarkKind::Line | MarkKind::Area => line_path(&kept, &mut path),
        }
        if let (MarkKind::Area, Some(first), Some(last)) = (mark.kind, kept.first(), kept.last()) {
            let bottom = (INNER.1 * 10.0) as i32;
            let _ = write!(path, "L{} {bottom}H{}Z", last.0, first.0);
        }
    }
    let kind = match mark.kind {
        MarkKind::Dots => "dots",
        MarkKind::Line => "line",
        MarkKind::Area => "area",
    };
    format!(
        "<path class=\"{kind} {}\" data-mark=\"{index}\" data-name=\"{}\" d=\"{path}\"/>\n",
        mark.style,
        escape_text(&mark.name)
    )
}

fn line_path(points: &[Point], path: &mut String) {
    let Some((mut x, mut y)) = points.first().copied() else {
        return;
    };
    let _ = write!(path, "M{x} {y}");
    for (index, point) in points.iter().skip(1).enumerate() {
        let lead = if index == 0 { "l" } else { " " };
        push_pair(point.0 - x, point.1 - y, lead, path);
        (x, y) = *point;
    }
    if points.len() == 1 {
        path.push_str("l0 0");
    }
}

/// Lines of no length: their round ends are the dots, and stay round when the picture is stretched.
fn dots_path(points: &[Point], path: &mut String) {
    let (mut x, mut y) = (0, 0);
    for (index, point) in points.iter().enumerate() {
        let lead = if index == 0 { "M" } else { "m" };
        push_pair(point.0 - x, point.1 - y, lead, path);
        path.push_str("h0");
        (x, y) = *point;
    }
}

fn push_pair(x: i32, y: i32, lead: &str, path: &mut String) {
    let lead = if lead == " " && x < 0 { "" } else { lead };
    let between = if y < 0 { "" } else { " " };
    let _ = write!(path, "{lead}{x}{between}{y}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_short() {
        let mut path = String::new();
        line_path(&[(0, 100), (20, 90), (40, 90), (39, 95)], &mut path);
        assert_eq!(path, "M0 100l20-10 20 0-1 5");
        let mut path = String::new();
        dots_path(&[(5, 7), (10, 3)], &mut path);
        assert_eq!(path, "M5 7h0m5-4h0");
    }
}

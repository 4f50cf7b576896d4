// SPDX-License-Identifier: GPL-2.0-only
//! One page of HTML for one run, or for two side by side: pictures as inline SVG, the numbers
//! behind them as tables, style and script inside. It opens from disk, asks no network (a content
//! security policy forbids it to), works without the script, and is well-formed XML too, so that
//! any tool can read it.
//!
//! Two runs share their axes: what looks twice as high is twice as high.

mod axis;
mod figures;
mod pictures;
mod svg;
mod table;
mod text;
mod thin;

use crate::timeline::{Timeline, fairness_in_words};
use axis::Axis;
pub use figures::comparison_text;
use pictures::{Panel, Picture, all_pictures};
pub use text::escape_text;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Foot of the page: ways to use it, and what it leaves out.
const FOOT: &str = "<footer class=\"small\">\n<p>Of each column of a picture, the first, the least, the most and the last point of a line are \
drawn, so no peak is lost; dots in one spot are one. The tables are made from all points.</p>\n\
<p>The pointer reads values. Dragging shows a stretch of time in all pictures, double click all of it; a click on a name hides its \
line. Arrow keys, +, - and Escape do the same in a picture that has the focus.</p>\n</footer>\n";

/// The page of one or two runs.
pub fn html_page(runs: &[&Timeline]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let title = escape_text(&names.join(" beside "));
    let mut titles: Vec<&str> = runs.iter().map(|run| run.title.as_str()).collect();
    titles.dedup();
    titles.retain(|title| !title.is_empty());
    let heading = match titles[..] {
        [] => "weir report".to_owned(),
        _ => escape_text(&titles.join(" beside ")),
    };
    let mut body = format!("<h1>{heading}</h1>\n");
    body += &side_by_side(runs.iter().map(|run| run_header(run)));
    body += &figures::figures_table(runs);
    let seconds = runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
    for (index, picture) in all_pictures(runs).iter().enumerate() {
        body += &picture_section(index, picture, runs, seconds);
    }
    body += "<section><h2>Tasks</h2>\n";
    body += &side_by_side(runs.iter().map(|run| table::tasks_table(run)));
    body += "</section>\n";
    body += FOOT;
    let side = if runs.len() > 1 { " class=\"two\"" } else { "" };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body{side}>\n<main>\n{body}</main>\n\
         <script>\n//<![CDATA[\n{SCRIPT}//]]>\n</script>\n</body>\n</html>\n"
    )
}

/// A part of each run, beside each other.
fn side_by_side(parts: impl Iterator<Item = String>) -> String {
    let parts: String = parts.map(|part| format!("<div>\n{part}</div>\n")).collect();
    format!("<div class=\"columns\">\n{parts}</div>\n")
}

fn run_header(run: &Timeline) -> String {
    let mut out = format!("<h2>{}</h2>\n", escape_text(&run.name));
    out += &format!("<p>{}</p>\n", escape_text(&run.source));
    out += "<dl>\n";
    for (name, value) in &run.facts {
        out += &format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            escape_text(name),
            escape_text(value)
        );
    }
    // Tasks of two phases are not to be held against each other.
    if let (Some(fairness), true) = (run.fairness_index(), run.phases.is_empty()) {
        let words = fairness_in_words(fairness);
        out += &format!("<dt>fairness</dt><dd>{}</dd>\n", escape_text(&words));
    }
    out += "</dl>\n";
    if !run.missing.is_empty() {
        out += "<p>Not in this run:</p>\n<ul>\n";
        for text in &run.missing {
            out += &format!("<li>{}</li>\n", escape_text(text));
        }
        out += "</ul>\n";
    }
    if !run.verdict.is_empty() {
        out += &format!(
            "<details open=\"open\"><summary>What stalled and why</summary>\n<pre>{}</pre></details>\n",
            escape_text(run.verdict.trim_end())
        );
    }
    out
}

fn picture_section(index: usize, picture: &Picture, runs: &[&Timeline], seconds: f64) -> String {
    let axis = shared_axis(&picture.panels);
    let panels = picture.panels.iter().zip(runs).enumerate();
    let drawn = panels.map(|(column, (panel, run))| {
        let id = format!("p{index}-{column}");
        let title = if runs.len() > 1 {
            format!("{}, {}", picture.title, run.name)
        } else {
            picture.title.clone()
        };
        panel_figure(&id, &title, panel, run, &axis, seconds)
    });
    format!(
        "<section>\n<h2>{}</h2>\n<p>{}</p>\n{}</section>\n",
        escape_text(&picture.title),
        escape_text(&picture.note),
        side_by_side(drawn)
    )
}

fn shared_axis(panels: &[Panel]) -> Axis {
    let values = || {
        let marks = panels.iter().flat_map(|panel| &panel.marks);
        marks
            .flat_map(|mark| mark.points.iter().map(|(_, value)| *value))
            .filter(|value| !value.is_nan())
    };
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    Axis::new(panels[0].unit, least, most)
}

fn panel_figure(
    id: &str,
    title: &str,
    panel: &Panel,
    run: &Timeline,
    axis: &Axis,
    seconds: f64,
) -> String {
    if panel.marks.is_empty() {
        return "<p class=\"nothing\">Nothing of this in this run.</p>\n".into();
    }
    let drawn = svg::draw_panel(id, title, panel, axis, seconds, &run.phases);
    let mut out = String::from("<figure>\n");
    if !panel.subtitle.is_empty() {
        out += &format!(
            "<figcaption>{}</figcaption>\n",
            escape_text(&panel.subtitle)
        );
    }
    out += &panel_legend(panel);
    out += &drawn.svg;
    out += "<output class=\"readout\"></output>\n</figure>\n";
    let (all, kept) = drawn.thinned;
    if kept < all {
        out += &format!("<p class=\"small\">{kept} of {all} points are drawn.</p>\n");
    }
    out + &table::series_table(panel)
}

fn panel_legend(panel: &Panel) -> String {
    let mut out = String::from("<ul class=\"legend\">\n");
    for (index, mark) in panel.marks.iter().enumerate() {
        let shape = match mark.kind {
            pictures::MarkKind::Dots => "<path class=\"dots STYLE\" d=\"M14 6h0\"/>",
            pictures::MarkKind::Line => "<path class=\"line STYLE\" d=\"M0 6h28\"/>",
            pictures::MarkKind::Area => "<path class=\"area STYLE\" d=\"M4 0h20v12h-20z\"/>",
        };
        out += &format!(
            "<li><button type=\"button\" aria-pressed=\"true\" data-mark=\"{index}\"><svg viewBox=\"0 0 28 12\" width=\"28\" height=\"12\" aria-hidden=\"true\">{}</svg> {}</button></li>\n",
            shape.replace("STYLE", &mark.style),
            escape_text(&mark.name)
        );
    }
    out + "</ul>\n"
}

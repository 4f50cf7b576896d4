// SPDX-License-Identifier: GPL-2.0-only
//! Columns of text, as wide as there is room for.

/// A column and how much of the line it gets.
pub struct Spec {
    /// Title of the column.
    pub title: &'static str,
    /// Width in characters. With numbers: to the right, and as wide as this. With names: at least
    /// this.
    pub width: usize,
    /// Names get what numbers leave, and lose their beginning or their end if that is too little.
    pub kind: CellKind,
}

/// Cut and alignment of a cell of a [`Spec`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// A number, aligned right.
    Number,
    /// A path, of which the end says most.
    Path,
    /// Text, of which the beginning says most.
    Text,
}

/// The title and a line for each row. With a width no line is longer, and all fill it; without one,
/// names have the room they need.
pub fn layout_lines(specs: &[Spec], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let widths = column_widths(specs, rows, width);
    let titles = specs.iter().map(|spec| spec.title.to_string()).collect();
    std::iter::once(&titles)
        .chain(rows)
        .map(|cells: &Vec<String>| {
            let cells = cells.iter().zip(specs).zip(&widths);
            let padded: Vec<String> = cells
                .map(|((cell, spec), width)| match spec.kind {
                    CellKind::Number => format!("{cell:>width$}"),
                    CellKind::Path => format!("{:<width$}", keep_end(cell, *width)),
                    CellKind::Text => format!("{:<width$}", keep_beginning(cell, *width)),
                })
                .collect();
            let line = padded.join(" ");
            match width {
                Some(width) => keep_beginning(&line, width),
                None => line.trim_end().to_string(),
            }
        })
        .collect()
}

fn column_widths(specs: &[Spec], rows: &[Vec<String>], width: Option<usize>) -> Vec<usize> {
    let names = specs
        .iter()
        .filter(|spec| spec.kind != CellKind::Number)
        .count();
    let least: usize = specs.iter().map(|spec| spec.width + 1).sum::<usize>() - 1;
    let spare = width.map_or(0, |width| width.saturating_sub(least));
    let mut first = true;
    specs
        .iter()
        .enumerate()
        .map(|(at, spec)| match (spec.kind, width) {
            (CellKind::Number, _) => spec.width,
            (_, Some(_)) => {
                // The first column gets the remainder.
                let part = spare / names + if first { spare % names } else { 0 };
                first = false;
                spec.width + part
            }
            (_, None) => {
                let cells = rows.iter().map(|cells| cells[at].len());
                cells.max().unwrap_or(0).max(spec.title.len())
            }
        })
        .collect()
}

/// `/kubepods.slice/pod7/db` in 10 columns: `../pod7/db`.
pub fn keep_end(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.into();
    }
    let kept = width.saturating_sub(2);
    let dots = ".".repeat(width.min(2));
    dots + &text.chars().skip(length - kept).collect::<String>()
}

/// `host by /noisy` in 8 columns: `host b..`.
pub fn keep_beginning(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept = width.saturating_sub(2);
    let dots = ".".repeat(width.min(2));
    text.chars().take(kept).collect::<String>() + &dots
}

// SPDX-License-Identifier: GPL-2.0-only
//! Kernel patches as their authors send them, and their place in a source tree.
//!
//! A series is a directory of `git format-patch` (or a quilt `series`), one such file, or mails as
//! saved, one or an mbox. Mails without a diff (a cover letter, answers) are passed over. As `git
//! am`, a hunk may have moved but its lines have to be there; unlike it, an error names the line
//! that was wanted. Mail programs turn tabs into blanks and break lines, which is told apart from a
//! hunk for another kernel, and taken if asked for.

mod mail;

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

/// The option that takes mangled mail, for messages.
const OPTION: &str = "--ignore-whitespace";

/// One patch of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its file's name or its mail's subject, for messages.
    pub name: String,
    changes: Vec<Change>,
}

/// The change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Change {
    /// The file's path before; `None` for a new one.
    old: Option<String>,
    /// The file's path afterwards; `None` for one that goes.
    new: Option<String>,
    hunks: Vec<Hunk>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// Number of its `@@` line in the patch.
    line: usize,
    /// Number of its first line in the file, from 1.
    start: usize,
    lines: Vec<(Sign, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Kept,
    Removed,
    Added,
}

/// Treatment of white space that differs from the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blanks {
    /// It has to be the same.
    Exact,
    /// Lines are compared without it, broken ones joined, and added ones indented by tabs.
    Ignored,
}

/// Texts of files by path; `None` for one that is not there.
pub type Files = BTreeMap<String, Option<String>>;

/// The patches at `path`, in the order of the series.
pub fn read_series(path: &Path, blanks: Blanks) -> Result<Vec<Patch>> {
    let mut found = Vec::new();
    for file in mail::list_files(path)? {
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        for letter in mail::split_letters(&name, &String::from_utf8_lossy(&bytes))? {
            let changes = parse_changes(&letter.text, letter.first_line, blanks)
                .with_context(|| letter.name.clone())?;
            if !changes.is_empty() {
                let name = letter.name;
                found.push((letter.number, Patch { name, changes }));
            }
        }
    }
    // An mbox has its mails as they came in; files without numbers stay as they are.
    found.sort_by_key(|(number, _)| *number);
    ensure!(
        !found.is_empty(),
        "{}: no patch in it: a directory of *.patch files, one such file, or a mail with one",
        path.display()
    );
    Ok(found.into_iter().map(|(_, patch)| patch).collect())
}

/// Reads the diffs in a text whose first line has the number `first`.
fn parse_changes(text: &str, first: usize, blanks: Blanks) -> Result<Vec<Change>> {
    let mut changes: Vec<Change> = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    // Of the file that the lines before named: git's header, or `---` without one.
    let mut old = None;
    while let Some((at, line)) = lines.next() {
        let number = first + at;
        if let Some(from) = line.strip_prefix("rename from ") {
            changes.push(Change {
                old: Some(from.trim().to_owned()),
                ..Change::default()
            });
        } else if let Some(to) = line.strip_prefix("rename to ") {
            let renamed = changes.last_mut().context("`rename to` without `from`")?;
            renamed.new = Some(to.trim().to_owned());
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            bail!("line {number}: a binary patch, which is not text to apply");
        } else if let Some(path) = line.strip_prefix("--- ") {
            old = Some(parse_path(path)?);
        } else if let (Some(path), true) = (line.strip_prefix("+++ "), old.is_some()) {
            let change = Change {
                old: old.take().flatten(),
                new: parse_path(path)?,
                hunks: Vec::new(),
            };
            // A renamed file's header came before.
            let known = changes.last().is_some_and(|last| {
                last.hunks.is_empty() && last.old == change.old && last.new == change.new
            });
            if !known {
                changes.push(change);
            }
        } else if let (Some(range), Some(change)) = (line.strip_prefix("@@ -"), changes.last_mut())
        {
            let (start, removed, added) = parse_range(range)
                .with_context(|| format!("line {number}: `{line}` is not the head of a hunk"))?;
            let mut hunk = Hunk {
                line: number,
                start,
                lines: Vec::new(),
            };
            let (mut removed, mut added) = (removed, added);
            while removed > 0 || added > 0 {
                let (at, text) = lines.next().with_context(|| {
                    format!("the hunk at line {number} ends before all of its lines came")
                })?;
                let (sign, text) = match text.chars().next() {
                    // Mail programs drop blanks at the end of a line.
                    None => (Sign::Kept, ""),
                    Some(' ') => (Sign::Kept, &text[1..]),
                    Some('-') => (Sign::Removed, &text[1..]),
                    Some('+') => (Sign::Added, &text[1..]),
                    Some('\\') => continue,
                    Some(_) if blanks == Blanks::Ignored && !hunk.lines.is_empty() => {
                        if let Some((_, last)) = hunk.lines.last_mut() {
                            *last += " ";
                            *last += text;
                        }
                        continue;
                    }
                    Some(_) => bail!(
                        "line {}: `{text}` begins with no blank, + or -: a mail program broke the line before it; \
                         {}",
                        first + at,
                        advise_on_mail()
                    ),
                };
                removed -= usize::from(sign != Sign::Added).min(removed);
                added -= usize::from(sign != Sign::Removed).min(added);
                hunk.lines.push((sign, text.to_owned()));
            }
            // The rest of the hunk's last line, if it was broken.
            while let (Blanks::Ignored, Some((_, text))) = (blanks, lines.peek()) {
                let is_rest = !text.is_empty()
                    && !text.starts_with([' ', '+', '-', '@', '\\'])
                    && !text.starts_with("diff ");
                let Some((_, last)) = hunk.lines.last_mut().filter(|_| is_rest) else {
                    break;
                };
                *last = format!("{last} {text}");
                lines.next();
            }
            change.hunks.push(hunk);
        }
    }
    Ok(changes)
}

/// Advice about a patch that mail has changed.
fn advise_on_mail() -> String {
    format!(
        "take the mail as it was sent (`b4 am`, or \"raw\" on lore.kernel.org), or add {OPTION} to compare without \
         white space"
    )
}

/// The path in a `---` or `+++` line, without its first part; `None` for /dev/null.
fn parse_path(text: &str) -> Result<Option<String>> {
    let path = text.split('\t').next().unwrap_or(text).trim();
    if path == "/dev/null" {
        return Ok(None);
    }
    let below = path.split_once('/').map(|(_, below)| below);
    let below = below.filter(|below| is_plain(below));
    let below = below.with_context(|| {
        format!("`{path}` is no file of a kernel's source, which is named as in a/mm/filemap.c")
    })?;
    Ok(Some(below.to_owned()))
}

/// Does the path stay below the source?
fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    parts.all(|part| matches!(part, Component::Normal(_))) && !path.is_empty()
}

/// First line and number of lines before, number of lines afterwards: `12,7 +12,9 @@ ...`.
fn parse_range(text: &str) -> Option<(usize, usize, usize)> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let numbers = |range: &str| -> Option<(usize, usize)> {
        let (start, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let ((start, before), (_, after)) = (numbers(old)?, numbers(new)?);
    Some((start, before, after))
}

impl Patch {
    /// Applies it to `files`, which `read` adds to as they are needed.
    ///
    /// # Errors
    /// The hunk that does not fit: of which file, which line it wanted, and what is there.
    pub fn apply_patch(
        &self,
        files: &mut Files,
        read: &dyn Fn(&str) -> Result<Option<String>>,
        blanks: Blanks,
    ) -> Result<()> {
        for change in &self.changes {
            change
                .apply_change(files, read, blanks)
                .with_context(|| format!("the patch `{}`", self.name))?;
        }
        Ok(())
    }
}

impl Change {
    fn apply_change(
        &self,
        files: &mut Files,
        read: &dyn Fn(&str) -> Result<Option<String>>,
        blanks: Blanks,
    ) -> Result<()> {
        for path in [&self.old, &self.new].into_iter().flatten() {
            ensure!(is_plain(path), "`{path}` is no file of a kernel's source");
            if !files.contains_key(path) {
                files.insert(path.clone(), read(path)?);
            }
        }
        let text = match &self.old {
            None => {
                let new = self.new.as_deref().unwrap_or_default();
                ensure!(
                    files.get(new).is_none_or(Option::is_none),
                    "{new}: is to be new, and is in the source already"
                );
                String::new()
            }
            Some(old) => files
                .get(old)
                .cloned()
                .flatten()
                .with_context(|| format!("{old}: this kernel's source has no such file"))?,
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // By how much the hunks before have moved those that follow.
        let mut moved = 0;
        for hunk in &self.hunks {
            let path = self.old.as_ref().or(self.new.as_ref());
            moved = hunk
                .apply_hunk(&mut lines, moved, blanks)
                .with_context(|| path.cloned().unwrap_or_default())?;
        }
        if let Some(old) = &self.old {
            files.insert(old.clone(), None);
        }
        if let Some(new) = &self.new {
            let end = if lines.is_empty() { "" } else { "\n" };
            files.insert(new.clone(), Some(lines.join("\n") + end));
        }
        Ok(())
    }
}

impl Hunk {
    /// Lines of the file that it wants, or those it makes of them.
    fn lines_without(&self, without: Sign) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(sign, _)| *sign != without);
        lines.map(|(_, text)| text.as_str()).collect()
    }

    /// Applies it near where it says; by how many lines the file is longer, and the hunk was off.
    fn apply_hunk(&self, lines: &mut Vec<String>, moved: isize, blanks: Blanks) -> Result<isize> {
        let wanted = self.lines_without(Sign::Added);
        // Of a hunk without lines before, the number is that of the line above it.
        let first = self.start.saturating_sub(usize::from(!wanted.is_empty()));
        let expected = first.saturating_add_signed(moved);
        let found = find_lines(lines, &wanted, expected, blanks);
        let Some(at) = found else {
            return Err(self.explain_misfit(lines, &wanted, expected, blanks));
        };
        let mut made = Vec::new();
        let mut next = at;
        for (sign, text) in &self.lines {
            match sign {
                Sign::Added if blanks == Blanks::Ignored => made.push(indent_by_tabs(text)),
                Sign::Added => made.push(text.clone()),
                // The file's own, should the patch's be mangled.
                Sign::Kept => made.push(lines[next].clone()),
                Sign::Removed => {}
            }
            next += usize::from(*sign != Sign::Added);
        }
        let longer = made.len() as isize - wanted.len() as isize;
        lines.splice(at..at + wanted.len(), made);
        Ok(at as isize - first as isize + longer)
    }

    /// Why it does not fit.
    fn explain_misfit(
        &self,
        lines: &[String],
        wanted: &[&str],
        expected: usize,
        blanks: Blanks,
    ) -> anyhow::Error {
        let head = format!("its hunk at line {} of the patch does not fit", self.line);
        let made = self.lines_without(Sign::Removed);
        if made.len() > wanted.len() && find_lines(lines, &made, expected, blanks).is_some() {
            return anyhow::anyhow!("{head}: the source has its lines already");
        }
        let loose = Blanks::Ignored;
        if blanks != loose && find_lines(lines, wanted, expected, loose).is_some() {
            return anyhow::anyhow!(
                "{head} but for white space, which mail has changed: {}",
                advise_on_mail()
            );
        }
        // The place at which it goes on for longest without a difference.
        let agrees = |at: usize| {
            let pairs = lines[at..].iter().zip(wanted);
            pairs
                .take_while(|(has, want)| is_same(has, want, loose))
                .count()
        };
        let near = |at: &usize| at.abs_diff(expected);
        let best = (0..lines.len())
            .max_by_key(|at| (agrees(*at), std::cmp::Reverse(near(at))))
            .unwrap_or(0);
        let same = agrees(best);
        let want = wanted.get(same).copied().unwrap_or_default();
        let has = lines.get(best + same).map_or("its end", String::as_str);
        anyhow::anyhow!(
            "{head}: line {} of the file would have to be\n    {}\nand is\n    {}\nThe patch is for another kernel: try \
             one nearer to it (`weir kernels`), or rebase it",
            best + same + 1,
            want.trim(),
            has.trim()
        )
    }
}

/// The place of `wanted` in `lines` that is nearest to `expected`.
fn find_lines(lines: &[String], wanted: &[&str], expected: usize, blanks: Blanks) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let fits = |at: &usize| {
        let pairs = lines[*at..].iter().zip(wanted);
        pairs.fold(true, |all, (has, want)| all && is_same(has, want, blanks))
    };
    // Nothing to compare: only where it says.
    if wanted.is_empty() {
        return (expected <= last).then_some(expected);
    }
    let mut places: Vec<usize> = (0..=last).filter(fits).collect();
    places.sort_by_key(|at| at.abs_diff(expected));
    places.first().copied()
}

fn is_same(has: &str, wanted: &str, blanks: Blanks) -> bool {
    match blanks {
        Blanks::Exact => has == wanted,
        Blanks::Ignored => {
            let solid = |text: &'_ str| -> String { text.split_whitespace().collect() };
            has == wanted || solid(has) == solid(wanted)
        }
    }
}

/// The line with its first blanks as tabs of eight, as mail programs have replaced them.
fn indent_by_tabs(line: &str) -> String {
    let text = line.trim_start_matches([' ', '\t']);
    let width = line[..line.len() - text.len()]
        .chars()
        .fold(0, |width, blank| match blank {
            '\t' => (width / 8 + 1) * 8,
            _ => width + 1,
        });
    "\t".repeat(width / 8) + &" ".repeat(width % 8) + text
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-2.0-only
//! The view that the keys have chosen. Nothing here draws.

use super::columns::{Column, is_idle};
use observe::interval::{CgroupRow, Interval};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// The keys that are always shown.
pub const KEYS: &str =
    "q quit  <> sort  r reverse  / filter  a all  d devices  +- pace  h hold  ? help";

/// Keys and their meanings, for the page of help.
pub const HELP: [(&str, &str); 11] = [
    ("q  Ctrl-C", "quit"),
    ("<  >  left  right", "sort by the column before, after"),
    ("r", "reverse the order"),
    (
        "up  down  PgUp  PgDn",
        "move; the last lines are about the row that is marked",
    ),
    ("Home  End", "to the first row, to the last"),
    (
        "/",
        "only cgroups with the typed text in their path; Enter ends",
    ),
    ("Esc", "leave this page, the filter, the mark"),
    ("a", "cgroups and devices, too, with nothing to do"),
    ("d", "all devices, or those with something to do"),
    ("+  -", "look half, twice as often"),
    ("h  space", "hold the picture; looking goes on"),
];

/// State of `weir top` that keys change.
#[derive(Clone, Debug)]
pub struct View {
    /// Time between two looks.
    pub every: Duration,
    /// Column to sort by.
    pub sort: Column,
    /// `true` if the least comes first.
    pub reversed: bool,
    /// Part of a path.
    pub filter: String,
    /// `true` while keys go to the filter.
    pub typing: bool,
    /// `true` if idle cgroups are shown.
    pub all: bool,
    /// `true` if idle devices are shown.
    pub all_devices: bool,
    /// The path of the row that is marked.
    pub marked: Option<String>,
    /// `true` while the picture stays as it is.
    pub held: bool,
    /// `true` while the page of help is shown.
    pub help: bool,
}

/// Consequence of a key, beyond another picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Draw the picture again.
    Draw,
    /// End `weir top`.
    Quit,
}

/// The fastest and the slowest looks.
const PACES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

impl View {
    /// A view as asked for on the command line.
    pub fn new(every: Duration, sort: Column, filter: String, all: bool) -> View {
        View {
            every,
            sort,
            filter,
            all,
            reversed: false,
            typing: false,
            all_devices: false,
            marked: None,
            held: false,
            help: false,
        }
    }

    /// The cgroups to show, in order.
    pub fn visible_rows<'a>(&self, interval: &'a Interval) -> Vec<&'a CgroupRow> {
        let mut rows: Vec<&CgroupRow> = interval
            .cgroups
            .iter()
            .filter(|row| row.cgroup.contains(&self.filter))
            .filter(|row| self.all || !is_idle(row))
            .collect();
        rows.sort_by(|a, b| self.sort.compare_rows(a, b));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// Index of the marked row; nothing is marked if it is not there.
    pub fn marked_index(&self, rows: &[&CgroupRow]) -> Option<usize> {
        let marked = self.marked.as_ref()?;
        rows.iter().position(|row| row.cgroup == *marked)
    }

    /// Takes a key; `page` is how many rows are in sight.
    pub fn press_key(&mut self, key: KeyEvent, interval: Option<&Interval>, page: usize) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        if control {
            return Action::Draw;
        }
        if self.typing {
            self.type_filter(key.code);
            return Action::Draw;
        }
        let page = isize::try_from(page.max(1)).unwrap_or(isize::MAX);
        match key.code {
            KeyCode::Char('q' | 'Q') => return Action::Quit,
            KeyCode::Char('?') => self.help = !self.help,
            KeyCode::Esc => self.close_innermost(),
            KeyCode::Char('<') | KeyCode::Left => self.shift_sort_column(-1),
            KeyCode::Char('>') | KeyCode::Right => self.shift_sort_column(1),
            KeyCode::Char('r' | 'R') => self.reversed = !self.reversed,
            KeyCode::Char('/') => (self.typing, self.help) = (true, false),
            KeyCode::Char('a') => self.all = !self.all,
            KeyCode::Char('d') => self.all_devices = !self.all_devices,
            KeyCode::Char('h' | ' ') => self.held = !self.held,
            KeyCode::Char('+') => self.every = (self.every * 2).min(PACES.1),
            KeyCode::Char('-') => self.every = (self.every / 2).max(PACES.0),
            KeyCode::Up => self.move_mark(interval, -1),
            KeyCode::Down => self.move_mark(interval, 1),
            KeyCode::PageUp => self.move_mark(interval, -page),
            KeyCode::PageDown => self.move_mark(interval, page),
            KeyCode::Home => self.move_mark(interval, isize::MIN),
            KeyCode::End => self.move_mark(interval, isize::MAX),
            _ => {}
        }
        Action::Draw
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
    }

    /// Leaves one thing at a time: the page of help, the mark, the filter.
    fn close_innermost(&mut self) {
        if self.help {
            self.help = false;
        } else if self.marked.is_some() {
            self.marked = None;
        } else {
            self.filter.clear();
        }
    }

    fn shift_sort_column(&mut self, step: isize) {
        let at = Column::ALL.iter().position(|column| *column == self.sort);
        let next = at.unwrap_or(0).saturating_add_signed(step);
        self.sort = Column::ALL[next.min(Column::ALL.len() - 1)];
    }

    fn move_mark(&mut self, interval: Option<&Interval>, by: isize) {
        let Some(rows) = interval.map(|interval| self.visible_rows(interval)) else {
            return;
        };
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let at = match self.marked_index(&rows) {
            Some(at) => at.saturating_add_signed(by).min(last),
            // The first key marks the first row, End the last.
            None if by == isize::MAX => last,
            None => 0,
        };
        self.marked = Some(rows[at].cgroup.clone());
    }
}

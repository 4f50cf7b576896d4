// SPDX-License-Identifier: GPL-2.0-only
//! A terminal: draws the screen, takes the keys. Whatever way it ends but by SIGKILL, a panic
//! included, the terminal is as it was before.

use super::Looks;
use super::screen::{self, Tone};
use super::view::{Action, View};
use anyhow::{Context, Result};
use observe::interval::Interval;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use std::sync::atomic::{AtomicBool, Ordering};

/// Draws looks until the user quits, `-n` is reached, or weir is asked to end.
pub fn run(
    looks: Looks,
    view: View,
    number: Option<u64>,
    colour: bool,
    stop: &AtomicBool,
) -> Result<()> {
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    // A terminal without an alternate screen shows what was there before.
    let cleared = terminal.clear().context("the terminal cannot be used");
    let done =
        cleared.and_then(|()| run_terminal(&mut terminal, looks, view, number, colour, stop));
    let restored = ratatui::try_restore().context("the terminal cannot be restored");
    done.and(restored)
}

fn run_terminal(
    terminal: &mut ratatui::DefaultTerminal,
    mut looks: Looks,
    mut view: View,
    number: Option<u64>,
    colour: bool,
    stop: &AtomicBool,
) -> Result<()> {
    let mut shown: Option<Interval> = None;
    let mut left = number;
    let mut page = 0;
    let mut is_new = true;
    while !stop.load(Ordering::Relaxed) && left != Some(0) {
        if is_new {
            let drawn =
                terminal.draw(|frame| page = draw_screen(frame, &view, shown.as_ref(), colour));
            drawn.context("cannot draw on the terminal")?;
        }
        is_new = false;
        if event::poll(looks.time_left()).context("cannot read keys")? {
            match event::read().context("cannot read keys")? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    if view.press_key(key, shown.as_ref(), page) == Action::Quit {
                        return Ok(());
                    }
                    is_new = true;
                }
                Event::Resize(..) => is_new = true,
                _ => {}
            }
        }
        if let Some(interval) = looks.next(view.every)? {
            left = left.map(|left| left - 1);
            if !view.held {
                shown = Some(interval);
                is_new = true;
            }
        }
    }
    Ok(())
}

/// Draws; returns how many rows of cgroups are in sight.
pub fn draw_screen(
    frame: &mut Frame,
    view: &View,
    shown: Option<&Interval>,
    colour: bool,
) -> usize {
    let area = frame.area();
    let (lines, page) = screen::screen_lines(view, shown, area.width.into(), area.height.into());
    let lines = lines
        .into_iter()
        .map(|(tone, line)| Line::styled(fill_width(line, area.width), tone_style(tone, colour)));
    frame.render_widget(Text::from_iter(lines), area);
    page
}

/// Fills a line with spaces, so that what is in reverse video is so up to the edge.
fn fill_width(line: String, width: u16) -> String {
    let width = usize::from(width);
    format!("{line:<width$}")
}

fn tone_style(tone: Tone, colour: bool) -> Style {
    let plain = Style::new();
    match tone {
        Tone::Plain => plain,
        Tone::Titles | Tone::Marked => plain.add_modifier(Modifier::REVERSED),
        Tone::Stalled if colour => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
        Tone::Stalled => plain.add_modifier(Modifier::BOLD),
        Tone::Note if colour => plain.fg(Color::Yellow),
        Tone::Note => plain,
        Tone::Keys if colour => plain.fg(Color::Cyan),
        Tone::Keys => plain.add_modifier(Modifier::DIM),
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Screens and keys, on an interval as a guest had it.

use super::columns::{Column, format_size, printable_name};
use super::table::{keep_beginning, keep_end};
use super::view::{Action, View};
use super::{Looks, affordable_interval, batch, live, screen};
use observe::diagnosis::{Cause, Decider};
use observe::interval::{CgroupRow, DeviceRow, HostRow, Interval, StallRow};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn row(cgroup: &str, dirty: u64, into: f64, out: f64, throttled: f64) -> CgroupRow {
    CgroupRow {
        cgroup: cgroup.into(),
        dirty_bytes: Some(dirty),
        writeback_bytes: Some(dirty / 8),
        limit_bytes: Some(20 * MIB),
        in_bytes_per_second: Some(into),
        out_bytes_per_second: Some(out),
        lost_seconds_per_second: Some(throttled),
        throttled_seconds_per_second: Some(throttled / 2.0),
        ..CgroupRow::default()
    }
}

/// /noisy fills the host's limit, /db waits for it.
fn interval() -> Interval {
    let mib = MIB as f64;
    let stall = StallRow {
        victim: "/db.slice/db".into(),
        cause: Cause::Throttle(Decider::Host),
        culprit: Some("/noisy".into()),
        because: "the host is at its limit of dirty pages, and /noisy holds most of them".into(),
        command: Some("echo 16M > /sys/fs/cgroup/db.slice/db/memory.dirty_min".into()),
        lost_seconds: 1.53,
    };
    let mut cgroups = vec![
        row("/", 31 * MIB, 1.5 * mib, 1.0 * mib, 0.8),
        row("/db.slice", MIB, 0.25 * mib, 0.25 * mib, 0.765),
        row("/db.slice/db", MIB, 0.25 * mib, 0.25 * mib, 0.765),
        row("/idle", 0, 0.0, 0.0, 0.0),
        row("/noisy", 30 * MIB, 1.25 * mib, 0.75 * mib, 0.035),
        CgroupRow {
            cgroup: "/unknown".into(),
            ..CgroupRow::default()
        },
    ];
    for row in &mut cgroups[..3] {
        row.stall = Some(stall.clone());
    }
    cgroups[2].floor_bytes = Some(16 * MIB);
    cgroups[0].lost_to = [("fsync", 0.3), ("throttle", 0.5)].into();
    Interval {
        seconds: 2.0,
        host: HostRow {
            dirty_bytes: 31 * MIB,
            writeback_bytes: MIB,
            freerun_bytes: 24 * MIB,
            limit_bytes: 32 * MIB,
        },
        cgroups,
        devices: vec![
            DeviceRow {
                device: "254:0".into(),
                disk: Some("vda".into()),
                mounted_at: Some("/mnt/d".into()),
                out_bytes_per_second: mib,
                busy: 0.998,
                throttled_seconds_per_second: Some(0.8),
                ..DeviceRow::default()
            },
            DeviceRow {
                device: "7:0".into(),
                ..DeviceRow::default()
            },
        ],
        weir: Some("idle".into()),
        ..Interval::default()
    }
}

fn view() -> View {
    View::new(Duration::from_secs(2), Column::Lost, String::new(), false)
}

fn press(view: &mut View, code: KeyCode) -> Action {
    let key = KeyEvent::new(code, KeyModifiers::NONE);
    view.press_key(key, Some(&interval()), 10)
}

fn names(view: &View) -> Vec<String> {
    let interval = interval();
    let rows = view.visible_rows(&interval);
    rows.iter().map(|row| row.cgroup.clone()).collect()
}

/// What a terminal of this size shows, its lines without what is blank at their end.
fn shown(view: &View, interval: Option<&Interval>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("made");
    terminal
        .draw(|frame| {
            live::draw_screen(frame, view, interval, false);
        })
        .expect("drawn");
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(width.max(1).into());
    lines
        .map(|line| line.concat().trim_end().to_string() + "\n")
        .collect()
}

#[test]
fn a_screen_of_80_by_24() {
    let wanted = "\
weir top: last 2.0 s, weir's module idle, by LOST%
host: 31.0M dirty + 1.0M in writeback; writers held from 24.0M, limit 32.0M
DEVICE          MOUNTED AT     DIRTY WRTBK LIMIT  IN/s OUT/s READ/s BUSY% THROT%
254:0 vda       /mnt/d             -     -     -     -  1.0M      0  99.8   80.0
CGROUP          DIRTY WRTBK FLOOR  CEIL LIMIT  IN/s OUT/s  LOST% STALLED BY
/               31.0M  3.9M     -     - 20.0M  1.5M  1.0M   80.0 host /noisy
/db.slice        1.0M  128K     -     - 20.0M  256K  256K   76.5 host /noisy
/db.slice/db     1.0M  128K 16.0M     - 20.0M  256K  256K   76.5 host /noisy
/noisy          30.0M  3.8M     -     - 20.0M  1.2M  768K    3.5












throttle 50.0 %, fsync 30.0 %; /db.slice/db: the host is at its limit of dirty..
to change: echo 16M > /sys/fs/cgroup/db.slice/db/memory.dirty_min
q quit  <> sort  r reverse  / filter  a all  d devices  +- pace  h hold  ? help
";
    assert_eq!(shown(&view(), Some(&interval()), 80, 24), wanted);
}

#[test]
fn a_wide_one_shows_how_long_flushers_were_held() {
    let mut interval = interval();
    interval.cgroups[4].window_held_seconds_per_second = Some(0.875);
    let text = shown(&view(), Some(&interval), 107, 12);
    let row = text.lines().find(|line| line.starts_with("/noisy"));
    assert!(text.contains("OUT/s HELD% THROT%  LOST%"), "{text}");
    assert!(
        row.is_some_and(|row| row.contains(" 87.5    1.8    3.5")),
        "{text}"
    );
    assert!(!shown(&view(), Some(&interval), 106, 12).contains("HELD%"));
}

#[test]
fn a_narrow_one_leaves_out_what_says_least() {
    let wanted = "\
CGROUP       DIRTY  IN/s OUT/s  LOST% STALLED BY
/            31.0M  1.5M  1.0M   80.0 host /noisy
/db.slice     1.0M  256K  256K   76.5 host /noisy
q quit  <> sort  r reverse  / filter  a all  d d..
";
    assert_eq!(shown(&view(), Some(&interval()), 50, 4), wanted);
}

#[test]
fn no_terminal_is_too_small_or_too_large() {
    let mut views = [view(), view(), view()];
    views[1].help = true;
    views[2].typing = true;
    views[2].marked = Some("/noisy".into());
    for view in &views {
        for (width, height) in (0..90)
            .step_by(7)
            .flat_map(|width| (0..30).map(move |height| (width, height)))
        {
            for interval in [None, Some(&interval())] {
                let (lines, _) = screen::screen_lines(view, interval, width, height);
                assert_eq!(lines.len(), height, "{width} x {height}");
                assert!(lines.iter().all(|(_, line)| line.len() <= width));
            }
        }
    }
    shown(&view(), Some(&interval()), 500, 200);
}

#[test]
fn without_a_terminal_nothing_is_cut() {
    let mut interval = interval();
    interval.notes =
        vec!["time throttled is not seen: reading the kernel's events takes root".into()];
    interval.cgroups[4].cgroup = format!("/{}", "long/".repeat(40));
    let text = screen::plain_text(&view(), &interval);
    assert!(text.contains(&"long/".repeat(40)), "{text}");
    assert!(
        text.contains(
            "\nnote: time throttled is not seen: reading the kernel's events takes root\n"
        )
    );
    assert!(text.ends_with("\n\n"));
}

#[test]
fn what_programs_read_is_one_line_with_units_in_the_names() {
    let line = batch::json_line(&view(), &interval()).expect("made");
    assert!(!line.contains('\n'));
    let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert!(json["time"].as_f64() > Some(1e9));
    assert_eq!(json["host"]["limit_bytes"], 32 * MIB);
    assert_eq!(json["cgroups"].as_array().map(Vec::len), Some(4));
    let root = &json["cgroups"][0];
    assert_eq!(root["stall"]["cause"], "host_limit");
    assert_eq!(root["floor_bytes"], serde_json::Value::Null);
}

#[test]
fn keys_sort_and_reverse() {
    let mut view = view();
    assert_eq!(names(&view), ["/", "/db.slice", "/db.slice/db", "/noisy"]);
    press(&mut view, KeyCode::Char('<'));
    assert_eq!(view.sort, Column::Throttled);
    press(&mut view, KeyCode::Char('<'));
    assert_eq!(view.sort, Column::Held);
    press(&mut view, KeyCode::Char('<'));
    assert_eq!(view.sort, Column::Out);
    assert_eq!(names(&view)[..2], ["/", "/noisy"]);
    press(&mut view, KeyCode::Char('r'));
    assert_eq!(names(&view).last().map(String::as_str), Some("/"));
    for _ in 0..20 {
        press(&mut view, KeyCode::Left);
    }
    assert_eq!(view.sort, Column::Cgroup);
    press(&mut view, KeyCode::Char('r'));
    assert_eq!(names(&view), ["/", "/db.slice", "/db.slice/db", "/noisy"]);
    // What is not known is last, whatever it is sorted by.
    press(&mut view, KeyCode::Char('a'));
    for column in &Column::ALL[1..] {
        view.sort = *column;
        assert_eq!(names(&view).last().map(String::as_str), Some("/unknown"));
    }
}

#[test]
fn keys_filter() {
    let mut view = view();
    for code in ['/', 'd', 'b', 'q'].map(KeyCode::Char) {
        assert_eq!(press(&mut view, code), Action::Draw);
    }
    assert!(names(&view).is_empty());
    assert!(shown(&view, Some(&interval()), 80, 24).contains("filter: dbq_"));
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    assert_eq!(names(&view), ["/db.slice", "/db.slice/db"]);
    assert!(shown(&view, Some(&interval()), 80, 24).contains("only *db*"));
    press(&mut view, KeyCode::Esc);
    assert_eq!(names(&view).len(), 4);
    assert_eq!(press(&mut view, KeyCode::Char('q')), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    view.typing = true;
    assert_eq!(view.press_key(interrupt, None, 1), Action::Quit);
}

#[test]
fn the_mark_stays_on_its_cgroup_and_in_sight() {
    let mut interval = interval();
    interval.cgroups = (0..100)
        .map(|n| row(&format!("/c{n:02}"), MIB, 0.0, 0.0, f64::from(100 - n)))
        .collect();
    let mut view = view();
    let mut press =
        |code| view.press_key(KeyEvent::new(code, KeyModifiers::NONE), Some(&interval), 10);
    for code in [
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::PageDown,
        KeyCode::Down,
    ] {
        press(code);
    }
    assert_eq!(view.marked.as_deref(), Some("/c21"));
    assert!(shown(&view, Some(&interval), 80, 24).contains("/c21"));
    view.sort = Column::Cgroup;
    view.reversed = true;
    assert!(shown(&view, Some(&interval), 80, 8).contains("/c21"));
    // One that is gone is not marked.
    interval.cgroups.retain(|row| row.cgroup != "/c21");
    assert_eq!(view.marked_index(&view.visible_rows(&interval)), None);
    assert!(shown(&view, Some(&interval), 80, 24).contains("/c99"));
}

#[test]
fn the_page_of_help_has_every_key() {
    let mut view = view();
    press(&mut view, KeyCode::Char('?'));
    let help = shown(&view, Some(&interval()), 80, 24);
    for what in [
        "quit",
        "reverse",
        "Home",
        "filter",
        "hold",
        "LIMIT",
        "cannot be known.",
    ] {
        assert!(help.contains(what), "{what}:\n{help}");
    }
    assert!(!help.contains(".."), "cut:\n{help}");
    press(&mut view, KeyCode::Esc);
    assert!(!view.help);
}

#[test]
fn names_do_not_speak_to_the_terminal() {
    let mut interval = interval();
    interval.cgroups[4].cgroup = "/\x1b[2J\u{9b}evil\n\u{202e}".into();
    interval.cgroups[2].stall.as_mut().expect("there").culprit = Some("/\x1b]0;x\x07".into());
    let mut view = view();
    view.filter = "\x1b".into();
    for text in [screen::plain_text(&view, &interval), {
        view.filter.clear();
        screen::plain_text(&view, &interval)
    }] {
        let is_fine = |c: char| c == '\n' || c == ' ' || c.is_ascii_graphic();
        assert!(text.chars().all(is_fine), "{text:?}");
    }
    assert_eq!(printable_name("/a b\n"), "/a b?");
}

#[test]
fn sizes_have_five_columns() {
    for (bytes, wanted) in [
        (0.0, "0"),
        (999.0, "999"),
        (1000.0, "1.0K"),
        (1023.6, "1.0K"),
        (4096.0, "4.0K"),
        (102_348.0, "99.9K"),
        (102_399.0, "100K"),
        (1_023_400.0, "999K"),
        (1_048_575.0, "1.0M"),
        (1.5e15, "1.3P"),
    ] {
        assert_eq!(format_size(Some(bytes)), wanted);
        assert!(wanted.len() <= 5);
    }
    assert_eq!(format_size(None), "-");
}

#[test]
fn text_that_is_too_long_is_cut_where_it_says_least() {
    assert_eq!(keep_end("/kubepods.slice/pod7/db", 10), "../pod7/db");
    assert_eq!(keep_beginning("host by /noisy", 8), "host b..");
    for width in 0..4 {
        assert_eq!(keep_end("abcdef", width).len(), width);
        assert_eq!(keep_beginning("abcdef", width).len(), width);
    }
}

#[test]
fn looks_keep_their_distance() {
    let (two, ms) = (Duration::from_secs(2), Duration::from_millis);
    assert_eq!(affordable_interval(two, ms(30)), two);
    assert_eq!(affordable_interval(two, ms(400)), ms(4000));
}

#[test]
fn a_look_comes_when_it_is_due() {
    let root = tempfile::tempdir().expect("made");
    let cgroups = root.path().join("sys/fs/cgroup");
    std::fs::create_dir_all(&cgroups).expect("made");
    std::fs::write(cgroups.join("cgroup.controllers"), "io\n").expect("written");
    let mut looks = Looks {
        watch: observe::watch::IntervalWatch::start(root.path()).expect("begun"),
        due: Instant::now() + Duration::from_secs(3600),
    };
    let every = Duration::from_secs(7);
    assert!(looks.next(every).expect("seen").is_none());
    looks.due = Instant::now();
    let interval = looks.next(every).expect("seen").expect("due");
    assert_eq!(interval.cgroups.len(), 1);
    assert!(looks.due > Instant::now() + Duration::from_secs(6));
}

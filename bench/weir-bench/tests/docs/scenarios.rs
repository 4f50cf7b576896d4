// SPDX-License-Identifier: GPL-2.0-only
//! The reference of scenario files, against what the parser knows.

use super::*;

/// Rows of the tables that have a column *where*: their section, keys, and that column.
fn rows_with_places(page: &str) -> Vec<(String, Vec<String>, String)> {
    let (mut section, mut is_wanted, mut rows) = (String::new(), false, Vec::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.into();
        }
        let cells: Vec<&str> = line.split('|').collect();
        let [_, keys, .., places, _] = cells[..] else {
            is_wanted = false;
            continue;
        };
        if places == "where" {
            is_wanted = true;
        } else if is_wanted && !keys.starts_with('-') {
            let keys = keys.split('`').skip(1).step_by(2).map(str::to_owned);
            let places = places.strip_suffix(", arm `weir`").unwrap_or(places);
            rows.push((section.clone(), keys.collect(), places.to_owned()));
        }
    }
    rows
}

#[test]
fn scenarios_say_which_place_honours_a_key() {
    let code = scenario::place::ROWS.iter().map(|row| {
        let keys = row.key_names().into_iter().map(str::to_owned);
        (
            row.section.to_owned(),
            keys.collect(),
            row.describe_places(),
        )
    });
    let code: Vec<(String, Vec<String>, String)> = code.collect();
    let page = rows_with_places(&read("docs/scenarios.md"));
    assert_eq!(page, code, "docs/scenarios.md and scenario::place::ROWS");
}

/// A file with a key that no table knows in each table, so that each complaint lists those it knows.
const UNKNOWN_KEYS: &str = r#"
title = "t"
[host]
zzz = 1
[[tier]]
zzz = 1
[agent]
zzz = 1
[[disk]]
zzz = 1
[cgroup.NAME]
zzz = 1
[[job]]
zzz = 1
memory = { zzz = 1 }
[[job]]
sync = { zzz = 1 }
[[job]]
network = { zzz = 1 }
[[phase]]
zzz = 1
[[expect]]
zzz = 1
[twin]
zzz = 1
"#;

#[test]
fn every_key_of_a_scenario_is_in_its_section() {
    let page = read("docs/scenarios.md");
    let sections: Vec<(&str, &str)> = page
        .split("\n## ")
        .filter_map(|section| section.split_once('\n'))
        .collect();
    let refused = scenario::parse("t", "t.toml", UNKNOWN_KEYS).expect_err("refused");
    let (mut tables, mut missing) = (0, Vec::new());
    for problem in refused.0 {
        let (Some(key), Some((_, known))) = (
            problem.key.strip_suffix("zzz"),
            problem.what.split_once("known: "),
        ) else {
            continue;
        };
        tables += 1;
        let table = key.split(['.', '[']).next().unwrap_or_default();
        let heading = ["", "["].map(|twice| format!("{twice}[{table}"));
        let section = sections
            .iter()
            .find(|(title, _)| heading.iter().any(|heading| title.starts_with(heading)));
        let (title, text) = section.unwrap_or_else(|| panic!("no section of `{table}`"));
        let known = known.split(", ");
        // Other keys of a job's `sync` and `network` stand in the form of their table.
        let is_named = |key: &str| {
            text.contains(&format!("`{key}`"))
                || text.contains(&format!("{key} }}`"))
                || text.contains(&format!("{{ {key}, "))
        };
        missing.extend(
            known
                .filter(|key| !is_named(key))
                .map(|key| format!("{title}: {key}")),
        );
    }
    assert_eq!(tables, 12, "tables");
    assert_eq!(missing, Vec::<String>::new());
}

/// The table between the marks in docs/scenarios.md, from what `weir metrics` lists.
fn metrics() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["metrics", "--json"])
        .output()
        .expect("runs");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().expect(key).to_owned();
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for row in &rows {
        let only = row["only"].as_array().expect("a list").iter();
        let only: Vec<&str> = only.filter_map(|only| only.as_str()).collect();
        let head = [text(row, "of"), text(row, "unit"), only.join(", ")].join("|");
        let name = format!("`{}`", text(row, "metric"));
        match groups.iter_mut().find(|(of, _)| *of == head) {
            Some((_, names)) => names.push(name),
            None => groups.push((head, vec![name])),
        }
    }
    let mut table = String::from("|subject|unit|only|metrics|\n|---|---|---|---|\n");
    for (head, names) in groups {
        table += &format!("|{head}|{}|\n", names.join(", "));
    }
    table
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir-bench --test docs` writes the table.
#[test]
fn the_scenario_page_lists_every_metric() {
    const MARKS: [&str; 2] = ["<!-- metrics -->\n", "<!-- /metrics -->\n"];
    let page = read("docs/scenarios.md");
    let (before, rest) = page.split_once(MARKS[0]).expect("a mark");
    let (table, after) = rest.split_once(MARKS[1]).expect("a mark");
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        let page = [before, MARKS[0], &metrics(), MARKS[1], after].concat();
        std::fs::write(format!("{ROOT}/docs/scenarios.md"), page).expect("written");
        return;
    }
    assert_eq!(table, metrics(), "run this test with WEIR_WRITE_DOCS=1");
}

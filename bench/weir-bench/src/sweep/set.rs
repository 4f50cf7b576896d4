// SPDX-License-Identifier: GPL-2.0-only
//! `--set KEY=A,B,C`: which scenarios a sweep is made of.

use anyhow::{Context, Result, anyhow, bail};
use scenario::model::Scenario;
use toml::Value;

/// A key and what it is set to.
pub type Setting = (String, String);

/// Combines the values in all ways, the last key's changing fastest.
pub fn all_combinations(sets: &[String]) -> Result<Vec<Vec<Setting>>> {
    let mut all = vec![Vec::new()];
    for set in sets {
        let (key, values) = set
            .split_once('=')
            .ok_or_else(|| anyhow!("--set {set}: write KEY=A,B,C"))?;
        let longer = |before: &Vec<Setting>| {
            let values = values.split(',').map(|value| {
                let mut settings = before.clone();
                settings.push((key.trim().to_owned(), value.trim().to_owned()));
                settings
            });
            values.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    Ok(all)
}

/// The scenario with some keys set.
pub fn parse_with_settings(text: &str, settings: &[Setting], shown: &str) -> Result<Scenario> {
    let mut root: Value = Value::Table(toml::from_str(text).context("reading the scenario anew")?);
    for (key, value) in settings {
        set_key(&mut root, key, value).with_context(|| format!("--set {key}={value}"))?;
    }
    let text = toml::to_string(&root).context("writing the scenario anew")?;
    let named: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let file = format!("{shown} with {}", named.join(" "));
    // Lines are of a text that users do not see; the key says where.
    scenario::parse("sweep", &file, &text).map_err(|problems| {
        let told = problems.0.into_iter().map(|mut problem| {
            problem.line = 0;
            problem.to_string()
        });
        anyhow!("{}", told.collect::<Vec<_>>().join("\n"))
    })
}

/// Sets a dotted key (`cgroup.victim."memory.dirty_min"`, `disk[0].write_bandwidth`); the table it
/// is in must be there.
fn set_key(root: &mut Value, key: &str, text: &str) -> Result<()> {
    let mut parts = split_key(key)?;
    let last = parts.pop().ok_or_else(|| anyhow!("no key"))?;
    let mut at = root;
    for part in parts {
        at = child_value(at, &part)
            .ok_or_else(|| anyhow!("the scenario has no `{part}` on the way to it"))?;
    }
    let before = child_value(at, &last).map(|value| value.is_str());
    let value = match (text.parse::<i64>(), before) {
        (Ok(number), Some(false) | None) => Value::Integer(number),
        _ if text == "true" || text == "false" => Value::Boolean(text == "true"),
        _ => Value::String(text.into()),
    };
    match at {
        Value::Table(table) => table.insert(last, value),
        _ => bail!("`{last}` is not a key of a table"),
    };
    Ok(())
}

fn child_value<'a>(value: &'a mut Value, part: &str) -> Option<&'a mut Value> {
    match value {
        Value::Table(table) => table.get_mut(part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    }
}

/// A key's parts: bare, quoted, or an index in brackets.
fn split_key(key: &str) -> Result<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted
                .split_once('"')
                .ok_or_else(|| anyhow!("`{key}`: a quote is not closed"))?
        } else if let Some(index) = rest.strip_prefix('[') {
            index
                .split_once(']')
                .ok_or_else(|| anyhow!("`{key}`: a bracket is not closed"))?
        } else {
            rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()))
        };
        parts.push(part.to_owned());
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_as_toml_writes_them() {
        assert_eq!(
            split_key("host.weir.drain_seconds").expect("a key"),
            ["host", "weir", "drain_seconds"]
        );
        assert_eq!(
            split_key("disk[0].write_bandwidth").expect("a key"),
            ["disk", "0", "write_bandwidth"]
        );
        assert_eq!(
            split_key("cgroup.a.\"memory.max\"").expect("a key"),
            ["cgroup", "a", "memory.max"]
        );
        assert!(split_key("cgroup.\"a").is_err());
    }

    #[test]
    fn all_combinations_in_order() {
        let all = all_combinations(&["a=1,2".into(), "b=x,y".into()]).expect("values");
        let told: Vec<String> = all
            .iter()
            .map(|s| format!("{}{}", s[0].1, s[1].1))
            .collect();
        assert_eq!(told, ["1x", "1y", "2x", "2y"]);
    }
}

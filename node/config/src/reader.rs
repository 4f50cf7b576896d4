// SPDX-License-Identifier: GPL-2.0-only
//! A walk over TOML that knows where it is. A [`Reader`] holds the file and the problems found so
//! far; a [`Table`] and a [`Value`] carry their dotted key and position, so that every complaint
//! names file, line and key by itself. Accessors return `None` after they have complained: callers
//! go on and find the next problem.

use crate::problem::{Problem, Problems, nearest_known, suggest_known};
use std::cell::RefCell;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the TOML `text`, whose first level may have the `known` keys, by `sections`. Any problem
/// at all voids the result.
///
/// # Errors
/// Everything that is wrong with the text, in line order.
pub fn read<T>(
    file: &str,
    text: &str,
    known: &'static [&'static str],
    sections: impl FnOnce(&Table<'_>) -> T,
) -> Result<T, Problems> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let reader = Reader::new(file, text, root.get_ref());
    for why in &errors {
        let at = why.span().map_or(0, |s| s.start);
        reader.complain(at, "", format!("not TOML: {}", why.message()));
    }
    // What a broken file means is unknown: do not check guesses.
    let made = errors
        .is_empty()
        .then(|| sections(&Table::root_table(&reader, known)));
    let problems = reader.into_problems();
    match made {
        Some(made) if problems.is_empty() => Ok(made),
        _ => Err(Problems(problems)),
    }
}

/// The file being read and what is wrong with it so far.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    root: &'a DeTable<'a>,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, text: &'a str, root: &'a DeTable<'a>) -> Self {
        Reader {
            file,
            text,
            root,
            problems: RefCell::default(),
        }
    }

    fn line_at(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
    }

    /// Records a problem with `key` at byte `at` of the text.
    fn complain(&self, at: usize, key: &str, what: impl Into<String>) {
        let line = self.line_at(at);
        self.problems.borrow_mut().push(Problem {
            file: self.file.into(),
            line,
            key: key.into(),
            what: what.into(),
        });
    }

    /// Everything found, in line order.
    fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|p| p.line);
        problems
    }
}

/// A value, its key and its place.
#[derive(Clone)]
pub struct Value<'a> {
    reader: &'a Reader<'a>,
    /// Dotted, as problems name it.
    pub key: String,
    /// The place to point at: the value, or the key's own line for a table header.
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Value<'a> {
    /// Records a problem with the value.
    pub fn complain(&self, what: impl Into<String>) {
        self.reader.complain(self.span.start, &self.key, what);
    }

    /// The value as `wanted`, or a complaint that it is something else.
    fn expect_kind<T>(&self, found: Option<T>, wanted: &str) -> Option<T> {
        if found.is_none() {
            self.complain(format!(
                "is {}, but must be {wanted}",
                with_article(self.value.type_str())
            ));
        }
        found
    }

    /// A string, or a complaint.
    pub fn string(&self, wanted: &str) -> Option<&'a str> {
        self.expect_kind(self.value.as_str(), wanted)
    }

    /// `true` if it is a list.
    pub fn is_array(&self) -> bool {
        self.value.is_array()
    }

    /// A truth value, or a complaint.
    pub fn as_boolean(&self) -> Option<bool> {
        self.expect_kind(self.value.as_bool(), "true or false")
    }

    /// A string put through `parse`, whose error becomes the complaint.
    pub fn parse_with<T>(
        &self,
        wanted: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.string(wanted)?;
        parse(text).map_err(|why| self.complain(why)).ok()
    }

    /// A number or string as the text a file or fio gets; booleans become 1 and 0.
    pub fn as_scalar(&self) -> Option<String> {
        let text = match self.value {
            DeValue::String(s) => Some(s.to_string()),
            DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix())
                .ok()
                .map(|n| n.to_string()),
            DeValue::Float(f) => Some(f.to_string()),
            DeValue::Boolean(b) => Some(u8::from(*b).to_string()),
            _ => None,
        };
        self.expect_kind(text, "a string or a number")
    }

    /// A whole number, or a complaint.
    pub fn as_unsigned(&self, wanted: &str) -> Option<u64> {
        let number = self
            .value
            .as_integer()
            .and_then(|i| u64::from_str_radix(i.as_str(), i.radix()).ok());
        self.expect_kind(number, wanted)
    }

    /// The items, or a complaint.
    pub fn as_array(&self, wanted: &str) -> Option<Vec<Value<'a>>> {
        let items = self.expect_kind(self.value.as_array(), wanted)?;
        Some(
            items
                .iter()
                .enumerate()
                .map(|(i, item)| Value {
                    reader: self.reader,
                    key: format!("{}[{i}]", self.key),
                    span: item.span(),
                    value: item.get_ref(),
                })
                .collect(),
        )
    }

    /// The table's entries; keys are names the file chose.
    pub fn as_entries(&self, wanted: &str) -> Option<Vec<(&'a str, Value<'a>)>> {
        let table = self.expect_kind(self.value.as_table(), wanted)?;
        Some(checked_entries(self.reader, &self.key, table))
    }

    /// The table's entries, after complaining about every key that is not in `known`.
    pub fn as_table(&self, known: &'static [&'static str]) -> Option<Table<'a>> {
        let entries = self.as_entries("a table")?;
        Some(Table::checked_table(
            self.reader,
            self.key.clone(),
            self.span.start,
            entries,
            known,
        ))
    }
}

/// A table all of whose keys are known.
pub struct Table<'a> {
    reader: &'a Reader<'a>,
    key: String,
    start: usize,
    entries: Vec<(&'a str, Value<'a>)>,
    known: &'static [&'static str],
}

impl<'a> Table<'a> {
    /// The whole file.
    fn root_table(reader: &'a Reader<'a>, known: &'static [&'static str]) -> Self {
        let entries = checked_entries(reader, "", reader.root);
        Table::checked_table(reader, String::new(), 0, entries, known)
    }

    fn checked_table(
        reader: &'a Reader<'a>,
        key: String,
        start: usize,
        entries: Vec<(&'a str, Value<'a>)>,
        known: &'static [&'static str],
    ) -> Self {
        for (name, value) in entries.iter().filter(|(name, _)| !known.contains(name)) {
            value.complain(format!(
                "unknown key, {}",
                suggest_known(name, known.iter().copied())
            ));
        }
        Table {
            reader,
            key,
            start,
            entries,
            known,
        }
    }

    /// Records a problem with the table as a whole.
    pub fn complain(&self, what: impl Into<String>) {
        self.reader.complain(self.start, &self.key, what);
    }

    /// All keys of the file that the table is in, in its order.
    pub fn keys_of_file(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        visit_keys(&Key::root_key(), self.reader.root, &mut |key, span| {
            keys.push((span.start, key.clone()));
        });
        keys.sort_by_key(|(at, _)| *at);
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// The line the table begins on, counted from 1.
    pub fn first_line(&self) -> usize {
        self.reader.line_at(self.start)
    }

    /// The value of `key`, if it is there.
    pub fn optional(&self, key: &str) -> Option<Value<'a>> {
        self.entries
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.clone())
    }

    /// The value of `key`, or a complaint that shows what to add.
    pub fn required(&self, key: &str, example: &str) -> Option<Value<'a>> {
        let value = self.optional(key);
        // A misspelt key has been complained about where it stands.
        let misspelt = |(name, _): &(&str, _)| {
            !self.known.contains(name) && nearest_known(name, [key]).is_some()
        };
        if value.is_none() && !self.entries.iter().any(misspelt) {
            self.complain(format!("`{key}` is missing: add for example `{example}`"));
        }
        value
    }

    /// The tables of an array of tables (`[[job]]`), or a complaint about how to write one.
    pub fn array_of_tables(&self, key: &str, known: &'static [&'static str]) -> Vec<Table<'a>> {
        let items = self
            .optional(key)
            .and_then(|value| value.as_array(&format!("written as `[[{key}]]`")))
            .unwrap_or_default();
        items
            .iter()
            .filter_map(|item| item.as_table(known))
            .collect()
    }
}

fn checked_entries<'a>(
    reader: &'a Reader<'a>,
    prefix: &str,
    table: &'a DeTable<'a>,
) -> Vec<(&'a str, Value<'a>)> {
    table
        .iter()
        .map(|(name, value)| {
            // A sub-table's own span may begin at its first entry; its header is where people look.
            let span = if value.get_ref().is_table() {
                name.span()
            } else {
                value.span()
            };
            let key = join_key(prefix, name.get_ref());
            (
                name.get_ref().as_ref(),
                Value {
                    reader,
                    key,
                    span,
                    value: value.get_ref(),
                },
            )
        })
        .collect()
}

/// The key `name` of the table at `prefix`, as problems name it.
fn join_key(prefix: &str, name: &str) -> String {
    match prefix {
        "" => quote_key(name),
        _ => format!("{prefix}.{}", quote_key(name)),
    }
}

/// A key as TOML would want it written.
pub fn quote_key(name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare {
        name.into()
    } else {
        format!("\"{}\"", name.escape_debug())
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "integer" | "array" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// A key of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key as problems name it: `job[1].fio.rate`.
    pub text: String,
    /// The tables it is in and its name, without places in lists: `job`, `fio`, `rate`.
    pub path: Vec<String>,
}

/// The line of `key` (`job[1].fio.rate`, as problems name it) in the TOML `text`, counted from 1:
/// that of the innermost part of the key that is there, 0 if there is none.
pub fn line_of(text: &str, key: &str) -> usize {
    let (root, _) = DeTable::parse_recoverable(text);
    let mut best = (0, None);
    visit_keys(&Key::root_key(), root.get_ref(), &mut |found, span| {
        let rest = key.strip_prefix(&*found.text);
        let is_part = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        if is_part && found.text.len() > best.0 {
            best = (found.text.len(), Some(span.start));
        }
    });
    best.1.map_or(0, |at| {
        text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
    })
}

impl Key {
    fn root_key() -> Key {
        Key {
            text: String::new(),
            path: Vec::new(),
        }
    }

    fn child_key(&self, name: &str) -> Key {
        let path = self.path.iter().cloned().chain([name.to_owned()]);
        Key {
            text: join_key(&self.text, name),
            path: path.collect(),
        }
    }
}

fn visit_keys(key: &Key, table: &DeTable<'_>, found: &mut impl FnMut(&Key, Range<usize>)) {
    for (name, value) in table {
        visit_value(&key.child_key(name.get_ref()), value, found);
    }
}

fn visit_value(
    key: &Key,
    value: &Spanned<DeValue<'_>>,
    found: &mut impl FnMut(&Key, Range<usize>),
) {
    found(key, value.span());
    if let Some(table) = value.get_ref().as_table() {
        visit_keys(key, table, found);
    }
    for (index, item) in value.get_ref().as_array().into_iter().flatten().enumerate() {
        let key = Key {
            text: format!("{}[{index}]", key.text),
            path: key.path.clone(),
        };
        visit_value(&key, item, found);
    }
}

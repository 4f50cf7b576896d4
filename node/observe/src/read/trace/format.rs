// SPDX-License-Identifier: GPL-2.0-only
//! An event's `format` file: where each field lies in a record.
//!
//! ```text
//! name: balance_dirty_pages
//! ID: 512
//! format:
//!     field:unsigned short common_type;    offset:0;    size:2;    signed:0;
//!     field:char bdi[32];    offset:8;    size:32;    signed:0;
//! ```

use super::decode::Fields;
use anyhow::{Context, Result, bail};
use std::cell::Cell;

/// Layout of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Name of the event, without its system.
    pub name: String,
    /// In a record's first two bytes.
    pub id: u16,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
    signed: bool,
    is_text: bool,
}

impl Format {
    /// Parses the format file's text.
    ///
    /// # Errors
    /// What the text lacks.
    pub fn parse(text: &str) -> Result<Format> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        let name = value("name:").context("an event's format has no name")?;
        let id = value("ID:").and_then(|id| id.parse().ok());
        let id = id.with_context(|| format!("the format of {name} has no ID"))?;
        let fields = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("field:"))
            .map(|line| {
                Field::parse(line)
                    .with_context(|| format!("the format of {name} has a field `{line}`"))
            })
            .collect::<Result<Vec<_>>>()?;
        if fields.is_empty() {
            bail!("the format of {name} has no fields");
        }
        Ok(Format {
            name: name.into(),
            id,
            fields,
        })
    }

    /// The fields of one record.
    pub fn wrap_record<'a>(&'a self, bytes: &'a [u8]) -> Record<'a> {
        Record {
            format: self,
            bytes,
            next: Cell::new(0),
        }
    }
}

impl Field {
    fn parse(line: &str) -> Option<Field> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?;
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        let signed = number("signed:").unwrap_or(0) == 1;
        let (words, is_array) = match declaration.split_once('[') {
            Some((words, _)) => (words, true),
            None => (declaration, false),
        };
        let name = words.split_whitespace().next_back()?;
        let is_text = is_array && words.split_whitespace().any(|word| word == "char");
        Some(Field {
            name: name.into(),
            offset,
            size,
            signed,
            is_text,
        })
    }
}

/// A record and its layout.
pub struct Record<'a> {
    format: &'a Format,
    bytes: &'a [u8],
    /// After the field that was asked for last: they are asked for in about the order they lie in.
    next: Cell<usize>,
}

impl Record<'_> {
    fn find_field(&self, name: &str) -> Option<(&Field, &[u8])> {
        let fields = &self.format.fields;
        let mut places = (self.next.get()..fields.len()).chain(0..self.next.get());
        let place = places.find(|place| fields[*place].name == name)?;
        self.next.set(place + 1);
        let field = &fields[place];
        let end = field.offset.checked_add(field.size)?;
        Some((field, self.bytes.get(field.offset..end)?))
    }
}

impl Fields for Record<'_> {
    fn number_of(&self, name: &str) -> Option<i64> {
        let (field, bytes) = self.find_field(name)?;
        Some(match (bytes.len(), field.signed, field.is_text) {
            (_, _, true) => return None,
            (1, true, _) => i8::from_le_bytes(bytes.try_into().ok()?).into(),
            (1, false, _) => bytes[0].into(),
            (2, true, _) => i16::from_le_bytes(bytes.try_into().ok()?).into(),
            (2, false, _) => u16::from_le_bytes(bytes.try_into().ok()?).into(),
            (4, true, _) => i32::from_le_bytes(bytes.try_into().ok()?).into(),
            (4, false, _) => u32::from_le_bytes(bytes.try_into().ok()?).into(),
            // A count that does not fit (weir's "no ceiling" is all ones) becomes negative.
            (8, ..) => i64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    fn text_of(&self, name: &str) -> Option<String> {
        let (field, bytes) = self.find_field(name)?;
        if !field.is_text {
            return None;
        }
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: balance_dirty_pages\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char bdi[32];\toffset:8;\tsize:32;\tsigned:0;\n\
        \tfield:long pause;\toffset:40;\tsize:8;\tsigned:1;\n\nprint fmt: \"x\"\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(TEXT).expect("parsed");
        let mut bytes = vec![7, 0, 0, 0, 42, 0, 0, 0];
        bytes.extend(b"254:0\0garbage");
        bytes.resize(40, 0);
        bytes.extend((-4i64).to_le_bytes());
        let record = format.wrap_record(&bytes);
        assert_eq!(record.number_of("common_pid"), Some(42));
        assert_eq!(record.number_of("pause"), Some(-4));
        assert_eq!(record.text_of("bdi").as_deref(), Some("254:0"));
        assert_eq!(
            (record.number_of("bdi"), record.number_of("none")),
            (None, None)
        );
        assert_eq!(
            format.wrap_record(&bytes[..44]).number_of("pause"),
            None,
            "cut short"
        );
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for (text, why) in [
            ("", "has no name"),
            ("name: x\n", "the format of x has no ID"),
            ("name: x\nID: 3\n", "has no fields"),
            (
                "name: x\nID: 3\n\tfield:int y;\toffset:z;\n",
                "has a field `int y;",
            ),
        ] {
            let error = format!("{:#}", Format::parse(text).expect_err("refused"));
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}

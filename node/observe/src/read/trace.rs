// SPDX-License-Identifier: GPL-2.0-only
//! Traces: the kernel's events of a stretch of time, from a live kernel or from another program's
//! file.
//!
//! Whatever the source, the result is one [`Trace`].

mod dat;
pub(crate) mod decode;
mod format;
mod hint;
mod pasted;
mod ring;
mod text;

use crate::model::trace::Trace;
use anyhow::{Result, bail};
use decode::Lacks;
use format::Format;
use knobs::PageSize;
use std::collections::HashMap;

impl Trace {
    /// Reads a file's content: `trace.dat`, or text of ftrace, trace-cmd or perf.
    ///
    /// # Errors
    /// It is none of the kinds that are understood.
    pub fn read(bytes: &[u8]) -> Result<Trace> {
        if bytes.is_empty() {
            bail!("it is empty");
        }
        if dat::is_dat(bytes) {
            return dat::read(bytes);
        }
        if bytes.starts_with(b"PERFILE2") {
            bail!("it is a perf.data file: make text of it, with `perf script -i FILE`");
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => text::read(text),
            _ => bail!("it is neither a trace.dat file nor text"),
        }
    }
}

/// Formats of the events that are understood, by id, of a kernel with these pages.
pub(crate) struct Formats {
    by_id: HashMap<u16, Format>,
    pages: PageSize,
}

impl Formats {
    /// No formats yet, for events of a kernel with these pages.
    pub fn new(pages: PageSize) -> Formats {
        Formats {
            by_id: HashMap::new(),
            pages,
        }
    }

    /// Keeps the format in `text` if its event is understood.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let format = Format::parse(text)?;
        if decode::is_known(&format.name) {
            self.by_id.insert(format.id, format);
        }
        Ok(())
    }

    /// Keeps the format in `text`, of an event that is not understood in files.
    pub fn add_live(&mut self, text: &str) -> Result<()> {
        let format = Format::parse(text)?;
        self.by_id.insert(format.id, format);
        Ok(())
    }

    /// Decodes a page of the ring buffer into `trace`; true if all of it was fine.
    pub fn decode_page(&self, bytes: &[u8], trace: &mut Trace) -> Result<bool> {
        let mut lacks = None;
        let read = ring::read_page(bytes, &mut |raw| {
            let [low, high, ..] = *raw.bytes else { return };
            let Some(format) = self.by_id.get(&u16::from_le_bytes([low, high])) else {
                return;
            };
            let record = format.wrap_record(raw.bytes);
            let task = decode::Fields::number_of(&record, "common_pid");
            let task = task.and_then(|task| u32::try_from(task).ok()).unwrap_or(0);
            if let Err(Lacks(field)) = decode::decode_event(
                &format.name,
                raw.ns,
                task,
                &record,
                self.pages,
                &mut trace.events,
            ) {
                lacks = Some((format.name.clone(), field));
            }
            if !trace.seen.contains(&format.name) {
                trace.seen.insert(format.name.clone());
            }
        });
        trace.lost = trace.lost.saturating_add(read.lost);
        match lacks {
            Some((event, field)) => bail!("its event {event} has no field `{field}`"),
            None => Ok(!read.damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Event, What};
    use proptest::prelude::*;

    #[test]
    fn what_is_no_trace_is_refused() {
        for (bytes, why) in [
            (&b""[..], "it is empty"),
            (b"PERFILE2\0\0", "make text of it, with `perf script"),
            (b"\x7fELF\0\0", "neither a trace.dat file nor text"),
            (b"<html>", "no event in it"),
        ] {
            let error = format!("{:#}", Trace::read(bytes).expect_err("refused"));
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn reads_are_understood_of_the_running_kernel_only() {
        let text = "name: block_bio_queue\nID: 9\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n";
        let mut record = vec![9, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0];
        record.extend(2_048u64.to_le_bytes());
        // A page: its time and length, and one record of 6 words.
        let mut page = [7u64.to_le_bytes(), 28u64.to_le_bytes()].concat();
        page.extend(6u32.to_le_bytes());
        page.extend(record);
        let events = |formats: &Formats| {
            let mut trace = Trace::default();
            assert!(formats.decode_page(&page, &mut trace).expect("decoded"));
            trace.events
        };
        let mut formats = Formats::new(PageSize::running());
        formats.add(text).expect("parsed");
        assert_eq!(events(&formats), [], "in files");
        formats.add_live(text).expect("parsed");
        let queued = What::ReadQueued(8 << 20, 2_048);
        let queued = Event {
            ns: 7,
            task: 42,
            what: queued,
        };
        assert_eq!(events(&formats), [queued]);
    }

    proptest! {
        #[test]
        fn no_input_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Trace::read(&bytes);
            let mut dat = b"\x17\x08\x44tracing".to_vec();
            dat.extend(&bytes);
            let _ = Trace::read(&dat);
        }

        #[test]
        fn no_text_is_too_strange(text in "[a-z0-9 .:=\\-\\[\\]()]{0,80}\n[ -~]{0,80}") {
            let _ = Trace::read(text.as_bytes());
        }
    }
}

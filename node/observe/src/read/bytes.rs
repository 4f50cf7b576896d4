// SPDX-License-Identifier: GPL-2.0-only
//! Reading little-endian data that may end anywhere.

use anyhow::{Context, Result};

/// Rest of some data, and their name, for errors.
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Bytes<'a> {
    pub fn new(rest: &'a [u8], what: &'static str) -> Bytes<'a> {
        Bytes { rest, what }
    }

    /// The next `length` bytes.
    pub fn take_bytes(&mut self, length: u64) -> Result<&'a [u8]> {
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length))
            .with_context(|| format!("it is cut: {} goes on behind its end", self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn skip_bytes(&mut self, length: u64) -> Result<()> {
        self.take_bytes(length).map(|_| ())
    }

    /// Text that ends with a zero byte.
    pub fn take_text(&mut self) -> Result<&'a str> {
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(self.rest.len());
        let text = self.take_bytes(end as u64)?;
        self.skip_bytes(1)?;
        std::str::from_utf8(text)
            .with_context(|| format!("{} has text that is not UTF-8", self.what))
    }

    pub fn take_u8(&mut self) -> Result<u8> {
        Ok(self.take_bytes(1)?[0])
    }

    pub fn take_u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.take_bytes(2)?.try_into()?))
    }

    pub fn take_u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take_bytes(4)?.try_into()?))
    }

    pub fn take_u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take_bytes(8)?.try_into()?))
    }
}

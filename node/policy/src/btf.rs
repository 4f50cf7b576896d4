// SPDX-License-Identifier: GPL-2.0-only
//! BTF, what a kernel says of its own types; see `policy/btf.c`.

use crate::ffi as c;
use std::ffi::CString;

/// The parts of a blob: `struct weir_btf` of `policy/btf.h`.
pub(crate) use c::weir_btf as Reader;

/// The BTF of one kernel.
pub struct Btf {
    reader: Reader,
    // What the reader points into. A vector's elements stay where they are when it is moved.
    _blob: Vec<u32>,
    _offsets: Vec<u32>,
}

impl Btf {
    /// Reads a blob as of `/sys/kernel/btf/vmlinux`, in this machine's byte order.
    ///
    /// `None` if it is not one that the module could read either.
    pub fn read(bytes: &[u8]) -> Option<Btf> {
        let mut blob = vec![0_u32; bytes.len().div_ceil(4)];
        for (word, bytes) in blob.iter_mut().zip(bytes.chunks(4)) {
            let mut whole = [0; 4];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_ne_bytes(whole);
        }
        let mut reader = Reader {
            types: std::ptr::null(),
            strings: std::ptr::null(),
            types_len: 0,
            strings_len: 0,
            type_count: 0,
            type_offsets: std::ptr::null(),
        };
        // SAFETY: `blob` is aligned and holds as many bytes as it is said to.
        if unsafe { c::weir_btf_open(&mut reader, blob.as_ptr().cast(), bytes.len() as u64) } != 0 {
            return None;
        }
        let mut offsets = vec![0_u32; reader.type_count as usize + 1];
        // SAFETY: `offsets` has the room that is asked for, and like `blob` lives with the reader.
        unsafe { c::weir_btf_index(&mut reader, offsets.as_mut_ptr()) };
        Some(Btf {
            reader,
            _blob: blob,
            _offsets: offsets,
        })
    }

    /// Number of types that it describes.
    pub fn type_count(&self) -> u32 {
        self.reader.type_count
    }

    /// Is there a function of this name?
    pub fn has_function(&self, name: &str) -> bool {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: an opened and indexed reader, a terminated string.
        unsafe { c::weir_btf_has_function(&self.reader, name.as_ptr()) != 0 }
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What weir needs of a kernel, judged by its BTF; see `policy/needs.c`.

use crate::btf::{Btf, Reader};
use crate::names::c_text;
use std::ffi::c_char;

pub(crate) mod c {
    use super::{Fit, Kind, Reader, Use, c_char};
    unsafe extern "C" {
        pub safe fn weir_reparenting_function() -> *const c_char;
        pub safe fn weir_function_wanted(id: u32) -> *const Function;
        pub fn weir_need_at(btf: *const Reader, reparents: i32, index: u32, need: *mut Need)
        -> i32;
    }

    #[repr(C)]
    pub struct Function {
        pub name: *const c_char,
        pub how: Use,
        pub params: [*const c_char; 4],
    }

    #[repr(C)]
    pub struct Need {
        pub kind: Kind,
        pub fit: Fit,
        pub name: *const c_char,
        pub of: *const c_char,
        pub size_bytes: u32,
        pub wanted_bytes: u32,
    }
}

/// Kernels that have this function hand the pages of a removed cgroup to its parent.
pub fn reparenting_function() -> &'static str {
    c_text(c::weir_reparenting_function()).unwrap_or_default()
}

/// The module's use of a function of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // constructed by C
pub enum Use {
    /// Its address is found by a kprobe.
    Found,
    /// The module calls the function.
    Called,
    /// It is replaced, which takes an ftrace site.
    Hooked,
}

/// A function that the module needs by its plain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name, as in `/proc/kallsyms`.
    pub name: &'static str,
    /// The module's use of it.
    pub how: Use,
}

/// All functions that weir needs.
pub fn needed_functions() -> impl Iterator<Item = Function> {
    (0..).map_while(|id| {
        // SAFETY: null, or an element of an immutable array.
        let function = unsafe { c::weir_function_wanted(id).as_ref() }?;
        Some(Function {
            name: c_text(function.name)?,
            how: function.how,
        })
    })
}

/// The kind of a need.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // constructed by C
pub enum Kind {
    /// A function, with these parameters.
    Function,
    /// A tracepoint, with these arguments.
    Tracepoint,
    /// A struct, of whatever size.
    Struct,
    /// A member of a struct, of a certain size.
    Member,
}

/// The answer to a need: a kernel has it, or it is missing or different.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // constructed by C
pub enum Fit {
    /// The kernel's is as weir knows it.
    Fits,
    /// The kernel has none.
    Missing,
    /// The kernel's differs from what weir knows.
    Other,
}

/// One thing that is needed of a kernel, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The kind of need.
    pub kind: Kind,
    /// The kernel's answer.
    pub fit: Fit,
    /// The kernel's name of it.
    pub name: &'static str,
    /// The struct that a member is of.
    pub of: Option<&'static str>,
    /// Bytes of a member in this kernel.
    pub size_bytes: u32,
    /// Bytes that it must have.
    pub wanted_bytes: u32,
}

/// Judges a kernel by its BTF. `reparents`: it has the function [`reparenting_function()`].
pub fn judge_kernel(btf: &Btf, reparents: bool) -> Vec<Need> {
    let need = |index| {
        let mut need = c::Need {
            kind: Kind::Function,
            fit: Fit::Missing,
            name: std::ptr::null(),
            of: std::ptr::null(),
            size_bytes: 0,
            wanted_bytes: 0,
        };
        // SAFETY: an opened and indexed reader, and a place for the answer.
        let more = unsafe { c::weir_need_at(btf.reader(), reparents.into(), index, &mut need) };
        (more != 0).then_some(Need {
            kind: need.kind,
            fit: need.fit,
            name: c_text(need.name)?,
            of: c_text(need.of),
            size_bytes: need.size_bytes,
            wanted_bytes: need.wanted_bytes,
        })
    };
    (0..).map_while(need).collect()
}

#[cfg(test)]
mod tests;

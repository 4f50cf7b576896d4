// SPDX-License-Identifier: GPL-2.0-only
//! What weir needs of a kernel, judged by its BTF; see `policy/needs.c`.

use crate::btf::Btf;
use crate::ffi as c;
use crate::names::c_text;

/// Kernels that have this function hand the pages of a removed cgroup to its parent.
pub fn reparenting_function() -> &'static str {
    c_text(c::weir_reparenting_function()).unwrap_or_default()
}

/// The module's use of a function of the kernel.
pub use c::weir_use as Use;

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
            how: function.use_,
        })
    })
}

/// The kind of a need.
pub use c::weir_need_kind as Kind;

/// The answer to a need: a kernel has it, or it is missing or different.
pub use c::weir_fit as Fit;

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
pub fn list_needs(btf: &Btf, reparents: bool) -> Vec<Need> {
    let need = |index| {
        let mut need = c::weir_need {
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

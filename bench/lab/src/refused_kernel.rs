// SPDX-License-Identifier: GPL-2.0-only
//! Kernels that the module must not take, and two that it takes, to hold the oracle against.
//!
//! No distribution ships a kernel with `domain_dirty_limits()` inlined, or without ftrace. Each is a
//! [`Variant`] of one small kernel, `data/refused*.config` on top of `tinyconfig`: other lines of its
//! configuration, or a source file with a few places edited. All are built of one tree,
//! `kernels/refused/` in the cache (`kernel_source.rs`), one after the other, so that what they have
//! in common is compiled once. Without BTF or ftrace every file is compiled anew.

use crate::cache::Cache;
use crate::kernel::Kernel;
use crate::kernel_source::{SERIES, SourceTree};
use crate::patch::Files;
use anyhow::{Context, Result, ensure};

/// The name of the tree in the cache.
const TREE: &str = "refused";
/// The configuration that every variant has; its own lines come after it.
const COMMON: &str = include_str!("../data/refused.config");
/// Options that variants which a module is built for have besides, so that they boot.
const GUEST: &str = include_str!("../data/refused-guest.config");

/// One way to build the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nothing is edited or left out: the module loads.
    AsItIs,
    /// `domain_dirty_limits()` is there, but writers run an inlined copy of it.
    HalfInlined,
    /// As [`HalfInlined`](Self::HalfInlined), but for a cgroup's domain alone.
    MemcgInlined,
    /// `domain_dirty_limits()` has no symbol: every caller has a copy.
    Inlined,
    /// `domain_dirty_limits()` takes a second argument.
    AnotherArgument,
    /// The tracepoint `balance_dirty_pages` passes one argument in half its size.
    AnotherTracepoint,
    /// Built without `CONFIG_DEBUG_INFO_BTF`: the kernel does not tell its types.
    NoBtf,
    /// Built without `CONFIG_FUNCTION_TRACER`. No module can be built for it, so it need not boot.
    NoFtrace,
}

/// A place in a source file that is there once, and what is put there instead.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const LIMITS: &str = "mm/page-writeback.c";
const TRACEPOINTS: &str = "include/trace/events/writeback.h";
const DEFINITION: &str =
    "\nstatic void domain_dirty_limits(struct dirty_throttle_control *dtc)\n{\n";
/// The first function after [`DEFINITION`] that calls it.
const FIRST_CALLER: &str = "\nvoid global_dirty_limits(";

const INLINED: &[Edit] = &[Edit {
    file: LIMITS,
    from: DEFINITION,
    to: "\nstatic __always_inline void domain_dirty_limits(struct dirty_throttle_control *dtc)\n{\n",
}];

/// With `noipa`, or the compiler drops an argument that is not used.
const ANOTHER_ARGUMENT: &[Edit] = &[
    Edit {
        file: LIMITS,
        from: DEFINITION,
        to: "\nstatic __attribute__((__noipa__)) void\n\
             domain_dirty_limits(struct dirty_throttle_control *dtc, bool more)\n{\n",
    },
    Edit {
        file: LIMITS,
        from: FIRST_CALLER,
        to: "\n#define domain_dirty_limits(dtc) domain_dirty_limits(dtc, true)\n\
             void global_dirty_limits(",
    },
];

/// One more is impossible: it has twelve, the most that BPF takes.
const ANOTHER_TRACEPOINT: &[Edit] = &[Edit {
    file: TRACEPOINTS,
    from: "\t\t unsigned long period,\n",
    to: "\t\t unsigned int period,\n",
}];

const HALF_INLINED: &[Edit] = &half_inlined("copied_limits(dtc);\n\tdomain_dirty_freerun(");

const MEMCG_INLINED: &[Edit] = &half_inlined(
    "if (mdtc_gdtc(dtc))\n\t\tcopied_limits(dtc);\n\telse\n\t\tdomain_dirty_limits(dtc);\n\t\
     domain_dirty_freerun(",
);

/// The function stays, for readers; where writers call it, `call` may run its copy.
const fn half_inlined(call: &'static str) -> [Edit; 3] {
    [
        Edit {
            file: LIMITS,
            from: DEFINITION,
            to: "\nstatic __always_inline void copied_limits(struct dirty_throttle_control *dtc)\n{\n",
        },
        Edit {
            file: LIMITS,
            from: FIRST_CALLER,
            to: "\nstatic __attribute__((__noipa__)) void\n\
                 domain_dirty_limits(struct dirty_throttle_control *dtc)\n\
                 {\n\tcopied_limits(dtc);\n}\n\n\
                 void global_dirty_limits(",
        },
        Edit {
            file: LIMITS,
            from: "domain_dirty_limits(dtc);\n\tdomain_dirty_freerun(",
            to: call,
        },
    ]
}

impl Variant {
    /// Its name, with which its release ends.
    pub fn name(self) -> &'static str {
        match self {
            Variant::AsItIs => "as-it-is",
            Variant::HalfInlined => "half-inlined",
            Variant::MemcgInlined => "memcg-inlined",
            Variant::Inlined => "inlined",
            Variant::AnotherArgument => "another-argument",
            Variant::AnotherTracepoint => "another-tracepoint",
            Variant::NoBtf => "no-btf",
            Variant::NoFtrace => "no-ftrace",
        }
    }

    fn config_fragment(self) -> String {
        let switch = |on: bool, options: &[&str]| -> String {
            let line = |option: &&str| match on {
                true => format!("{option}=y\n"),
                false => format!("# {option} is not set\n"),
            };
            options.iter().map(line).collect()
        };
        let name = self.name();
        let guest = if self == Variant::NoFtrace { "" } else { GUEST };
        let btf = switch(self != Variant::NoBtf, &["CONFIG_DEBUG_INFO_BTF"]);
        let ftrace = switch(
            self != Variant::NoFtrace,
            &["CONFIG_FUNCTION_TRACER", "CONFIG_DYNAMIC_FTRACE"],
        );
        format!("{COMMON}{guest}CONFIG_LOCALVERSION=\"-weir-{name}\"\n{btf}{ftrace}")
    }

    fn source_edits(self) -> &'static [Edit] {
        match self {
            Variant::HalfInlined => HALF_INLINED,
            Variant::MemcgInlined => MEMCG_INLINED,
            Variant::Inlined => INLINED,
            Variant::AnotherArgument => ANOTHER_ARGUMENT,
            Variant::AnotherTracepoint => ANOTHER_TRACEPOINT,
            Variant::AsItIs | Variant::NoBtf | Variant::NoFtrace => &[],
        }
    }
}

/// Builds this variant in the place of the one before it. Until the next is built, modules can be
/// built for it; make's output goes to this process's own.
pub fn build(cache: &Cache, variant: Variant) -> Result<Kernel> {
    let tree = SourceTree::fetch_if_missing(cache, TREE, SERIES)?;
    let files = edited_files(variant.source_edits(), &|file| tree.stock_text(file))?;
    tree.edit_files(&files)?;
    tree.configure(&["tinyconfig"], &variant.config_fragment())?;
    tree.build()
}

/// The files that these edits change, as they are to be.
fn edited_files(edits: &[Edit], stock: &dyn Fn(&str) -> Result<Option<String>>) -> Result<Files> {
    let mut files = Files::new();
    for edit in edits {
        let text = match files.remove(edit.file) {
            Some(edited) => edited,
            None => stock(edit.file)?,
        };
        let text = text.with_context(|| format!("no {} in the kernel's source", edit.file))?;
        files.insert(edit.file.to_owned(), Some(edit.apply_to(&text)?));
    }
    Ok(files)
}

impl Edit {
    fn apply_to(&self, text: &str) -> Result<String> {
        let times = text.matches(self.from).count();
        ensure!(
            times == 1,
            "the kernel's source is not the one that was to be edited: {} has {times} times `{}`, \
             not once",
            self.file,
            self.from.trim()
        );
        Ok(text.replacen(self.from, self.to, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_source::asked_twice;

    const ALL: [Variant; 8] = [
        Variant::AsItIs,
        Variant::HalfInlined,
        Variant::MemcgInlined,
        Variant::Inlined,
        Variant::AnotherArgument,
        Variant::AnotherTracepoint,
        Variant::NoBtf,
        Variant::NoFtrace,
    ];

    #[test]
    fn edits_of_one_file_come_one_after_the_other() {
        let limits = format!("a\n{DEFINITION}}}\n{FIRST_CALLER}void)\n{{\n}}\n");
        let stock = |file: &str| Ok((file == LIMITS).then(|| limits.clone()));
        let files = edited_files(ANOTHER_ARGUMENT, &stock).expect("edited");
        let text = files[LIMITS].as_deref().expect("there");
        assert!(
            text.contains("bool more") && text.contains("(dtc, true)"),
            "{text}"
        );
        assert!(
            edited_files(ANOTHER_TRACEPOINT, &stock).is_err(),
            "no such file"
        );
    }

    #[test]
    fn an_anchor_that_is_not_there_once_is_an_error() {
        let edit = &INLINED[0];
        for text in ["none".to_owned(), DEFINITION.repeat(2)] {
            let error = edit.apply_to(&text).unwrap_err().to_string();
            assert!(error.contains("not the one that was to be edited: mm/page-writeback.c has"));
        }
    }

    #[test]
    fn a_fragment_names_no_option_twice() {
        for variant in ALL {
            let fragment = variant.config_fragment();
            assert_eq!(asked_twice(&fragment), [""; 0], "{}", variant.name());
        }
    }
}

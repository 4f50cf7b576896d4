// SPDX-License-Identifier: GPL-2.0-only
//! Kernels that the module must not take, and two that it takes, to hold the oracle against.
//!
//! No distribution ships a kernel with `domain_dirty_limits()` inlined, or without ftrace. Each is a
//! [`Variant`] of one small kernel, `data/refused*.config` on top of `tinyconfig`: other lines of its
//! configuration, or a source file with a few places edited. All are built of one tree,
//! `kernels/refused/` in the cache (`kernel_source.rs`), one after the other, so that what they have
//! in common is compiled once. Without BTF or ftrace every file is compiled anew.
//!
//! ```text
//! kernels/refused/stock/mm/page-writeback.c  as it is in the source package, for files with edits
//! ```

use crate::cache::Cache;
use crate::kernel::Kernel;
use crate::kernel_source::{SourceTree, tree_root};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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

/// Every file that a variant edits.
const EDITED: [&str; 2] = [LIMITS, TRACEPOINTS];

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
    let tree = SourceTree::fetch_if_missing(cache, TREE)?;
    let stock = tree_root(cache, TREE).join("stock");
    edit_sources(&tree.source, &stock, variant.source_edits())?;
    tree.configure(&["tinyconfig"], &variant.config_fragment())?;
    tree.build()
}

/// Makes the source the stock one with these edits, whatever it was. A file that is like that
/// already is not touched, or make would compile it.
fn edit_sources(source: &Path, stock: &Path, edits: &[Edit]) -> Result<()> {
    let mut texts = BTreeMap::new();
    for file in EDITED {
        texts.insert(file, stock_text(source, stock, file)?);
    }
    for edit in edits {
        let text = texts.get_mut(edit.file).context("a file of EDITED")?;
        *text = edit.apply_to(text)?;
    }
    for (file, text) in texts {
        let path = source.join(file);
        if fs::read_to_string(&path).with_context(|| path.display().to_string())? != text {
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// The file's text in the source package; kept at `stock` before it is edited for the first time.
fn stock_text(source: &Path, stock: &Path, file: &str) -> Result<String> {
    let kept = stock.join(file);
    if !kept.exists() {
        let aside = kept.with_extension("partial");
        fs::create_dir_all(kept.parent().unwrap_or(stock))?;
        fs::copy(source.join(file), &aside)
            .and_then(|_| fs::rename(&aside, &kept))
            .with_context(|| format!("keeping the stock {file}"))?;
    }
    fs::read_to_string(&kept).with_context(|| kept.display().to_string())
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
    fn edits_begin_with_the_stock_source_each_time() {
        let root = tempfile::tempdir().expect("a directory");
        let (source, stock) = (root.path().join("source"), root.path().join("stock"));
        let limits = format!("a\n{DEFINITION}}}\n{FIRST_CALLER}void)\n{{\n}}\n");
        for (file, text) in [(LIMITS, limits.as_str()), (TRACEPOINTS, "b\n")] {
            let path = source.join(file);
            fs::create_dir_all(path.parent().expect("below")).expect("made");
            fs::write(path, text).expect("written");
        }
        let text = |file: &str| fs::read_to_string(source.join(file)).expect("there");
        edit_sources(&source, &stock, INLINED).expect("edited");
        assert!(text(LIMITS).contains("__always_inline void domain_dirty_limits"));
        edit_sources(&source, &stock, ANOTHER_ARGUMENT).expect("edited");
        assert!(!text(LIMITS).contains("__always_inline"));
        assert!(text(LIMITS).contains("bool more"));
        edit_sources(&source, &stock, &[]).expect("taken back");
        assert_eq!((text(LIMITS), text(TRACEPOINTS)), (limits, "b\n".into()));
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
    fn every_edit_is_of_a_file_that_is_taken_back() {
        for variant in ALL {
            let mut edits = variant.source_edits().iter();
            assert!(edits.all(|edit| EDITED.contains(&edit.file)));
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

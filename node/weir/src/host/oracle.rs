// SPDX-License-Identifier: GPL-2.0-only
//! `weir doctor --btf`: would the module load on a kernel that is not booted?
//!
//! Asked is what the module asks (`policy/needs.c`), of the kernel's own BTF and symbols. What a
//! host sets at boot or later, as cgroup v2 and signatures, no file of a kernel tells; the module
//! tries the rest when it is loaded. BTF alone does not tell everything: for the rest, the
//! configuration and `System.map` beside it are asked, and what they leave open is said to be
//! unknown.

use super::requirements::{self, Check, REPORT, check_names, check_sites, fail, not_known, ok};
use anyhow::Result;
use kernel_image::{Config, Image, KernelFile};
use knobs::Knob;
use policy::btf::Btf;
use policy::needs::{self, Fit, Kind, Need};
use std::collections::BTreeSet;
use std::path::Path;

/// Remedy for a layout that BTF does not tell.
const NAME_IMAGE: &str =
    "name the kernel's vmlinuz or its package instead, or its config-RELEASE and System.map too";

/// A function of dynamic ftrace.
const FTRACE: &str = "ftrace_set_filter_ip";
/// Remedy for a kernel without it.
const TAKE_FTRACE: &str = "take a kernel built with CONFIG_DYNAMIC_FTRACE";

/// The kernel's release, or `of unknown release`, and what was found.
pub(super) fn examine_files<P: AsRef<Path>>(paths: &[P]) -> Result<(String, Vec<Check>)> {
    let file = KernelFile::open_all(paths)?;
    let checks = judge_kernel(&file);
    let release = file.release.unwrap_or_else(|| "of unknown release".into());
    Ok((release, checks))
}

/// A kernel in a file, read.
struct Kernel<'a> {
    image: Option<&'a Image>,
    config: Option<&'a Config>,
    btf: Option<Btf>,
    symbols: Option<BTreeSet<&'a str>>,
}

impl Kernel<'_> {
    /// Returns whether the kernel has the function; `None` if that is not known: that there is none
    /// in BTF says nothing, some functions are left out.
    fn has_function(&self, function: &str) -> Option<bool> {
        let in_btf = self
            .btf
            .as_ref()
            .is_some_and(|btf| btf.has_function(function));
        match &self.symbols {
            Some(symbols) => Some(symbols.contains(function)),
            None => in_btf.then_some(true),
        }
    }

    /// Was it built with this option, which the function is there with alone?
    fn is_built_with(&self, option: &str, function: &str) -> Option<bool> {
        match self.config {
            Some(config) => Some(config.has_option(option)),
            None => self.has_function(function),
        }
    }

    fn is_arm64(&self) -> Option<bool> {
        if let Some(image) = self.image {
            return Some(image.is_arm64());
        }
        if let Some(config) = self.config {
            return Some(config.has_option("CONFIG_ARM64"));
        }
        let is = |function: &str| self.has_function(function) == Some(true);
        match (is("__arm64_sys_write"), is("__x64_sys_write")) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }
}

/// Judges the kernel, requirement by requirement.
pub fn judge_kernel(file: &KernelFile) -> Vec<Check> {
    let kernel = Kernel {
        image: file.image.as_ref(),
        config: file.config.as_ref(),
        btf: file.btf.as_deref().and_then(Btf::read),
        symbols: file.symbol_names().map(Iterator::collect),
    };
    let mut checks = vec![
        check_btf(file, &kernel),
        check_built_in(
            &kernel,
            "memory cgroups",
            requirements::MEMCG,
            "CONFIG_MEMCG",
        ),
        check_built_in(
            &kernel,
            "io cgroups",
            requirements::BLK_CGROUP,
            "CONFIG_BLK_CGROUP",
        ),
        check_functions(&kernel),
    ];
    checks.extend(kernel.btf.as_ref().into_iter().flat_map(|btf| {
        let needs = needs::list_needs(
            btf,
            kernel.has_function(needs::reparenting_function()) == Some(true),
        );
        check_layout(&needs)
    }));
    checks.extend([
        check_built_in(&kernel, "kprobes", "register_kprobe", "CONFIG_KPROBES"),
        check_built_in(&kernel, "ftrace", FTRACE, "CONFIG_DYNAMIC_FTRACE"),
        check_ftrace_arguments(&kernel),
        check_ftrace_sites(&kernel),
        check_built_in(
            &kernel,
            "modules",
            "register_module_notifier",
            "CONFIG_MODULES",
        ),
        check_file_names(&kernel),
    ]);
    checks
}

fn check_btf(file: &KernelFile, kernel: &Kernel) -> Check {
    const NAME: &str = "BTF";
    match (&kernel.btf, &file.btf) {
        (Some(btf), _) => ok(NAME, format!("{} types", btf.type_count())),
        (None, Some(_)) => fail(NAME, "not BTF that the module can read", REPORT),
        (None, None) if file.image.is_none() => not_known(
            NAME,
            "not in these files: the layouts that the module needs",
            "name the kernel's vmlinuz, its package, or its /sys/kernel/btf/vmlinux",
        ),
        (None, None) => fail(
            NAME,
            "none in this kernel",
            "take a kernel built with CONFIG_DEBUG_INFO_BTF; Debian's are",
        ),
    }
}

fn check_functions(kernel: &Kernel) -> Check {
    match &kernel.symbols {
        Some(symbols) => check_names(symbols.iter().copied()),
        None => not_known(
            "functions",
            "not known from this file: whether symbols have these names, or the compiler changed them",
            NAME_IMAGE,
        ),
    }
}

/// A line for each kind of thing that BTF tells.
fn check_layout(needs: &[Need]) -> Vec<Check> {
    let line = |name, kinds: &[Kind]| {
        let of_it: Vec<&Need> = needs
            .iter()
            .filter(|need| kinds.contains(&need.kind))
            .collect();
        let wrong: Vec<String> = of_it
            .iter()
            .filter(|need| need.fit != Fit::Fits)
            .map(|need| describe_misfit(need))
            .collect();
        match wrong.as_slice() {
            [] => ok(name, format!("as weir knows them ({})", of_it.len())),
            _ => fail(name, wrong.join("; "), REPORT),
        }
    };
    vec![
        line("arguments", &[Kind::Function]),
        line("tracepoint", &[Kind::Tracepoint]),
        line("structs", &[Kind::Struct, Kind::Member]),
    ]
}

/// The misfit, in the module's words (`kmod/layout.c`).
fn describe_misfit(need: &Need) -> String {
    let Need {
        name,
        size_bytes,
        wanted_bytes,
        ..
    } = need;
    let of = need.of.unwrap_or_default();
    match (need.kind, need.fit) {
        (Kind::Function, Fit::Missing) => format!("{name}() is missing (inlined, or gone)"),
        (Kind::Function, _) => format!("{name}() has other arguments than weir knows"),
        (Kind::Tracepoint, Fit::Missing) => format!("tracepoint {name} is missing"),
        (Kind::Tracepoint, _) => format!("tracepoint {name} has other arguments than weir knows"),
        (Kind::Struct, _) => format!("this kernel has no struct {name}"),
        (Kind::Member, Fit::Missing) => format!("struct {of} of this kernel has no member {name}"),
        (Kind::Member, _) => format!(
            "member {name} of struct {of} is {size_bytes} bytes, weir knows it with {wanted_bytes}"
        ),
    }
}

/// Was it built with this option? A function says so that is there with it alone.
fn check_built_in(kernel: &Kernel, name: &'static str, function: &str, option: &str) -> Check {
    match kernel.is_built_with(option, function) {
        Some(true) => ok(name, "built in"),
        Some(false) => fail(
            name,
            format!("not in this kernel: built without {option}"),
            format!("take a kernel built with {option}"),
        ),
        None => not_known(
            name,
            format!("not known from this file: whether it was built with {option}"),
            NAME_IMAGE,
        ),
    }
}

/// Does ftrace hand the arguments over?
fn check_ftrace_arguments(kernel: &Kernel) -> Check {
    const NAME: &str = "ftrace args";
    if kernel.is_built_with("CONFIG_DYNAMIC_FTRACE", FTRACE) == Some(false) {
        let seen = "not handed over: this kernel has no ftrace";
        return fail(NAME, seen, TAKE_FTRACE);
    }
    let has_regs = || match kernel.config {
        Some(config) => Some(!config.has_option("CONFIG_DYNAMIC_FTRACE_WITH_ARGS")),
        None => kernel
            .symbols
            .as_ref()
            .and(kernel.has_function(requirements::REGS)),
    };
    let is_before = match kernel.is_arm64() {
        Some(true) => has_regs(),
        of_x86_64 => of_x86_64,
    };
    match is_before {
        Some(is_before) => requirements::check_ftrace_arguments(is_before),
        None => not_known(
            NAME,
            "not known from this file: whether ftrace hands arguments over",
            NAME_IMAGE,
        ),
    }
}

fn check_ftrace_sites(kernel: &Kernel) -> Check {
    const NAME: &str = "probe site";
    let is_traced = kernel.is_built_with("CONFIG_DYNAMIC_FTRACE", FTRACE);
    if is_traced == Some(false) {
        return fail(NAME, "none: this kernel has no ftrace", TAKE_FTRACE);
    }
    let site = |function: &str| kernel.image?.has_ftrace_site(function);
    let hooked = needs::needed_functions().filter(|function| function.how == needs::Use::Hooked);
    // Of a function without a symbol, the line about functions tells.
    let mut present = hooked.filter(|function| kernel.has_function(function.name) != Some(false));
    if kernel.image.is_some() && present.all(|function| site(function.name).is_some()) {
        return check_sites(|function| site(function) == Some(true));
    }
    // In a kernel with ftrace each of these functions has a site that has a symbol: none is notrace.
    let is_told = kernel.image.is_none() || kernel.config.is_some();
    if is_told && kernel.symbols.is_some() && is_traced == Some(true) {
        return check_sites(|function| kernel.has_function(function) == Some(true));
    }
    not_known(
        NAME,
        "not known from this file: whether ftrace can hook what the module replaces",
        match kernel.image {
            Some(_) => "boot it: the module tries it when it is loaded",
            None => NAME_IMAGE,
        },
    )
}

fn check_file_names(kernel: &Kernel) -> Check {
    const NAME: &str = "file names";
    // mm/memcontrol.c calls what shows memory.max memory_max_show().
    let has_handlers = |file: &str| {
        let stem = file.replace('.', "_");
        let handlers = ["show", "write"].map(|of| format!("{stem}_{of}"));
        let has = |handler: &String| kernel.has_function(handler) == Some(true);
        handlers.iter().any(has)
    };
    let may_have = |file: &str| match kernel.image {
        Some(image) => image.may_have_cgroup_file(file.split_once('.').map_or(file, |it| it.1)),
        None => has_handlers(file),
    };
    if kernel.image.is_none() && kernel.symbols.is_none() {
        return not_known(
            NAME,
            "not known from this file: whether the kernel has memory.dirty_* files of its own",
            NAME_IMAGE,
        );
    }
    let taken: Vec<&str> = Knob::DIRTY
        .map(Knob::file_name)
        .into_iter()
        .chain([knobs::stat_file()])
        .filter(|file| may_have(file))
        .collect();
    if taken.is_empty() {
        return ok(NAME, "the kernel has no memory.dirty_* files of its own");
    }
    not_known(
        NAME,
        format!("this kernel may have {} of its own", taken.join(", ")),
        "boot it: weir leaves a kernel alone that can do it itself",
    )
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;

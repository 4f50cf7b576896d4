// SPDX-License-Identifier: GPL-2.0-only
//! What is said of a file that leaves things open. That kernels are judged as the module judges
//! them is tested in guests: `tests/guest/oracle.rs`.

use super::super::doctor::{report_text, worst_verdict};
use super::super::requirements::CheckVerdict;
use super::*;

#[test]
fn of_nothing_everything_is_unknown() {
    let checks = judge_kernel(&KernelFile::default());
    let text = report_text("of unknown release", &checks);
    assert_eq!(worst_verdict(&checks), CheckVerdict::Unknown, "{text}");
    let unknown = checks
        .iter()
        .filter(|check| check.verdict == CheckVerdict::Unknown);
    let names: Vec<&str> = unknown.map(|check| check.name).collect();
    let all = [
        "BTF",
        "memory cgroups",
        "io cgroups",
        "functions",
        "kprobes",
        "ftrace",
        "ftrace args",
        "probe site",
        "modules",
        "file names",
    ];
    assert_eq!(names, all, "{text}");
}

#[test]
fn what_is_no_btf_is_not_taken_for_it() {
    let mut file = KernelFile::default();
    file.btf = Some(b"\x9f\xeb\x01\x00 and nothing else".to_vec());
    let checks = judge_kernel(&file);
    assert_eq!(checks[0].seen, "not BTF that the module can read");
    assert_eq!(worst_verdict(&checks), CheckVerdict::Fail);
}

#[test]
fn a_kernel_without_ftrace_fails_in_all_that_takes_it() {
    let kernel = Kernel {
        image: None,
        config: None,
        btf: None,
        symbols: Some(BTreeSet::from(["balance_dirty_pages"])),
    };
    for check in [check_ftrace_arguments(&kernel), check_ftrace_sites(&kernel)] {
        assert_eq!(check.verdict, CheckVerdict::Fail, "{}", check.name);
        assert!(check.seen.ends_with("this kernel has no ftrace"));
    }
}

#[test]
fn misfits_are_told_in_words() {
    let need = |kind, fit| Need {
        kind,
        fit,
        name: "it",
        of: (kind == Kind::Member).then_some("all"),
        size_bytes: 4,
        wanted_bytes: 8,
    };
    for (kind, fit, words) in [
        (
            Kind::Function,
            Fit::Missing,
            "it() is missing (inlined, or gone)",
        ),
        (
            Kind::Function,
            Fit::Other,
            "it() has other arguments than weir knows",
        ),
        (Kind::Tracepoint, Fit::Missing, "tracepoint it is missing"),
        (Kind::Struct, Fit::Missing, "this kernel has no struct it"),
        (
            Kind::Member,
            Fit::Missing,
            "struct all of this kernel has no member it",
        ),
        (
            Kind::Member,
            Fit::Other,
            "member it of struct all is 4 bytes, weir knows it with 8",
        ),
    ] {
        assert_eq!(describe_misfit(&need(kind, fit)), words);
    }
}

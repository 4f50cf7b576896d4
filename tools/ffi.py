#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes node/policy/src/ffi.rs, the C types and functions of policy/*.h for Rust.

    tools/ffi.py        after a change of a header; a test of the crate `policy` asks for it

Takes bindgen (cargo install --locked bindgen-cli@0.72.1) and libclang.  Building weir takes
neither: the file is checked in.  Beyond what bindgen does, enumerators get Rust's names, and
functions without a pointer are safe to call.
"""

import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
POLICY = ROOT / "policy"
OUT = ROOT / "node/policy/src/ffi.rs"
HEADERS = sorted(POLICY.glob("*.h"))
# Enums of C that are enums of Rust; others are numbers.
ENUMS = {
    "weir_fit": "WEIR_",
    "weir_floor_verdict": "WEIR_FLOOR_",
    "weir_kind": "WEIR_KIND_",
    "weir_need_kind": "WEIR_NEED_",
    "weir_parsed": "WEIR_PARSE_",
    "weir_pass": "WEIR_PASS_",
    "weir_pause_by": "WEIR_BY_",
    "weir_tier_reason": "WEIR_TIER_",
    "weir_unit": "WEIR_UNIT_",
    "weir_use": "WEIR_",
}
NAMES = {"WEIR_PARSED": "Value", "WEIR_PARSE_RANGE": "OutOfRange", "WEIR_UNIT_USEC": "Microseconds"}
# Those that only C makes, and those whose default is not 0 everywhere.
NO_DEFAULT = "weir_stat_key|weir_function|weir_need|weir_btf|weir_(drain|narrow|objective|tier_group)"
NO_COPY = "weir_btf|weir_stat_key|weir_function|weir_need"


def fingerprint():
    """FNV-1a of all headers, as the test computes it."""
    value = 0xCBF29CE484222325
    for byte in b"".join(path.read_bytes() for path in HEADERS):
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def bindgen(header):
    options = ["--allowlist-item", "(weir|WEIR)_.*", "--rustified-enum", "|".join(ENUMS)]
    options += ["--with-derive-default", "--with-derive-partialeq", "--with-derive-eq"]
    options += ["--no-default", NO_DEFAULT, "--no-copy", NO_COPY]
    options += ["--no-prepend-enum-name", "--use-core", "--merge-extern-blocks"]
    options += ["--rust-target", "1.85", "--rust-edition", "2024", "--disable-header-comment"]
    clang = ["--", f"-I{POLICY}", "-ffreestanding", "-fparse-all-comments", "-DWEIR_ARITH="]
    command = ["bindgen", header, *options, *clang]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rename_variants(match):
    """An enum with Rust's names, without the number of its enumerators; the first is what 0 is."""
    name, body = match.groups()
    variants = re.findall(r"(WEIR_\w+) = (\d+)", body)
    last, value = variants[-1]
    if last.endswith("_COUNT") and int(value) == len(variants) - 1:
        body = re.sub(rf"\s*{last} = {value},", "", body)
    for variant, _ in variants:
        short = variant.removeprefix(ENUMS[name])
        rust = NAMES.get(variant) or "".join(word.capitalize() for word in short.split("_"))
        body = re.sub(rf"\b{variant} =", f"{rust} =", body)
    return f"pub enum {name} {{\n#[default]{body}}}"


def post_process(text):
    text = re.sub(r"pub enum (\w+) \{(.*?)\}", rename_variants, text, flags=re.S)
    text = text.replace("Copy, Clone, Hash, PartialEq", "Default, Copy, Clone, Hash, PartialEq")
    text = re.sub(
        r"pub fn (\w+\([^;]*?;)",
        lambda match: "pub " + ("" if "*" in match[1].split("->")[0] else "safe ") + "fn " + match[1],
        text,
    )
    # Pages and times have the width that Rust gives them.
    for c_type, rust in [("ulonglong", "u64"), ("longlong", "i64"), ("uint", "u32"), ("int", "i32")]:
        text = text.replace(f"::core::ffi::c_{c_type}", rust)
    for c_type, rust in [("weir_u64", "u64"), ("weir_u32", "u32"), ("weir_s64", "i64")]:
        text = re.sub(rf"pub type {c_type} = \w+;\n", "", text)
        text = re.sub(rf"\b{c_type}\b", rust, text)
    # What the property tests and the fuzzer make of bytes.
    derive = '#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]\n'
    pattern = r"(#\[repr\((?:C|u32)\)\]\n#\[derive\([^)]*\)\]\n)(pub (?:struct|enum) (\w+))"
    made = lambda match: match[1] + ("" if match[3] in NO_COPY.split("|") else derive) + match[2]
    return re.sub(pattern, made, text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / "all.h"
        header.write_text("".join(f'#include "{path.name}"\n' for path in [POLICY / "policy.h", *HEADERS]))
        text = post_process(bindgen(str(header)))
    OUT.write_text(
        "// SPDX-License-Identifier: GPL-2.0-only\n"
        "//! C's types and functions of `policy/*.h`. Written by `tools/ffi.py`: change the headers.\n\n"
        "#![allow(dead_code, missing_docs, non_camel_case_types, clippy::all, rustdoc::all)]\n\n"
        "/// Of the headers, as [`crate::ffi`] was written.\n"
        f"pub const FINGERPRINT: u64 = 0x{fingerprint():016x};\n\n" + text
    )
    subprocess.run(["rustfmt", "--edition", "2024", str(OUT)], check=True)


if __name__ == "__main__":
    main()

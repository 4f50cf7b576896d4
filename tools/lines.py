#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Counts the product's lines, part by part: all lines of tracked sources, blank lines and comments
included. Tests, examples, fuzzing and generated files are no product; unit tests at the end of a
Rust file are not counted either.

    tools/lines.py [COMMIT]    of the work tree, or of a commit
"""

import re
import subprocess
import sys
from collections import Counter

PRODUCT = re.compile(r"\.(rs|c|h|go|py|sh|js|css)$|/Kbuild$|(^|/)Makefile$")
NOT_PRODUCT = re.compile(
    r"(^|/)(tests?|fuzz|check|testdata|examples|experiments|cripod)/|tests?\.rs$|_test\.go$|^packaging/(tests|requests|kubernetes)/"
)
WINGS = ("node", "bench", "cluster", "crates")


def git(*arguments):
    return subprocess.run(("git", *arguments), capture_output=True, check=True).stdout.decode(errors="replace")


def part_of(path):
    folders = path.split("/")
    if len(folders) == 1:
        return "(root)"
    return "/".join(folders[: 2 if folders[0] in WINGS else 1])


def product_lines(path, text):
    if path.endswith(".rs"):
        text = text.split("\n#[cfg(test)]\nmod ")[0]
    return len(text.splitlines())


def main():
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    root = git("rev-parse", "--show-toplevel").strip()
    listed = git("ls-tree", "-r", commit).splitlines() if commit else git("ls-files", "-s").splitlines()
    parts = Counter()
    for line in listed:
        about, path = line.split("\t", 1)
        # A link has the lines of another file.
        if about.startswith("120000") or not PRODUCT.search(path) or NOT_PRODUCT.search(path):
            continue
        if commit:
            text = git("show", f"{commit}:{path}")
        else:
            try:
                with open(f"{root}/{path}", encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except FileNotFoundError:
                continue
        parts[part_of(path)] += product_lines(path, text)
    for part in sorted(parts):
        print(f"{parts[part]:8,}  {part}")
    for wing in sorted({part.split("/")[0] for part in parts if "/" in part}):
        print(f"{sum(n for part, n in parts.items() if part.startswith(wing + '/')):8,}  {wing}/ in all")
    print(f"{sum(parts.values()):8,}  in all")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""0037's table: stock, stock mode and module in seven scenarios, and the part of the gain kept.

    docs/experiments/0037-stock-mode.py DIRECTORY [NAME...]

Writes the scenarios of stock mode to DIRECTORY, runs what it has no report of, one guest after
the other, and prints the table in Markdown. NAMEs choose rows. WEIR is the program (`./weir`),
KERNEL the guests' (`debian:6.12`), REPEAT the runs of each arm (1).
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

WEIR = os.environ.get("WEIR", "./weir")
KERNEL = os.environ.get("KERNEL", "debian:6.12")
REPEAT = os.environ.get("REPEAT", "1")
MIB = 1 << 20
PHASES = "ext4-write-1|ext4-write-64|xfs-write-8"


def three_phases(text):
    """`ceiling.toml` with three of its sixteen phases, on small disks. An agent starts with the
    first phase, so its writer begins 3 s later."""
    lines = []
    for line in text.splitlines(keepends=True):
        found = re.search(r"\b(ext4|xfs)-(write|mmap)-\d+\b", line)
        if line.startswith("    {") and found and not re.fullmatch(PHASES, found[0]):
            continue
        line = line.replace('size = "4G"', 'size = "1G"')
        if 'name = "ext4-write-1", jobs' in line:
            line = line.replace('"8s"', '"11s", delay = { ext4-write-1 = "3s" }')
        lines.append(line)
    return "".join(lines)


def rules(text, stock=""):
    """The scenario with its cgroups' knobs as rules of an agent in stock mode."""
    policy, cgroup, kept = f"[stock]\n{stock}", None, []
    for line in text.splitlines(keepends=True):
        if header := re.fullmatch(r"\[(.*)\]\s*", line):
            name = re.fullmatch(r"cgroup\.(\S+)", header[1])
            cgroup = name and name[1].strip('"')
        knob = re.match(r'"(memory\.dirty_\w+)" = ("[^"]*"|\d+)', line)
        if cgroup and knob:
            policy += f'[[rule]]\ncgroup = "/{cgroup}"\nset = {{ "{knob[1]}" = {knob[2]} }}\n'
        else:
            kept.append(line)
    return f"{''.join(kept)}\n[agent]\npolicy = '''\n{policy}'''\n"


def drain(text):
    without = re.sub(r"^weir = .*\n", "", text, flags=re.M)
    return rules(without, "drain_seconds = 12\n")


def objective(text):
    return text.replace("[[objective]]", "[stock]\n[[objective]]")


def host_limit(text):
    """`drain_tighten` has no counterpart: the operator names bytes."""
    return re.sub(r"^weir = .*\n", 'sysctl = { "vm.dirty_bytes" = "6G" }\n', text, flags=re.M)


def io_weights(text):
    """An `io.weight` for each weight, as the agent sets it, and the iocost that it takes."""
    text = text.replace("memory.dirty_weight", "io.weight")
    return text.replace('filesystem = "ext4"', 'filesystem = "ext4"\nio_cost = true')


def ratio(phase, heavy, light):
    part = f"{phase}.cgroup/%s.disk_bw_bytes"
    return lambda value: value(part % heavy) / value(part % light)


def figure(name, unit=1):
    return lambda value: value(name) / unit


def dirty(phase):
    return figure(f"{phase}.cgroup/writers.dirty_max_bytes", MIB)


NOISY = "limit = [\"/noisy\"]\n"
# Name; scenario; place; change for all arms; change for stock mode; figures.
ROWS = [
    ("dirty-knobs", "dirty-knobs", "lab", str, lambda text: rules(text, NOISY), [
        ("victim, IOPS", figure("contended.victim.iops")),
        ("its p99, ms", figure("contended.victim.clat_p99_ns", 1e6)),
    ]),
    ("bandwidth", "bandwidth", "lab", str, rules, [
        ("victim, IOPS", figure("contended.victim.iops")),
        ("*noisy*, IOPS, bound 32", figure("contended.noisy.iops")),
    ]),
    ("io-psi", "io-psi", "lab", str, drain, [
        ("IO full of writers, %", figure("near.cgroup/writers.io_full_pct")),
        ("bursts, MiB/s", figure("near.bursts.bw_bytes", MIB)),
    ]),
    ("ceiling", "ceiling", "lab", three_phases, rules, [
        ("most dirty, MiB, ext4, 1 writer", dirty("ext4-write-1")),
        ("ext4, 64 writers", dirty("ext4-write-64")),
        ("xfs, 8 writers", dirty("xfs-write-8")),
    ]),
    ("fsync", "fsync", "lab", str, objective, [
        ("`again`, calls a second", figure("again.etcd.iops")),
        ("p50, ms", figure("again.etcd.sync_p50_ns", 1e6)),
        ("p99, ms", figure("again.etcd.sync_p99_ns", 1e6)),
        ("disk, MiB/s", figure("again.host.disk_bw_bytes", MIB)),
    ]),
    ("weight", "weight", "twin", str, io_weights, [
        ("400 to 100, disk", ratio("two", "w400a", "w100a")),
        ("800 to 100, disk", ratio("eight", "w800a", "w100a")),
        ("disk in `eight`, MiB/s", figure("eight.host.disk_bw_bytes", MIB)),
    ]),
    ("bounded-sync", "twin/bounded-sync", "twin", str, host_limit, [
        ("most dirty, GiB", figure("bounded.host.dirty_max_bytes", 1 << 30)),
        ("disk, MiB/s", figure("bounded.host.disk_bw_bytes", MIB)),
    ]),
]


def measure(file, arm, place, out):
    """The medians of one arm, by their names without it."""
    # A report is taken again only if it is of the same scenario, kernel and number of runs.
    key = f"{file.read_text()} {place} {KERNEL} {REPEAT}"
    report = out / f"report-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"
    if not report.exists():
        run = [WEIR, "run", file, "--on", place, "--arm", arm, "--repeat", REPEAT, "--json"]
        if place == "lab":
            run += ["--kernel", KERNEL, "--count-instructions"]
        # Expectations that compare arms are inconclusive here: what counts is the figures.
        ended = subprocess.run(run, stdout=subprocess.PIPE)
        if not ended.stdout or not json.loads(ended.stdout)["metrics"]:
            sys.exit(f"{' '.join(map(str, run))}: exit status {ended.returncode}")
        out.mkdir(parents=True, exist_ok=True)
        report.write_bytes(ended.stdout)
    metrics = json.loads(report.read_text())["metrics"]
    names = ((name.partition(".")[2], of["median"]) for name, of in metrics.items())
    return dict(names)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, chosen = Path(sys.argv[1]), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    print("| scenario | figure | stock | stock mode | module | kept |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, scenario, place, change, translate, figures in ROWS:
        if chosen and name not in chosen:
            continue
        text = change(Path(f"scenarios/{scenario}.toml").read_text())
        plain = out / f"{Path(scenario).stem}.toml"
        translated = out / f"{name}-stock-mode.toml"
        plain.write_text(text)
        translated.write_text(translate(text))
        mode_arm = "weir" if place == "lab" else "stock"
        arms = [(plain, "stock"), (translated, mode_arm), (plain, "weir")]
        runs = [
            measure(file, arm, place, out / f"{file.stem}.{arm}") for file, arm in arms
        ]
        for label, read in figures:
            stock, mode, module = (read(run.__getitem__) for run in runs)
            gain = module - stock
            # A figure that the module hardly changes is none that it gains by.
            kept = f"{(mode - stock) / gain:.2f}" if abs(gain) > 0.01 * abs(stock) else ""
            print(f"| `{name}` | {label} | {stock:.4g} | {mode:.4g} | {module:.4g} | {kept} |")
        sys.stdout.flush()


main()

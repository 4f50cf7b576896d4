#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""whose-limit.py twin|lab [WEIR]: whose limit throttles a victim beside a noisy writer.

A line of Markdown for each cell of vm.dirty_bytes or vm.dirty_ratio x memory.max on nobody, the
noisy one or the victim x one disk or two x the host's memory. On the lab, hosts of 1 GB only.
docs/experiments/0025-whose-limit.md has what it printed.
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

SCENARIO = """
title = "Whose limit"
[host]
memory = "{memory}G"
cpus = {cpus}
sysctl = {sysctl}
{disks}
[cgroup.victim]
"memory.dirty_min" = "16M" # arm weir only
{victim_limit}
[cgroup.noisy]
{noisy_limit}
[[job]]
name = "victim"
cgroup = "victim"
disk = "{victims_disk}"
fio = {{ rw = "write", bs = "4k", rate = "500k", size = "32M" }}
[[job]]
name = "noisy"
cgroup = "noisy"
disk = "a"
fio = {{ rw = "randwrite", bs = "4k", size = "{noisy_size}", runtime = 60 }}
[[phase]]
name = "both"
jobs = ["noisy", "victim"]
duration = "30s"
delay = {{ victim = "30s" }} # the noisy one fills the pool first
[[expect]]
metric = "victim.iops"
arm = "stock"
phase = "both"
at_least = 0
"""
DISK = """[[disk]]
name = "{name}"
size = "{size}"
write_bandwidth = "256K/s"
filesystem = "ext4"
mount_options = "commit=120"
"""
MODES = {
    "32M": '{ "vm.dirty_bytes" = "32M", "vm.dirty_background_bytes" = "16M" }',
    "20 %": '{ "vm.dirty_ratio" = 20, "vm.dirty_background_ratio" = 10 }',
}
LIMITED = ("nobody", "noisy", "victim")
LIMIT = '"memory.max" = "64M"'


def scenario(on, mode, limited, disks, memory):
    """The cell as a scenario file."""
    is_lab = on == "lab"
    size = "384M" if is_lab else "60G"
    return SCENARIO.format(
        memory=memory,
        cpus=1 if is_lab else 8,
        sysctl=MODES[mode],
        disks="".join(DISK.format(name=name, size=size) for name in "ab"[:disks]),
        victim_limit=LIMIT if limited == "victim" else "",
        noisy_limit=LIMIT if limited == "noisy" else "",
        victims_disk="ab"[disks - 1],
        noisy_size="256M" if is_lab else "256M" if mode == "32M" else "60G",
    )


def run(weir, on, text):
    """Metrics of both arms, and what `weir report` says of the victim on stock."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        file, out = directory / "whose-limit.toml", directory / "out"
        file.write_text(text)
        command = [weir, "run", file, "--on", on, "--record", "--out", out, "--json"]
        if on == "lab":
            command += ["--count-instructions", "--kernel", "debian:6.12"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode > 1:
            sys.exit(done.stderr)
        recording = out / "stock-1/both.weir"
        report = subprocess.run(
            [weir, "report", recording, "--json"], capture_output=True, text=True, check=True
        )
        verdicts = json.loads(report.stdout)["verdicts"]
        victim = next((each for each in verdicts if each["cgroup"] == "/victim"), None)
        return json.loads(done.stdout)["metrics"], victim


def decided(victim):
    """Pauses of the victim, by the domain that decided each."""
    levels = victim["levels"] if victim else []
    pauses = [f"{level['domain']} {level['pauses']}" for level in levels if level["pauses"]]
    return ", ".join(pauses) or "none"


def main():
    on = sys.argv[1]
    weir = sys.argv[2] if len(sys.argv) > 2 else "./weir"
    sizes = (1,) if on == "lab" else (1, 4, 16, 64, 256)
    print("| limit | memory.max | disks | GB | victim, IOPS | pauses | slept, s | dirty, MB | weir |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for cell in itertools.product(MODES, LIMITED, (1, 2), sizes):
        metrics, victim = run(weir, on, scenario(on, *cell))
        median = lambda name: metrics[name]["median"]
        row = [
            *cell,
            f"{median('stock.both.victim.iops'):.0f}",
            decided(victim),
            f"{victim['lost']['seconds'] if victim else 0:.1f}",
            f"{median('stock.both.host.dirty_max_bytes') / 2**20:.0f}",
            f"{median('weir.both.victim.iops'):.0f}",
        ]
        print("|", " | ".join(map(str, row)), "|", flush=True)


main()

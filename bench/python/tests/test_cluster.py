# SPDX-License-Identifier: GPL-2.0-only
"""A cluster of two workers on this machine comes to what weir alone comes to. `make sweep-ray` runs this."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from weir_sweep import Failed, in_order, sweep

WEIR = Path(os.environ["WEIR"])
SCENARIO = Path(__file__).parents[3] / "scenarios" / "dirty-knobs.toml"
SETS = [
    "--set", 'cgroup.victim."memory.dirty_min"=1M,2M,4M,8M,12M,16M',
    "--set", "disk[0].write_bandwidth=128K/s,256K/s,512K/s",
    "--seed", "7",
]
MEMORY = 100 << 20


@pytest.fixture(scope="module")
def cluster():
    # The head has no CPU to give, so all work is the workers'.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def alone(*more: str) -> bytes:
    done = subprocess.run([WEIR, "sweep", "--lines", *SETS, *more, SCENARIO], capture_output=True, check=True)
    return done.stdout


def test_two_workers_come_to_what_one_machine_does(cluster):
    lines, machines = sweep(WEIR, SCENARIO, SETS, parts=8)
    assert len(lines) == 18
    assert b"".join(lines) == alone()
    assert len(machines) == 2, f"one worker did everything: {machines}"


def test_more_parts_than_combinations(cluster):
    shown = ["--show", "weir.contended.victim.iops"]
    lines, _ = sweep(WEIR, SCENARIO, SETS + shown, parts=25)
    assert b"".join(lines) == alone(*shown)


def test_what_weir_refuses_is_told_in_its_words(cluster):
    with pytest.raises(ray.exceptions.RayTaskError) as error:
        sweep(WEIR, SCENARIO, ["--set", "disk[0].write_bandwidth=1"], parts=2)
    assert isinstance(error.value.cause, Failed)
    assert "is not a bandwidth" in str(error.value.cause)


def test_the_command_prints_the_same(cluster):
    command = [sys.executable, "-m", "weir_sweep", "--weir", WEIR, "--address", cluster.address, *SETS, SCENARIO]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == alone()


def test_lines_are_put_in_order():
    assert in_order([[b"0", b"3"], [b"1", b"4"], [b"2"]]) == [b"0", b"1", b"2", b"3", b"4"]

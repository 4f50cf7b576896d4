# SPDX-License-Identifier: GPL-2.0-only
"""`weir sweep` over the machines of a Ray cluster.

The weir command does everything: it knows the combinations, runs them and prints a line of JSON for each. Here a sweep is only cut
into parts (every N-th combination), Ray runs the parts where there is a CPU free, and their lines are put in order again. Command
and scenario travel with the work, so that every machine runs the same binary and needs nothing installed but Ray. The result is
that of `weir sweep --lines`, byte for byte.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ray
from ray import cloudpickle

# So that workers do not need this package.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Failed(Exception):
    """What weir said when it could not run a part."""


def executable(content: bytes) -> str:
    """A file to run with this content; made once on each machine."""
    digest = hashlib.sha256(content).hexdigest()[:32]
    folder = os.path.join(tempfile.gettempdir(), f"weir-sweep-{os.getuid()}")
    path = os.path.join(folder, digest)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Failed(f"{folder} is open to others: remove it")
    if not os.path.exists(path):
        # Another worker may be doing the same: the last replaces it by its like.
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    return path


def run_part(weir: bytes, scenario: bytes, arguments: list[str], index: int, parts: int) -> list[bytes]:
    """Runs one part here; its lines, in order."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scenario.toml")
        file.write_bytes(scenario)
        command = [executable(weir), "sweep", "--lines", "--threads", "1"]
        command += ["--part", f"{index}/{parts}", *arguments, str(file)]
        done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.decode(errors="replace").strip())
    return done.stdout.splitlines(keepends=True)


@ray.remote(num_cpus=1)
def remote_part(*work) -> tuple[str, list[bytes]]:
    """Runs one part on a machine of the cluster; which one it was, and the lines."""
    return ray.get_runtime_context().get_node_id(), run_part(*work)


def in_order(parts: list[list[bytes]]) -> list[bytes]:
    """Lines of all combinations: part i has the i-th, the (i+N)-th, ..."""
    total = sum(len(lines) for lines in parts)
    return [parts[at % len(parts)][at // len(parts)] for at in range(total)]


def sweep(weir: Path, scenario: Path, arguments: list[str], parts: int | None = None, progress=None):
    """Runs a sweep on the cluster Ray is connected to; returns its lines, and how many parts each machine ran.

    `arguments` are those of `weir sweep` that say what to run: --set, --show, --seed. `progress` is called with how many of how many
    parts are done.
    """
    cpus = int(ray.cluster_resources().get("CPU", 1))
    # Several for each CPU: combinations take unequal time.
    parts = parts or 4 * max(cpus, 1)
    content, text = ray.put(weir.read_bytes()), ray.put(scenario.read_bytes())
    index_of = {remote_part.remote(content, text, arguments, index, parts): index for index in range(parts)}
    lines: list[list[bytes]] = [[] for _ in range(parts)]
    machines: dict[str, int] = {}
    waiting = list(index_of)
    while waiting:
        (done,), waiting = ray.wait(waiting, num_returns=1)
        machine, lines[index_of[done]] = ray.get(done)
        machines[machine] = machines.get(machine, 0) + 1
        if progress:
            progress(parts - len(waiting), parts)
    return in_order(lines), machines

# SPDX-License-Identifier: GPL-2.0-only
"""weir-sweep SCENARIO --set KEY=A,B,C ...: prints what `weir sweep --lines` does."""

import argparse
import shutil
import sys
from pathlib import Path

import ray

from . import Failed, sweep


def main() -> int:
    parser = argparse.ArgumentParser(prog="weir-sweep", description="weir sweep over the machines of a Ray cluster.")
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--set", action="append", required=True, metavar="KEY=A,B,C", help="as for weir sweep")
    parser.add_argument("--show", action="append", default=[], metavar="METRIC", help="as for weir sweep")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="where chance begins")
    parser.add_argument("--weir", type=Path, metavar="PATH", help="the weir command (default: the one on the path)")
    parser.add_argument("--address", metavar="ADDRESS", help="of the cluster, as for ray.init (default: this machine alone)")
    parser.add_argument("--parts", type=int, metavar="N", help="parts to cut the sweep into (default: 4 for each CPU)")
    wanted = parser.parse_args()
    found = wanted.weir or (Path(which) if (which := shutil.which("weir")) else None)
    if found is None:
        parser.error("there is no weir on the path: say where it is with --weir")
    arguments = ["--seed", str(wanted.seed)]
    for option, values in (("--set", wanted.set), ("--show", wanted.show)):
        for value in values:
            arguments += [option, value]

    def progress(done: int, parts: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {parts} parts", end="\n" if done == parts else "", file=sys.stderr)

    ray.init(address=wanted.address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    try:
        lines, _ = sweep(found, wanted.scenario, arguments, wanted.parts, progress)
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, Failed):
            raise
        print(error.cause, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"weir-sweep: {error}", file=sys.stderr)
        return 2
    sys.stdout.buffer.write(b"".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())

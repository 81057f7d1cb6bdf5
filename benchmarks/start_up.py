"""How long commands take that need no tensor, from the shell to their end.

    python benchmarks/start_up.py RUN [--beside CHECKOUT] [--turns N]

RUN is any run directory, for `show`. CHECKOUT is a folder with another version of the repository: both take
turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parents[1]


class Timed(NamedTuple):
    """Seconds of one call."""

    wall: float
    cpu: float


def main() -> None:
    """Print a table in Markdown: fastest and median call, wall and CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--turns", type=int, default=7, metavar="N")
    args = parser.parse_args()
    asked = [["--help"], ["--version"], ["list", "methods"], ["show", str(args.run.absolute())]]
    trees = {"now": HERE, **({"before": args.beside.absolute()} if args.beside else {})}
    calls = {("python -c pass", ""): ["-c", "pass"]}
    for words in asked:
        calls |= {(f"protofed {words[0]}", tree): ["-m", "protofed", *words] for tree in trees}
    load = os.getloadavg()[0]
    found: dict[tuple[str, str], list[Timed]] = {call: [] for call in calls}
    for _ in range(args.turns):
        for (name, tree), argv in calls.items():
            found[name, tree].append(_timed(argv, trees.get(tree, HERE)))
    say = sys.stdout.write
    say(f"{args.turns} turns, load {load:.2f} before and {os.getloadavg()[0]:.2f} after\n\n")
    say("| command | version | fastest s | median s | fastest CPU s |\n| --- | --- | ---: | ---: | ---: |\n")
    for (name, tree), times in found.items():
        wall, cpu = [one.wall for one in times], [one.cpu for one in times]
        say(f"| `{name}` | {tree} | {min(wall):.2f} | {statistics.median(wall):.2f} | {min(cpu):.2f} |\n")


def _timed(argv: list[str], tree: Path) -> Timed:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run([sys.executable, *argv], env=env, cwd="/", check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(time.perf_counter() - start, cpu)


if __name__ == "__main__":
    main()

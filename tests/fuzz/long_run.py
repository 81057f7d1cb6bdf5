"""`make fuzz CASES=1000000`: change sound inputs again and again, and see that no reader falls.

Every case follows from the seed and its number. Prints how many each target took, and how many of them were
refused; a raw exception is printed once for each place in the code, its input saved, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import math
import pickle
import random
import resource
import shutil
import sys
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from targets import Target, fresh_folder, targets

from protofed.core.errors import ProtofedError

LONGEST = 3000  # characters of an error about a message
SLOW = 5.0  # seconds of work: an input that takes longer is a finding too
BLOCK = 200  # cases of one target after the other
MEMORY = 6 * 2**30  # bytes of addresses beyond those in use at the start


class Fuzzer:
    """Counts cases, refusals and findings."""

    def __init__(self, out: Path):
        self.out = out
        self.cases: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.found: dict[str, str] = {}

    def case(self, name: str, target: Target, seed: str) -> None:
        """One input."""
        value = target.make(random.Random(seed))
        started = time.process_time()
        try:
            target.read(value)
        except ProtofedError as error:
            self.refused[name] += 1
            if target.from_afar and (len(str(error)) > LONGEST or "\n" in str(error)):
                self._note(name, value, seed, f"an error that is no line: {str(error)[:300]!r}", "line")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in where if "protofed" in frame.filename] or list(where)
            key = f"{type(error).__name__} {ours[-1].name}"
            self._note(name, value, seed, traceback.format_exc(), key)
        if (took := time.process_time() - started) > SLOW:
            self._note(name, value, seed, f"took {took:.1f} s", "slow")
        self.cases[name] += 1

    def _note(self, name: str, value: Any, seed: str, text: str, key: str) -> None:
        key = f"{name}: {key}"
        if key in self.found:
            return
        self.found[key] = text
        self.out.mkdir(parents=True, exist_ok=True)
        stem = "".join(c if c.isalnum() else "-" for c in key)[:80]
        (self.out / f"{stem}.input").write_bytes(value if isinstance(value, bytes) else pickle.dumps(value))
        (self.out / f"{stem}.txt").write_text(f"seed {seed}\n{text}", errors="backslashreplace")
        sys.stderr.write(f"\nFOUND {key}\n{text[-800:]}\n")


def main() -> int:
    """Run the cases, in one process or several, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its part of the cases")
    parser.add_argument("--only", default="", help="one target")
    parser.add_argument("--out", type=Path, default=Path("fuzz-found"), help="where findings are saved")
    args = parser.parse_args()
    started, total = time.monotonic(), Fuzzer(args.out)
    with ProcessPoolExecutor(args.jobs) as pool:
        for part in pool.map(partial(_job, args), range(args.jobs)):
            total.cases += part.cases
            total.refused += part.refused
            total.found |= part.found
    return _report(total, time.monotonic() - started)


def _job(args: argparse.Namespace, number: int) -> Fuzzer:
    """The part of one process. A crash of native code tells where, and ends all."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    folder, fuzzer = fresh_folder(), Fuzzer(args.out)
    try:
        _play(args, number, targets(folder), fuzzer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return fuzzer


def _play(args: argparse.Namespace, number: int, every: dict[str, Target], fuzzer: Fuzzer) -> None:
    """Blocks of each target by its share, until all have had theirs."""
    chosen = {name: one for name, one in every.items() if args.only in ("", name)}
    total = sum(one.share for one in chosen.values())
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, resource.RLIM_INFINITY))
    wanted = {name: math.ceil(args.cases * one.share / total / args.jobs) for name, one in chosen.items()}
    started = told = time.monotonic()
    while left := [name for name in chosen if fuzzer.cases[name] < wanted[name]]:
        for name in left:
            size = max(1, round(BLOCK * chosen[name].share / total * len(chosen)))
            for _ in range(min(size, wanted[name] - fuzzer.cases[name])):
                fuzzer.case(name, chosen[name], f"{args.seed} {number} {name} {fuzzer.cases[name]}")
        if time.monotonic() - told > 10:
            told = time.monotonic()
            gc.collect()
            _progress(sum(fuzzer.cases.values()), sum(wanted.values()), told - started, len(fuzzer.found))


def _progress(done: int, wanted: int, seconds: float, found: int) -> None:
    left = (wanted - done) * seconds / max(1, done)
    sys.stderr.write(
        f"{done:,} of {wanted:,} cases, {done / seconds:,.0f} a second, {left:,.0f} s left, {found} found\n"
    )


def _report(fuzzer: Fuzzer, seconds: float) -> int:
    lines = [
        f"{name:<12}{fuzzer.cases[name]:>12,}{fuzzer.refused[name]:>12,}" for name in sorted(fuzzer.cases)
    ]
    head = f"{'target':<12}{'cases':>12}{'refused':>12}"
    all_cases, refused = sum(fuzzer.cases.values()), sum(fuzzer.refused.values())
    last = f"{'all':<12}{all_cases:>12,}{refused:>12,}"
    sys.stdout.write("\n".join([head, *lines, last]) + "\n")
    sys.stdout.write(f"{len(fuzzer.found)} raw exceptions or other findings, {seconds:,.0f} s\n")
    for key in fuzzer.found:
        sys.stdout.write(f"  {key}\n")
    return 1 if fuzzer.found else 0


if __name__ == "__main__":
    sys.exit(main())

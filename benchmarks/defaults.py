"""Every method by its bare name: what the defaults reach, beside the majority share and Local.

    python -m benchmarks.defaults [--data digits,mnist] [--methods all] [--seeds 11,12,13] [--results FILE]

prints the table of docs/results/defaults.md. Results are kept in a file, one line a run, so that an
interrupted table goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protofed import experiment
from protofed.config import resolve
from protofed.core.algorithm import methods
from protofed.core.errors import ProtofedError

DATA = ("digits", "mnist", "fashion_mnist")
Found = dict[tuple[str, str, int], dict[str, Any]]  # by data, method and seed


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing in the file of results, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=",".join(DATA), help="sets, joined by commas")
    parser.add_argument("--methods", default="all", help="names, joined by commas")
    parser.add_argument("--seeds", default="11,12,13", help="numbers, joined by commas")
    parser.add_argument("--results", type=Path, default=Path("runs/defaults.jsonl"), help="file of results")
    args = parser.parse_args(argv)
    every = ["local", *(name for name in methods if name != "local")]
    names = every if args.methods == "all" else args.methods.split(",")
    sets, seeds = args.data.split(","), [int(seed) for seed in args.seeds.split(",")]
    try:
        found = measured(names, sets, seeds, args.results)
    except ProtofedError as error:
        sys.stderr.write(f"benchmarks: error: {' '.join(str(error).split())}\n")
        return 2
    sys.stdout.write(table(found, names, sets, seeds))
    return 0


def measured(names: Sequence[str], sets: Sequence[str], seeds: Sequence[int], file: Path) -> Found:
    """The accuracy of each (data, method, seed) in the main mode; new runs are added to the file."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    found = {(line["data"], line["method"], line["seed"]): line for line in lines}
    file.parent.mkdir(parents=True, exist_ok=True)
    for key in [(data, name, seed) for data in sets for name in names for seed in seeds]:
        if key not in found:
            found[key] = bare_run(*key)
            with file.open("a") as out:
                out.write(json.dumps(found[key]) + "\n")
    return found


def bare_run(data: str, method: str, seed: int) -> dict[str, Any]:
    """One run with nothing set but data and seed (and public data, where the method cannot do without)."""
    needs = resolve({"method": method}).make_method().needs
    public = {"public": data} if needs.public else {}
    built = experiment.build(resolve({"method": method, "data": data, "seed": seed, **public}))
    records = experiment.carry_out(built, None)
    accuracy = records[-1]["acc"]
    mode = next(mode for mode in built.task.algorithm.modes if mode in accuracy)
    return {
        "data": data,
        "method": method,
        "seed": seed,
        "mode": mode,
        "accuracy": accuracy[mode]["mean"],
        "majority": majority(built),
        "seconds": sum(record["seconds"] + record.get("eval_seconds", 0.0) for record in records),
    }


def majority(built: experiment.Experiment) -> float:
    """Accuracy in percent of always naming a client's most frequent test class; mean over the clients."""
    assert built.dataset is not None
    assert built.split is not None
    labels = np.asarray(built.dataset.y)
    shares = [np.bincount(labels[rows]).max() / len(rows) for rows in built.split.test if len(rows)]
    return 100.0 * float(np.mean(shares))


def table(found: Found, names: Sequence[str], sets: Sequence[str], seeds: Sequence[int]) -> str:
    """The page's table: mean accuracy (%) over the seeds; the lowest seed in brackets."""

    def values(data: str, name: str, what: str) -> list[float]:
        return [found[data, name, seed][what] for seed in seeds]

    shares = [statistics.mean(values(data, names[0], "majority")) for data in sets]
    rows = [["method", "mode", *sets], ["majority share", "", *(f"{share:.1f}" for share in shares)]]
    for name in names:
        cells = [values(data, name, "accuracy") for data in sets]
        shown = [f"{statistics.mean(cell):.1f} ({min(cell):.1f})" for cell in cells]
        rows.append([name, found[sets[0], name, seeds[0]]["mode"], *shown])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())

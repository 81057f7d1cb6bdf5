"""Every method by its bare name: what the defaults reach, beside the majority share and Local.

    python -m benchmarks.defaults [--data digits,mnist] [--methods all] [--results FILE] [--page]

prints the table of docs/results/defaults.md, or writes it into the page. Results are kept in a file, one line
a run, so that an interrupted table goes on where it stopped; `--runs 0` makes the table of what there is.
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
PAGE = Path(__file__).parents[1] / "docs/results/defaults.md"
PUBLIC = 500  # public samples: with the usual 5,000 a run on MNIST takes a quarter of an hour
Found = dict[tuple[str, str, int], dict[str, Any]]  # by data, method and seed


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing in the file of results, then print the table or write it into the page."""
    args = _arguments(argv)
    every = ["local", *(name for name in methods if name != "local")]
    names = every if args.methods == "all" else args.methods.split(",")
    sets, seeds = args.data.split(","), [int(seed) for seed in args.seeds.split(",")]
    try:
        found = measured(names, sets, seeds, args)
    except ProtofedError as error:
        sys.stderr.write(f"benchmarks: error: {' '.join(str(error).split())}\n")
        return 2
    text = table(found, names, sets, seeds)
    if args.page:
        PAGE.write_text(with_table(PAGE.read_text(), text))
    else:
        sys.stdout.write(text)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=",".join(DATA), help="sets, joined by commas")
    parser.add_argument("--methods", default="all", help="names, joined by commas")
    parser.add_argument("--seeds", default="11,12,13", help="numbers, joined by commas")
    parser.add_argument("--results", type=Path, default=Path("runs/defaults.jsonl"), help="file of results")
    parser.add_argument("--runs", type=int, help="at most so many new runs (default: all that are missing)")
    parser.add_argument("--engine", default="auto", help="how clients are run; the numbers are the same")
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE}")
    return parser.parse_args(argv)


def measured(
    names: Sequence[str], sets: Sequence[str], seeds: Sequence[int], args: argparse.Namespace
) -> Found:
    """The accuracy of each (data, method, seed) in the main mode; new runs are added to the file. One seed of
    all before the next."""
    file = args.results
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    found = {(line["data"], line["method"], line["seed"]): line for line in lines}
    file.parent.mkdir(parents=True, exist_ok=True)
    wanted = [(data, name, seed) for seed in seeds for name in names for data in sets]
    for key in [key for key in wanted if key not in found][: args.runs]:
        sys.stderr.write(f"{key[0]}, {key[1]}, seed {key[2]}\n")
        found[key] = bare_run(*key, args.engine)
        with file.open("a") as out:
            out.write(json.dumps(found[key]) + "\n")
    return found


def bare_run(data: str, method: str, seed: int, engine: str = "auto") -> dict[str, Any]:
    """One run with nothing set but data and seed (and public data, where the method cannot do without)."""
    needs = resolve({"method": method}).make_method().needs
    public = {"public": data, "public_samples": PUBLIC} if needs.public else {}
    given = {"method": method, "data": data, "seed": seed, "engine": engine, **public}
    built = experiment.build(resolve(given))
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
        "findings": [one["text"] for one in records[-1].get("findings") or ()],
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
    """The page's table: mean accuracy (%) over the seeds that all methods have; the lowest seed in brackets.
    Cells that were not run are empty."""
    used = {data: _whole(found, names, data, seeds) for data in sets}
    rows = [
        ["method", "mode", *sets],
        ["seeds", "", *(str(len(used[data])) for data in sets)],
        ["majority share", "", *(_mean(found, data, names, used[data]) for data in sets)],
    ]
    for name in names:
        cells = [[found.get((data, name, seed)) for seed in used[data]] for data in sets]
        ran = [[run for run in cell if run] for cell in cells]
        mode = next((run["mode"] for cell in ran for run in cell), "")
        rows.append([name, mode, *(_cell([run["accuracy"] for run in cell]) for cell in ran)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


def _whole(found: Found, names: Sequence[str], data: str, seeds: Sequence[int]) -> list[int]:
    """The seeds that every method has on a set; else the first that any has: unequal means would mislead."""
    whole = [seed for seed in seeds if all((data, name, seed) in found for name in names)]
    begun = [seed for seed in seeds if any((data, name, seed) in found for name in names)]
    return whole or begun[:1]


def _mean(found: Found, data: str, names: Sequence[str], seeds: Sequence[int]) -> str:
    """The majority share: the same for all methods of a seed."""
    shares = [
        next(found[data, n, seed]["majority"] for n in names if (data, n, seed) in found) for seed in seeds
    ]
    return f"{statistics.mean(shares):.1f}" if shares else ""


def _cell(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1f} ({min(values):.1f})" if values else ""


def with_table(page: str, text: str) -> str:
    """The page with this in place of its table, which begins with the column "method | mode"."""
    lines = page.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("| method | mode |"))
    end = next(i for i, line in enumerate(lines) if i > start and not line.startswith("|"))
    return "".join([*lines[:start], text, *lines[end:]])


if __name__ == "__main__":
    raise SystemExit(main())

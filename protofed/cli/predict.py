"""`protofed predict RUN --client N --data SPEC`: classes and scores of new samples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from .output import tell


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "predict",
        description="Predict with the model of a client, as it was tested in the run; the training data is "
        "not needed. Samples: csv:PATH (the columns of the training table), npz:PATH (array x), folder:PATH "
        "(images), or a data set, of which the test rows are taken. Scores are logits under the modes of "
        "classifiers and minus distances under those of prototypes: the largest wins.",
        allow_abbrev=False,
    )
    add_source(parser)
    parser.add_argument("--data", required=True, metavar="SPEC", help="new samples: csv:new.csv, folder:new/")
    parser.add_argument("--mode", help="prediction mode (default: the one that the method's paper reports)")
    parser.add_argument("--format", choices=("csv", "json"), default="csv", help="default: csv")
    parser.add_argument("-o", "--out", type=Path, help="a file (default: standard output)")
    parser.set_defaults(function=command)


def add_source(parser: argparse.ArgumentParser) -> None:
    """What names a trained model."""
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="run directory, or the folder of a deployed client",
    )
    parser.add_argument("--client", metavar="NAME", help="its number, or its name in a deployed run")
    parser.add_argument("--unfinished", action="store_true", help="take a run that is on its way")


def command(args: argparse.Namespace) -> int:
    """Predict, and write all or nothing."""
    from ..runs.files import write_atomic
    from ..use.prediction_files import accuracy, as_csv, as_json, check_table
    from ..use.trained import load

    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise ConfigError(f"--out: {args.out.absolute().parent} is not a folder")
    found, new = load(args.run, unfinished=args.unfinished).predict_from(args.data, args.client, args.mode)
    check_table(found)
    text = (as_csv if args.format == "csv" else as_json)(found, new)
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_atomic(args.out, text.encode())
    reached = accuracy(found, new)
    told = f", {reached:.2f} % of the labels are right" if reached is not None else ""
    tell(f"{len(found)} samples, mode {found.mode}{told}")
    return 0

"""`protofed export RUN --client N --format FORMAT`: a model as a file for other programs, with its card."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from .output import tell
from .predict import add_source

FORMATS = ("safetensors", "onnx", "torch-export")


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "export",
        description="Write the model of a client as safetensors (weights), ONNX or torch.export (the whole "
        "network), with names of classes, global prototypes and the form of the inputs in the file's "
        "metadata, and a model card in Markdown beside it. The numbers of a run go to trackers by "
        "`protofed track`.",
        allow_abbrev=False,
    )
    add_source(parser)
    parser.add_argument("--format", metavar="FORMAT", help=f"one of {', '.join(FORMATS)}")
    parser.add_argument("-o", "--out", type=Path, help="the file (default: RUN-client-N, in this folder)")
    parser.add_argument("--to", help=argparse.SUPPRESS)  # as it was for trackers
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Write model and card."""
    if args.to is not None:
        raise ConfigError(
            f"export --to: handing numbers to trackers is `protofed track {args.run} --to {args.to}` now"
        )
    if args.format is None:
        raise ConfigError(f"export: say --format, one of {', '.join(FORMATS)}")
    from ..use.model_files import FORMATS as KNOWN
    from ..use.model_files import SUFFIXES, export_model
    from ..use.trained import load

    if args.format not in KNOWN:
        raise ConfigError(f"--format: unknown format {args.format!r}; there are {', '.join(KNOWN)}")
    trained = load(args.run, unfinished=args.unfinished)
    name = trained.clients[trained.number(args.client)]
    out = args.out or Path(f"{trained.path.name}-client-{name}{SUFFIXES[args.format]}")
    written = export_model(trained, args.format, out, args.client)
    tell(f"written: {', '.join(map(str, written))}")
    return 0

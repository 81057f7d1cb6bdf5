"""`protofed verify RUN…`: whether run directories are what the runs wrote."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.escape import visible
from ..runs.verify import DAMAGED, OUTPUT, UNKNOWN, WHOLE, Checked, repair, verify, worst


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "verify",
        description="Check every file of run directories against its checksum (metrics.jsonl and "
        "clients.jsonl line by line) and say which are whole, which differ, and what can be recovered. Exit "
        "code 0 if all are whole, else 1; also for runs of earlier versions, which have no checksums. "
        "Checksums find damage, edits and mixed-up files, not somebody who reckons them anew.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run directory, or the folder of server.toml"
    )
    parser.add_argument("--repair", action="store_true", help="first put back what can be recovered")
    parser.add_argument("--json", action="store_true", help="print the states of all files as JSON")
    parser.set_defaults(function=check)


def check(args: argparse.Namespace) -> int:
    """Print the state of each run, and of the files that are not whole."""
    found = {}
    for path in args.runs:
        if (path / "server.toml").exists():
            found[path] = _server(path)
            continue
        if args.repair:
            repair(path)
        found[path] = verify(path)
    if args.json:
        runs = [_as_json(path, checked) for path, checked in found.items()]
        sys.stdout.write(json.dumps(runs, indent=2) + "\n")
    else:
        for path, checked in found.items():
            sys.stdout.write("".join(f"{line}\n" for line in _lines(path, checked)))
    return int(any(worst(checked) != WHOLE for checked in found.values()))


def _server(path: Path) -> list[Checked]:
    """The folder of a deployment's server: what it keeps besides its runs."""
    from ..deploy.audit import NAME, check_audit

    if not (path / NAME).exists():
        return [Checked(NAME, UNKNOWN, "missing: no server was started from this folder, or it was removed")]
    told = check_audit(path / NAME)
    state = WHOLE if not told else UNKNOWN if told.startswith("lines 1 to") else DAMAGED
    return [Checked(NAME, state, told)]


def _lines(path: Path, checked: Sequence[Checked]) -> list[str]:
    sealed = [one for one in checked if one.state != OUTPUT]
    bad = [one for one in sealed if one.state != WHOLE]
    count = f"{len(sealed) - len(bad)} of {len(sealed)} files are whole"
    others = [visible(one.file) for one in checked if one.state == OUTPUT]
    return [
        f"{path}: {worst(checked)} ({count})",
        *(f"  {one.file}: {one.state}: {one.text}" for one in bad),
        *([f"  {OUTPUT}, and read by no command: {', '.join(others)}"] if others else []),
    ]


def _as_json(path: Path, checked: Sequence[Checked]) -> dict[str, Any]:
    return {"run": str(path), "state": worst(checked), "files": [one._asdict() for one in checked]}

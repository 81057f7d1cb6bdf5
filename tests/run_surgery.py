"""Run directories as other versions and other ends would have left them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from protofed.runs.seals import erase_whole, forget_end


def forget_checksums(run: Path) -> None:
    """As an earlier version wrote it."""
    (run / "checksums.json").unlink(missing_ok=True)
    shutil.rmtree(run / "checkpoint" / "copies", ignore_errors=True)
    for path in [run / "metrics.jsonl", run / "clients.jsonl"]:
        if path.exists():
            found = [json.loads(text) for text in path.read_text().splitlines()]
            for line in found:
                line.pop("check", None)
            path.write_text("".join(json.dumps(line) + "\n" for line in found))
    for path in (run / "checkpoint").glob("manifest*.json"):
        manifest = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in manifest.items() if k not in ("check", "lines")}))
    about = run / "about.json"
    if about.exists():
        about.write_text(json.dumps({**json.loads(about.read_text()), "format": 1}))


def unfinish(run: Path) -> None:
    """As if it had been stopped after its last checkpoint, before its summary was written."""
    erase_whole(run, "summary.json")
    forget_end(run, {})

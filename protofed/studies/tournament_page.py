"""A tournament as a page of docs/results, and its standings as a file beside it.

Settings that were finished earlier, in another call or on another day, stay in the file and in the tables, as
long as the tournament's file still says the same of them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import resolve
from ..core.checksums import digest
from ..core.errors import ConfigError, RunError
from ..reports import paper
from ..runs.files import finite, read_json
from .plan import common_training
from .published import page_text, with_section
from .study_files import write_text
from .tables import Table
from .tournament import Tournament, trials_in
from .tournament_table import Standing, draw_pareto, tournament_tables

PLAYED = ("trials", "seeds", "first_seed", "validation", "own_classes", "shared", "space")


def mark_of(tournament: Tournament, setting: str) -> str:
    """What the file says of a setting; standings under another mark are of another tournament."""
    common = [getattr(tournament, name) for name in PLAYED]
    return digest(json.dumps([common, tournament.settings[setting]], sort_keys=True).encode())[:12]


def joined(whole: Tournament, found: Sequence[Standing], page: Path) -> list[Standing]:
    """These standings, with those of other settings that the file beside the page has; in the order of the
    tournament's file."""
    fresh = {one.setting for one in found}
    rows = [*found, *(one for one in _earlier(whole, page) if one.setting not in fresh)]
    settings, entrants = list(whole.settings), list(whole.entrants)
    rows = [one for one in rows if one.entrant in entrants]
    return sorted(rows, key=lambda one: (settings.index(one.setting), entrants.index(one.entrant)))


def _earlier(whole: Tournament, page: Path) -> list[Standing]:
    path = page.with_suffix(".json")
    if not path.exists():
        return []
    try:
        kept = read_json(path)
        marks = kept["settings"]
        rows = [row for row in kept["rows"] if row["setting"] in whole.settings]
        return [_standing(row) for row in rows if marks[row["setting"]] == mark_of(whole, row["setting"])]
    except (KeyError, TypeError, ValueError, RunError) as error:
        raise ConfigError(f"--publish: {path} does not hold a tournament's standings: {error}") from error


def _standing(row: Mapping[str, Any]) -> Standing:
    known = {key: _number(value) for key, value in row.items()}
    return Standing(**{**known, "accuracies": tuple(_number(value) for value in row["accuracies"])})


def _number(value: Any) -> Any:
    """JSON knows no NaN: it was written as null."""
    return math.nan if value is None else value


def publish_tournament(whole: Tournament, found: Sequence[Standing], command: str, page: Path) -> list[Path]:
    """Write the page's section, the standings, and the chart of costs where it can be drawn."""
    rows = [dataclasses.asdict(one) for one in found]
    played = list(dict.fromkeys(one.setting for one in found))
    kept = {"settings": {setting: mark_of(whole, setting) for setting in played}, "rows": rows}
    paths = [page, page.with_suffix(".json")]
    parts = [
        f"{time.strftime('%Y-%m-%d')}: {len(played)} of {len(whole.settings)} settings, "
        f"{len(whole.entrants)} entrants, {whole.seeds} final seeds (from {whole.first_seed}) each.",
        f"```sh\n{command}\n```",
        settings_table(whole, played).markdown().rstrip(),
        *(table.markdown().rstrip() for table in tournament_tables(whole, found)),
    ]
    if found and paper.can_draw():
        paths.append(draw_pareto(found, page.with_name(f"{page.stem}-cost.png")))
        shown = "Accuracy against floats that a client sends in all, a panel for each setting"
        parts.append(f"![{shown}]({paths[-1].name})")
    text = with_section(page_text(page), f"tournament {whole.name}", parts, f"Tournament: {whole.name}")
    write_text(page, text)
    write_text(paths[1], json.dumps(finite(kept), indent=1) + "\n")
    return paths


def settings_table(tournament: Tournament, played: Sequence[str]) -> Table:
    """What was run in each setting."""
    rows = []
    for name in played:
        given = {**tournament.shared, **tournament.settings[name]}
        given.pop("trials", None)
        asked = given.pop("options", {})
        config = resolve({"method": "local"}, common_training(given))
        own = {f"{key}={value}" for options in asked.values() for key, value in options.items()}
        rows.append([
            name, config.data, config.partition, config.models, ", ".join(sorted(own)), str(config.clients),
            f"{config.rounds.rounds} × {config.train.epochs}", str(config.train.batch_size),
            str(trials_in(tournament, name)),
        ])  # fmt: skip
    headings = ("setting", "data", "partition", "networks", "options", "clients", "rounds × epochs", "batch",
                "trials")  # fmt: skip
    return Table("settings", headings, rows, 5)

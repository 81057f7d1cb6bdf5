"""`protofed advise --method`: which method suits data, partition and models, by rules and their pages."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from .output import make_console


def advise_method(run: Path | None, given: dict[str, Any], slow_links: bool, as_json: bool) -> int:
    """Look at what clients have, say which rules apply and what they do not know."""
    from ..analysis.choose_method import UNKNOWN, choose

    if run is not None and given:
        raise ConfigError(f"advise --method: give RUN or --{next(iter(given))}, not both")
    setting = _setting(run, given, slow_links)
    found = choose(setting)
    if as_json:
        rules = [one._asdict() for one in found]
        said = {"setting": asdict(setting), "advice": rules, "not_known": list(UNKNOWN)}
        sys.stdout.write(json.dumps(said) + "\n")
        return 0
    models = "one architecture" if setting.one_model else "different architectures"
    if not setting.one_embedding:
        models += ", embeddings of different sizes"
    lines = [
        f"{setting.clients} clients, {setting.held:.1f} of {setting.classes} classes each; two clients share "
        f"{setting.overlap:.0%} of their classes; {setting.samples:g} samples of a class; {models}"
        + (f"; {setting.domains} domains" if setting.domains > 1 else ""),
        "",
    ]
    for one in found:
        lines += [f"{'rather not' if one.against else 'try'} {', '.join(one.methods)}: {one.reason}"]
        lines += [f"    rests on {one.page}"]
    lines += ["", "What these rules do not know:", *(f"- {line}" for line in UNKNOWN)]
    console = make_console()
    for line in lines:
        console.print(line, highlight=False, markup=False)
    return 0


def _setting(run: Path | None, given: dict[str, Any], slow_links: bool) -> Any:
    from ..analysis.choose_method import measure_setting
    from ..config import resolve
    from ..data import divide, load
    from ..data.split_summary import describe_split
    from ..models.groups import assign
    from ..models.probe import check_model
    from ..runs.directory import RunDir

    if run is not None:
        kept = RunDir.open(run).config
        given = {name: kept[name] for name in ("data", "partition", "models", "clients", "seed")}
    config = resolve(given)
    dataset = load(config.data)
    split = divide(config.partition, dataset, config.clients, config.seed)
    counts = describe_split(dataset, split, most=0).train
    assigned = assign(config.models, len(counts), dataset.shape, len(dataset.classes))
    dims = [
        check_model(build(), dataset.shape, len(dataset.classes), name)
        for build, name in zip(assigned.builders, assigned.specs)
    ]
    more = {"dense": dataset.dense, "slow_links": slow_links}
    return measure_setting(counts, dims, len(assigned), max(1, len(dataset.domains)), **more)

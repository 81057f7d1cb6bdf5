"""How raw samples become inputs, kept with a run in inputs.json: for samples that come later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.errors import RunError
from ..data import Dataset, Split
from ..data.inputs import InputRule
from .seals import read_whole, there, write_whole

FILE = "inputs.json"
FORMAT = 1
MIXED = -1  # a client with rows of several sites, whose inputs were made by different rules


def write_rules(directory: Path, dataset: Dataset, split: Split) -> None:
    """Write the rules of a data set, and which of them each client has."""
    rules = dataset.rules or (dataset.rule(),)
    of = [_rule_of(dataset, split.train[client]) for client in range(split.clients)] if len(rules) > 1 else []
    store_rules(directory, rules, of)


def store_rules(directory: Path, rules: Sequence[InputRule], of: Sequence[int]) -> None:
    """Write these rules, and the number of each client's; none where there is one for all."""
    found = {"format": FORMAT, "rules": [rule.to_dict() for rule in rules], "of_client": list(of)}
    write_whole(directory, FILE, found)


def read_rules(directory: Path) -> list[InputRule]:
    """All rules of a run: one for all clients, one for each owner, or one for each group."""
    found = read_whole(directory, FILE)
    try:
        return [InputRule.from_dict(one) for one in found["rules"]]
    except (KeyError, TypeError) as error:
        raise RunError(f"{directory / FILE} is damaged: {error!r}") from error


def read_rule(directory: Path, client: int = 0) -> InputRule | None:
    """How samples for this client's model are made inputs; None for a run that did not keep it."""
    path = directory / FILE
    if not there(directory, FILE):
        return None
    found = read_whole(directory, FILE)
    try:
        number = found["of_client"][client] if found["of_client"] else 0
        if number != MIXED:
            return InputRule.from_dict(found["rules"][number])
    except (KeyError, IndexError, TypeError) as error:
        raise RunError(f"{path} is damaged, or knows no client {client}: {error!r}") from error
    raise RunError(
        f"{directory}: client {client} has samples of several sites, whose inputs were made by different "
        "rules; use the partition natural, which makes each site a client"
    )


def _rule_of(dataset: Dataset, rows: np.ndarray) -> int:
    """The owner whose rule holds for a client, that of all its rows; MIXED where there are several."""
    owners = np.zeros(1) if dataset.owner is None else np.unique(dataset.owner[rows])
    return int(owners[0]) if len(owners) == 1 else MIXED

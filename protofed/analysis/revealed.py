"""What each client revealed in a run: read from its uploads' types, its participation and its settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..core.algorithm import Leg
from ..experiment import Experiment
from ..trust.uploads import class_field, count_field
from .uploads_again import Sent, rows_in, trees


@dataclass(frozen=True)
class Revealed:
    """One client's share. None: the server does not see it, or nothing of the kind is sent."""

    client: int
    rounds: int | None  # in which its upload was used; None: not recorded
    samples: int | None
    classes: tuple[str, ...] | None
    counts: bool  # how many samples of each class it has
    rows: tuple[int, int] | None  # rows of classes in an upload, and numbers in each
    weights: int | None  # numbers of models in an upload
    sent: int | None  # numbers in all uploads
    seen: bool  # whether the server sees its uploads alone, not in sums


def participation(lines: Sequence[Mapping[str, Any]]) -> Counter[int] | None:
    """How often each client's upload was used, from the rounds' records; None where these do not tell."""
    if not all("participants" in line for line in lines):
        return None
    return Counter(client for line in lines for client in line["participants"])


def revealed(
    experiment: Experiment, sent: Sequence[Sent], clients: Sequence[int], taken: Counter[int] | None
) -> list[Revealed]:
    """What these clients revealed; `sent` holds their uploads."""
    return [_of(experiment, sent, client, None if taken is None else taken[client]) for client in clients]


def _of(experiment: Experiment, sent: Sequence[Sent], client: int, rounds: int | None) -> Revealed:
    names, trust = experiment.task.class_names, experiment.config.trust
    ups = [(one.leg, one.replies[client].up) for one in sent]
    once = any(averaged.once for leg, _ in ups for averaged in leg.averages)
    floats = sum(up.payload().floats for _, up in ups)
    uploads = None if rounds is None else min(rounds, 1) if once else rounds
    total = None if uploads is None else floats * uploads
    if trust.secure or uploads == 0:
        return Revealed(client, rounds, None, None, False, None, None, total, not trust.secure)
    classes = next((found for leg, up in ups if (found := _classes(leg, up)) is not None), None)
    rows = next((getattr(up, rows_in(leg)[0]) for leg, up in ups if rows_in(leg)[0]), None)
    weights = sum(tensor.numel() for _, up in ups for tensor in trees(up).values())
    return Revealed(
        client,
        rounds,
        experiment.data.size(client),
        None if classes is None else tuple(names[c] for c in classes),
        any(count_field(leg.up) for leg, _ in ups),
        None if rows is None else (int(rows.shape[0]), int(rows.shape[1])),
        weights or None,
        total,
        True,
    )


def _classes(leg: Leg, up: Any) -> list[int] | None:
    """The classes that an upload names, or counts where it has a row for every class."""
    if by := class_field(leg.up):
        return sorted(set(getattr(up, by).tolist()))
    counts = getattr(up, count_field(leg.up)) if count_field(leg.up) and rows_in(leg)[0] else None
    return None if counts is None else torch.nonzero(counts)[:, 0].tolist()

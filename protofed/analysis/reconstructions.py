"""Inputs that an attacker finds from one client's rows, with every protection and network he may have, and
from its change of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.data import LocalData
from ..core.record import Tree
from ..experiment import Experiment
from .gradient_inversion import Attempt, change_of, invert_changes
from .inversion import NOTHING, OTHERS, Descent, guesses, invert, likeness, scale_of
from .membership import SENT, Features, maps
from .protections import NONE
from .uploads_again import Seen
from .watch import NOBODY, Watch

MOST_OTHERS = 20  # clients whose samples an attacker is taken to have
NO_UPLOAD = "no upload"


class Guess(NamedTuple):
    """Inputs [J, …] for classes [J]: from what was seen, by which network, from which start."""

    protection: str
    network: str
    start: str
    x: Tensor
    cls: Tensor


class Found(NamedTuple):
    """All guesses at one client's samples, and how near each row of them comes: [J] each."""

    guesses: list[Guess]
    likeness: list[Tensor]
    nearest: Tensor  # of each class the training sample that the first guess from the upload comes nearest to
    classes: Tensor


class _Block(NamedTuple):
    protection: str
    rows: Tensor
    cls: Tensor


def reconstruct(
    experiment: Experiment,
    client: int,
    seen: Mapping[str, Seen],
    steps: int,
    watch: Watch = NOBODY,
    place: str = "",
) -> Found:
    """Invert what is seen of a client with each protection; first come guesses that need no upload. `watch`
    hears of the steps of every row, and `place`, which of the clients this is."""
    data, others = experiment.data.train(client), _others(experiment, client)
    how = Descent(scale_of([one.x for one in others]), steps, client, watch)
    classes = torch.unique(data.y)
    known = guesses(others, classes, how.scale)
    found = [Guess(NO_UPLOAD, "", start, x, classes) for start, x in known.items()]
    networks = _by_network(experiment, client, seen, classes)
    sent = {name: one.weights for name, one in seen.items() if one.weights}
    rows = sum(len(one.rows) for _, blocks in networks.values() for one in blocks) + len(sent) * len(classes)
    how.watch.begin(f"inversion in {steps} steps, client {client}{place}", len(known) * rows * steps)
    for network, (features, blocks) in networks.items():
        found += _inverted(network, features, blocks, known, classes, how)
    if sent:
        found += _from_changes(experiment, client, sent, known, classes, how)
    like = [likeness(one.x, one.cls, data, how.scale) for one in found]
    shown = next((k for k, one in enumerate(found) if one.protection == NONE), 0)
    first = [
        int(torch.nonzero(found[shown].cls == c)[0]) for c in classes if bool((found[shown].cls == c).any())
    ]
    return Found(
        found, [one.nearest for one in like], data.x[like[shown].which[first]], found[shown].cls[first]
    )


def _from_changes(
    experiment: Experiment,
    client: int,
    sent: Mapping[str, Tree],
    known: Mapping[str, Tensor],
    classes: Tensor,
    how: Descent,
) -> list[Guess]:
    names = [(protection, start) for protection in sent for start in known]
    attempts = [Attempt(sent[protection], known[start], start == NOTHING) for protection, start in names]
    found = invert_changes(experiment, client, classes, attempts, how)
    return [
        Guess(protection, change_of(experiment, client, sent[protection]), start, x, classes)
        for (protection, start), x in zip(names, found)
    ]


def _others(experiment: Experiment, client: int) -> list[LocalData]:
    others = [one for one in experiment.active if one != client and experiment.data.size(one)]
    return [experiment.data.train(one) for one in others[:MOST_OTHERS] or [client]]


def _by_network(
    experiment: Experiment, client: int, seen: Mapping[str, Seen], classes: Tensor
) -> dict[str, tuple[Features, list[_Block]]]:
    """Rows of the client's classes that go through the same network, so that they are inverted at once."""
    found: dict[str, tuple[Features, list[_Block]]] = {}
    for protection, one in seen.items():
        if one.rows is None:
            continue
        held = torch.isin(one.cls, classes)
        block = _Block(protection, one.rows[held].to(experiment.task.dtype), one.cls[held])
        for network in maps(experiment, client, one, seen[NONE]) if len(block.cls) else ():
            name = f"{SENT} ({protection})" if network.name == SENT else network.name
            found.setdefault(name, (network.features, []))[1].append(block)
    return found


def _inverted(
    network: str,
    features: Features,
    blocks: Sequence[_Block],
    known: Mapping[str, Tensor],
    classes: Tensor,
    how: Descent,
) -> list[Guess]:
    starts, rows = [], []
    for block in blocks:
        place = torch.searchsorted(classes, block.cls)
        starts += [known[NOTHING][place], known[OTHERS][place]]
        rows += [block.rows, block.rows]
    sizes = [len(one) for one in rows]
    smooth = torch.cat([torch.full((size,), k % 2 == 0) for k, size in enumerate(sizes)])
    x = invert(features, torch.cat(rows), torch.cat(starts), smooth, how)
    name = network.split(" (")[0]
    return [
        Guess(blocks[k // 2].protection, name, (NOTHING, OTHERS)[k % 2], part, blocks[k // 2].cls)
        for k, part in enumerate(torch.split(x, sizes))
    ]

"""What clients of a run send, once more: nothing of an upload is kept with a run.

Where models stay at the clients and only prototypes (or sums) go up, these are made of the models as they
stand: of a client that took part in the last round, what it sent then. Where weights go up the client trains
once more from the server's present state, with the batches of the last round: what it would send next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core.algorithm import Leg
from ..core.answer import ClientState, Reply
from ..core.client import begin, finish, kept_names, run_leg
from ..core.record import Tree
from ..core.task import ClientTurn, Turn
from ..experiment import Experiment
from ..ops.pooled import PooledSums
from ..trust.uploads import class_field, row_fields, sending
from .watch import NOBODY, Watch

EMBEDDINGS, LOGITS, MAPPED = "embeddings", "logits", "the common map"  # of what rows are means


@dataclass(frozen=True)
class Sent:
    """What clients send in one leg; `state` is the server's before."""

    leg: Leg
    replies: Mapping[int, Reply]
    state: Any


class Seen(NamedTuple):
    """What can be read of uploads: rows [J, E] with their classes [J] (none: no rows), and weights."""

    rows: Tensor | None
    cls: Tensor
    of: str  # rows are means of these; "" without rows
    weights: Tree


@torch.no_grad()
def uploads(experiment: Experiment, clients: Collection[int], watch: Watch = NOBODY) -> list[Sent]:
    """The uploads of these clients, leg by leg; those of a leg without uploads are left out."""
    task, state = experiment.task, experiment.federation.state
    if isinstance(task.algorithm, PooledSums):  # whose server adds each client once: as if nobody were in it
        state = replace(task.algorithm.init(task, Turn(task, 0)), scale=state.scale)  # type: ignore[attr-defined]
    legs, found = sending(task.algorithm), []
    watch.begin("uploads, made again", len(legs) * len(clients))
    for leg in legs:
        replies = {}
        for client in sorted(clients):
            replies[client] = _again(experiment, leg, client)
            watch.step()
        found.append(Sent(leg, replies, state))
    return found


def _again(experiment: Experiment, leg: Leg, client: int) -> Reply:
    """As the client's model stands, where it keeps all of it and sends no weights; else after training."""
    task, group = experiment.task, experiment.task.group_of(client)
    keeps_all = len(kept_names(task, group)) == len(task.names(group).all)
    if keeps_all or isinstance(task.algorithm, PooledSums):
        reply = upload_of(experiment, leg, client, train=False)
        if not trees(reply.up):
            return reply
    return upload_of(experiment, leg, client, train=True)


def trees(up: Any) -> Tree:
    """All named tensors of an upload, such as weights."""
    found = [getattr(up, spec.name) for spec in up.specs() if spec.dims is None]
    return {name: tensor for tree in found for name, tensor in tree.items()}


@torch.no_grad()
def start_of(experiment: Experiment, leg: Leg, client: int) -> tuple[ClientTurn, ClientState | None, Any]:
    """With what the client begins the leg: its turn, what it kept, and what comes down."""
    task, federation = experiment.task, experiment.federation
    turn = ClientTurn(task, max(1, federation.round), leg.name, client=client, epochs=task.epochs)
    return turn, federation.engine.store.get(client), task.algorithm.broadcast(federation.state, turn)


@torch.no_grad()
def upload_of(experiment: Experiment, leg: Leg, client: int, train: bool) -> Reply:
    """What the client would upload, as its model stands or after a round's training; nothing is kept."""
    task, data = experiment.task, experiment.data.train(client)
    turn, state, down = start_of(experiment, leg, client)
    if isinstance(task.algorithm, PooledSums) and state is not None:  # it has sent them: let it do so again
        state = ClientState(state.kept, {name: t for name, t in state.mem.items() if name != "sent"})
    if train:
        return run_leg(turn, leg, state, data, down)
    return finish(begin(turn, leg, state, data, down), task.live(turn.group))


def read(replies: Collection[Reply], leg: Leg) -> Seen:
    """What one upload says, or several together: of rows their mean by class, of weights those of the first,
    since whoever mixes uploads gives all of them the same."""
    ups = [reply.up for reply in replies]
    weights = getattr(ups[0], "weights", {})
    name, by, of = rows_in(leg)
    if not name:
        return Seen(None, torch.zeros(0, dtype=torch.int64), "", weights)
    rows = torch.cat([getattr(up, name) for up in ups])
    cls = torch.cat([_classes(up, name, by) for up in ups])
    counts = torch.cat([_counts(up, leg, len(getattr(up, name))) for up in ups]).to(rows)
    if not by:
        rows, cls, counts = rows[counts > 0], cls[counts > 0], counts[counts > 0]
    added = any(one.added for one in leg.averages)
    if len(ups) > 1 or added:
        rows, cls = _by_class(rows if added else rows * counts[:, None], cls, counts)
    return Seen(rows, cls, of, weights)


def joined(seen: Sequence[Seen]) -> Seen:
    """What several legs show together: the rows of the first that has some, and all weights."""
    first = next((one for one in seen if one.rows is not None), seen[0])
    return first._replace(weights={name: t for one in seen for name, t in one.weights.items()})


def rows_in(leg: Leg) -> tuple[str, str, str]:
    """Field of the rows, field of their classes ("": a row for every class), and of what they are means."""
    kinds = {"D": EMBEDDINGS, "C": LOGITS, "M": MAPPED}
    by = class_field(leg.up)
    found = row_fields(leg.up) if by else [s for s in leg.up.specs() if s.dims == ("C", "D")]
    for spec in found:
        if spec.floating and spec.dims is not None and len(spec.dims) == 2 and spec.dims[1] in kinds:
            return spec.name, by, kinds[spec.dims[1]]
    return "", "", ""


def _classes(up: Any, name: str, by: str) -> Tensor:
    found: Tensor = getattr(up, by) if by else torch.arange(len(getattr(up, name)))
    return found


def _counts(up: Any, leg: Leg, rows: int) -> Tensor:
    """Samples behind each row, where the average asks for them, or for rows that may be empty; else 1."""
    name = next((one.weight for one in leg.averages if one.by), "n")
    found = getattr(up, name, None) if name else None
    return found if isinstance(found, Tensor) and len(found) == rows else torch.ones(rows)


def _by_class(sums: Tensor, cls: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    held, place = torch.unique(cls, return_inverse=True)
    total = sums.new_zeros(len(held), sums.shape[1]).index_add_(0, place, sums)
    n = sums.new_zeros(len(held)).index_add_(0, place, counts)
    return (total / n.clamp(min=1e-12)[:, None])[n > 0], held[n > 0]

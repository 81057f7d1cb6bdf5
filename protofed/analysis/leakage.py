"""Leakage of a run, measured: what attacks find in its uploads, with each protection on and off.

The parts are in revealed.py, reconstructions.py, membership.py and protections.py; here they are put together
for some clients of a run. All figures are of attacks that were tried: lower bounds of what can be found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..core.data import LocalData
from ..core.errors import ConfigError
from ..core.task import Turn
from ..experiment import Experiment
from ..trust.uploads import sending
from .membership import (
    OWN,
    Scores,
    by_loss,
    by_rows,
    maps,
    sent_net,
    some,
    together,
    untrained,
    with_own_layers,
)
from .protections import NONE, Protection, protections
from .reconstructions import NO_UPLOAD, Found, reconstruct
from .revealed import Revealed, revealed
from .run_metrics import evaluated_net
from .uploads_again import Seen, Sent, joined, uploads
from .watch import NOBODY, Watch

MOST_IN_SUM = 100  # clients whose uploads are made for a sum
PSNR, ERROR = "psnr", "error"
UNTRAINED, KEPT = "loss of an untrained model", "loss of the client's own model, which is not sent"
Views = Mapping[str, Mapping[int, Seen]]  # protection → client → what is seen


@dataclass(frozen=True)
class Inverted:
    """Reconstructions with one protection and network from one start, against the nearest training sample:
    mean over classes and clients, and the best."""

    protection: str
    network: str
    start: str
    mean: float
    best: float
    rows: int


@dataclass(frozen=True)
class Member:
    """Membership inference with one protection."""

    protection: str
    attack: str
    auc: float
    tpr: float
    members: int
    others: int


@dataclass(frozen=True)
class Leakage:
    """All of it. `measure`: of reconstructions, "psnr" (higher is nearer) or "error" (lower is nearer)."""

    method: str
    round: int
    attacked: tuple[int, ...]
    in_sum: int
    revealed: list[Revealed]
    protections: list[Protection]
    measure: str = ""
    inversion: list[Inverted] = field(default_factory=list)
    membership: list[Member] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    pictures: Mapping[int, Found] = field(default_factory=dict)  # by client


def measure_leakage(
    experiment: Experiment,
    clients: Sequence[int],
    taken: Counter[int] | None = None,
    latest: Sequence[int] | None = None,
    asked: Sequence[str] | None = None,
    samples: int = 500,
    steps: int = 200,
    watch: Watch = NOBODY,
) -> Leakage:
    """Attack these clients. `taken`: how often each took part; `latest`: who did in the last round, whose
    uploads sums are made of; `asked`: protections (None: the usual ones); `samples`: most members, and
    others, of a client; `steps`: of inversion, 0 for none; `watch` hears how far it is."""
    algorithm, round = experiment.task.algorithm, experiment.federation.round
    if algorithm.needs.merged:
        raise ConfigError(
            f"privacy: {algorithm.name} has all samples in one place: nothing is hidden from it"
        )
    if not sending(algorithm):
        remark = f"{algorithm.name} sends nothing up: no client reveals anything"
        rounds = {k: None if taken is None else taken[k] for k in clients}
        nothing = [Revealed(k, rounds[k], None, None, False, None, None, 0, False) for k in clients]
        return Leakage(algorithm.name, round, tuple(clients), 0, nothing, [], remarks=[remark])
    present = [client for client in (latest or experiment.active) if client not in clients]
    everybody = sorted({*clients, *present[: max(0, MOST_IN_SUM - len(clients))]})
    made = protections(experiment, asked, len(everybody))  # what is refused is so before clients train
    sent = uploads(experiment, everybody, watch)
    views = _views(experiment, made, sent)
    found = Leakage(
        algorithm.name,
        round,
        tuple(clients),
        len(everybody),
        revealed(experiment, sent, clients, taken),
        made,
        PSNR if len(experiment.data.train(clients[0]).x.shape) == 4 else ERROR,
        membership=_membership(experiment, clients, views, samples, watch),
        remarks=_remarks(experiment, clients, views),
    )
    if not steps or _not_inverted(experiment, clients[0], views[NONE][clients[0]]):
        return found
    trained = [client for client in clients if experiment.data.size(client)]
    every = []
    for number, k in enumerate(trained, 1):
        seen = {name: one[k] for name, one in views.items()}
        every.append(reconstruct(experiment, k, seen, steps, watch, f" ({number} of {len(trained)})"))
    return replace(found, inversion=_inversion(found.measure, every), pictures=dict(zip(trained, every)))


def _views(experiment: Experiment, made: Sequence[Protection], sent: Sequence[Sent]) -> Views:
    found = {}
    for one in made:
        if one.refused:
            continue
        round = max(1, experiment.federation.round)
        legs = [one.seen(leg, Turn(experiment.task, round, leg.leg.name)) for leg in sent]
        found[one.name] = {client: joined([leg[client] for leg in legs]) for client in legs[0]}
    return found


def _not_inverted(experiment: Experiment, client: int, seen: Seen) -> str:
    """Why nothing is inverted; "": rows or weights can be."""
    name, data = experiment.task.algorithm.name, experiment.data.train(client)
    if seen.rows is None and not seen.weights:
        return f"no inversion: {name} sends neither rows of classes nor weights"
    if data.y.ndim > 1:
        return "no inversion: labels of every pixel; what is sent of feature maps has no one input"
    if not data.x.is_floating_point():
        return "no inversion: inputs are whole numbers (words), through which no gradient goes"
    return ""


def _remarks(experiment: Experiment, clients: Sequence[int], views: Views) -> list[str]:
    """What a reader has to know of these figures."""
    trust, seen = experiment.config.trust, views[NONE][clients[0]]
    said = [_not_inverted(experiment, clients[0], seen)]
    if seen.rows is None and not seen.weights:
        said.append(f"no attack is written for what {experiment.task.algorithm.name} sends up")
    if trust.secure:
        said.append(
            "secure sums: the server sees sums alone; of a single client it knows that it took part. Rows "
            f"named {NONE!r} show what it would see without them"
        )
    local = experiment.task.private is not None
    if trust.dp and not trust.secure and not (local and seen.rows is None):
        said.append(
            "dp: the server adds the noise, and sees uploads as they are before; whoever sees results (other "
            "clients, readers of the run) has the noisy ones"
        )
    if local:
        said.append("dp example: all uploads, also those named 'none', come from training with noise")
    return [one for one in said if one]


# membership


def _membership(
    experiment: Experiment, clients: Sequence[int], views: Views, samples: int, watch: Watch
) -> list[Member]:
    """With each protection by each attack; first of all by networks that know no sample."""
    rows = {
        client: [some(data, samples, experiment.task.seed, client) for data in _both(experiment, client)]
        for client in clients
    }
    found = {(NO_UPLOAD, UNTRAINED): [by_loss(untrained(experiment, k), *rows[k]) for k in clients]}
    if all(_stays(experiment, k, views[NONE][k]) for k in clients):
        found[NO_UPLOAD, KEPT] = [by_loss(evaluated_net(experiment, k), *rows[k]) for k in clients]
    watch.begin("membership inference", len(views) * len(clients))
    for protection, seen in views.items():
        for client in clients:
            scores = _attacks(experiment, client, seen[client], views[NONE][client], rows[client])
            for attack, one in scores.items():
                found.setdefault((protection, attack), []).append(one)
            watch.step()
    made = {names: together(scores) for names, scores in found.items()}
    return [Member(*names, *vars(one).values()) for names, one in made.items() if one is not None]


def _stays(experiment: Experiment, client: int, seen: Seen) -> bool:
    """Whether rows are attacked through a network that is not sent itself."""
    return seen.rows is not None and maps(experiment, client, seen, seen)[0].name == OWN


def _both(experiment: Experiment, client: int) -> tuple[LocalData, LocalData]:
    return experiment.data.train(client), experiment.data.test(client)


def _attacks(
    experiment: Experiment, client: int, seen: Seen, plain: Seen, rows: Sequence[LocalData]
) -> dict[str, Scores]:
    found = {}
    if seen.weights:
        said = f"loss{with_own_layers(experiment, client, seen.weights)}"
        found[said] = by_loss(sent_net(experiment, client, seen), rows[0], rows[1])
    if seen.rows is not None and rows[0].y.ndim == 1:
        for one in maps(experiment, client, seen, plain):
            found[f"distance, {one.name}"] = by_rows(one.features, seen, rows[0], rows[1])
    return found


# inversion


def _inversion(measure: str, found: Sequence[Found]) -> list[Inverted]:
    """Over all clients."""
    values: dict[tuple[str, str, str], list[Tensor]] = {}
    for client in found:
        for guess, like in zip(client.guesses, client.likeness):
            values.setdefault(guess[:3], []).append(like)
    best = torch.max if measure == PSNR else torch.min
    every = {names: torch.cat(parts) for names, parts in values.items()}
    return [Inverted(*names, float(v.mean()), float(best(v)), len(v)) for names, v in every.items()]

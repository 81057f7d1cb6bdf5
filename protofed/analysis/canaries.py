"""Canaries against noise: an ε that a test proves, which must lie below the one that is claimed.

A canary is a unit that is as easy to find as any can be: one that adds as much as the bounds allow, in a
direction that the tester knows, beside units that he knows too. Noise is drawn again and again with the
canary and without it; the projection on its direction tells both apart as well as anything can. A threshold
is chosen on one half of the draws, and what it says of the other half proves a lower bound of ε, with 95 %
confidence (metrics/attack_scores.py). More than is claimed: bounds, noise or accounting are wrong.

    client level    an upload of endless length, shortened to `clip`
    sums            a sample whose features are as long as the map allows
    local steps     a gradient of endless length; and an embedding of length `radius` in a prototype

One release is tested, against the ε of one: what many cost follows from it by accounting, not by tests.
After Nasr et al., "Tight Auditing of Differentially Private Machine Learning", USENIX Security 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.client import begin
from ..core.errors import ConfigError
from ..core.guard import Guard
from ..core.private import Private
from ..core.task import ClientTurn, Turn
from ..experiment import Experiment
from ..metrics.attack_scores import epsilon_found
from ..ops.moments import square_of, triangle
from ..trust.levels import Level
from ..trust.private_average import PrivateAverage
from ..trust.private_sums import PrivateSums
from ..trust.private_training import PrivateTraining
from ..trust.summands import contribution
from ..trust.uploads import with_floats
from .protections import Protection
from .uploads_again import Sent, uploads

SURE = 0.95
ENDLESS = 1e6  # times as long as an honest upload
OTHERS = 2  # units beside the canary; the tester knows them, so more would change nothing
Draw = Callable[[bool, int], float]  # with the canary?, which draw → projection


@dataclass(frozen=True)
class Audited:
    """What canaries prove of one release, beside what is claimed for it."""

    protection: str
    canary: str
    proved: float
    claimed: float
    delta: float
    trials: int

    @property
    def holds(self) -> bool:
        """Whether no more is proved than claimed."""
        return self.proved <= self.claimed


def audit(experiment: Experiment, protection: Protection, trials: int) -> list[Audited]:
    """Test the noise of a protection with so many draws, half of them with a canary."""
    guard = next((one for one in protection.guards if hasattr(one, "budget")), None)
    if guard is None:
        raise ConfigError(f"audit: {protection.name} adds no noise, and claims no ε")
    level: Level = guard.budget.level
    made = []
    for canary, draw in _canaries(experiment, guard).items():
        proved = prove(draw, trials, level.delta)
        made.append(Audited(protection.name, canary, proved, level.epsilon(1), level.delta, trials))
    return made


def prove(draw: Draw, trials: int, delta: float) -> float:
    """The lower bound of ε from so many draws."""
    half = max(1, trials // 4)
    with torch.no_grad():
        with_it, without = (
            torch.tensor([draw(there, 2 * k + there) for k in range(2 * half)], dtype=torch.float64)
            for there in (True, False)
        )

    def bound(threshold: float, part: slice) -> float:
        hits, wrong = (int((one[part] > threshold).sum()) for one in (with_it, without))
        return epsilon_found(hits, half, wrong, half, delta, SURE)

    first, second = slice(0, half), slice(half, None)
    tried = torch.cat([with_it[first], without[first]]).sort().values[:: max(1, half // 100)]
    return bound(max(tried.tolist(), key=lambda threshold: bound(threshold, first)), second)


def _canaries(experiment: Experiment, guard: Guard) -> dict[str, Draw]:
    """How each kind of noise is drawn with a canary and without."""
    active = [client for client in experiment.active if experiment.data.size(client)]
    sent = next((one for one in uploads(experiment, active[: OTHERS + 1]) if one.leg.averages), None)
    if sent is None:
        raise ConfigError(f"audit: {experiment.task.algorithm.name} averages nothing to which noise is added")
    if isinstance(guard, PrivateAverage):
        return {"a client": _client_in_average(experiment, guard, sent)}
    if isinstance(guard, PrivateSums):
        return {"a client" if guard.clip else "a sample": _unit_in_sums(experiment, guard, sent)}
    assert isinstance(guard, PrivateTraining)
    found = {"a sample, in a step": _sample_in_step(experiment, active[0])}
    if any(one.embedded for one in sent.leg.averages):
        found["a sample, in prototypes"] = _sample_in_rows(experiment, guard)
    return found


def _turn(experiment: Experiment, leg: str, number: int) -> Turn:
    """A round that was never played: its noise is new."""
    return Turn(experiment.task, 1_000_000 + number, leg)


def _client_in_average(experiment: Experiment, guard: PrivateAverage, sent: Sent) -> Draw:
    honest = list(sent.replies.values())
    canary = with_floats(honest[0], lambda t: ENDLESS * (t + 1))
    classes, level = experiment.task.C, guard.level
    parts = contribution(canary.up, sent.leg, sent.state, classes, level.weight, level.clip)

    def draw(there: bool, number: int) -> float:
        replies = [canary, *honest[1:]] if there else honest[1:]
        turn = _turn(experiment, sent.leg.name, number)
        sums, _ = guard.noisy_sums(replies, sent.state, sent.leg, turn)
        return sum(float(total @ part) for total, part in zip(sums, parts))

    return draw


def _unit_in_sums(experiment: Experiment, guard: PrivateSums, sent: Sent) -> Draw:
    honest, classes = [reply.up for reply in sent.replies.values()], experiment.task.C
    rest = sum((guard.contribution(up, classes) for up in honest[1:]), torch.zeros(()).double())
    if guard.clip:
        endless = with_floats(next(iter(sent.replies.values())), lambda t: ENDLESS * (t + 1)).up
        own, absent = guard.contribution(endless, classes), torch.zeros_like(rest)
    else:
        own, absent = (guard.contribution(up, classes) for up in (_with_sample(honest[0], guard), honest[0]))

    def draw(there: bool, number: int) -> float:
        turn = _turn(experiment, sent.leg.name, number)
        return float(guard.noisy(rest + (own if there else absent), turn) @ (own - absent))

    return draw


def _with_sample(up: Any, guard: PrivateSums) -> Any:
    """The upload of a client that has one sample more, whose features are as long as may be."""
    sums, counts = getattr(up, guard.rows.field).clone(), getattr(up, guard.rows.weight).clone()
    features = torch.full_like(sums[0], guard.bound / math.sqrt(sums.shape[1]))
    sums[0] += features
    counts[0] += 1
    changed = {guard.rows.field: sums, guard.rows.weight: counts}
    if guard.square:
        square = square_of(getattr(up, guard.square.field)[0]) + torch.outer(features, features)
        changed[guard.square.field] = triangle(square)[None]
    return replace(up, **changed)


def _sample_in_step(experiment: Experiment, client: int) -> Draw:
    task, federation = experiment.task, experiment.federation
    leg = task.algorithm.legs[0]
    turn = ClientTurn(task, max(1, federation.round), leg.name, client=client, epochs=task.epochs)
    down = task.algorithm.broadcast(federation.state, turn)
    state = federation.engine.store.get(client)
    session = begin(turn, leg, state, experiment.data.train(client), down)
    assert task.private is not None
    trainer = Private([session], leg.phases[0], 0, task.private)
    grads = [torch.zeros(2, *p.shape, dtype=p.dtype) for p in trainer.params]
    canary = [grad.clone() for grad in grads]
    canary[0][0].view(-1)[0] = ENDLESS

    def draw(there: bool, number: int) -> float:
        return float(trainer.noisy(canary if there else grads)[0].view(-1)[0])

    return draw


def _sample_in_rows(experiment: Experiment, guard: PrivateTraining) -> Draw:
    task = experiment.task
    empty = torch.zeros(task.C, task.D + 1, dtype=torch.float64)
    canary = empty.clone()
    canary[0, 0], canary[0, -1] = guard.level.radius, guard.level.weight

    def draw(there: bool, number: int) -> float:
        told = guard.noisy(canary if there else empty, _turn(experiment, "train", number))
        return float((told * canary).sum())

    return draw

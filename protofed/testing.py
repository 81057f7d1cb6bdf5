"""Behaviour that every method must show, as functions: for our own suite and for methods of users.

    from protofed.testing import CHECKS, Toy

    @pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
    def test_my_method(check):
        check(Toy("my_method"))

The toy federation is small and awkward on purpose: unequal clients, one with a single sample, a class
that one client owns alone, a class that nobody has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .config import resolve
from .core.algorithm import Algorithm
from .core.answer import ClientState
from .core.data import LocalData
from .core.record import Record
from .core.rng import torch_generator
from .core.task import Group
from .data.federated import OwnData
from .experiment import Experiment, make_task
from .federating import make_federation
from .models.base import Model

CLASSES, INPUTS, EMBEDDING = 5, 6, 8
# Samples per class and client: class 4 belongs to nobody, class 3 to client 1 alone.
COUNTS = ((9, 7, 0, 0), (0, 0, 8, 6), (1, 0, 0, 0), (5, 5, 5, 0), (0, 13, 4, 0), (3, 0, 9, 0))


@dataclass(frozen=True)
class Toy:
    """A method and the settings under which it is checked."""

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-10  # between engines; Adam needs more, it magnifies rounding
    models: str = "mlp"  # "mlp", "norm" (BatchNorm and dropout), or "mixed" (two architectures)

    def build(self, **changes: Any) -> Experiment:
        """The experiment on toy data, with some settings changed."""
        defaults = {"method": self.method, "rounds": 3, "epochs": 2, "batch_size": 4, "lr": 0.05}
        defaults |= {"dtype": "float64", "engine": "sequential", "clients": len(COUNTS)}
        given = ({**self.settings, "options": dict(self.options)}, changes)
        asked = resolve(defaults, *given)
        plain = asked.make_method().needs.sgd or asked.train.optimizer == "adam"
        config = resolve(defaults, {"momentum": 0.0 if plain else 0.5}, *given)
        algorithm = config.make_method()
        groups, index = toy_groups(
            "mixed" if self.models == "mixed" and not algorithm.needs.model else self.models
        )
        unlabelled, labels = _samples("public", (4, 4, 4, 4))
        public = LocalData(unlabelled, torch.full_like(labels, -1)) if algorithm.needs.public else None
        names = tuple(str(c) for c in range(CLASSES))
        task = make_task(config, algorithm, groups, index, (INPUTS,), names, public)
        data = OwnData(
            [toy_data("train", k) for k in range(len(COUNTS))],
            [toy_data("test", k) for k in range(len(COUNTS))],
        )
        return Experiment(config, task, data, make_federation(config, task, data))


def toy_data(part: str, client: int) -> LocalData:
    """Gaussian blobs, one centre per class; float64."""
    x, y = _samples((part, client), COUNTS[client])
    return LocalData(x, y)


def _samples(key: Any, counts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    centres = 2 * torch.randn(CLASSES, INPUTS, generator=torch_generator("centres"), dtype=torch.float64)
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    noise = torch.randn(len(y), INPUTS, generator=torch_generator("noise", str(key)), dtype=torch.float64)
    return centres[y] + noise, y


def toy_groups(models: str) -> tuple[list[Group], Any]:
    """The groups of the toy federation, and the group of each client."""
    import numpy as np

    def mlp(width: int) -> nn.Module:
        base = nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, EMBEDDING), nn.ReLU())
        return Model(base, nn.Linear(EMBEDDING, CLASSES))

    def norm() -> nn.Module:
        base = nn.Sequential(
            nn.Linear(INPUTS, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, EMBEDDING)
        )
        return Model(base, nn.Linear(EMBEDDING, CLASSES))

    if models == "mixed":
        return [Group("wide", lambda: mlp(16)), Group("narrow", lambda: mlp(10))], np.arange(len(COUNTS)) % 2
    make = norm if models == "norm" else (lambda: mlp(16))
    return [Group(models, make)], np.zeros(len(COUNTS), dtype=np.int64)


# checks


def learns(toy: Toy) -> None:
    """After some rounds the method beats chance clearly."""
    experiment = toy.build(rounds=15)
    records = experiment.play(None)
    best = max(scores["mean"] for scores in records[-1]["acc"].values())
    assert best > 60, records[-1]["acc"]
    assert all(math.isfinite(r["train_loss"]) for r in records if r["steps"])


def messages_round_trip(toy: Toy) -> None:
    """State and messages survive the way through flat arrays unchanged."""
    experiment = toy.build(rounds=2)
    experiment.play(None)
    federation = experiment.federation
    records: list[Record] = [federation.state]
    records += [job.down for job in _eval_jobs(experiment)]
    for record in records:
        again = type(record).of(record.arrays())
        assert_equal(record.arrays(), again.arrays())


def resumes_exactly(toy: Toy) -> None:
    """Two rounds, then a new process that only has the arrays, equals an uninterrupted run bit for bit."""
    whole = toy.build(rounds=4)
    whole.play(None)
    first = toy.build(rounds=4)
    first.federation.play()
    first.federation.play()
    second = toy.build(rounds=4)
    second.federation.round = 2
    second.federation.state = type(first.federation.state).of(
        {n: t.clone() for n, t in first.federation.state.arrays().items()}
    )
    store = first.federation.engine.store
    for client in store:
        state = store.get(client)
        assert state is not None
        second.federation.engine.store.put(
            client,
            ClientState(
                {n: t.clone() for n, t in state.kept.items()}, {n: t.clone() for n, t in state.mem.items()}
            ),
        )
    second.play(None)
    assert_equal(snapshot(whole), snapshot(second))


def survives_partial_participation(toy: Toy) -> None:
    """Few clients a round, and stragglers that do part of the work."""
    experiment = toy.build(rounds=4, sample=2, stragglers=0.5)
    records = experiment.play(None)
    assert all(torch.isfinite(t).all() for t in snapshot(experiment).values() if t.is_floating_point())
    assert records[-1]["acc"]


def survives_a_failing_client(toy: Toy) -> None:
    """A client that sends NaN is left out by name; its own state does not change."""
    experiment = toy.build(rounds=2, on_failure="drop")
    data = experiment.data
    broken = LocalData(data.train(0).x * float("nan"), data.train(0).y)
    good = data.train
    data.train = lambda client: broken if client == 0 else good(client)  # type: ignore[method-assign]
    record = experiment.federation.play()
    assert "0" in record["failed"], record
    if len(experiment.task.algorithm.legs) == 1:  # an earlier leg without local data may have been accepted
        assert experiment.federation.engine.store.get(0) is None
    assert all(torch.isfinite(t).all() for t in snapshot(experiment).values() if t.is_floating_point())


def ignores_reply_order(toy: Toy) -> None:
    """Aggregation does not depend on the order in which replies arrive (up to rounding)."""
    states = []
    for reverse in (False, True):
        experiment = toy.build(rounds=1)
        engine = experiment.federation.engine
        run = engine.run
        if reverse:
            engine.run = lambda jobs, run=run: iter(list(run(jobs))[::-1])  # type: ignore[method-assign, misc]
        experiment.federation.play()
        states.append(experiment.federation.state.arrays())
    assert_close(states[0], states[1], 1e-9)


def counts_its_payload(toy: Toy) -> None:
    """What goes up and down is counted, the same in every round with all clients once it has started."""
    experiment = toy.build(rounds=3)
    records = experiment.play(None)
    for way in ("up", "down"):
        assert records[1][way]["bytes"] == 4 * records[1][way]["params"]
        assert records[2][way]["params"] >= 0


def engines_agree(toy: Toy) -> None:
    """Every engine gives the sequential engine's numbers: processes to the bit, cohorts to rounding."""
    reference = toy.build(rounds=3)
    reference.play(None)
    for engine, tolerance in (("cohort", toy.tolerance), ("workers", 0.0), ("workers+cohort", toy.tolerance)):
        other = toy.build(rounds=3, engine=engine, workers=2)
        try:
            other.play(None)
        finally:
            other.federation.engine.close()
        assert_close(snapshot(reference), snapshot(other), tolerance)


CHECKS: tuple[Callable[[Toy], None], ...] = (
    learns,
    messages_round_trip,
    resumes_exactly,
    survives_partial_participation,
    survives_a_failing_client,
    ignores_reply_order,
    counts_its_payload,
    engines_agree,
)


# help for checks


def snapshot(experiment: Experiment) -> dict[str, Tensor]:
    """Everything that a run would save, flat."""
    found = {f"state/{n}": t for n, t in experiment.federation.state.arrays().items()}
    store = experiment.federation.engine.store
    for client in store:
        state = store.get(client)
        assert state is not None
        found |= {f"client/{client}/kept/{n}": t for n, t in state.kept.items()}
        found |= {f"client/{client}/mem/{n}": t for n, t in state.mem.items()}
    return found


def assert_equal(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> None:
    """Two trees of tensors are the same to the bit."""
    assert one.keys() == two.keys(), set(one) ^ set(two)
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), f"{name} differs by {(tensor - two[name]).abs().max()}"


def assert_close(one: Mapping[str, Tensor], two: Mapping[str, Tensor], tolerance: float) -> None:
    """Two trees of tensors are the same within a tolerance."""
    assert one.keys() == two.keys(), set(one) ^ set(two)
    for name, tensor in one.items():
        assert tensor.shape == two[name].shape, f"{name}: {tensor.shape} and {two[name].shape}"
        if tensor.numel():
            gap = float((tensor.double() - two[name].double()).abs().max())
            assert gap <= tolerance, f"{name} differs by {gap}"


def _eval_jobs(experiment: Experiment) -> list[Any]:
    from .core.task import ClientTurn
    from .engines.base import Job

    algorithm: Algorithm = experiment.task.algorithm
    round, tested = experiment.federation.round, experiment.tested()
    turns = [ClientTurn(experiment.task, round, "eval", client=client) for client in tested]
    return [Job(turn, algorithm.broadcast(experiment.federation.state, turn)) for turn in turns]

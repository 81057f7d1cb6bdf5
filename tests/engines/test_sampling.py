"""Who takes part, who is late: counts by hand, the same draw for every method, frequencies."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError
from protofed.engines.sampling import Drawn, Rounds, draw, round_half_up
from protofed.testing import Toy

few = settings(max_examples=25, deadline=None)


def drawn(
    clients: int = 10, epochs: int = 20, seed: int = 0, round: int = 1, sampling: str = "uniform", **plan: Any
) -> list[Drawn]:
    """Client c has c + 1 samples."""
    return draw(Rounds(**plan), sampling, clients, epochs, seed, round, lambda c: c + 1)


@pytest.mark.parametrize(
    ("plan", "clients", "expected"),
    [
        ({}, 7, 7),
        ({"participation": 0.5}, 7, 3),  # ⌊3.5⌋
        ({"participation": 0.29}, 100, 29),  # 28.999999999999996 in floating point
        ({"participation": 0.01}, 10, 1),  # never nobody
        ({"sample": 4, "participation": 0.9}, 10, 4),
        ({"newcomers": 3}, 10, 7),
        ({"newcomers": 4, "participation": 0.5}, 10, 3),
    ],
)
def test_number_of_participants(plan: dict[str, Any], clients: int, expected: int) -> None:
    """max(1, ⌊ρM⌋) of the clients that train, or the number asked for."""
    assert len(drawn(clients, **plan)) == expected


@pytest.mark.parametrize(
    ("clients", "delta", "late"),
    [
        (10, 0.0, 0),
        (10, 0.5, 5),
        (10, 0.8, 8),  # 10 − round(2)
        (10, 1.0, 10),
        (10, 0.33, 3),  # 10 − round(6.7)
        (10, 0.55, 5),  # 10 − round(4.5), halves up; 4.499999999999999 in floating point
        (3, 0.1, 0),  # 3 − round(2.7)
        (1, 0.5, 0),  # 1 − round(0.5)
        (1, 0.6, 1),
    ],
)
def test_number_of_stragglers(clients: int, delta: float, late: int) -> None:
    """K' − round(K'(1−δ)) of the drawn clients."""
    assert sum(one.late for one in drawn(clients, stragglers=delta)) == late


def test_round_half_up() -> None:
    assert [round_half_up(v) for v in (0.0, 0.49, 0.5, 1.5, 2.5, 10 * (1 - 0.55))] == [0, 0, 1, 2, 3, 5]


def test_epochs_of_stragglers_are_uniform() -> None:
    """F = 5: F' is 1 to 4, each with probability ¼; `allow_zero` adds 0 and `allow_full` 5 (U([0, F]): ⅙).

    2000 draws: a frequency of ¼ has a standard error of 0.0097, ⅕ of 0.0089; four of them are allowed.
    """
    zero, full = {"allow_zero": True}, {"allow_full": True}
    for plan, low, high in (({}, 1, 4), (zero, 0, 4), (full, 1, 5), (zero | full, 0, 5)):
        found = [d.epochs for r in range(200) for d in drawn(10, 5, round=r, stragglers=1.0, **plan)]
        counts = torch.bincount(torch.tensor(found), minlength=6)
        assert counts.sum() == counts[low : high + 1].sum() == 2000
        assert (counts[low : high + 1] / 2000 - 1 / (high - low + 1)).abs().max() < 0.04


def test_one_epoch_cannot_be_shortened() -> None:
    """F = 1: nothing between 1 and 0, so the straggler does its epoch; 0 only with `allow_zero`."""
    assert {d.epochs for d in drawn(epochs=1, stragglers=1.0)} == {1}
    assert {d.epochs for d in drawn(epochs=1, stragglers=1.0, allow_zero=True)} == {0}
    assert all(d.late for d in drawn(epochs=1, stragglers=1.0))


@few
@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(0, 1000),
    st.sampled_from(["uniform", "size"]),
    st.floats(0, 1),
    st.integers(2, 6),
)
def test_draws_are_sorted_distinct_and_reproducible(
    clients: int, wanted: int, seed: int, sampling: str, delta: float, epochs: int
) -> None:
    plan = {"sample": min(clients, wanted), "stragglers": delta}
    one = drawn(clients, epochs, seed, 3, sampling, **plan)
    ids = [d.client for d in one]
    assert ids == sorted(set(ids))
    assert len(ids) == min(clients, wanted)
    assert set(ids) <= set(range(clients))
    assert one == drawn(clients, epochs, seed, 3, sampling, **plan)
    assert all(d.epochs == epochs for d in one if not d.late)
    assert all(1 <= d.epochs < epochs for d in one if d.late)


@few
@given(st.integers(0, 1000), st.sampled_from(["uniform", "size"]), st.floats(0, 1), st.floats(0, 1))
def test_delta_changes_neither_participants_nor_their_work(
    seed: int, sampling: str, a: float, b: float
) -> None:
    """Runs that differ in δ alone have the same clients; who is late at a small δ is late at a larger
    one, with the same epochs. So the rows of ProtoMargin's Table 3 compare like with like."""
    small, large = (drawn(20, 20, seed, 2, sampling, sample=10, stragglers=d) for d in (min(a, b), max(a, b)))
    assert [d.client for d in small] == [d.client for d in large]
    assert all(two == one for one, two in zip(small, large) if one.late)


def test_rounds_and_seeds_differ() -> None:
    draws = {
        tuple(d.client for d in drawn(100, seed=s, round=r, sample=5)) for s in range(3) for r in range(3)
    }
    assert len(draws) == 9


@pytest.mark.parametrize(("sampling", "expected"), [("uniform", [0.25] * 4), ("size", [0.1, 0.2, 0.3, 0.4])])
def test_first_draw_frequencies(sampling: str, expected: list[float]) -> None:
    """Sizes 1, 2, 3, 4: with one client a round each comes with probability n_k/n.

    4000 rounds: the largest standard error is 0.0077; four of them are allowed.
    """
    first = [drawn(4, seed=7, round=r, sampling=sampling, sample=1)[0].client for r in range(4000)]
    found = torch.bincount(torch.tensor(first), minlength=4) / 4000
    assert (found - torch.tensor(expected)).abs().max() < 0.031


def test_inclusion_frequencies_by_size() -> None:
    """Sizes 1, 1, 2, two clients a round, the second draw from what is left.
    Client 2: ½ + ¼·⅔ + ¼·⅔ = 5/6; clients 0 and 1 share the rest: 7/12 each.
    3000 rounds: standard error at most 0.009.
    """
    plan, sizes = Rounds(sample=2), (1, 1, 2)
    ids = [d.client for r in range(3000) for d in draw(plan, "size", 3, 1, 0, r, sizes.__getitem__)]
    found = torch.bincount(torch.tensor(ids), minlength=3) / 3000
    assert (found - torch.tensor([7 / 12, 7 / 12, 5 / 6])).abs().max() < 0.036


def test_clients_without_samples_are_never_drawn_by_size() -> None:
    sizes = (0, 5, 0, 5)
    ids = {d.client for r in range(50) for d in draw(Rounds(sample=2), "size", 4, 1, 0, r, sizes.__getitem__)}
    assert ids == {1, 3}
    with pytest.raises(ConfigError, match="3 clients a round drawn by size, but only 2 have"):
        draw(Rounds(sample=3), "size", 4, 1, 0, 1, sizes.__getitem__)


def test_more_clients_than_there_are() -> None:
    with pytest.raises(ConfigError, match="11 clients a round, but only 10"):
        drawn(10, sample=11)


# methods


@pytest.mark.parametrize("sampling", ["uniform", "size"])
def test_every_method_sees_the_same_clients(sampling: str) -> None:
    """FedAvg and ProtoMargin by name, and whoever is registered: equal draws under one setting."""
    seen = {name: _jobs(name, sampling) for name in methods}
    assert {"fedavg", "fedproto_margin"} <= seen.keys()
    expected = seen["fedproto_margin"]
    for name, jobs in seen.items():
        late_too = expected if methods[name]().partial == "use" else [j for j in expected if not j[3]]
        if not methods[name]().needs.merged:
            assert jobs == late_too, name


def _jobs(name: str, sampling: str) -> list[tuple[int, int, int, bool]]:
    """(round, client, epochs, late) of everything that the engine was asked for in the first leg."""
    experiment = Toy(name, settings={"momentum": 0.0}).build(
        sample=4, stragglers=0.5, sampling=sampling, epochs=4
    )
    engine, seen = experiment.federation.engine, []

    def nobody(jobs: Any) -> Any:
        seen.extend((j.turn.round, j.turn.client, j.turn.epochs, j.turn.late) for j in jobs)
        return iter(())

    engine.run = nobody  # type: ignore[method-assign]
    for _ in range(3):
        experiment.federation.play()
    return seen


@pytest.mark.parametrize(
    ("name", "options", "partial"),
    [
        ("fedavg", {}, "drop"),
        ("fedavg", {"tolerate": True}, "use"),
        ("fedprox", {}, "use"),
        ("fedproto_margin", {}, "use"),
        ("fedproto_margin", {"tolerate": False}, "drop"),
    ],
)
def test_who_tolerates_stragglers(name: str, options: dict[str, Any], partial: str) -> None:
    if name not in methods:
        pytest.skip(f"{name} is not registered")
    toy = Toy(name, options)
    assert toy.build().task.algorithm.partial == partial
    record = toy.build(stragglers=0.5).federation.play()
    assert record["clients"] == (6 if partial == "use" else 3)


def test_nobody_left_keeps_the_model() -> None:
    """δ = 1 and no toleration: W^{t+1} = W^t."""
    experiment = Toy("fedavg").build(stragglers=1.0)
    start = experiment.federation.state
    assert experiment.federation.play()["clients"] == 0
    assert experiment.federation.state is start


def test_few_of_very_many_are_distinct_reproducible_and_spread_evenly() -> None:
    """Of 200,000 clients, half are below 100,000: of 20,000 drawn, 10,000 ± 5 standard deviations (71)."""
    first = [d.client for d in drawn(200_000, epochs=1, sample=20_000)]
    assert first == sorted(set(first))
    assert len(first) == 20_000
    assert 0 <= first[0] < first[-1] < 200_000
    assert abs(sum(c < 100_000 for c in first) - 10_000) < 355
    assert first == [d.client for d in drawn(200_000, epochs=1, sample=20_000)]
    assert first != [d.client for d in drawn(200_000, epochs=1, sample=20_000, round=2)]

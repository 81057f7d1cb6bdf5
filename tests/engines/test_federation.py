"""The round loop: legs, failures, payload, newcomers, tests; with methods that note what they see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from protofed.core.algorithm import Algorithm, Leg, Phase
from protofed.core.answer import Failure, Reply
from protofed.core.errors import ConfigError, MessageError
from protofed.core.record import Nothing, Record
from protofed.core.task import Task
from protofed.data.federated import OwnData
from protofed.engines.base import Job
from protofed.engines.federation import Federation
from protofed.engines.sampling import Rounds
from protofed.engines.sequential import Sequential
from protofed.engines.store import Store
from protofed.testing import CLASSES, COUNTS, EMBEDDING, Toy, assert_equal, snapshot, toy_data, toy_groups

CLIENTS = len(COUNTS)


class Seen(Record):
    """Server state: how many replies came in each leg, in all."""

    first: Int[Tensor, ""]
    second: Int[Tensor, ""]


class Up(Record):
    value: Float[Tensor, "J"]
    ids: Int[Tensor, "J"]


@dataclass(frozen=True)
class TwoLegs(Algorithm):
    """Counts replies per leg; client `bad` misbehaves in leg `where`."""

    bad: int | None = None
    where: str = "one"
    how: str = "nan"
    late: str = "use"
    name = "two_legs"

    @property
    def legs(self) -> tuple[Leg, ...]:
        return Leg("one", Seen, Up, ()), Leg("two", Seen, Up, (Phase(epochs=1),))

    @property
    def partial(self) -> str:
        return self.late

    def init(self, task: Task, turn: Any) -> Seen:
        return Seen(torch.tensor(0), torch.tensor(0))

    def broadcast(self, state: Seen, turn: Any) -> Seen:
        return state

    def aggregate(self, state: Seen, replies: Any, turn: Any) -> Seen:
        count = len(replies.all())
        if turn.leg == "one":
            return Seen(state.first + count, state.second)
        return Seen(state.first, state.second + count)

    def loss(self, net: Any, batch: Any, view: Any) -> Tensor:
        return net(batch.x)[1].square().mean()

    def upload(self, net: Any, data: Any, down: Any, mem: Any, ran: Any, turn: Any) -> Any:
        up: Record = Up(torch.ones(turn.client, dtype=torch.float64), torch.arange(turn.client))
        if (turn.client, turn.leg) == (self.bad, self.where):
            wrong = {
                "nan": Up(up.arrays()["value"] * torch.nan, up.arrays()["ids"]),
                "shape": Up(torch.ones(2), torch.arange(3)),
                "type": Nothing(),
            }
            up = wrong[self.how]
        seen = {f"{turn.leg} {turn.round}": torch.tensor(int(down.first))}
        return up, {**mem, **seen}


def federation(
    algorithm: Algorithm, on_failure: str = "drop", plan: Rounds | None = None, **task: Any
) -> Federation:
    groups, index = toy_groups("mlp")
    made = Task(algorithm, groups, index, CLASSES, (EMBEDDING,), dtype=torch.float64, **task)
    everybody = range(CLIENTS)
    data = OwnData([toy_data("train", k) for k in everybody], [toy_data("test", k) for k in everybody])
    return Federation(made, data, Sequential(made, data, Store()), plan or Rounds(), on_failure)


def counts(played: Federation) -> tuple[int, int]:
    state = played.state.arrays()
    return int(state["first"]), int(state["second"])


def mem(played: Federation, client: int) -> dict[str, int]:
    state = played.engine.store.get(client)
    return {name: int(tensor) for name, tensor in state.mem.items()} if state else {}


def test_legs_follow_each_other_and_the_second_sees_the_first() -> None:
    played = federation(TwoLegs())
    record = played.play()
    assert counts(played) == (CLIENTS, CLIENTS)
    assert record["clients"] == CLIENTS
    assert mem(played, 1) == {"one 1": 0, "two 1": CLIENTS}


def test_payload_is_summed_over_clients_and_legs() -> None:
    """Client k sends k floats and k int64 per leg: 2 · Σk = 30 floats; down come two int64 each."""
    record = federation(TwoLegs()).play()
    floats = 2 * sum(range(CLIENTS))
    assert record["up"] == {"params": floats, "bytes": 4 * floats, "meta_bytes": 8 * floats}
    assert record["down"] == {"params": 0, "bytes": 0, "meta_bytes": 2 * CLIENTS * 2 * 8}


def test_work_is_summed() -> None:
    """One epoch in the second leg, none in the first."""
    record = federation(TwoLegs()).play()
    assert record["samples"] == sum(map(sum, COUNTS))
    assert record["train_loss"] > 0


@pytest.mark.parametrize("how", ["nan", "shape", "type"])
def test_who_misses_a_leg_misses_the_rest_of_the_round(how: str) -> None:
    played = federation(TwoLegs(bad=3, how=how))
    record = played.play()
    assert counts(played) == (CLIENTS - 1, CLIENTS - 1)
    assert list(record["failed"]) == ["3"]
    assert record["clients"] == CLIENTS - 1
    assert played.engine.store.get(3) is None


def test_a_client_that_fails_later_keeps_what_was_accepted() -> None:
    played = federation(TwoLegs(bad=3, where="two"))
    record = played.play()
    assert counts(played) == (CLIENTS, CLIENTS - 1)
    assert mem(played, 3) == {"one 1": 0}
    up = record["up"]["params"]
    assert up == 2 * sum(range(CLIENTS)) - 3


def test_a_failed_client_is_back_in_the_next_round() -> None:
    played = federation(TwoLegs(bad=3))
    played.play()
    object.__setattr__(played.task.algorithm, "bad", None)
    record = played.play()
    assert record["failed"] == {}
    assert mem(played, 3) == {"one 2": CLIENTS - 1, "two 2": 2 * CLIENTS - 1}


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("nan", r"two_legs: round 1: upload of client 3: value: 3 of 3 values are not finite"),
        ("shape", r"two_legs: round 1: upload of client 3: ids has shape \[3\]; declared \[J=2\]"),
        ("type", r"two_legs: round 1: upload of client 3: expected Up, got Nothing"),
    ],
)
def test_stop_names_client_round_and_field(how: str, line: str) -> None:
    with pytest.raises(MessageError, match=f"^{line}"):
        federation(TwoLegs(bad=3, how=how), on_failure="stop").play()


class Silent(Sequential):
    """Nobody answers."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Reply | Failure]:
        for job in jobs:
            assert job.turn.client is not None
            yield Failure(job.turn.client, "no answer")


def test_when_nobody_answers_the_state_stays() -> None:
    played = federation(TwoLegs())
    played.engine = Silent(played.task, played.data, Store())
    before = played.state
    record = played.play()
    assert played.state is before
    assert record["clients"] == 0
    assert record["failed"] == {str(c): "no answer" for c in range(CLIENTS)}
    assert record["up"]["params"] == 0
    assert played.round == 1


def test_a_round_without_participants_leaves_everything() -> None:
    """All are late, and the method drops late clients."""
    played = federation(TwoLegs(late="drop"), plan=Rounds(stragglers=1.0), epochs=3)
    before = played.state
    record = played.play()
    assert (played.state, record["clients"], len(played.engine.store)) == (before, 0, 0)


@pytest.mark.parametrize(("late", "left"), [("use", CLIENTS), ("drop", CLIENTS // 2)])
def test_stragglers_are_used_or_dropped_as_the_method_says(late: str, left: int) -> None:
    played = federation(TwoLegs(late=late), plan=Rounds(stragglers=0.5), epochs=3)
    assert played.play()["clients"] == left


def test_a_straggler_does_fewer_epochs() -> None:
    whole = Toy("local").build(rounds=1, epochs=4).federation.play()["samples"]
    part = Toy("local").build(rounds=1, epochs=4, stragglers=1.0).federation.play()["samples"]
    assert whole == 4 * sum(map(sum, COUNTS))
    assert sum(map(sum, COUNTS)) <= part < whole


def test_newcomers_stay_out() -> None:
    experiment = Toy("fedproto").build(rounds=2, newcomers=2)
    records = experiment.play(None)
    assert records[-1]["clients"] == records[-1]["tested_clients"] == CLIENTS - 2
    assert list(experiment.federation.engine.store) == list(range(CLIENTS - 2))
    assert list(experiment.active) == list(range(CLIENTS - 2))


def test_the_same_clients_take_part_whatever_the_method() -> None:
    drawn = []
    for method in ("local", "fedproto", "fedavg"):
        experiment = Toy(method, {"eval_model": "after_local"} if method == "fedavg" else {}).build(sample=2)
        experiment.federation.play()
        drawn.append(list(experiment.federation.engine.store))
    assert len(drawn[0]) == 2
    assert drawn[0] == drawn[1] == drawn[2]


def test_a_method_that_reads_no_replies_still_trains_its_clients() -> None:
    experiment = Toy("local").build(rounds=1)
    experiment.federation.play()
    assert len(experiment.federation.engine.store) == CLIENTS


def test_a_wrong_download_is_a_mistake_of_the_method() -> None:
    @dataclass(frozen=True)
    class Wrong(TwoLegs):
        def broadcast(self, state: Seen, turn: Any) -> Any:
            return Nothing()

    with pytest.raises(TypeError, match="Wrong: leg 'one' declares Seen, got Nothing"):
        federation(Wrong()).play()


def test_eval_every_and_eval_clients() -> None:
    experiment = Toy("local").build(rounds=5, eval_every=2, eval_clients=3)
    records = experiment.play(None)
    assert [record["round"] for record in records if "acc" in record] == [2, 4, 5]
    assert {record["tested_clients"] for record in records if "acc" in record} == {3}
    tested = list(experiment.tested())
    assert tested == sorted(set(tested))
    assert tested == list(Toy("local").build(eval_clients=3).tested())


def test_eval_clients_beyond_the_clients_are_all_of_them() -> None:
    assert list(Toy("local").build(eval_clients=100).tested()) == list(range(CLIENTS))


def test_testing_changes_nothing() -> None:
    tested, untested = Toy("fedproto", models="norm").build(), Toy("fedproto", models="norm").build()
    for _ in range(3):
        tested.federation.play()
        tested.federation.evaluate(range(CLIENTS))
        untested.federation.play()
    assert_equal(snapshot(tested), snapshot(untested))


def test_clients_that_never_took_part_are_tested_with_their_start() -> None:
    experiment = Toy("fedproto").build(rounds=1, sample=1)
    experiment.federation.play()
    scores = experiment.federation.evaluate(range(CLIENTS))
    assert [score.client for score in scores] == list(range(CLIENTS))
    assert all(score.n for score in scores)


def test_too_large_a_sample_shows_before_the_first_round() -> None:
    with pytest.raises(ConfigError, match="sample: 7 clients a round, but only 6 take part in training"):
        Toy("local").build(sample=7)


def test_the_schedule_reaches_the_clients() -> None:
    """In the last round of four the poly schedule has lowered the rate to ¼^0.9 = 0.29."""
    plain = Toy("local").build(rounds=4)
    poly = Toy("local", settings={"schedule": "poly"}).build(rounds=4)
    assert plain.task.lr_factor(4) == 1
    assert poly.task.lr_factor(4) == pytest.approx(0.25**0.9)
    assert replace(poly.task, rounds=8).lr_factor(4) > poly.task.lr_factor(4)

"""The order of a client's samples, and which of them a pass for prototypes sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from client_toy import Probe, leg, make_task, samples

from protofed import algorithms as _registers_all_methods  # noqa: F401
from protofed.config import resolve
from protofed.core.data import batch_rows
from protofed.core.record import Nothing
from protofed.core.task import ClientTurn


def rows_of(shuffle: str, round: int, client: int = 0, epochs: int = 2) -> list[list[int]]:
    turn = ClientTurn(make_task(Probe(), shuffle=shuffle), round, client=client)
    batches = batch_rows(10, 5, epochs, turn.generator("batches 0"), fixed=turn.fixed_order(10))
    order = [row for rows, _ in batches for row in rows.tolist()]
    return [order[:10], order[10:]]


def test_none_keeps_the_order_of_the_data() -> None:
    assert rows_of("none", 1) == [list(range(10))] * 2


def test_once_draws_one_order_for_all_epochs_and_rounds() -> None:
    first, second = rows_of("once", 1)
    assert first == second == rows_of("once", 7)[0]
    assert sorted(first) == list(range(10)) != first
    assert first != rows_of("once", 1, client=1)[0]


def test_epoch_draws_as_before() -> None:
    """The default takes the same numbers from the same generator as ever."""
    turn = ClientTurn(make_task(Probe()), 1, client=0)
    expected = torch.randperm(10, generator=turn.generator("batches 0")).tolist()
    assert rows_of("epoch", 1)[0] == expected


@dataclass(frozen=True)
class Passes(Probe):
    """Keeps the labels that a pass sees, and the sum of the row numbers that were trained on."""

    def upload(self, net: Any, data: Any, down: Any, mem: Any, ran: Any, turn: Any) -> Any:
        return Nothing(), {"x": torch.cat([x for x, _ in data.chunks()]), "rows": ran.sums["rows"]}


def test_a_pass_leaves_out_the_last_batch_as_training_does() -> None:
    """10 samples in batches of 4: the first 8, with shuffle=none rows 0 to 7, whose numbers sum to 28."""
    data = samples(10)
    seen = leg(make_task(Passes(), drop_last=True, shuffle="none"), data).state.mem
    assert torch.equal(seen["x"], data.x[:8])
    assert seen["rows"] == sum(range(8))


@pytest.mark.parametrize("shuffle", ["epoch", "once"])
def test_shuffled_passes_see_whole_batches_too(shuffle: str) -> None:
    seen = leg(make_task(Passes(), drop_last=True, shuffle=shuffle), samples(10)).state.mem
    assert len(seen["x"]) == 8
    assert len(leg(make_task(Passes(), shuffle=shuffle), samples(10)).state.mem["x"]) == 10


def test_the_only_batch_is_never_left_out() -> None:
    seen = leg(make_task(Passes(), drop_last=True), samples(3)).state.mem
    assert len(seen["x"]) == 3


RELEASED = [
    ("fedtgp", "official"),
    ("fml", "official"),
    ("fedkd", "official"),
    ("fedproto", "tgp"),
    ("feddistill", "tgp"),
    ("fedgen", "tgp"),
]


@pytest.mark.parametrize(("method", "preset"), RELEASED)
def test_presets_of_released_code_read_samples_as_it_does(method: str, preset: str) -> None:
    train = resolve({"method": method, "preset": preset}).train
    assert (train.drop_last, train.shuffle, train.init) == (True, "once", "common")
    plain = resolve({"method": method}).train
    assert (plain.drop_last, plain.shuffle, plain.init) == (False, "epoch", "own")

"""Test results of clients and their summary, with numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from protofed.api import Client, federate
from protofed.metrics.scores import Score, summarise
from protofed.models.base import Model


def score(client: int, n: int, correct: int, loss: float = 0.0) -> Score:
    return Score(client, n, {"clf": correct}, loss, {})


def test_summary_by_hand() -> None:
    """50 %, 100 % and 75 %: mean 75, std √((25² + 25² + 0)/3) = 20.412415, worst 50.
    The worst tenth of three clients is one client. Pooled: (5 + 2 + 3)/(10 + 2 + 4) = 62.5.
    Loss: (10·1 + 2·3 + 4·0)/16 = 1. The client without test samples is left out."""
    scores = [score(0, 10, 5, 1.0), score(1, 2, 2, 3.0), score(2, 0, 0, math.nan), score(3, 4, 3, 0.0)]
    got = summarise(scores)
    assert got["tested_clients"] == 3
    assert got["test_loss"] == pytest.approx(1)
    expected = {"mean": 75, "std": 20.412415, "worst": 50, "worst10": 50, "pooled": 62.5}
    assert got["acc"]["clf"] == pytest.approx(expected)
    assert "miou" not in got


def test_worst_tenth_is_rounded_up() -> None:
    """Eleven clients with 0, 10, …, 100 %: the worst two, mean 5; with ten clients the worst one."""
    eleven = [score(k, 10, k) for k in range(11)]
    assert summarise(eleven)["acc"]["clf"]["worst10"] == pytest.approx(5)
    assert summarise(eleven[1:])["acc"]["clf"]["worst10"] == pytest.approx(10)


def test_nobody_tested() -> None:
    assert summarise([score(0, 0, 0)]) == {"acc": {}, "tested_clients": 0}


def test_modes_are_kept_apart() -> None:
    got = summarise(
        [Score(0, 4, {"clf": 1, "gp_all": 3}, 0.0, {}), Score(1, 4, {"clf": 1, "gp_all": 4}, 0.0, {})]
    )
    assert got["acc"]["clf"]["mean"] == pytest.approx(25)
    assert got["acc"]["gp_all"]["mean"] == pytest.approx(87.5)


def says(labels: list[list[int]], classes: int = 3) -> Tensor:
    """Logits [1, C, H, W] that are 1 for these classes and else 0; the model hands them on."""
    return nn.functional.one_hot(torch.tensor([labels]), classes).movedim(-1, 1).to(torch.float64)


def handing_on() -> Model:
    """Embedding and logits are the input."""
    base = nn.Conv2d(3, 3, 1, bias=False)
    nn.init.eye_(base.weight.data[:, :, 0, 0])
    return Model(base, nn.Identity())


def test_dense_scores_by_hand() -> None:
    """Client 0: truth (0,0 / 1,void), guess (0,1 / 1,2): 2 of 3 right. Client 1: truth all 1, guess
    (1,1 / 1,0): 3 of 4. Together class 0 has TP 1, FN 1, FP 1: 1/3; class 1 TP 4, FN 1, FP 1: 4/6;
    class 2 was guessed at a void pixel only and is skipped: mIoU 50 %, of objects alone 4/6. Pooled
    accuracy 5/7.
    Loss: log(e+2) − 1 = 0.551445 where right, 1.551445 where wrong: (5·0.551445 + 2·1.551445)/7.
    """
    pairs = [
        (says([[0, 1], [1, 2]]), torch.tensor([[[0, 0], [1, -1]]])),
        (says([[1, 1], [1, 0]]), torch.tensor([[[1, 1], [1, 1]]])),
    ]
    clients = [Client(handing_on(), pair, pair) for pair in pairs]
    got = federate(clients, "local", classes=3, rounds=1, lr=1e-300, dtype="float64").metrics[-1]
    assert got["miou"]["clf"] == pytest.approx(50)
    assert got["miou_objects"]["clf"] == pytest.approx(400 / 6)
    assert got["acc"]["clf"]["pooled"] == pytest.approx(500 / 7)
    assert got["acc"]["clf"]["mean"] == pytest.approx((200 / 3 + 75) / 2)
    assert got["acc"]["clf"]["worst"] == pytest.approx(200 / 3)
    assert got["test_loss"] == pytest.approx((5 * 0.551445 + 2 * 1.551445) / 7, abs=1e-6)


def test_void_masks_are_no_test_samples() -> None:
    """A client whose test pixels are all void is left out; the other has 4 of 4."""
    sure = (says([[1, 1], [1, 1]]), torch.tensor([[[1, 1], [1, 1]]]))
    void = (says([[1, 1], [1, 1]]), torch.full((1, 2, 2), -1))
    clients = [Client(handing_on(), sure, test) for test in (sure, void)]
    got = federate(clients, "local", classes=3, rounds=1, lr=1e-300, dtype="float64").metrics[-1]
    assert got["tested_clients"] == 1
    assert got["acc"]["clf"]["mean"] == 100
    assert got["miou"]["clf"] == 100

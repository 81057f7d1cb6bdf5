"""Models for series, tables and tokens: sizes, what they compute, and the same numbers on every engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import protofed
from protofed.core.errors import ProtofedError
from protofed.models import check_model, cost_of, count_parameters, read_family
from protofed.models.bag import TokenBag
from protofed.models.lstm import LstmStates


def test_the_lstm_is_torchs() -> None:
    """With the same weights, and no second bias, torch's own LSTM has the same states."""
    mine, ours = LstmStates(3, 4).double(), nn.LSTM(3, 4, batch_first=True).double()
    with torch.no_grad():
        ours.weight_ih_l0.copy_(mine.inputs.weight)
        ours.bias_ih_l0.copy_(mine.inputs.bias)
        ours.weight_hh_l0.copy_(mine.states.weight)
        ours.bias_hh_l0.zero_()
    x = torch.randn(2, 3, 7, dtype=torch.float64)
    torch.testing.assert_close(mine(x), ours(x.transpose(1, 2))[0].mean(1))


def test_a_bag_is_the_mean_of_its_tokens() -> None:
    """Tokens 1 and 2 of [1, 2, 0]: 0 is padding. A text of padding alone is 0."""
    bag = TokenBag(3, 2)
    with torch.no_grad():
        bag.weight.copy_(torch.tensor([[9.0, 9.0], [1.0, 2.0], [3.0, 6.0]]))
    assert bag(torch.tensor([[1, 2, 0], [0, 0, 0]])).tolist() == [[2.0, 4.0], [0.0, 0.0]]


def test_sizes() -> None:
    """cnn1d: (3·5+1)·4 + (4·5+1)·8 + (8+1)·6 + (6+1)·2; lstm: (3+1)·16 + 4·16 + (4+1)·6 + 14."""
    cnn = read_family("cnn1d:width=4,dim=6").build((3, 20), 2)
    assert count_parameters(cnn) == 64 + 168 + 54 + 14
    lstm = read_family("lstm:hidden=4,dim=6").build((3, 20), 2)
    assert count_parameters(lstm) == 64 + 64 + 30 + 14
    bag = read_family("bag:vocabulary=7,dim=6").build((20,), 2)
    assert check_model(bag, (20,), 2, "bag") == cost_of(bag, (20,), 2).embedding == 6


@pytest.mark.parametrize(("spec", "shape"), [("cnn1d", (5,)), ("lstm", (1, 8, 8)), ("bag", (2, 5))])
def test_inputs_that_do_not_fit(spec: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ProtofedError, match=f"model {spec}: expected"):
        read_family(spec).build(shape, 2)


def archive(path: Path, x: np.ndarray, y: np.ndarray) -> str:
    half = len(x) // 2
    np.savez(path, x_train=x[:half], y_train=y[:half], x_test=x[half:], y_test=y[half:])
    return f"npz:{path}"


def series(path: Path) -> str:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=96)
    time = np.linspace(0, 6, 16)
    x = np.sin((1 + y)[:, None, None] * time + np.arange(2)[:, None]) + 0.1 * rng.normal(size=(96, 2, 16))
    return archive(path, x, y)


def tokens(path: Path) -> str:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=96)
    x = rng.integers(1, 20, size=(96, 6)) + 20 * y[:, None]
    x[:, 4:] *= rng.integers(2, size=(96, 2))
    return archive(path, x, y) + ",tokens=true"


@pytest.mark.parametrize(
    "models", ["cnn1d:width=4", "lstm:hidden=6", "bag:vocabulary=60", "resmlp", "mlp:norm=layer"]
)
def test_engines_agree(models: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models without a stacked form train under vmap: the numbers are those of clients one by one."""
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    data = (tokens if "bag" in models else series)(tmp_path / "s.npz")
    setting = {"data": data, "partition": "iid", "models": models, "clients": 4, "rounds": 2, "epochs": 1}
    engines = ("sequential", "cohort", "workers")
    results = [protofed.run("fedproto", **setting, engine=e, dtype="float64", lr=0.1) for e in engines]
    losses = [[record["train_loss"] for record in result.metrics] for result in results]
    assert losses[0] == losses[2]
    assert losses[1] == pytest.approx(losses[0], rel=1e-9)
    assert len({result.accuracy("gp_all") for result in results}) == 1


def test_tokens_and_models_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    whole, floats = tokens(tmp_path / "t.npz"), series(tmp_path / "s.npz")
    lines = {
        (whole, "bag:vocabulary=59"): "a token is not below the vocabulary of 59",
        (whole, "mlp"): "whole numbers and stay so",
        (whole.partition(",")[0], "mlp"): "tokens=true",
        (floats, "bag"): "expected texts of shape",
        (floats + ",tokens=true", "bag"): "tokens are whole numbers",
    }
    for (data, models), line in lines.items():
        with pytest.raises(ProtofedError, match=line) as caught:
            protofed.run("fedproto", data=data, models=models, partition="iid", clients=2, rounds=1)
        assert "\n" not in str(caught.value)

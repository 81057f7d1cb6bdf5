"""Models from files and families: what is wrong with them is one line that names the model, or the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import Call, assert_refused

import protofed
from protofed import ProtofedError

RUN = ("run", "local", "--clients", "2", "--rounds", "1", "--engine", "sequential")
HEAD = """
import math
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        self.base = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 8))
        self.head = nn.Linear(8, num_classes)
        self.lazy = nn.LazyLinear(8)

    def forward(self, x):
"""
USUAL = """
        z = self.base(x)
        return z, self.head(z)
"""
BODIES = {
    "fails": "        return {}['word']",
    "detached": "        z = self.base(x).detach()\n        return z, self.head(z).detach()",
    "swapped": "        z = self.base(x)\n        return self.head(z), z",
    "in training": "        if self.training: raise ValueError('odd')" + USUAL,
}
WORDS = {
    "fails": ("forward fails", "KeyError: 'word' (mine.py, line 13, in forward)"),
    "detached": ("no gradient reaches any parameter",),
    "swapped": ("(logits, embedding)",),
    "in training": ("mine.py, line 13, in forward: ValueError: odd",),
}


@pytest.mark.parametrize("engine", ["sequential", "workers"])
@pytest.mark.parametrize("kind", BODIES)
def test_a_model_of_a_file(call: Call, kind: str, engine: str) -> None:
    Path("mine.py").write_text(HEAD.replace("        self.lazy = nn.LazyLinear(8)\n", "") + BODIES[kind])
    got = call(*RUN[:-1], engine, "--models", "module:mine.py:Net", "--quiet")
    assert_refused(got, *WORDS[kind], code=got.code)
    assert got.code > 0


def test_a_lazy_layer_that_is_never_called_is_named(call: Call) -> None:
    Path("mine.py").write_text(HEAD + USUAL)
    assert_refused(call(*RUN, "--models", "module:mine.py:Net"), "lazy", "lazy.weight")


def test_a_lazy_layer_that_is_called_gets_its_shape(call: Call) -> None:
    Path("mine.py").write_text(HEAD + "        z = self.lazy(self.base(x))\n        return z, self.head(z)\n")
    assert call(*RUN, "--models", "module:mine.py:Net", "--quiet").code == 0


@pytest.mark.parametrize("models", ["mlp:dim=100000000", "mlp:dim=1000000000000000000"])
def test_models_that_do_not_fit_into_memory(call: Call, models: str) -> None:
    assert_refused(call(*RUN, "--models", models), "model mlp:dim=1000")
    with pytest.raises(ProtofedError, match="model mlp:dim=1000"):
        protofed.run("local", models=models, clients=2, rounds=1)


def test_the_size_is_said(call: Call) -> None:
    assert_refused(call(*RUN, "--models", "mlp:dim=100000000"), "7,500,004,170 parameters", "GB", "smaller")


def test_a_model_file_that_changed_is_noticed_by_resume(call: Call) -> None:
    text = HEAD.replace("        self.lazy = nn.LazyLinear(8)\n", "") + USUAL
    Path("mine.py").write_text(text)
    assert call(*RUN, "--models", "module:mine.py:Net", "--out", "a", "--quiet").code == 0
    Path("mine.py").write_text(text.replace("8", "16"))
    assert_refused(call("resume", "a", "--rounds", "2"), "mine.py", "changed", code=1)


def test_class_names_given_twice(call: Call) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32), np.arange(40) % 3
    names = np.array(["cat", "dog", "cat"])
    np.savez("mine.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=names)
    got = call(*RUN, "--data", "npz:mine.npz", "--partition", "iid", "--models", "mlp")
    assert_refused(got, "classes 0 and 2 are both called 'cat'")


def test_unscaled_data_and_the_engine_are_said(call: Call) -> None:
    x, y = 1e6 * np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    np.savez("mine.npz", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20])
    data = ("--data", "npz:mine.npz", "--partition", "iid", "--models", "mlp", "--lr", "1e-12")
    got = call("run", "local", "--clients", "2", "--rounds", "1", *data)
    assert got.code == 0, got.err
    assert "networks train badly on such numbers" in got.err
    assert "engine sequential (auto: little work a round)" in got.err

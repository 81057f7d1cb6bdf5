"""Which methods refuse which settings, before training, and what they say.

`python tests/algorithms/test_refused_combinations.py` prints the table of all methods and the messages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from protofed.config import resolve
from protofed.core.algorithm import methods
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.task import Group
from protofed.experiment import make_task
from protofed.models.base import Model
from protofed.testing import CLASSES, INPUTS


class Whole(nn.Module):
    """A model that is not made of a base and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(INPUTS, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.layer(x)
        return z, self.out(z)


def model(width: int = 16, dim: int = 8, hidden: int | None = None) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        head = nn.Linear(dim, CLASSES)
        deep = nn.Sequential(nn.Linear(dim, hidden), nn.Linear(hidden, CLASSES)) if hidden else head
        return Model(nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, dim)), deep)

    return build


SETTINGS = {
    "one model": {},
    "bases differ": {"models": [model(16), model(10)]},
    "heads differ": {"models": [model(), model(hidden=4)]},
    "sizes differ": {"models": [model(dim=8), model(dim=6)]},
    "no halves": {"models": [Whole]},
    "dense labels": {"dense": True},
    "momentum": {"momentum": 0.5},
    "no public data": {"public": False},
}


def refusal(method: str, setting: str) -> str | None:
    """The message, or None where the method accepts."""
    given = SETTINGS[setting]
    train = {"momentum": given.get("momentum", 0.0)}
    config = resolve({"method": method, "clients": 2}, train)
    groups = [Group(f"model{i}", build) for i, build in enumerate(given.get("models", [model()]))]
    public = LocalData(torch.zeros(4, INPUTS), torch.full((4,), -1)) if given.get("public", True) else None
    names = tuple(map(str, range(CLASSES)))
    try:
        index = np.arange(2) % len(groups)
        make_task(
            config, config.make_method(), groups, index, (INPUTS,), names, public, given.get("dense", False)
        )
    except ConfigError as error:
        return str(error)
    return None


def table() -> str:
    lines = ["| method | " + " | ".join(SETTINGS) + " |", "|---" * (len(SETTINGS) + 1) + "|"]
    for method in methods:
        cells = ["refused" if refusal(method, setting) else "runs" for setting in SETTINGS]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def listed_messages() -> str:
    """Every message with the settings that it answers; one line for methods that say the same."""
    found: dict[str, list[str]] = {}
    for method in methods:
        for setting in SETTINGS:
            if message := refusal(method, setting):
                found.setdefault(message.replace(method, "METHOD", 1), []).append(f"{method} ({setting})")
    return "\n".join(f"- {message}\n  ({', '.join(who)})" for message, who in found.items())


ONE_MODEL = {"bases differ", "heads differ", "sizes differ"}
REFUSED = {
    "local": set(),
    "centralized": ONE_MODEL,
    "fedavg": ONE_MODEL,
    "fedprox": ONE_MODEL,
    "fesem": ONE_MODEL,
    "fedatt": ONE_MODEL,
    "fedopt": ONE_MODEL,
    "ditto": ONE_MODEL,
    "moon": ONE_MODEL | {"dense labels"},
    "scaffold": ONE_MODEL | {"momentum"},
    "fedper": {"bases differ", "sizes differ", "no halves"},
    "fedrep": {"bases differ", "sizes differ", "no halves"},
    "lg_fedavg": {"heads differ", "sizes differ", "no halves"},
}


@pytest.mark.parametrize("method", REFUSED)
def test_refusals_of_baselines(method):
    assert {setting for setting in SETTINGS if refusal(method, setting)} == REFUSED[method]


@pytest.mark.parametrize("method", list(methods))
def test_every_method_runs_with_one_plain_model(method):
    assert refusal(method, "one model") is None


@pytest.mark.parametrize("method", list(methods))
@pytest.mark.parametrize("setting", SETTINGS)
def test_refusals_name_the_method_and_a_remedy_in_one_line(method, setting):
    message = refusal(method, setting)
    if message is not None:
        assert message.startswith(method)
        assert "\n" not in message
        assert any(word in message for word in ("choose", "give", "set", "build"))


@pytest.mark.parametrize(
    ("method", "setting", "message"),
    [
        (
            "fedavg",
            "bases differ",
            r"fedavg needs one architecture for all clients, got 2 \(model0, model1\); give",
        ),
        ("fedprox", "heads differ", r"choose a method for different models such as fedproto or local"),
        (
            "lg_fedavg",
            "heads differ",
            r"lg_fedavg shares the head of the models, but it differs among model0, model1",
        ),
        ("fedper", "bases differ", r"fedper shares the base of the models.*choose models with equal bases"),
        ("fedrep", "no halves", r"fedrep needs models made of a base and a head; model0 is not"),
        ("moon", "dense labels", r"moon does not work with dense labels"),
        ("scaffold", "momentum", r"scaffold needs plain SGD, got momentum=0.5; set"),
    ],
)
def test_messages(method, setting, message):
    assert re.search(message, refusal(method, setting) or "accepted")


def test_the_list_names_who_says_what():
    assert "METHOD needs plain SGD, got momentum=0.5" in listed_messages()
    assert "scaffold (momentum)" in listed_messages()


def test_the_table_has_a_row_for_every_method():
    lines = table().splitlines()
    assert len(lines) == 2 + len(list(methods))
    assert "| lg_fedavg | runs | runs | refused | refused | refused | runs | runs | runs |" in lines


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n\n{listed_messages()}\n")

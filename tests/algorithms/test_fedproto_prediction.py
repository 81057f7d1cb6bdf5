"""FedProto's prediction modes: nearest prototype among all or own classes, own prototypes, fallback."""

from __future__ import annotations

import torch
from by_hand import IdentityNet, floats
from fedproto_messages import protos
from torch import Tensor

from protofed.algorithms.fedproto import FedProto, Protos
from protofed.core.data import LocalData


def scores(down: Protos, local: list[int], mem: dict[str, Tensor] | None = None) -> dict[str, list[int]]:
    data = LocalData(torch.zeros(len(local), 2), torch.tensor(local))
    x = floats([[0.0, 0.1], [1.0, 0.1], [2.0, 0.1]])
    got = FedProto().predict(IdentityNet(), x, data, down, mem or {})  # type: ignore[arg-type]
    return {mode: value.argmax(1).tolist() for mode, value in got.items()}


GLOBAL = protos({0: ([0.0, 0.0], 1), 1: ([1.0, 0.0], 1), 2: ([2.0, 0.0], 1)})


def test_nearest_global_prototype_wins_among_all_or_own_classes() -> None:
    """x = 0, 1, 2 next to prototypes at 0, 1, 2; without class 1 the point in the middle goes to 0 or 2."""
    got = scores(GLOBAL, [0, 2])
    assert got["gp_all"] == [0, 1, 2]
    assert got["gp_local"][0] == 0
    assert got["gp_local"][1] in (0, 2)
    assert got["gp_local"][2] == 2


def test_own_prototypes_decide_under_lp() -> None:
    """The client's own prototypes lie the other way round; class 1 is not its own."""
    mem = {"mean": floats([[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), "n": torch.tensor([3, 0, 3])}
    got = scores(GLOBAL, [0, 2], mem)["lp"]
    assert (got[0], got[2]) == (2, 0)
    assert got[1] != 1


def test_without_prototypes_the_classifier_decides() -> None:
    got = scores(protos({}), [0, 2])
    assert got["gp_all"] == got["gp_local"] == got["lp"] == got["clf"]


def test_a_client_whose_classes_have_no_prototype_falls_back() -> None:
    got = scores(protos({1: ([1.0, 0.0], 1)}), [0, 2])
    assert got["gp_all"] == [1, 1, 1]
    assert got["gp_local"] == got["clf"]

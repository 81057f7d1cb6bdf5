"""Every method of the registry, through every check of `protofed.testing`."""

import pytest

from protofed.core.algorithm import methods
from protofed.testing import CHECKS, Toy

# The papers weigh these terms for deep nets and short steps: in the toy they would drown the labels.
GENTLE = {"fpl": {"pull": "mean"}, "fedplvm": {"lam": 1.0}, "fedplcc": {"lam1": 1.0}}

# Adam divides by the root of squared gradients: rounding grows where these vanish.
ADAM = {"fedgen": 1e-4, "fcclplus": 1e-4}


def toy(name: str, models: str) -> Toy:
    return Toy(name, GENTLE.get(name, {}), models=models, tolerance=ADAM.get(name, 1e-10))


CASES = [toy(name, models) for name in methods for models in ("mlp", "norm")]
CASES += [Toy("fedproto", models="mixed"), Toy("local", models="mixed")]
CASES += [
    Toy("fedproto", {"level": "sample", "distance": "mse", "agg": "uniform", "proto_pass": "running"}),
    Toy("fedproto", {"stale": "cache"}),
    Toy("fedproto", {"stale": "drop", "agg": "literal"}),
    Toy("fedproto", {"share_model": True}),
    Toy("fedavg", {"eval_model": "after_local"}),
    Toy("fedavg", {"params_only": True}, models="norm"),
]


def _name(case: Toy) -> str:
    return "-".join([case.method, case.models, *map(str, case.options.values())])


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", CASES, ids=_name)
def test_conformance(case, check):
    check(case)

"""Every method of the registry, through every check of `protofed.testing`.

With BatchNorm and dropout those checks run on which they bear; the rest is in the thorough suite, as are
the methods' other options.
"""

import pytest

from protofed.core.algorithm import methods
from protofed.testing import CHECKS, Toy, engines_agree, resumes_exactly

# The papers weigh these terms for deep nets and short steps: in the toy they would drown the labels.
GENTLE = {"fpl": {"pull": "mean"}, "fedplvm": {"lam": 1.0}, "fedplcc": {"lam1": 1.0}}
# As many features as the toy has samples for; sums follow the scale of the inputs a round later.
GENTLE |= {key: {"size": 32} for key in ("fedcommons", "fedncm", "fed3r", "fedcof")}

# Adam divides by the root of squared gradients: rounding grows where these vanish.
ADAM = {"fedgen": 1e-4, "fcclplus": 1e-4}


def toy(name: str, models: str) -> Toy:
    return Toy(name, GENTLE.get(name, {}), models=models, tolerance=ADAM.get(name, 1e-10))


PLAIN = [toy(name, "mlp") for name in methods]
NORM = [toy(name, "norm") for name in methods]
OTHER = [
    Toy("fedproto", models="mixed"),
    Toy("local", models="mixed"),
    Toy("fedproto", {"level": "sample", "distance": "mse", "agg": "uniform", "proto_pass": "running"}),
    Toy("fedproto", {"stale": "cache"}),
    Toy("fedproto", {"stale": "drop", "agg": "literal"}),
    Toy("fedproto", {"share_model": True}),
    Toy("fedavg", {"eval_model": "after_local"}),
    Toy("fedavg", {"params_only": True}, models="norm"),
    Toy("fedcommons", {"size": 32, "ledger": True}, models="mixed"),
    Toy("fedcommons", {"size": 32, "phi": "relu+model:mlp", "standardise": False}),
]
QUICK = [(case, check) for case in PLAIN for check in CHECKS]
QUICK += [(case, check) for case in NORM for check in (resumes_exactly, engines_agree)]
THOROUGH = [(case, check) for case in [*NORM, *OTHER] for check in CHECKS if (case, check) not in QUICK]


def _name(value: object) -> str:
    if isinstance(value, Toy):
        return "-".join([value.method, value.models, *map(str, value.options.values())])
    return str(value.__name__)


@pytest.mark.parametrize(("case", "check"), QUICK, ids=_name)
def test_conformance(case, check):
    check(case)


@pytest.mark.thorough
@pytest.mark.parametrize(("case", "check"), THOROUGH, ids=_name)
def test_thorough_conformance(case, check):
    check(case)

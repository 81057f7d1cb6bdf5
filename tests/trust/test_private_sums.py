"""Noise in sums of fixed features: sensitivity by hand, who is counted, what is refused."""

from __future__ import annotations

import math

import pytest
import torch

from protofed.core.errors import ConfigError
from protofed.core.task import Turn
from protofed.ops.moments import square_of, triangle
from protofed.testing import Toy, assert_close
from protofed.trust.accounting import epsilon
from protofed.trust.private_sums import PrivateSums, nonnegative

PLAIN = {"standardise": False, "size": 16, "radius": 0.5}


def built(method: str, dp: str, **settings: object) -> tuple[object, PrivateSums]:
    made = Toy(method, PLAIN, {"dp": dp, **settings}).build()
    (guard,) = made.federation.guards
    assert isinstance(guard, PrivateSums)
    return made, guard


def test_one_sample_moves_the_weighted_sums_by_at_most_the_sensitivity() -> None:
    """R = 0.5 · √16 = 2. φ = (2, 0, …): φφᵀ/R has the one entry 2, φ is 2 long, R·n is 2: √12 = R √3. Other
    directions of the same length have a shorter triangle."""
    made, guard = built("fed3r", "example:noise=1")
    (leg,) = made.task.algorithm.legs
    assert guard.sensitivity == pytest.approx(2 * math.sqrt(3))
    axis = torch.zeros(16, dtype=torch.float64)
    axis[0] = 2.0
    flat = torch.full((16,), 0.5, dtype=torch.float64)  # also of length 2
    lengths = []
    for phi in (axis, flat):
        none = torch.zeros(0, 0, dtype=torch.float64)
        up = leg.up(
            triangle(phi[:, None] * phi)[None], phi[None], torch.tensor([1]), torch.tensor([1]), none, none
        )
        lengths.append(float(guard.vector(up, 5).norm()))
    assert lengths[0] == pytest.approx(guard.sensitivity)
    assert lengths[1] < lengths[0]
    assert built("fedncm", "example:noise=1")[1].sensitivity == pytest.approx(2 * math.sqrt(2))
    assert built("fedncm", "client:noise=1,clip=7")[1].sensitivity == 7


@pytest.mark.parametrize("method", ["fed3r", "fedncm", "fedcommons"])
def test_without_noise_the_totals_are_those_of_the_plain_run(method: str) -> None:
    plain = Toy(method, PLAIN).build()
    quiet, _ = built(method, "example:noise=1e-9")
    for _ in range(3):
        plain.federation.play()
        record = quiet.federation.play()
        assert record["epsilon"] == epsilon(1e-9, 1, 1e-5)  # each sample has a share in one release
    names = ("gram", "sums", "n", "members", "version")
    both = [{n: getattr(one.federation.state, n) for n in names} for one in (plain, quiet)]
    assert_close(*both, 1e-5)


def test_a_client_that_sends_again_is_not_released_again() -> None:
    made, _ = built("fedncm", "example:noise=0.01", sample=3)
    while len(made.federation.state.members) < 6:
        made.federation.play()
    state = made.federation.state
    engine = made.federation.engine
    engine.store.put(0, type(engine.store.get(0))())  # it has lost its memory
    before = state.n.clone()
    for _ in range(4):
        made.federation.play()
    assert torch.equal(made.federation.state.n, before)


def test_noise_is_where_it_should_be_and_the_total_is_a_sum_of_squares() -> None:
    made, guard = built("fed3r", "example:noise=2")
    (leg,) = made.task.algorithm.legs
    task, deviation = made.task, 2 * guard.sensitivity
    one = torch.zeros(1, dtype=torch.int64)
    up = leg.up(torch.zeros(1, 136), torch.zeros(1, 16), one, one, torch.zeros(0, 0), one)
    noise = torch.randn(136 + 5 * 17, dtype=torch.float64, generator=Turn(task, 1).generator("x"))
    fields = guard._fields(up, deviation * noise, 5)
    assert float(torch.linalg.eigvalsh(square_of(fields["gram"][0].double()))[0]) > -1e-4
    assert fields["n"].tolist() == [0] * 5  # within three deviations
    assert not fields["sums"].any()
    indefinite = torch.tensor([[1.0, 2.0], [2.0, 1.0]])  # eigenvalues 3 and −1
    assert_close({"a": nonnegative(indefinite)}, {"a": torch.full((2, 2), 1.5)}, 1e-6)


@pytest.mark.parametrize(
    ("options", "dp", "said"),
    [
        ({"standardise": True}, "example:noise=1", "set standardise=false"),
        ({"ledger": True}, "example:noise=1", "keeps each client's sums"),
        ({}, "example:noise=1,clip=1", "leave clip out"),
        ({}, "example:noise=1,delta=0.05", "is not below 1/75 (75 training samples)"),
    ],
)
def test_unsound_sums_are_refused(options: dict[str, object], dp: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Toy("fed3r", {**PLAIN, **options}, {"dp": dp}).build()
    assert said in str(refused.value)

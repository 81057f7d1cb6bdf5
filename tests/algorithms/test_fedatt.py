"""FedAtt: attention of the server on distances, tensor by tensor."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BASE, HEAD, floats, replies, tree, turn_of
from vmap_check import check_vmap

from protofed.algorithms.fedatt import FedAtt
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.testing import CHECKS, Toy

VARIANTS = [
    Toy("fedatt", {"norm": "spectral"}),
    Toy("fedatt", {"noise": 0.001, "params_only": True}, models="norm"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.models)
def test_conformance_of_variants(case, check):
    check(case)


def test_loss_runs_under_vmap():
    check_vmap(Toy("fedatt"))


@pytest.mark.parametrize(("tolerate", "count"), [(False, 3), (True, 6)])
def test_stragglers_are_dropped_unless_tolerated(tolerate, count):
    toy = Toy("fedatt", {"tolerate": tolerate})
    assert toy.build(rounds=1, stragglers=0.5).federation.play()["clients"] == count


def step(method, start, *trees, n=(1, 1, 1), round=1):
    ups = [(k, n[k], Weights(one)) for k, one in enumerate(trees)]
    return method.aggregate(Weights(start), replies(*ups), turn_of(method, round=round)).weights


def test_one_tensor_by_hand():
    """Server 0, clients 1 and 3: s = (1, 3), α = (e, e³)/(e + e³) = (0.119203, 0.880797). The sum of α·gap is
    −(0.119203 + 3 · 0.880797) = −2.761594; ε = 1.2 gives 1.2 · 2.761594 = 3.313913."""
    after = step(FedAtt(), tree(0.0), tree(1.0), tree(3.0))
    assert after[BASE].item() == pytest.approx(3.313913, abs=1e-6)


def test_tensors_have_their_own_attention():
    """The base differs by 1 and 3, the head by (3, 4) and 0. Head: s = (5, 0),
    α = e⁵/(e⁵ + 1) = 0.993307 for the first client; ε = 1: the head moves to 0.993307 · (3, 4)."""
    after = step(FedAtt(epsilon=1.0), tree(0.0), tree(1.0, (3.0, 4.0)), tree(3.0))
    assert after[HEAD].flatten().tolist() == pytest.approx([2.979922, 3.973228], abs=1e-6)
    assert after[BASE].item() == pytest.approx(2.761594, abs=1e-6)


def test_sample_counts_do_not_matter_for_parameters():
    one = step(FedAtt(), tree(0.0), tree(1.0), tree(3.0), n=(1, 1))
    two = step(FedAtt(), tree(0.0), tree(1.0), tree(3.0), n=(50, 1))
    assert torch.equal(one[BASE], two[BASE])


def test_spectral_norm_of_matrices():
    """diag(3, 4) has Euclidean norm 5 and spectral norm 4; against a zero gap α = σ(5) or σ(4)."""
    gaps = torch.stack([floats([[3.0, 0.0], [0.0, 4.0]]), torch.zeros(2, 2, dtype=torch.float64)])
    euclidean, spectral = FedAtt().attend(gaps), FedAtt(norm="spectral").attend(gaps)
    assert euclidean[1, 1].item() == pytest.approx(4 / (1 + math.exp(-5)))
    assert spectral[1, 1].item() == pytest.approx(4 / (1 + math.exp(-4)))


def test_spectral_norm_leaves_vectors_and_reads_kernels_as_matrices():
    """A vector (3, 4) has norm 5 either way. A kernel [2, 1, 1, 2] counts as its [2, 2] matrix."""
    method = FedAtt(norm="spectral")
    vectors = floats([[3.0, 4.0], [0.0, 0.0]])
    assert method.attend(vectors)[0].item() == pytest.approx(3 / (1 + math.exp(-5)))
    matrix = torch.stack([floats([[3.0, 0.0], [0.0, 4.0]]), torch.zeros(2, 2, dtype=torch.float64)])
    kernel = matrix.reshape(2, 2, 1, 1, 2)
    assert torch.allclose(method.attend(kernel).flatten(), method.attend(matrix).flatten())


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=6),
    st.floats(-1e4, 1e4),
)
def test_with_step_one_the_result_lies_between_the_clients(values, server):
    """ε = 1: w − Σα(w − w_k) = Σα w_k, a mean of the clients' values, whatever the server's."""
    after = step(FedAtt(epsilon=1.0), tree(server), *map(tree, values), n=(1,) * 6)[BASE].item()
    slack = 1e-9 * (1 + max(map(abs, [*values, server])))
    assert min(values) - slack <= after <= max(values) + slack


def test_large_distances_stay_finite():
    """exp(1e4) would overflow; the softmax does not."""
    after = step(FedAtt(epsilon=1.0), tree(0.0), tree(1e4), tree(1.0))
    assert after[BASE].item() == pytest.approx(1e4)


def test_noise_is_added_once_and_repeatable():
    """Clients equal to the server: without noise nothing moves; with it the same numbers again in the same
    round, others in the next."""
    start = tree(1.0, (1.0, 1.0))
    quiet = step(FedAtt(), start, start)
    noisy = [step(FedAtt(noise=0.1), start, start, round=r)[BASE].item() for r in (1, 1, 2)]
    assert quiet[BASE].item() == 1.0
    assert noisy[0] == noisy[1] != noisy[2]
    assert 0 < abs(noisy[0] - 1.0) < 0.6


def test_presets_and_errors():
    assert resolve({"method": "fedatt"}).make_method().epsilon == 1.2
    assert resolve({"method": "fedatt", "preset": "official"}).make_method().norm == "spectral"
    with pytest.raises(ConfigError, match="epsilon: must be greater than 0"):
        resolve({"method": "fedatt", "options": {"epsilon": 0}})


def test_a_parameter_without_axes():
    """α = softmax(|1|, |−3|): the sum Σ α_k gap_k of two numbers."""
    a = math.exp(1) / (math.exp(1) + math.exp(3))
    assert float(FedAtt().attend(floats([1.0, -3.0]))) == pytest.approx(a - 3 * (1 - a))

"""Secure sums of uploads: every method whose server averages or adds gets what it would get in the clear."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="secure sums need Flower: pip install 'protofed[deploy]'")

from protofed.algorithms.fedproto import Protos
from protofed.core.algorithm import methods
from protofed.core.answer import Work
from protofed.core.errors import ConfigError, MessageError
from protofed.testing import Toy
from protofed.trust.secure_encode import encode
from protofed.trust.secure_layout import FIGURES, Scale, make_layout, shapes_in
from protofed.trust.secure_spread import Party, read_first, spread

SUMMED = [name for name in methods if not methods[name]().single]
FINE = {"secure": True, "secure_holders": 2, "secure_step": 1e-9, "secure_bound": 1e4}


def played(name, rounds=2, holders=None, options=None, masked=False, models="mlp", **settings):
    """A toy federation after some rounds, and their records. Class 3 belongs to one client alone."""
    experiment = Toy(name, options or {}, models=models).build(rounds=rounds, **settings)
    for guard in experiment.federation.guards:
        guard.secure = guard.secure._replace(holders=holders or guard.secure.holders)
        guard.masked = masked
    return experiment.federation, experiment.play(None)


@pytest.mark.parametrize(
    ("name", "models"),
    [*((name, "mlp") for name in SUMMED), ("fedavg", "norm"), ("fednh", "norm"), ("fcclplus", "norm")],
)
def test_the_server_reaches_the_state_of_the_clear_run(name, models):
    """With nothing withheld, to about the step of rounding; BatchNorm's counters apart, which are means."""
    plain, _ = played(name, models=models)
    secure, records = played(name, holders=1, models=models, **FINE)
    for key, tensor in plain.state.arrays().items():
        if "num_batches_tracked" not in key:
            got = secure.state.arrays()[key]
            torch.testing.assert_close(got, tensor, atol=1e-6, rtol=1e-6, msg=lambda m, k=key: f"{k}: {m}")
    assert records[0]["secure"] == {"clients": 6, "lost": 0, "withheld": [], "clipped": 0}


def test_masks_change_nothing():
    """The whole protocol, and the sums without masks: equal to the bit."""
    one, two = (played("fedproto", masked=masked, **FINE)[0].state.arrays() for masked in (False, True))
    for key, tensor in one.items():
        assert torch.equal(two[key], tensor)


def test_a_class_of_too_few_holders_is_withheld(caplog):
    """Class 3 has one holder, 0 has four, 1 and 2 have three and four (see protofed.testing)."""
    federation, records = played("fedproto", **FINE)
    assert [record["secure"]["withheld"] for record in records] == [[3], [3]]
    assert federation.state.known.tolist() == [9 + 1 + 5 + 3, 7 + 5 + 13, 8 + 5 + 4 + 9, 0, 0]
    assert not federation.state.mean[3].any()
    assert caplog.text.count("1 of 4 classes are withheld (3): too few clients hold them") == 1
    federation, records = played("fedproto", rounds=1, **{**FINE, "secure_holders": 4})
    assert records[0]["secure"]["withheld"] == [1, 3]


def test_values_beyond_the_bound_are_clipped_and_told(caplog):
    _, records = played("fedproto", rounds=1, **{**FINE, "secure_bound": 0.5})
    assert records[0]["secure"]["clipped"] > 0
    assert "values beyond ±0.5 were clipped (secure_bound)" in caplog.text


def test_no_class_left_is_told(caplog):
    played("fedproto", rounds=1, **{**FINE, "secure_holders": 5})
    assert "all classes are withheld: too few clients hold them (secure_holders)" in caplog.text


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("fedtgp", {}, "fedtgp trains its prototypes on single uploads, so a sum is not enough"),
        ("fedcommons", {"options": {"ledger": True}}, "keeps each client's sums (ledger=true)"),
        ("local", {}, "sends nothing up"),
        ("fedproto", {"robust": "median"}, "secure and robust exclude each other"),
        ("fedproto", {"dp": "client:noise=1,clip=1,delta=1e-5"}, "secure and dp client"),
        ("fedproto", {"sample": 2}, "2 clients take part in a round; secure_holders 3"),
        ("fedproto", {"secure_threshold": 7}, "ask for at least 7"),
        ("fedproto", {"secure_step": 1e-15}, "has more than 53 bits"),
    ],
)
def test_refused_in_one_line(name, settings, reason):
    with pytest.raises(ConfigError) as caught:
        played(name, **{"secure": True, **settings})
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rounding_by_hand():
    """Two clients, step 0.5: means 1.3 (3 samples) and 2.1 (1) are 3.9 → 8 and 2.1 → 4 steps; 6/4 = 1.5."""
    one, two = (
        Protos(torch.tensor([[m]]), torch.tensor([0]), torch.tensor([n]), {}) for m, n in ((1.3, 3), (2.1, 1))
    )
    leg = methods["fedproto"]().legs[0]
    layout = make_layout("fedproto", leg, shapes_in(leg, one.arrays()), 2, Scale(10.0, 0.5, 32, 2))
    assert layout.sizes == [len(FIGURES) + 2, 2, 2]
    first, second = (encode(layout, up, n, Work(2, 5, 0.75)).blocks for up, n in ((one, 3), (two, 1)))
    assert first[1].tolist() == [8, 3]
    assert second[1].tolist() == [4, 1]
    total = [a.astype(np.int64) + b.astype(np.int64) for a, b in zip(first, second)]
    assert total[0].tolist() == [2, 4, 10, 0, 4, 2, 0]  # trained, steps, samples, clipped, loss; holders
    parties = [Party(7, 3, {}), Party(9, 1, {})]
    summed = read_first(layout, total[0], parties)
    replies = spread(layout, summed, {0: total[1]}, parties, Toy("fedproto").build().task)
    assert [reply.up.mean.tolist() for reply in replies] == [[[1.5]], [[1.5]]]
    assert [reply.up.n.tolist() for reply in replies] == [[2], [2]]
    assert [reply.work for reply in replies] == [Work(2, 5, 1.0), Work(2, 5, 1.0)]


def test_sums_that_cannot_be_are_refused():
    """A client that does not keep to the protocol spoils the round, not the state."""
    leg = methods["fedproto"]().legs[0]
    layout = make_layout(
        "fedproto", leg, {"mean": (False, (1,)), "n": (True, ())}, 1, Scale(10.0, 0.5, 32, 2)
    )
    parties = [Party(0, 3, {}), Party(1, 1, {})]
    with pytest.raises(MessageError, match="counts that cannot be"):
        read_first(layout, np.array([2, 4, 10, 0, 4, 3]), parties)
    summed = read_first(layout, np.array([2, 4, 10, 0, 4, 2]), parties)
    with pytest.raises(MessageError, match="mean beyond the bound"):
        spread(layout, summed, {0: np.array([1000, 4])}, parties, Toy("fedproto").build().task)
    with pytest.raises(MessageError, match="fewer samples than holders"):
        spread(layout, summed, {0: np.array([10, 1])}, parties, Toy("fedproto").build().task)

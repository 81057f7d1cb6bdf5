"""Attacks on uploads: they find what is there, nothing where nothing is, and less behind protections."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="secure sums and int8 need Flower: pip install 'protofed[deploy]'")

from protofed.analysis.inversion import NOTHING, OTHERS, Descent, invert, likeness, scale_of
from protofed.analysis.leakage import Leakage, measure_leakage
from protofed.analysis.membership import COMMON, OWN, by_loss, by_rows, maps, together, untrained
from protofed.analysis.protections import NONE, protections
from protofed.analysis.reconstructions import NO_UPLOAD
from protofed.analysis.run_metrics import evaluated_net
from protofed.analysis.uploads_again import read, uploads
from protofed.analysis.watch import Watch
from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.task import Turn
from protofed.experiment import Experiment, build
from protofed.testing import Toy

CLIENTS = [0, 1, 3]


def played(method: str, rounds: int = 2, models: str = "mlp", **settings) -> Experiment:
    experiment = Toy(method, settings=settings, models=models).build(rounds=rounds)
    experiment.play(None)
    return experiment


def aucs(found: Leakage) -> dict[tuple[str, str], float]:
    return {(one.protection, one.attack): one.auc for one in found.membership}


@pytest.fixture(scope="module")
def memorised(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Experiment]:
    """Random labels, which a network can only learn by heart."""
    path = tmp_path_factory.mktemp("random") / "random.npz"
    draw = np.random.default_rng(0)
    rows = {f"x_{part}": draw.normal(size=(400, 20)).astype("float32") for part in ("train", "test")}
    np.savez(path, **rows, **{f"y_{part}": draw.integers(0, 4, 400) for part in ("train", "test")})
    settings = {"data": f"npz:{path}", "partition": "iid", "clients": 4, "models": "mlp", "rounds": 2}
    settings |= {"epochs": 60, "lr": 0.1, "engine": "sequential", "balanced": 0, "eval_every": 2}
    made = {method: build(resolve({"method": method}, settings)) for method in ("fedavg", "fedproto")}
    for experiment in made.values():
        experiment.play(None)
    return made


def test_membership_finds_what_was_learned_by_heart(memorised):
    found = aucs(measure_leakage(memorised["fedavg"], [0, 1, 2, 3], asked=["secure"]))
    assert found[NONE, "loss"] > 0.8
    assert abs(found[NO_UPLOAD, "loss of an untrained model"] - 0.5) < 0.08
    assert found["secure", "loss"] < found[NONE, "loss"] - 0.05  # an average knows less of each


def test_a_model_that_has_not_seen_the_samples_knows_nothing(memorised):
    """Another client's network, on rows that it has not seen either way."""
    experiment = memorised["fedproto"]
    scores = []
    for client in range(4):
        train, test = experiment.data.train(client), experiment.data.test(client)
        scores.append(by_loss(evaluated_net(experiment, (client + 1) % 4), train, test))
        assert by_loss(untrained(experiment, client), train, test).members.shape == (len(train),)
    assert abs(together(scores).auc - 0.5) < 0.08


def test_strong_noise_takes_the_signal_away(memorised):
    experiment = memorised["fedproto"]
    asked = ["dp:client:noise=1e-6,clip=1e4", "dp:client:noise=0.01,clip=100", "dp:client:noise=5,clip=1"]
    found = measure_leakage(experiment, [0, 1, 2, 3], asked=asked, steps=0)
    quiet, some, loud = (aucs(found)[name.removeprefix("dp:"), f"distance, {OWN}"] for name in asked)
    assert quiet > 0.65
    assert loud == pytest.approx(0.5, abs=0.05)
    assert quiet > loud + 0.1
    assert some > loud
    made = {one.name: one.epsilon for one in found.protections}
    assert made["client:noise=5,clip=1"] < 10 < made["client:noise=0.01,clip=100"]


def test_a_map_that_does_no_harm_is_inverted_exactly():
    """Features that are the input itself: the reconstruction is the row."""
    x = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    scale = scale_of([x])
    start = torch.full((2, 1, 4, 4), 0.5)
    rows = x[:2].flatten(1)
    smooth = torch.tensor([True, False])
    found = invert(lambda one: one.flatten(1), rows, start, smooth, Descent(scale, 400))
    assert float((found - x[:2]).abs().max()) < 0.1
    assert scale.image
    assert found.min() >= scale.low
    like = likeness(x[:2] + 0.1, torch.tensor([0, 1]), LocalData(x, torch.tensor([0, 1, 0, 1, 0, 1])), scale)
    assert like.which.tolist() == [0, 1]
    assert like.nearest.tolist() == pytest.approx(
        [20 * np.log10((scale.high - scale.low) / 0.1)] * 2, rel=1e-5
    )


def test_sums_of_a_known_map_reveal_more_than_a_guess():
    """fed3r on images: everybody has the map, so the inversion beats the mean of the class at others. Filters
    see which side of an edge is the lighter; edges do not, and from nothing the inversion finds no image."""
    settings = {"clients": 4, "models": "mlp", "rounds": 2, "engine": "sequential", "balanced": 0}
    map_of = {"options": {"phi": "filters"}}
    experiment = build(resolve({"method": "fed3r", "data": "digits"}, settings, map_of))
    experiment.play(None)
    found = measure_leakage(experiment, [0, 1], asked=["dp:example:noise=3"])
    means = {(one.protection, one.network, one.start): one.mean for one in found.inversion}
    assert found.measure == "psnr"
    assert means[NONE, COMMON, OTHERS] > means[NO_UPLOAD, "", OTHERS] + 0.5
    assert means[NONE, COMMON, NOTHING] > means[NO_UPLOAD, "", NOTHING] + 3
    noisy = [value for (name, _, _), value in means.items() if name.startswith("example")]
    assert all(value < means[NONE, COMMON, OTHERS] for value in noisy)
    pictures = found.pictures[0]
    assert pictures.nearest.shape == (len(pictures.classes), 1, 8, 8)
    again = measure_leakage(experiment, [0, 1], asked=["dp:example:noise=3"])
    assert again.inversion == found.inversion
    assert again.membership == found.membership


def test_uploads_of_kept_models_are_those_of_the_last_round():
    """fedproto's clients keep their networks: the server's average of what they send again is its state."""
    experiment = played("fedproto")
    (sent,) = uploads(experiment, list(experiment.active))
    total, n = torch.zeros(5, 8, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    for reply in sent.replies.values():
        total.index_add_(0, reply.up.cls, reply.up.mean * reply.up.n[:, None])
        n.index_add_(0, reply.up.cls, reply.up.n.double())
    state = experiment.federation.state
    known = state.known > 0
    torch.testing.assert_close((total / n.clamp(min=1)[:, None])[known], state.mean[known])


@pytest.mark.parametrize(
    ("method", "attacks", "inverted"),
    [
        ("fedproto", {f"distance, {OWN}", "distance, another client's network"}, True),
        ("feddistill", {f"distance, {OWN}", "distance, another client's network"}, True),
        ("fedplcc", {"loss", "distance, the network that was sent"}, True),
        ("fedproto_margin", {"loss", "distance, the network that was sent"}, True),
        ("fedncm", {f"distance, {COMMON}"}, True),
        ("moon", {"loss"}, True),
        ("fml", {"loss"}, True),
        ("fcclplus", {"loss"}, True),
        ("fedper", {"loss, with the client's own other layers"}, True),
        ("fedkd", set(), False),
    ],
)
def test_every_kind_of_upload(method, attacks, inverted):
    found = measure_leakage(played(method), CLIENTS, steps=2)
    assert {one.attack for one in found.membership if one.protection == NONE} == attacks
    assert bool(found.inversion) == inverted
    assert found.measure == "error"  # of tables
    assert inverted or any("no inversion" in remark for remark in found.remarks)
    assert all(0 <= one.auc <= 1 and 0 <= one.tpr <= 1 for one in found.membership)


@pytest.mark.parametrize("method", ["fedproto", "fedavg", "fedplcc", "fedncm"])  # rows, weights, both, sums
def test_whoever_waits_hears_of_every_step(method):
    heard: list[list] = []

    class Heard(Watch):
        def begin(self, what, total):
            heard.append([what, total, 0])

        def step(self, count=1):
            heard[-1][2] += count

    measure_leakage(played(method), CLIENTS, steps=3, watch=Heard())
    assert [what for what, _, _ in heard] == [
        "uploads, made again",
        "membership inference",
        *(
            f"inversion in 3 steps, client {client} ({number} of 3)"
            for number, client in enumerate(CLIENTS, 1)
        ),
    ]
    assert all(total == done > 0 for _, total, done in heard)


def test_series_and_normalisation_layers(tmp_path: Path):
    draw = np.random.default_rng(0)
    rows = {f"x_{part}": draw.normal(size=(60, 2, 16)).astype("float32") for part in ("train", "test")}
    labels = {f"y_{part}": np.arange(60) % 3 for part in ("train", "test")}
    np.savez(tmp_path / "series.npz", **rows, **labels)
    settings = {"clients": 3, "models": "cnn1d", "rounds": 1, "engine": "sequential", "balanced": 0}
    data = {"method": "fedproto", "data": f"npz:{tmp_path / 'series.npz'}", "partition": "iid"}
    experiment = build(resolve(data, settings))
    experiment.play(None)
    found = measure_leakage(experiment, [0], asked=["secure"], steps=2)
    assert found.measure == "error"
    assert found.inversion
    assert measure_leakage(played("fedproto", models="norm"), [0], asked=["int8"], steps=2).inversion


def test_who_sends_nothing_reveals_nothing():
    found = measure_leakage(played("local"), [0, 1], Counter({0: 2, 1: 2}))
    assert [(one.rounds, one.sent, one.classes) for one in found.revealed] == [(2, 0, None)] * 2
    assert not found.membership
    assert found.remarks == ["local sends nothing up: no client reveals anything"]
    with pytest.raises(ConfigError, match="all samples in one place"):
        measure_leakage(played("centralized"), [0])


def test_what_was_revealed():
    """Client 0 of the toy has 9 and 7 samples of two classes; two rounds of two rows with eight numbers."""
    taken = Counter({0: 2, 1: 1})
    found = measure_leakage(played("fedproto"), [0, 1, 2], taken, steps=0)
    first, second, third = found.revealed
    assert (first.classes, first.counts, first.rows, first.samples) == (("0", "1"), True, (2, 8), 16)
    assert (first.sent, second.sent, first.weights, first.seen) == (2 * 16, 16, None, True)
    assert (third.rounds, third.sent, third.classes) == (0, 0, None)  # it never took part
    weights = measure_leakage(played("fedavg"), [0], taken, steps=0).revealed[0]
    assert (weights.classes, weights.rows, weights.counts) == (None, None, False)
    assert weights.sent == 2 * weights.weights
    counted = measure_leakage(played("fedproto_margin"), [0], taken, steps=0).revealed[0]
    assert (counted.classes, counted.rows) == (("0", "1"), (5, 8))  # a row and a count for every class
    once = measure_leakage(played("fedncm"), [0], taken, steps=0).revealed[0]
    assert once.sent == once.rows[0] * once.rows[1]  # sums go up once, however many rounds there are


def test_of_a_secure_run_single_clients_reveal_nothing_but_their_presence():
    found = measure_leakage(played("fedproto", secure=True), CLIENTS, Counter(dict.fromkeys(CLIENTS, 2)))
    for one in found.revealed:
        assert (one.samples, one.classes, one.counts, one.rows, one.weights) == (
            None,
            None,
            False,
            None,
            None,
        )
        assert (one.rounds, one.seen) == (2, False)
    assert any(remark.startswith("secure sums: the server sees sums alone") for remark in found.remarks)
    experiment = played("fedproto", secure=True)
    made = protections(experiment, ["secure"], 6)
    assert [one.name for one in made] == [NONE, "secure"]  # the run's own, not twice
    seen = made[1].seen(uploads(experiment, range(6))[0], Turn(experiment.task, 2))
    assert all(one is seen[0] for one in seen.values())  # the same whoever is looked at


def test_the_runs_own_noise_and_that_of_local_steps():
    found = measure_leakage(played("fedproto", dp="client:noise=2"), CLIENTS, asked=[], steps=0)
    assert [one.name for one in found.protections] == [NONE, "client:noise=2"]
    assert any("the server adds the noise" in remark for remark in found.remarks)
    local = measure_leakage(played("fedavg", dp="example:noise=2"), CLIENTS, asked=[], steps=0)
    assert any("come from training with noise" in remark for remark in local.remarks)
    assert not any("the server adds the noise" in remark for remark in local.remarks)


@pytest.mark.parametrize(
    ("method", "asked", "said"),
    [
        ("fedproto", "noise", "protect noise: not known; one of secure, fp16, int8"),
        ("fedproto", "dp:example:noise=1", "run with --dp example:noise=1, and measure that run"),
        ("fedtgp", "secure", "fedtgp trains its prototypes on single uploads"),
        ("fedproto", "dp:client:noise=1,delta=0.5", "delta=0.5 is not below 1/6"),
        ("fedproto", "dp:client:nose=1", "nose"),
    ],
)
def test_protections_that_cannot_be(method, asked, said):
    with pytest.raises(ConfigError) as refused:
        measure_leakage(played(method), [0], asked=[asked])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_usual_protections_that_cannot_be_are_told():
    found = measure_leakage(played("fedtgp"), [0], steps=0)
    refused = {one.name: one.refused for one in found.protections if one.refused}
    assert set(refused) == {"secure", "client:noise=0.1", "client:noise=1"}
    assert all("single uploads" in why for why in refused.values())


@pytest.mark.parametrize(
    ("method", "low", "high"),
    [("fedproto", -torch.inf, torch.inf), ("fednh", -1, 1), ("fedproto_margin", 0, 1)],
)
def test_features_are_made_as_the_method_makes_them(method, low, high):
    """fednh averages embeddings of length 1, fedproto_margin puts prototypes between 0 and 1."""
    experiment = played(method)
    (sent,) = uploads(experiment, [0])
    seen = read([sent.replies[0]], sent.leg)
    features = maps(experiment, 0, seen, seen)[0].features
    with torch.no_grad():
        made = features(50 * experiment.data.train(0).x)
    assert low <= float(made.min())
    assert float(made.max()) <= high
    if method == "fedproto":
        assert float(made.max()) > 2
    if method == "fednh":
        torch.testing.assert_close(made.norm(dim=1), torch.ones(len(made), dtype=torch.float64))
    near = by_rows(features, seen, experiment.data.train(0), experiment.data.test(0))
    assert float(near.members.mean()) > -float(seen.rows.norm(dim=1).max())

import pytest
import torch
from by_hand import IdentityNet, assert_tame, directions, floats, prototype_terms, replies, turn
from vmap_check import check_vmap

from protofed.algorithms.fedplvm import FedPLVM, Global
from protofed.config import resolve
from protofed.core.algorithm import Ran
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.ops.clusters import Clustered
from protofed.testing import CHECKS, COUNTS, EMBEDDING, Toy, learns

GLOBAL = Clustered({}, floats([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([0, 0, 1]))
NOTHING = Clustered({}, floats([]).reshape(0, 2), torch.tensor([], dtype=torch.int64))
Z = floats([[0.8, 0.6]])
HALF = FedPLVM(lam=1.0, alpha=0.5)

# A weight under which the toy federation learns in few rounds: see test_conformance.
VARIANTS = [
    Toy("fedplvm", {"lam": 1.0, "start": "all", "weighting": "uniform", "stale": "drop"}),
    Toy("fedplvm", {"lam": 1.0, "corr": "alpha_mean", "signed": True, "level": "first"}, models="norm"),
]


def test_contrast_by_hand():
    """z = (0.8, 0.6), class 0, α = 0.5, τ = 0.07: L_contra = 0.040339 (all weights 1).

    Cosines 0.8, 0.96, 0.6; their roots over τ are 12.777536, 13.997084, 11.065667:
    −log((e^12.777536 + e^13.997084)/(… + e^11.065667)) = 0.040339.
    L_corr: U = (0.8, 0.4), cos = 0.88/√0.8 = 0.983870, 2·0.016130² = 0.000520.
    """
    assert prototype_terms(HALF, GLOBAL, Z, [0]).item() == pytest.approx(0.040339 + 0.000520, abs=1e-6)
    assert prototype_terms(FedPLVM(lam=100.0, alpha=0.5), GLOBAL, Z, [0]).item() == pytest.approx(
        4.0859, abs=1e-4
    )


def test_correction_over_all_prototypes():
    """1 − s_α averaged over the own prototypes: 1 − (0.894427 + 0.979796)/2 = 0.062889."""
    method = FedPLVM(lam=1.0, alpha=0.5, corr="alpha_mean")
    assert prototype_terms(method, GLOBAL, Z, [0]).item() == pytest.approx(0.040339 + 0.062889, abs=1e-6)


def test_signed_similarity():
    """z = (−1, 0), class 0 whose one prototype is (1, 0): cos = −1. Clamped, s = 1e-6^0.5 = 0.001 and
    the correction 0.999; signed, s = −1 and the correction 2. With one class there is no contrast."""
    down, z = Clustered({}, floats([[1.0, 0.0]]), torch.tensor([0])), floats([[-1.0, 0.0]])
    clamped = FedPLVM(lam=1.0, alpha=0.5, corr="alpha_mean")
    signed = FedPLVM(lam=1.0, alpha=0.5, corr="alpha_mean", signed=True)
    assert prototype_terms(clamped, down, z, [0]).item() == pytest.approx(0.999)
    assert prototype_terms(signed, down, z, [0]).item() == pytest.approx(2.0)


@pytest.mark.parametrize("corr", ["cosine", "alpha_mean"])
def test_class_without_prototypes_counts_in_the_mean_only(corr):
    method = FedPLVM(alpha=0.5, corr=corr)
    one = prototype_terms(method, GLOBAL, Z, [0])
    two = prototype_terms(method, GLOBAL, Z.repeat(2, 1), [0, 2])
    assert two.item() == pytest.approx(one.item() / 2)
    assert prototype_terms(method, GLOBAL, Z, [2]).item() == pytest.approx(0.0, abs=1e-12)


def test_first_round_is_cross_entropy():
    assert prototype_terms(FedPLVM(), NOTHING, Z, [0]).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("corr", ["cosine", "alpha_mean"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("down", [GLOBAL, NOTHING, Clustered({}, floats([[0.0, 0.0]]), torch.tensor([1]))])
def test_awkward_embeddings(corr, signed, down):
    assert_tame(FedPLVM(corr=corr, signed=signed), down)


def test_clients_upload_cluster_means():
    """Class 0 around two directions, three samples each: two rows. Class 2 has one sample: itself."""
    around = directions(0, 2, 5, 90, 93, 95)
    data = LocalData(torch.cat([around, floats([[3.0, 4.0]])]), torch.tensor([0] * 6 + [2]))
    up, _ = FedPLVM().upload(IdentityNet(), data, NOTHING, {}, Ran(1, 0.1, {}, {}, None, {}), turn())
    assert up.cls.tolist() == [0, 0, 2]
    wanted = torch.stack([around[:3].mean(0), around[3:].mean(0), floats([3.0, 4.0])])
    assert torch.allclose(up.mean, wanted)


def test_server_pools_without_weights():
    """Client 0 sends three rows of class 0 near 0°, client 1 three near 90°: two clusters of plain means.
    Models with 3 and 1 samples: (3·0 + 1·4)/4 = 1, or 2 without weights."""
    around = directions(0, 2, 5, 90, 93, 95)
    ups = [
        Clustered({"w": floats([4.0 * i])}, around[3 * i : 3 * i + 3], torch.zeros(3).long()) for i in (0, 1)
    ]
    state = Global({}, NOTHING.mean, NOTHING.cls, torch.zeros(4).long())
    new = FedPLVM().aggregate(state, replies(*ups, n=(3, 1)), turn())
    assert torch.allclose(new.mean, torch.stack([around[:3].mean(0), around[3:].mean(0)]))
    assert new.cls.tolist() == [0, 0]
    assert new.weights["w"].item() == 1.0
    assert new.uploaded.tolist() == [1, 1, 0, 0]
    assert FedPLVM(weighting="uniform").aggregate(state, replies(*ups), turn()).weights["w"].item() == 2.0
    rows, classes = FedPLVM().prototypes(new)
    assert rows is new.mean
    assert classes is new.cls


def test_stale_classes():
    state = Global({}, GLOBAL.mean, GLOBAL.cls, torch.zeros(2).long())
    up = Clustered({"w": floats([0.0])}, floats([[5.0, 5.0]]), torch.tensor([1]))
    assert FedPLVM().aggregate(state, replies(up), turn()).cls.tolist() == [1, 0, 0]
    assert FedPLVM(stale="drop").aggregate(state, replies(up), turn()).cls.tolist() == [1]


def test_start_waits_for_every_client():
    some = Global({}, GLOBAL.mean, GLOBAL.cls, torch.tensor([1, 0]))
    everyone = Global({}, GLOBAL.mean, GLOBAL.cls, torch.tensor([1, 1]))
    assert len(FedPLVM(start="all").broadcast(some, turn()).mean) == 0
    assert len(FedPLVM(start="all").broadcast(some, turn()).cls) == 0
    assert len(FedPLVM(start="all").broadcast(everyone, turn()).mean) == 3
    assert len(FedPLVM().broadcast(some, turn()).mean) == 3


def test_start_does_not_wait_for_newcomers():
    experiment = Toy("fedplvm", {"lam": 1.0, "start": "all"}).build(rounds=2, newcomers=2)
    first, second = (experiment.federation.play()["down"]["params"] for _ in range(2))
    assert second > first


def test_start_with_few_clients_a_round():
    """Without prototypes a download is the model alone; it grows in the round after the last newcomer."""
    options = {"lam": 1.0, "start": "all"}
    experiment = Toy("fedplvm", options).build(rounds=12, sample=3)
    parameters = experiment.task.parameter_count(0)
    complete = []
    for _ in range(12):
        complete.append(bool(experiment.federation.state.uploaded.all()))
        down = experiment.federation.play()["down"]["params"]
        assert (down > 3 * parameters) == complete[-1]
    assert complete[-1]
    assert not complete[1]


def test_payload_is_model_and_prototypes():
    """Every row up is a cluster mean: at most half as many as samples in classes of two or more."""
    first, second = (experiment := Toy("fedplvm").build(rounds=2, lr=0.01)).play(None)
    parameters = experiment.task.parameter_count(0)
    rows = (first["up"]["params"] - len(COUNTS) * parameters) / EMBEDDING
    classes = sum(count > 0 for client in COUNTS for count in client)
    assert classes <= rows <= sum(max(1, count // 2) for client in COUNTS for count in client if count)
    assert first["up"]["meta_bytes"] == 8 * rows
    assert first["down"]["params"] == len(COUNTS) * parameters
    assert (second["down"]["params"] - len(COUNTS) * parameters) % (len(COUNTS) * EMBEDDING) == 0


def test_without_prototype_terms_it_is_fedavg():
    runs = [Toy("fedplvm", {"lam": 0.0}), Toy("fedavg")]
    states = []
    for toy in runs:
        experiment = toy.build(rounds=3, weight_decay=0)
        experiment.play(None)
        states.append(experiment.federation.state.weights)
    for name, tensor in states[0].items():
        assert torch.allclose(tensor, states[1][name], rtol=0, atol=1e-12)


def test_presets():
    paper = resolve({"method": "fedplvm", "preset": "paper"})
    assert (paper.train.lr, paper.train.momentum, paper.train.weight_decay) == (0.01, 0.5, 1e-5)
    assert (paper.train.batch_size, paper.train.epochs, paper.train.drop_last) == (32, 2, False)
    method = paper.make_method()
    assert (method.alpha, method.tau, method.lam, method.corr) == (0.25, 0.07, 100.0, "cosine")
    official = resolve({"method": "fedplvm", "preset": "official"})
    assert official.make_method() == FedPLVM(lam=100.0, start="all", weighting="uniform", stale="drop")
    assert official.train.drop_last


@pytest.mark.parametrize("options", [{"tau": 0}, {"alpha": 0}, {"lam": -1}, {"corr": "l2"}, {"start": "1"}])
def test_wrong_options(options):
    with pytest.raises(ConfigError, match=f"fedplvm: {next(iter(options))}"):
        resolve({"method": "fedplvm", "options": options})


@pytest.mark.parametrize("models", ["mlp", "norm"])
@pytest.mark.parametrize("options", [{}, {"corr": "alpha_mean", "signed": True}], ids=["paper", "signed"])
def test_vmap(models, options):
    check_vmap(Toy("fedplvm", options, models=models))


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=["official", "alpha_mean"])
def test_variants(toy, check):
    check(toy)


@pytest.mark.thorough
@pytest.mark.parametrize("check", [c for c in CHECKS if c is not learns], ids=lambda c: c.__name__)
def test_defaults(check):
    check(Toy("fedplvm", settings={"lr": 0.01}))

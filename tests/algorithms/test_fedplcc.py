import math

import pytest
import torch
from by_hand import IdentityNet, assert_tame, directions, floats, prototype_terms, replies, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from vmap_check import check_vmap

from protofed.algorithms.fedplcc import Clusters, FedPLCC
from protofed.config import resolve
from protofed.core.algorithm import Ran
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.testing import CHECKS, COUNTS, EMBEDDING, Toy, learns

GLOBAL = Clusters(
    {}, floats([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), floats([0.75, 0.25, 1.0]), torch.tensor([0, 0, 1])
)
NOTHING = Clusters({}, floats([]).reshape(0, 2), floats([]), torch.tensor([], dtype=torch.int64))
ONE = Clusters({}, floats([[0.0, 0.0]]), floats([1.0]), torch.tensor([1]))
Z = floats([[0.8, 0.6]])
CONTRA = {"terms": "contra", "lam1": 1.0}
CORR = {"terms": "corr", "lam2": 1.0}

# A weight under which the toy federation learns in few rounds: see test_conformance.
VARIANTS = [
    Toy("fedplcc", {"lam1": 1.0, "phi": 1.0, "w": "one", "weighting": "uniform", "stale": "drop"}),
    Toy("fedplcc", {"lam1": 1.0, "signed": True, "weighted_centre": True, "level": "first"}, models="norm"),
    Toy("fedplcc", {"lam1": 1.0, "local_unit": "iter", "iters": 6}),
]


def test_contrast_by_hand():
    """Eq. 6: z = (0.8, 0.6), class 0; cosines 0.8, 0.96 (W = 0.75, 0.25) and 0.6 (W = 1); roots 0.894427,
    0.979796, 0.774597, over τ = 0.07: 12.777536, 13.997084, 11.065667. The weighted exponentials are
    0.75·354169 + 0.25·1199059 = 565392 and 63940: −log(565392/629332) = 0.107134; with W = 1 0.040339."""
    assert prototype_terms(FedPLCC(**CONTRA), GLOBAL, Z, [0]).item() == pytest.approx(0.107134, abs=1e-6)
    assert prototype_terms(FedPLCC(**CONTRA, w="one"), GLOBAL, Z, [0]).item() == pytest.approx(
        0.040339, abs=1e-6
    )


def test_correction_by_hand():
    """Eq. 8: products s·W are 0.670820 and 0.244949. φ = 0.5 takes ⌈1⌉ of them, φ = 1 both; φ = 0.51
    already takes both. With W = 1 the largest is 0.979796."""
    wanted = {0.5: -0.670820, 1.0: -0.915769, 0.51: -0.915769, 0.01: -0.670820}
    for phi, value in wanted.items():
        assert prototype_terms(FedPLCC(**CORR, phi=phi), GLOBAL, Z, [0]).item() == pytest.approx(
            value, abs=1e-6
        )
    assert prototype_terms(FedPLCC(**CORR, w="one"), GLOBAL, Z, [0]).item() == pytest.approx(
        -0.979796, abs=1e-6
    )


def test_terms_and_their_weights():
    """Eq. 4 with λ2 = 10 λ1 unless given: 100·0.107134 − 1000·0.670820 = −660.107; with λ1 = 1, λ2 = 3:
    0.107134 − 3·0.670820 = −1.905327. No terms: 0."""
    assert prototype_terms(FedPLCC(lam1=100.0), GLOBAL, Z, [0]).item() == pytest.approx(-660.1070, abs=1e-3)
    chosen = FedPLCC(lam1=1.0, lam2=3.0)
    assert prototype_terms(chosen, GLOBAL, Z, [0]).item() == pytest.approx(-1.905327, abs=1e-5)
    assert prototype_terms(FedPLCC(terms="none"), GLOBAL, Z, [0]).item() == pytest.approx(0.0, abs=1e-12)


def test_one_cluster():
    """Class 1 has one prototype, W = 1: cos = 0.6, s = 0.774597, taken whole whatever φ."""
    value = prototype_terms(FedPLCC(**CORR, phi=0.01), GLOBAL, Z, [1])
    assert value.item() == pytest.approx(-0.774597, abs=1e-6)


def test_class_without_prototypes_counts_in_the_mean_only():
    one = prototype_terms(FedPLCC(), GLOBAL, Z, [0])
    two = prototype_terms(FedPLCC(), GLOBAL, Z.repeat(2, 1), [0, 2])
    assert two.item() == pytest.approx(one.item() / 2)
    assert prototype_terms(FedPLCC(), GLOBAL, Z, [2]).item() == pytest.approx(0.0, abs=1e-12)


def test_first_round_is_cross_entropy():
    assert prototype_terms(FedPLCC(), NOTHING, Z, [0]).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("down", [GLOBAL, NOTHING, ONE], ids=["three", "none", "zero"])
def test_awkward_embeddings(signed, alpha, down):
    assert_tame(FedPLCC(signed=signed, alpha=alpha), down)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([0.1, 0.3, 0.5, 1.0]))
def test_loss_equals_a_loop_over_samples(seed, phi):
    """Eq. 6 and 8 written out sample by sample, prototype by prototype."""
    g = torch.Generator().manual_seed(seed)
    cls = torch.randint(0, 2, (7,), generator=g)
    down = Clusters(
        {}, torch.rand(7, 4, generator=g).double(), torch.rand(7, generator=g).double() + 0.01, cls
    )
    x, y = torch.rand(5, 4, generator=g).double(), torch.randint(0, 3, (5,), generator=g)
    total = 0.0
    for z, label in zip(x, y):
        s = [float(torch.cosine_similarity(z, p, dim=0)) ** 0.5 for p in down.mean]
        e = [math.exp(a / 0.07) * float(w) for a, w in zip(s, down.w)]
        own = [j for j in range(7) if cls[j] == label]
        if own:
            pulls = sorted((s[j] * float(down.w[j]) for j in own), reverse=True)
            contra = -math.log(sum(e[j] for j in own) / sum(e))
            total += 2 * contra - 3 * sum(pulls[: math.ceil(round(phi * len(own), 6))])
    value = prototype_terms(FedPLCC(lam1=2.0, lam2=3.0, phi=phi), down, x, y)
    assert value.item() == pytest.approx(total / 5, rel=1e-6, abs=1e-9)


def test_clients_count_the_samples_of_their_clusters():
    """Eq. 9: class 0 around two directions, 3 and 2 samples; class 2 has one sample."""
    around = directions(0, 2, 5, 90, 93)
    data = LocalData(torch.cat([around, floats([[3.0, 4.0]])]), torch.tensor([0] * 5 + [2]))
    up, _ = FedPLCC().upload(IdentityNet(), data, NOTHING, {}, Ran(1, 0.1, {}, {}, None, {}), turn())
    assert up.cls.tolist() == [0, 0, 2]
    assert up.w.tolist() == [3.0, 2.0, 1.0]
    assert torch.allclose(up.mean, torch.stack([around[:3].mean(0), around[3:].mean(0), floats([3.0, 4.0])]))


@pytest.fixture
def uploads():
    """Clients with class 0 near 0° (weights 3, 1, 4) and near 90° (weights 6, 1, 1)."""
    around, w = directions(0, 2, 5, 90, 93, 95), floats([3.0, 1.0, 4.0, 6.0, 1.0, 1.0])
    parts = [slice(0, 2), slice(2, 6)]
    return [
        Clusters({"w": floats([4.0 * i])}, around[p], w[p], torch.zeros(len(w[p])).long())
        for i, p in enumerate(parts)
    ]


def test_server_sums_and_shares_the_weights(uploads):
    """Eq. 10, 11: cluster weights 8 and 8 become 0.5 and 0.5; centres are plain means. Models with 3 and 1
    samples: 1, without weights 2."""
    state = FedPLCC().aggregate(NOTHING, replies(*uploads, n=(3, 1)), turn())
    around = directions(0, 2, 5, 90, 93, 95)
    assert state.w.tolist() == [0.5, 0.5]
    assert torch.allclose(state.mean, torch.stack([around[:3].mean(0), around[3:].mean(0)]))
    assert state.weights["w"].item() == 1.0
    plain = FedPLCC(weighting="uniform").aggregate(NOTHING, replies(*uploads, n=(3, 1)), turn())
    assert plain.weights["w"].item() == 2.0
    rows, classes = FedPLCC().prototypes(state)
    assert rows is state.mean
    assert classes is state.cls


def test_weighted_centres(uploads):
    """(3 a + 1 b + 4 c)/8 of the first three directions."""
    state = FedPLCC(weighted_centre=True).aggregate(NOTHING, replies(*uploads), turn())
    a, b, c = directions(0, 2, 5)
    assert torch.allclose(state.mean[0], (3 * a + b + 4 * c) / 8)


def test_stale_classes_keep_their_shares():
    up = Clusters({"w": floats([0.0])}, floats([[5.0, 5.0]]), floats([9.0]), torch.tensor([1]))
    kept = FedPLCC().aggregate(GLOBAL, replies(up), turn())
    assert kept.cls.tolist() == [1, 0, 0]
    assert kept.w.tolist() == [1.0, 0.75, 0.25]
    assert FedPLCC(stale="drop").aggregate(GLOBAL, replies(up), turn()).w.tolist() == [1.0]


def test_iterations_instead_of_epochs():
    """Three steps of batch size 1 at each of six clients, one of which has one sample: 18 samples."""
    experiment = Toy("fedplcc", {"local_unit": "iter", "iters": 3}).build(rounds=1, batch_size=1, epochs=1)
    assert experiment.play(None)[0]["samples"] == 18


def test_payload_is_model_prototypes_and_weights():
    first, second = (experiment := Toy("fedplcc").build(rounds=2, lr=0.01)).play(None)
    parameters, clients = experiment.task.parameter_count(0), len(COUNTS)
    rows = (first["up"]["params"] - clients * parameters) / (EMBEDDING + 1)
    assert first["up"]["meta_bytes"] == 8 * rows
    assert first["down"]["params"] == clients * parameters
    assert (second["down"]["params"] - clients * parameters) % (clients * (EMBEDDING + 1)) == 0
    shares = experiment.federation.state
    assert torch.allclose(torch.bincount(shares.cls, shares.w, 5), floats([1.0, 1.0, 1.0, 1.0, 0.0]))


def test_without_prototype_terms_it_is_fedavg():
    states = []
    for toy in (Toy("fedplcc", {"terms": "none"}), Toy("fedavg")):
        experiment = toy.build(rounds=3, weight_decay=0)
        experiment.play(None)
        states.append(experiment.federation.state.weights)
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name])


def test_presets():
    paper = resolve({"method": "fedplcc", "preset": "paper"})
    assert (paper.train.lr, paper.train.momentum, paper.train.weight_decay) == (0.01, 0.9, 1e-5)
    assert (paper.train.batch_size, paper.train.epochs) == (32, 10)
    assert paper.make_method() == FedPLCC(lam1=100.0, lam2=None, alpha=0.5, tau=0.07, phi=0.5)
    assert resolve({"method": "fedplcc", "preset": "office10"}).make_method().lam1 == 20.0
    assert resolve({"method": "fedplcc", "preset": "domainnet"}).make_method().lam1 == 1.0


@pytest.mark.parametrize("options", [{"phi": 0}, {"phi": 1.5}, {"lam2": -1}, {"w": "two"}, {"terms": "all"}])
def test_wrong_options(options):
    with pytest.raises(ConfigError, match=f"fedplcc: {next(iter(options))}"):
        resolve({"method": "fedplcc", "options": options})


@pytest.mark.parametrize("models", ["mlp", "norm"])
@pytest.mark.parametrize("options", [{}, {"signed": True, "phi": 1.0, "w": "one"}], ids=["paper", "signed"])
def test_vmap(models, options):
    check_vmap(Toy("fedplcc", options, models=models))


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=["ablated", "signed", "iter"])
def test_variants(toy, check):
    check(toy)


@pytest.mark.thorough
@pytest.mark.parametrize("check", [c for c in CHECKS if c is not learns], ids=lambda c: c.__name__)
def test_defaults(check):
    check(Toy("fedplcc", settings={"lr": 0.01}))

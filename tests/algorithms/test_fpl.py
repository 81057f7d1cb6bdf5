import pytest
import torch
from by_hand import IdentityNet, assert_tame, batch, directions, floats, prototype_terms, replies, turn
from vmap_check import check_vmap

from protofed.algorithms.fpl import FPL
from protofed.config import resolve
from protofed.core.algorithm import Ran
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.ops.clusters import Clustered
from protofed.testing import CHECKS, COUNTS, EMBEDDING, Toy, learns

GLOBAL = Clustered({}, floats([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([0, 0, 1]))
NOTHING = Clustered({}, floats([]).reshape(0, 2), torch.tensor([], dtype=torch.int64))
Z = floats([[0.8, 0.6]])

# Options under which the toy federation learns in few rounds: see test_conformance.
VARIANTS = [
    Toy("fpl", {"pull": "mean", "proto_pass": "running", "stale": "drop"}),
    Toy("fpl", {"pull": "mean", "weighting": "uniform", "metric": "euclidean", "level": "first"}),
]


def test_both_terms_by_hand():
    """z = (0.8, 0.6), class 0; cosines 0.8, 0.96 (own) and 0.6. With τ = 0.5 the exponentials are
    e^1.6 = 4.953032, e^1.92 = 6.820958, e^1.2 = 3.320117: L_cp = −log(11.773990/15.094107) = 0.248410.
    U = ((1, 0) + (0.6, 0.8))/2 = (0.8, 0.4): L_up = 0.2² = 0.04, per dimension 0.02."""
    assert prototype_terms(FPL(tau=0.5, pull="sum"), GLOBAL, Z, [0]).item() == pytest.approx(
        0.248410 + 0.04, abs=2e-6
    )
    assert prototype_terms(FPL(tau=0.5, pull="mean"), GLOBAL, Z, [0]).item() == pytest.approx(
        0.248410 + 0.02, abs=2e-6
    )


def test_the_published_temperature_does_not_overflow_in_float32():
    """A sample at the prototype of the other class: L_cp = (1 − 0.8)/0.02 = 10 up to e^−10;
    L_up = ‖(0, 1) − (0.8, 0.4)‖² = 1."""
    down = Clustered({}, GLOBAL.mean.float(), GLOBAL.cls)
    terms = prototype_terms(FPL(tau=0.02, pull="sum"), down, torch.tensor([[0.0, 1.0]]), [0])
    assert terms.item() == pytest.approx(11.0, abs=1e-3)


def test_class_without_prototypes_counts_in_the_mean_only():
    """Class 2 has no prototype: two samples halve the value of one."""
    one = prototype_terms(FPL(tau=0.5), GLOBAL, Z, [0])
    assert prototype_terms(FPL(tau=0.5), GLOBAL, Z.repeat(2, 1), [0, 2]).item() == pytest.approx(
        one.item() / 2
    )
    assert prototype_terms(FPL(tau=0.5), GLOBAL, Z, [2]).item() == pytest.approx(0.0, abs=1e-12)


def test_first_round_is_cross_entropy():
    assert prototype_terms(FPL(), NOTHING, Z, [0]).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("method", [FPL(), FPL(pull="mean")])
@pytest.mark.parametrize("down", [GLOBAL, NOTHING, Clustered({}, floats([[0.0, 0.0]]), torch.tensor([1]))])
def test_awkward_embeddings(method, down):
    assert_tame(method, down)


def test_feature_maps_with_void_pixels():
    """Two positions are z with class 0, one has no prototype, one is void: two thirds of the value of z."""
    maps = Z[:, :, None, None].expand(1, 2, 2, 2)
    one = prototype_terms(FPL(tau=0.5), GLOBAL, Z, [0])
    dense = prototype_terms(FPL(tau=0.5), GLOBAL, maps, torch.tensor([[[0, 0], [2, -1]]]))
    assert dense.item() == pytest.approx(one.item() * 2 / 3)


def test_server_clusters_the_class_means():
    """Six clients, class 0 at 0°, 2°, 5° and 90°, 93°, 95°: two clusters, their plain means. Class 1
    comes from two clients only: one cluster. Models: (1·0 + 2·1 + … + 6·5)/21 = 70/21."""
    around = directions(0, 2, 5, 90, 93, 95)
    one = [
        torch.cat([around[i : i + 1], floats([[float(i), 1.0]])]) if i < 2 else around[i : i + 1]
        for i in range(6)
    ]
    ups = [Clustered({"w": floats([float(i)])}, m, torch.arange(len(m))) for i, m in enumerate(one)]
    state = FPL().aggregate(NOTHING, replies(*ups, n=range(1, 7)), turn())
    assert state.cls.tolist() == [0, 0, 1]
    wanted = torch.stack([around[:3].mean(0), around[3:].mean(0), floats([0.5, 1.0])])
    assert torch.allclose(state.mean, wanted)
    assert state.weights["w"].item() == pytest.approx(70 / 21)
    plain = FPL(weighting="uniform").aggregate(NOTHING, replies(*ups, n=range(1, 7)), turn())
    assert plain.weights["w"].item() == pytest.approx(2.5)
    rows, classes = FPL().prototypes(state)
    assert rows is state.mean
    assert classes is state.cls


def test_stale_classes():
    up = Clustered({"w": floats([0.0])}, floats([[5.0, 5.0]]), torch.tensor([1]))
    kept = FPL().aggregate(GLOBAL, replies(up), turn())
    assert kept.cls.tolist() == [1, 0, 0]
    assert kept.mean.tolist() == [[5.0, 5.0], [1.0, 0.0], [0.6, 0.8]]
    assert FPL(stale="drop").aggregate(GLOBAL, replies(up), turn()).cls.tolist() == [1]


def test_uploaded_means_after_and_while_training():
    """After training: the means of the data. While training: means of the embeddings of the last epoch."""
    net = IdentityNet()
    data = LocalData(floats([[1.0, 0.0], [3.0, 0.0], [0.0, 7.0]]), torch.tensor([0, 0, 2]))
    method = FPL(proto_pass="running")
    view = method.prepare(net, data, NOTHING, {}, turn())
    _, early = method.loss(net, batch(data.x, data.y, last=0.0), view)
    _, late = method.loss(net, batch(2 * data.x, data.y), view)
    sums = {name: early[name] + late[name] for name in late}
    for ran, factor in ((Ran(2, 0.1, {}, sums, None, view), 2.0), (Ran(0, 0.1, {}, {}, None, view), 1.0)):
        up, _ = method.upload(net, data, NOTHING, {}, ran, turn())
        assert up.cls.tolist() == [0, 2]
        assert up.mean.tolist() == [[factor * 2.0, 0.0], [0.0, factor * 7.0]]
    assert FPL().loss(net, batch(data.x, data.y), view)[1] == {}


def test_payload_is_model_and_prototypes():
    """Up: per client all parameters and C_i rows; down: all parameters and J rows; classes are meta."""
    experiment = Toy("fpl").build(rounds=2)
    first, second = experiment.play(None)
    parameters = experiment.task.parameter_count(0)
    classes = sum(count > 0 for client in COUNTS for count in client)
    assert first["up"]["params"] == len(COUNTS) * parameters + classes * EMBEDDING
    assert first["down"]["params"] == len(COUNTS) * parameters
    rows = (second["down"]["params"] / len(COUNTS) - parameters) / EMBEDDING
    assert rows == int(rows) >= 4
    assert first["up"]["meta_bytes"] == 8 * classes


def test_presets():
    paper = resolve({"method": "fpl", "preset": "paper"})
    assert paper.make_method() == FPL(tau=0.02, pull="sum")
    assert (paper.train.lr, paper.train.momentum, paper.train.weight_decay) == (0.01, 0.9, 1e-5)
    assert (paper.train.batch_size, paper.train.epochs) == (64, 10)
    official = resolve({"method": "fpl", "preset": "official"}).make_method()
    assert official == FPL(tau=0.02, pull="mean", proto_pass="running", stale="drop")


@pytest.mark.parametrize("options", [{"tau": 0}, {"pull": "max"}, {"stale": "cache"}, {"level": 2}])
def test_wrong_options(options):
    with pytest.raises(ConfigError, match=f"fpl: {next(iter(options))}"):
        resolve({"method": "fpl", "options": options})


@pytest.mark.parametrize("models", ["mlp", "norm"])
@pytest.mark.parametrize("preset", ["paper", "official"])
def test_vmap(models, preset):
    check_vmap(Toy("fpl", settings={"preset": preset}, models=models))


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=lambda t: "-".join(t.options.values()))
def test_variants(toy, check):
    check(toy)


@pytest.mark.thorough
@pytest.mark.parametrize("check", [c for c in CHECKS if c is not learns], ids=lambda c: c.__name__)
def test_defaults(check):
    check(Toy("fpl", settings={"lr": 0.01}))

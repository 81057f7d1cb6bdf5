"""The Python interface: `protofed.run`, and `protofed.federate` with modules and data of one's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import protofed
from protofed import Client, Model, ProtofedError
from protofed.core.errors import ConfigError, DataError
from protofed.runs.directory import RunDir
from protofed.runs.outcome import Outcome

QUICK = {"rounds": 3, "epochs": 1, "lr": 0.05, "engine": "sequential"}


class Pair(nn.Module):
    """A user's own network: forward gives (embedding, logits)."""

    def __init__(self, width: int = 8, outputs: int = 3):
        super().__init__()
        self.first, self.second = nn.Linear(5, width), nn.Linear(width, 4)
        self.last = nn.Linear(4, outputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.second(self.first(x).relu())
        return z, self.last(z)


def halves(width: int) -> nn.Module:
    return Model(nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 4)), nn.Linear(4, 3))


def data(n: int = 24, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three clear blobs."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    return torch.randn(n, 5, generator=generator) + 4 * torch.eye(3, 5)[y], y


def client(model: nn.Module | None = None, **changes: Any) -> Client:
    torch.manual_seed(1)
    given: dict[str, Any] = {"train": data(24), "test": data(12, 1), **changes}
    return Client(model or Pair(), **given)


# run


def test_run_gives_metrics_state_and_accuracy() -> None:
    result = protofed.run("fedproto", models="mlp", clients=4, rounds=2, engine="sequential")
    assert [record["round"] for record in result.metrics] == [1, 2]
    assert result.state.arrays()["mean"].shape == (10, 32)
    assert result.accuracy() == result.accuracy("gp_local") == result.metrics[-1]["acc"]["gp_local"]["mean"]
    assert result.path is None
    with pytest.raises(ConfigError, match="no accuracy named 'gp'; this run has gp_local, clf, gp_all, lp"):
        result.accuracy("gp")


def test_run_writes_a_directory_that_is_never_overwritten_unasked(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"models": "mlp", "clients": 3, "rounds": 1, "out": tmp_path / "a"}
    result = protofed.run("local", **settings)
    assert result.path == tmp_path / "a"
    assert RunDir.open(tmp_path / "a").summary is not None
    with pytest.raises(ProtofedError, match="already holds a run"):
        protofed.run("local", **settings)
    assert protofed.run("local", **settings, force=True).metrics[0]["acc"] == result.metrics[0]["acc"]


def test_run_takes_options_and_recipes(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('method = "fedproto"\nmodels = "mlp"\nclients = 3\nrounds = 1\n')
    result = protofed.run(tmp_path / "mine.toml", options={"lam": 0.0}, seed=4)
    assert (result.config.method, result.config.options, result.config.seed) == ("fedproto", {"lam": 0.0}, 4)


@pytest.mark.parametrize(
    ("method", "settings", "line"),
    [
        ("fedprot", {}, "unknown method 'fedprot'; did you mean 'fedproto'"),
        ("fedproto", {"roundz": 3}, "unknown setting 'roundz'; did you mean 'rounds'"),
        ("fedproto", {"options": {"lamm": 3}}, "method fedproto: unknown option 'lamm'; did you mean 'lam'"),
        ("none.toml", {}, r"recipe none\.toml: No such file or directory"),
    ],
)
def test_run_names_mistakes(method: str, settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        protofed.run(method, **settings)


# federate


def test_the_trained_models_are_in_the_result() -> None:
    clients = [client(Pair()), client(Pair())]
    result = protofed.federate(clients, "fedproto", **QUICK)
    for one, trained in zip(clients, result.models):
        assert isinstance(trained, Pair)
        assert not torch.equal(one.model.state_dict()["first.weight"], trained.state_dict()["first.weight"])
    x, y = data(12, 1)
    hits = [100 * (model.eval()(x)[1].argmax(1) == y).double().mean() for model in result.models]
    assert result.accuracy("clf") == pytest.approx(float(sum(hits)) / 2)


def test_the_users_modules_change_only_if_asked() -> None:
    model = Pair()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    copied = protofed.federate([client(model)], "fedproto", **QUICK).models[0]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    result = protofed.federate([client(model)], "fedproto", inplace=True, **QUICK)
    assert result.models == [model]
    assert all(torch.equal(tensor, copied.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_training_starts_from_the_modules_weights() -> None:
    """Two clients of one architecture, hardly a step: each keeps its own start."""
    clients = [client(Pair()), client(Pair())]
    with torch.no_grad():
        clients[1].model.first.weight.fill_(7.0)  # type: ignore[union-attr]
    result = protofed.federate(clients, "fedproto", **{**QUICK, "lr": 1e-300})
    for one, trained in zip(clients, result.models):
        assert all(torch.equal(t, trained.state_dict()[n]) for n, t in one.model.state_dict().items())


def test_architectures_may_differ() -> None:
    models = [Pair(8), Pair(16), halves(8), nn.Sequential(halves(6))]
    result = protofed.federate([client(m) for m in models], "fedproto", **{**QUICK, "rounds": 10})
    assert result.accuracy("gp_local") > 60
    assert result.metrics[-1]["up"]["params"] == 4 * 3 * 4


def test_fedavg_gives_everybody_the_same_weights() -> None:
    clients = [client(halves(8)), client(halves(8))]
    one, two = (model.state_dict() for model in protofed.federate(clients, "fedavg", **QUICK).models)
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_loaders_datasets_and_arrays_are_the_same_as_tensors() -> None:
    x, y = data()
    loader: Any = DataLoader(TensorDataset(x, y), batch_size=5)
    arrays: Any = (x.numpy(), y.numpy())
    ends = []
    whole = TensorDataset(x, y)
    twice = Subset(TensorDataset(torch.cat([x, x]), torch.cat([y, y])), range(len(x)))
    for train in ((x, y), loader, arrays, [[x[:10], y[:10]], [x[10:], y[10:]]], whole, twice):
        result = protofed.federate([client(train=train)], "local", **QUICK)
        ends.append(result.models[0].state_dict()["first.weight"])
    assert all(torch.equal(end, ends[0]) for end in ends)


def test_batchnorm_dropout_and_modes_of_the_users_modules_survive() -> None:
    model = Model(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)), nn.Linear(4, 3))
    protofed.federate([client(model)], "fedproto", inplace=True, **QUICK)
    assert isinstance(model.base[2], nn.Dropout)  # type: ignore[index]
    assert model.training
    assert int(model.base[1].num_batches_tracked) == 9  # type: ignore[index]
    assert all(p.requires_grad for p in model.parameters())


def test_frozen_layers_stay_frozen() -> None:
    model = Pair()
    model.first.requires_grad_(False)
    trained = protofed.federate([client(model)], "local", **QUICK).models[0]
    assert isinstance(trained, Pair)
    assert torch.equal(model.first.weight, trained.first.weight)
    assert not trained.first.weight.requires_grad
    assert not torch.equal(model.last.weight, trained.last.weight)


def test_the_number_of_classes_comes_from_the_model_or_from_the_caller() -> None:
    result = protofed.federate([client(Pair(outputs=7))], "fedproto", **QUICK)
    assert result.state.arrays()["mean"].shape == (7, 4)
    names = ["cat", "dog", "cow"]
    assert protofed.federate([client()], "fedproto", classes=names, **QUICK).accuracy() > 50


def test_without_test_samples_there_is_no_accuracy() -> None:
    result = protofed.federate([client(test=None)], "fedproto", **QUICK)
    assert result.metrics[-1]["tested_clients"] == 0
    with pytest.raises(ConfigError, match="no client has test samples"):
        result.accuracy()


def test_precision_of_the_modules_stays() -> None:
    model = Pair()
    trained = protofed.federate([client(model)], "local", dtype="float64", **QUICK).models[0]
    assert {parameter.dtype for parameter in trained.parameters()} == {torch.float32}


class Logits(Pair):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x)[1]


X, Y = data()


@pytest.mark.parametrize(
    ("clients", "line"),
    [
        ([], "federate: no clients were given"),
        (
            [client(Logits())],
            r"model Logits of client 0: forward must return \(embedding, logits\), two tensors; got a ten",
        ),
        ([client(train=(X[:0], Y[:0]))], "client 0: train: no samples"),
        ([client(train=[])], "client 0: train: no samples"),
        ([client(), client(train=(X[:5], Y))], "client 1: train: 5 inputs but 24 labels"),
        ([client(train=(X * float("nan"), Y))], "client 0: train: the inputs hold NaN or infinite values"),
        ([client(train=(X, Y.float()))], "client 0: train: labels must be whole numbers from 0 on"),
        ([client(test=(X, Y - 1))], "client 0: test: labels must be whole numbers from 0 on"),
        ([client(train=(X, Y + 5))], r"label 7 found, but there are 3 classes \(0 to 2\)"),
        (
            [client(train=TensorDataset(X))],
            r"client 0: train: expected \(x, y\) tensors, a Dataset, .*; an item is a list of Tensor",
        ),
        ([client(train=3)], r"client 0: train: expected \(x, y\) tensors, .*; got a int"),
        ([client(train=[{"x": X}])], r"client 0: train: expected .* an item is a dict"),
        (
            [client(train=(X[:, :4], Y), test=None)],
            r"model Pair of client 0: forward fails for an input of shape \[2, 4\]: .* \(test_api.py, line",
        ),
        (
            [client(), client(train=(X[:, :4], Y))],
            r"client 1: train: inputs of shape \[4\] \(.*\), but client 0, which has the same model, trains",
        ),
        (
            [client(), client(Model(nn.Linear(5, 6), nn.Linear(6, 3)))],
            "fedproto needs embeddings of one size, got Pair of client 0: 4, Model of client 1: 6",
        ),
    ],
)
def test_federate_names_mistakes(clients: list[Client], line: str) -> None:
    with pytest.raises((ConfigError, DataError), match=line):
        protofed.federate(clients, "fedproto", **QUICK)


def test_a_module_belongs_to_one_client() -> None:
    model = Pair()
    with pytest.raises(ConfigError, match=r"clients 0 and 1 share 'first.weight', .* give each its own"):
        protofed.federate([client(model), client(model)], **QUICK)


@pytest.mark.parametrize("name", ["data", "partition", "models", "public"])
def test_settings_that_do_not_apply_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"federate: {name} does not apply"):
        protofed.federate([client()], **{name: "x"})


def test_labels_beyond_the_classes_are_named() -> None:
    with pytest.raises(DataError, match=r"label 2 found, but there are 2 classes \(0 to 1\)"):
        protofed.federate([client()], classes=2)


def test_what_is_public() -> None:
    assert [name for name in protofed.__all__ if not hasattr(protofed, name)] == []


README = Path(__file__).parents[1] / "README.md"


def test_the_first_python_block_of_the_readme_runs(tmp_path: Path) -> None:
    block = re.search(r"```python\n(.*?)```", README.read_text() if README.exists() else "", re.DOTALL)
    if block is None:
        pytest.skip("README.md has no Python block yet")
    done = subprocess.run([sys.executable, "-c", block[1]], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_test_before_training(tmp_path):
    """What the first weights reach is part of the first round's record alone, and changes nothing later."""
    settings = {"rounds": 2, "clients": 4, "engine": "sequential", "models": "mlp"}
    plain = protofed.run("local", **settings)
    tested = protofed.run("local", eval_start=True, out=tmp_path / "run", **settings)
    assert ["start" in record for record in tested.metrics] == [True, False]
    assert not any("start" in record for record in plain.metrics)
    assert [r["acc"] for r in tested.metrics] == [r["acc"] for r in plain.metrics]
    start = Outcome.read(tmp_path / "run").start("clf")
    assert 0 <= start < tested.metrics[-1]["acc"]["clf"]["mean"]
    untrained = protofed.run("local", **{**settings, "lr": 1e-12, "rounds": 1})
    assert start == untrained.metrics[-1]["acc"]["clf"]["mean"]

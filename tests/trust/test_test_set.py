"""The user's test set stays one: nobody trains on it unless pool=true asks for that, and then it is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from protofed.cli.main import main
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.data import Dataset, divide, load, partitions
from protofed.data.labels import class_counts
from protofed.experiment import build
from protofed.studies.recipe import load_recipe, recipe_ids
from protofed.studies.reproduce import Selection, plan_reproduction

PER_CLASS, CLASSES = 60, 10
POOLED = (
    "dirichlet",
    "extended_dirichlet",
    "femnist_letters",
    "pathological",
    "power_law",
    "quantity",
    "voc",
)


def data() -> Dataset:
    """Ten letters, 60 rows each, of which the last 15 are test; 5 owners, 3 domains."""
    index = np.arange(PER_CLASS * CLASSES)
    return Dataset(
        name="toy",
        x=index.astype(np.float32)[:, None],
        y=index % CLASSES,
        test=index // CLASSES >= 45,
        classes=tuple("abcdefghij"),
        domain=index // 7 % 3,
        domains=("p", "q", "r"),
        owner=index // 11 % 5,
    )


SPECS = {
    "domain": ("domain", 3),
    "femnist_letters": ("femnist_letters:ways=2,repeat=true", 20),
    "natural": ("natural", 5),
    "nway": ("nway:n=3,k=5", 6),
    "pfllib": ("pfllib", 5),
    "power_law": ("power_law:shots=2", 20),
    "extended_dirichlet": ("extended_dirichlet:n=3,minimum=4", 8),
}


def spec_of(name: str, pool: bool = False) -> tuple[str, int]:
    spec, clients = SPECS.get(name, (name, 8))
    return spec + ("," if ":" in spec else ":") * pool + "pool=true" * pool, clients


@pytest.mark.parametrize("name", sorted(partitions))
def test_nobody_trains_on_the_test_set(name: str) -> None:
    dataset = data()
    spec, clients = spec_of(name)
    split = divide(spec, dataset, clients, 0)
    assert not dataset.test[split.train.values].any()
    assert dataset.test[split.test.values].all()
    assert split.test.sizes.sum() > 0
    for client in range(clients):
        assert not set(split.train[client]) & set(split.test[client])


@pytest.mark.parametrize("name", POOLED)
def test_test_rows_are_dealt_once_in_proportion(name: str) -> None:
    """Of 15 test rows of a class a client with h of its H training rows gets 15·h/H, give or take one."""
    dataset = data()
    spec, clients = spec_of(name)
    split = divide(spec, dataset, clients, 0)
    held, tested = class_counts(dataset, split.train), class_counts(dataset, split.test)
    total = held.sum(axis=0)
    assert len(np.unique(split.test.values)) == len(split.test.values)
    assert tested.sum(axis=0).tolist() == np.where(total > 0, 15, 0).tolist()
    assert (np.abs(tested - 15 * held / np.maximum(1, total)) < 1).all()


@pytest.mark.parametrize("name", POOLED)
def test_pool_merges_both(name: str) -> None:
    dataset = data()
    spec, clients = spec_of(name, pool=True)
    split = divide(spec, dataset, clients, 0)
    assert dataset.test[split.train.values].any()
    for client in range(clients):
        assert not set(split.train[client]) & set(split.test[client])


@pytest.mark.parametrize("name", POOLED)
@pytest.mark.parametrize("pool", [False, True])
def test_few_shots_count_at_each_client(name: str, pool: bool) -> None:
    """per_class of the partition: after the pool and the split, per client and class; test rows stay."""
    dataset = data()
    spec, clients = spec_of(name, pool)
    more = "," if ":" in spec else ":"
    whole, few = (divide(spec + cap, dataset, clients, 0) for cap in ("", f"{more}per_class=3"))
    held = class_counts(dataset, whole.train)
    assert held.max() > 3
    assert class_counts(dataset, few.train).tolist() == np.minimum(3, held).tolist()
    assert few.test.values.tolist() == whole.test.values.tolist()


def test_a_share_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"train=0.5 would have no effect, as toy has a test set; .*pool=true"
    ):
        divide("dirichlet:train=0.5", data(), 4, 0)


def archive(path: Path) -> str:
    """An archive whose inputs tell training (0) from test (1)."""
    y = np.arange(200) % 4
    np.savez(path, x_train=np.zeros((200, 3)), y_train=y, x_test=np.ones((80, 3)), y_test=y[:80])
    return f"npz:{path}"


@pytest.mark.parametrize("name", ["dirichlet:beta=0.5", "pathological:p=2", "quantity", "iid"])
def test_of_a_file_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    dataset = load(archive(tmp_path / "mine.npz"))
    split = divide(name, dataset, 4, 0)
    assert (dataset.x[split.train.values] == 0).all()
    assert (dataset.x[split.test.values] == 1).all()


def test_pooling_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By partition, at the head of a run, in about.json and by show."""
    monkeypatch.chdir(tmp_path)
    pooled = ("--data", "digits:per_class=20", "--clients", "4")
    assert main(["partition", "dirichlet:beta=1,pool=true", *pooled]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = next(line for line in lines if line.startswith("pooled: "))
    assert "training rows are of the test set of digits" in said
    assert any("per_class=20 caps the training set only" in line for line in lines)
    run = ["run", "local", *pooled, "--partition", "dirichlet:beta=1,pool=true", "--models", "mlp"]
    assert main([*run, "--rounds", "1", "--out", "one"]) == 0
    printed = capsys.readouterr()
    assert f"data: {said}" in printed.err.splitlines()
    assert said in json.loads(Path("one", "about.json").read_text())["notes"]
    assert "data: pooled: " in printed.out


def test_rows_that_are_not_used_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Four clients of one class each: six of ten classes are nobody's, with 45 test rows each."""
    assert main(["partition", "pathological:p=1", "--data", "digits", "--clients", "4"]) == 0
    assert "270 of the 450 test rows of digits are not used" in capsys.readouterr().out


@pytest.mark.parametrize("name", [one for one in recipe_ids() if not load_recipe(one).about.costs])
def test_recipes_of_papers_that_pooled_say_so(name: str) -> None:
    """Their rules are printed for merged rows; what the recipes were checked with stays."""
    for plan in plan_reproduction(load_recipe(name), Selection(seeds=1)):
        for one in plan.runs:
            rule = one.config.partition
            assert (rule.split(":")[0] in POOLED) == ("pool=true" in rule), one.row


def test_a_pooled_test_set_is_said_under_tables_and_in_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(120, 5)).astype(np.float32), np.arange(120) % 2
    np.savez("mine.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    small = [
        "--data",
        "npz:mine.npz",
        "--partition",
        "dirichlet:beta=100,pool=true",
        "--clients",
        "2",
        "--models",
        "mlp",
    ]
    small += ["--rounds", "1", "--engine", "sequential"]
    assert main(["compare", "local", "fedavg", *small, "--seeds", "2", "--out", "c", "--quiet"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("data: pooled")]
    assert len(said) == 1
    assert "training rows are of the test set" in said[0]
    assert "data: pooled: " in Path("c/comparison.md").read_text()
    assert main(["run", "local", *small, "--out", "r", "--quiet"]) == 0
    assert main(["show", "r"]) == 0
    assert "data: pooled: " in capsys.readouterr().out
    assert main(["report", "r", "--out", "r.html", "--points", "8", "--quiet"]) == 0
    assert "data: pooled: " in Path("r.html").read_text()


def test_copies_of_training_rows_among_the_test_rows_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of ten test rows are also in the training file: said before anybody believes the accuracy."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    y = np.arange(30) % 2
    np.savez("copies.npz", x_train=x[:20], y_train=y[:20], x_test=x[17:27], y_test=y[17:27])
    built = build(resolve({"method": "local", "data": "npz:copies.npz", "partition": "iid", "clients": 2,
                           "models": "mlp:dim=4"}))  # fmt: skip
    told = [note for note in built.notes() if "same inputs as a training row" in note]
    assert len(told) == 1
    assert told[0].startswith("warning: 3 of 10 test rows")

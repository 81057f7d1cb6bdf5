"""`protofed draw` and `protofed partition --classes`: what is drawn, by hand, and the files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import protofed
from protofed.analysis.one_class import one_class
from protofed.analysis.segmentations import Images, Maps, entropy_maps, shared_images
from protofed.cli.main import main
from protofed.core.errors import ConfigError
from protofed.data import Dataset
from protofed.experiment import Experiment, reopen
from protofed.reports.class_histograms import class_charts
from protofed.reports.clusters import cluster_chart
from protofed.reports.entropy_grid import draw_grid, marks, scale
from protofed.runs.directory import RunDir

pytest.importorskip("matplotlib")
SMALL = {"rounds": 1, "clients": 2, "epochs": 1, "engine": "sequential", "models": "mlp", "partition": "iid"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "fedplcc"
    protofed.run("fedplcc", data="digits:per_class=20", out=folder, **SMALL)
    return folder


@pytest.fixture(scope="module")
def experiment(run: Path) -> Experiment:
    return reopen(RunDir.open(run))


def test_one_class_with_its_clusters(experiment: Experiment) -> None:
    """20 samples of class 3, all at two clients; the clusters of each count its samples, and the server's
    weights, shares of the class, sum to 1."""
    found = one_class(experiment, 3, most=1000)
    assert len(found.samples.rows) == 20
    for client in (0, 1):
        own = sum(w for c, w in zip(found.local.client, found.local.weight) if c == client)
        assert own == found.samples.client.count(client)
    assert sum(found.shared.weight) == pytest.approx(1)
    assert set(found.shared.client) == {-1}
    assert len(one_class(experiment, 3, most=6).samples.rows) == 6
    with pytest.raises(ConfigError, match="class: 10 is none of 0 to 9"):
        one_class(experiment, 10, 5)


TWO = {0: "client 0", 1: "client 1"}
PARTS = ("train", "test")


def test_areas_are_weights(experiment: Experiment) -> None:
    found = one_class(experiment, 3, most=10)
    samples, local, shared = cluster_chart("c", "run", found, TWO).series[:3]
    assert [len(part.x) for part in (samples, local, shared)] == [len(part.rows) for part in found]
    assert list(shared.sizes) == [w / max(found.shared.weight) for w in found.shared.weight]
    assert not samples.sizes


def test_colours_are_the_clients_of_the_legend(experiment: Experiment) -> None:
    """The place among a figure's clients is the colour: 13 before 0 and 1, so these have the second and the
    third. Of eleven, two have the same: none is named, and the caption says why."""
    found = one_class(experiment, 3, most=10)
    chart = cluster_chart("c", "run", found, {13: "client 13", **TWO})
    samples, local, shared, *named = chart.series
    for part, of in ((samples, found.samples), (local, found.local)):
        assert part.fields == {"client": [client + 1 for client in of.client]}
    assert shared.colour == "ink"
    legend = [("client 13", "k0"), ("client 0", "k1"), ("client 1", "k2")]
    assert [(one.label, one.colour) for one in named] == legend
    assert chart.note == "run"
    many = cluster_chart("c", "run", found, {client: f"client {client}" for client in range(11)})
    assert len(many.series) == 3
    assert many.note == "run\none colour per client; after 10 clients they repeat"


def test_clients_are_named_by_their_domain(run: Path, tmp_path: Path) -> None:
    """A client for each of two domains; beside a run without domains, numbers alone stand for both."""
    x, y = np.random.default_rng(0).random((20, 8), dtype=np.float32), np.arange(20) % 2
    domain = np.repeat(["photo", "sketch"], 10)
    train, test = ({f"{n}_{part}": v for n, v in zip(("x", "y", "domain"), (x, y, domain))} for part in PARTS)
    np.savez(tmp_path / "domains.npz", **train, **test)
    own, drawn = tmp_path / "own", tmp_path / "clusters.svg"
    settings = {**SMALL, "data": f"npz:{tmp_path / 'domains.npz'}", "partition": "domain"}
    protofed.run("fedplcc", out=own, **settings)
    assert main(["draw", "clusters", str(own), "--class", "1", "-o", str(drawn)]) == 0
    text = drawn.read_text()
    assert [text.count(f">client {name}</text>") for name in ("0 (photo)", "1 (sketch)")] == [1, 1]
    assert main(["draw", "clusters", str(own), str(run), "--class", "1", "-o", str(drawn)]) == 0
    text = drawn.read_text()
    assert [text.count(f">{name}</text>") for name in TWO.values()] == [1, 1]
    assert "photo" not in text


class Fixed:
    """Features: two channels of 1 on a 2×2 map. Logits: class 0 on the left, unsure on the right."""

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.zeros(len(x), 2, 4, 4)
        logits[:, 0, :, :2] = 100
        return torch.ones(len(x), 2, 2, 2), logits


def test_maps_by_hand() -> None:
    """Left: a sure pixel has entropy 0; right: two equal classes, log 2. Two equal channels: log 2."""
    maps = entropy_maps(Fixed(), torch.zeros(3, 3, 4, 4))  # type: ignore[arg-type]
    assert maps.classes.eq(0).all()
    assert maps.softmax[:, :, :2].abs().max() < 1e-6
    assert torch.allclose(maps.softmax[:, :, 2:], torch.tensor(math.log(2)))
    assert torch.allclose(maps.features, torch.tensor(math.log(2)).expand(3, 4, 4))
    flat = lambda x: (torch.zeros(1, 2), torch.zeros(1, 3))  # noqa: E731
    with pytest.raises(ConfigError, match="need a segmentation model"):
        entropy_maps(flat, torch.zeros(1, 3, 4, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize("channels", [1, 3])
def test_the_grid(tmp_path: Path, channels: int) -> None:
    """Two runs and the images: three columns; two images: six rows, and bars below. One scale for both runs,
    from 0 to 1 + log 2; features have log 2 everywhere."""
    images = Images(torch.rand(2, channels, 4, 4), torch.tensor([[[0, 1, 1, -1]] * 4] * 2))
    one = entropy_maps(Fixed(), images.x)  # type: ignore[arg-type]
    two = Maps(one.classes, one.softmax + 1, one.features)
    path = draw_grid(images, {"a": one, "b": two}, tmp_path / "maps.png")
    width, height = (int.from_bytes(path.read_bytes()[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (round(200 * (3 * 1.3 + 0.4)), round(200 * (6 * 1.3 + 0.4 + 0.6)))
    text = draw_grid(images, {"a": one, "b": two}, tmp_path / "maps.svg").read_text()
    said = ("0.00", "0.85", "1.69", "softmax entropy (nats)", "0.6931", "feature entropy (nats)")
    assert [text.count(f">{words}</text>") for words in said] == [1] * 6
    assert scale("softmax", {"a": one, "b": two}) == pytest.approx((0, 1 + math.log(2)), abs=1e-6)


FAMILY = """
from dataclasses import dataclass
from torch import nn
from protofed.models.base import Family, Model, families

@families.register("flat_masks")
@dataclass(frozen=True)
class FlatMasks(Family):
    def build(self, shape, num_classes):
        base = nn.Sequential(nn.Conv2d(shape[0], 4, 3, padding=1), nn.ReLU())
        return Model(base, nn.Conv2d(4, num_classes, 1))
"""


def test_entropy_maps_of_two_runs_on_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A square of class 1 on every image; a column for each run, three pictures of each image."""
    draw = np.random.default_rng(0)
    x, y = draw.random((24, 1, 8, 8), dtype=np.float32), np.zeros((24, 8, 8), int)
    y[:, 2:6, 2:6] = 1
    data = tmp_path / "masks.npz"
    np.savez(data, x_train=x[:16], y_train=y[:16], x_test=x[16:], y_test=y[16:])
    (tmp_path / "family.py").write_text(FAMILY)
    settings = {**SMALL, "models": "flat_masks", "imports": [str(tmp_path / "family.py")], "batch_size": 4}
    for name in ("one", "two"):
        protofed.run("fedavg", data=f"npz:{data}", out=tmp_path / name, **settings)
    drawn = tmp_path / "entropy.svg"
    runs = [str(tmp_path / name) for name in ("one", "two")]
    assert main(["draw", "entropy", *runs, "--images", "2", "-o", str(drawn)]) == 0
    text = drawn.read_text()
    assert [text.count(f">{name}</text>") for name in ("one", "two", "softmax entropy")] == [1, 1, 2]
    assert f"drawn: {drawn}" in capsys.readouterr().err
    assert main(["draw", "entropy", *runs, "--client", "7"]) != 0
    assert "--client: one has no client 7; its last is 1" in capsys.readouterr().err


def test_numbers_of_a_scale() -> None:
    """So many digits that ends differ; what is below zero by rounding is zero; one number stands alone."""
    assert marks(-1e-9, 1.1) == ([-1e-9, 0.55 - 5e-10, 1.1], ["0.00", "0.55", "1.10"])
    assert marks(0.69, 0.693)[1] == ["0.6900", "0.6915", "0.6930"]
    assert marks(0.5, 0.5) == ([0.5], ["0.5000"])
    assert marks(math.nan, math.nan)[1] == ["nan"]


def test_runs_without_masks_are_refused(experiment: Experiment) -> None:
    with pytest.raises(ConfigError, match="has no masks; choose runs on segmentation data"):
        shared_images([experiment], 1)


def test_classes_of_clients() -> None:
    """Clients with 1, 2 and 2 of three classes; the background of masks is none of them."""
    counts = np.array([[5, 0, 0], [1, 2, 0], [0, 3, 3]])
    data = Dataset("d", np.zeros((1, 2)), np.zeros(1, int), np.zeros(1, bool), ("a", "b", "c"))
    by_client, histogram, mixes = class_charts(data, counts)
    assert list(by_client.series[0].y) == [1, 2, 2]
    assert [name.label for name in histogram.x.names] == ["1", "2"]
    assert list(histogram.series[0].y) == [1, 2]
    assert [list(one.sizes) for one in mixes.series] == [[5, 1], [2, 3], [3]]
    masks = Dataset("d", np.zeros((1, 2)), np.zeros((1, 2, 2), int), np.zeros(1, bool), ("bg", "b", "c"))
    assert list(class_charts(masks, counts)[0].series[0].y) == [0, 1, 2]


def test_the_commands(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, classes = tmp_path / "clusters.svg", tmp_path / "classes.svg"
    assert main(["draw", "clusters", str(run), "--class", "1", "--points", "20", "-o", str(drawn)]) == 0
    text = drawn.read_text()
    assert [text.count(f">{name}</text>") for name in ("global prototypes", *TWO.values())] == [1, 1, 1]
    assert "fedplcc, class 1" in text
    assert main(["partition", "dirichlet:beta=0.5", "--clients", "5", "--classes", str(classes)]) == 0
    assert "clients by classes" in classes.read_text()
    capsys.readouterr()
    for words, message in {
        ("entropy", str(run)): "digits:per_class=20 has no masks",
        ("clusters", str(run), "--names", "a", "b"): "--names: 2 names for 1 runs",
        ("clusters", str(run), str(run)): "two runs have the same name",
        ("clusters", str(run), "--points", "0"): "--points: must be at least 1, got 0",
        ("clusters", str(run), "-o", "a.txt"): "must end in .png, .svg or .pdf",
    }.items():
        assert main(["draw", *words]) != 0
        assert message in capsys.readouterr().err

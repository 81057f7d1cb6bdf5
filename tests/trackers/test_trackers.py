"""What trackers write. TensorBoard and MLflow are stood in for: what counts is what they are told."""

from __future__ import annotations

import csv
import io
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from protofed.config import resolve
from protofed.core.errors import ConfigError, RunError
from protofed.runs.directory import RunDir
from protofed.trackers import Tracking, open_tracker
from protofed.trackers.base import export, numbers, texts


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Three rounds; the second was not tested."""
    made = RunDir.create(tmp_path / "run", resolve({"seed": 3}).to_dict())
    for r in (1, 2, 3):
        tested = {} if r == 2 else {"acc": {"clf": {"mean": 10.0 * r}}}
        made.append("metrics.jsonl", {"round": r, "train_loss": 1.0 / r, "failed": {}, **tested})
    return made


def test_numbers_and_texts():
    record = {"round": 1, "ok": True, "loss": None, "failed": {"3": "why"}, "acc": {"clf": {"mean": 2.5}}}
    assert numbers(record) == {"round": 1, "acc/clf/mean": 2.5}
    assert texts({"seed": 0, "train": {"lr": 0.1, "clip": None}}) == {
        "seed": "0", "train.lr": "0.1", "train.clip": "None",
    }  # fmt: skip


def test_csv(run: RunDir) -> None:
    export(open_tracker("csv"), run)
    rows = list(csv.DictReader(io.StringIO((run.path / "metrics.csv").read_text())))
    assert [row["acc/clf/mean"] for row in rows] == ["10.0", "", "30.0"]
    assert [row["round"] for row in rows] == ["1", "2", "3"]


def test_parquet(run: RunDir, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export(open_tracker(f"parquet:{tmp_path}/m.parquet"), run)
    table = parquet.read_table(tmp_path / "m.parquet").to_pydict()
    assert table["round"] == [1, 2, 3]
    assert table["acc/clf/mean"] == [10.0, None, 30.0]


def test_a_table_is_written_although_the_run_was_interrupted(run: RunDir) -> None:
    with pytest.raises(KeyboardInterrupt), Tracking([open_tracker("csv")], run):
        raise KeyboardInterrupt
    assert (run.path / "metrics.csv").exists()


def test_a_place_that_cannot_be_written(run: RunDir) -> None:
    with pytest.raises(RunError, match="cannot write"):
        export(open_tracker("csv:/no/such/folder/a.csv"), run)


def test_records_are_passed_on(run: RunDir) -> None:
    seen: list[Any] = []
    with Tracking([], run, seen.append) as follow:
        follow({"round": 1})
    assert seen == [{"round": 1}]


@pytest.mark.parametrize(("kind", "module"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow")])
def test_missing_packages_are_named(kind: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protofed.trackers.base.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"needs {module}: pip install 'protofed\[track\]'"):
        open_tracker(kind)


def test_unknown_kinds() -> None:
    with pytest.raises(ConfigError, match="unknown tracker 'cvs'; did you mean 'csv'"):
        open_tracker("cvs")


# TensorBoard


class Writer:
    made: list[Writer] = []  # noqa: RUF012

    def __init__(self, folder: str, purge_step: int):
        self.folder, self.purge_step = folder, purge_step
        self.scalars: list[tuple[str, float, int]] = []
        self.texts: dict[str, str] = {}
        self.closed = False
        Writer.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def add_text(self, name: str, text: str, step: int) -> None:
        self.texts[name] = text

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr("protofed.trackers.base.find_spec", lambda name: True)
    monkeypatch.setattr(Writer, "made", [])
    return Writer.made


def test_tensorboard_gets_all_scalars(run: RunDir, writers: list[Writer]) -> None:
    export(open_tracker("tensorboard"), run)
    (writer,) = writers
    assert writer.folder == str(run.path / "tensorboard")
    assert ("acc/clf/mean", 30.0, 3) in writer.scalars
    assert ("train_loss", 0.5, 2) in writer.scalars
    assert "| seed | 3 |" in writer.texts["settings"]
    assert writer.closed


def test_tensorboard_of_a_resumed_run(run: RunDir, writers: list[Writer], tmp_path: Path) -> None:
    """Rounds from 3 on are played again: their older points are purged. Nothing played, nothing opened."""
    with Tracking([open_tracker(f"tensorboard:{tmp_path}/logs")], run) as follow:
        follow({"round": 3, "train_loss": 0.1})
    with Tracking([open_tracker("tensorboard")], run):
        pass
    (writer,) = writers
    assert (writer.folder, writer.purge_step) == (f"{tmp_path}/logs/run", 3)


# MLflow


class Server:
    """Remembers what a client sends."""

    def __init__(self) -> None:
        self.uri: str | None = None
        self.experiments: dict[str, str] = {}
        self.params: dict[str, dict[str, str]] = {}
        self.metrics: dict[str, list[tuple[str, float, int]]] = {}
        self.status: dict[str, str] = {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    space = types.SimpleNamespace

    class Client:
        def __init__(self, uri: str | None):
            found.uri = uri

        def get_experiment_by_name(self, name: str) -> Any:
            known = found.experiments.get(name)
            return space(experiment_id=known) if known else None

        def create_experiment(self, name: str) -> str:
            found.experiments[name] = "7"
            return "7"

        def create_run(self, experiment: str, run_name: str) -> Any:
            name = f"{run_name}-{len(found.params)}"
            found.params[name], found.metrics[name] = {}, []
            return space(info=space(run_id=name))

        def update_run(self, run: str, status: str) -> None:
            found.status[run] = status

        def log_param(self, run: str, name: str, value: str) -> None:
            found.params[run][name] = value

        def log_batch(self, run: str, metrics: list[Any]) -> None:
            found.metrics[run] += [(m.key, m.value, m.step) for m in metrics]

        def set_terminated(self, run: str, status: str) -> None:
            found.status[run] = status

    entities = types.ModuleType("mlflow.entities")
    entities.Metric = lambda key, value, timestamp, step: space(key=key, value=value, step=step)  # type: ignore[attr-defined]
    module = types.ModuleType("mlflow")
    module.MlflowClient = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.setattr("protofed.trackers.base.find_spec", lambda name: True)
    return found


def test_mlflow_gets_settings_and_metrics(run: RunDir, server: Server) -> None:
    export(open_tracker("mlflow:http://127.0.0.1:5000"), run)
    assert server.uri == "http://127.0.0.1:5000"
    assert server.experiments == {"protofed": "7"}
    assert server.params["run-0"]["seed"] == "3"
    assert server.params["run-0"]["train.lr"] == "0.01"
    assert ("acc/clf/mean", 10.0, 1) in server.metrics["run-0"]
    assert server.status == {"run-0": "FINISHED"}


def test_mlflow_of_a_resumed_run_is_one_run(run: RunDir, server: Server) -> None:
    def interrupt(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Tracking([open_tracker("mlflow")], run, interrupt) as follow:
        follow({"round": 1, "train_loss": 1.0})
    assert server.status == {"run-0": "KILLED"}
    with Tracking([open_tracker("mlflow")], run) as follow:
        follow({"round": 2, "train_loss": 0.5})
    assert server.metrics == {"run-0": [("train_loss", 1.0, 1), ("train_loss", 0.5, 2)]}
    assert server.status == {"run-0": "FINISHED"}


def test_a_run_that_was_started_anew_is_a_new_mlflow_run(run: RunDir, server: Server) -> None:
    export(open_tracker("mlflow"), run)
    anew = RunDir.create(run.path, run.config, force=True)
    export(open_tracker("mlflow"), anew)
    assert list(server.params) == ["run-0", "run-1"]

"""What trackers write, read back with the libraries of their kind."""

from __future__ import annotations

import csv
import io
import json
import types
from pathlib import Path
from typing import Any

import pytest

from protofed.config import resolve
from protofed.core.errors import ConfigError, RunError
from protofed.runs.directory import RunDir
from protofed.trackers import Tracker, Tracking, open_tracker
from protofed.trackers.base import export, numbers, texts


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Three rounds, finished; the second was not tested."""
    made = RunDir.create(tmp_path / "run", resolve({"seed": 3}).to_dict())
    for r in (1, 2, 3):
        tested = {} if r == 2 else {"acc": {"clf": {"mean": 10.0 * r}}}
        made.append("metrics.jsonl", {"round": r, "train_loss": 1.0 / r, "failed": {}, **tested})
    made.finish({"rounds": 3})
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
    with pytest.raises(ConfigError, match=rf"tracker {kind} needs {module}: pip install 'protofed\[track\]'"):
        open_tracker(kind)


def test_unknown_kinds() -> None:
    with pytest.raises(ConfigError, match="unknown tracker 'cvs'; did you mean 'csv'"):
        open_tracker("cvs")


class Broken(Tracker):
    """Fails in the moment that it is told to."""

    kind = "broken"

    def begin(self, run: RunDir) -> None:
        self._fail("begin")

    def round(self, record: dict[str, Any]) -> None:
        self._fail("round")

    def end(self, run: RunDir, finished: bool) -> None:
        self._fail("end")

    def _fail(self, moment: str) -> None:
        if self.target == moment:
            raise OSError("no answer\nand much more text")


def test_a_tracker_that_cannot_begin_is_one_line(run: RunDir) -> None:
    with pytest.raises(RunError) as caught, Tracking([Broken("begin")], run, warn=pytest.fail):
        pass
    assert str(caught.value) == "tracker broken:begin: no answer"


@pytest.mark.parametrize("moment", ["round", "end"])
def test_a_tracker_that_fails_later_does_not_cost_the_run(run: RunDir, moment: str) -> None:
    warnings: list[str] = []
    seen: list[Any] = []
    broken = Broken(moment)
    with Tracking([broken, open_tracker("csv")], run, seen.append, warnings.append) as follow:
        follow({"round": 1})
        follow({"round": 2})
    assert warnings == [
        f"tracker broken:{moment}: no answer; the run goes on without it "
        f"(later: `protofed track {run.path} --to broken:{moment}`)"
    ]
    assert len(seen) == 2
    assert (run.path / "metrics.csv").exists()


def test_an_export_that_fails_is_an_error(run: RunDir) -> None:
    with pytest.raises(RunError, match="tracker broken:round: no answer"):
        export(Broken("round"), run)


# TensorBoard


def events(folder: Path) -> Any:
    """What TensorBoard itself reads from a folder."""
    pytest.importorskip("tensorboard", reason="the extra `track` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(folder).Scalars(name)]


@pytest.fixture
def _tensorboard() -> None:
    pytest.importorskip("tensorboard", reason="the extra `track` is not installed")


@pytest.mark.usefixtures("_tensorboard")
def test_tensorboard_gets_all_scalars(run: RunDir) -> None:
    export(open_tracker("tensorboard"), run)
    folder = run.path / "tensorboard"
    assert scalars(folder, "acc/clf/mean") == [(1, 10.0), (3, 30.0)]
    assert scalars(folder, "train_loss")[1] == (2, 0.5)
    (settings,) = events(folder).Tensors("settings/text_summary")
    assert b"| seed | 3 |" in settings.tensor_proto.string_val[0]


@pytest.mark.usefixtures("_tensorboard")
def test_tensorboard_of_a_resumed_run(run: RunDir, tmp_path: Path) -> None:
    """Rounds from 2 on are played again: their older points are purged. Nothing played, nothing opened."""
    tracker = f"tensorboard:{tmp_path}/logs"
    export(open_tracker(tracker), run)
    with Tracking([open_tracker(tracker)], run) as follow:
        follow({"round": 2, "train_loss": 0.25})
    folder = tmp_path / "logs" / run.path.relative_to("/")  # two runs of one name do not meet
    assert scalars(folder, "train_loss") == [(1, 1.0), (2, 0.25)]
    with Tracking([open_tracker("tensorboard")], run):
        pass
    assert not (run.path / "tensorboard").exists()


# MLflow, with a database in a folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mlflow", reason="the extra `track` is not installed")
    return tmp_path_factory.mktemp("mlflow")


def mlflow_run(run: RunDir, store: Path) -> Any:
    from mlflow import MlflowClient

    address = f"sqlite:///{store}/mlflow.db"
    known = json.loads((run.path / "mlflow.json").read_text())[address]
    client = MlflowClient(address)
    found = client.get_run(known)
    assert client.get_experiment(found.info.experiment_id).name == "protofed"
    history = {
        name: [(metric.step, metric.value) for metric in client.get_metric_history(known, name)]
        for name in found.data.metrics
    }
    return types.SimpleNamespace(
        id=known,
        name=found.info.run_name,
        params=found.data.params,
        status=found.info.status,
        history=history,
    )


def test_mlflow_gets_settings_and_metrics(run: RunDir, store: Path) -> None:
    export(open_tracker(f"mlflow:{store}"), run)
    found = mlflow_run(run, store)
    assert (found.name, found.status) == ("run", "FINISHED")
    assert found.params["seed"] == "3"
    assert found.params["train.lr"] == "0.05"
    assert found.history["acc/clf/mean"] == [(1, 10.0), (3, 30.0)]
    assert len(found.history["train_loss"]) == 3


def test_mlflow_of_a_resumed_run_is_one_run(run: RunDir, store: Path) -> None:
    """Interrupted in round 1; the resumed run plays that round again."""

    def interrupt(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    tracker = f"mlflow:{store}"
    with pytest.raises(KeyboardInterrupt), Tracking([open_tracker(tracker)], run, interrupt) as follow:
        follow({"round": 1, "train_loss": 1.0})
    first = mlflow_run(run, store)
    assert first.status == "KILLED"
    with Tracking([open_tracker(tracker)], run) as follow:
        follow({"round": 1, "train_loss": 1.0})
        follow({"round": 2, "train_loss": 0.5})
    found = mlflow_run(run, store)
    assert (found.id, found.status) == (first.id, "FINISHED")
    assert found.history == {"train_loss": [(1, 1.0), (2, 0.5)]}


def test_a_run_handed_over_twice_is_not_doubled(run: RunDir, store: Path) -> None:
    export(open_tracker(f"mlflow:{store}"), run)
    export(open_tracker(f"mlflow:{store}"), run)
    assert len(mlflow_run(run, store).history["train_loss"]) == 3


def test_a_run_that_was_started_anew_is_a_new_mlflow_run(run: RunDir, store: Path) -> None:
    """Also if the new one was not tracked itself; and unfinished, it is not called finished."""
    export(open_tracker(f"mlflow:{store}"), run)
    first = mlflow_run(run, store).id
    run.lock.release()
    anew = RunDir.create(run.path, {**run.config, "seed": 5}, force=True)
    anew.append("metrics.jsonl", {"round": 1, "train_loss": 7.0})
    export(open_tracker(f"mlflow:{store}"), anew)
    found = mlflow_run(anew, store)
    assert found.id != first
    assert (found.params["seed"], found.status) == ("5", "KILLED")
    assert found.history == {"train_loss": [(1, 7.0)]}


def test_a_run_can_go_to_two_places(run: RunDir, store: Path) -> None:
    for folder in (store, store / "other", store):
        export(open_tracker(f"mlflow:{folder}"), run)
    first, second = mlflow_run(run, store), mlflow_run(run, store / "other")
    assert first.id != second.id
    assert first.history == second.history


def test_an_mlflow_server_that_is_not_there(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="the extra `track` is not installed")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RunError, match=r"^tracker mlflow:http://127\.0\.0\.1:9: .*refused") as caught:
        export(open_tracker("mlflow:http://127.0.0.1:9"), run)
    assert "\n" not in str(caught.value)

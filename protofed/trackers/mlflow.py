"""Parameters and metrics for MLflow, one step a round (extra `track`).

`mlflow:URI` names the tracking server or folder; without it MLflow's own default holds. All runs go into
the experiment "protofed". A resumed run goes on in the same MLflow run, whose id is in RUN/mlflow.json.
"""

from __future__ import annotations

import time
from typing import Any

from ..runs.directory import RunDir
from ..runs.files import read_json, write_json
from .base import Record, Tracker, numbers, texts

EXPERIMENT = "protofed"
LONGEST = 500  # characters of a parameter that every MLflow server takes


class Mlflow(Tracker):
    """mlflow[:URI]"""

    needs = ("mlflow", "track")

    def begin(self, run: RunDir) -> None:
        from mlflow import MlflowClient

        self._client: Any = MlflowClient(self.target or None)
        known = run.path / "mlflow.json"
        if known.exists() and run.lines("metrics.jsonl"):  # without lines it was started anew
            self._id = str(read_json(known)["run_id"])
            self._client.update_run(self._id, status="RUNNING")
            return
        self._id = self._client.create_run(self._experiment(), run_name=run.path.name).info.run_id
        write_json(known, {"run_id": self._id})
        for name, value in texts(run.config).items():
            self._client.log_param(self._id, name, value[:LONGEST])

    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        return str(found.experiment_id if found else self._client.create_experiment(EXPERIMENT))

    def round(self, record: Record) -> None:
        from mlflow.entities import Metric

        values = numbers(record)
        step, now = int(values.pop("round")), int(1000 * time.time())
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def end(self, run: RunDir, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")

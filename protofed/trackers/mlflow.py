"""Parameters and metrics for MLflow, one step a round (extra `track`).

`mlflow:URI` names the tracking server or database, `mlflow:DIR` a folder, which gets the database mlflow.db;
without either MLflow's own default holds. All runs go into the experiment "protofed". A resumed run goes on
in the same MLflow run, whose id is in RUN/mlflow.json for each address; rounds that MLflow has are not sent
again.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from ..runs.directory import RunDir
from ..runs.loose import read_loose, write_loose
from ..runs.records import RoundRecord
from .base import Tracker, numbers, texts

EXPERIMENT = "protofed"
LONGEST = 500  # characters of a parameter that every MLflow server takes
RETRIES = "3"  # MLflow's own seven hold up a run for minutes when the server is gone


class Mlflow(Tracker):
    """mlflow[:URI or DIR]"""

    kind = "mlflow"
    needs = ("mlflow", "track")

    def begin(self, run: RunDir) -> None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", RETRIES)
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):  # the steps of making a database are no news to the user
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client: Any = MlflowClient(self._address())
        self._sent: set[int] = set()
        file = run.path / "mlflow.json"
        known = read_loose(file) if file.exists() else {}
        address = str(self._client.tracking_uri)
        if address in known:
            self._id = str(known[address])
            self._client.update_run(self._id, status="RUNNING")
            self._sent = self._steps()
            return
        name = run.path.resolve().name
        self._id = self._client.create_run(self._experiment(), run_name=name).info.run_id
        write_loose(file, {**known, address: self._id})
        for name, value in texts(run.config).items():
            self._client.log_param(self._id, name, value[:LONGEST])

    def _address(self) -> str | None:
        if not self.target or ":" in self.target or self.target == "databricks":
            return self.target or None
        folder = Path(self.target).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{folder}/mlflow.db"

    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        return str(found.experiment_id if found else self._client.create_experiment(EXPERIMENT))

    def _steps(self) -> set[int]:
        names = self._client.get_run(self._id).data.metrics
        return {metric.step for name in names for metric in self._client.get_metric_history(self._id, name)}

    def round(self, record: RoundRecord) -> None:
        from mlflow.entities import Metric

        values = numbers(record)
        step, now = int(values.pop("round")), int(1000 * time.time())
        if step in self._sent:
            return
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def end(self, run: RunDir, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")

"""Scalars for TensorBoard, one step a round (extra `track`): `tensorboard --logdir RUN/tensorboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.directory import RunDir
from ..runs.records import RoundRecord
from .base import Tracker, numbers, texts


class TensorBoard(Tracker):
    """tensorboard[:DIR]; under DIR each run has a folder of its own, named by its path."""

    kind = "tensorboard"
    needs = ("tensorboard", "track")

    def begin(self, run: RunDir) -> None:
        path = run.path.resolve()
        name = path.relative_to(Path.cwd() if path.is_relative_to(Path.cwd()) else path.anchor)
        self._folder = Path(self.target) / name if self.target else run.path / "tensorboard"
        self._settings = texts(run.config)
        self._writer: Any = None

    def round(self, record: RoundRecord) -> None:
        values = numbers(record)
        step = int(values.pop("round"))
        if self._writer is None:
            self._writer = self._open(step)
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def _open(self, step: int) -> Any:
        """A resumed run repeats the rounds after its checkpoint: their old points are purged."""
        from torch.utils.tensorboard import SummaryWriter

        writer: Any = SummaryWriter(str(self._folder), purge_step=step)
        rows = "\n".join(f"| {name} | {value} |" for name, value in self._settings.items())
        writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}", step)
        return writer

    def end(self, run: RunDir, finished: bool) -> None:
        if self._writer is not None:
            self._writer.close()

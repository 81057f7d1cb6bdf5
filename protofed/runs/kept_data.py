"""What predictions will need of the training data, written when a run begins: none of it holds a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.data import ClientData
from ..core.task import Task
from ..data import Dataset, Split
from ..data.federated import OwnData
from ..data.inputs import FLOATS, WHOLE, InputRule
from ..data.merged import Merged
from .class_counts import count_rows, write_counts
from .input_rules import store_rules, write_rules


def keep_data(
    folder: Path, task: Task, data: ClientData, dataset: Dataset | None, split: Split | None
) -> None:
    """How inputs are made and how many samples of each class clients have. Where the samples lie elsewhere,
    nothing is known of them."""
    if dataset is not None and split is not None:
        write_rules(folder, dataset, split)
    elif (own := _own(data)) is not None:
        rules = [_as_given(own, task, group) for group in range(len(task.groups))]
        store_rules(folder, rules, task.group_index.tolist())
    else:
        return
    write_counts(folder, count_rows(data, task.C))


def input_shapes(
    task: Task, data: ClientData, dataset: Dataset | None
) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """Shape of one input for each group of clients, and whether labels are masks; no shapes where the samples
    lie elsewhere."""
    if dataset is not None:
        return (dataset.shape,) * len(task.groups), dataset.dense
    own = _own(data)
    if own is None:
        return (), False
    shapes = tuple(_as_given(own, task, group).shape for group in range(len(task.groups)))
    return shapes, own.train(0).y.ndim > 1


def _own(data: ClientData) -> OwnData | None:
    data = data.parts if isinstance(data, Merged) else data
    return data if isinstance(data, OwnData) else None


def _as_given(data: OwnData, task: Task, group: int) -> InputRule:
    """Samples that the user brings are taken as they are."""
    x = data.train(int(np.argmax(task.group_index == group))).x
    return InputRule(tuple(x.shape[1:]), FLOATS if x.is_floating_point() else WHOLE)

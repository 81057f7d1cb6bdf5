"""What a client was tested with last, kept in its own folder: its state, what came down, and how many samples
of each class it trains on. With these its model is used after the run, where neither server nor data is.

    <state>/<experiment>/<client>/tested.dat     tensors in a safetensors file, with a checksum behind it
    <state>/<experiment>/<client>/inputs.json    how raw samples become inputs
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from ..core.answer import ClientState
from ..core.checksums import add_checksum, strip_checksum
from ..core.data import LocalData
from ..core.errors import RunError
from ..core.record import Tree
from ..core.tensor_file import of_bytes, to_bytes
from ..data.inputs import InputRule
from ..engines.base import Job
from ..ops.trees import put, under
from ..runs.files import write_atomic
from ..runs.input_rules import store_rules

FILE = "tested.dat"


class LastTest(NamedTuple):
    """The round, the download as flat arrays, the client's state, and its samples [C] of each class."""

    round: int
    down: Tree
    state: ClientState
    counts: Tensor


def keep_tested(folder: Path, job: Job, state: ClientState | None, train: LocalData, rule: InputRule) -> None:
    """Write what this test is made with."""
    own, task = state or ClientState(), job.turn.task
    counts = train.counts(task.C)
    numbers = {"round": torch.tensor(job.turn.round), "counts": counts}
    arrays = {**put("down/", job.down.arrays()), **put("kept/", own.kept), **put("mem/", own.mem), **numbers}
    folder.mkdir(parents=True, exist_ok=True)
    store_rules(folder, [rule], [])
    write_atomic(folder / FILE, add_checksum(to_bytes(arrays), folder.name))


def read_tested(folder: Path) -> LastTest:
    """What the last test was made with."""
    path = folder / FILE
    if not path.exists():
        raise RunError(f"{folder}: this client has not been tested yet: there is no model to use")
    try:
        arrays = of_bytes(strip_checksum(path.read_bytes(), path, folder.name))
        state = ClientState(under("kept/", arrays), under("mem/", arrays))
        return LastTest(int(arrays["round"]), under("down/", arrays), state, arrays["counts"])
    except (OSError, SafetensorError, KeyError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error

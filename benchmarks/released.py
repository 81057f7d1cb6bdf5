"""The released code of FedProto and of HtFLlib as contenders, from a checkout that the user names.

Nothing of it is part of this repository. `--fedproto PATH` and `--htfllib PATH` name folders with a clone; it
is imported there, in a process of its own, and is told when to train and when to test by functions put around
its own (`released_fedproto.py`, `released_htfllib.py`). Its loops, its loading of data and its tests run as
they were released, on the samples of our clients, which are written for it in the files that it reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protofed.core.errors import ConfigError
from protofed.experiment import Experiment

from .child import Child

HTCNN8 = [  # FedTGP's eight networks, as HtFLlib writes models
    f"CNN(num_cov={convolutions}, hidden_dims={hidden})"
    for hidden in ([], [512], [1024], [1024, 512])
    for convolutions in (1, 2)
]
IDX_IMAGES, IDX_LABELS = 0x803, 0x801  # first bytes of the files in which MNIST is published


@dataclass(frozen=True)
class Released:
    """Code that somebody else has released, and how to know a checkout of it."""

    option: str
    title: str
    files: tuple[str, ...]
    module: str


RELEASED = {
    "fedproto": Released(
        "--fedproto",
        "FedProto's released code",
        ("exps/federated_main.py", "lib/options.py", "lib/update.py", "lib/utils.py", "lib/models/models.py"),
        "benchmarks.released_fedproto",
    ),
    "htfllib": Released(
        "--htfllib",
        "HtFLlib",
        (
            "system/flcore/servers/servertgp.py",
            "system/flcore/servers/serverproto.py",
            "system/flcore/clients/clientbase.py",
            "system/utils/data_utils.py",
        ),
        "benchmarks.released_htfllib",
    ),
}


def check(name: str, path: Path) -> Path:
    """The checkout, if it is one and can be imported: found out before anything is timed."""
    which = RELEASED[name]
    lacking = [file for file in which.files if not (path / file).is_file()]
    if lacking:
        raise ConfigError(
            f"{which.option}: {path} is no checkout of {which.title}: it has no {lacking[0]}; name the "
            "folder into which you cloned it"
        )
    Child(f"{which.option} {path}", which.module, [json.dumps({"path": str(path.resolve())})]).close()
    return path.resolve()


def start_released(name: str, path: Path, experiment: Experiment, folder: Path) -> Child:
    """Its process, ready for a first round with the clients of the experiment; `folder` is for its files."""
    which, task = RELEASED[name], experiment.task
    work = folder / f"{name}-{experiment.config.method}" / "here"  # it writes beside where it runs, too
    work.mkdir(parents=True)
    settings = {
        "path": str(path),
        "clients": task.clients,
        "classes": task.C,
        "batch_size": task.batch_size,
        "epochs": task.epochs,
        "lr": task.opt.lr,
    }
    if name == "fedproto":
        settings |= _as_mnist(experiment, work.parent / "data" / "mnist" / "MNIST" / "raw")
        environment, title = {}, which.title
    else:
        settings |= {"method": experiment.config.method, "models": HTCNN8, "dim": task.D}
        settings |= {"lam": float(getattr(task.algorithm, "lam", 1.0)), "data": "bench"}
        _as_npz(experiment, work.parent / "dataset" / "bench")
        # its models are pickles, which torch since 2.6 reads on request alone
        environment = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
        title = f"{which.title} {'FedTGP' if experiment.config.method == 'fedtgp' else 'FedProto'}"
    argv = [json.dumps(settings)]
    return Child(f"{title}, 1 process", which.module, argv, work, environment, tests=True)


def _as_mnist(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """Samples of all clients as the files of MNIST, client after client; where each client's lie."""
    dataset, split = experiment.dataset, experiment.split
    assert dataset is not None
    assert split is not None
    folder.mkdir(parents=True)
    found: dict[str, Any] = {"own": [np.unique(dataset.y[rows]).tolist() for rows in split.train]}
    for part, start, clients in (("train", "train", split.train), ("test", "t10k", split.test)):
        rows = np.concatenate(list(clients))
        images, labels = dataset.x[rows], dataset.y[rows]
        (folder / f"{start}-images-idx3-ubyte").write_bytes(_idx(IDX_IMAGES, images[:, 0]))
        (folder / f"{start}-labels-idx1-ubyte").write_bytes(_idx(IDX_LABELS, labels))
        ends = np.cumsum([len(one) for one in clients]).tolist()
        found[part] = list(zip([0, *ends[:-1]], ends))
    return found


def _idx(kind: int, values: np.ndarray) -> bytes:
    """Bytes with the header of an IDX file."""
    header: Sequence[int] = (kind, *values.shape)
    return b"".join(number.to_bytes(4, "big") for number in header) + values.astype(np.uint8).tobytes()


def _as_npz(experiment: Experiment, folder: Path) -> None:
    """Samples of each client, as HtFLlib's own generators write them."""
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        for client in range(experiment.task.clients):
            own = getattr(experiment.data, part)(client)
            samples = {"x": own.x.contiguous().numpy(), "y": own.y.numpy()}
            np.savez(folder / part / f"{client}.npz", data=np.array(samples, dtype=object))

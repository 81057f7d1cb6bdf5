"""The workloads: the settings of the papers, one each; W2 also with FedProto.

Real data where PROTOFED_DATA has it, else random images of the same shape and number. W2 to W4 are cut
short, W2 to at most 80 images of a class at each client, W3 and W4 to fewer local epochs, so that a turn of
the slowest loop takes seconds: epochs and images repeat the same work. The cut counts against us where a cost
is there once a round, such as FedTGP's server step. W2 has the mathematics of HtFLlib's code, so that this
can be put beside it. Preset, epochs, batch size, lr and momentum are all written down: what
is timed does not change with the package's defaults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protofed.config import Config, resolve
from protofed.core.errors import ConfigError, unknown


@dataclass(frozen=True)
class Workload:
    """A setting to time. `needs` is the file under PROTOFED_DATA without which data is made up."""

    name: str
    title: str
    needs: str
    settings: Mapping[str, Any]
    stand_in: Mapping[str, Any]
    shape: tuple[int, ...]
    rows: int
    few: int  # rows of a trial that only shows that it works


_W2 = {  # few shots, so that a turn of the slowest takes seconds: 5,687 images, and all tests
    "data": "fashion_mnist",
    "partition": "dirichlet:beta=0.1,pool=true,per_class=80",
    "models": "htcnn8",
    "clients": 20,
    "epochs": 1,
    "batch_size": 10,
    "lr": 0.01,
    "momentum": 0.0,
}
WORKLOADS = {
    w.name: w
    for w in (
        Workload(
            "w1",
            "FedProto's setting: 20 clients, 3-way 100-shot MNIST, small CNN, batch 8, 1 local epoch",
            "mnist.npz",
            {
                "method": "fedproto",
                "preset": "paper",
                "data": "mnist",
                "partition": "nway:n=3,stdev=2,k=100",
                "models": "fp_cnn",
                "clients": 20,
                "epochs": 1,
                "batch_size": 8,
                "lr": 0.01,
                "momentum": 0.5,
            },
            {"partition": "nway:n=3,stdev=2,k=100"},
            (1, 28, 28),
            30_000,
            240,
        ),
        Workload(
            "w2",
            "FedTGP's setting: 20 clients, Fashion-MNIST Dirichlet 0.1, 80 a class, eight CNNs, batch 10",
            "fashion_mnist.npz",
            {"method": "fedtgp", "preset": "official", **_W2},
            {},
            (1, 28, 28),
            70_000,
            120,
        ),
        Workload(
            "w2p",
            "the same with FedProto, as the baseline of FedTGP's paper",
            "fashion_mnist.npz",
            {"method": "fedproto", "preset": "tgp", **_W2},
            {},
            (1, 28, 28),
            70_000,
            120,
        ),
        Workload(
            "w3",
            "FedPLCC's setting: 5 domains of digits, ResNet10, batch 32, 3 local epochs (of 10)",
            "digit5",
            {
                "method": "fedplcc",
                "preset": "paper",
                "data": "digit5",
                "partition": "domain:m=30",
                "models": "resnet10_plcc",
                "clients": 5,
                "epochs": 3,
                "batch_size": 32,
                "lr": 0.01,
                "momentum": 0.9,
            },
            {"partition": "iid"},
            (3, 32, 32),
            2_000,
            24,
        ),
        Workload(
            "w4",
            "ProtoMargin's setting: 1,000 MNIST clients, 10 a round, 4 local epochs (of 20), large CNN",
            "mnist.npz",
            {
                "method": "fedproto_margin",
                "preset": "paper",
                "data": "mnist",
                "partition": "power_law:pool=true",
                "models": "margin_cnn",
                "clients": 1000,
                "sample": 10,
                "epochs": 4,
                "batch_size": 10,
                "lr": 0.01,
                "momentum": 0.0,
            },
            {"partition": "iid"},
            (1, 28, 28),
            60_000,
            240,
        ),
    )
}


def workload_config(name: str, folder: Path, small: bool = False, **changes: Any) -> tuple[Config, str]:
    """The configuration of a workload and a word about its data; `small` shrinks it for a trial."""
    if name not in WORKLOADS:
        raise ConfigError(unknown("workload", name, WORKLOADS))
    work = WORKLOADS[name]
    settings: dict[str, Any] = {**work.settings, "rounds": 1_000_000, "eval_every": 1_000_000}
    about = "real data"
    if not (Path(os.environ.get("PROTOFED_DATA", "")) / work.needs).exists() or small:
        rows = work.few if small else work.rows
        settings |= {"data": f"npz:{_made_up(work, rows, folder)}", **work.stand_in}
        about = "random images of the same shape"
    if small:
        settings |= {"clients": 4, "partition": "iid", "epochs": 1}
        settings |= {"sample": 2} if "sample" in settings else {}
    return resolve(settings, changes), about


def _made_up(work: Workload, rows: int, folder: Path) -> Path:
    path = folder / f"{work.name}-{rows}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        side = (*work.shape[1:], work.shape[0]) if work.shape[0] > 1 else work.shape[1:]
        x = rng.integers(0, 256, (rows, *side), dtype=np.uint8)
        y = rng.permutation(np.arange(rows) % 10).astype(np.int64)
        cut = rows - rows // 6
        np.savez(path, x_train=x[:cut], y_train=y[:cut], x_test=x[cut:], y_test=y[cut:])
    return path

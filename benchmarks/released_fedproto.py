"""FedProto's released code, in a process of its own: python -m benchmarks.released_fedproto SETTINGS

SETTINGS is JSON from `released.py`; with a path alone the code is only imported. The round loop is the
released one; that it has averaged the prototypes is the sign that a round is over.
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from protofed.core.torchvision_shim import import_torchvision

from .child import run_released, tell, wait_to_go


def load() -> Any:
    """Its main module, which brings its lib/ into the path."""
    import_torchvision()  # also where its compiled part does not fit torch
    return importlib.import_module("federated_main")


def play(released: Any, settings: dict[str, Any]) -> None:
    """Its loop over rounds, held up after each of them."""
    args = _arguments(released, settings)
    data, test_data, rows, test_rows, own, _ = _clients(released, args, settings)
    models = [released.CNNMnist(args=args) for _ in range(args.num_users)]
    samples = (
        sum(len(own_rows) // args.local_bs * args.local_bs for own_rows in rows.values()) * args.train_ep
    )
    average, test = released.proto_aggregation, released.test_inference_new_het_lt

    def round_over(uploads: Any) -> Any:
        protos = average(uploads)
        tell(samples=samples)
        wait_to_go(partial(test, args, models, test_data, own, test_rows, protos))
        return protos

    released.proto_aggregation = round_over
    tell(ready=True)
    wait_to_go(lambda: None)
    released.FedProto_taskheter(args, data, test_data, rows, test_rows, models, own)


def _arguments(released: Any, settings: dict[str, Any]) -> Any:
    """Its own defaults, with the workload's settings."""
    given = {
        "num_users": settings["clients"],
        "num_classes": settings["classes"],
        "local_bs": settings["batch_size"],
        "train_ep": settings["epochs"],
        "lr": settings["lr"],
        "rounds": 10**9,
        "data_dir": f"{Path.cwd().parent / 'data'}/",
    }
    sys.argv = ["federated_main.py", *(word for k, v in given.items() for word in (f"--{k}", str(v)))]
    args = released.args_parser()
    args.device, args.out_channels = "cpu", 20
    return args


def _clients(released: Any, args: Any, settings: dict[str, Any]) -> Any:
    """Its own loading of data, with our clients in place of those that it would draw."""
    loading: Any = importlib.import_module(released.get_dataset.__module__)
    rows = {part: dict(enumerate(range(*ends) for ends in settings[part])) for part in ("train", "test")}
    loading.mnist_noniid = lambda *_: (rows["train"], settings["own"])
    loading.mnist_noniid_lt = lambda *_: rows["test"]
    return released.get_dataset(args, [], [])


if __name__ == "__main__":
    run_released(json.loads(sys.argv[1]), "exps", load, play)

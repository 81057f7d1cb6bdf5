"""HtFLlib's FedTGP or FedProto, in a process of its own: python -m benchmarks.released_htfllib SETTINGS

SETTINGS is JSON from `released.py`; with a path alone the code is only imported. The round loop is the
released one, which tests before it trains: so a call of its test says that the round before is over.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

from protofed.core.torchvision_shim import import_torchvision

from .child import run_released, tell, wait_to_go

SERVERS = {"fedtgp": ("servertgp", "FedTGP"), "fedproto": ("serverproto", "FedProto")}


def load() -> dict[str, Any]:
    """Its servers by our names of the methods."""
    import_torchvision()  # also where its compiled part does not fit torch
    return {
        method: getattr(importlib.import_module(f"flcore.servers.{module}"), name)
        for method, (module, name) in SERVERS.items()
    }


def play(servers: dict[str, Any], settings: dict[str, Any]) -> None:
    """Its loop over rounds, held up at each test."""
    server = servers[settings["method"]](_arguments(settings), 0)
    size = settings["batch_size"]
    samples = sum(client.train_samples // size * size for client in server.clients) * settings["epochs"]
    test, rounds = server.evaluate, 0

    def held_up() -> None:
        nonlocal rounds
        tell(**({"samples": samples} if rounds else {"ready": True}))
        rounds += 1
        wait_to_go(test)

    server.evaluate = held_up
    server.train()


def _arguments(settings: dict[str, Any]) -> argparse.Namespace:
    """What its command line would hold, by the names that it gives them."""
    return argparse.Namespace(
        algorithm=SERVERS[settings["method"]][1],
        dataset=settings["data"],
        models=settings["models"],
        num_clients=settings["clients"],
        num_classes=settings["classes"],
        batch_size=settings["batch_size"],
        local_epochs=settings["epochs"],
        local_learning_rate=settings["lr"],
        feature_dim=settings["dim"],
        lamda=settings["lam"],
        global_rounds=10**9,
        server_epochs=100,
        margin_threthold=100.0,
        device="cpu",
        join_ratio=1.0,
        random_join_ratio=False,
        few_shot=0,
        eval_gap=1,
        auto_break=False,
        top_cnt=100,
        goal="test",
        save_folder_name="temp",
        models_folder_name="",
        client_drop_rate=0.0,
        train_slow_rate=0.0,
        send_slow_rate=0.0,
        time_select=False,
        time_threthold=10_000,
    )


if __name__ == "__main__":
    run_released(json.loads(sys.argv[1]), "system", load, play)

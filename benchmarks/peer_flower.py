"""FedProto on Flower's simulation, with Flower's own messages and its own state of a node.

Run by `benchmarks/peers.py`: python -m benchmarks.peer_flower FOLDER full|small
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

import torch

from protofed.engines.workers import own_cores
from protofed.ops.prototypes import means

from .child import tell, told_to_go
from .peer_client import prototype_sums, train, w1

POLL_SECONDS = 0.01


def main(folder: str, size: str) -> None:
    from protofed.flower.ray_place import ALONE, QUIET

    os.environ.update({**QUIET, **ALONE})
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    for name in ("flwr", "ray"):
        logging.getLogger(name).setLevel(logging.ERROR)
    small = size == "small"
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def act(message: Any, context: Any) -> Any:
        from benchmarks.peer_flower import client

        return client(message, context, folder, small)

    @server_app.main()
    def serve(grid: Any, context: Any) -> None:
        server(grid, folder, small)

    run_simulation(
        server_app,
        client_app,
        w1(folder, small).task.clients,
        backend_config={
            "init_args": {"num_cpus": own_cores(), "log_to_driver": False, "logging_level": logging.ERROR},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


def server(grid: Any, folder: str, small: bool) -> None:
    experiment = w1(folder, small)
    task = experiment.task
    while len(nodes := sorted(grid.get_node_ids())) < task.clients:
        time.sleep(POLL_SECONDS)
    samples = sum(experiment.data.size(client) for client in range(task.clients)) * task.epochs
    sums, counts = torch.zeros(task.C, task.D), torch.zeros(task.C)
    tell(ready=True)
    while told_to_go():
        sums, counts = _round(grid, nodes, means(sums, counts), counts)
        tell(samples=samples)


def _round(
    grid: Any, nodes: list[int], protos: torch.Tensor, counts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

    arrays = ArrayRecord({"protos": protos, "counts": counts})
    asked = []
    for client, node in enumerate(nodes):
        content = RecordDict({"arrays": arrays, "who": ConfigRecord({"client": client})})
        asked.append(Message(content, node, MessageType.TRAIN))
    waiting = [number for number in grid.push_messages(asked) if number]
    sums, total = torch.zeros_like(protos), torch.zeros_like(counts)
    while waiting:
        for reply in grid.pull_messages(waiting):
            waiting.remove(reply.metadata.reply_to_message_id)
            found = reply.content["arrays"].to_torch_state_dict()
            sums += found["sums"]
            total += found["counts"]
        time.sleep(POLL_SECONDS if waiting else 0)
    return sums, total


def client(message: Any, context: Any, folder: str, small: bool) -> Any:
    """One client's round, in a Ray actor. Its model lies in the state that Flower keeps for a node."""
    from flwr.app import ArrayRecord, Message, RecordDict

    experiment = w1(folder, small)
    task, number = experiment.task, int(message.content["who"]["client"])
    model = task.groups[task.group_of(number)].build()
    if "model" in context.state:
        model.load_state_dict(context.state["model"].to_torch_state_dict())
    down = message.content["arrays"].to_torch_state_dict()
    data = experiment.data.train(number)
    train(model, data, down["protos"], down["counts"] > 0, task)
    context.state["model"] = ArrayRecord(model.state_dict())
    sums, counts = prototype_sums(model, data, task.C)
    return Message(RecordDict({"arrays": ArrayRecord({"sums": sums, "counts": counts})}), reply_to=message)


if __name__ == "__main__":
    main(*sys.argv[1:3])

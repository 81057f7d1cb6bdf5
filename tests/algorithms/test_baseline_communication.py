"""Floats that weight-sharing methods send, counted with the papers' models and against printed numbers."""

import pytest
import torch

from protofed.config import resolve
from protofed.core.record import Payload, Weights
from protofed.core.task import Group, Task, Turn
from protofed.experiment import make_task
from protofed.models.groups import assign

MNIST = ("fp_cnn:channels=20", (1, 28, 28), 10)
FEMNIST = ("fp_cnn:channels=20,kernel=3", (1, 28, 28), 62)


def task_of(method: str, options: dict, models: str, shape: tuple[int, ...], classes: int) -> Task:
    choice = assign(models, 20, shape, classes)
    config = resolve({"method": method, "options": options, "clients": 20, "models": models})
    groups = [Group(name, build) for name, build in zip(choice.specs, choice.builders)]
    return make_task(config, config.make_method(), groups, choice.of, shape, tuple(map(str, range(classes))))


def sent(task: Task) -> tuple[Payload, Payload]:
    """Up and down, summed over the clients; records are built without training."""
    method, buffers = task.algorithm, task.names(0).buffers
    state = method.init(task, Turn(task, 0))
    up = down = Payload()
    for client in range(task.clients):
        turn = Turn(task, 1, client=client)
        received = method.broadcast(state, turn)
        reply, _ = method.upload(task.live(0), None, received, {}, None, turn)
        up, down = up + reply.payload(buffers), down + received.payload(buffers)
    return up, down


@pytest.mark.parametrize("method", ["fedper", "fedrep"])
@pytest.mark.parametrize(("setting", "each", "all"), [(MNIST, 5280, 105_600), (FEMNIST, 5120, 102_400)])
def test_fedproto_counts_the_convolutions_of_fedper(method, setting, each, all):
    """First convolution 10·25 + 10 = 260 (FEMNIST 10·9 + 10 = 100), second 20·250 + 20 = 5,020."""
    up, down = sent(task_of(method, {"split": "fc"}, *setting))
    assert up.floats == down.floats == all == 20 * each
    assert up.bytes == 4 * all


def test_the_last_layer_as_head():
    """MNIST: all of 21,840 but the last layer's 50·10 + 10 = 510."""
    up, _ = sent(task_of("fedper", {}, *MNIST))
    assert up.floats == 20 * (21_840 - 510)


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedatt", "fedopt"])
def test_whole_models(method):
    """FedProto's CNN for MNIST: 21,840 parameters a client and direction."""
    up, down = sent(task_of(method, {}, *MNIST))
    assert up.floats == down.floats == 20 * 21_840


def test_lg_fedavg_on_htfe8():
    """Cifar100, 20 clients, FedTGP's eight architectures with embeddings of 512: every head has
    512·100 + 100 = 51,300 numbers; 20 clients and both directions make 2,052,000."""
    method = resolve({"method": "lg_fedavg"}).make_method()
    choice = assign("htfe8", 20, (3, 32, 32), 100)
    with torch.device("meta"):  # shapes alone: ResNet152 and its kin are not initialised
        models = [build().state_dict() for build in choice.builders]
    total = 0
    for group in choice.of:
        tensors = {f"model.{name}": tensor for name, tensor in models[group].items()}
        total += 2 * Weights(method.shared(tensors, None, int(group))).payload().floats
    assert len(models) == 8
    assert total == 2_052_000

"""FedAvg with fine-tuning: which model stands behind which prediction."""

import torch

from protofed.core.client import assemble
from protofed.core.task import ClientTurn
from protofed.testing import Toy


def test_own_and_common_model() -> None:
    """After a round the client keeps what it trained; `global` is the average, `clf` its own."""
    built = Toy("fedavg_ft").build()
    federation, task = built.federation, built.task
    federation.play()
    turn = ClientTurn(task, 1, "eval", client=0)
    state = federation.engine.store.get(0)
    down = task.algorithm.broadcast(federation.state, turn)
    own = assemble(task, turn, state, down)
    assert torch.equal(own["model.head.bias"], state.kept["model.head.bias"])
    assert not torch.equal(own["model.head.bias"], down.weights["model.head.bias"])
    x, net = built.data.test(0).x, task.live(0)
    net.install(own)
    scores = task.algorithm.predict(net, x, built.data.train(0), down, state.mem)
    assert torch.allclose(scores["clf"], task.net(0, own)(x)[1])
    assert torch.allclose(scores["global"], task.net(0, down.weights)(x)[1])


def test_who_never_took_part_has_the_common_model() -> None:
    built = Toy("fedavg_ft").build(sample=1)
    built.federation.play()
    absent = next(client for client in range(6) if built.federation.engine.store.get(client) is None)
    (score,) = built.federation.evaluate([absent])
    assert score.correct["clf"] == score.correct["global"]


def test_training_starts_from_the_average() -> None:
    task = Toy("fedavg_ft").build().task
    down = task.algorithm.init(task, ClientTurn(task, 1, client=0))
    mine = {name: tensor + 1 for name, tensor in down.weights.items()}
    trained = task.algorithm.load(mine, down, ClientTurn(task, 2, client=0))
    assert torch.equal(trained["model.head.bias"], down.weights["model.head.bias"])
    tested = task.algorithm.load(mine, down, ClientTurn(task, 2, "eval", client=0))
    assert torch.equal(tested["model.head.bias"], mine["model.head.bias"])

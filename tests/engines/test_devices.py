"""Nothing in a hot path asks the device for a value: on the meta device, which has none, that would fail.

There is no GPU in the tests. On the meta device tensors have shapes only, so `.item()`, `.cpu()`, `.numpy()`,
`if tensor` and boolean indexing raise, and tensors made on another device by mistake are refused.
"""

import ast
import copy
import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

import protofed
from protofed.algorithms.fedproto import FedProto, Global, Protos
from protofed.core.algorithm import methods
from protofed.core.answer import Replies, Reply
from protofed.core.client import begin
from protofed.core.net import LiveNet
from protofed.core.record import Weights
from protofed.core.rng import torch_generator
from protofed.core.task import ClientTurn
from protofed.core.train import phase_batches
from protofed.ops import tgp_server
from protofed.ops.sharing import SharedWeights
from protofed.testing import Toy

WAITS = {"cpu", "numpy", "item", "tolist"}  # methods that wait for the device


def on_meta(value):
    return tree_map(lambda v: v.to("meta") if isinstance(v, Tensor) else v, value)


@pytest.mark.parametrize("name", list(methods))
def test_loss_and_gradient_need_no_value_from_the_device(name: str) -> None:
    experiment = Toy(name).build()
    experiment.federation.play()
    task, method = experiment.task, experiment.task.algorithm
    leg = next((leg for leg in method.legs if leg.phases), None)
    if leg is None:
        pytest.skip(f"{name} trains nothing: its head follows in closed form")
    turn = ClientTurn(task, 2, leg.name, client=0)
    down = method.broadcast(experiment.federation.state, replace(turn, leg=method.legs[0].name))
    if type(down) is not leg.down:
        pytest.skip(f"{name} trains in a later leg, whose download follows from the first")
    state = experiment.federation.engine.store.get(0)
    session = begin(turn, leg, state, experiment.data.train(0), down)
    live = task.live(0)
    net = LiveNet(*(copy.deepcopy(modules) for modules in (live.modules, live.frozen)))
    for module in (*net.modules.values(), *net.frozen.values()):
        module.to("meta").requires_grad_()
    for number, phase in enumerate(leg.phases):
        batch = next(phase_batches(session, phase, number, False))
        rand = method.draw(torch_generator(name), len(batch.idx), session.view)
        batch = on_meta(batch._replace(rand=rand))
        with torch.enable_grad():
            out = getattr(method, phase.loss)(net, batch, on_meta(session.view))
            loss = out[0] if isinstance(out, tuple) else out
            params = [p for p in net.parameters().values() if p.requires_grad]
            grads = torch.autograd.grad(loss, params, allow_unused=True)
        assert loss.device.type == "meta"
        assert any(grad is not None for grad in grads)


def test_the_server_average_of_prototypes_needs_no_value() -> None:
    state = Global(*on_meta((torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))), {}, {})
    up = Protos(*on_meta((torch.ones(2, 4), torch.arange(2), torch.ones(2, dtype=torch.int64))), {})
    new = FedProto().aggregate(state, Replies([Reply(0, 2, up), Reply(1, 2, up)]), None)
    assert new.mean.device.type == "meta"
    assert new.mean.shape == (3, 4)


def test_the_server_average_of_weights_needs_no_value() -> None:
    up = Weights({"w": torch.ones(2, 3, device="meta")})
    new = SharedWeights().aggregate(None, Replies([Reply(0, 2, up), Reply(1, 4, up)]), None)
    assert new.arrays()["weights/w"].device.type == "meta"


def test_the_server_step_of_fedtgp_needs_no_value() -> None:
    trained = on_meta(tgp_server.init(4, 6, True, torch_generator("meta")))
    rows, cls = on_meta((torch.randn(7, 6), torch.arange(7) % 4))
    after = tgp_server.train(trained, rows, cls, 0.5, 2, 3, 0.1, torch_generator("order"))
    assert {t.device.type for t in after.values()} == {"meta"}


def hot_functions() -> list[tuple[str, ast.AST]]:
    """Functions that run in every step: loss hooks of all methods, local training on both engines."""
    root = Path(inspect.getfile(protofed)).parent
    names = {"train", "_losses", "step", "step_rows", "add", "_put", "_sgd", "_adam", "slope_at"}
    found = []
    for file in [*root.glob("algorithms/*.py"), *root.glob("core/*.py"), *root.glob("engines/*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            hot = isinstance(node, ast.FunctionDef) and (node.name in names or node.name.endswith("loss"))
            if hot:
                found.append((f"{file.name}:{node.name}", node))
    return found


def calls(tree: ast.AST, names: set[str]) -> list[str]:
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [f.attr for f in called if isinstance(f, ast.Attribute) and f.attr in names]


def test_hot_functions_do_not_call_what_waits_for_the_device() -> None:
    functions = hot_functions()
    assert len(functions) > 30
    assert {where: calls(tree, WAITS) for where, tree in functions if calls(tree, WAITS)} == {}


def test_no_method_moves_tensors_to_the_host() -> None:
    root = Path(inspect.getfile(protofed)).parent
    files = [f for f in [*root.glob("algorithms/*.py"), *root.glob("core/*.py")] if f.stem != "tensor_file"]
    assert len(files) > 20
    found = {file.name: calls(ast.parse(file.read_text()), {"cpu", "numpy"}) for file in files}
    assert {name: called for name, called in found.items() if called} == {}

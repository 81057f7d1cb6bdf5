"""Presets that follow released code do what it does, to rounding, given its start, order and batches.

Four clients, two architectures in turn, six samples more than whole batches hold; three rounds. The other
side is in released.py and uses nothing of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import released as code
import torch
from torch import Tensor, nn

from protofed.algorithms.fedgen import FedGen
from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.core.task import Group, Turn
from protofed.data.federated import OwnData
from protofed.experiment import Experiment, make_task
from protofed.federating import make_federation
from protofed.models.base import Model
from protofed.ops.trees import under

SIZES, BATCH, ROUNDS, LR, C, D = (11, 8, 13, 6), 4, 3, 0.1, 3, 4
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def small() -> nn.Module:
    """1·3·9 + 3 + 48·4 + 4 + 4·3 + 3 = 241 parameters: the smaller one, so the auxiliary model."""
    base = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, D), nn.ReLU())
    return Model(base, nn.Linear(D, C))


def large() -> nn.Module:
    return Model(nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, D)), nn.Linear(D, C))


def samples(client: int) -> code.Samples:
    """Client 1 lacks class 2."""
    generator = torch.Generator().manual_seed(client)
    x = torch.randn(SIZES[client], 1, 6, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 2 if client == 1 else C, (SIZES[client],), generator=generator)
    return x, y


DATA = [samples(client) for client in range(4)]


def ours(method: str, preset: str, **settings: Any) -> Experiment:
    """Before the first round, batches in the order of the data."""
    values = {"batch_size": BATCH, "lr": LR, "shuffle": "none", "init": "common", "dtype": "float64"}
    config = resolve(
        {"method": method, "preset": preset, "clients": 4, "rounds": ROUNDS, "engine": "sequential"}
        | values
        | settings
    )
    groups, index = [Group("small", small), Group("large", large)], np.arange(4) % 2
    task = make_task(config, config.make_method(), groups, index, (1, 6, 6), ("a", "b", "c"))
    own = OwnData([LocalData(*pair) for pair in DATA], [LocalData(*pair) for pair in DATA])
    return Experiment(config, task, own, make_federation(config, task, own))


def starts(run: Experiment) -> list[nn.Module]:
    """Models of the clients before the first round: alike where the architecture is."""
    fresh = [under("model.", run.task.fresh(client % 2, client)) for client in range(4)]
    for one, two in ((0, 2), (1, 3)):
        assert all(torch.equal(fresh[one][name], fresh[two][name]) for name in fresh[one])
    return [code.with_weights((small, large)[c % 2]().double(), fresh[c]) for c in range(4)]


def same_models(run: Experiment, models: list[nn.Module], part: str = "model.") -> None:
    for client, model in enumerate(models):
        kept = under(part, run.federation.engine.store.get(client).kept)
        for name, tensor in kept.items():
            assert torch.allclose(tensor, model.state_dict()[name], **CLOSE), (client, name)


def same_table(run: Experiment, table: code.Table) -> None:
    rows, classes = run.task.algorithm.prototypes(run.federation.state)
    assert classes.tolist() == sorted(table)
    assert torch.allclose(rows, torch.stack([table[c] for c in sorted(table)]), **CLOSE)


def share_nearest(models: list[nn.Module], table: code.Table) -> float:
    """Samples in percent whose embedding lies nearest to the prototype of their label."""
    right = [
        min(table, key=lambda c: float((z - table[c]).square().mean())) == label
        for model, (x, y) in zip(models, DATA)
        for z, label in zip(model(x)[0].detach(), y.tolist())
    ]
    return 100 * sum(right) / len(right)


@pytest.mark.parametrize(("preset", "lam", "momentum"), [("official", 1.0, 0.5), ("tgp", 10.0, 0.0)])
def test_fedproto(preset: str, lam: float, momentum: float) -> None:
    """Two epochs: the authors' code keeps the embeddings of the last, FedTGP's of both."""
    run = ours("fedproto", preset, epochs=2)
    assert (run.task.drop_last, run.task.opt.momentum) == (True, momentum)
    models, known = starts(run), {}
    for _ in range(ROUNDS):
        uploads = []
        for model, data in zip(models, DATA):
            opts = {"lr": LR, "momentum": momentum}
            epochs = code.train_with_prototypes(model, data, known, lam, opts, 2, BATCH)
            seen = epochs[-1] if preset == "official" else epochs[0] + epochs[1]
            uploads.append(code.mean_by_label(seen))
        known = code.average_tables(uploads)
    records = run.play(None)
    same_models(run, models)
    same_table(run, known)
    assert records[-1]["acc"]["gp_all"]["pooled"] == pytest.approx(share_nearest(models, known))


def test_fedtgp() -> None:
    """Prototypes of whole batches alone, of the model before this round's training; two server epochs."""
    run = ours("fedtgp", "official", options={"server_epochs": 2, "server_batch": BATCH})
    models, known = starts(run), {}
    server = code.TrainablePrototypes(run.federation.state.trained)
    for round in range(1, ROUNDS + 1):
        uploads = [code.prototypes_of(model, data, BATCH) for model, data in zip(models, DATA)]
        for model, data in zip(models, DATA):
            code.train_with_prototypes(model, data, known, 10.0, {"lr": LR}, 1, BATCH)
        draws = Turn(run.task, round).generator("server batches")
        orders = [torch.randperm(sum(map(len, uploads)), generator=draws) for _ in range(2)]
        server.fit(uploads, orders, BATCH, 0.01, 100.0)
        known = dict(enumerate(server().detach()))
    records = run.play(None)
    same_models(run, models)
    same_table(run, known)
    assert records[-1]["acc"]["gp_all"]["pooled"] == pytest.approx(share_nearest(models, known))


def test_feddistill() -> None:
    run = ours("feddistill", "tgp")
    models, known = starts(run), {}
    for _ in range(ROUNDS):
        known = code.average_tables(
            [code.train_with_logits(model, data, known, LR, BATCH) for model, data in zip(models, DATA)]
        )
    run.play(None)
    same_models(run, models)
    state = run.federation.state
    found = {int(c): row for c, row in zip(state.cls, state.mean)}
    assert found.keys() == known.keys()
    assert all(torch.allclose(found[c], known[c], **CLOSE) for c in known)


def shared_start(run: Experiment) -> dict[str, Tensor]:
    """The auxiliary model of FML and FedKD: that of clients 0 and 2, whose architecture is the smallest."""
    return under("model.", run.task.fresh(0, 0))


def test_fml() -> None:
    run = ours("fml", "official")
    models, shared = starts(run), shared_start(run)
    for _ in range(ROUNDS):
        trained = []
        for model, data in zip(models, DATA):
            aux = code.with_weights(small().double(), shared)
            code.train_pair([model, aux], [LR, LR], data, code.mutual_losses(0.5), BATCH)
            trained.append(aux.state_dict())
        shared = code.plain_mean(trained)
    run.play(None)
    same_models(run, models)
    for name, tensor in under("aux.", run.federation.state.weights).items():
        assert torch.allclose(tensor, shared[name], **CLOSE), name


def test_fedkd() -> None:
    """Shares of energy 0.95, 0.96 and 0.97, of uploads and of their mean; the first model comes whole."""
    run = ours("fedkd", "official", options={"lr_g": 0.05})
    models, shared = starts(run), shared_start(run)
    projections = [nn.Linear(D, D, bias=False).double() for _ in models]
    for client, projection in enumerate(projections):
        projection.load_state_dict(under("proj.", run.task.fresh(client % 2, client)))
    for round in range(ROUNDS):
        energy, trained = 0.95 + round / ROUNDS * 0.03, []
        for model, projection, data in zip(models, projections, DATA):
            aux = code.with_weights(small().double(), shared)
            losses = code.adaptive_losses(projection)
            code.train_pair([model, aux, projection], [LR, 0.05, LR], data, losses, BATCH)
            trained.append(code.cut_all(aux.state_dict(), energy))
        shared = code.cut_all(code.plain_mean(trained), energy)
    run.play(None)
    same_models(run, models)
    same_models(run, projections, "proj.")
    turn = Turn(run.task, ROUNDS + 1, client=0)
    loaded = run.task.algorithm.load({}, run.task.algorithm.broadcast(run.federation.state, turn), turn)
    for name, tensor in under("aux.", loaded).items():
        assert torch.allclose(tensor, shared[name], **CLOSE), name


def test_fedgen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator that was built first, in train mode, for all rounds; labels and noise are those drawn."""
    drawn: list[dict[str, Tensor]] = []
    draw = FedGen.draw

    def recorded(self: FedGen, *args: Any) -> dict[str, Tensor]:
        drawn.append(draw(self, *args))
        return drawn[-1]

    monkeypatch.setattr(FedGen, "draw", recorded)
    run = ours("fedgen", "tgp", options={"d_eps": 5})
    models, head = starts(run), under("model.head.", run.federation.state.weights)
    first = under("gen.", run.federation.state.weights)
    run.play(None)
    rest = iter(drawn)
    generator = nn.Sequential(nn.Linear(5 + C, D), nn.BatchNorm1d(D), nn.ReLU(), nn.Linear(D, D)).double()
    places = {"inner": "0", "norm": "1", "outer": "3"}
    generator.load_state_dict(
        {f"{places[name.split('.')[0]]}.{name.split('.', 1)[1]}": tensor for name, tensor in first.items()}
    )
    for _ in range(ROUNDS):
        for model, data in zip(models, DATA):
            model.head.load_state_dict(head)
            optimiser = torch.optim.SGD(model.parameters(), lr=LR)
            for x, y in code.whole_batches(data, BATCH):
                noise = next(rest)
                hot = nn.functional.one_hot(noise["y"], C)
                made = generator(torch.cat([noise["eps"], hot], 1))
                loss = code.CE(model(x)[1], y) + code.CE(model.head(made), noise["y"])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        heads = [model.head.state_dict() for model in models]
        head = {n: sum(s / sum(SIZES) * h[n] for s, h in zip(SIZES, heads)) for n in head}
    assert next(rest, None) is None
    same_models(run, models)
    for name, tensor in under("model.head.", run.federation.state.weights).items():
        assert torch.allclose(tensor, head[name], **CLOSE), name

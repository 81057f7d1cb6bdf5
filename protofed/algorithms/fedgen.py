"""FedGen: the server trains a generator of embeddings, which rehearses all labels with every client.

Zhu et al., "Data-Free Knowledge Distillation for Heterogeneous Federated Learning", ICML 2021,
arxiv.org/abs/2105.10056; by default in the form that the FedTGP paper (arxiv.org/abs/2401.03230) runs.

A client also classifies generated embeddings of labels ŷ, which are drawn from the pooled labels of all
clients. The server trains the generator through the uploaded heads h_i by S steps of Adam, then averages
the heads by sample counts. Bases f stay private.

    client  L = CE(h(f(x)), y) + α · CE(h(Gen(ε, ŷ)), ŷ)
    server  L = CE(Σ_i (n_i / n) · h_i(Gen(ε, y)), y)  over the generator;   h ← Σ_i (n_i / n) · h_i

Departures and choices:
- The generator's learning rate is 0.01; with the 0.1 of the FedTGP paper (presets `paper` and `tgp`) the
  generator of a small embedding jumps between rounds, and the clients' accuracy with it.
- `full` is the original method: clients add β·KL(softmax h(Gen(y)) ‖ softmax h(f(x))), α and β shrink
  by 0.98 a round; the server weights the teachers by their counts of the label and adds a term for
  diversity. Values of α and β are ours: the original tunes them per data set.
- Round 1 has no trained generator and trains with CE alone; reference code uses the untrained one
  already then (`untrained`; labels are uniform while no counts are known).
- The released code of the FedTGP paper never saves the generator that it trains: its clients use the one
  that was built first, always, and in train mode (BatchNorm counts the batch). `frozen`, part of preset
  `tgp`; the server then trains none. What FedGen's paper describes is the default.
- The label counts of a client go up once, with its first upload, of whole batches with `drop_last`; only
  the sum comes down. That code knows all counts before round 1, where we draw labels uniformly.
- A client imagines as many samples as its real batch has; reference code always a whole batch.
- Clients run a trained generator in eval mode. Server batches have the clients' batch size, at least 2
  for BatchNorm. A label that no teacher of the round owns teaches nothing (`full`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ..core.algorithm import HTFLLIB_TRAIN, Algorithm, Leg, Needs, Phase, Preset, Ran, View, methods
from ..core.answer import Replies, Reply
from ..core.data import Batch, LocalData
from ..core.errors import MessageError
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.distill import kl
from ..ops.generator import Generator, Plan, draw, train
from ..ops.losses import ce
from ..ops.prototypes import one_hot
from ..ops.trees import Average, put, under

DECAY = 0.98  # of α and β per round, in `full`


class Head(Record):
    """A client's head."""

    weights: Tree
    labels: Int[Tensor, "J"]  # label counts [C] in the first upload, empty later


class Shared(Record):
    """The averaged head and the generator."""

    weights: Tree
    labels: Int[Tensor, "C"]  # pooled label counts; all 0 = the generator is not trained yet


class State(Record):
    """Server state."""

    weights: Tree  # model.head.* and gen.*
    labels: Int[Tensor, "C"]
    counts: Int[Tensor, "K C"]  # per client; K = 0 unless full


@methods.register("fedgen")
@dataclass(frozen=True)
class FedGen(Algorithm):
    """A generator of embeddings, trained through all heads, rehearses missing labels."""

    S: int = option(100, "steps of the generator's training a round", low=0)
    d_eps: int = option(32, "size of the noise", low=1)
    hidden: int = option(0, "width of the generator's hidden layer; 0 = size of the embedding", low=0)
    lr_g: float = option(0.01, "learning rate of the generator (Adam)", above=0)
    alpha: float = option(1.0, "weight of the cross-entropy on generated embeddings", low=0)
    full: bool = option(False, "the original method instead of FedTGP's lighter form")
    beta: float = option(1.0, "weight of the divergence from generated predictions (full only)", low=0)
    eta: float = option(1.0, "weight of the generator's diversity term (full only)", low=0)
    untrained: bool = option(False, "use the untrained generator in round 1, as reference code does")
    frozen: bool = option(
        False, "the generator stays as it was built, as in reference code: its training is lost"
    )

    paper = "Zhu et al., ICML 2021, arXiv:2105.10056"
    single = "trains its generator against every client's head"
    needs = Needs(head=True, embedding=True, dense=False)
    keep = ("model.", "!model.head.")
    presets = {
        "paper": Preset({"lr_g": 0.1}, note="values of the FedTGP paper"),
        "tgp": Preset(
            {"untrained": True, "frozen": True, "lr_g": 0.1},
            HTFLLIB_TRAIN,
            "as the baseline of the FedTGP paper, whose code loses the trained generator",
        ),
    }

    @property
    def legs(self) -> tuple[Leg, ...]:
        phase = Phase(train=("model.",), eval=() if self.frozen else ("gen.",))
        return (Leg(down=Shared, up=Head, phases=(phase,)),)

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        return {"gen": Generator(self.d_eps, task.C, self.hidden or task.D, task.D)}

    # server

    def init(self, task: Task, turn: Turn) -> State:
        weights = {n: t for n, t in task.fresh(0).items() if n.startswith(("model.head.", "gen."))}
        counts = task.zeros("K C", int, K=task.clients if self.full else 0)
        return State(weights, task.zeros("C", int), counts)

    def broadcast(self, state: State, turn: Turn) -> Shared:
        return Shared(state.weights, state.labels)

    def aggregate(self, state: State, replies: Replies, turn: Turn) -> State:
        got = replies.all()
        labels, counts, average = state.labels, state.counts.clone(), Average()
        for reply in got:
            average.add(reply.up.weights, reply.n, reply.client)
            if len(reply.up.labels):
                labels = labels + reply.up.labels
                if self.full:
                    counts[reply.client] = reply.up.labels
        weights = {**state.weights, **average.result()}
        if self.S and not self.frozen:
            weights |= self._trained(state, got, self._teacher_weights(got, counts, turn.task), labels, turn)
        return State(weights, labels, counts)

    def check_upload(self, up: Head, turn: Turn) -> None:
        if len(up.labels) not in (0, turn.task.C):
            raise MessageError(f"labels has {len(up.labels)} counts; expected {turn.task.C}, or none")

    def _teacher_weights(self, got: list[Reply], counts: Tensor, task: Task) -> Tensor:
        """[K, C]: shares of all samples, or (full) of the samples of each label."""
        if self.full:
            own = counts[[reply.client for reply in got]].to(task.dtype)
        else:
            own = torch.tensor([float(reply.n) for reply in got], dtype=task.dtype, device=task.device)
            own = own[:, None].expand(-1, task.C)
        return own / own.sum(0).clamp(min=1)

    def _trained(self, state: State, got: list[Reply], weight: Tensor, labels: Tensor, turn: Turn) -> Tree:
        """The generator's tensors after S steps through the uploaded heads, which all run at once."""
        task = turn.task
        generator = copy.deepcopy(task.live(0).frozen["gen"]).requires_grad_(True)
        assert isinstance(generator, Generator)
        generator.load_state_dict(under("gen.", state.weights))
        heads = {n: torch.stack([reply.up.weights[n] for reply in got]) for n in got[0].up.weights}

        def teachers(z: Tensor) -> Tensor:
            return torch.func.vmap(lambda head: task.net(0, head).head(z))(heads)

        eta = self.eta if self.full else 0.0
        plan = Plan(self.S, max(2, task.batch_size), self.d_eps, self.lr_g, eta)
        train(generator, teachers, weight, labels, plan, turn.generator("generator"))
        return put("gen.", {n: t.detach().clone() for n, t in generator.state_dict().items()})

    # client

    def prepare(self, net: Net, data: LocalData, down: Shared, mem: Tree, turn: Turn) -> View:
        task, total = turn.task, int(down.labels.sum())
        share = down.labels.to(task.dtype)
        share = share / total if total else torch.full_like(share, 1 / task.C)
        on = float(total > 0 or self.untrained) * (DECAY ** (turn.round - 1) if self.full else 1.0)
        weights = {"alpha": on * self.alpha, "beta": on * self.beta}
        return {"labels": share} | {name: share.new_tensor(value) for name, value in weights.items()}

    def draw(self, generator: torch.Generator, batch_size: int, view: View) -> dict[str, Tensor]:
        labels = view["labels"]
        eps, y = draw(labels, batch_size, self.d_eps, labels.dtype, generator)
        rand = {"eps": eps, "y": y}
        if self.full:
            rand["eps_own"] = torch.rand(eps.shape, generator=generator, dtype=eps.dtype).to(eps.device)
        return rand

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        _, logits = net(batch.x)
        C = len(view["labels"])
        made = self._imagined(net, batch.rand["eps"], batch.rand["y"], C)
        loss: Tensor = ce(logits, batch.y) + view["alpha"] * ce(made, batch.rand["y"])
        if self.full:
            loss = loss + view["beta"] * kl(self._imagined(net, batch.rand["eps_own"], batch.y, C), logits)
        return loss

    def _imagined(self, net: Net, eps: Tensor, y: Tensor, num_classes: int) -> Tensor:
        """Logits of generated embeddings of the labels y."""
        z: Tensor = net["gen"](eps, one_hot(y, num_classes, eps.dtype))
        return net.head(z)

    def upload(
        self, net: Net, data: LocalData, down: Shared, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Head, Tree]:
        trained = data.y if data.passed is None else data.y[data.passed]
        counts = torch.bincount(trained, minlength=turn.task.C)
        labels = counts[:0] if "sent" in mem else counts
        return Head(net.tensors("model.head."), labels), {"sent": turn.task.zeros("", int) + 1}

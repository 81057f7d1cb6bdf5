"""`protofed advise`: learning rate, λ and rounds from FedProto's convergence bounds (Corollary 1, Theorem 2).

The constants of the theory are estimated per client from a short trace of plain SGD, starting from the
client's state in the run, with the run's global prototypes:

- L1: largest change of the full local gradient per distance moved, over consecutive iterates;
- L2: the same of the embeddings of a few probe samples, per distance moved by the base's parameters;
- σ², G: from the gradients of all mini-batches at each iterate;
- the squared gradients of Theorem 1 and Corollary 1: of the E iterates of a round. Eq. 16 has a bound of η
  for every local step e' = 1/2, 1, …, E−1, with the sum up to it; the sum grows, so the first is the
  tightest, and a constant η must stay below that one. From a shorter trace the bounds are those of its
  iterates, and Theorem 1 is left out.

A trace visits few points, so these are lower bounds of the true constants, and the bounds that follow are
estimates, not guarantees. Departures: dropout is off and BatchNorm in eval mode, so that a gradient is a
function of the point; the trace has no momentum, as in the theory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.client import assemble
from ..core.data import Batch, LocalData, batch_rows
from ..core.errors import ConfigError
from ..core.net import LiveNet
from ..core.task import ClientTurn, Task, Turn
from ..experiment import Experiment
from ..metrics.theory import (
    Theorem2,
    eta_bounds_corollary1,
    gradient_moments,
    lambda_bound_corollary1,
    lipschitz,
    one_round_change,
    theorem2,
)

PROBES = 32  # samples on which the embedding's slope is taken
MOST_BATCHES = 16  # mini-batches whose gradients are compared at each iterate


@dataclass(frozen=True)
class Constants:
    """Estimates of one client."""

    client: int
    L1: float
    L2: float
    sigma2: float
    G: float
    loss: float
    first_grad_sq: float
    grad_sq: tuple[float, ...]  # of each iterate of a round, or of the trace if that is shorter
    iterations: int  # E, local SGD iterations of a round
    whole_round: bool  # the trace is as long as a round

    @property
    def grad_sq_sum(self) -> float:
        """Σ_e ‖∇L‖² over these iterates."""
        return sum(self.grad_sq)


@dataclass(frozen=True)
class Advice:
    """Bounds of one client; None where no positive value satisfies them."""

    constants: Constants
    one_round: float | None  # Theorem 1; None if the trace is shorter than a round
    eta_steps: tuple[float | None, ...]  # Eq. 16 at every local step e' = 1/2, 1, …
    eta_corollary1: float | None  # what a constant η must stay below: the tightest of these
    lam_corollary1: float | None
    theorem2: Theorem2


def advise(experiment: Experiment, clients: Sequence[int], iterations: int, eps: float) -> list[Advice]:
    """Estimates and bounds for these clients, with the run's η and λ."""
    algorithm = experiment.task.algorithm
    lam = getattr(algorithm, "lam", None)
    if algorithm.name != "fedproto" or lam is None:
        raise ConfigError(f"advise: the theory is FedProto's; this run is of {algorithm.name}")
    if not (math.isfinite(eps) and eps > 0):
        raise ConfigError(f"advise: eps must be a number greater than 0, got {eps}")
    found = []
    for client in clients:
        c = trace(experiment, client, iterations)
        eta = experiment.task.opt.lr
        steps = eta_bounds_corollary1(c.grad_sq, lam, c.L1, c.L2, c.G, c.sigma2, c.iterations)
        found.append(
            Advice(
                c,
                one_round_change(c.grad_sq_sum, eta, lam, c.L1, c.L2, c.G, c.sigma2, c.iterations)
                if c.whole_round
                else None,
                steps,
                steps[0],
                lambda_bound_corollary1(c.first_grad_sq, c.L2, c.G, c.iterations),
                theorem2(eps, lam, c.L1, c.L2, c.G, c.sigma2, c.iterations, c.loss, eta),
            )
        )
    return found


def trace(experiment: Experiment, client: int, steps: int) -> Constants:
    """Plain SGD for some steps from the client's present state; the estimates along the way."""
    task, federation = experiment.task, experiment.federation
    turn = ClientTurn(task, federation.round + 1, "advise", client=client)
    data = experiment.data.train(client)
    down = task.algorithm.broadcast(federation.state, turn)
    state = federation.engine.store.get(client)
    net = task.live(turn.group)
    net.install(assemble(task, turn, state, down))
    for module in net.modules.values():
        module.eval()
    with torch.no_grad():
        view = task.algorithm.prepare(net, data, down, state.mem if state else {}, turn)
    local = _Local(task, turn.group, net, data, view)
    points: list[tuple[Tensor, Tensor]] = []
    full, batches, embedded, losses = [], [], [], []
    for rows, _ in batch_rows(len(data), task.batch_size, max(1, steps), turn.generator("trace")):
        if len(points) > steps:
            break
        points.append(local.point())
        loss, gradient = local.gradient(torch.arange(len(data)))
        losses.append(loss)
        full.append(gradient)
        batches.append(local.batch_gradients(turn))
        embedded.append(local.embeddings())
        local.move(local.gradient(rows)[1], task.opt.lr)
    moved, base_moved = _steps([p for p, _ in points]), _steps([b for _, b in points])
    sigma2, largest = gradient_moments(torch.stack(batches), torch.stack(full))
    squares = [float(g.square().sum()) for g in full]
    iterations = _iterations(task, len(data))
    per_sample = _steps(embedded)  # [T−1, samples, D]
    return Constants(
        client=client,
        L1=lipschitz(moved, _steps(full)),
        L2=max(lipschitz(base_moved, per_sample[:, i]) for i in range(per_sample.shape[1])),
        sigma2=sigma2,
        G=largest,
        loss=losses[0],
        first_grad_sq=squares[0],
        grad_sq=tuple(squares[: min(iterations, steps)]),
        iterations=iterations,
        whole_round=steps >= iterations,
    )


def _iterations(task: Task, samples: int) -> int:
    """E: SGD iterations of a round."""
    batches = samples / task.batch_size
    whole = math.floor(batches) if task.drop_last and batches >= 1 else math.ceil(batches)
    return max(1, whole) * max(1, task.epochs)


class _Local:
    """A client's objective as a function of its parameters."""

    def __init__(self, task: Task, group: int, net: LiveNet, data: LocalData, view: dict[str, object]):
        self.task, self.net, self.data, self.view = task, net, data, view
        named = net.named()
        own = task.names(group)
        names = [n for n in own.parameters if n not in own.frozen]
        self.params = [named[n].requires_grad_() for n in names]
        self.base = [named[n] for n in names if n.startswith("model.base.")] or self.params

    def gradient(self, rows: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            one = torch.ones((), dtype=self.task.dtype)
            out = self.task.algorithm.loss(
                self.net, Batch(self.data.x[rows], self.data.y[rows], rows, one, {}), self.view
            )
            loss = out[0] if isinstance(out, tuple) else out
            grads = torch.autograd.grad(loss, self.params, allow_unused=True)
        filled = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, self.params)]
        return float(loss.detach()), torch.cat([g.flatten() for g in filled])

    def batch_gradients(self, turn: Turn) -> Tensor:
        """[batches, parameters]: the same mini-batches at every iterate, so that iterates compare."""
        order = batch_rows(len(self.data), self.task.batch_size, 1, turn.generator("batches of the trace"))
        chosen = [rows for (rows, _), _ in zip(order, range(MOST_BATCHES))]
        return torch.stack([self.gradient(rows)[1] for rows in chosen])

    @torch.no_grad()
    def embeddings(self) -> Tensor:
        return self.net.embed(self.data.x[:PROBES]).flatten(1)

    def point(self) -> tuple[Tensor, Tensor]:
        flat = [torch.cat([p.detach().flatten() for p in part]) for part in (self.params, self.base)]
        return flat[0], flat[1]

    @torch.no_grad()
    def move(self, gradient: Tensor, lr: float) -> None:
        start = 0
        for p in self.params:
            p.sub_(lr * gradient[start : start + p.numel()].view_as(p))
            start += p.numel()


def _steps(points: list[Tensor]) -> Tensor:
    """Differences of consecutive points [T−1, P]."""
    stacked = torch.stack(points)
    return stacked[1:] - stacked[:-1]

"""The task: what server and clients agree on before the first round, and the modules built for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from .data import LocalData
from .dropout import make_reproducible
from .errors import ConfigError
from .mixture import ENS, mixes
from .net import BoundNet, LiveNet, Modules
from .optim import Opt
from .record import Tree
from .rng import seeded, torch_generator

if TYPE_CHECKING:
    from .algorithm import Algorithm
    from .private import PrivateSteps


ORDERS = ("epoch", "once", "none")  # when the order of a client's samples is drawn
TESTS = ("test", "validation", "balanced")  # its test samples, those it holds out, those that all share


@dataclass(frozen=True)
class Group:
    """Clients of one architecture. `build` makes a freshly initialised module."""

    name: str
    build: Callable[[], nn.Module]
    written: bool = True  # as a form in the settings; else it is a module that was given in Python


@dataclass(frozen=True)
class Names:
    """Names of the tensors of one group's modules."""

    parameters: tuple[str, ...]
    buffers: frozenset[str]
    frozen: frozenset[str] = frozenset()  # parameters that were built without requires_grad: never trained

    @property
    def all(self) -> tuple[str, ...]:
        """Parameters, then buffers."""
        return (*self.parameters, *sorted(self.buffers))


@dataclass(frozen=True, eq=False)
class Task:
    """Sizes, groups, optimiser and budget; with `fresh`, `live` and `net` as the only module factory."""

    algorithm: Algorithm
    groups: Sequence[Group]
    group_index: np.ndarray  # [clients] index into groups
    num_classes: int
    embed_dims: tuple[int, ...]  # per group
    opt: Opt = field(default_factory=lambda: Opt())
    epochs: int = 1
    batch_size: int = 8
    drop_last: bool = False
    shuffle: str = "epoch"  # one of ORDERS
    schedule: str = "constant"  # or "poly": the learning rate falls to 0 over the rounds
    rounds: int = 1
    newcomers: int = 0  # the last so many clients never take part
    seed: int = 0
    common_init: bool = False
    public: LocalData | None = None
    validation: float = 0.0  # share of their training samples that clients hold out
    by_class: bool = False  # tests count what samples of each class are taken for
    balanced: LocalData | None = None  # test samples, equally many of each class, for every client's model
    class_names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()  # of one input, per group; empty: not known
    private: PrivateSteps | None = None  # noise in every local step
    make_model: Callable[[str], nn.Module] | None = None  # "cnn4" → a fresh model for this task's inputs
    dtype: torch.dtype = torch.float32
    layers: torch.dtype | None = None  # what layers compute in during local steps, where not in dtype
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def clients(self) -> int:
        """Number of clients, newcomers included."""
        return len(self.group_index)

    @property
    def C(self) -> int:
        """Number of classes."""
        return self.num_classes

    @property
    def tested_modes(self) -> tuple[str, ...]:
        """What a test scores: the method's prediction modes, and `ens` where clients hold samples out."""
        modes = self.algorithm.modes
        return (*modes, ENS) if self.validation and mixes(modes) else modes

    @property
    def D(self) -> int:
        """Embedding size shared by all groups; methods that use it declare `Needs(embedding=True)`."""
        return self.embed_dims[0]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """What the fixed axis letters of records stand for."""
        public = {"N": len(self.public)} if self.public is not None else {}
        return {"C": self.C, "D": self.D, **public}

    def zeros(self, axes: str, kind: type[float | int | bool] = float, **sizes: int) -> Tensor:
        """Zeros with the task's precision, on its device: `task.zeros("C D")`, `task.zeros("C", int)`.

        Axes are those of records: letters that the task knows, other letters with their size
        (`task.zeros("K", int, K=task.clients)`), or plain numbers (`task.zeros("0 D")`, no rows).
        """
        known = {**self.sizes, **sizes}
        for axis in axes.split():
            if axis not in known and not axis.isdecimal():
                raise ConfigError(
                    f"{self.algorithm.name}: task.zeros({axes!r}): unknown axis {axis!r}; known here: "
                    f"{', '.join(known)}; give the size of another, as {axis}=…"
                )
        shape = [known[axis] if axis in known else int(axis) for axis in axes.split()]
        dtype = {float: self.dtype, int: torch.int64, bool: torch.bool}[kind]
        return torch.zeros(shape, dtype=dtype, device=self.device)

    @property
    def public_data(self) -> LocalData:
        """The public samples; an error without them."""
        if self.public is None:
            raise ConfigError(f"{self.algorithm.name}: needs public data; give it as `public`")
        return self.public

    def group_of(self, client: int | None) -> int:
        """Group of a client; of the server (None) the first."""
        return 0 if client is None else int(self.group_index[client])

    def lr_factor(self, round: int) -> float:
        """What the schedule makes of the learning rate in this round (poly: power 0.9, as DeepLab's)."""
        if self.schedule == "constant":
            return 1.0
        return float((1 - (round - 1) / self.rounds) ** 0.9)

    # modules

    def modules(self, group: int) -> Modules:
        """New modules of a group: the model, and what the method declares beside it."""
        made = {"model": self.groups[group].build(), **self.algorithm.modules(self, group)}
        # Layers of different modules get different numbers, else equal shapes would share their masks.
        numbered = enumerate(made.items())
        return {part: self._placed(make_reproducible(m, 100 * i)) for i, (part, m) in numbered}

    def _placed(self, module: nn.Module) -> nn.Module:
        """On the device, in the task's precision, convolutions in channels_last: on CPUs they, and above
        all pooling, are several times faster so."""
        module.to(self.device, self.dtype)
        return module.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]

    def live(self, group: int) -> LiveNet:
        """The one live net of a group, overwritten by whichever client is at work."""
        if group not in self._live:
            with seeded(self.seed, "live"):
                modules = self.modules(group)
            frozen = {part: copy.deepcopy(m).eval().requires_grad_(False) for part, m in modules.items()}
            self._live[group] = LiveNet(modules, frozen)
            self._names[group] = _names(self._live[group])  # before training sets requires_grad
        return self._live[group]

    def net(self, group: int, tensors: Mapping[str, Tensor]) -> BoundNet:
        """A frozen net in eval mode with these tensors: for server steps."""
        return BoundNet(self.live(group).frozen, tensors)

    def names(self, group: int) -> Names:
        """Names of a group's tensors: parameters, buffers, and what is never trained."""
        self.live(group)
        return self._names[group]

    def fresh(self, group: int, client: int | None = None) -> Tree:
        """Initial tensors: of a client, or (None) those common to all clients of the group."""
        with seeded(self.seed, "init", group, None if self.common_init else client):
            modules = self.modules(group)
        return {
            f"{part}.{name}": tensor.detach()
            for part, module in modules.items()
            for name, tensor in module.state_dict().items()
        }

    def parameter_count(self, group: int) -> int:
        """Parameters of the group's own model, without what the method adds."""
        if group not in self._counts:
            with seeded(self.seed, "count"):
                model = self.groups[group].build()
            self._counts[group] = sum(p.numel() for p in model.parameters())
        return self._counts[group]

    def smallest_group(self) -> int:
        """Index of the group with the fewest parameters: the auxiliary model of FML and FedKD."""
        return min(range(len(self.groups)), key=lambda g: (self.parameter_count(g), g))

    @cached_property
    def _live(self) -> dict[int, LiveNet]:
        return {}

    @cached_property
    def _names(self) -> dict[int, Names]:
        return {}

    @cached_property
    def _counts(self) -> dict[int, int]:
        return {}


def _names(live: LiveNet) -> Names:
    found = live.parameters()
    frozen = frozenset(name for name, parameter in found.items() if not parameter.requires_grad)
    return Names(tuple(found), frozenset(live.named()) - found.keys(), frozen)


@dataclass(frozen=True, eq=False)
class Turn:
    """When: the task, the round (from 1), the leg. The server's turns have no client."""

    task: Task
    round: int
    leg: str = "train"
    client: int | None = None
    epochs: int = 1
    late: bool = False  # a straggler, which runs fewer epochs
    on: str = "test"  # in a test: which samples, one of TESTS

    @property
    def group(self) -> int:
        """The model group of the client; at the server the first."""
        return self.task.group_of(self.client)

    @property
    def key(self) -> tuple[int, int, str, int | None]:
        """What random numbers of this turn depend on, besides their purpose."""
        return (self.task.seed, self.round, self.leg, self.client)

    def generator(self, purpose: str) -> torch.Generator:
        """The generator of (seed, round, leg, client, purpose)."""
        return torch_generator(*self.key, purpose)

    def fixed_order(self, n: int) -> Tensor | None:
        """Row numbers of the client's samples in the order of all its epochs; None if each has its own."""
        if self.task.shuffle == "epoch":
            return None
        if self.task.shuffle == "none":
            return torch.arange(n)
        return torch.randperm(n, generator=torch_generator(self.task.seed, "order", self.client))

    def public_batches(self, size: int) -> list[Tensor]:
        """Row numbers of the public data in batches, the same for all clients and legs of the round."""
        order = torch_generator(self.task.seed, self.round, "public")
        rows = torch.randperm(len(self.task.public_data), generator=order)
        return list(torch.split(rows.to(self.task.device), size))


@dataclass(frozen=True, eq=False)
class ClientTurn(Turn):
    """Who and when: the turn of one client."""

    client: int = field(kw_only=True)

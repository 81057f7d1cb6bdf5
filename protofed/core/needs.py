"""What a method asks of models, data and optimiser, and whether clients can train at all: before they do."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from .algorithm import Algorithm
from .data import ClientData
from .errors import ConfigError
from .optim import Opt
from .task import Group, Task
from .train import has_batchnorm


def check_models(
    algorithm: Algorithm, groups: Sequence[Group], modules: Sequence[nn.Module], dims: Sequence[int]
) -> None:
    """One architecture, embeddings of one size, equal halves: whatever the method needs of them."""
    needs, name = algorithm.needs, algorithm.name
    listed = ", ".join(group.name for group in groups)
    if needs.model and len(groups) > 1:
        raise ConfigError(
            f"{name} needs one architecture for all clients, got {len(groups)} ({listed}); give one, "
            "or choose a method for different models such as fedproto or local"
        )
    if needs.embedding and len(set(dims)) > 1:
        sizes = ", ".join(f"{group.name}: {dim}" for group, dim in zip(groups, dims))
        remedy = "give the first output of forward the same number of columns in all models"
        if groups[-1].written:
            form = f"{groups[-1].name.split(':')[0]}:dim={dims[0]}"
            remedy = f"set the same `dim` for all models (for example {form})"
        raise ConfigError(f"{name} needs embeddings of one size, got {sizes}; {remedy}")
    for wanted, half in ((needs.base, "base"), (needs.head, "head")):
        shapes = {_shapes(module, half) for module in modules}
        if wanted and len(shapes) > 1:
            raise ConfigError(
                f"{name} shares the {half} of the models, but it differs among {listed}; choose models "
                f"with equal {half}s, or a method that exchanges prototypes such as fedproto"
            )
    if needs.halves or needs.base or needs.head:
        for group, module in zip(groups, modules):
            if not (hasattr(module, "base") and hasattr(module, "head")):
                raise ConfigError(
                    f"{name} needs models made of a base and a head; {group.name} is not "
                    "(build it as protofed.Model(base, head))"
                )


def check_data(algorithm: Algorithm, has_public: bool, dense: bool) -> None:
    """Public samples where the method needs them; labels of pixels only where it can use them."""
    if algorithm.needs.public and not has_public:
        raise ConfigError(
            f"{algorithm.name} needs a public unlabelled data set; give one as `public`, for example digits"
        )
    if dense and not algorithm.needs.dense:
        raise ConfigError(
            f"{algorithm.name} does not work with dense labels (segmentation); choose classification data"
        )


def check_inputs(algorithm: Algorithm, shapes: Sequence[tuple[int, ...]]) -> None:
    """One shape of inputs where clients build models of others, such as an auxiliary one that all share."""
    if algorithm.needs.peers and len(set(shapes)) > 1:
        known = ", ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
        raise ConfigError(
            f"{algorithm.name} has one model that all clients train, so their inputs must be of one shape; "
            f"got {known}; choose a method that exchanges prototypes such as fedproto"
        )


def check_optimiser(algorithm: Algorithm, opt: Opt) -> None:
    """Plain SGD where the method's steps assume it."""
    wrong = {"optimizer": opt.optimizer == "adam", "momentum": opt.momentum > 0, "clip": opt.clip is not None}
    for name in [n for n, is_wrong in wrong.items() if algorithm.needs.sgd and is_wrong]:
        raise ConfigError(
            f"{algorithm.name} needs plain SGD, got {name}={getattr(opt, name)}; "
            "set optimizer to sgd, momentum to 0, and no clip"
        )


def check_epochs(algorithm: Algorithm, epochs: int) -> None:
    """Without epochs only phases train that have epochs of their own."""
    phases = [phase for leg in algorithm.legs for phase in leg.phases]
    if epochs == 0 and all(phase.epochs is None for phase in phases):
        raise ConfigError(f"epochs: with 0, {algorithm.name} trains nothing; give at least 1")


def check_batches(task: Task, data: ClientData) -> list[str]:
    """BatchNorm cannot be computed on one sample: clients without a larger batch would never train. A warning
    about some of them, an error about all."""
    phases = [phase for leg in task.algorithm.legs for phase in leg.phases]
    blocked = {
        group
        for group in range(len(task.groups))
        if all(has_batchnorm(task.live(group), phase.eval) and phase.data == "local" for phase in phases)
    }
    if not phases or not blocked:
        return []
    single = all((phase.batch_size or task.batch_size) == 1 for phase in phases)
    active, merged = range(task.clients - task.newcomers), task.algorithm.needs.merged
    alone = {c for c in active if data.size(c) == 1 and not merged}
    idle = [c for c in active if task.group_of(c) in blocked and (single or c in alone)]
    cause = "batch_size is 1" if single else "there is one training sample"
    if len(idle) == len(active):
        raise ConfigError(
            f"BatchNorm cannot be computed on one sample, and {cause}: no client would ever train; use "
            "larger batches, more samples, or models without BatchNorm"
        )
    listed = ", ".join(map(str, idle[:5])) + (", …" if len(idle) > 5 else "")
    named = f"{len(idle)} of {len(active)} clients ({listed})"
    return [f"{named} never train: {cause}, on which BatchNorm cannot be computed"] if idle else []


def _shapes(module: nn.Module, half: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    part = getattr(module, half, None)
    return tuple((n, tuple(t.shape)) for n, t in part.state_dict().items()) if part is not None else ()

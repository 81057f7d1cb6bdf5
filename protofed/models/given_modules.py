"""Modules that the user brings: whether each is a client's own, which are of one architecture, and whether
they fit the clients' inputs and labels."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..core.data import LocalData
from ..core.errors import ConfigError, DataError
from ..core.task import Group
from ..core.user_files import reason
from .probe import outputs, swapped, try_forward

log = logging.getLogger("protofed")


def check_modules(models: Sequence[nn.Module]) -> None:
    """Each client has a module of its own, with weights."""
    owner: dict[int, tuple[int, str]] = {}
    for i, model in enumerate(models):
        if not isinstance(model, nn.Module):
            raise ConfigError(f"client {i}: model: expected a torch.nn.Module, got a {type(model).__name__}")
        _check_not_lazy(model, i)
        for name, tensor in _tensors(model):
            first, other = owner.setdefault(tensor.untyped_storage().data_ptr(), (i, name))
            if first != i:
                raise ConfigError(
                    f"federate: clients {first} and {i} share {other!r}, so that one's training would change "
                    "the other's model; give each its own module (copy.deepcopy)"
                )


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    found = [*model.named_parameters(), *model.named_buffers()]
    return [(name, tensor) for name, tensor in found if tensor.numel()]


def _check_not_lazy(model: nn.Module, client: int) -> None:
    lazy = [name for name, tensor in model.named_parameters() if is_lazy(tensor)]
    if lazy:
        raise ConfigError(
            f"client {client}: the model's {lazy[0]!r} has no shape yet (a lazy layer); call the model once "
            "on some of its inputs, model(x[:2]), before federate"
        )


def copy_module(model: nn.Module, client: int) -> nn.Module:
    """A copy that shares nothing with the module."""
    try:
        return copy.deepcopy(model)
    except Exception as error:  # whatever the user's module holds
        raise ConfigError(
            f"client {client}: the model cannot be copied: {reason(error)}; remove what it holds beside its "
            "layers, such as outputs of earlier passes"
        ) from error


def group_modules(models: Sequence[nn.Module], inputs: Sequence[Tensor]) -> tuple[list[Group], np.ndarray]:
    """Groups of one architecture, and the group of each client.

    That is: of one class, with equal layers and tensors of equal names and shapes, and computing the same
    from the same weights, for an attribute that no layer shows can make a difference.
    """
    firsts: list[int] = []
    keys = [_key(model) for model in models]
    scratch: list[nn.Module] = []
    index = np.zeros(len(models), dtype=np.int64)
    for i, model in enumerate(models):
        alike = [g for g, first in enumerate(firsts) if keys[first] == keys[i]]
        same = [
            g
            for g in alike
            if inputs[i].shape != inputs[firsts[g]].shape  # an error that `input_shapes` explains
            or _computes_the_same(scratch[g], model, inputs[i])
        ]
        if not same:
            firsts.append(i)
            scratch.append(copy_module(model, i))
        index[i] = same[0] if same else len(firsts) - 1
    names = [f"{type(models[first]).__name__} of client {first}" for first in firsts]
    groups = [
        Group(name, lambda m=models[first]: copy.deepcopy(m), written=False)  # type: ignore[misc]
        for name, first in zip(names, firsts)
    ]
    return groups, index


def _key(model: nn.Module) -> tuple[Any, ...]:
    shapes = tuple((name, tuple(tensor.shape)) for name, tensor in model.state_dict().items())
    trained = tuple(parameter.requires_grad for parameter in model.parameters())
    return type(model), str(model), shapes, trained


def _computes_the_same(scratch: nn.Module, model: nn.Module, x: Tensor) -> bool:
    scratch.load_state_dict(model.state_dict())
    ours, theirs = (try_forward(one, x, type(model).__name__) for one in (scratch, model))
    if not all(isinstance(out, tuple | list) for out in (ours, theirs)):
        return True  # what forward must return is checked later
    return all(_equal(a, b) for a, b in zip(ours, theirs))


def _equal(a: Any, b: Any) -> bool:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return True
    return a.shape == b.shape and torch.allclose(a.cpu(), b.cpu(), equal_nan=True)


def two_of(x: Tensor) -> Tensor:
    """Two of the inputs, or the only one twice."""
    return torch.cat([x[:1], x[-1:]])


def input_shapes(
    train: Sequence[LocalData], test: Sequence[LocalData], index: np.ndarray, groups: Sequence[Group]
) -> list[tuple[int, ...]]:
    """Shape of one input per group; clients with equal models must have equal inputs."""
    firsts = [int(np.argmax(index == g)) for g in range(len(groups))]
    shapes = [tuple(train[first].x.shape[1:]) for first in firsts]
    for i, group in enumerate(index):
        for part, data in (("train", train[i]), ("test", test[i])):
            got, like = tuple(data.x.shape[1:]), train[firsts[group]].x
            if got != shapes[group] or data.x.dtype != like.dtype:
                raise DataError(
                    f"client {i}: {part}: inputs of shape {list(got)} ({data.x.dtype}), but client "
                    f"{firsts[group]}, which has the same model, trains on {list(shapes[group])}"
                    f" ({like.dtype})"
                )
    return shapes


def class_names(
    classes: int | Sequence[str] | None,
    train: Sequence[LocalData],
    test: Sequence[LocalData],
    model: nn.Module,
) -> tuple[str, ...]:
    """Names as given; else as many numbers as the first client's model has logits."""
    who = f"{type(model).__name__} of client 0"
    embedding, logits = outputs(model, two_of(train[0].x), who)
    widths = [int(out.shape[1]) if out.ndim > 1 else 0 for out in (embedding, logits)]
    highest = max(int(part.y.max()) for part in [*train, *test] if len(part))
    names = _given_names(classes)
    count = len(names) if names else widths[1] if classes is None else operator.index(classes)  # type: ignore[arg-type]
    wanted = highest + 1 if classes is None else count
    if widths[0] == wanted != widths[1]:
        hint = f"; if it does return (embedding, logits), say classes={count}" if highest < count else ""
        raise ConfigError(f"{swapped(embedding, logits, who)}{hint if classes is None else ''}")
    if highest >= count:
        raise DataError(
            f"federate: label {highest} found, but there are {count} classes (0 to {count - 1}); number the "
            "labels from 0 on without gaps, or give the models more logits"
        )
    if count != widths[1]:
        raise ConfigError(
            f"federate: {count} classes, but model {who} gives {widths[1]} logits; they must be as many"
        )
    if classes is None:
        _warn_of_gaps(train, count)
    return names or tuple(str(c) for c in range(count))


def _given_names(classes: int | Sequence[str] | None) -> tuple[str, ...] | None:
    """The names, if any were given; a number of classes must be one."""
    if classes is None:
        return None
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        try:
            if operator.index(classes) > 0:  # type: ignore[arg-type]
                return None
        except TypeError:
            pass
        raise ConfigError(
            f"federate: classes: expected a number from 1 on or a list of names, got {classes!r}"
        )
    names = tuple(str(name) for name in classes)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ConfigError(
            f"federate: classes: expected different names, got {', '.join(twice) or 'none'} twice"
        )
    return names


def _warn_of_gaps(train: Sequence[LocalData], count: int) -> None:
    labels = torch.unique(torch.cat([torch.unique(part.y) for part in train]))
    found = [int(label) for label in labels if label >= 0]
    if 2 * len(found) <= count:
        listed = ", ".join(map(str, found[:5])) + (", …" if len(found) > 5 else "")
        log.warning(
            "federate: only %d of %d classes occur in training (%s); number the labels from 0 on without "
            "gaps (torch.unique(y, return_inverse=True)), or confirm the number with classes=%d",
            *(len(found), count, listed, count),
        )

"""Whether a checkpoint belongs to the models and the method that are there now.

A file of the user's may have changed since: tensors of other names or shapes would fail in the middle of a
round, or be replaced by fresh ones without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Size, Tensor

from ..core.client import kept_names
from ..core.errors import RunError
from ..core.record import Record
from ..core.task import Task
from ..engines.store import Store

Shapes = Mapping[str, Size]


def check_fits(run: Path, task: Task, state: Record, fresh: Record, store: Store) -> None:
    """Refuse what a checkpoint holds where nets and records have other names or shapes; `fresh` is the state
    that a new run would begin with."""
    shapes = [{name: t.shape for name, t in task.live(g).named().items()} for g in range(len(task.groups))]
    _check_clients(run, task, shapes, store)
    for spec in state.specs():
        saved, new = getattr(state, spec.name), getattr(fresh, spec.name)
        if spec.dims is None:
            _check_tree(run, saved, new, shapes)
        elif unlike := [
            f"{axis} = {size} (now {task.sizes[axis]})"
            for axis, size in zip(spec.dims, saved.shape)
            if axis in task.sizes and size != task.sizes[axis]
        ]:
            raise _unfit(run, f"the server's {spec.name} has {', '.join(unlike)}")


def _check_clients(run: Path, task: Task, shapes: Sequence[Shapes], store: Store) -> None:
    expected = [set(kept_names(task, group)) for group in range(len(task.groups))]
    for client in store:
        state, group = store.get(client), task.group_of(client)
        kept = state.kept if state else {}
        who = f"model {task.groups[group].name} of client {client}"
        if kept and kept.keys() != expected[group]:
            name = min(kept.keys() ^ expected[group])
            raise _unfit(run, f"{who} {'had' if name in kept else 'did not have'} the tensor {name}")
        for name, tensor in kept.items():
            if tensor.shape != shapes[group][name]:
                raise _unfit(run, f"{who}: {name} was {_size(tensor)} and is {_size(shapes[group][name])}")


def _check_tree(
    run: Path, saved: Mapping[str, Tensor], fresh: Mapping[str, Tensor], shapes: Sequence[Shapes]
) -> None:
    """Weights at the server: of some group's shape, and named as in a new run if those are a net's names."""
    known = {name: [one[name] for one in shapes if name in one] for name in {*saved, *fresh}}
    if fresh and all(known[name] for name in fresh) and saved and saved.keys() != fresh.keys():
        raise _unfit(run, f"the server {_named(min(saved.keys() ^ fresh.keys()), saved)}")
    for name, tensor in saved.items():
        if known[name] and tensor.shape not in known[name]:
            raise _unfit(run, f"the server's {name} was {_size(tensor)} and is {_size(known[name][0])}")


def _named(name: str, saved: Mapping[str, Tensor]) -> str:
    return f"{'had' if name in saved else 'did not have'} the tensor {name}"


def _size(found: Tensor | Size) -> str:
    shape = found.shape if isinstance(found, Tensor) else found
    return "×".join(map(str, shape)) or "a number"


def _unfit(run: Path, what: str) -> RunError:
    return RunError(
        f"{run} cannot go on with the models or the method as they are now: {what}; bring back the files as "
        "they were (or --changed kept: the run's copies), or begin a new run"
    )

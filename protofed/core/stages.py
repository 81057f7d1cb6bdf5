"""The stages of a round, for whoever wants to know where its time goes.

The round loop and the clients name what they are at: `with stage("forward"): …`. Stages nest. While nobody
watches, a stage costs a fraction of a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Watch: TypeAlias = Callable[[str], AbstractContextManager[None]]

STAGES = {
    "data": "batches: shuffling, gathering, augmentation",
    "forward": "the method's loss",
    "backward": "gradients",
    "optimiser": "parameter steps",
    "prepare": "installing tensors, `prepare` and `before`",
    "upload": "prototype passes and uploads",
    "checks": "checking and counting messages",
    "server": "aggregation and broadcast",
    "evaluation": "testing the clients",
    "engine": "all else",
}

_UNWATCHED = nullcontext()
_watch: Watch | None = None


def stage(name: str) -> AbstractContextManager[None]:
    """What runs inside belongs to this stage."""
    return _UNWATCHED if _watch is None else _watch(name)


def is_stage(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: calls of the function belong to this stage."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with stage(name):
                return function(*args, **kwargs)

        return inside

    return decorate


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Tell `watch` the stages that this process passes through meanwhile."""
    global _watch
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before

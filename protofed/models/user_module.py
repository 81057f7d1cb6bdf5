"""The user's own network: "module:my_nets.py:Net" takes class Net from the file my_nets.py.

The class is called with `shape` and `num_classes` if its constructor takes them. Its forward
returns (embedding, logits); or it has the attributes `base` and `head`, which are then applied in
turn. The file is run as Python code, with all rights of the user.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from ..core.errors import ConfigError, unknown
from ..core.options import option
from ..core.user_files import load_file, reason, user_line
from .base import Family, Model, families
from .probe import try_forward


@families.register("module")
@dataclass(frozen=True)
class UserModule(Family):
    """A class from a Python file of yours: module:FILE.py:CLASS."""

    positional: ClassVar[str] = "source"

    source: str = option("", "file and class, written FILE.py:CLASS")

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        made = _call(_find_class(self.source), self.source, shape, num_classes)
        out = try_forward(made, shape, f"module:{self.source}")
        if isinstance(out, Tensor) and _has_parts(made):
            return Model(made.base, made.head)  # type: ignore[arg-type]
        return made


def _find_class(source: str) -> Any:
    path, colon, name = source.rpartition(":")
    if not colon or not path or not name:
        raise ConfigError(f"model module: expected module:FILE.py:CLASS, got 'module:{source}'")
    module = load_file(path, f"model module:{source}").module
    if not hasattr(module, name):
        classes = [n for n, v in vars(module).items() if inspect.isclass(v) and issubclass(v, nn.Module)]
        raise ConfigError(f"model module:{source}: {unknown('class', name, classes)} in {path}")
    return getattr(module, name)


def _call(make: Any, source: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    if not callable(make):
        raise ConfigError(f"model module:{source}: expected a class, got a {type(make).__name__}")
    taken = inspect.signature(make).parameters
    everything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    offered = {"shape": shape, "num_classes": num_classes}
    given = {k: v for k, v in offered.items() if everything or k in taken}
    try:
        made = make(**given)
    except Exception as error:  # whatever the user's class raises
        line = user_line(error)
        raise ConfigError(
            f"model module:{source}: constructing it with {given} failed: {reason(error)}"
            + (f" ({line})" if line else "")
        ) from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model module:{source}: expected an nn.Module, got a {type(made).__name__}")
    return made


def _has_parts(module: nn.Module) -> bool:
    return all(isinstance(getattr(module, part, None), nn.Module) for part in ("base", "head"))

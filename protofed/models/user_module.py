"""The user's own network: "module:my_nets.py:Net" takes class Net from the file my_nets.py.

The class is called with `shape` and `num_classes` if its constructor takes them. Its forward
returns (embedding, logits); or it has the attributes `base` and `head`, which are then applied in
turn. The file is run as Python code, with all rights of the user.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from torch import Tensor, nn

from ..core.errors import ConfigError, unknown
from ..core.options import option
from .base import Family, Model, families
from .check import try_forward


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
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"model module:{source}: no file {path!r} in {Path.cwd()}")
    module = _import_file(file, source)
    if not hasattr(module, name):
        classes = [n for n, v in vars(module).items() if inspect.isclass(v) and issubclass(v, nn.Module)]
        raise ConfigError(f"model module:{source}: {unknown('class', name, classes)} in {path}")
    return getattr(module, name)


def _import_file(file: Path, source: str) -> ModuleType:
    resolved = str(file.resolve())
    name = f"protofed_user_{file.stem}_{blake2b(resolved.encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise ConfigError(f"model module:{source}: {file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up here
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        del sys.modules[name]
        raise ConfigError(
            f"model module:{source}: running {file} failed: {type(error).__name__}: {_line(error)}"
        ) from error
    return module


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
        reason = f"{type(error).__name__}: {_line(error)}"
        raise ConfigError(f"model module:{source}: constructing it with {given} failed: {reason}") from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model module:{source}: expected an nn.Module, got a {type(made).__name__}")
    return made


def _has_parts(module: nn.Module) -> bool:
    return all(isinstance(getattr(module, part, None), nn.Module) for part in ("base", "head"))


def _line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]

"""The user's own data: "my_data.py:load" calls the function `load` of the file my_data.py.

It returns a `Dataset`, or arrays: (x, y), or (x, y, test) where `test` marks the rows for testing. Without it
every fifth row is one. Parameters with a default are options: "my_data.py:load:rows=100". The name may also
be that of a `Source` class. The file is run as Python code, with all rights of the user.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.errors import ConfigError, DataError
from ..core.options import build
from ..core.user_files import load_named, reason, user_line
from .base import Dataset, Source
from .labels import numbered_classes

TEST_EVERY = 5  # rows from one test row to the next, where nothing is said


def load_from_file(form: str, options: Mapping[str, Any]) -> Dataset:
    """What the function or source of FILE.py:NAME gives."""
    where = f"data {form}"
    found = load_named(form, where, "functions and sources", _fits)
    try:
        if inspect.isclass(found):
            source: Any = build(found, options, where)
            dataset: Dataset = source.load()
            return dataset
        given = build(_options(found, where), options, where)
        made = found(**{field.name: getattr(given, field.name) for field in dataclasses.fields(given)})
    except (ConfigError, DataError):
        raise
    except Exception as error:  # whatever the user's function raises
        raise DataError(f"{where}: {user_line(error) or 'it'}: {reason(error)}") from error
    return made if isinstance(made, Dataset) else _dataset(made, form, where)


def _fits(found: Any) -> bool:
    return inspect.isfunction(found) or (
        inspect.isclass(found) and issubclass(found, Source) and dataclasses.is_dataclass(found)
    )


def _options(function: Callable[..., Any], where: str) -> Any:
    """The parameters of a function as a dataclass of options."""
    fields: list[Any] = []
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if parameter.default is parameter.empty:
            raise ConfigError(f"{where}: parameter {name!r} of the function needs a default")
        plain = type(parameter.default) if parameter.default is not None else Any
        hint = plain if parameter.annotation is parameter.empty else parameter.annotation
        fields.append((name, hint, dataclasses.field(default=parameter.default)))
    return dataclasses.make_dataclass("Options", fields, frozen=True)


def _dataset(made: Any, form: str, where: str) -> Dataset:
    """Arrays as a dataset. Whole-number labels name their classes; others are numbered in sorted order."""
    if not isinstance(made, tuple | list) or len(made) not in (2, 3):
        raise DataError(f"{where}: expected a Dataset, (x, y) or (x, y, test), got a {type(made).__name__}")
    x, y = (np.asarray(part) for part in made[:2])
    if not len(x) or len(x) != len(y):
        raise DataError(f"{where}: {len(x)} inputs and {len(y)} labels")
    test = np.asarray(made[2], bool) if len(made) == 3 else np.arange(len(y)) % TEST_EVERY == TEST_EVERY - 1
    if x.dtype != np.uint8:
        x = x.astype(np.float32)
    if y.dtype.kind in "US":
        names, y = np.unique(y, return_inverse=True)
        classes = tuple(str(name) for name in names)
    elif y.dtype.kind in "iu":
        classes = tuple(str(name) for name in numbered_classes(y, where))
    else:
        raise DataError(f"{where}: labels must be whole numbers or names, got {y.dtype}")
    return Dataset(form, x, y.astype(np.int64), test, classes)

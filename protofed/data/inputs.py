"""How raw samples become the inputs of a model, written down: new samples are treated exactly alike.

An `InputRule` is plain data. A run keeps it in inputs.json (`runs/input_rules.py`), so that a model can be
used where its training data is not: `ready` makes inputs of arrays, `new_rows.read_new` of files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..core.errors import DataError

WHOLE, BYTES, FLOATS = "int64", "uint8", "float32"  # tokens stay whole; bytes are scaled by 1/255


@dataclass(frozen=True)
class InputCol:
    """A column of a table: a number, or a category with one input for each of its values."""

    name: str
    values: tuple[str, ...] = ()  # of a category
    fill: float | None = None  # what stands for a missing number; None: it is refused
    mean: float = 0.0
    std: float = 1.0

    @property
    def width(self) -> int:
        """Inputs that the column becomes."""
        return len(self.values) or 1


@dataclass(frozen=True)
class InputRule:
    """From raw samples to inputs. Constants were computed on training rows."""

    shape: tuple[int, ...]  # of one input
    dtype: str = FLOATS
    mean: tuple[float, ...] | None = None  # along the first axis of an input, after the scaling of bytes
    std: tuple[float, ...] | None = None
    columns: tuple[InputCol, ...] = ()  # of a table
    reading: Mapping[str, Any] = field(default_factory=dict)  # options with which files were read

    @property
    def column(self) -> str:
        """The column of text or tokens that is the input; empty without."""
        return str(self.reading.get("column", ""))

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> InputRule:
        """Read back; DataError where something is missing or of another kind."""
        try:
            columns = tuple(InputCol(**{**one, "values": tuple(one["values"])}) for one in found["columns"])
            mean, std = (None if found[key] is None else tuple(found[key]) for key in ("mean", "std"))
            shape = tuple(int(size) for size in found["shape"])
            return cls(shape, str(found["dtype"]), mean, std, columns, dict(found["reading"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the rule of inputs is damaged: {error!r}") from error


def ready(raw: Any, rule: InputRule) -> np.ndarray:
    """Inputs [N, …] of raw samples: an array as the data set had it, or columns by name for a table.

    Bytes are scaled by 1/255, tables filled, coded and standardised with the constants of the rule, images
    normalised. DataError where samples have another form.
    """
    if isinstance(raw, Mapping) or hasattr(raw, "columns"):  # a table of named columns, or a DataFrame
        from .table import encode_named

        return encode_named(raw, rule)
    if rule.column and isinstance(raw, list | tuple) and all(isinstance(one, str) for one in raw):
        return _texts(raw, rule)
    x = np.asarray(raw)
    _check_form(x, rule)
    if rule.columns:
        return _numbers_of_table(x, rule.columns)
    if rule.dtype == WHOLE:
        return x.astype(np.int64)
    made = x.astype(np.float32)
    if x.dtype == np.uint8:
        made /= 255
    if rule.mean is not None and rule.std is not None:
        axes = (-1,) + (1,) * (len(rule.shape) - 1)
        mean, std = (np.array(part, np.float32).reshape(axes) for part in (rule.mean, rule.std))
        made = (made - mean) / std
    return _finite(made)


def _texts(texts: Sequence[str], rule: InputRule) -> np.ndarray:
    """Texts, or tokens as text, as they were in the column of a table."""
    from .texts import encode_texts, parse_tokens

    where = f"column {rule.column!r}"
    if rule.dtype == WHOLE:
        return parse_tokens(texts, rule.shape[0], where)
    return encode_texts(texts, str(rule.reading["encoder"]), where)


def _check_form(x: np.ndarray, rule: InputRule) -> None:
    categories = [column.name for column in rule.columns if column.values]
    if categories:
        raise DataError(
            f"the model was trained on a table with categories ({categories[0]!r}, …); give named columns "
            "(a dict, a DataFrame or a csv file) rather than an array"
        )
    if tuple(x.shape[1:]) != rule.shape or not len(x):
        raise DataError(
            f"expected samples of shape [N, {', '.join(map(str, rule.shape))}], got {list(x.shape)}"
        )
    if x.dtype.kind not in "fiub":
        raise DataError(f"expected numbers, got an array of type {x.dtype}")
    if rule.dtype == WHOLE and x.dtype.kind not in "iu":
        raise DataError(f"expected tokens, which are whole numbers, got {x.dtype}")
    if rule.dtype == BYTES and x.dtype != np.uint8:
        raise DataError(
            f"the model was trained on images of bytes (uint8, 0 to 255), got {x.dtype}; give bytes, so that "
            "they are scaled as in training"
        )


def _numbers_of_table(x: np.ndarray, columns: Sequence[InputCol]) -> np.ndarray:
    """Columns that all are numbers, in their order."""
    made = x.astype(np.float64)
    for number, column in enumerate(columns):
        made[:, number] = standardised(filled(made[:, number], column, ""), column)
    return _finite(made.astype(np.float32))


def filled(values: np.ndarray, column: InputCol, where: str) -> np.ndarray:
    """Numbers without gaps (NaN); DataError where a gap may not be filled."""
    gaps = np.isnan(values)
    if gaps.any() and column.fill is None:
        raise DataError(
            f"{where}column {column.name!r}, row {int(gaps.argmax())}: the value is missing; fill it in, "
            f"leave the column out (drop={column.name}), or set missing=mean, median or zero"
        )
    return np.where(gaps, column.fill or 0.0, values)


def standardised(values: np.ndarray, column: InputCol) -> np.ndarray:
    """With the constants of the column."""
    return (values - column.mean) / column.std


def _finite(x: np.ndarray) -> np.ndarray:
    if not np.isfinite(x).all():
        raise DataError(
            f"row {int(np.argwhere(~np.isfinite(x))[0, 0])} holds NaN or infinity; remove or repair it"
        )
    return x

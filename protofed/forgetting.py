"""A client is taken out of a run: the server's state becomes what it were had the client never taken part.

It works for methods whose state is a sum (`Algorithm.forget`). What others have trained beside a server
that knew the client stays theirs, unless their states are dropped too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .config import resolve
from .core.answer import Score
from .core.errors import ConfigError
from .engines.store import Store
from .experiment import DEPLOYED, Experiment, reopen
from .metrics.scores import summarise
from .ops.pooled import Pool
from .runs.directory import RunDir
from .runs.kept_files import KEPT, settings_with_kept


@dataclass(frozen=True)
class Forgotten:
    """What was done: clients that remain in the server's sums, and accuracy of the others in percent by mode,
    before and after (empty for a deployed run, whose samples are elsewhere)."""

    client: int
    round: int
    remaining: int
    networks: str
    before: dict[str, float]
    after: dict[str, float]


def forget(directory: RunDir, client: int, networks: str = "keep") -> Forgotten:
    """Take a client out of the newest checkpoint. `networks`: "keep" what others trained, or start "anew"."""
    if (directory.config.get("trust") or {}).get("dp"):
        raise ConfigError(
            f"{directory.path}: its sums have noise (dp); taken out exactly, a client's own would show as "
            "the difference of both states; run anew without it"
        )
    with directory.locked():
        if directory.config["data"] == DEPLOYED:
            return _deployed(directory, client, networks)
        experiment = reopen(directory)
        try:
            return _simulated(directory, experiment, client, networks)
        finally:
            experiment.federation.engine.close()


def _simulated(directory: RunDir, experiment: Experiment, client: int, networks: str) -> Forgotten:
    task, federation = experiment.task, experiment.federation
    if not 0 <= client < task.clients:
        raise ConfigError(f"client {client} does not exist; the run has clients 0 to {task.clients - 1}")
    others = [one for one in experiment.tested() if one != client]
    state = task.algorithm.forget(federation.state, client, experiment.data.train(client), task)
    before = federation.evaluate(others)
    federation.state, store = state, federation.engine.store
    without = [client] if networks == "keep" else list(store)
    directory.checkpoints.rewrite(federation.round, state, store, federation.engine.memory(), without)
    after = federation.evaluate(others)
    return Forgotten(client, federation.round, _members(state), networks, _means(before), _means(after))


def _deployed(directory: RunDir, client: int, networks: str) -> Forgotten:
    """Of what the server keeps alone; the clients' networks are on their own machines."""
    if networks != "keep":
        raise ConfigError("the networks of a deployed run are on its clients' machines: --networks keep")
    method = resolve(settings_with_kept(directory.config, directory.path, KEPT)).make_method()
    store = Store()
    found = directory.checkpoints.load(Pool, store)
    state = method.forget(found.state, client, None, None)  # type: ignore[arg-type]
    directory.checkpoints.rewrite(found.round, state, store, found.engine, [client])
    return Forgotten(client, found.round, _members(state), networks, {}, {})


def _members(state: Any) -> int:
    return len(state.members)


def _means(scores: list[Score]) -> dict[str, float]:
    return {mode: found["mean"] for mode, found in summarise(scores)["acc"].items()}

"""How clients mix classifier and prototypes in the mode `ens`, in mixtures.json: the share of the classifier,
which their held-out samples decided. Written at the end of a run that holds samples out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from ..core.client import predictor
from ..core.errors import RunError
from ..core.mixture import fit_mixture, mixes
from ..core.task import ClientTurn
from ..engines.federation import Federation
from .seals import read_whole, there, write_whole

FILE = "mixtures.json"


@torch.no_grad()
def keep_mixtures(folder: Path, federation: Federation, clients: Iterable[int]) -> None:
    """Fit the mixtures of these clients, as their last test did, and write them."""
    task, data = federation.task, federation.data
    if not (task.validation and mixes(task.algorithm.modes)):
        return
    shares = {}
    for client in clients:
        turn = ClientTurn(task, federation.round, "eval", client=client)
        train, state = data.train(client), federation.engine.store.get(client)
        down = task.algorithm.broadcast(federation.state, turn)
        _, predict = predictor(turn, state, train.class_counts(task.C), down)
        fitted = fit_mixture(predict, train, data.validation(client), task.C)
        if fitted is not None:
            shares[str(client)] = fitted.share
    write_whole(folder, FILE, {"format": 1, "round": federation.round, "shares": shares})


def read_mixtures(folder: Path, round: int) -> dict[int, float]:
    """Client → share, as of this round; empty for a run without, or one that has gone on since."""
    if not there(folder, FILE):
        return {}
    found = read_whole(folder, FILE)
    try:
        shares = {int(client): float(share) for client, share in found["shares"].items()}
        return shares if found["round"] == round else {}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{folder / FILE} is damaged: {error!r}") from error

"""How well the tested models fit the clients' training samples: loss and error, in eval mode.

For methods with one model this is the aggregate model, whose training loss ProtoMargin prints (§5.1, Table 2
and the second row of Fig. 2: "results obtained using the aggregate models"). The loss that a round's record
keeps is another one: that of the participants while they train, with the terms that their method adds.

FedTGP's Fig. 4 is the training error "in the same way as calculating test accuracy": over all training
samples together, in the method's main prediction mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.answer import Score
from ..core.client import score_client
from ..core.task import ClientTurn
from ..experiment import Experiment


def training_scores(experiment: Experiment, clients: Sequence[int] | None = None) -> list[Score]:
    """Tests of these clients' models (all active ones by default) on their own training samples."""
    task, federation = experiment.task, experiment.federation
    found = []
    for client in experiment.active if clients is None else clients:
        turn = ClientTurn(task, federation.round, "eval", client=client)
        down = task.algorithm.broadcast(federation.state, turn)
        train = experiment.data.train(client)
        found.append(score_client(turn, federation.engine.store.get(client), train, train, down))
    return found


def aggregate_loss(experiment: Experiment, clients: Sequence[int] | None = None) -> float:
    """Mean cross-entropy of the classifier over all training samples; NaN without a classifier."""
    scores = training_scores(experiment, clients)
    total = sum(score.n for score in scores)
    return sum(score.loss * score.n for score in scores) / total if total else math.nan


def train_error(experiment: Experiment, clients: Sequence[int] | None = None) -> float:
    """Share of all training samples, in percent, that the main prediction mode gets wrong; NaN where it does
    not predict yet."""
    mode = experiment.task.algorithm.modes[0]
    scores = training_scores(experiment, clients)
    total = sum(score.n for score in scores)
    if not total or not all(mode in score.correct for score in scores):
        return math.nan
    return 100 - 100 * sum(score.correct[mode] for score in scores) / total

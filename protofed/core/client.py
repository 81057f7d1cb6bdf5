"""One client's part of a round, the functions that every engine maps over clients: training and testing.

`run_leg` is begin → train → finish. The cohort engine uses the same `begin` and `finish`, and the same
training loop (train.py) for many clients at once in between.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from .ahead import Ahead, Results
from .algorithm import Leg, Phase, Ran
from .answer import ClientState, Reply, Score, Work
from .data import ClassCounts, LocalData, whole_batches
from .errors import ConfigError, MessageError
from .mixture import Predict, fit_mixture, mixes, scored_held
from .net import LiveNet, selects
from .private import Private, for_upload, sealed
from .record import Record, Tree
from .scoring import ScoredPart, Scoring, WatchedNet, joined, signs_of
from .stages import is_stage, stage
from .task import ClientTurn, Task
from .train import Alone, Session, set_modes, train


def run_leg(turn: ClientTurn, leg: Leg, state: ClientState | None, data: LocalData, down: Record) -> Reply:
    """Carry out one leg at one client."""
    session = begin(turn, leg, state, data, down)
    for number, phase in enumerate(leg.phases):
        train(_trainer(session, phase, number), number)
    return finish(session, turn.task.live(turn.group))


def _trainer(session: Session, phase: Phase, number: int) -> Alone:
    steps = session.turn.task.private
    if steps is None or phase.data != "local":
        return Alone([session], phase, number)
    return Private([session], phase, number, steps)


def kept_names(task: Task, group: int) -> list[str]:
    """Names of the tensors that stay at the client."""
    names, keep = task.names(group), task.algorithm.keep
    buffers = names.buffers if "buffers" in keep else frozenset()
    return [name for name in names.all if name in buffers or selects(keep, name)]


def assemble(task: Task, turn: ClientTurn, state: ClientState | None, down: Record) -> Tree:
    """The client's tensors: what it kept, else its seeded start, overlaid by what came down."""
    tensors = dict(state.kept) if state else {}
    if any(name not in tensors for name in kept_names(task, turn.group)):
        first = task.fresh(turn.group, turn.client)
        tensors = {**{name: first[name] for name in kept_names(task, turn.group)}, **tensors}
    tensors = task.algorithm.load(tensors, down, turn)
    for name in task.names(turn.group).all:
        if name not in tensors:
            raise ConfigError(
                f"{task.algorithm.name}: client {turn.client} has no value for tensor {name!r}: it is "
                "neither kept nor in the download; add its prefix to `keep` or send it"
            )
    return tensors


@is_stage("prepare")
@torch.no_grad()
def begin(turn: ClientTurn, leg: Leg, state: ClientState | None, data: LocalData, down: Record) -> Session:
    """Install the tensors, then `prepare` and `before` in eval mode."""
    task = turn.task
    tensors = assemble(task, turn, state, down)
    net = task.live(turn.group)
    net.install(tensors)
    set_modes(net, training=False)
    mem = state.mem if state else {}
    data = _for_passes(turn, data)
    seen = sealed(task, data)
    view = task.algorithm.prepare(net, seen, down, mem, turn)
    before = task.algorithm.before(net, seen, down, mem, turn)
    return Session(turn, leg, data, down, mem, tensors, view, before)


def _for_passes(turn: ClientTurn, data: LocalData) -> LocalData:
    """With `drop_last`, passes over the data see what an epoch would: no incomplete batch."""
    n = len(data)
    stop = whole_batches(n, turn.task.batch_size)
    if not turn.task.drop_last or stop == n:
        return data
    order = turn.fixed_order(n)
    if order is None:
        order = torch.randperm(n, generator=turn.generator("pass"))
    return replace(data, passed=order[:stop].sort().values)


@torch.no_grad()
def finish(session: Session, net: LiveNet) -> Reply:
    """`upload` in eval mode; the new state is committed by the engine once the reply is accepted."""
    turn, task = session.turn, session.turn.task
    set_modes(net, training=False)
    mean = session.loss_sum / session.steps if session.steps else math.nan
    if session.steps and not math.isfinite(mean):
        raise MessageError(
            f"{task.algorithm.name}: client {turn.client}, round {turn.round}: the training loss is {mean}; "
            "lower lr or the weight of the extra loss terms, or look at this client's data"
        )
    lr = task.opt.lr * task.lr_factor(turn.round)
    ran = Ran(session.steps, lr, session.tensors, session.sums, session.before, session.view)
    data, shown = for_upload(task, session.leg, session.data, net)
    with stage("upload"):
        up, mem = task.algorithm.upload(shown, data, session.down, session.mem, ran, turn)
    names = set(kept_names(task, turn.group))
    kept = {name: tensor for name, tensor in net.tensors().items() if name in names} if names else {}
    work = Work(session.steps, session.samples, mean)
    return Reply(turn.client, len(session.data), up, ClientState(kept, mem), work)


@torch.no_grad()
def score_client(
    turn: ClientTurn,
    state: ClientState | None,
    train: LocalData,
    test: LocalData,
    down: Record,
    held: LocalData | None = None,
) -> Score:
    """Test a client's model, with the newest download, on its test samples, or those that `turn.on` names.
    `held`: samples that it holds out of training. Where the task has such, the mode `ens` is added (see
    mixture.py)."""
    return joined([score_part(turn, state, train, test, down, held)])


@torch.no_grad()
def score_part(
    turn: ClientTurn,
    state: ClientState | None,
    train: LocalData,
    test: LocalData,
    down: Record,
    held: LocalData | None = None,
    chunks: range | None = None,
    ahead: Ahead | None = None,
) -> ScoredPart:
    """The same for some chunks of the samples alone. `ahead`: what is known of the net's results."""
    task = turn.task
    rows, known = _tested(turn, test, held), train.class_counts(task.C)
    scoring = Scoring(task.C, task.by_class)
    net, predict = predictor(turn, state, known, down)
    mixed = held is not None and task.validation and mixes(task.algorithm.modes)
    every, made = list(rows.chunks()), Results({})
    chunks = range(len(every)) if chunks is None else chunks
    if mixed and held is not None and turn.on == "validation":
        for scores, y in scored_held(predict, train, held, task.C):
            scoring.add(scores, y)
    else:
        fitted = fit_mixture(predict, train, held, task.C) if mixed and held is not None else None
        made = ahead.made(turn, state, net.installed) if ahead else made
        for number in chunks:
            x, y = every[number]
            if number in made.chunks:
                net.expect(x, made.chunks[number])
            scores = predict(x)
            scoring.add(fitted.add(scores) if fitted else scores, y)
    if ahead and made.chunks and chunks and not net.asked_for_known:
        ahead.wanted = False
    signs = signs_of(task.C, train, rows, net.seen)
    before = made.seconds * len(chunks) / max(1, len(every))
    return ScoredPart(turn.client, scoring, signs, chunks, len(every), before)


def predictor(
    turn: ClientTurn, state: ClientState | None, known: ClassCounts, down: Record
) -> tuple[WatchedNet, Predict]:
    """The client's net, and scores by mode of inputs, as its tests have them."""
    net, mem = tested_net(turn, state, down), state.mem if state else {}
    return net, lambda x: turn.task.algorithm.predict(net, x, known, down, mem)


def tested_net(turn: ClientTurn, state: ClientState | None, down: Record) -> WatchedNet:
    """The client's live net in eval mode, with its tensors and the newest download."""
    net, tensors = turn.task.live(turn.group), assemble(turn.task, turn, state, down)
    net.install(tensors)
    set_modes(net, training=False)
    return WatchedNet(net.modules, net.frozen, tensors)


def _tested(turn: ClientTurn, test: LocalData, held: LocalData | None) -> LocalData:
    """The samples of a test."""
    if turn.on == "balanced" and turn.task.balanced is not None:
        return turn.task.balanced
    if turn.on == "validation" and held is not None:
        return held
    if turn.on == "test":
        return test
    raise ConfigError(f"client {turn.client} has no {turn.on} samples; its tests are on 'test'")

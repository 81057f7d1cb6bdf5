"""Attackers in the round loop of a simulation: who they are, what they send, and how far they get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from ..core.algorithm import Leg
from ..core.answer import Answer, Block, ClientState, Reply, Score
from ..core.data import ClientData, LocalData
from ..core.errors import ConfigError
from ..core.guard import Adversary
from ..core.record import Nothing, Record
from ..core.rng import numpy_generator
from ..core.task import Task, Turn
from .attacks._base import Attack, Later, Sight, attacks
from .defences._base import Defence, defences
from .reached import attack_record
from .settings import Trust
from .uploads import class_field, sending


class Attackers(Adversary):
    """The clients drawn as attackers, with their attack."""

    def __init__(self, attack: Attack, task: Task, data: ClientData, defence: Defence | None):
        self.attack = attack
        self.task = task
        self.data = data
        self.defence = defence
        self.clients = drawn(attack, task)
        self.state: Callable[[], Record] = Nothing  # the server's, told once there is one
        self._holders = torch.zeros(2, task.C, dtype=torch.int64)  # of all, of attackers
        self._counted = False

    def answers(self, answers: Iterable[Answer], leg: Leg, turn: Turn) -> Iterator[Answer]:
        """The answers of a leg, those of attackers as they want them."""
        if leg.up is Nothing:
            yield from answers
            return
        self._begin(leg)
        if self.attack.colluding:
            yield from self._together(list(_single(answers)), leg, turn)
            return
        sight = Sight(leg, turn, self.data, defence=self.defence)
        for answer in answers:
            if isinstance(answer, Block) and self.clients.isdisjoint(answer.clients):
                self._count(list(answer))
                yield answer
                continue
            for one in _single([answer]):
                yield self._sent(one, sight)

    def _together(self, got: list[Answer], leg: Leg, turn: Turn) -> Iterator[Answer]:
        replies = [answer for answer in got if isinstance(answer, Reply)]
        sight = Sight(
            leg,
            turn,
            self.data,
            [reply for reply in replies if reply.client not in self.clients],
            [reply for reply in replies if reply.client in self.clients],
            self.task.algorithm.broadcast(self.state(), turn),
            self.defence,
        )
        yield from (self._sent(answer, sight) for answer in got)

    def _sent(self, answer: Answer, sight: Sight) -> Answer:
        if not isinstance(answer, Reply):
            return answer
        sent = self.attack.upload(answer, sight) if answer.client in self.clients else answer
        self._count([sent])
        return sent

    @property
    def trained_on(self) -> ClientData:
        """The samples on which clients train."""
        return Poisoned(self.data, self.attack, self.clients, self.task)

    def record(self) -> dict[str, Any]:
        """Who attacks, and how many clients and attackers hold each class."""
        found: dict[str, Any] = {"attackers": sorted(self.clients)}
        if self._counted:
            found["held"] = dict(zip(("all", "attackers"), self._holders.tolist()))
        return found

    def judge(
        self, scores: Sequence[Score], round: int, client_state: Callable[[int], ClientState | None]
    ) -> dict[str, Any]:
        """What the attack reached, from the test of the honest clients."""
        later = Later(self.task, round, self.data, self.state(), client_state, self.clients, scores)
        return {"attack": attack_record(self.attack, later)}

    # holders of classes

    def _begin(self, leg: Leg) -> None:
        if class_field(leg.up):
            self._holders, self._counted = torch.zeros_like(self._holders), True

    def _count(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            by = class_field(type(reply.up))
            if by:
                rows = torch.bincount(getattr(reply.up, by), minlength=self.task.C).cpu()
                self._holders[0] += rows
                self._holders[1] += rows * (reply.client in self.clients)


class Poisoned:
    """Clients' samples as they are trained on: those of attackers as the attack wants them."""

    def __init__(self, data: ClientData, attack: Attack, clients: frozenset[int], task: Task):
        self._data, self._attack, self._clients, self._task = data, attack, clients, task

    def __len__(self) -> int:
        return len(self._data)

    def size(self, client: int) -> int:
        return self._data.size(client)

    def train(self, client: int) -> LocalData:
        data = self._data.train(client)
        return self._attack.poison(data, self._task, client) if client in self._clients else data

    def test(self, client: int) -> LocalData:
        return self._data.test(client)

    def validation(self, client: int) -> LocalData:
        return self._data.validation(client)


def drawn(attack: Attack, task: Task) -> frozenset[int]:
    """The attackers: the share of the clients that take part, rounded, at least one."""
    active = task.clients - task.newcomers
    count = max(1, int(attack.share * active + 0.5 + 1e-9))
    chosen = numpy_generator(task.seed, "attackers").permutation(active)[:count]
    return frozenset(int(client) for client in chosen)


def make_adversary(trust: Trust, task: Task, data: ClientData, engine: str) -> Attackers | None:
    """The attackers that --attack asks for; ConfigError where they could do nothing."""
    if trust.attack is None:
        return None
    attack, said = attacks.make(trust.attack), f"--attack {trust.attack}"
    method = task.algorithm
    if not sending(method):
        raise ConfigError(f"{said}: {method.name} sends nothing up: no client can harm another")
    if refusal := attack.refusal(task):
        raise ConfigError(f"{said}: {refusal}")
    if attack.needs_states and engine == "flower":
        raise ConfigError(
            f"{said}: needs the attackers' models, which the engine flower keeps apart; use another engine"
        )
    defence = defences.make(trust.robust) if trust.robust is not None else None
    found = Attackers(attack, task, data, defence)
    active = task.clients - task.newcomers
    if 2 * len(found.clients) >= active:
        raise ConfigError(
            f"{said}: {len(found.clients)} of {active} clients would attack; attackers must be a minority: "
            "lower share, or take more clients"
        )
    return found


def refuse_attack(trust: Trust) -> None:
    """Refuse attackers where clients are real."""
    if trust.attack is not None:
        raise ConfigError(
            f"attack: {trust.attack}: clients attack in simulations only; leave it out of the recipe"
        )


def _single(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Blocks taken apart."""
    for answer in answers:
        if isinstance(answer, Block):
            yield from answer
        else:
            yield answer

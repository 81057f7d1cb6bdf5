"""Which worker does what: clients are divided by the seconds that they took in earlier rounds.

A client that is new counts by its architecture's seconds a sample, a new architecture by size; before
anything was measured all count by size alone: samples × epochs × (10,000 + parameters).

Where a client trains alone, who trains it does not change its numbers, so measured times may decide. Clients
of one cohort are rounded together: cohorts are made from sizes alone, so that a resumed run, or the same run
again, has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from ..core.data import ClientData
from ..core.task import Task
from .base import Job
from .cohort import cohorts

BASE = 10_000  # what a sample costs beside the parameters, counted in parameters
STEP = 450_000.0  # what a cohort's step costs around its clients' work, in the same unit, on W1
OVER = 1.02  # how much more than its part a worker may get of clients whose states it has
TESTED = 64  # most clients of one share of a test
SHARES = 4  # shares of a test that a worker gets at least: what is left of them an idle one can take
WORTH = 0.05  # seconds of a test for which it pays to send a client's state to another worker
MOST_KNOWN = 200_000  # clients whose seconds are kept
Homes = Callable[[Job], int | None]
N = TypeVar("N", int, float)


@dataclass
class Share:
    """Jobs that one worker does together. `weight` is their size, `cost` what they are expected to take."""

    jobs: list[Job]
    weight: float
    cost: float
    tries: int = 0
    parts: dict[int, range] = field(default_factory=dict)  # chunks of those whose test is cut


@dataclass
class Measured:
    """Seconds of one kind of work, by client and by architecture.

    Client 0 took 3 s for 10 samples, so 0.3 s each. Client 1 has the same architecture and 20 samples.
    Client 2 has another, of twice the size: 3 s for a size of 10 make 6 s for one of 20.

    >>> known = Measured()
    >>> known.expect(0, 0, 10, 10.0)
    10.0
    >>> known.learn(0, 0, 10, 10.0, 3.0)
    >>> [known.expect(0, 0, 10, 10.0), known.expect(1, 0, 20, 20.0), known.expect(2, 1, 10, 20.0)]
    [3.0, 6.0, 6.0]
    """

    clients: dict[int, float] = field(default_factory=dict)  # seconds for a unit of amount
    groups: dict[int, tuple[float, float]] = field(default_factory=dict)  # seconds and amount so far
    seconds: float = 0.0
    weight: float = 0.0

    def learn(self, client: int, group: int, amount: float, weight: float, seconds: float) -> None:
        """A client's work took so long. Half of what is known of it is from this time."""
        if amount <= 0 or seconds <= 0:
            return
        rate = seconds / amount
        keep_newest(self.clients, {client: (self.clients.get(client, rate) + rate) / 2})
        spent, done = self.groups.get(group, (0.0, 0.0))
        self.groups[group] = spent + seconds, done + amount
        self.seconds += seconds
        self.weight += weight

    def expect(self, client: int, group: int, amount: float, weight: float) -> float:
        """Seconds that it will take; without any measurement its size, which is all that counts then."""
        if client in self.clients:
            return self.clients[client] * amount
        if group in self.groups:
            spent, done = self.groups[group]
            return spent / done * amount
        return weight * self.seconds / self.weight if self.weight else weight


def keep_newest(known: dict[int, N], new: Mapping[int, N]) -> None:
    """Add what is known of clients, and forget those of whom nothing was heard for longest."""
    for client, value in new.items():
        known.pop(client, None)
        known[client] = value
    for client in list(islice(known, max(0, len(known) - MOST_KNOWN))):
        del known[client]


class Planner:
    """Divides jobs between `count` workers."""

    def __init__(self, task: Task, data: ClientData, count: int, cohort: bool):
        self.task = task
        self.data = data
        self.count = count
        self.cohort = cohort
        self.trained = Measured()
        self.tested = Measured()
        self._chunks: dict[int, int] = {}  # of a client's test
        self._places: dict[int, int] = {}  # where a client's samples were last used

    def training(self, jobs: Sequence[Job], home: Homes) -> list[list[Share]]:
        """Shares for each worker, the longest first."""
        if self.cohort:
            return self._cohorts(jobs)
        costs = {job.client: self._cost(self.trained, job) for job in jobs}
        return [[self._share(self.trained, [job]) for job in own] for own in self._divide(jobs, costs, home)]

    def tests(self, jobs: Sequence[Job], home: Homes) -> list[list[Share]]:
        """Shares for each worker: clients whose states it has, as far as that is fair. A client that alone is
        more than a worker's part is tested in parts."""
        costs = {job.client: self._cost(self.tested, job) for job in jobs}
        plan = [self._bundles(own, costs) for own in self._divide(jobs, costs, home)]
        if self.tested.weight:  # costs are seconds
            self._level(plan)
        return plan

    def _bundles(self, own: Sequence[Job], costs: Mapping[int, float]) -> list[Share]:
        """Some clients at a time: what is left of them an idle worker can take."""
        most = sum(costs.values()) / (self.count * SHARES)
        bundles: list[list[Job]] = []
        filled = 0.0
        for job in own:
            if not bundles or filled + costs[job.client] > most or len(bundles[-1]) == TESTED:
                bundles.append([])
                filled = 0.0
            bundles[-1].append(job)
            filled += costs[job.client]
        return [self._share(self.tested, bundle) for bundle in bundles]

    def _level(self, plan: list[list[Share]]) -> None:
        """Move chunks of the longest client from a worker that has more than its part to those with less."""
        loads = [sum(share.cost for share in own) for own in plan]
        fair = sum(loads) / self.count
        for giver in range(self.count):
            whole = plan[giver][0] if plan[giver] else None
            of = self._chunks_of(whole) if whole else 0
            if whole is None or not of:
                continue
            each, left = whole.cost / of, of
            for taker in sorted(range(self.count), key=loads.__getitem__):
                moved = min(left - 1, round(min(loads[giver] - fair, fair - loads[taker]) / each))
                if moved <= 0 or moved * each < WORTH:
                    continue
                plan[taker].insert(0, _part(whole, range(left - moved, left), of))
                left -= moved
                loads[giver] -= moved * each
                loads[taker] += moved * each
            if left < of:
                plan[giver][0] = _part(whole, range(left), of)

    def _chunks_of(self, share: Share) -> int:
        """How many chunks the test of a share's only client has; 0: it is not to be cut."""
        job, *others = share.jobs
        whole = others or share.parts or job.turn.on != "test" or self.task.validation
        return 0 if whole else self._chunks.get(job.client, 0)

    def learn_training(self, jobs: Sequence[Job], seconds: float, worker: int) -> None:
        """A share took so many seconds; those who trained together share them by size."""
        total = sum(map(self.weight, jobs))
        keep_newest(self._places, dict.fromkeys((job.client for job in jobs), worker))
        for job in jobs:
            weight = self.weight(job)
            self.trained.learn(
                job.client, job.turn.group, self._amount(job), weight, seconds * weight / max(total, 1.0)
            )

    def learn_tests(self, share: Share, seconds: Sequence[float], chunks: Sequence[int]) -> None:
        """The tests of these clients took so many seconds, and consist of so many chunks."""
        for job, each, of in zip(share.jobs, seconds, chunks):
            if job.turn.on == "test":
                part = len(share.parts.get(job.client, range(of))) / of if of else 1.0
                amount, weight = self._amount(job), self.weight(job)
                self.tested.learn(job.client, job.turn.group, amount, weight, each / part)
                keep_newest(self._chunks, {job.client: of})

    def weight(self, job: Job) -> float:
        """Work by size: samples × epochs × size of the model."""
        return float(self._amount(job) * (BASE + self.task.parameter_count(job.turn.group)))

    def _amount(self, job: Job) -> int:
        return self.data.size(job.client) * max(job.turn.epochs, 1)

    def _cost(self, known: Measured, job: Job) -> float:
        return known.expect(job.client, job.turn.group, self._amount(job), self.weight(job))

    def _share(self, known: Measured, jobs: list[Job]) -> Share:
        return Share(jobs, sum(map(self.weight, jobs)), sum(self._cost(known, job) for job in jobs))

    def _divide(self, jobs: Sequence[Job], costs: Mapping[int, float], home: Homes) -> list[list[Job]]:
        """Longest first: each to the worker that has its state, or its samples, unless that has its part
        already, else to the one with the least work so far."""
        own: list[list[Job]] = [[] for _ in range(self.count)]
        loads = [0.0] * self.count
        fair = OVER * sum(costs.values()) / self.count
        for job in sorted(jobs, key=lambda job: -costs[job.client]):
            place = home(job)
            place = self._places.get(job.client) if place is None else place
            if place is None or loads[place] + costs[job.client] > fair:
                place = loads.index(min(loads))
            loads[place] += costs[job.client]
            own[place].append(job)
        return own

    # cohorts

    def _cohorts(self, jobs: Sequence[Job]) -> list[list[Share]]:
        """Clients of one architecture and of about as many steps come together: a cohort makes the steps of
        its longest client, and each costs something around the clients' own work."""
        line = sorted(jobs, key=lambda job: (job.turn.group, -self._amount(job), job.client))
        groups = [job.turn.group for job in line]
        steps = [STEP * self._amount(job) / self.task.batch_size for job in line]
        pieces = cut(groups, [self.weight(job) for job in line], steps, self.count)
        plan = [self._stacks(line[piece.start : piece.stop]) for piece in pieces]
        return [*plan, *([] for _ in range(self.count - len(plan)))]

    def _stacks(self, jobs: Sequence[Job]) -> list[Share]:
        parts = [self._share(self.trained, part) for part in cohorts(jobs)]
        return sorted(parts, key=lambda share: -share.cost)


def _part(whole: Share, chunks: range, of: int) -> Share:
    part = len(chunks) / of
    return Share(whole.jobs, whole.weight * part, whole.cost * part, parts={whole.jobs[0].client: chunks})


def cut(groups: Sequence[int], weights: Sequence[float], opens: Sequence[float], pieces: int) -> list[range]:
    """Cut a line of clients so that the heaviest piece is as light as can be. A piece weighs what its clients
    do, and what the first of each group in it adds (`opens`). There may be fewer pieces.

    Weights 4, 3, 2, 1, where a piece costs 2 beside: 4 + 2 and 3 + 2 + 1 + 2, not 4 + 3 + 2.

    >>> cut([0, 0, 0, 0], [4, 3, 2, 1], [2, 2, 2, 2], 2)
    [range(0, 1), range(1, 4)]
    """
    least, most = 0.0, float(sum(weights) + sum(opens))
    best = [range(len(weights))] if weights else []
    for _ in range(40 if weights else 0):
        limit = (least + most) / 2
        found = _filled(groups, weights, opens, limit)
        if found is not None and len(found) <= pieces:
            most, best = limit, found
        else:
            least = limit
    return best


def _filled(
    groups: Sequence[int], weights: Sequence[float], opens: Sequence[float], limit: float
) -> list[range] | None:
    """Pieces of at most this weight, each as long as can be; None if a client alone weighs more."""
    found: list[range] = []
    start, load, seen = 0, 0.0, set[int]()
    for i, (group, weight, opening) in enumerate(zip(groups, weights, opens)):
        more = weight + (0.0 if group in seen else opening)
        if load + more > limit and i > start:
            found.append(range(start, i))
            start, load, seen, more = i, 0.0, set(), weight + opening
        if load + more > limit:
            return None
        load += more
        seen.add(group)
    return [*found, range(start, len(weights))]

"""A worker process as its parent sees it."""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from weakref import WeakValueDictionary

from ..core.answer import Answer, Block, ClientState, Reply
from .base import Job
from .planning import Share
from .watchdog import Watched


@dataclass
class Worker:
    """A process, its end of the pipe, what it is doing and what it still has to do."""

    number: int
    process: BaseProcess
    pipe: connection.Connection
    queue: deque[Share] = field(default_factory=deque)
    doing: Share | None = None
    owes: Watched | None = None  # the answer to what it is doing
    begun: float = 0.0
    trained: list[Job] = field(default_factory=list)  # whose tests it may begin
    # States that the worker has; the store decides how long they stay in memory here.
    held: WeakValueDictionary[int, ClientState] = field(default_factory=WeakValueDictionary)

    @property
    def load(self) -> float:
        """Work that it has not begun."""
        return sum(share.cost for share in self.queue)

    @property
    def end(self) -> str:
        """How it ended."""
        owes, code = self.owes, self.process.exitcode
        if owes is not None and owes.ended:
            seconds = f"{owes.limit:.0f} s (worker_timeout sets the time)"
            return f"has not answered for {seconds} and was replaced; its work is done again"
        return f"died, exit code {code}" + (" (out of memory?)" if code == -signal.SIGKILL else "")

    def note(self, answer: Answer) -> dict[int, Answer]:
        """An answer for each of its clients; the worker has the states that it sent."""
        if isinstance(answer, Block):
            self.held.update(zip(answer.clients, answer.states))
            return dict.fromkeys(answer.clients, answer)
        if isinstance(answer, Reply):
            self.held[answer.client] = answer.state
        return {answer.client: answer}

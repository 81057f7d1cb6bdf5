"""What the server asks of an upload before a method reads it: one place for all engines.

declaration   type, kinds, shapes and finite values, as the leg's record declares them
more          what a deployment asks besides (flower/checks.py)
method        what a method asks itself (`Algorithm.check_upload`)

Uploads that came together are judged together; where they are not all sound, each alone, and the guilty one
is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.algorithm import Algorithm, Leg
from ..core.answer import Block, Reply
from ..core.errors import MessageError
from ..core.task import ClientTurn, Task

More = Callable[[ClientTurn, Reply, str], None]  # (turn, reply, whose): raises MessageError
DIVERGED = "; training diverged (lower lr), or BatchNorm's statistics have seen too few steps"


@dataclass(frozen=True)
class Checks:
    """The checks of one task; `more` adds to those that every engine makes."""

    task: Task
    more: More | None = None

    def together(self, block: Block, sound: bool) -> bool:
        """Whether all uploads of a block pass; `sound` if the declaration was checked already. False: look
        at each."""
        if self.more is not None or type(self.task.algorithm).check_upload is not Algorithm.check_upload:
            return False
        return sound or block.sound(self.task.sizes)

    def problem(self, reply: Reply, leg: Leg, round: int) -> str | None:
        """Why an upload is refused, with the client's name."""
        who = f"{self.task.algorithm.name}: round {round}: upload of client {reply.client}"
        turn = ClientTurn(self.task, round, leg.name, client=reply.client)
        try:
            if type(reply.up) is not leg.up:
                raise MessageError(f"{who}: expected {leg.up.__name__}, got {type(reply.up).__name__}")
            reply.up.check(self.task.sizes, who)
            if self.more is not None:
                self.more(turn, reply, who)
            self.task.algorithm.check_upload(reply.up, turn)
        except MessageError as error:
            text = str(error) if str(error).startswith(who) else f"{who}: {error}"
            return text + (DIVERGED if "not finite" in text else "")
        return None

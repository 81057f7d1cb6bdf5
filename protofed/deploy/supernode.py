"""Flower's SuperNode as `protofed client` runs it: it shows every few seconds that it lives, and does not
sleep through what it waits for.

Flower has a node send a sign of life every 30 s, and misses it after 60: so long a round waited for a client
that had died, and so long the server refused one that was started again. Its protocol allows 10 s, hence 20.
The node looks for messages every 3 s, and for the app's reply every half second. No option sets any of that,
so the modules that hold the constants are told here.

With `--isolation process` Flower leaves it to others to start client apps: a launcher does (launcher.py),
with a secret that both read from a file of this user's. The node wakes it when a message is there, and hears
from it when an app's process has ended: one that gave no reply is answered for at once.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.app import Error
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL, ErrorCode, Status, SubStatus
from flwr.supercore import heartbeat
from flwr.supernode import fleet_http_connection
from flwr.supernode.cli import flower_supernode

from ..flower.patience import Patience
from .launching import Ended, Launching, launcher
from .login import secret_file
from .private import write_private
from .quick import quick_pulls

NAME = "HEARTBEAT_DEFAULT_INTERVAL"
MESSAGE_SECONDS = (0.1, 3.0)  # between two looks for a message: a request to the server
REPLY_SECONDS = (0.02, 0.5)  # between two looks for the app's reply: in this process
program: Any = import_module("flwr.supernode.cli.flower_supernode")
loop: Any = import_module("flwr.supernode.start_client_internal")


def main() -> None:
    """The program `flower-supernode`, with its arguments."""
    for module in (heartbeat, fleet_http_connection):
        assert hasattr(module, NAME), "another version of Flower"
        setattr(module, NAME, HEARTBEAT_MIN_INTERVAL)
    quick_pulls()
    if "process" in sys.argv:  # --isolation process
        secret = secret_file(Path(os.environ["FLWR_HOME"]))
        write_private(secret, secrets.token_urlsafe(32).encode())
        sys.argv += ["--superexec-auth-secret-file", str(secret)]
        program.start_client_internal = lambda **given: serve(secret, **given)
    else:
        loop.time = Pauses()
    flower_supernode()


def serve(secret: Path, **given: Any) -> None:
    """Flower's loop of a node, with a launcher beside it."""
    launching = Launching(launcher("client", given["runtime_api_address"], secret))
    pauses = Pauses(Apps(given["state_factory"].state(), launching))
    pull = loop._pull_and_store_message

    def pull_and_wake(*args: Any, **named: Any) -> int | None:
        run: int | None = pull(*args, **named)
        if run is not None:
            launching.wake()
        return run

    loop.time, loop._pull_and_store_message = pauses, pull_and_wake
    try:
        loop.start_client_internal(**given)
    finally:
        launching.stop()


class Apps:
    """The processes of client apps: whether the one that has the message still works on it."""

    def __init__(self, state: Any, launching: Launching):
        self.state = state
        self.launching = launching

    def idle(self, seconds: float) -> None:
        """Pause; no message is in work, so nothing that ended is missed."""
        self.launching.ended(seconds)

    def working(self, seconds: float) -> None:
        """Pause until something has ended, at most so long."""
        for one in self.launching.ended(seconds):
            self._answer_for(one)

    def _answer_for(self, ended: Ended) -> None:
        """A process is gone. If the message that is in work was its own, and has no reply, nobody will give
        one: Flower would wait for its signs of life, or for ever. (One message is in work at a time; a task
        that nobody had taken yet is left to the next launcher.)"""
        newest = self.state.get_tasks(order_by="pending_at", ascending=False, limit=1)
        if not newest or newest[0].status.status == Status.PENDING:
            return
        task = newest[0]
        if ended.task in (None, task.task_id):
            reason = f"the client app's process ended with {ended.how or 'code 0'} before it had answered"
            self.state.finish_task(task.task_id, SubStatus.FAILED, reason)
            self.state.get_messages_legacy(run_ids=[task.run_id], is_reply=False)  # also if it had taken none
            self.state._store_error_replies({task.run_id}, Error(ErrorCode.CLIENT_APP_CRASHED, reason))


class Pauses:
    """What Flower's loop has for the module `time`: it sleeps 3 s where there is no message, and less where
    it waits for the reply to one."""

    def __init__(self, apps: Apps | None = None):
        self.apps = apps
        self._message, self._reply = Patience(*MESSAGE_SECONDS), Patience(*REPLY_SECONDS)
        self._waits_for_reply = False

    def sleep(self, seconds: float) -> None:
        """Pause, shorter than asked for where that can matter."""
        reply = seconds < MESSAGE_SECONDS[1]
        if self._waits_for_reply and not reply:
            self._message.begin()
        elif reply and not self._waits_for_reply:
            self._reply.begin()
        self._waits_for_reply = reply
        patience = self._reply if reply else self._message
        pause = min(seconds, patience.pause())
        if self.apps is None:
            time.sleep(pause)
        elif reply:
            self.apps.working(pause)
        else:
            self.apps.idle(pause)
        patience.woke()


if __name__ == "__main__":
    main()

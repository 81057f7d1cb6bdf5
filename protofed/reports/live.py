"""The page of a run while it goes on, served to this machine only.

`LivePage` answers two addresses: `/` is the page, `/data.json` what the run's files hold by now. What
needs data set and models is costly; `follow` brings it up to date now and then, and once more at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..core.errors import ProtofedError
from ..runs.directory import RunDir
from .collect import POINTS, as_report, read_run
from .html import embedded, render
from .inside import look_inside, look_outside
from .loopback import Loopback

POLL_SECONDS = 0.25
AWAY_SECONDS = 5.0  # a page that asked for nothing so long is closed
REFRESH_SECONDS = 30.0  # between two looks at the models
REFRESH_SHARE = 0.1  # of the time that these looks may take


class LivePage:
    """A server of one run's page; use it in a `with` statement."""

    def __init__(self, directory: RunDir, port: int = 0):
        self.directory = directory
        self.inside: dict[str, Any] = {}  # split, space, margins, attention as of the last look
        self.notes: list[str] = []
        self.ended = False
        self._asked = -AWAY_SECONDS  # when a page last asked
        self._told_end = threading.Event()
        pages = {"/": ("text/html", self.page), "/data.json": ("application/json", self.data)}
        self._server = Loopback(pages, port, "--port")

    @property
    def port(self) -> int:
        """The port that is listened on, also where any free one was asked for."""
        return self._server.port

    @property
    def url(self) -> str:
        """The page's address."""
        return self._server.url

    @property
    def watched(self) -> bool:
        """Whether a page is open."""
        return time.monotonic() - self._asked < AWAY_SECONDS

    def report(self) -> dict[str, Any]:
        """What is known of the run by now."""
        ended = self.ended
        run = {**read_run(self.directory), **self.inside}
        run["notes"] = [*run["notes"], *self.notes]
        report = {**as_report([run]), "made": time.strftime("%Y-%m-%d"), "live": not ended}
        if ended:
            self._told_end.set()
        return report

    def page(self) -> str:
        """The page as of now."""
        self._asked = time.monotonic()
        return render(self.report())

    def data(self) -> str:
        """What the page shows as of now, for a page that is open."""
        self._asked = time.monotonic()
        return embedded(self.report())

    def end(self) -> None:
        """The run is over: wait until an open page knows it."""
        self.ended = True
        if self.watched:
            self._told_end.wait(AWAY_SECONDS)
            time.sleep(POLL_SECONDS)  # the answer is on its way

    def __enter__(self) -> LivePage:
        self._server.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.__exit__(*problem)


def follow(live: LivePage, stopped: Callable[[], bool] = lambda: False, points: int = POINTS) -> None:
    """Keep the page up to date until the run is finished. While no page is open nothing is computed."""

    def look(how: Callable[[list[str]], dict[str, Any]]) -> None:
        notes: list[str] = []
        try:
            live.inside = how(notes)
        except ProtofedError as error:  # no such data here, or a checkpoint that has just been replaced
            notes = [] if live.inside else [f"charts of data and embeddings are left out: {error}"]
        live.notes = notes

    due = 0.0
    while live.directory.summary is None and not stopped():
        time.sleep(POLL_SECONDS)
        if live.watched and not live.inside and not live.notes:
            look(lambda notes: look_outside(live.directory))
        elif live.watched and time.monotonic() > due and live.directory.checkpoints.manifest.exists():
            started = time.monotonic()
            look(lambda notes: look_inside(live.directory, points, notes))
            ended = time.monotonic()
            due = ended + max(REFRESH_SECONDS, (ended - started) / REFRESH_SHARE)
    if live.watched and live.directory.summary is not None:
        look(lambda notes: look_inside(live.directory, points, notes))
    live.end()

"""The page of a run while it goes on, served to this machine only.

`LivePage` answers two addresses: `/` is the page, `/data.json` what the run's files hold by now. What
needs data set and models is costly; `follow` brings it up to date now and then, and once more at the end.

Only 127.0.0.1 is listened on, and only requests that name it are answered: a web page elsewhere cannot
read a run by letting its own name point here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..core.errors import ConfigError, ProtofedError
from ..runs.directory import RunDir
from .collect import POINTS, as_report, read_run
from .html import embedded, render
from .inside import look_inside, look_outside

HOST = "127.0.0.1"
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
        try:
            self._server = ThreadingHTTPServer((HOST, port), _handler(self))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"--port: cannot listen on {HOST}:{port}: {error}; give another, or 0"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on, also where any free one was asked for."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.port}/"

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
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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


def _handler(live: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Host", "").removesuffix(f":{live.port}")  # which port 80 leaves out
            if asked not in (HOST, "localhost"):
                self._answer(403, "text/plain", f"ask for {live.url}")
                return
            pages = {"/": ("text/html", live.page), "/data.json": ("application/json", live.data)}
            if self.path not in pages:
                self._answer(404, "text/plain", "nothing here")
                return
            kind, make = pages[self.path]
            try:
                text = make()
            except ProtofedError as error:
                self._answer(500, "text/plain", str(error))
            else:
                self._answer(200, kind, text)

        def _answer(self, code: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """The terminal belongs to the run."""

    return Handler

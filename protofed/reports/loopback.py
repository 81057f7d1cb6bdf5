"""Pages for programs of this machine only.

Only 127.0.0.1 is listened on, and only requests that name it are answered: a web page elsewhere cannot
read them by letting its own name point here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..core.errors import ConfigError, ProtofedError

HOST = "127.0.0.1"
Pages = Mapping[str, tuple[str, Callable[[], str]]]  # by address: kind of content, and what makes it


class Loopback:
    """A server of pages; use it in a `with` statement."""

    def __init__(self, pages: Pages, port: int, setting: str):
        try:
            self._server = ThreadingHTTPServer((HOST, port), _handler(self, pages))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"{setting}: cannot listen on {HOST}:{port}: {error}; give another, or 0"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on, also where any free one was asked for."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of all pages."""
        return f"http://{HOST}:{self.port}/"

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: Loopback, pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Host", "").removesuffix(f":{server.port}")  # which port 80 leaves out
            if asked not in (HOST, "localhost"):
                self._answer(403, "text/plain", f"ask for {server.url}")
                return
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

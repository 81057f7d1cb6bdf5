"""How many files a batch and an upload cross, counted by tracing small real runs.

    python benchmarks/walks.py [TREE]        (the tree whose `protofed` is traced; default: this one)

FedProto on digits, augmented, with a network from the user's own file; two rounds, and what is looked at
comes from the second, when everything is loaded. The rule, the same for every version of the library:

- A file of the package is *crossed* when one of its functions has control in the window: it is called, a
  generator of it is resumed, or a call that it made returns to it. The code that Python writes for
  dataclasses and named tuples has no file. The user's network is not of the package.
- A *batch* begins when the hook `loss` is called and ends when it is called for the next batch of the same
  training: the step of one and the taking of the next, which is one turn of the loop.
- An *upload* begins when the hook `upload` returns at the client and ends when `aggregate` returns, in all
  processes by the clock; one client, so that nothing else happens meanwhile (a cohort: two).
- *Without leaves*: only files from which another file of the package is called in the window.
- What a method computes with (`protofed/ops`) is a leaf by nature, and not counted in either number.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        features = 4 * (shape[1] - 2) * (shape[2] - 2)
        self.base = nn.Sequential(nn.Conv2d(shape[0], 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(features, 16))
        self.head = nn.Linear(16, num_classes)

    def forward(self, x):
        z = self.base(x)
        return z, self.head(z)
"""
RECIPE = 'method = "fedproto"\nrounds = 2\nepochs = 1\n[transport]\nround_timeout = 60\n'
LEFT_OUT = "ops/"


class Event(NamedTuple):
    """Control goes into a function of `file`, or returns from it; `other` is the file it comes from or
    goes back to, empty outside the package."""

    seconds: float
    kind: str  # call or return
    file: str
    function: str
    other: str


class Tracer:
    """Writes the package's calls and returns to a file, in this process and in those forked from it."""

    def __init__(self, package: Path, log: Path):
        self.root = f"{package}{os.sep}"
        self.log = log

    def __enter__(self) -> None:
        self.descriptor = os.open(self.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        os.close(self.descriptor)

    def _note(self, frame: FrameType, kind: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if kind not in ("call", "return") or not name.startswith(self.root):
            return
        above = frame.f_back
        while above is not None and not above.f_code.co_filename.startswith(self.root):
            above = above.f_back
        other = above.f_code.co_filename[len(self.root) :] if above is not None else ""
        row = [time.monotonic(), kind, name[len(self.root) :], frame.f_code.co_name, other]
        os.write(self.descriptor, json.dumps(row).encode() + b"\n")


class Crossed(NamedTuple):
    """The files of one walk."""

    files: list[str]
    without_leaves: list[str]


def batch(events: list[Event]) -> Crossed:
    """From the last call of `loss` but one to the last."""
    begins = [i for i, event in enumerate(events) if _is(event, "call", "loss")]
    return _crossed(events[begins[-2] : begins[-1]])


def upload(events: list[Event]) -> Crossed:
    """From the first return of `upload` in the last round to the return of `aggregate`."""
    ends = [i for i, event in enumerate(events) if _is(event, "return", "aggregate")]
    after = ends[-2]
    begin = next(i for i in range(after, ends[-1]) if _is(events[i], "return", "upload"))
    return _crossed(events[begin : ends[-1]])


def _is(event: Event, kind: str, hook: str) -> bool:
    in_method = event.file.startswith("algorithms/")
    return in_method and event.kind == kind and event.function == hook


def _crossed(window: list[Event]) -> Crossed:
    files = {event.file if event.kind == "call" else event.other for event in window}
    callers = {event.other for event in window if event.kind == "call" and event.other != event.file}
    counted = sorted(file for file in files | callers if file and not file.startswith(LEFT_OUT))
    return Crossed(counted, [file for file in counted if file in callers])


def simulated(folder: Path, engine: str, clients: int) -> None:
    """A run on this machine."""
    import protofed

    protofed.run(
        "fedproto",
        data="digits:augment=crop1",
        models=f"module:{folder / 'net.py'}:Net",
        clients=clients,
        rounds=2,
        epochs=1,
        engine=engine,
        workers=1 if engine.startswith("workers") else None,
    )


def deployed(folder: Path) -> None:
    """The real server and client apps, over a grid in this process instead of Flower's."""
    from fake_grid import FakeGrid  # of the tree's tests

    from protofed.deploy.client_app import answer
    from protofed.deploy.init import init
    from protofed.deploy.server_app import serve
    from protofed.deploy.settings import read_client, read_server
    from protofed.deploy.status import StatusFile

    (folder / "recipe.toml").write_text(RECIPE)
    init(folder / "f", ["north"], "127.0.0.1", 9443, folder / "recipe.toml", insecure=False)
    home = folder / "f" / "clients" / "north"
    settings = home / "client.toml"
    settings.write_text(settings.read_text().replace('"small_cnn"', f'"module:{folder / "net.py"}:Net"'))
    grid = FakeGrid({100: lambda packet: answer(read_client(home), packet)}, {100: "north"})
    serve(grid, read_server(folder / "f" / "server"), folder / "run", StatusFile(folder / "run", 42))


WALKS: dict[str, tuple[Callable[[list[Event]], Crossed], Callable[[Path], None]]] = {
    "a batch, sequential": (batch, lambda folder: simulated(folder, "sequential", 2)),
    "a batch, cohort": (batch, lambda folder: simulated(folder, "cohort", 2)),
    "an upload, workers": (upload, lambda folder: simulated(folder, "workers", 1)),
    "an upload, workers+cohort": (upload, lambda folder: simulated(folder, "workers+cohort", 2)),
    "an upload, deployed": (upload, deployed),
}


def walk(package: Path, name: str) -> Crossed:
    """Trace one run of the package and count."""
    read, run = WALKS[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "net.py").write_text(NET)
        with Tracer(package, folder / "log"):
            run(folder)
        rows = [Event(*json.loads(line)) for line in (folder / "log").read_text().splitlines()]
    return read(sorted(rows, key=lambda event: event.seconds))


def main() -> None:
    """Print every walk as JSON; one that cannot be traced in this tree says why."""
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    sys.path[:0] = [str(tree), str(tree / "tests" / "flower")]
    found: dict[str, Any] = {}
    for name in WALKS:
        try:
            found[name] = walk(tree / "protofed", name)._asdict()
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()

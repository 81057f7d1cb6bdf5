"""How many files a batch and an upload cross, counted by tracing small real runs.

    python benchmarks/walks.py [TREE]        (the tree whose `protofed` is traced; default: this one)

A small prototype method on digits, augmented, with a network from the user's own file; two rounds, and what
is looked at comes from the second, when everything is loaded. The rules, the same for every version:

- A *batch* begins when the hook `loss` is called and ends when it is called for the next batch of the same
  training: the step of one and the taking of the next, which is one turn of the loop. A file of the package
  is crossed when one of its functions has control meanwhile: it is called, a generator of it is resumed, or a
  call that it made returns to it. *Without leaves*: only files from which another file is called.
- An *upload* begins when the hook `upload` returns at the client and ends when `aggregate` returns, in all
  processes by the clock; one client, so that nothing else happens meanwhile (a cohort: two). A file is
  crossed when one of its functions receives the upload, in whatever shape (record, answer, list of answers,
  arrays by name, bytes), or gives it back. *Without leaves*: only files in which it came from one file and
  went on to another; a check, or a conversion, gives it back to where it came from.
- The code that Python writes for dataclasses and named tuples has no file. The method, the user's network and
  what they compute with (`protofed/ops`) are not counted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
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
METHOD = """
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from protofed.core.algorithm import Algorithm, Leg, Needs, methods
from protofed.core.record import Record
from protofed.ops.losses import ce
from protofed.ops.prototypes import class_means


class Down(Record):
    mean: Float[Tensor, "C D"]


class Up(Record):
    up_mean: Float[Tensor, "C D"]


@methods.register("walked")
@dataclass(frozen=True)
class Walked(Algorithm):
    needs = Needs(embedding=True)
    legs = (Leg(down=Down, up=Up),)

    def init(self, task, turn):
        return Down(torch.zeros(task.C, task.D, dtype=task.dtype))

    def broadcast(self, state, turn):
        return state

    def aggregate(self, state, replies, turn):
        return Down(torch.stack([reply.up.up_mean for reply in replies.all()]).mean(0))

    def prepare(self, net, data, down, mem, turn):
        return {"mean": down.mean}

    def loss(self, net, batch, view):
        z, logits = net(batch.x)
        return ce(logits, batch.y) + (z - view["mean"][batch.y]).square().mean()

    def upload(self, net, data, down, mem, ran, turn):
        return Up(class_means(net, data, turn.task.C)[0]), mem
"""
MARK = "up_mean"  # the name of the upload's one field: whatever holds it holds the upload
RECIPE = 'method = "walked"\nrounds = 2\nepochs = 1\n[transport]\nround_timeout = 60\n'
LEFT_OUT = ("ops/", "algorithms/")


class Event(NamedTuple):
    """Control goes into a function of `file`, or returns from it; `other` is the file it comes from or
    goes back to, empty outside the package."""

    seconds: float
    kind: str  # call or return
    file: str
    function: str
    other: str
    carries: bool  # whether what goes in, or comes back, holds the upload
    thread: str = ""


class Tracer:
    """Writes the package's calls and returns to a file, in this process and in those forked from it."""

    def __init__(self, package: Path, method: Path, log: Path):
        self.root = f"{package}{os.sep}"
        self.method = str(method)
        self.log = log

    def __enter__(self) -> None:
        self.descriptor = os.open(self.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        os.close(self.descriptor)

    def _note(self, frame: FrameType, kind: str, given: Any) -> None:
        file = self._file(frame)
        if kind not in ("call", "return") or file is None:
            return
        above = frame.f_back
        while above is not None and self._file(above) is None:
            above = above.f_back
        other = self._file(above) if above is not None else ""
        values = list(frame.f_locals.values()) if kind == "call" else [given]
        sys.setprofile(None)  # what is looked at here is no event
        row = [time.monotonic(), kind, file, frame.f_code.co_name, other]
        row += [any(map(holds_upload, values)), f"{os.getpid()} {threading.get_ident()}"]
        sys.setprofile(self._note)
        os.write(self.descriptor, json.dumps(row).encode() + b"\n")

    def _file(self, frame: FrameType) -> str | None:
        name = frame.f_code.co_filename
        if name == self.method:
            return "algorithms/walked.py"
        return name[len(self.root) :] if name.startswith(self.root) else None


def holds_upload(value: Any, depth: int = 6) -> bool:
    """Whether the upload's field is somewhere in here."""
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, bytes | bytearray | memoryview):
        return MARK.encode() in bytes(value)
    if depth == 0 or value is None or isinstance(value, int | float | type) or callable(value):
        return False
    if isinstance(value, Mapping):
        return any(holds_upload(part, depth - 1) for pair in value.items() for part in pair)
    if type(value).__name__ == "Spec":  # a declaration: the name, without the upload
        return False
    if isinstance(value, list | tuple | set | frozenset):
        return any(holds_upload(part, depth - 1) for part in value)
    foreign = type(value).__module__.split(".")[0] not in ("protofed", "walked", "flwr")
    if foreign or type(value).__name__ in ("Task", "Store", "Federation", "Experiment"):
        return False
    if type(value).__name__ == "Up":
        return True
    slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return any(holds_upload(part, depth - 1) for part in [*getattr(value, "__dict__", {}).values(), *slots])


class Crossed(NamedTuple):
    """The files of one walk."""

    files: list[str]
    without_leaves: list[str]


def batch(events: list[Event]) -> Crossed:
    """From the last call of `loss` but one to the last."""
    begins = [i for i, event in enumerate(events) if _is(event, "call", "loss")]
    window = events[begins[-2] : begins[-1]]
    files = {event.file if event.kind == "call" else event.other for event in window}
    callers = {event.other for event in window if event.kind == "call" and event.other != event.file}
    return _counted(files | callers, callers)


def upload(events: list[Event]) -> Crossed:
    """From the first return of `upload` in the last round to the return of `aggregate`."""
    ends = [i for i, event in enumerate(events) if _is(event, "return", "aggregate")]
    after = ends[-2]
    begin = next(i for i in range(after, ends[-1]) if _is(events[i], "return", "upload"))
    window = range(begin, ends[-1])
    passed = [events[i] for i in window if events[i].carries and events[i].file != events[i].other]
    stations = _stations(events[: ends[-1]], begin)
    return _counted({name for event in passed for name in (event.file, event.other)}, stations)


class Visit:
    """Functions of one file that call each other: where the upload came from, and where it went."""

    def __init__(self, file: str):
        self.file = file
        self.came: set[str] = set()
        self.went: set[str] = set()


def _stations(events: list[Event], begin: int) -> set[str]:
    """Files in which the upload came from one file and went on to another, in one visit, from `begin` on."""
    visits: list[Visit] = []
    stacks: dict[str, list[Visit]] = defaultdict(list)
    for number, event in enumerate(events):
        stack = stacks[event.thread]
        across = event.carries and event.file != event.other and number >= begin
        if event.kind == "call":
            above = stack[-1] if stack else Visit(event.other)
            stack.append(above if event.file == event.other else Visit(event.file))
            visits.append(stack[-1])
            if across:
                stack[-1].came.add(event.other)
                above.went.add(event.file)
        elif stack:
            visit = stack.pop()
            if across:
                visit.went.add(event.other)
                (stack[-1] if stack else Visit(event.other)).came.add(event.file)
    return {v.file for v in visits if any(a != b for a in v.came for b in v.went)}


def _is(event: Event, kind: str, hook: str) -> bool:
    in_method = event.file.startswith("algorithms/")
    return in_method and event.kind == kind and event.function == hook


def _counted(files: set[str], without_leaves: set[str]) -> Crossed:
    counted = sorted(file for file in files if file and not file.startswith(LEFT_OUT))
    return Crossed(counted, [file for file in counted if file in without_leaves])


def simulated(folder: Path, engine: str, clients: int) -> None:
    """A run on this machine."""
    import protofed

    protofed.run(
        "walked",
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
    init(folder / "f", ["north"], "127.0.0.1", 9443, folder / "recipe.toml", insecure=True)
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


def load_method(path: Path) -> None:
    """Register the method; anew for each walk, so that its functions are those of this file."""
    from protofed.core.algorithm import methods

    methods._classes.pop("walked", None)
    spec = importlib.util.spec_from_file_location("walked", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["walked"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def walk(package: Path, name: str) -> Crossed:
    """Trace one run of the package and count."""
    read, run = WALKS[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "net.py").write_text(NET)
        method = folder / "walked.py"
        method.write_text(METHOD)
        load_method(method)
        with Tracer(package, method, folder / "log"):
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

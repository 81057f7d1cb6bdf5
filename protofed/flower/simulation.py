"""Flower's simulation engine as a link: one virtual node per client, Ray actors that do the work.

Flower wants to own the main loop; here the common round loop owns it. So the simulation runs in a thread
whose server app only hands over its grid and waits for the end. Ray pickles what it moves between the
processes of this machine, as Python's own multiprocessing does; the task is written once, to a directory
that only this user can read. In a deployment (protofed.deploy) nothing is pickled.

A node acts for the client that the packet names; states lie in vaults on the shared disk. If an actor
dies, Flower 1.41 puts the dead actor back into its pool and every later round fails: the engine then
stops with the reason, and `protofed resume` goes on from the checkpoint.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
import queue
import shutil
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..core.data import ClientData
from ..core.errors import EngineError
from ..core.task import Task
from ..core.user_files import load_file, loaded
from ..engines.store import Store
from ..engines.transport import Transport
from ..engines.workers import own_cores
from .engine import Flower
from .packet import Exchanged, Packet
from .ray_place import check_reached, check_shared, cluster, init_args, make_root, start_reaper, stay_private
from .respond import Desk, echo, respond
from .vault import Vault

log = logging.getLogger("protofed")
START_SECONDS = 180  # Ray needs 10 to 30 s, more on a busy machine
REGISTERED_SECONDS = 0.02  # between two looks for the nodes


def simulated(
    task: Task, data: ClientData, store: Store, transport: Transport, workers: int | None = None
) -> Flower:
    """The engine of `--engine flower`."""
    if (address := cluster()) is not None:
        if workers is not None:
            raise EngineError(
                f"workers: {workers} has no effect on the Ray cluster at {address}, whose CPUs are all used; "
                "leave it out"
            )
        log.info("on the Ray cluster at %s", address)
    runtime = Runtime(task.clients, workers)
    return on_runtime(runtime, task, data, store, transport, SimulationLink(runtime, task, data))


def on_runtime(
    runtime: Runtime,
    task: Task,
    data: ClientData,
    store: Store,
    transport: Transport,
    link: SimulationLink,
) -> Flower:
    """An engine on a simulation that may serve several, one after the other."""
    return Flower(task, data, store, link, transport, link.name, shared_disk=runtime.root / "vaults")


class Runtime:
    """Flower's simulation in a thread of this process; started when it is first needed."""

    def __init__(self, nodes: int, workers: int | None = None):
        self.nodes = nodes
        self.workers = workers or own_cores()
        self.root = make_root()
        self._reaper: subprocess.Popen[bytes] | None = None
        self._sweep = weakref.finalize(self, shutil.rmtree, self.root, True)
        self._thread: threading.Thread | None = None
        self._grid: Any = None
        self._ids: list[int] = []
        self._stop = threading.Event()
        self._problem: BaseException | None = None

    def grid(self) -> Any:
        """The grid of the running simulation."""
        if self._thread is None:
            self._start()
        if self._thread is None or not self._thread.is_alive():
            raise EngineError(f"Flower's simulation has ended: {self._problem or 'no reason given'}")
        return self._grid

    def ids(self) -> dict[int, int]:
        """Node of each client. Ids are random, and any node can act for any client: sorted order.

        Flower registers its nodes while the server app runs already, so the first look may find only some.
        """
        end = time.monotonic() + START_SECONDS
        while len(self._ids) < self.nodes:
            self._ids = sorted(self.grid().get_node_ids())
            if len(self._ids) < self.nodes:
                if time.monotonic() > end:
                    raise EngineError(
                        f"Flower's simulation has {len(self._ids)} of {self.nodes} nodes "
                        f"after {START_SECONDS} s"
                    )
                time.sleep(REGISTERED_SECONDS)
        return dict(enumerate(self._ids))

    def close(self) -> None:
        """Stop the simulation, and remove what it left."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=60)
        if self._reaper is not None:
            self._reaper.communicate()  # closes the pipe; it ends when all is gone
        self._sweep()

    def _start(self) -> None:
        check_reached()
        stay_private()
        self._reaper = start_reaper(self.root)
        importlib.import_module("flwr.simulation")  # before the thread does: Flower's imports are circular
        grids: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._simulate, args=(grids,), daemon=True)
        self._thread.start()
        for _ in range(START_SECONDS):
            try:
                self._grid = grids.get(timeout=1)
                return
            except queue.Empty:
                if not self._thread.is_alive():
                    raise EngineError(
                        f"Flower's simulation did not start: {self._problem}"
                    ) from self._problem
        raise EngineError(f"Flower's simulation did not start within {START_SECONDS} s")

    def _simulate(self, grids: queue.Queue[Any]) -> None:
        try:
            from flwr.simulation import run_simulation

            for name in ("flwr", "ray"):
                logging.getLogger(name).setLevel(logging.ERROR)
            run_simulation(
                _server_app(grids, self._stop),
                _client_app(str(self.root)),
                self.nodes,
                backend_config={
                    "init_args": init_args(self.root, self.workers),
                    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                },
            )
        except BaseException as error:  # reported by the next exchange
            self._problem = error


class SimulationLink:
    """One task on a runtime. The packets name the file from which actors read the task."""

    def __init__(self, runtime: Runtime, task: Task, data: ClientData, name: str = "simulation"):
        self.runtime = runtime
        self.name = name
        self.task = task
        self.data = data

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        from .link import GridLink

        grid = self.runtime.grid()
        file = self._file()
        named = {c: packet._replace(meta={**packet.meta, "task": file}) for c, packet in packets.items()}
        return GridLink(grid, self.runtime.ids).exchange(named, timeout)

    def close(self) -> None:
        """Stop the simulation, and remove what it left."""
        self.runtime.close()

    def _file(self) -> str:
        from ray import cloudpickle

        path = self.runtime.root / f"task-{self.name}.pickle"
        if not path.exists():
            fresh = dataclasses.replace(self.task)  # without the modules that it built for itself
            content = cloudpickle.dumps((fresh, self.data))  # type: ignore[no-untyped-call]
            path.write_bytes(cloudpickle.dumps((_user_files(), content)))  # type: ignore[no-untyped-call]
        return path.name


def _user_files() -> list[str]:
    """Files whose classes the task may hold: an actor runs them before it reads the task."""
    return [str(file.path) for file in loaded()]


def _server_app(grids: queue.Queue[Any], stop: threading.Event) -> Any:
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        grids.put(grid)
        stop.wait()

    return app


def _client_app(root: str) -> Any:
    """An app small enough to travel with every message: it opens the task by its path."""
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def act(message: Any, context: Any) -> Any:
        from protofed.flower.simulation import answer

        return answer(message, Path(root))

    app.train()(act)
    app.evaluate()(act)
    app.query()(act)
    return app


# in a Ray actor


def answer(message: Any, root: Path) -> Any:
    """One message, for the client that it names."""
    from flwr.app import Message

    from .codec import decode, encode

    check_shared(root)
    packet = decode(message.content)
    if packet.meta["kind"] == "echo":
        return Message(encode(echo(packet)), reply_to=message)
    task, data = _open(root / str(packet.meta["task"]))
    client = int(packet.meta["client"])
    vault = Vault(root / "vaults", str(packet.meta["experiment"]), str(client))
    desk = Desk(
        task,
        client,
        lambda: data.train(client),
        lambda: data.test(client),
        vault,
        lambda: data.validation(client),
        keep_replies=False,
    )
    return Message(encode(respond(desk, packet)), reply_to=message)


@lru_cache(maxsize=1)
def _open(path: Path) -> tuple[Task, ClientData]:
    import pickle

    import torch

    torch.set_num_threads(1)
    files, content = pickle.loads(path.read_bytes())
    for file in files:
        load_file(file, f"file {file}")
    task, data = pickle.loads(content)
    return task, data

"""A server and three clients on hosts of their own, over a bad network: the run ends with the right numbers.

    python examples/deploy_namespaces/run.py [DIR]

Each host is a network namespace of this machine with its own address; a switch in user space (switch.py)
joins them, and `tc` makes its cables bad, as far as this kernel can (links.py); it says what does what. While
the federation of examples/deploy_three_sites trains, a cable is cut and mended, packets are late and lost, a
client moves to another address, and for a while nothing reaches a client whose own packets still arrive (a
half-open connection). Every round waits for all three clients, so the result must be that of the same
federation in one process. Needs root and iproute2; where something is missing it says so and ends.
Everything is removed at the end, whatever happens.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from links import Links
from switch import TUN, Switch, call, within

from protofed.runs.directory import RunDir

NETWORK, MOVED = "10.77.0", "10.77.0.99"
ROUNDS = 5
TIMEOUT, REPEATS = 30, 30  # seconds of a leg, and how often it is repeated


def sites():
    """The example with three sites on one host, as a module."""
    path = Path(__file__).parents[1] / "deploy_three_sites" / "run.py"
    spec = importlib.util.spec_from_file_location("deploy_three_sites", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where to work (default: a temporary directory)")
    parser.add_argument("--minutes", type=float, default=9, help="give up after so long")
    args = parser.parse_args()
    if (reason := missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    if args.folder:
        return deploy(args.folder, args.minutes)
    with tempfile.TemporaryDirectory() as folder:
        return deploy(Path(folder), args.minutes)


def missing() -> str | None:
    """What this machine lacks."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the program `ip` is missing (iproute2)"
    if not os.path.exists(TUN):
        return f"{TUN} is missing"
    name = f"protofed-{os.getpid()}"
    try:
        call("ip", "netns", "add", name)
        call("ip", "netns", "del", name)
    except RuntimeError as error:
        return f"namespaces cannot be made here: {error}"
    return None


class Hosts:
    """Namespaces with one device each, named by host."""

    links: Links

    def __init__(self, names: list[str]):
        self.switch = Switch()
        self.spaces = {name: f"protofed-{os.getpid()}-{name}" for name in names}
        self.devices = {name: f"pf{os.getpid()}n{number}" for number, name in enumerate(names)}
        self.addresses = {name: f"{NETWORK}.{number + 1}" for number, name in enumerate(names)}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A command of protofed on a host."""
        program = [sys.executable, "-m", "protofed.cli.main", *arguments]
        return subprocess.Popen(["ip", "netns", "exec", self.spaces[name], *program])

    def move(self, name: str, address: str) -> None:
        """Give a host another address; connections from the old one are dead without knowing it."""
        space, device = self.spaces[name], self.devices[name]
        within(space, "ip", "addr", "del", f"{self.addresses[name]}/24", "dev", device)
        within(space, "ip", "addr", "add", f"{address}/24", "dev", device)


@contextmanager
def hosts(names: list[str]) -> Iterator[Hosts]:
    """Made, and removed at the end."""
    made = Hosts(names)
    try:
        for name, space in made.spaces.items():
            call("ip", "netns", "add", space)
            made.switch.plug(name, space, made.devices[name], f"{made.addresses[name]}/24")
        made.links = Links(made.switch, {name: (made.spaces[name], made.devices[name]) for name in names})
        made.switch.start()
        yield made
    finally:
        made.switch.close()
        for space in made.spaces.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


def deploy(folder: Path, minutes: float) -> int:
    example, federation, run = sites(), folder / "federation", folder / "run"
    names, end = ["server", *example.SITES], time.monotonic() + 60 * minutes
    with hosts(names) as made:
        example.write_federation(
            federation, ROUNDS, timeout=TIMEOUT, quorum=3, repeats=REPEATS, host=made.addresses["server"]
        )
        server = made.start("server", "server", str(federation / "server"), "--out", str(run))
        clients = [made.start(name, "client", str(federation / "clients" / name)) for name in example.SITES]
        try:
            trouble(made, run, lambda: server.poll() is None and time.monotonic() < end)
            code = server.wait(timeout=max(1, end - time.monotonic()))
        finally:
            example.stop([server, *clients])
        addresses = sorted(made.switch.seen["south"])
        tell(f"{made.switch.passed} frames passed, {made.switch.dropped + made.links.dropped()} were lost")
    if code:
        return code
    tell(f"south sent from {' and '.join(addresses)}")
    return judge(example, folder, federation, run) if MOVED in addresses else 1


def trouble(made: Hosts, run: Path, goes_on: Callable[[], bool]) -> None:
    """Something after each round."""
    tell(made.links.describe())
    made.links.change("north", delay=0.05, loss=0.02, rate=8)
    tell("north: 50 ms, 2 % of packets lost, 8 Mbit/s")
    for number, fault in enumerate((cut, move, half_open, bad_everywhere), start=1):
        while goes_on() and len(RunDir(run).lines("metrics.jsonl")) < number:
            time.sleep(0.2)
        if goes_on():
            tell(f"after round {number}: {' '.join((fault.__doc__ or '').split())}")
            fault(made)


def cut(made: Hosts) -> None:
    """east: the cable is cut for 12 seconds."""
    made.links.change("east", up=False, down=False)
    time.sleep(12)
    made.links.change("east", up=True, down=True)


def move(made: Hosts) -> None:
    """south moves to another address."""
    made.move("south", MOVED)


def half_open(made: Hosts) -> None:
    """north: for 25 seconds nothing reaches it, while its own packets arrive."""
    made.links.change("north", down=False)
    time.sleep(25)
    made.links.change("north", down=True)


def bad_everywhere(made: Hosts) -> None:
    """all clients: 40 ms, 3 % of packets lost, until the end."""
    for name in made.spaces:
        if name != "server":
            made.links.change(name, delay=0.04, loss=0.03)


def judge(example, folder: Path, federation: Path, run: Path) -> int:
    """All clients in all rounds, with the numbers of the rehearsal."""
    took_part = [line["clients"] for line in RunDir(run).lines("metrics.jsonl")]
    events = [json.loads(line)["event"] for line in (federation / "server" / "audit.jsonl").open()]
    tell(f"clients in each round: {took_part}")
    tell(f"audit.jsonl: joined {events.count('joined')} times, lost {events.count('lost')} times")
    example.protofed("status", str(run))
    example.protofed("deploy", "rehearse", str(federation), "--out", str(folder / "rehearsal"))
    difference = example.compare(run, folder / "rehearsal")
    print(f"largest difference to the same federation in one process: {difference:.2g}")
    return 0 if took_part == [3] * ROUNDS and difference < 1e-4 else 1


def tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

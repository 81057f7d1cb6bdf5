"""The bad cables of examples/deploy_namespaces: by `tc` where the kernel can, by the switch otherwise."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "deploy_namespaces"
COUNT = """
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("0.0.0.0", 5000))
print("there", flush=True)
seen = 0
while one.recv(10) != b"end":
    seen += 1
print(seen)
"""
SEND = """
import socket
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range({count}):
    one.sendto(b"x", ("{address}", 5000))
"""
END = 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"end", ("127.0.0.1", 5000))'


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("switch", "links"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("links")


class Plain:
    """A switch of which only the cables matter."""

    def __init__(self, example: Any):
        self.cables = {host: example.Cable() for host in ("a", "b")}


def made(example: Any, monkeypatch: pytest.MonkeyPatch, known: set[str]) -> tuple[Any, list[str]]:
    """Links on a kernel that knows these; and the calls of `tc`."""
    calls: list[str] = []

    def within(space: str, *command: str) -> None:
        kind = next((word for word in command if word in ("netem", "tbf", "clsact", "bpf")), "")
        if kind and kind not in known:
            raise RuntimeError("Specified qdisc kind is unknown")
        calls.append(f"{space}: {' '.join(command)}")

    monkeypatch.setattr(example, "within", within)
    monkeypatch.setattr(example.shutil, "which", lambda name: "/sbin/tc")
    links = example.Links(Plain(example), {"a": ("space-a", "dev-a"), "b": ("space-b", "dev-b")})
    calls.clear()
    return links, calls


def test_with_netem_everything_is_done_by_tc(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    links, calls = made(example, monkeypatch, {"netem", "tbf", "clsact", "bpf"})
    assert links.describe() == "cut and lossy by tc (clsact, bpf); late by tc (netem); narrow by tc (netem)"
    links.change("b", delay=0.05, loss=0.5, down=False, rate=8)
    drop = "filter replace dev dev-b {} pref 1 handle 1 bpf da bytecode {}"
    half = "4,32 0 0 4294963256,53 0 1 2147483648,6 0 0 4294967295,6 0 0 2"
    assert calls == [
        f"space-b: tc {drop.format('egress', half)}",
        f"space-b: tc {drop.format('ingress', '1,6 0 0 2')}",
        "space-b: tc qdisc replace dev dev-b root netem delay 100ms rate 8mbit",
    ]
    assert links.switch.cables["b"] == example.Cable()  # a sound one


def test_without_netem_the_switch_delays(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    links, calls = made(example, monkeypatch, {"tbf", "clsact", "bpf"})
    assert "late by the switch, as this kernel has no netem; narrow by tc (tbf)" in links.describe()
    links.change("a", delay=0.05, rate=8)
    assert calls[-1] == "space-a: tc qdisc replace dev dev-a root tbf rate 8mbit burst 16kb latency 400ms"
    assert links.switch.cables["a"] == example.Cable(delay=0.05)


def test_without_tc_the_switch_does_what_it_can(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    links, calls = made(example, monkeypatch, set())
    assert links.describe() == (
        "cut and lossy by the switch, as this kernel has no clsact or bpf; late by the switch, as this "
        "kernel has no netem; narrow by nothing: no netem, no tbf"
    )
    links.change("a", delay=0.05, loss=0.5, up=False)
    assert calls == []
    assert links.switch.cables["a"] == example.Cable(delay=0.05, loss=0.5, up=False)


@pytest.fixture
def hosts(example: Any) -> Iterator[tuple[Any, list[str]]]:
    """Two hosts on this machine, with links as its kernel has them."""
    if os.geteuid() != 0 or shutil.which("ip") is None or not os.path.exists("/dev/net/tun"):
        pytest.skip("network namespaces need root, iproute2 and /dev/net/tun")
    switch = example.Switch()
    places = {name: (f"pftest{os.getpid()}{name}", f"pft{os.getpid()}{name}") for name in ("a", "b")}
    try:
        for number, (name, (space, device)) in enumerate(places.items(), start=1):
            if subprocess.run(["ip", "netns", "add", space], capture_output=True).returncode:
                pytest.skip("namespaces cannot be made here")
            switch.plug(name, space, device, f"10.78.0.{number}/24")
        links = example.Links(switch, places)
        switch.start()
        yield links, [space for space, _ in places.values()]
    finally:
        switch.close()
        for space, _ in places.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


def arrive(spaces: list[str], count: int = 400) -> int:
    """How many of so many packets from the first host reach the second."""
    python = [sys.executable, "-S", "-c"]
    inside = [["ip", "netns", "exec", space, *python] for space in spaces]
    with subprocess.Popen([*inside[1], COUNT], stdout=subprocess.PIPE, text=True) as counter:
        assert counter.stdout is not None
        assert counter.stdout.readline() == "there\n"
        subprocess.run([*inside[0], SEND.format(count=count, address="10.78.0.2")], check=True, timeout=30)
        subprocess.run(["sleep", "0.5"], check=True)
        subprocess.run([*inside[1], END], check=True, timeout=30)
        return int(counter.stdout.read())


def test_packets_are_lost_and_cables_cut(hosts: tuple[Any, list[str]]) -> None:
    links, spaces = hosts
    assert arrive(spaces) > 280
    links.change("b", loss=0.5)
    assert 100 < arrive(spaces) < 280  # eight standard deviations
    links.change("b", loss=0.0, down=False)
    assert arrive(spaces) == 0
    links.change("b", down=True)
    links.change("a", up=False)
    assert arrive(spaces) == 0
    links.change("a", up=True)
    assert arrive(spaces) > 280  # the first wait until the address of the other is known again
    assert links.dropped() + links.switch.dropped >= 120 + 400

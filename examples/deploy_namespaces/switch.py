"""An Ethernet switch in user space, between network namespaces, whose cables can be bad.

Each host gets a TAP device. Whatever it sends comes here as a frame and goes to all others, later by the
delay of both cables, or not at all: lost at random, or dropped because a cable is cut in that direction.
Nothing tells the hosts, as with a real cable. Where the kernel can do that itself (links.py), cables here are
sound ones.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import subprocess
import threading
import time
from dataclasses import dataclass

TUN, TUNSETIFF, IFF_TAP, IFF_NO_PI = "/dev/net/tun", 0x400454CA, 0x0002, 0x1000
FRAME, IPV4 = 65536, b"\x08\x00"


@dataclass
class Cable:
    """From a host to the switch. Times in seconds, loss from 0 to 1, in each direction; the rate in Mbit/s
    (0: any), which is not for the switch."""

    delay: float = 0.0
    loss: float = 0.0
    up: bool = True  # what the host sends arrives
    down: bool = True  # what is sent to the host arrives
    rate: float = 0.0


class Switch(threading.Thread):
    """Runs until `close`."""

    def __init__(self, seed: int = 0):
        super().__init__(daemon=True)
        self.cables: dict[str, Cable] = {}
        self.passed = self.dropped = 0
        self.seen: dict[str, set[str]] = {}  # by host: addresses from which it sent packets
        self._files: dict[str, int] = {}
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._late: list[tuple[float, int, str, bytes]] = []  # (due, number, to whom, frame)

    def plug(self, host: str, namespace: str, device: str, address: str) -> Cable:
        """A device of this name in the namespace, with this address (10.0.0.1/24, say)."""
        file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
        self._files[host], self.cables[host] = file, Cable()
        call("ip", "link", "set", device, "netns", namespace)
        within(namespace, "ip", "link", "set", "lo", "up")
        within(namespace, "ip", "addr", "add", address, "dev", device)
        within(namespace, "ip", "link", "set", device, "up")
        return self.cables[host]

    def run(self) -> None:
        """Take frames as they come, and hand them on when they are due."""
        with selectors.DefaultSelector() as ready:
            for host, file in self._files.items():
                ready.register(file, selectors.EVENT_READ, host)
            while not self._ended.is_set():
                wait = self._late[0][0] - time.monotonic() if self._late else 0.2
                for key, _ in ready.select(min(max(wait, 0), 0.2)):
                    self._take(key.data, key.fd)
                self._deliver()

    def close(self) -> None:
        """The devices go with their files."""
        self._ended.set()
        if self.is_alive():
            self.join()
        for file in self._files.values():
            os.close(file)

    def _take(self, host: str, file: int) -> None:
        try:
            frame = os.read(file, FRAME)
        except OSError:  # nothing there, or the device is down
            return
        if frame[12:14] == IPV4:
            self.seen.setdefault(host, set()).add(socket.inet_ntoa(frame[26:30]))
        for other in self._files:
            if other == host:
                continue
            cables = self.cables[host], self.cables[other]
            arrives = cables[0].up and cables[1].down
            if arrives and all(self._random.random() >= cable.loss for cable in cables):
                self.passed += 1
                due = time.monotonic() + sum(cable.delay for cable in cables)
                heapq.heappush(self._late, (due, self.passed, other, frame))
            else:
                self.dropped += 1

    def _deliver(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, host, frame = heapq.heappop(self._late)
            try:
                os.write(self._files[host], frame)
            except OSError:  # its device is down, or its queue is full
                self.dropped += 1


def within(namespace: str, *command: str) -> None:
    """Run a command in a namespace."""
    call("ip", "netns", "exec", namespace, *command)


def call(*command: str) -> None:
    """Run a command; RuntimeError with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}`: {done.stderr.strip() or done.stdout.strip()}")

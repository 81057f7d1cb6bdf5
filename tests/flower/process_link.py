"""Clients as processes of their own on 127.0.0.1, behind sockets, with Flower's serialised records.

Flower's transport takes many seconds a round; here each fault is a test of a second or two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Client, Listener, wait
from pathlib import Path

from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto

from protofed.core.errors import MessageError
from protofed.experiment import Experiment
from protofed.flower.codec import decode, encode
from protofed.flower.packet import Exchanged, Packet
from protofed.flower.respond import Desk, respond
from protofed.flower.vault import Vault

Misbehave = Callable[[int, Packet, Packet], Packet | list[Packet]]
NUMBER = 4  # bytes in front of every message: its number, which the reply repeats, as Flower's replies do


class ProcessLink:
    """`misbehave(client, asked, reply)` runs in the client: it may change the reply, send several, raise,
    hang or die."""

    def __init__(self, experiment: Experiment, root: Path, misbehave: Misbehave, name: str = "test"):
        self.arguments = (experiment.task, experiment.federation.data, root, misbehave, name)
        self.clients = range(experiment.task.clients)
        self.processes = {}
        self.pipes = {}
        self.number = 0
        for client in self.clients:
            self.start(client)

    def start(self, client: int) -> None:
        with Listener(("127.0.0.1", 0)) as listener:
            target, arguments = _serve, (client, listener.address, *self.arguments)
            process = get_context("fork").Process(target=target, args=arguments, daemon=True)
            process.start()
            self.processes[client], self.pipes[client] = process, listener.accept()

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        waiting, replies, failures = {}, {}, {}
        self.number += 1
        number = self.number.to_bytes(NUMBER)
        for client, packet in packets.items():
            try:
                self.pipes[client].send_bytes(number + to_bytes(packet))
                waiting[self.pipes[client]] = client
            except OSError:
                failures[client] = f"client {client}: not connected"
        end = time.monotonic() + timeout
        while waiting and time.monotonic() < end:
            for pipe in wait(list(waiting), timeout=0.1):
                client = waiting.pop(pipe)
                try:
                    message = pipe.recv_bytes()
                    if message[:NUMBER] != number:  # answers something that nobody waits for any more
                        waiting[pipe] = client
                    else:
                        replies[client] = from_bytes(message[NUMBER:])
                except (EOFError, OSError):
                    failures[client] = f"client {client}: its process died"
                except MessageError as error:
                    failures[client] = f"client {client}: {error}"
        return Exchanged(replies, failures, 0)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()
        for pipe in self.pipes.values():
            pipe.close()


def to_bytes(packet: Packet) -> bytes:
    return recorddict_to_proto(encode(packet)).SerializeToString()


def from_bytes(data: bytes) -> Packet:
    return decode(recorddict_from_proto(Proto.FromString(data)))


def _serve(client, address, task, data, root, misbehave, name) -> None:
    pipe = Client(address)
    while True:
        try:
            message = pipe.recv_bytes()
        except EOFError:
            os._exit(0)
        number, asked = message[:NUMBER], from_bytes(message[NUMBER:])
        vault = Vault(root, name, str(client))
        desk = Desk(task, client, lambda: data.train(client), lambda: data.test(client), vault)
        replies = misbehave(client, asked, respond(desk, asked))
        for reply in replies if isinstance(replies, list) else [replies]:
            pipe.send_bytes(number + to_bytes(reply))

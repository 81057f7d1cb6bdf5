"""A link without Flower's runtime: packets go through the codec and are answered in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from protofed.engines.store import Store
from protofed.engines.transport import Transport
from protofed.experiment import Experiment
from protofed.flower.codec import decode, encode, size
from protofed.flower.engine import Flower
from protofed.flower.packet import Exchanged, Packet
from protofed.flower.respond import Desk, respond
from protofed.flower.vault import Vault

Change = Callable[[int, Packet], Packet | str | None]


class LocalLink:
    """`change` may spoil a reply: another packet, a reason for a failure, or None for silence."""

    def __init__(self, experiment: Experiment, root: Path, name: str = "test", change: Change | None = None):
        self.task, self.data = experiment.task, experiment.data
        self.root, self.name, self.change = root, name, change
        self.trained: list[tuple[int, str]] = []

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        replies, failures, wire = {}, {}, 0
        for client, packet in packets.items():
            content = encode(packet)
            wire += size(content)
            reply: Packet | str | None = self.answer(client, decode(content))
            if self.change is not None:
                assert isinstance(reply, Packet)
                reply = self.change(client, reply)
            if isinstance(reply, str):
                failures[client] = reply
            elif reply is not None:
                replies[client] = decode(encode(reply))
        return Exchanged(replies, failures, wire)

    def answer(self, client: int, packet: Packet) -> Packet:
        data = self.data

        def train():
            self.trained.append((client, str(packet.meta.get("tag", "test"))))
            return data.train(client)

        vault = Vault(self.root, self.name, str(client))
        return respond(Desk(self.task, client, train, lambda: data.test(client), vault), packet)

    def close(self) -> None:
        pass


def put_on_link(
    experiment: Experiment, root: Path, shared: bool = True, change: Change | None = None, **transport
) -> LocalLink:
    """Replace the experiment's engine by the Flower engine over a local link."""
    link = LocalLink(experiment, root, change=change)
    federation = experiment.federation
    link.data = federation.data
    federation.engine = Flower(
        experiment.task,
        federation.data,
        Store(),
        link,
        Transport(**transport),
        link.name,
        shared_disk=root if shared else None,
    )
    return link

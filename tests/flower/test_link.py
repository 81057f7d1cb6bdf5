"""Exchange over a grid: who answers what."""

import pytest
import torch
from fake_grid import FakeGrid

from protofed.core.errors import MessageError
from protofed.flower.codec import decode, encode
from protofed.flower.link import GridLink
from protofed.flower.packet import Packet
from protofed.flower.respond import echo


def exchange(nodes, clients=3, timeout=0.3):
    grid = FakeGrid(nodes)
    link = GridLink(
        grid, lambda: {client: 100 + client for client in range(clients) if 100 + client in nodes}
    )
    packet = Packet({"kind": "echo"}, {"x": torch.arange(4.0)})
    return link.exchange(dict.fromkeys(range(clients), packet), timeout), grid


def test_replies_by_client():
    got, _ = exchange({100: echo, 101: echo, 102: echo})
    assert list(got.replies) == [0, 1, 2]
    assert all(torch.equal(reply.arrays["x"], torch.arange(4.0)) for reply in got.replies.values())
    assert got.failures == {}
    assert got.wire_down > 3 * 16


def test_silent_raising_and_absent_clients():
    got, _ = exchange({100: lambda p: None, 101: lambda p: ValueError("a bug")})
    assert got.replies == {}
    assert got.failures == {1: "client 1: Flower reports error 2: a bug", 2: "client 2: not connected"}


def test_a_second_answer_is_ignored():
    twice = [Packet({"kind": "echo", "number": 1}, {}), Packet({"kind": "echo", "number": 2}, {})]
    got, _ = exchange({100: lambda p: twice}, clients=1)
    assert got.replies[0].meta["number"] == 1


def test_messages_do_not_outlive_the_timeout():
    _, grid = exchange({100: echo}, clients=1, timeout=7.0)
    assert grid.sent[0].metadata.ttl == 7.0


def test_a_foreign_schema_is_refused():
    content = encode(Packet({"kind": "echo"}, {}))
    content.config_records["meta"]["schema"] = 99
    with pytest.raises(MessageError, match="schema 99, expected 1"):
        decode(content)


def test_a_message_without_our_records_is_refused():
    content = encode(Packet({"kind": "echo"}, {}))
    del content["meta"]
    with pytest.raises(MessageError, match="expected the records"):
        decode(content)

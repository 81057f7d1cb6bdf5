"""Exchange over a grid: who answers what."""

import json
import struct

import numpy as np
import pytest
import safetensors.torch
import torch
from fake_grid import FakeGrid
from flwr.app import Array

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
    with pytest.raises(MessageError, match="schema 99, this side has 4; install the same version"):
        decode(content)


def test_a_message_without_our_records_is_refused():
    content = encode(Packet({"kind": "echo"}, {}))
    del content["meta"]
    with pytest.raises(MessageError, match="expected the records"):
        decode(content)


def test_all_tensors_travel_in_one_array_of_our_own_kind():
    """No NumPy file, hence nothing that NumPy could unpickle."""
    arrays = {"x": torch.randn(3, 4), "n": torch.arange(3), "b": torch.tensor([True])}
    content = encode(Packet({"kind": "echo"}, arrays))
    (array,) = content.array_records["arrays"].values()
    assert array.stype == "safetensors"
    assert safetensors.torch.load(array.data).keys() == arrays.keys()
    assert all(torch.equal(tensor, arrays[name]) for name, tensor in decode(content).arrays.items())


def test_an_array_of_another_kind_is_refused():
    content = encode(Packet({"kind": "echo"}, {}))
    content.array_records["arrays"]["buffer"] = Array(np.ones(3))
    with pytest.raises(MessageError, match=r"kind 'numpy.ndarray'; expected 'safetensors'"):
        decode(content)
    content.array_records["arrays"]["more"] = Array(np.ones(3))
    with pytest.raises(MessageError, match="unexpected array 'more'"):
        decode(content)


def buffer(header: object, body: bytes = bytes(16), length: int | None = None) -> bytes:
    """A safetensors buffer with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


ENTRY = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
BUFFERS = {
    "no bytes": b"x",
    "a header without end": buffer({"x": ENTRY}, length=2**60),
    "a header that is no text": buffer(b"\xff" * 20),
    "a shape that is a text": buffer({"x": {**ENTRY, "shape": "4"}}),
    "a shape below zero": buffer({"x": {**ENTRY, "shape": [-4]}}),
    "a shape without end": buffer({"x": {**ENTRY, "shape": [10**14]}}),
    "a shape of many axes": buffer({"x": {**ENTRY, "shape": [1] * 9 + [4]}}),
    "offsets beyond the bytes": buffer({"x": {**ENTRY, "data_offsets": [0, 10**12]}}),
    "two arrays in one place": buffer({"x": ENTRY, "y": ENTRY}),
    "an unknown kind": buffer({"x": {**ENTRY, "dtype": "PICKLE"}}),
    "nested a thousand deep": buffer(b'{"x":' * 1000 + b"1" + b"}" * 1000),
    "nothing named": buffer([1, 2]),
    "a name without end": buffer({"x" * 1000: ENTRY}),
    "an array twice": buffer(b'{"x": %s, "x": %s}' % ((json.dumps(ENTRY).encode(),) * 2)),
    "bytes left over": buffer({"x": ENTRY}, bytes(64)),
}


@pytest.mark.parametrize("case", BUFFERS)
def test_a_damaged_buffer_is_the_fault_of_its_client_alone(case):
    content = encode(Packet({"kind": "echo"}, {}))
    content.config_records["meta"]["codes"] = "{}"
    data = BUFFERS[case]
    content.array_records["arrays"]["buffer"] = Array("uint8", (len(data),), "safetensors", data)
    got, _ = exchange({100: echo, 101: lambda packet: content, 102: echo})
    assert list(got.replies) == [0, 2]
    assert got.failures.keys() == {1}
    assert got.failures[1].startswith("client 1: message: ")
    assert "cannot be read" not in got.failures[1]  # foreseen, not merely survived
    assert len(got.failures[1]) < 300

"""Rounds of the Flower engine with secure sums: numbers, losses on the way, and what the server receives."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from secure_link import put_on_secure_link

from protofed.core.algorithm import methods
from protofed.core.errors import MessageError
from protofed.flower.engine import Flower
from protofed.flower.packet import Packet
from protofed.flower.secure_engine import SecureFlower
from protofed.flower.secure_store import SecureStore
from protofed.testing import Toy

SUMMED = [name for name in methods if not methods[name]().single]
FINE = {"secure": True, "secure_holders": 2, "secure_step": 1e-9, "secure_bound": 1e4}


def built(name="fedproto", rounds=2, **settings):
    return Toy(name).build(rounds=rounds, **{**FINE, **settings})


def at(step, *clients):
    """These clients do not answer this step of the protocol."""
    return lambda client, packet: client in clients and packet.meta.get("step", packet.meta["kind"]) == step


@pytest.mark.parametrize("name", SUMMED)
def test_the_numbers_are_those_of_the_rehearsal(name, tmp_path):
    """States of the server, losses and accuracies, as with the guard that adds in one process."""
    one, two = built(name), built(name)
    put_on_secure_link(two, tmp_path)
    expected, got = one.play(None), two.play(None)
    for key, tensor in one.federation.state.arrays().items():
        torch.testing.assert_close(
            two.federation.state.arrays()[key], tensor, msg=lambda m, k=key: f"{k}: {m}"
        )
    for first, second in zip(expected, got, strict=True):
        assert second["acc"] == first["acc"]
        assert second["failed"] == {}
        assert second["secure"] == first["secure"]
        if name != "fcclplus":  # whose last leg sends nothing that could be added
            assert second["train_loss"] == pytest.approx(first["train_loss"], abs=1e-6, nan_ok=True)
            assert (second["steps"], second["samples"]) == (first["steps"], first["samples"])


@pytest.mark.parametrize(("step", "lost"), [("keys", 0), ("shares", 0), ("train", 1), ("open", 0)])
def test_a_client_is_lost_at_each_step(step, lost, tmp_path):
    experiment = built(rounds=1)
    put_on_secure_link(experiment, tmp_path, at(step, 4))
    record = experiment.federation.play()
    whole = step == "open"  # its values are in the sum
    assert record["secure"]["lost"] == lost
    assert record["clients"] == (6 if whole else 5)
    assert record["participants"] == [0, 1, 2, 3, *([4] if whole else []), 5]
    known = experiment.federation.state.known.tolist()
    assert known == [18, 25 if whole else 12, 26 if whole else 22, 0, 0]


def test_too_few_are_left_nothing_is_opened_and_the_leg_is_skipped(tmp_path):
    experiment = built(rounds=1)
    before = experiment.federation.state.arrays()
    link = put_on_secure_link(experiment, tmp_path, at("train", 0, 1, 2), too_few="repeat", repeats=1)
    record = experiment.federation.play()
    assert record["clients"] == 0
    assert "3 clients are in the sum; 4 are needed: nothing is opened" in record["failed"]["5"]
    assert not [packet for _, packet in link.got if packet.meta.get("step") == "open"]
    for name, tensor in experiment.federation.state.arrays().items():
        assert torch.equal(tensor, before[name])
    link.silent = lambda client, packet: False
    assert experiment.federation.play()["clients"] == 6


def test_no_client_opens_a_leg_for_two_sets_of_clients(tmp_path):
    """The difference of two sums would be what one client sent: a second try with others is refused."""
    experiment = built(rounds=1)
    link = put_on_secure_link(experiment, tmp_path, too_few="repeat", repeats=1)
    tries = []

    def silent(client, packet):
        step = packet.meta.get("step", packet.meta["kind"])
        if step == "open" and packet.meta["attempt"] == 1:
            return client > 2
        if step == "train":
            tries.append(packet.meta["attempt"])
        return step == "train" and packet.meta["attempt"] == 2 and client == 5

    link.silent = silent
    record = experiment.federation.play()
    assert set(tries) == {1, 2}
    assert record["clients"] == 0
    assert "leg 1.0 was opened for other clients already" in record["failed"]["0"]


def test_old_messages_and_foreign_keys_are_refused(tmp_path):
    experiment = built(rounds=1)
    link = put_on_secure_link(experiment, tmp_path)
    experiment.federation.play()
    asked = {"kind": "secure", "step": "keys", "client": 1, "session": 1, "tag": "1.0", "attempt": 1}
    reply = link.answer(1, Packet({**asked, "experiment": "test", "content": "{}"}, {}))
    assert reply.meta["error"] == "secure sum: an old message: a later sum has begun since"
    link.change = lambda client, packet: _with_own_keys(packet) if client == 2 else packet
    record = experiment.federation.play()
    assert "the keys of client 2 are not signed by it" in record["failed"]["0"]
    assert record["clients"] == 0


def _with_own_keys(packet):
    """A server that lies: it puts keys of its own in the place of a client's."""
    if packet.meta.get("step") != "keys":
        return packet
    told = json.loads(packet.meta["content"])
    (cipher, mask, signature), *_ = told["keys"].values()
    told["keys"] = {"2": [mask, cipher, signature]}
    return packet._replace(meta={**packet.meta, "content": json.dumps(told)})


def test_what_the_server_receives_looks_random_and_says_nothing_else(tmp_path):
    """Two runs with the same data: masked words differ and their bytes are uniform (χ², 255 degrees of
    freedom: beyond 380 once in a million times); beside them travels the number of samples, as in the
    hello."""
    seen = []
    for number in range(2):
        experiment = built("fedavg", rounds=1)
        link = put_on_secure_link(experiment, tmp_path / str(number))
        experiment.federation.play()
        trained = [packet for _, packet in link.got if packet.meta["kind"] == "train"]
        assert {key for packet in trained for key in packet.meta} == {
            "kind", "client", "tag", "session", "attempt", "n", "schema"
        }  # fmt: skip
        assert {key for packet in trained for key in packet.arrays} == {"masked"}
        seen.append(np.concatenate([packet.arrays["masked"].numpy() for packet in trained]))
    assert not np.any(seen[0] == seen[1])
    counts = np.bincount(seen[0].view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 380


def test_secrets_leave_the_disk_when_the_sum_is_opened(tmp_path):
    experiment = built(rounds=1)
    put_on_secure_link(experiment, tmp_path)
    experiment.federation.play()
    for client in range(6):
        store = SecureStore.read(tmp_path / "test" / str(client))
        assert store.session is None
        assert store.opened == {"tag": "1.0", "survivors": [0, 1, 2, 3, 4, 5]}


def test_a_damaged_file_of_a_sum_is_not_used(tmp_path):
    """A changed number of the latest sum would let an old message be answered."""
    experiment = built(rounds=1)
    put_on_secure_link(experiment, tmp_path)
    experiment.federation.play()
    folder = tmp_path / "test" / "1"
    whole = (folder / "secure.json").read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (folder / "secure.json").write_bytes(damaged)
        with pytest.raises(MessageError, match="is damaged: remove it, and start a new run"):
            SecureStore.read(folder)
    (folder / "secure.json").write_bytes((tmp_path / "test" / "2" / "secure.json").read_bytes())
    with pytest.raises(MessageError, match="is damaged"):
        SecureStore.read(folder)


def test_a_client_tells_what_was_clipped_and_checks_its_own_upload(tmp_path):
    experiment = built(rounds=1, secure_bound=0.5)
    link = put_on_secure_link(experiment, tmp_path)
    record = experiment.federation.play()
    assert record["secure"]["clipped"] > 0
    assert "values beyond ±0.5 were clipped" in link.told[0]


def test_a_plain_request_is_not_answered_with_an_upload(tmp_path, monkeypatch):
    """A server that asks for the upload as it is gets none."""
    experiment = built(rounds=1)
    link = put_on_secure_link(experiment, tmp_path)
    monkeypatch.setattr(SecureFlower, "_gather", Flower._gather)
    record = experiment.federation.play()
    assert record["clients"] == 0
    assert "secure sum: damaged (content is missing)" in record["failed"]["0"]
    assert not any(packet.arrays for _, packet in link.got)


def test_a_run_goes_on_after_a_restart_of_the_server(tmp_path):
    """A new session, with numbers of its own."""
    experiment = built(rounds=2)
    put_on_secure_link(experiment, tmp_path)
    experiment.federation.play()
    memory = experiment.federation.engine.memory()
    state = experiment.federation.state
    other = built(rounds=2)
    put_on_secure_link(other, tmp_path, session=2)
    other.federation.engine.recall(memory)
    other.federation.round, other.federation.state = 1, state
    assert other.federation.play()["clients"] == 6

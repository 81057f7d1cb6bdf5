"""A client's states on its disk: pending until the server says that it took them."""

import math

import pytest
import torch

from protofed.core.answer import ClientState
from protofed.core.errors import MessageError
from protofed.flower.vault import Request, Tag, Vault, digest


def state(value):
    return ClientState({"w": torch.tensor([float(value)])}, {"m": torch.tensor([value])})


def value_of(found):
    return None if found is None else int(found.mem["m"])


@pytest.fixture
def vault(tmp_path):
    return Vault(tmp_path, "run", "a")


def at(round, accepted="", session=1, digest="d"):
    return Request(session, Tag.read(accepted), Tag(round, 0), digest)


def test_committed_with_the_next_round(vault, tmp_path):
    assert vault.open(at(1)) is None
    vault.keep(at(1), state(1), {"n": 1}, {"x": torch.ones(2)})
    again = Vault(tmp_path, "run", "a")  # a new process
    assert value_of(again.open(at(2, "1.0"))) == 1
    assert (again.committed, again.pending) == (Tag(1, 0), None)


def test_a_refused_reply_is_forgotten(vault):
    vault.open(at(1))
    vault.keep(at(1), state(1), {"n": 1}, {})
    assert vault.open(at(2)) is None  # the server accepted nothing
    vault.keep(at(2), state(2), {"n": 1}, {})
    assert value_of(vault.open(at(3, "2.0"))) == 2


def test_a_lost_reply_is_sent_again_for_the_same_question_only(vault):
    vault.open(at(1))
    vault.keep(at(1), state(1), {"n": 7}, {"x": torch.arange(3.0)})
    vault.open(at(1))
    meta, up = vault.reply(at(1))
    assert meta == {"n": 7}
    assert torch.equal(up["x"], torch.arange(3.0))
    assert vault.reply(at(1, digest="another download")) is None
    assert vault.reply(at(2)) is None


def test_a_reply_without_a_loss_is_sent_again_as_it_was(vault, tmp_path):
    """A client that takes no steps has the loss NaN."""
    vault.open(at(1))
    vault.keep(at(1), state(1), {"n": 7, "loss": float("nan")}, {})
    meta, _ = Vault(tmp_path, "run", "a").reply(at(1))
    assert meta["n"] == 7
    assert math.isnan(meta["loss"])


def test_old_rounds_are_refused(vault):
    for round in (1, 2):
        vault.open(at(round, f"{round - 1}.0" if round > 1 else ""))
        vault.keep(at(round), state(round), {"n": 1}, {})
    vault.open(at(3, "2.0"))
    for round, accepted in ((2, "1.0"), (1, ""), (2, "2.0")):
        with pytest.raises(MessageError, match="old message"):
            vault.open(at(round, accepted))
    assert vault.committed == Tag(2, 0)


def test_a_restarted_server_may_go_back_one_state(vault):
    for round in (1, 2, 3):
        vault.open(at(round, f"{round - 1}.0" if round > 1 else ""))
        vault.keep(at(round), state(round), {"n": 1}, {})
    vault.open(at(4, "3.0"))
    assert value_of(vault.open(at(3, "2.0", session=2))) == 2
    with pytest.raises(MessageError, match="before the server's last start"):
        vault.open(at(4, "3.0", session=1))


def test_a_lost_disk_is_named(vault):
    with pytest.raises(MessageError, match=r"last accepted 5\.0 .* no round"):
        vault.open(at(6, "5.0", session=2))


def test_disk_use_is_bounded(vault):
    for round in range(1, 8):
        vault.open(at(round, f"{round - 1}.0" if round > 1 else ""))
        vault.keep(at(round), state(round), {"n": 1}, {"x": torch.ones(1)})
    assert len(list(vault.path.glob("state-*"))) <= 3


@pytest.mark.parametrize("name", ["../up", "a/b", "", "a" * 81])
def test_names_that_leave_the_directory_are_refused(tmp_path, name):
    with pytest.raises(MessageError, match="no name for a directory"):
        Vault(tmp_path, name, "a")


def test_digest_sees_names_values_and_shapes():
    one = {"x": torch.ones(4)}
    assert digest(one) == digest({"x": torch.ones(4)})
    others = (
        {"y": torch.ones(4)},
        {"x": torch.ones(2, 2)},
        {"x": torch.zeros(4)},
        {"x": torch.ones(4).long()},
    )
    assert len({digest(one), *map(digest, others)}) == 5

"""A client's own files, damaged: recovered, or refused in one line. Nothing of them is used in silence."""

import random
import shutil

import pytest
import torch

from protofed.core.answer import ClientState
from protofed.core.errors import ProtofedError, RunError
from protofed.flower.vault import Request, Tag, Vault


def state(value):
    return ClientState({"w": torch.full((50,), float(value))}, {"m": torch.tensor([value])})


def at(round, accepted="", session=1):
    return Request(session, Tag.read(accepted), Tag(round, 0), "d")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Rounds 1 and 2 are committed, round 3 is pending, with its reply."""
    root = tmp_path_factory.mktemp("vaults")
    vault = Vault(root, "run", "a")
    for round in (1, 2, 3):
        vault.open(at(round, f"{round - 1}.0" if round > 1 else ""))
        vault.keep(at(round), state(round), {"n": round}, {"x": torch.full((40,), float(round))})
    return root


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made, tmp_path / "root")
    return tmp_path / "root"


def damage(path, how, seed):
    """One byte changed, the end cut off, zeros in the middle, or all of it gone."""
    data, choose = bytearray(path.read_bytes()), random.Random(seed)
    place = choose.randrange(len(data))
    if how == "byte":
        data[place] ^= choose.randrange(1, 256)
    elif how == "digit":
        digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
        place = choose.choice(digits) if digits else place
        data[place] = ord("0") + (data[place] - ord("0") + 1) % 10
    elif how == "cut":
        del data[place:]
    elif how == "zeros":
        data[place : place + 20] = bytes(len(data[place : place + 20]))
    path.write_bytes(bytes(data) if how != "empty" else b"")


def used(root, accepted):
    """What a client would train from, and what it would send again."""
    vault = Vault(root, "run", "a")
    found = vault.open(at(4 if accepted == "3.0" else 3, accepted))
    return found, vault.reply(at(3, accepted))


HOWS = ("byte", "byte ", "digit", "cut", "zeros", "empty")


@pytest.mark.parametrize("accepted", ["2.0", "3.0"])
def test_no_damage_of_any_file_is_used(made, tmp_path, accepted):
    """Six kinds of damage, five times each, of all files: 210 cases for each of two questions. Either one
    line tells it, or state and reply are those that were written."""
    told = []
    for path in sorted((made / "run" / "a").iterdir()):
        for number in range(5 * len(HOWS)):
            root = tmp_path / f"{path.name}-{number}"
            shutil.copytree(made, root)
            damage(root / "run" / "a" / path.name, HOWS[number % len(HOWS)].strip(), number)
            try:
                found, reply = used(root, accepted)
            except ProtofedError as error:
                told.append((path.name, str(error)))
            else:
                check(found, reply, int(accepted[0]))
    assert all(name in line and "\n" not in line for name, line in told)
    assert len(told) >= 25  # all of the one state that is asked for


def check(found, reply, round):
    assert torch.equal(found.kept["w"], state(round).kept["w"])
    assert torch.equal(found.mem["m"], state(round).mem["m"])
    if reply is not None:
        assert reply[0] == {"n": 3}
        assert torch.equal(reply[1]["x"], torch.full((40,), 3.0))


def test_a_damaged_journal_is_recovered_from_its_copy(copied, caplog):
    (copied / "run" / "a" / "journal.json").write_text("{}")
    found, reply = used(copied, "2.0")
    assert int(found.mem["m"]) == 2
    assert reply is not None
    assert "journal.json is damaged: its checksum is missing" in caplog.text
    assert "recovered from journal.copy.json" in caplog.text
    caplog.clear()
    used(copied, "2.0")  # written anew
    assert caplog.text == ""


def test_with_both_damaged_nothing_is_used(copied):
    for name in ("journal.json", "journal.copy.json"):
        (copied / "run" / "a" / name).write_text('{"committed": []}')
    with pytest.raises(
        RunError, match=r"journal\.json is damaged: .*, and no copy is sound; restore .* new run"
    ):
        Vault(copied, "run", "a")


def test_a_damaged_reply_is_computed_again(copied, caplog):
    damage(copied / "run" / "a" / "reply-3.0.safetensors", "byte", 1)
    assert used(copied, "2.0")[1] is None
    assert "this leg is trained again" in caplog.text


def test_a_state_put_in_the_place_of_another_is_refused(copied):
    folder = copied / "run" / "a"
    shutil.copy(folder / "state-1.0.safetensors", folder / "state-2.0.safetensors")
    with pytest.raises(RunError, match=r"state-2\.0\.safetensors is damaged: its checksum does not match"):
        used(copied, "2.0")


def test_the_journal_of_another_client_is_refused(copied):
    shutil.copytree(copied / "run" / "a", copied / "run" / "b")
    with pytest.raises(RunError, match=r"b/journal\.json is damaged: its checksum does not match"):
        Vault(copied, "run", "b")


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"session": NaN, "check": ""}', "\ufeff", ""])
def test_what_is_no_journal_at_all_is_refused_too(copied, text):
    (copied / "run" / "a" / "journal.copy.json").unlink()
    (copied / "run" / "a" / "journal.json").write_text(text)
    with pytest.raises(RunError, match=r"journal\.json"):
        Vault(copied, "run", "a")

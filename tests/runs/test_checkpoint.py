"""Checkpoints: only changes are written, damage is noticed, the one before is taken."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from protofed.core.answer import ClientState
from protofed.core.errors import RunError
from protofed.core.record import Record, Tree
from protofed.engines.store import Store
from protofed.runs.checkpoint import Checkpoints


class State(Record):
    mean: Float[Tensor, "C D"]
    weights: Tree


def state(round: int) -> State:
    return State(torch.full((2, 3), float(round)), {"model.w": torch.full((4,), float(round))})


def private(client: int, round: int) -> ClientState:
    value = torch.full((3,), 100.0 * client + round)
    return ClientState({"model.w": value}, {"prev/model.w": -value, "n": torch.tensor([client])})


def save(folder: Path, *rounds: list[int]) -> tuple[Checkpoints, Store]:
    """Round r changes the clients listed in rounds[r - 1]."""
    checkpoints, store = Checkpoints(folder), Store()
    for round, clients in enumerate(rounds, 1):
        for client in clients:
            store.put(client, private(client, round))
        checkpoints.save(round, state(round), store)
    return checkpoints, store


def load(folder: Path) -> tuple[int, State, str, Store]:
    store = Store()
    round, found, _, warning = Checkpoints(folder).load(State, store)
    assert isinstance(found, State)
    return round, found, warning, store


def assert_round(folder: Path, round: int, clients: dict[int, int]) -> str:
    """The newest whole checkpoint is of this round; clients as of their rounds. Gives the warning."""
    got, found, warning, store = load(folder)
    assert got == round
    assert torch.equal(found.mean, state(round).mean)
    assert torch.equal(found.weights["model.w"], state(round).weights["model.w"])
    assert list(store) == sorted(clients)
    for client, changed in clients.items():
        one, expected = store.get(client), private(client, changed)
        assert one is not None
        for ours, theirs in ((one.kept, expected.kept), (one.mem, expected.mem)):
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    return warning


def files(folder: Path) -> set[str]:
    return {p.name for p in (folder / "checkpoint").iterdir()}


def test_round_trip(tmp_path: Path) -> None:
    save(tmp_path, [0, 7])
    assert assert_round(tmp_path, 1, {0: 1, 7: 1}) == ""


def test_only_changed_clients_are_written(tmp_path: Path) -> None:
    save(tmp_path, [0, 1, 2], [1])
    assert {f for f in files(tmp_path) if f.startswith("client")} == {
        "client-0-1.safetensors",
        "client-1-1.safetensors",
        "client-1-2.safetensors",
        "client-2-1.safetensors",
    }
    assert_round(tmp_path, 2, {0: 1, 1: 2, 2: 1})


def test_old_files_are_swept(tmp_path: Path) -> None:
    """After rounds 1 to 4 only those of 3 and 4 are left, and what they still need."""
    save(tmp_path, [0, 1], [1], [1], [1])
    assert files(tmp_path) == {
        "manifest.json",
        "manifest.previous.json",
        "state-3.safetensors",
        "state-4.safetensors",
        "client-0-1.safetensors",
        "client-1-3.safetensors",
        "client-1-4.safetensors",
    }


def test_what_was_loaded_is_not_written_again(tmp_path: Path) -> None:
    save(tmp_path, [0, 1])
    checkpoints, store = Checkpoints(tmp_path), Store()
    checkpoints.load(State, store)
    store.put(1, private(1, 2))
    checkpoints.save(2, state(2), store)
    assert "client-0-2.safetensors" not in files(tmp_path)
    assert_round(tmp_path, 2, {0: 1, 1: 2})


def test_a_store_marks_what_changed() -> None:
    store = Store()
    store.put(3, private(3, 1))
    store.put(4, ClientState())
    assert store.changed == {3}
    assert len(store) == 1
    assert store.get(4) is None


@pytest.mark.parametrize("name", ["state-2.safetensors", "client-1-2.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, name: str, damage: str) -> None:
    save(tmp_path, [0, 1], [1])
    path = tmp_path / "checkpoint" / name
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        data[-3] ^= 0x20
        path.write_bytes(data[:-5] if damage == "cut" else data)
    warning = assert_round(tmp_path, 1, {0: 1, 1: 1})
    assert name in warning
    assert "going back to the checkpoint of round 1" in warning


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"round": 2}', b'{"files": {}, "clients": {}, "state": 3}']
)
def test_after_a_damaged_manifest_the_run_goes_on(tmp_path: Path, damage: bytes) -> None:
    """The next checkpoints are written; at no moment is there none to go back to."""
    save(tmp_path, [0, 1], [1])
    (tmp_path / "checkpoint" / "manifest.json").write_bytes(damage)
    checkpoints, store = Checkpoints(tmp_path), Store()
    assert checkpoints.load(State, store)[0] == 1
    for round in (2, 3):
        store.put(1, private(1, round))
        checkpoints.save(round, state(round), store)
        assert assert_round(tmp_path, round, {0: 1, 1: round}) == ""
        whole = json.loads((tmp_path / "checkpoint" / "manifest.previous.json").read_bytes())
        assert whole["round"] == round - 1


def test_both_damaged_says_so(tmp_path: Path) -> None:
    save(tmp_path, [0], [0])
    for path in (tmp_path / "checkpoint").glob("state-*"):
        path.write_bytes(b"")
    with pytest.raises(RunError, match=r"cannot resume: .*state-2.* is damaged .*; .*state-1.* is damaged"):
        load(tmp_path)


def test_no_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot resume: no checkpoint in"):
        load(tmp_path)


def test_a_state_of_another_method_is_refused(tmp_path: Path) -> None:
    class Other(Record):
        centre: Float[Tensor, "C D"]

    save(tmp_path, [0])
    with pytest.raises(RunError, match=r"cannot resume: .* belongs to another method: .*unexpected array"):
        Checkpoints(tmp_path).load(Other, Store())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["state-2.safetensors", "client-1-2.safetensors", "manifest.json"]), st.data())
def test_a_file_cut_at_any_byte_is_never_half_read(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), [0, 1], [1])
        path = Path(folder) / "checkpoint" / name
        whole = path.read_bytes()
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
        assert "going back" in assert_round(Path(folder), 1, {0: 1, 1: 1})


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["state-2.safetensors", "client-1-2.safetensors"]), st.data())
def test_a_changed_byte_is_noticed(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), [0, 1], [1])
        path = Path(folder) / "checkpoint" / name
        bytes_ = bytearray(path.read_bytes())
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes_)
        assert "is damaged" in assert_round(Path(folder), 1, {0: 1, 1: 1})


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match=r"cannot write .*/file/checkpoint: Not a directory"):
        save(tmp_path / "file", [0])


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), Crash()])
@pytest.mark.parametrize("call", range(4))
def test_whatever_step_fails_the_last_checkpoint_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, call: int
) -> None:
    """The third checkpoint renames four files: state, client, previous manifest, manifest."""
    checkpoints, store = save(tmp_path, [0, 1], [1])
    replace, calls = os.replace, []

    def fails(*args: Any) -> None:
        calls.append(args)
        if len(calls) == call + 1:
            raise failure
        replace(*args)

    store.put(1, private(1, 3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises((RunError, Crash)) as caught:
            checkpoints.save(3, state(3), store)
    if isinstance(failure, OSError):
        assert str(caught.value).endswith("No space left on device")
    assert assert_round(tmp_path, 2, {0: 1, 1: 2}) == ""
    assert store.changed == {1}
    checkpoints.save(3, state(3), store)
    assert_round(tmp_path, 3, {0: 1, 1: 3})

"""Client states: in memory up to a limit, the rest on disk, nothing lost."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.answer import ClientState
from protofed.engines.store import Store


def state(value: float) -> ClientState:
    return ClientState({"w": torch.full((10,), value)}, {"prev/w": torch.full((3,), -value)})


def same(one: ClientState, two: ClientState) -> bool:
    return all(torch.equal(one.kept[n], two.kept[n]) for n in two.kept) and all(
        torch.equal(one.mem[n], two.mem[n]) for n in two.mem
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=30), st.integers(1, 400))
def test_a_store_with_a_limit_equals_a_dictionary(puts, limit):
    """One state has 13 floats = 52 bytes, so a limit of 1 to 400 bytes keeps one to seven of them."""
    store, expected = Store(limit), {}
    for client, value in puts:
        store.put(client, state(value))
        expected[client] = state(value)
        assert len([c for c in expected if c in store._states]) <= max(1, limit // 52)
    assert list(store) == sorted(expected)
    assert len(store) == len(expected)
    for client, wanted in expected.items():
        found = store.get(client)
        assert found is not None
        assert same(found, wanted)
    assert store.changed == set(expected)


def test_unknown_and_dropped_clients_have_no_state():
    store = Store(60)
    store.put(1, state(1))
    store.put(2, state(2))  # pushes client 1 to disk
    store.drop(1)
    assert store.get(1) is None
    assert store.get(7) is None
    assert list(store) == [2]


def test_an_empty_state_is_not_kept():
    store = Store()
    store.put(3, ClientState())
    assert len(store) == 0
    assert store.changed == set()


def test_an_unread_state_comes_back_as_the_same_object():
    store = Store()
    one = state(1)
    store.put(0, one)
    assert store.get(0) is one


def test_a_full_disk_is_named(monkeypatch):
    store = Store(60)
    store.put(0, state(0))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(Exception, match="client 0 on disk: No space left on device"):
        store.put(1, state(1))


def test_an_empty_state_replaces_an_older_one() -> None:
    store = Store()
    store.put(1, state(1.0))
    store.put(1, ClientState())
    assert store.get(1) == ClientState()
    assert store.changed == {1}


def test_tensors_in_the_same_memory_can_be_written() -> None:
    shared = torch.ones(3)
    store = Store(limit_bytes=1)
    store.put(1, ClientState({"a": shared, "b": shared}))
    store.put(2, state(2.0))  # sends the first to disk
    found = store.get(1)
    assert found is not None
    assert found.kept["a"].tolist() == found.kept["b"].tolist() == [1.0, 1.0, 1.0]

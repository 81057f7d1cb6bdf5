"""Records: declaration, round trip, payload, checks; and replies that are read once."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from protofed.core.answer import Block, Replies, Reply, blocks, cat
from protofed.core.errors import MessageError
from protofed.core.record import Nothing, Payload, Record, Tree

SIZES = {"C": 5, "D": 3}
quick = settings(max_examples=25, deadline=None)


class Message(Record):
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]
    weights: Tree


@st.composite
def messages(draw: st.DrawFn) -> Message:
    rows = draw(st.integers(0, 6))
    names = draw(st.lists(st.sampled_from(["a", "b.c", "d/e", "model.head.weight"]), unique=True))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    weights = {name: torch.randn(draw(st.integers(0, 4)), dtype=dtype) for name in names}
    return Message(torch.randn(rows, 3, dtype=dtype), torch.arange(rows), weights)


def message(mean: object = None, cls: object = None, weights: object = None) -> Message:
    return Message(
        torch.zeros(2, 3) if mean is None else mean,  # type: ignore[arg-type]
        torch.tensor([0, 4]) if cls is None else cls,  # type: ignore[arg-type]
        {} if weights is None else weights,  # type: ignore[arg-type]
    )


@quick
@given(messages())
def test_arrays_and_of_are_inverse(sent: Message) -> None:
    got = Message.of(sent.arrays())
    assert torch.equal(got.mean, sent.mean)
    assert torch.equal(got.cls, sent.cls)
    assert got.weights.keys() == sent.weights.keys()
    assert all(torch.equal(got.weights[name], tensor) for name, tensor in sent.weights.items())


@quick
@given(messages())
def test_a_message_that_fits_its_declaration_passes(sent: Message) -> None:
    assert sent.check(SIZES, "client 7") is None  # type: ignore[func-returns-value]


@quick
@given(messages(), st.sets(st.sampled_from(["a", "b.c"])))
def test_payload_counts_floats_and_puts_integers_and_buffers_into_meta(
    sent: Message, buffers: set[str]
) -> None:
    private = [t for name, t in sent.weights.items() if name in buffers]
    shared = [t for name, t in sent.weights.items() if name not in buffers]
    got = sent.payload(frozenset(buffers))
    assert got.floats == sent.mean.numel() + sum(t.numel() for t in shared)
    assert got.meta_bytes == 8 * len(sent.cls) + sum(t.numel() * t.element_size() for t in private)


def test_payload_of_known_sizes() -> None:
    """2 × 3 floats and a weight of 4: 10 floats, 40 bytes. Two int64 ids and a float32 buffer of 2: 24."""
    weights = {"w": torch.zeros(4), "running_mean": torch.zeros(2)}
    got = message(weights=weights).payload(frozenset({"running_mean"}))
    assert got == Payload(10, 24)
    assert got.bytes == 40


def test_payload_bytes_do_not_depend_on_the_precision_of_the_simulation() -> None:
    assert message(torch.zeros(2, 3, dtype=torch.float64)).payload() == message().payload()


def test_payloads_add_up() -> None:
    assert Payload(1, 2) + Payload(10, 20) == Payload(11, 22)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"mean": torch.zeros(2, 4)}, "client 7: mean has shape [2, 4]; declared [J, D=3]"),
        ({"mean": torch.zeros(3)}, "client 7: mean has shape [3]; declared [J, D=3]"),
        ({"cls": torch.zeros(2)}, "client 7: cls must hold integers, got torch.float32"),
        ({"mean": torch.zeros(2, 3, dtype=torch.int64)}, "client 7: mean must hold floats, got torch.int64"),
        ({"mean": [1.0]}, "client 7: mean must be a tensor [J, D=3], got list"),
        ({"weights": [1.0]}, "client 7: weights must be a dict of tensors, got list"),
        ({"weights": {"w": 1.0}}, "client 7: weights/w must be a tensor, got float"),
        (
            {"mean": torch.tensor([[0, 0, 0], [0, float("nan"), float("inf")]])},
            "client 7: mean: 2 of 6 values are not finite (NaN or infinite)",
        ),
        (
            {"weights": {"model.w": torch.tensor([1.0, -float("inf")])}},
            "client 7: weights/model.w: 1 of 2 values are not finite (NaN or infinite)",
        ),
    ],
)
def test_a_check_names_sender_field_and_what_was_got(wrong: dict[str, object], line: str) -> None:
    with pytest.raises(MessageError, match=f"^{re.escape(line)}$"):
        message(**wrong).check(SIZES, "client 7")


def test_a_free_letter_is_one_size_within_a_record() -> None:
    """J is 2 in `mean`, so `cls` must have 2 entries; another record may have another J."""
    with pytest.raises(MessageError, match=re.escape("cls has shape [3]; declared [J=2]")):
        message(cls=torch.arange(3)).check(SIZES, "server")
    message(torch.zeros(3, 3), torch.arange(3)).check(SIZES, "server")


def test_a_check_leaves_the_sizes_of_the_task_alone() -> None:
    sizes = dict(SIZES)
    message().check(sizes, "server")
    assert sizes == SIZES


@pytest.mark.parametrize("name", ["arrays", "of", "payload", "check", "map", "specs"])
def test_names_of_the_record_itself_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Bad\.{name} would hide Record\.{name}: choose another name"):
        type("Bad", (Record,), {"__annotations__": {name: Tree}})


def test_a_field_of_another_type_is_refused_when_first_used() -> None:
    class Odd(Record):
        count: int

    with pytest.raises(TypeError, match=r"Odd\.count: declare it as Float"):
        Odd(3).arrays()


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        message().mean = torch.ones(1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"mean": 0, "cls": 0, "extra": 0}, "unexpected array 'extra'; declared: mean, cls, weights"),
        ({"mean": 0, "cls": 0, "mean/x": 0}, "unexpected array 'mean/x'"),
        ({"mean": 0, "cls": 0, "weights": 0}, "unexpected array 'weights'"),
        ({"mean": 0}, "Message: array 'cls' is missing"),
    ],
)
def test_arrays_that_do_not_belong_are_named(arrays: dict[str, int], line: str) -> None:
    with pytest.raises(MessageError, match=re.escape(line)):
        Message.of({name: torch.zeros(1) for name in arrays})


def test_map_changes_every_tensor() -> None:
    got = message(torch.ones(2, 3), weights={"w": torch.ones(1)}).map(lambda t: t + 1)
    assert torch.equal(got.mean, torch.full((2, 3), 2.0))
    assert torch.equal(got.cls, torch.tensor([1, 5]))
    assert torch.equal(got.weights["w"], torch.tensor([2.0]))


def test_nothing_is_empty() -> None:
    assert Nothing().arrays() == {}
    assert Nothing().payload() == Payload(0, 0)


def test_replies_are_read_once_and_all_sorts_by_client() -> None:
    given_order = [Reply(c, 1, Nothing()) for c in (3, 1, 2)]
    assert [r.client for r in Replies(iter(given_order))] == [3, 1, 2]
    replies = Replies(iter(given_order))
    assert [r.client for r in replies.all()] == [1, 2, 3]
    with pytest.raises(RuntimeError, match="read once"):
        replies.all()


@quick
@given(st.integers(0, 20), st.integers(1, 7))
def test_blocks_hold_all_replies_in_order(count: int, size: int) -> None:
    got = list(blocks([Reply(c, 1, Nothing()) for c in range(count)], size))
    assert [r.client for block in got for r in block] == list(range(count))
    assert all(len(block) == size for block in got[:-1])
    assert all(0 < len(block) <= size for block in got)


def test_cat_joins_rows_of_ragged_replies() -> None:
    replies = [Reply(c, 1, message(torch.full((c, 3), float(c)), torch.arange(c))) for c in (2, 0, 1)]
    mean, cls = cat(replies, "mean", "cls")
    assert mean[:, 0].tolist() == [2.0, 2.0, 1.0]
    assert cls.tolist() == [0, 1, 0]


def test_records_without_rows_are_not_joined():
    """Joined, nothing would tell how many they were."""
    assert Block.join(Nothing, [Reply(c, 1, Nothing()) for c in (0, 1)], {}) is None

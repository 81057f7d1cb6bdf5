"""Assignments of architectures to clients, and their written forms."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.errors import ConfigError
from protofed.models import Assignment, assign, count_parameters, read_family, write_family

SHAPE = (1, 28, 28)


def groups(models: str, clients: int) -> Assignment:
    return assign(models, clients, SHAPE, 10)


def test_one_family_for_all() -> None:
    got = groups("fp_cnn:channels=18", 4)
    assert got.specs == ("fp_cnn:channels=18",)
    assert got.of.tolist() == [0, 0, 0, 0]
    assert count_parameters(got.builders[0]()) == 19_738


def test_members_take_turns() -> None:
    got = groups("small_cnn:width=8|small_cnn:width=16|mlp", 5)
    assert got.specs == ("small_cnn:width=8", "small_cnn", "mlp")
    assert got.of.tolist() == [0, 1, 2, 0, 1]
    first, second = (count_parameters(build()) for build in got.builders[:2])
    assert first < second


def test_equal_members_are_one_group() -> None:
    got = groups("mlp|small_cnn|mlp:hidden=64,dim=32", 6)
    assert got.specs == ("mlp", "small_cnn")
    assert got.of.tolist() == [0, 1, 0, 0, 1, 0]


def test_groups_without_clients_are_left_out() -> None:
    got = groups("mlp|small_cnn|fp_cnn", 2)
    assert got.specs == ("mlp", "small_cnn")
    assert len(got) == len(got.builders) == 2


def test_fedproto_blocks() -> None:
    """FedProto: clients 0–6 c=18, 7–13 c=20, 14–19 c=22."""
    got = groups("fedproto-mh", 20)
    assert got.specs == ("fp_cnn:channels=18", "fp_cnn", "fp_cnn:channels=22")
    assert got.of.tolist() == [0] * 7 + [1] * 7 + [2] * 6
    assert groups("fedproto-mh", 5).of.tolist() == [0, 0, 1, 1, 2]


def test_options_of_a_named_group_reach_all_members() -> None:
    got = groups("fedproto-mh:dropout=0.25", 3)
    assert all("dropout=0.25" in spec for spec in got.specs)


def test_explicit_list_and_blocks() -> None:
    assert groups("mlp|small_cnn@1,1,0", 3).of.tolist() == [1, 1, 0]
    assert groups("mlp|small_cnn@blocks", 5).of.tolist() == [0, 0, 0, 1, 1]
    assert groups("fedproto-mh@mod", 4).of.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("small_cn", "unknown model 'small_cn'; did you mean 'small_cnn'"),
        ("fedproto-m", "did you mean 'fedproto-mh'"),
        ("mlp:hiden=3", "unknown option 'hiden'"),
        ("mlp||small_cnn", "a model name is missing"),
        ("", "a model name is missing"),
        ("mlp|fedproto-mh", "cannot be joined"),
        ("mlp|small_cnn@0,1", "names 2 clients, but there are 3"),
        ("mlp|small_cnn@0,1,2", "names model 2, but they are numbered 0 to 1"),
        ("mlp:hidden=0", "must be at least 1"),
        ("mlp:64", "expected key=value"),
    ],
)
def test_mistakes_are_named_in_one_line(models: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        groups(models, 3)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_clients() -> None:
    with pytest.raises(ConfigError, match="at least 1 client, got 0"):
        groups("mlp", 0)


@given(st.integers(1, 40), st.integers(1, 5), st.sampled_from(["mod", "blocks"]))
@settings(max_examples=25, deadline=None)
def test_every_client_has_a_group_and_every_group_a_client(clients: int, members: int, rule: str) -> None:
    got = groups("|".join(f"mlp:hidden={h + 1}" for h in range(members)) + f"@{rule}", clients)
    assert len(got.of) == clients
    assert sorted(set(got.of.tolist())) == list(range(len(got.specs)))
    assert len(got.specs) == min(members, clients)


@given(st.integers(1, 100), st.integers(1, 9), st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_written_forms_read_back(channels: int, kernel: int, dropout: float) -> None:
    family = read_family("fp_cnn", {"channels": channels, "kernel": kernel, "dropout": dropout})
    assert read_family(write_family(family)) == family


def test_builders_make_fresh_modules() -> None:
    (build,) = groups("mlp", 2).builders
    a, b = build(), build()
    assert not torch.equal(next(a.parameters()), next(b.parameters()))

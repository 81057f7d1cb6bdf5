"""Where a client's tensors come from, and which of them stay with it."""

from __future__ import annotations

import pytest
import torch
from client_toy import Probe, equal, leg, make_task, norm, part, samples

from protofed.core.answer import ClientState
from protofed.core.client import kept_names
from protofed.core.errors import ConfigError

BASE = ("model.base.0.weight", "model.base.0.bias")
HEAD = ("model.head.weight", "model.head.bias")


def test_a_new_client_starts_from_its_own_seed() -> None:
    task = make_task(Probe())
    one, two = (part(leg(task, samples(8), client=c), "start/") for c in (1, 2))
    assert equal(one, task.fresh(0, 1))
    assert not equal(one, two)


def test_a_common_start_is_common() -> None:
    task = make_task(Probe(), common_init=True)
    one, two = (part(leg(task, samples(8), client=c), "start/") for c in (1, 2))
    assert equal(one, two)
    assert equal(one, task.fresh(0))


def test_the_second_round_starts_where_the_first_ended() -> None:
    task = make_task(Probe())
    first = leg(task, samples(8))
    second = leg(task, samples(8), first.state, round=2)
    assert equal(part(second, "start/"), part(first, "end/"))
    assert equal(first.state.kept, part(first, "end/"))
    assert not equal(part(second, "end/"), part(second, "start/"))


def test_training_leaves_the_old_state_alone() -> None:
    """A reply may be rejected: then the client is as it was."""
    task = make_task(Probe())
    old = leg(task, samples(8)).state
    copy = {name: tensor.clone() for name, tensor in old.kept.items()}
    leg(task, samples(8), old, round=2)
    assert equal(old.kept, copy)


def test_only_the_named_prefixes_are_kept() -> None:
    task = make_task(Probe(kept=("model.head.",)))
    down = {name: torch.ones_like(t) for name, t in task.fresh(0).items() if "base" in name}
    outcome = leg(task, samples(8), down=down)
    assert set(outcome.state.kept) == set(HEAD)
    start = part(outcome, "start/")
    assert all(torch.equal(start[name], down[name]) for name in BASE)
    assert all(torch.equal(start[name], task.fresh(0, 1)[name]) for name in HEAD)


def test_a_kept_head_meets_the_newest_base() -> None:
    task = make_task(Probe(kept=("model.head.",)))
    down = {name: torch.ones_like(t) for name, t in task.fresh(0).items() if "base" in name}
    first = leg(task, samples(8), down=down)
    newer = {name: 2 * tensor for name, tensor in down.items()}
    start = part(leg(task, samples(8), first.state, newer, round=2), "start/")
    assert all(torch.equal(start[name], newer[name]) for name in BASE)
    assert all(torch.equal(start[name], first.state.kept[name]) for name in HEAD)


def test_what_comes_down_wins_over_what_was_kept() -> None:
    task = make_task(Probe())
    down = {HEAD[1]: torch.full((3,), 7.0, dtype=torch.float64)}
    start = part(leg(task, samples(8), leg(task, samples(8)).state, down, round=2), "start/")
    assert torch.equal(start[HEAD[1]], down[HEAD[1]])


def test_a_tensor_neither_kept_nor_downloaded_is_named() -> None:
    task = make_task(Probe(kept=("model.head.",)))
    line = "probe: client 1 has no value for tensor 'model.base.0.weight': it is neither kept nor in the"
    with pytest.raises(ConfigError, match=line):
        leg(task, samples(8))


def test_buffers_stands_for_all_buffers() -> None:
    task = make_task(Probe(kept=("buffers",)), norm)
    assert {name.rsplit(".", 1)[1] for name in kept_names(task, 0)} == {
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }


def test_a_state_that_lacks_a_kept_tensor_gets_it_from_the_seed() -> None:
    """So a client may start from weights of its own for a part of its tensors."""
    task = make_task(Probe())
    own = {HEAD[1]: torch.full((3,), 7.0, dtype=torch.float64)}
    start = part(leg(task, samples(8), ClientState(own)), "start/")
    assert torch.equal(start[HEAD[1]], own[HEAD[1]])
    assert torch.equal(start[BASE[0]], task.fresh(0, 1)[BASE[0]])


def test_nothing_depends_on_who_was_at_work_before() -> None:
    task = make_task(Probe(), norm)
    alone = leg(make_task(Probe(), norm), samples(8), client=2)
    leg(task, samples(12), client=0)
    assert equal(leg(task, samples(8), client=2).state.mem, alone.state.mem)


def test_the_global_generator_is_left_as_it_was() -> None:
    task = make_task(Probe(), norm)
    before = torch.get_rng_state()
    leg(task, samples(8))
    assert torch.equal(torch.get_rng_state(), before)

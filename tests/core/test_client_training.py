"""Local training: phases, steps, BatchNorm, sums; and one leg against a plain PyTorch loop."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from client_toy import CLASSES, Probe, equal, leg, make_task, norm, part, plain, samples
from torch import nn
from torch.nn.functional import cross_entropy

from protofed.core.algorithm import Phase
from protofed.core.data import LocalData, batch_rows
from protofed.core.errors import ConfigError, MessageError
from protofed.core.optim import Opt
from protofed.core.task import Turn
from protofed.models.base import Model

STATISTICS = "model.base.1.running_mean"


def moved(outcome) -> set[str]:  # type: ignore[no-untyped-def]
    start, end = part(outcome, "start/"), part(outcome, "end/")
    return {name for name in start if not torch.equal(start[name], end[name])}


@pytest.mark.parametrize("opt", [Opt(0.1, 0.9, 0.01), Opt(0.01, optimizer="adam"), Opt(0.1, 0.5, clip=0.1)])
def test_a_leg_equals_a_plain_loop(opt: Opt) -> None:
    """Same start, same batches, torch's own optimiser: equal to 1e-12."""
    task, data = make_task(Probe(), opt=opt), samples(10)
    model = plain().double()
    model.load_state_dict({n.removeprefix("model."): t for n, t in task.fresh(0, 1).items()})
    kind = torch.optim.Adam if opt.optimizer == "adam" else torch.optim.SGD
    more = {} if opt.optimizer == "adam" else {"momentum": opt.momentum}
    optimiser = kind(model.parameters(), opt.lr, weight_decay=opt.weight_decay, **more)  # type: ignore[arg-type]
    for rows, _ in batch_rows(10, 4, 3, Turn(task, 1, "train", 1).generator("batches 0")):
        optimiser.zero_grad()
        cross_entropy(model(data.x[rows])[1], data.y[rows]).backward()
        if opt.clip:
            nn.utils.clip_grad_norm_(model.parameters(), opt.clip)
        optimiser.step()
    end = part(leg(task, data, epochs=3), "end/")
    for name, tensor in model.state_dict().items():
        assert torch.allclose(end[f"model.{name}"], tensor, rtol=0, atol=1e-12)


def test_work_is_counted() -> None:
    """10 samples in batches of 4, 2 epochs: 3 steps each, 20 samples in all."""
    work = leg(make_task(Probe()), samples(10), epochs=2).work
    assert (work.steps, work.samples) == (6, 20)
    assert math.isfinite(work.loss)


def test_without_epochs_nothing_moves() -> None:
    outcome = leg(make_task(Probe()), samples(10), epochs=0)
    assert outcome.work.steps == 0
    assert math.isnan(outcome.work.loss)
    assert moved(outcome) == set()
    assert part(outcome, "sum/") == {}


def test_fewer_samples_than_a_batch_make_one_step() -> None:
    assert leg(make_task(Probe(), batch_size=64), samples(3)).work.steps == 1


def test_a_batch_of_one_is_skipped_with_batchnorm_alone() -> None:
    """5 samples in batches of 4: the second batch has one sample."""
    assert leg(make_task(Probe(), norm), samples(5)).work.steps == 1
    assert leg(make_task(Probe(), plain), samples(5)).work.steps == 2


def test_a_client_of_one_sample_with_batchnorm_uploads_untrained() -> None:
    outcome = leg(make_task(Probe(), norm), samples(1))
    assert outcome.work.steps == 0
    assert moved(outcome) == set()


def test_a_phase_trains_its_prefixes_alone() -> None:
    phases = (Phase(train=("model.head.",)),)
    assert moved(leg(make_task(Probe(phases)), samples(8))) == {"model.head.weight", "model.head.bias"}


def test_phases_follow_each_other() -> None:
    """The base phase moves the base, on top of the head that the head phase left."""
    head, base = Phase(train=("model.head.",)), Phase(train=("model.base.",))
    both = leg(make_task(Probe((head, base))), samples(8))
    first = leg(make_task(Probe((head,))), samples(8))
    assert moved(both) == set(part(both, "start/"))
    assert torch.equal(part(both, "end/")["model.head.weight"], part(first, "end/")["model.head.weight"])


def test_every_phase_starts_with_a_new_optimiser() -> None:
    """Two phases of one step of plain momentum SGD are two first steps: no velocity is carried over."""
    data = samples(4)
    two = leg(make_task(Probe((Phase(), Phase())), opt=Opt(0.1, 0.9)), data)
    without = leg(make_task(Probe((Phase(), Phase())), opt=Opt(0.1, 0.0)), data)
    assert equal(part(two, "end/"), part(without, "end/"))


def test_a_prefix_that_selects_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"probe: phase 0 trains \('model.hed.',\), but no parameter"):
        leg(make_task(Probe((Phase(train=("model.hed.",)),))), samples(8))


def test_parameters_built_without_gradient_stay_as_they_are() -> None:
    def frozen_base() -> nn.Module:
        model = plain()
        model.base.requires_grad_(False)  # type: ignore[operator, union-attr]
        return model

    task = make_task(Probe((Phase(), Phase())), frozen_base)
    assert task.names(0).frozen == {"model.base.0.weight", "model.base.0.bias"}
    assert moved(leg(task, samples(8))) == {"model.head.weight", "model.head.bias"}
    assert moved(leg(task, samples(8), round=2)) == {"model.head.weight", "model.head.bias"}


def test_parts_in_eval_mode_leave_their_statistics_alone() -> None:
    frozen = Phase(train=("model.head.",), eval=("model.base.",))
    assert STATISTICS not in moved(leg(make_task(Probe((frozen,)), norm), samples(8)))
    live = replace(frozen, eval=())
    assert STATISTICS in moved(leg(make_task(Probe((live,)), norm), samples(8)))


def test_parts_in_eval_mode_have_no_dropout() -> None:
    """With the base in eval mode the loss of a step does not depend on the round's dropout masks."""
    data, phases = samples(4), (Phase(train=("model.head.",), eval=("model.base.",)),)
    task = make_task(Probe(phases), norm)
    losses = {leg(task, data, round=r).work.loss for r in range(1, 4)}
    assert max(losses) - min(losses) < 1e-12


def test_a_phase_may_end_after_a_number_of_steps() -> None:
    assert leg(make_task(Probe((Phase(steps=2),))), samples(20), epochs=3).work.steps == 2
    assert leg(make_task(Probe((Phase(steps=0),))), samples(20)).work.steps == 0


def test_a_phase_may_have_its_own_epochs_and_batch_size() -> None:
    work = leg(make_task(Probe((Phase(epochs=3, batch_size=10),))), samples(20), epochs=1).work
    assert (work.steps, work.samples) == (6, 60)


def test_options_of_a_phase_hold_for_their_prefix() -> None:
    """A learning rate of 1e-300 moves nothing that can be seen."""
    phases = (Phase(opts={"model.base.": Opt(1e-300, 0)}),)
    assert moved(leg(make_task(Probe(phases)), samples(8))) == {"model.head.weight", "model.head.bias"}


def test_the_poly_schedule_lowers_the_learning_rate() -> None:
    """Round 1 of 4: factor 1; round 3: (1 − 2/4)^0.9 = 0.5359."""
    task = make_task(Probe(), schedule="poly", rounds=4)
    assert task.lr_factor(1) == 1
    assert task.lr_factor(3) == pytest.approx(0.5**0.9)
    slow = make_task(Probe(), opt=Opt(0.1 * 0.5**0.9, 0.5))
    one, two = (part(leg(t, samples(4), round=3), "end/") for t in (task, slow))
    assert all(torch.allclose(one[name], two[name], atol=1e-15) for name in one)


def test_sums_add_up_over_steps_and_last_marks_the_last_epoch() -> None:
    """10 samples in batches of 4, 3 epochs: 9 steps, 3 of them in the last; rows 0…9 sum to 45 an epoch."""
    sums = part(leg(make_task(Probe()), samples(10), epochs=3), "sum/")
    assert {name: float(value) for name, value in sums.items()} == {"all": 9, "last": 3, "rows": 135}


def test_a_loss_that_is_not_finite_names_client_round_and_remedy() -> None:
    data = LocalData(samples(8).x * float("nan"), samples(8).y)
    line = "probe: client 1, round 5: the training loss is nan; lower lr"
    with pytest.raises(MessageError, match=line):
        leg(make_task(Probe()), data, round=5)


def test_drop_last_reaches_the_client() -> None:
    assert leg(make_task(Probe(), drop_last=True), samples(10)).work.samples == 8


def test_augmentation_is_seeded_by_the_turn() -> None:
    def jitter(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return x + torch.rand(x.shape, generator=generator, dtype=x.dtype)

    task, data = make_task(Probe()), replace(samples(8), augment=jitter)
    one, again, later = (leg(task, data, round=r).state.mem for r in (1, 1, 2))
    assert equal(one, again)
    assert not equal(part(leg(task, samples(8)), "end/"), part(leg(task, data), "end/"))
    assert not equal(one, later)


def test_public_phases_see_the_same_rows_at_all_clients_and_rounds_differ() -> None:
    public = LocalData(samples(9, "public").x, torch.arange(9) % CLASSES)
    task = make_task(Probe((Phase(data="public", steps=1),)), public=public)
    rows = [float(part(leg(task, samples(8), client=c, round=1), "sum/")["rows"]) for c in (0, 2)]
    assert rows[0] == rows[1]
    batches = [Turn(task, r, "train", 0).public_batches(4) for r in (1, 2)]
    assert sorted(torch.cat(batches[0]).tolist()) == list(range(9))
    assert not torch.equal(batches[0][0], batches[1][0])


def test_a_public_phase_without_public_data_says_so() -> None:
    with pytest.raises(ConfigError, match="probe: needs public data; give it as `public`"):
        leg(make_task(Probe((Phase(data="public"),))), samples(8))


def test_dropout_masks_follow_seed_round_and_client() -> None:
    model = lambda: Model(nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5)), nn.Linear(4, 3))  # noqa: E731
    data = samples(4)
    ends = [
        part(leg(make_task(Probe(), model, common_init=True, seed=s), data, client=c, round=r), "end/")
        for s, c, r in [(0, 1, 1), (0, 1, 1), (0, 2, 1), (0, 1, 2)]
    ]
    assert equal(ends[0], ends[1])
    assert not equal(ends[0], ends[2])
    assert not equal(ends[0], ends[3])

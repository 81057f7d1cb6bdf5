"""What contenders are held against does the work that it stands for."""

from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks.kernels import Kernels, share_of_test
from benchmarks.stacked_by_hand import StackedByHand
from benchmarks.workloads import workload_config
from protofed.core.answer import Block, Reply
from protofed.core.task import ClientTurn
from protofed.experiment import Experiment, build


def unequal(folder: Path) -> Experiment:
    """W1 without dropout, whose clients have unlike numbers of samples: last batches of several sizes."""
    changes = {"models": "fp_cnn:dropout=0", "partition": "dirichlet:beta=0.5,minimum=8", "clients": 5}
    config, _ = workload_config("w1", folder, small=True, engine="cohort", **changes)
    return build(config)


def order_of_the_engine(experiment: Experiment, round: int, client: int) -> torch.Generator:
    return ClientTurn(experiment.task, round, client=client).generator("batches 0")


def losses_of_the_engine(experiment: Experiment) -> dict[int, float]:
    """One round of the engine; the mean loss of each client over its steps."""
    federation, found = experiment.federation, {}
    run = federation.engine.run

    def noted(jobs):
        for answer in run(jobs):
            assert isinstance(answer, Reply | Block)
            one = isinstance(answer, Reply)
            clients, works = ([answer.client], [answer.work]) if one else (answer.clients, answer.works)
            found.update({client: work.loss for client, work in zip(clients, works)})
            yield answer

    federation.engine.run = noted
    federation.play()
    federation.engine.run = run
    return found


def test_the_stacked_step_has_losses_and_prototypes_of_the_engine(tmp_path: Path) -> None:
    experiment = unequal(tmp_path)
    sizes = [experiment.data.size(client) for client in range(5)]
    assert len({size % 8 for size in sizes}) > 2
    by_hand = StackedByHand(experiment, dropout=False)
    for round in (1, 2, 3):  # without prototypes at first
        seen = by_hand.round(range(5), 1, order=partial(order_of_the_engine, experiment, round))
        assert seen == sum(sizes)
        engine = losses_of_the_engine(experiment)
        ours = dict(zip(by_hand.clients, by_hand.losses.tolist()))
        assert ours == pytest.approx(engine, rel=1e-4)
        torch.testing.assert_close(by_hand.protos, experiment.federation.state.mean, rtol=1e-3, atol=1e-4)
    assert engine[0] != pytest.approx(engine[1], rel=1e-3)
    scores = experiment.federation.evaluate(range(5))
    right = sum(score.correct["clf"] + score.correct["gp_all"] for score in scores)
    assert by_hand.test(range(5)) == pytest.approx(right, abs=2)  # rounding may turn a sample or two
    assert right > 0


def test_dropout_of_the_stacked_step_changes_its_losses(tmp_path: Path) -> None:
    experiment = unequal(tmp_path)
    torch.manual_seed(0)
    with_it, without = StackedByHand(experiment), StackedByHand(experiment, dropout=False)
    for each in (with_it, without):
        each.round(range(5), 1)
    assert not torch.allclose(with_it.losses, without.losses, rtol=1e-3)


def test_kernels_pass_over_every_batch_and_change_nothing(tmp_path: Path) -> None:
    config, _ = workload_config("w2", tmp_path, small=True, engine="sequential")
    experiment = build(config)
    kernels = Kernels(experiment)
    first = [p.clone() for p in kernels.model(0).parameters()]
    sizes = [experiment.data.size(client) for client in range(4)]
    assert kernels.round(range(4), 2) == 2 * sum(size - size % 10 for size in sizes)
    assert all(torch.equal(a, b) for a, b in zip(first, kernels.model(0).parameters()))


def test_share_of_a_test_by_hand(tmp_path: Path) -> None:
    """Multiply-adds of fp_cnn for a 28×28 image: first convolution 24²·25·10 = 144,000, second 8²·250·20 =
    320,000, linear 320·50 = 16,000 and 50·10 = 500: forward 480,500, its base 480,000. A training step has
    three times the forward pass but for the gradient of the image: 3 · 480,500 − 144,000 = 1,297,500."""
    config, _ = workload_config("w1", tmp_path, small=True, engine="sequential")
    experiment = build(config)
    train = sum(experiment.data.size(client) for client in range(4))
    test = sum(len(experiment.data.test(client)) for client in range(4))
    expected = test * 480_500 / (test * 480_500 + train * (1_297_500 + 480_000))
    assert share_of_test(experiment, range(4)) == pytest.approx(expected, rel=1e-6)

"""Constants from traces, and the advice that follows."""

import math

import pytest
import torch

from protofed.analysis.advise import advise, trace
from protofed.cli.advise import heading_of_last
from protofed.cli.main import main
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.experiment import build
from protofed.testing import Toy


@pytest.fixture
def played():
    experiment = Toy("fedproto", {"lam": 0.01}).build(rounds=3, momentum=0.0)
    experiment.play(None)
    return experiment


def test_one_step_gives_the_ratios_of_that_step(played):
    """With two iterates L1 is ‖∇L(w₁) − ∇L(w₀)‖/‖w₁ − w₀‖ and w₁ − w₀ = −η g, computed here apart."""
    found = trace(played, 0, 1)
    task = played.task
    net = task.live(0)
    from protofed.core.client import assemble
    from protofed.core.data import Batch, batch_rows
    from protofed.core.task import Turn

    turn = Turn(task, played.federation.round + 1, "advise", 0)
    down = task.algorithm.broadcast(played.federation.state, turn)
    state = played.federation.engine.store.get(0)
    data = played.data.train(0)
    view = task.algorithm.prepare(net, data, down, state.mem, turn)
    net.install(assemble(task, turn, state, down))
    names = task.names(0).parameters
    params = [net.named()[n].requires_grad_() for n in names]

    def gradient(rows):
        batch = Batch(data.x[rows], data.y[rows], rows, torch.ones(()), {})
        loss = task.algorithm.loss(net, batch, view)[0]
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, params)])

    everything = torch.arange(len(data))
    before = gradient(everything)
    rows, _ = next(batch_rows(len(data), task.batch_size, 1, turn.generator("trace")))
    step = gradient(rows)
    with torch.no_grad():
        start = 0
        for p in params:
            p -= task.opt.lr * step[start : start + p.numel()].view_as(p)
            start += p.numel()
    after = gradient(everything)
    assert math.isclose(found.L1, float((after - before).norm() / (task.opt.lr * step).norm()), rel_tol=1e-6)
    assert math.isclose(found.first_grad_sq, float(before.square().sum()), rel_tol=1e-9)
    assert found.iterations == 2 * math.ceil(16 / 4)  # two epochs of 16 samples in batches of 4


def test_more_steps_can_only_raise_the_estimates(played):
    short, long = trace(played, 1, 2), trace(played, 1, 8)
    for name in ("L1", "L2", "sigma2", "G"):
        assert getattr(long, name) >= getattr(short, name) > 0


def test_a_client_is_traced_over_its_own_architecture():
    """All parameters of the CNN move, not only those whose names the MLP has too."""
    settings = {"models": "mlp:dim=16|small_cnn:dim=16", "clients": 2, "rounds": 1, "engine": "sequential"}
    experiment = build(resolve({"method": "fedproto", "options": {"lam": 0.01}, **settings}))
    experiment.play(None)
    assert trace(experiment, 1, 3).L2 > 0
    moved = experiment.task.live(1).named()
    kept = experiment.federation.engine.store.get(1).kept
    assert all(not torch.equal(moved[n], kept[n]) for n in experiment.task.names(1).parameters)


def test_gradients_are_summed_over_one_round(played):
    """16 samples in batches of 4, two epochs: E = 8. A longer trace adds nothing to the sum, a shorter one
    has no Theorem 1."""
    assert trace(played, 0, 8).grad_sq_sum == pytest.approx(trace(played, 0, 12).grad_sq_sum)
    assert trace(played, 0, 7).grad_sq_sum < trace(played, 0, 8).grad_sq_sum
    assert [advise(played, [0], steps, 1.0)[0].one_round is None for steps in (7, 8)] == [True, False]


def test_eq_16_has_a_bound_for_every_local_step(played):
    """E = 8 iterates: eight bounds, each from the squared gradients up to its step, worked out here from
    the constants; none where λ·L2·E·G is larger. They never fall; a constant η obeys the first."""
    one = advise(played, [0], 8, 1.0)[0]
    c, total, expected = one.constants, 0.0, []
    for square in c.grad_sq:
        total += square
        above = 2 * (total - 0.01 * c.L2 * 8 * c.G)
        expected.append(above / (c.L1 * (total + 8 * c.sigma2)) if above > 0 else None)
    assert one.eta_steps == pytest.approx(expected)
    assert len(one.eta_steps) == 8
    found = [bound for bound in one.eta_steps if bound is not None]
    assert found == sorted(found)
    assert one.eta_corollary1 == one.eta_steps[0]
    assert len(advise(played, [0], 5, 1.0)[0].eta_steps) == 5


def test_incomplete_batches_that_are_dropped_are_no_iterations():
    experiment = Toy("fedproto").build(rounds=1, batch_size=5, drop_last=True)
    samples = len(experiment.data.train(0))
    assert trace(experiment, 0, 2).iterations == samples // 5 * experiment.task.epochs


def test_a_large_lambda_leaves_no_learning_rate():
    experiment = Toy("fedproto", {"lam": 50.0}).build(rounds=1, momentum=0.0, lr=0.001)
    experiment.play(None)
    one = advise(experiment, [0], 4, eps=0.5)[0]
    assert one.theorem2.eta_bound is None
    assert one.theorem2.lam_bound < 50
    assert one.theorem2.rounds is None


def test_other_methods_and_bad_targets_are_refused(played):
    other = Toy("local").build(rounds=1)
    with pytest.raises(ConfigError, match="theory is FedProto's"):
        advise(other, [0], 3, 1.0)
    with pytest.raises(ConfigError, match="eps must be a number greater than 0"):
        advise(played, [0], 3, 0.0)


def test_the_last_bound_names_its_step(played):
    """Rounds of E = 8 steps. Beside a client whose round is no longer than the trace: at most so many."""
    whole, short = advise(played, [0, 1], 8, 1.0), advise(played, [0, 1], 7, 1.0)
    assert heading_of_last(whole) == "last step"
    assert heading_of_last(short) == "last of 7 steps"
    assert heading_of_last([whole[0], short[0]]) == "last of at most 8 steps"


def test_the_command_says_that_these_are_estimates(tmp_path, capsys):
    run = str(tmp_path / "run")
    settings = ["--models", "mlp:dim=16", "--rounds", "2", "--clients", "6", "--lam", "0.01"]
    assert main(["run", "fedproto", "--out", run, "--quiet", "--engine", "sequential", *settings]) == 0
    assert main(["advise", run, "--clients", "2", "--steps", "3", "--eps", "5", "--every-step"]) == 0
    out = capsys.readouterr().out
    of_steps = [
        line.split("│")[1].strip() for line in out.splitlines() if line.count("│") == 4
    ]  # e', two clients
    assert of_steps == ["1/2", "1", "2"]
    text = " ".join(out.split())
    assert "last of 3 steps" in text
    assert "These are estimates" in text
    assert "at every local step (Eq. 16)" in text
    assert "mean squared gradient norm below" in text
    assert "The traces are shorter than a round" in text
    assert "rough guide" not in text
    assert (
        main(["run", "fedproto", "--preset", "official", "--out", run, "--force", "--quiet", *settings]) == 0
    )
    capsys.readouterr()
    assert main(["advise", run, "--clients", "1", "--steps", "3"]) == 0
    assert "level=sample, distance=mse: take its bounds as a rough guide" in " ".join(
        capsys.readouterr().out.split()
    )

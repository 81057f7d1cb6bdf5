"""Our steps against torch.optim, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from protofed.core import optim
from protofed.core.optim import Opt, StackedStepper, Stepper

NAMES = ("base.weight", "base.scale", "head.weight")
SHAPES: tuple[tuple[int, ...], ...] = ((4, 3), (), (2, 4))
STEPS = 7
Make = Callable[[list[Tensor]], torch.optim.Optimizer]


def start(seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]


def gradients(step: int, seed: int = 0) -> list[Tensor]:
    return start(1000 * seed + step + 1)


def ours(opts: dict[str, Opt], seed: int = 0) -> list[Tensor]:
    params, stepper = start(seed), Stepper(NAMES, opts)
    for step in range(STEPS):
        stepper.step(params, gradients(step, seed))
    return params


def theirs(make: Make, clip: float | None = None) -> list[Tensor]:
    params = [p.requires_grad_() for p in start()]
    optimiser = make(params)
    for step in range(STEPS):
        for p, grad in zip(params, gradients(step)):
            p.grad = grad
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(params, clip)
        optimiser.step()
    return [p.detach() for p in params]


def gap(one: list[Tensor], two: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, two))


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tensors each call of torch's fused step had."""
    calls: list[int] = []
    step = torch._fused_sgd_

    def counted(params: list[Tensor], *args: Any, **more: Any) -> None:
        calls.append(len(params))
        step(params, *args, **more)

    monkeypatch.setattr(torch, "_fused_sgd_", counted)
    return calls


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("large", [0, optim.LARGE], ids=["fused", "part by part"])
def test_sgd_equals_torch(
    momentum: float, decay: float, large: int, monkeypatch: pytest.MonkeyPatch, fused: list[int]
) -> None:
    monkeypatch.setattr(optim, "LARGE", large)
    make: Make = lambda p: torch.optim.SGD(p, 0.1, momentum=momentum, weight_decay=decay)  # noqa: E731
    assert gap(ours({"": Opt(0.1, momentum, decay)}), theirs(make)) < 1e-14
    assert bool(fused) == (large == 0 and bool(momentum or decay))


@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_layouts_that_differ_go_element_by_element(
    momentum: float, decay: float, monkeypatch: pytest.MonkeyPatch, fused: list[int]
) -> None:
    """A gradient in another order of memory than its parameter: the fused step, which walks through memory,
    is left out, and the numbers are those of equal layouts."""
    monkeypatch.setattr(optim, "LARGE", 0)
    alike, turned = start(), start()
    steppers = [Stepper(NAMES, {"": Opt(0.1, momentum, decay)}) for _ in range(2)]
    for step in range(STEPS):
        grads = gradients(step)
        steppers[0].step(alike, grads)
        assert len(fused) == step + 1
        steppers[1].step(turned, [g.t().contiguous().t() if g.ndim == 2 else g for g in grads])
        assert len(fused) == step + 1
    assert gap(alike, turned) < 1e-14


def test_what_lies_between_the_elements_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The left three of five columns are stepped; gradients lie alike, with gaps."""
    monkeypatch.setattr(optim, "LARGE", 0)
    whole, grads = torch.ones(4, 5), torch.ones(4, 5)
    Stepper(["w"], {"": Opt(0.1, 0.5)}).step([whole[:, :3]], [grads[:, :3]])
    assert torch.allclose(whole[:, :3], torch.tensor(0.9))
    assert bool((whole[:, 3:] == 1).all())


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_equals_torch(decay: float) -> None:
    make: Make = lambda p: torch.optim.Adam(p, 0.01, weight_decay=decay)  # noqa: E731
    assert gap(ours({"": Opt(0.01, weight_decay=decay, optimizer="adam")}), theirs(make)) < 1e-12


@pytest.mark.parametrize("clip", [0.3, 1e6])
def test_clipping_equals_torch(clip: float) -> None:
    make: Make = lambda p: torch.optim.SGD(p, 0.1, momentum=0.5, weight_decay=0.1)  # noqa: E731
    assert gap(ours({"": Opt(0.1, 0.5, 0.1, clip)}), theirs(make, clip)) < 1e-14


def test_the_first_steps_by_hand() -> None:
    """w=1, gradients 2 and 1, lr 0.1, momentum 0.5: v=2, w=0.8; v=0.5·2+1=2, w=0.6."""
    w, stepper = [torch.tensor([1.0], dtype=torch.float64)], Stepper(["w"], {"": Opt(0.1, 0.5)})
    seen = []
    for gradient in (2.0, 1.0):
        stepper.step(w, [torch.tensor([gradient], dtype=torch.float64)])
        seen.append(float(w[0]))
    assert seen == pytest.approx([0.8, 0.6], abs=1e-15)


def test_the_longest_prefix_decides() -> None:
    """lr 0.1 for the base, 1.0 for the head, one step without momentum: Δ = −lr·g."""
    opts = {"": Opt(5.0), "base.": Opt(0.1, 0), "head.": Opt(1.0, 0)}
    before, params = start(), start()
    Stepper(NAMES, opts).step(params, gradients(0))
    for name, old, new, grad in zip(NAMES, before, params, gradients(0)):
        lr = 0.1 if name.startswith("base.") else 1.0
        assert torch.allclose(old - new, lr * grad, atol=1e-15)


def test_each_optimiser_clips_its_own_parameters() -> None:
    """The head's gradient (norm 10) is cut to 1; the base's (norm 3) has no limit."""
    params = [torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)]
    stepper = Stepper(["base.w", "head.w"], {"base.": Opt(1.0, 0), "head.": Opt(1.0, 0, clip=1.0)})
    grads = [torch.tensor([3.0], dtype=torch.float64), torch.tensor([10.0], dtype=torch.float64)]
    stepper.step(params, grads)
    assert float(params[0]) == -3.0
    assert float(params[1]) == pytest.approx(-1.0, abs=1e-6)


def stacked(opt: Opt, turns: list[tuple[slice | Tensor, int]]) -> list[Tensor]:
    """Three clients at once. Each turn steps some rows of them, with the gradients of a step."""
    params = [torch.stack(tensors) for tensors in zip(*(start(seed) for seed in range(3)))]
    stepper = StackedStepper(NAMES, {"": opt}, params)
    for rows, step in turns:
        grads = [torch.stack(tensors) for tensors in zip(*(gradients(step, seed) for seed in range(3)))]
        some = [p[rows] for p in params]
        stepper.step_rows(some, [g[rows] for g in grads], rows)
        for p, changed in zip(params, some):
            p[rows] = changed
    return params


OPTS = [
    Opt(0.1, 0.9, 0.01),
    Opt(0.1, 0.5, clip=0.5),
    Opt(0.01, optimizer="adam"),
    Opt(0.01, optimizer="adam", clip=0.5),
]


@pytest.mark.parametrize("opt", OPTS)
def test_stacked_clients_equal_single_ones(opt: Opt) -> None:
    """Every client is clipped by its own norm."""
    params = stacked(opt, [(slice(None), step) for step in range(STEPS)])
    for client in range(3):
        assert gap([p[client] for p in params], ours({"": opt}, client)) < 1e-14


@pytest.mark.parametrize("opt", OPTS)
def test_stacked_clients_may_step_in_turns(opt: Opt) -> None:
    """Client 1 steps apart from 0 and 2: slices and row numbers address the same memory."""
    turns: list[tuple[slice | Tensor, int]] = []
    for step in range(STEPS):
        turns += [(torch.tensor([0, 2]), step), (slice(1, 2), step)]
    params = stacked(opt, turns)
    for client in range(3):
        assert gap([p[client] for p in params], ours({"": opt}, client)) < 1e-14


def test_a_parameter_without_gradient_stays_and_joins_later() -> None:
    """As torch does it: no weight decay, no momentum, until the first gradient comes."""
    params, stepper = start(), Stepper(NAMES, {"": Opt(0.1, 0.9, 0.1)})
    reference = [p.requires_grad_() for p in start()]
    optimiser = torch.optim.SGD(reference, 0.1, momentum=0.9, weight_decay=0.1)
    for step in range(4):
        grads: list[Tensor | None] = list(gradients(step))
        if step < 2:
            grads[0] = None
        stepper.step(params, grads)
        for p, grad in zip(reference, grads):
            p.grad = grad
        optimiser.step()
        if step == 1:
            assert torch.equal(params[0], start()[0])
    assert gap(params, [p.detach() for p in reference]) < 1e-14


def test_scaled_changes_the_learning_rate_alone() -> None:
    assert Opt(0.2, 0.9, 0.1, 3.0).scaled(0.5) == Opt(0.1, 0.9, 0.1, 3.0)

"""`python -m benchmarks.step_pieces`: two pieces of a local step beside the plain way, in alternated turns.

The fused SGD step against one operation over all tensors for each part of it (decay, momentum, addition), and
a step of ResNet10 on 32×32 images whose last layers train as matrix products against one that convolves.
Least of the turns, one thread; only the ratios say something about another machine.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protofed.core.optim import Opt, Stepper
from protofed.core.rng import torch_generator
from protofed.models import read_family
from protofed.models.conv import Conv2d

SIZES = ((8, 2_750, "fp_cnn"), (20, 245_000, "resnet10"))
OPTS = (Opt(0.01, 0.5), Opt(0.01, 0.9, 1e-5))
BATCH, SHAPE = 32, (3, 32, 32)


def seconds(turns: int, count: int, *ways: Callable[[], object]) -> list[float]:
    """The least seconds of one call, for each way; they take turns, `count` calls each."""
    least = [float("inf")] * len(ways)
    for _ in range(turns):
        for k, way in enumerate(ways):
            start = time.perf_counter()
            for _ in range(count):
                way()
            least[k] = min(least[k], (time.perf_counter() - start) / count)
    return least


@torch.no_grad()
def part_by_part(params: list[Tensor], grads: list[Tensor], velocity: list[Tensor], opt: Opt) -> None:
    """SGD as one operation over all tensors for each part of it."""
    if opt.weight_decay:
        grads = list(torch._foreach_add(grads, params, alpha=opt.weight_decay))
    torch._foreach_mul_(velocity, opt.momentum)
    torch._foreach_add_(velocity, grads)
    torch._foreach_add_(params, velocity, alpha=-opt.lr)


def sgd(turns: int) -> Iterator[str]:
    """Lines of the first table."""
    yield "SGD, ms a step (part by part, ours, ratio)"
    for (count, size, name), opt in itertools.product(SIZES, OPTS):
        generator = torch_generator(0, "step pieces")
        params = [torch.randn(size, generator=generator) for _ in range(count)]
        grads = [torch.randn(size, generator=generator) for _ in range(count)]
        velocity = [torch.zeros(size) for _ in range(count)]
        stepper = Stepper([str(i) for i in range(count)], {"": opt})
        ways = (partial(part_by_part, params, grads, velocity, opt), partial(stepper.step, params, grads))
        plain, ours = seconds(turns, max(10, 4_000_000 // (count * size)), *ways)
        setting = f"{count * size:,} parameters ({name}), momentum {opt.momentum}, decay {opt.weight_decay:g}"
        yield f"  {setting}: {plain * 1e3:.3f} {ours * 1e3:.3f} {plain / ours:.2f}"


def last_layers(turns: int) -> Iterator[str]:
    """Lines of the second table."""
    ours, convolving = (task_model() for _ in range(2))
    for layer in list(convolving.modules()):
        if isinstance(layer, Conv2d):
            setattr(layer, "forward", partial(nn.Conv2d.forward, layer))  # noqa: B010
    generator = torch_generator(0, "step pieces")
    x = torch.randn(BATCH, *SHAPE, generator=generator).contiguous(memory_format=torch.channels_last)
    y = torch.randint(10, (BATCH,), generator=generator)

    def step(model: nn.Module) -> None:
        torch.autograd.grad(F.cross_entropy(model(x)[1], y), list(model.parameters()))

    plain, product = seconds(turns, 10, partial(step, convolving), partial(step, ours))
    yield "ResNet10, 32×32 images, forward and backward of one batch, ms (convolving, as products, ratio)"
    yield f"  {plain * 1e3:.1f} {product * 1e3:.1f} {plain / product:.2f}"


def task_model() -> nn.Module:
    """ResNet10 in the order of memory that runs give it."""
    model = read_family("resnet10_plcc").build(SHAPE, 10)
    return model.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_pieces", description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="turns of each way (default: 7)")
    torch.set_num_threads(1)
    turns = parser.parse_args(argv).turns
    for line in itertools.chain(sgd(turns), last_layers(turns)):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

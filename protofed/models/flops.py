"""Cost of a model: multiply-adds of one forward pass, and parameters.

Convention: one multiply-add (MAC) of a convolution or matrix product counts 1, as in most papers;
torch's own counter counts 2. Activations, pooling and additions are not counted; normalisation only
on request, then with 2 per output (`norms=True`), as a widespread counting tool does.

FedTGP's Table 8 (`FEDTGP_TABLE_8`) does not hold the networks that FedTGP trains. Its figures are
quoted from other works, as its column of references says, and differ in what they count:

    network       printed  trained, 32×32  what gives the printed figure
    4-layer CNN   0.013    0.0079          not found (2 per multiply-add gives 0.0157)
    GoogLeNet     1.530    0.0306          3×3 stem of stride 1, two 3×3 for each 5×5: 1.522, 1.527 with norms
    MobileNetV2   0.314    0.0062          224×224 and 1000 classes, norms: 0.3141
    ResNet18      0.117    0.0371          not found
    ResNet34      0.218    0.0748          not found
    ResNet50      1.305    0.0835          3×3 stem of stride 1 without pooling, norms: 1.3049
    ResNet101     2.532    0.1592          the same gives 2.520
    ResNet152     5.330    0.2350          not found (the same gives 3.737)

Where the source is known they are multiply-adds, not twice that. Table 12 is made of them, so its check
needs them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.flop_counter import FlopCounterMode

from .probe import check_model, count_parameters, zeros_for

FEDTGP_TABLE_8: dict[str, float] = {  # 10⁹ multiply-adds as printed, by written form
    "cnn4": 0.013,
    "googlenet": 1.530,
    "mobilenet_v2": 0.314,
    "resnet:18": 0.117,
    "resnet:34": 0.218,
    "resnet:50": 1.305,
    "resnet:101": 2.532,
    "resnet:152": 5.330,
}


@dataclass(frozen=True)
class Cost:
    """Size and cost of one model."""

    embedding: int
    parameters: int
    base: int  # parameters whose names start with "base."
    head: int
    multiply_adds: int  # forward pass of one sample


def cost_of(module: nn.Module, shape: tuple[int, ...], num_classes: int, who: str = "") -> Cost:
    """Measure a module, which may be on the meta device."""
    return Cost(
        embedding=check_model(module, shape, num_classes, who or type(module).__name__),
        parameters=count_parameters(module),
        base=count_parameters(module, "base."),
        head=count_parameters(module, "head."),
        multiply_adds=multiply_adds(module, shape),
    )


def multiply_adds(module: nn.Module, shape: tuple[int, ...], norms: bool = False) -> int:
    """Multiply-adds of a forward pass of one sample in eval mode."""
    x = zeros_for(module, 1, shape)
    counter = FlopCounterMode(display=False)
    training = module.training
    module.eval()
    try:
        with torch.no_grad(), counter, _norm_outputs(module) as outputs:
            module(x)
    finally:
        module.train(training)
    return counter.get_total_flops() // 2 + (2 * sum(outputs) if norms else 0)


@contextmanager
def _norm_outputs(module: nn.Module) -> Iterator[list[int]]:
    """Collects the sizes of the outputs of all batch normalisations."""
    sizes: list[int] = []

    def note(layer: nn.Module, args: object, out: Tensor) -> None:
        sizes.append(out.numel())

    hooks = [m.register_forward_hook(note) for m in module.modules() if isinstance(m, _BatchNorm)]
    try:
        yield sizes
    finally:
        for hook in hooks:
            hook.remove()

"""Families run for several clients at once: stacked tensors give what single clients give."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from protofed.models import read_family

SPECS = {
    "fp_cnn": (1, 28, 28),
    "small_cnn": (1, 8, 8),
    "mlp": (6,),
    "mlp:norm=layer": (6,),
    "linear": (6,),
    "resmlp": (6,),
    "cnn1d": (3, 20),
    "lstm": (3, 9),
    "cnn4:dim=64": (3, 32, 32),
    "htcnn:2,head=128": (1, 28, 28),
    "resnet:4": (3, 32, 32),
    "resnet10_plcc": (3, 32, 32),
    "margin_cnn": (1, 28, 28),
    "efficientnet_lite:size=32,pretrained=false": (1, 28, 28),
    "timm:resnet10t": (3, 32, 32),
}


@pytest.mark.skipif(find_spec("timm") is None, reason="needs protofed[dev]")
@pytest.mark.parametrize("spec", SPECS)
def test_stacked_clients_agree_with_single_ones(spec: str) -> None:
    shape = SPECS[spec]
    clients = [read_family(spec).build(shape, 3).double().eval() for _ in range(2)]
    parameters, buffers = stack_module_state(clients)  # type: ignore[arg-type]
    x = torch.randn(2, 4, *shape, dtype=torch.float64)

    def run(params: dict[str, Tensor], held: dict[str, Tensor], one: Tensor) -> tuple[Tensor, Tensor]:
        return functional_call(clients[0], (params, held), (one,))  # type: ignore[no-any-return]

    with torch.no_grad():
        z, logits = vmap(run)(parameters, buffers, x)
        for k, client in enumerate(clients):
            torch.testing.assert_close((z[k], logits[k]), client(x[k]))

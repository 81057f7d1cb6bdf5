"""Published costs that need no training, computed from our models and message formats.

- Parameters sent in a round: FedProto's tables (one direction, 20 clients with 4 classes each) and
  FedTGP's Table 5 (both directions, Cifar100, HtFE8).
- Multiply-adds of FedTGP's Tables 8 and 12, and the layers of its Table 9.

Table 5 depends on how many classes the clients of the authors' split hold together; 890 is what its
figures for FedDistill and FedProto give (ours, Dirichlet 0.1 of Cifar100's labels: 820 to 871). FedKD
sends the share r of FML's numbers; r comes from training, so that cell stays empty here.

Table 8 holds figures from other works, not of the networks that FedTGP trains; see `models.flops`. So there
are two columns: the trained networks, and the network that gives the printed figure where it is known.
Table 12 is made of Table 8, with factor 4 though the text says 3. FedGen adds one pass of the frozen
generator and the head on what it makes; FML and FedKD add the auxiliary CNN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ..models.describe import build_for_counting
from ..models.flops import FEDTGP_TABLE_8, multiply_adds
from ..models.groups import assign
from ..models.probe import count_parameters
from ..models.residual import Bottleneck, residual_trunk
from ..models.written import read_family
from ..ops.generator import Generator

Values = dict[tuple[str, str], float]  # (row, column) → number

CLIENTS, EMBEDDING, CIFAR100 = 20, 512, 100
CLASSES_HELD = 890  # Σ C_i over the clients of FedTGP's Cifar100 split
NOISE = 32  # of FedGen's generator
TRAINING_FACTOR = 4  # forward passes that FedTGP counts for a training step

PRINTED_AS = {  # rows of Tables 8: name as printed → written form
    "4-layer CNN": "cnn4",
    "GoogLeNet": "googlenet",
    "MobileNetV2": "mobilenet_v2",
    "ResNet18": "resnet:18",
    "ResNet34": "resnet:34",
    "ResNet50": "resnet:50",
    "ResNet101": "resnet:101",
    "ResNet152": "resnet:152",
}


# parameters


def fedproto_parameters() -> Values:
    """Thousands of parameters a round, one direction, all clients (Tables 1 to 4 of FedProto)."""
    models = {
        "MNIST": ("fp_cnn", (1, 28, 28), 10, 50),
        "FEMNIST": ("fp_cnn:kernel=3", (1, 128, 128), 62, 50),
        "CIFAR10": ("fp_resnet18", (3, 32, 32), 10, 512),
    }
    found: Values = {}
    for column, (spec, shape, classes, dim) in models.items():
        model = _model(spec, shape, classes)
        whole = count_parameters(model)
        shared = count_parameters(model, "base.conv." if spec.startswith("fp_cnn") else "base.")
        each = {"Local": 0, "FeSEM": whole, "FedProx": whole, "FedPer": shared, "FedAvg": whole}
        each |= {"FedRep": shared, "FedProto": 4 * dim, "FedProto-mh": 4 * dim}
        found |= {(row, column): CLIENTS * sent / 1e3 for row, sent in each.items()}
    return found


def fedtgp_communication() -> Values:
    """Millions of parameters an iteration, both directions, all clients (Table 5 of FedTGP)."""
    auxiliary = _model("cnn4", (3, 32, 32), CIFAR100)  # the smallest of HtFE8; all its heads are alike
    head = count_parameters(auxiliary, "head.")
    generator = count_parameters(_generator())
    rows_exchanged = CLASSES_HELD + CLIENTS * CIFAR100  # own classes up, all classes down
    sent = {
        "LG-FedAvg": CLIENTS * 2 * head,
        "FedGen": CLIENTS * (2 * head + generator),
        "FML": CLIENTS * 2 * count_parameters(auxiliary),
        "FedDistill": CIFAR100 * rows_exchanged,
        "FedProto": EMBEDDING * rows_exchanged,
        "FedTGP": EMBEDDING * rows_exchanged,
    }
    return {(row, "params_M"): number / 1e6 for row, number in sent.items()}


def htcnn_layers() -> Values:
    """Layers and parameters of the bases of HtCNN1 to 8 (Table 9 of FedTGP)."""
    found: Values = {}
    for i in range(1, 9):
        model = _model(f"htcnn:{i}", (1, 28, 28), 10)
        base = model.get_submodule("base")
        for column, kind in (("convolutions", nn.Conv2d), ("linear layers", nn.Linear)):
            found[f"HtCNN{i}", column] = sum(isinstance(layer, kind) for layer in base.modules())
        found[f"HtCNN{i}", "base parameters"] = count_parameters(base)
    return found


# multiply-adds


def forward_costs() -> Values:
    """10⁹ multiply-adds of a forward pass (Table 8 of FedTGP)."""
    found = {(row, "trained, 32×32"): trained_cost(spec) for row, spec in PRINTED_AS.items()}
    return {**found, **{(row, "as printed"): cost for row, cost in _explained().items()}}


def trained_cost(spec: str) -> float:
    """10⁹ multiply-adds of a forward pass of the network as we train it, on 32×32 images."""
    return multiply_adds(_model(spec, (3, 32, 32), CIFAR100), (3, 32, 32)) / 1e9


def _explained() -> dict[str, float]:
    """Networks whose cost, with normalisation, is the printed figure."""
    with torch.device("meta"):
        stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        trunk = residual_trunk(Bottleneck, (3, 4, 6, 3), stem, None)
        resnet = nn.Sequential(*trunk.values(), nn.Linear(2048, CIFAR100))
    mobile = _model("mobilenet_v2:dim=1280", (3, 224, 224), 1000)
    return {
        "ResNet50": multiply_adds(resnet, (3, 32, 32), norms=True) / 1e9,
        "MobileNetV2": multiply_adds(mobile, (3, 224, 224), norms=True) / 1e9,
    }


def training_costs() -> Values:
    """10⁹ multiply-adds of all clients, one sample each (Table 12 of FedTGP)."""
    group = assign("htfe8", CLIENTS, (3, 32, 32), CIFAR100)
    models = TRAINING_FACTOR * sum(FEDTGP_TABLE_8[group.specs[g]] for g in group.of)
    auxiliary = TRAINING_FACTOR * CLIENTS * FEDTGP_TABLE_8["cnn4"]
    pass_ = (NOISE + CIFAR100) * EMBEDDING + EMBEDDING * EMBEDDING
    generated = CLIENTS * (pass_ + TRAINING_FACTOR * EMBEDDING * CIFAR100) / 1e9
    each = dict.fromkeys(("LG-FedAvg", "FedDistill", "FedProto", "FedTGP"), models)
    each |= {"FedGen": models + generated, "FML": models + auxiliary, "FedKD": models + auxiliary}
    return {(row, "10⁹ multiply-adds"): value for row, value in each.items()}


def _model(spec: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    return build_for_counting(lambda: read_family(spec).build(shape, classes))


def _generator() -> nn.Module:
    return build_for_counting(lambda: Generator(NOISE, CIFAR100, EMBEDDING, EMBEDDING))


COSTS: dict[str, Callable[[], Values]] = {
    "fedproto_parameters": fedproto_parameters,
    "fedtgp_communication": fedtgp_communication,
    "htcnn_layers": htcnn_layers,
    "forward_costs": forward_costs,
    "training_costs": training_costs,
}

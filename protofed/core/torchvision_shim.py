"""Import torchvision even where its compiled operators do not load.

Wheels of torch and torchvision from different sources may not fit together: torchvision's Python
part then stops at "operator torchvision::nms does not exist". The architectures need none of its
operators, so declaring the two names that the import asks for is enough. Where torchvision is
whole, nothing is declared.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

from .errors import ConfigError

_OPERATORS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_kept_alive: list[torch.library.Library] = []  # declarations vanish with their Library


def import_torchvision() -> ModuleType:
    """The torchvision package, or ConfigError with the remedy."""
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        if error.name != "torchvision":
            raise
        raise ConfigError(
            "this model needs torchvision, which is not installed: pip install 'protofed[vision]'"
        ) from error
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    _declare_operators()
    return importlib.import_module("torchvision")


def _declare_operators() -> None:
    for name in [m for m in sys.modules if m.split(".")[0] == "torchvision"]:
        del sys.modules[name]  # parts of the failed import
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, schema in _OPERATORS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)  # type: ignore[no-untyped-call]
    _kept_alive.append(library)

"""Starting weights from a local file: safetensors, or a torch state dict read with weights_only."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..core.bounded_files import check_archive, opening
from ..core.errors import ConfigError


def load_weights(module: nn.Module, path: str, who: str, skip: tuple[str, ...] = ()) -> None:
    """Fill `module` from a file. Entries whose names start with one of `skip` keep their random start.

    Every other tensor of the module must be in the file, with its shape; the file may hold no more.
    """
    where = f"model {who}: weights {path!r}"
    state = {k: v for k, v in read_state(path, where).items() if not k.startswith(skip or ("\0",))}
    wanted = {k: v for k, v in module.state_dict().items() if not k.startswith(skip or ("\0",))}
    # Files from before torch 1.0 lack these counters.
    missing = [k for k in wanted if k not in state and not k.endswith("num_batches_tracked")]
    surplus = sorted(k for k in state if k not in wanted)
    if missing:
        raise ConfigError(f"{where} lack {_some(missing)}; is it a file for this architecture?")
    if surplus:
        raise ConfigError(f"{where} hold {_some(surplus)}, which the model does not have")
    for name, tensor in state.items():
        if tensor.shape != wanted[name].shape:
            raise ConfigError(
                f"{where}: {name} has shape {list(tensor.shape)}, the model needs {list(wanted[name].shape)}"
            )
    if not any(tensor.is_meta for tensor in wanted.values()):  # a module for counting holds no values
        module.load_state_dict(state, strict=False)


def read_state(path: str, where: str) -> dict[str, Tensor]:
    """Names and tensors of a file; a wrapping "state_dict" and the prefix "module." are removed."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"{where}: no such file")
    with opening(where, "safetensors or a plain torch state dict without other objects", ConfigError):
        if file.suffix == ".safetensors":
            state: Any = load_file(file)
        else:
            if zipfile.is_zipfile(file):
                check_archive(file, ConfigError)
            state = torch.load(file, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    named = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not named or not all(isinstance(v, Tensor) for v in state.values()):
        raise ConfigError(f"{where}: expected a state dict of tensors, got a {type(state).__name__}")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more tensors"

"""Named tensors as the bytes of a safetensors file, and back."""

from __future__ import annotations

from collections.abc import Mapping

import safetensors.torch
from torch import Tensor

from .record import Tree


def to_bytes(arrays: Mapping[str, Tensor]) -> bytes:
    """The content of a safetensors file."""
    return safetensors.torch.save(plain(arrays))


def of_bytes(data: bytes) -> Tree:
    """Inverse of `to_bytes`; SafetensorError if the bytes are no such file."""
    return dict(safetensors.torch.load(data))


def plain(arrays: Mapping[str, Tensor]) -> Tree:
    """Contiguous on the CPU, no two in the same memory: as safetensors takes them."""
    found: Tree = {}
    taken: set[int] = set()
    for name, tensor in arrays.items():
        one = tensor.detach().contiguous().cpu()
        memory = one.untyped_storage().data_ptr()
        found[name] = one.clone() if memory in taken and one.numel() else one
        taken.add(memory)
    return found

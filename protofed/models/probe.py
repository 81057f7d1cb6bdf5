"""Checks of a built module before training: what forward returns, and how large it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import ConfigError


def check_model(module: nn.Module, shape: tuple[int, ...], num_classes: int, who: str) -> int:
    """The size D of the embedding, after one forward pass of two samples in eval mode.

    Embedding [B, D] with logits [B, C], or maps of both: [B, D, h, w] with [B, C, H, W].
    """
    embedding, logits = _outputs(try_forward(module, shape, who), who)
    if embedding.dim() not in (2, 4) or len(embedding) != 2:
        raise ConfigError(
            f"model {who}: expected an embedding of shape [B, D] (or [B, D, h, w]), got "
            f"{list(embedding.shape)} for B=2"
        )
    if logits.dim() != embedding.dim() or tuple(logits.shape[:2]) != (2, num_classes):
        wanted = [2, num_classes] if embedding.dim() == 2 else [2, num_classes, "H", "W"]
        raise ConfigError(
            f"model {who}: expected logits of shape {wanted} for B=2 and C={num_classes} beside the "
            f"embedding {list(embedding.shape)}, got {list(logits.shape)}"
        )
    return embedding.shape[1]


def count_parameters(module: nn.Module, prefix: str = "") -> int:
    """Number of floats in the parameters whose names start with `prefix`."""
    return sum(p.numel() for name, p in module.named_parameters() if name.startswith(prefix))


def try_forward(module: nn.Module, shape: tuple[int, ...], who: str) -> Any:
    """One pass that leaves train mode and the random state as they were."""
    modes = [(m, m.training) for m in module.modules()]
    parameter = next(module.parameters(), torch.empty(0))
    x = torch.zeros(2, *shape, dtype=parameter.dtype, device=parameter.device)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return module.eval()(x)
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"model {who}: forward fails for an input of shape {list(x.shape)}: {reason}"
        ) from error
    finally:
        for m, training in modes:
            m.training = training


def _outputs(out: Any, who: str) -> tuple[Tensor, Tensor]:
    pair = isinstance(out, tuple | list) and len(out) == 2
    if pair and all(isinstance(part, Tensor) for part in out):
        return out[0], out[1]
    got = f"a tensor of shape {list(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
    if isinstance(out, tuple | list):
        got += f" of {len(out)} items ({', '.join(type(part).__name__ for part in out)})"
    raise ConfigError(f"model {who}: forward must return (embedding, logits), two tensors; got {got}")

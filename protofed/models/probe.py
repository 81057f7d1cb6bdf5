"""Checks of a built module before training: what forward returns, and whether it can be trained."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..core.errors import ConfigError
from ..core.user_files import caller_line, reason

log = logging.getLogger("protofed")
Inputs = tuple[int, ...] | Tensor  # the shape of one input, or two inputs


def check_model(module: nn.Module, inputs: Inputs, num_classes: int, who: str) -> int:
    """The size D of the embedding, after one forward pass of two samples in eval mode.

    Embedding [B, D] with logits [B, C], or maps of both: [B, D, h, w] with [B, C, H, W].
    """
    embedding, logits = outputs(module, inputs, who)
    if embedding.dim() not in (2, 4) or len(embedding) != 2:
        raise ConfigError(
            f"model {who}: expected an embedding of shape [B, D] (or [B, D, h, w]), got "
            f"{list(embedding.shape)} for B=2"
        )
    if logits.dim() != embedding.dim() or tuple(logits.shape[:2]) != (2, num_classes):
        if logits.dim() > 1 and embedding.shape[1] == num_classes != logits.shape[1]:
            raise swapped(embedding, logits, who)
        wanted = [2, num_classes] if embedding.dim() == 2 else [2, num_classes, "H", "W"]
        raise ConfigError(
            f"model {who}: expected logits of shape {wanted} for B=2 and C={num_classes} beside the "
            f"embedding {list(embedding.shape)}, got {list(logits.shape)}"
        )
    _check_shaped(module, who)
    _check_gradients(module, embedding, logits, who)
    return embedding.shape[1]


def swapped(first: Tensor, second: Tensor, who: str) -> ConfigError:
    """The error for outputs that look like (logits, embedding)."""
    return ConfigError(
        f"model {who}: forward seems to return (logits, embedding): the first output has {first.shape[1]} "
        f"columns, as many as there are classes, the second {second.shape[1]}; return (embedding, logits)"
    )


def count_parameters(module: nn.Module, prefix: str = "") -> int:
    """Number of floats in the parameters whose names start with `prefix`."""
    return sum(p.numel() for name, p in module.named_parameters() if name.startswith(prefix))


def outputs(module: nn.Module, inputs: Inputs, who: str) -> tuple[Tensor, Tensor]:
    """Embedding and logits of one pass; an error if forward returns anything else."""
    out = try_forward(module, inputs, who)
    pair = isinstance(out, tuple | list) and len(out) == 2
    if pair and all(isinstance(part, Tensor) for part in out):
        return out[0], out[1]
    got = f"a tensor of shape {list(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
    if isinstance(out, tuple | list):
        got += f" of {len(out)} items ({', '.join(type(part).__name__ for part in out)})"
    raise ConfigError(f"model {who}: forward must return (embedding, logits), two tensors; got {got}")


def try_forward(module: nn.Module, inputs: Inputs, who: str) -> Any:
    """One pass in eval mode, with gradients, that leaves train mode and the random state as they were."""
    modes = [(m, m.training) for m in module.modules()]
    x = _example(module, inputs)
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            return module.eval()(x)
    except Exception as error:  # whatever the user's forward raises
        line = caller_line(error)
        whole = not x.is_floating_point()
        raise ConfigError(
            f"model {who}: forward fails for an input of shape {list(x.shape)}: {reason(error)}"
            + (f" ({line})" if line else "")
            + (
                "; the inputs are whole numbers and stay so, for embeddings of tokens: else give x.float()"
                if whole
                else ""
            )
        ) from error
    finally:
        for m, training in modes:
            m.training = training


def check_mixed_convolutions(module: nn.Module, inputs: Inputs, who: str) -> None:
    """Refuse convolutions some of whose weights meet nothing but padding. In bfloat16, torch's kernels for
    CPUs (oneDNN) leave the gradients of many such weights as memory happened to be."""
    found: list[str] = []

    def look(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        if isinstance(layer, _CONVOLUTIONS) and any(
            _meets_padding_alone(layer, axis, size) for axis, size in enumerate(args[0].shape[2:])
        ):
            kernel, image = ("×".join(map(str, sizes)) for sizes in (layer.kernel_size, args[0].shape[2:]))
            found.append(f"a kernel of {kernel} on inputs of {image}")

    hooks = [layer.register_forward_pre_hook(look) for layer in module.modules()]
    try:
        try_forward(module, inputs, who)
    finally:
        for hook in hooks:
            hook.remove()
    if found:
        raise ConfigError(
            f"dtype bf16-mixed: model {who} has {found[0]}, some of whose weights meet nothing but padding; "
            "their gradients in bfloat16 may be undefined on CPUs: use float32, or larger inputs"
        )


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def _meets_padding_alone(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, axis: int, size: int) -> bool:
    """Whether some weight along an axis of so many inputs is never multiplied by one of them."""
    kernel, stride, apart = layer.kernel_size[axis], layer.stride[axis], layer.dilation[axis]
    reach = apart * (kernel - 1)
    before = after = 0
    if layer.padding == "same":
        before, after = reach // 2, reach - reach // 2
    elif not isinstance(layer.padding, str):
        before = after = layer.padding[axis]
    places = range(0, size + before + after - reach, stride)
    return any(
        all(not 0 <= place - before + apart * weight < size for place in places) for weight in range(kernel)
    )


def _example(module: nn.Module, inputs: Inputs) -> Tensor:
    """Two inputs, where the module's parameters are and in their precision."""
    parameter = next(module.parameters(), torch.empty(0))
    if not isinstance(inputs, Tensor):
        return zeros_for(module, 2, inputs)
    return inputs.to(parameter.device, parameter.dtype if inputs.is_floating_point() else inputs.dtype)


def zeros_for(module: nn.Module, count: int, shape: tuple[int, ...]) -> Tensor:
    """So many inputs of zeros; whole numbers for a module that takes tokens."""
    parameter = next(module.parameters(), torch.empty(0))
    whole = any(getattr(part, "whole_inputs", False) for part in module.modules())
    dtype = torch.int64 if whole else parameter.dtype
    return torch.zeros(count, *shape, dtype=dtype, device=parameter.device)


def _check_shaped(module: nn.Module, who: str) -> None:
    lazy = [name for name, parameter in module.named_parameters() if is_lazy(parameter)]
    if lazy:
        raise ConfigError(
            f"model {who}: {lazy[0]!r} belongs to a lazy layer that forward does not use, and so never gets "
            "a shape; remove it, or use it"
        )


def _check_gradients(module: nn.Module, embedding: Tensor, logits: Tensor, who: str) -> None:
    """Training reaches parameters through both outputs, where there is something to train."""
    trainable = [p.requires_grad for p in module.parameters()]
    if any(trainable) and not logits.requires_grad:
        raise ConfigError(
            f"model {who}: no gradient reaches any parameter: forward detaches its logits (detach, "
            "torch.no_grad, .data, NumPy); return them as they are computed"
        )
    base = getattr(module, "base", None)
    in_base = isinstance(base, nn.Module) and any(p.requires_grad for p in base.parameters())
    if logits.requires_grad and not embedding.requires_grad and in_base:
        raise ConfigError(
            f"model {who}: no gradient reaches the base through the embedding: forward detaches it, and "
            "terms on embeddings or prototypes would change nothing; return it as it is computed"
        )
    if not embedding.requires_grad and not isinstance(base, nn.Module) and trainable and all(trainable):
        log.warning(
            "model %s: no gradient reaches any parameter through the embedding: terms on embeddings or "
            "prototypes change nothing in it",
            who,
        )

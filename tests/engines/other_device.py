"""A device that is not there: tensors that say they are elsewhere, and refuse to be mixed with others.

torch's own fake tensors hold no numbers, so code that looks at values (which rows a class has, the order of
uploads) cannot run on them; and a build for CPUs alone moves nothing to "cuda". Here every tensor of the
other device wraps a real one of the CPU. Operations run on what is wrapped, give the same numbers, and fail
where both kinds meet, as on a real accelerator; numbers without axes may be mixed, as there. The device is
called "meta" because that is the one other name to which every build of torch can move tensors.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

THERE = torch.device("meta")
_MOVES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class MixedDevices(RuntimeError):
    """An operation on tensors of both devices."""


class _There(Tensor):
    """A tensor of the other device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> _There:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=THERE,
        )
        made.inner = inner
        return made  # type: ignore[no-any-return]

    def __repr__(self, **_: Any) -> str:
        return f"elsewhere: {self.inner}"

    def tolist(self) -> Any:
        """Reading numbers back is what devices allow."""
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """Tensors made of Python numbers are made here and moved: a meta tensor would lose them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.new_tensor:
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            func, args = torch.tensor, args[1:]
        if func in (torch.tensor, torch.as_tensor):
            device = kwargs.pop("device", None)
            made = func(*args, **kwargs)
            return made if device is None else made.to(device)
        return func(*args, **kwargs)


class OtherAutocast(TorchFunctionMode):
    """What torch's autocast does, for a device for which torch has none: products and convolutions of float32
    are made in bfloat16. BatchNorm gets float32, as it does from products under vmap."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _PRODUCTS:
            args, kwargs = tree_map(_halved, (args, kwargs or {}))
        elif func in (F.batch_norm, torch.batch_norm):
            args = (args[0].float(), *args[1:])
        return func(*args, **(kwargs or {}))


_PRODUCTS = (F.linear, F.conv1d, F.conv2d, torch.conv2d, torch.bmm, torch.baddbmm, torch.matmul, torch.mm)


def _halved(value: Any) -> Any:
    return value.to(torch.bfloat16) if isinstance(value, Tensor) and value.dtype == torch.float32 else value


class OtherDevice(TorchDispatchMode):
    """While it holds, tensors can be made on THERE and moved there and back."""

    def __enter__(self) -> Self:
        self.numbers = _FromNumbers()
        self.numbers.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.numbers.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, _There) else value


def _call(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, _There)]
    mixed = [tuple(t.shape) for t in tensors if not isinstance(t, _There) and t.ndim]
    if there and mixed and func not in _MOVES:
        raise MixedDevices(f"{func}: of both devices; on the CPU: {mixed}")
    asked = kwargs.get("device")
    plain = {**kwargs, "device": torch.device("cpu")} if asked is not None else kwargs
    out = func(*tree_map(_inner, args), **tree_map(_inner, plain))
    if func.__name__.split(".")[0].endswith("_") and isinstance(args[0], Tensor):
        return args[0]  # changed in place
    goes = torch.device(asked) == THERE if asked is not None else bool(there)
    return tree_map(lambda leaf: _There(leaf) if goes and isinstance(leaf, Tensor) else leaf, out)

"""A client's model as a file for other programs, with a model card beside it.

safetensors     the weights by name
onnx            the whole network, for ONNX Runtime and others
torch-export    the whole network, for torch.export.load

All three carry the same metadata, as JSON texts: `classes`, `prototypes` (rows) and `prototype_classes` where
the run has global prototypes, `inputs` (how raw samples become inputs), `outputs`, `method` and `protofed`.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch
from torch import nn

from ..core.errors import ConfigError, RunError, unknown
from ..core.tensor_file import plain
from ..core.user_files import reason
from ..core.version import VERSION
from ..data.inputs import WHOLE
from .card import write_card
from .trained import Trained

OUTPUTS = ("embedding", "logits")
Writer = Callable[[nn.Module, torch.Tensor, dict[str, str], Path], None]


def export_model(
    trained: Trained, format: str, out: str | Path, client: int | str | None = None
) -> tuple[Path, Path]:
    """Write a client's model and its card; both are there afterwards, or neither."""
    if format not in FORMATS:
        raise ConfigError(f"format: {unknown('format', format, FORMATS)}")
    target = Path(out).absolute()
    if not target.parent.is_dir():
        raise ConfigError(f"--out: {target.parent} is not a folder")
    if target.suffix == ".md":
        raise ConfigError(f"--out: {target.name} is the name of a model card; the model needs another ending")
    card = target.with_suffix(".md")
    module, rule = trained.model(client), trained.rule(client)
    dtype = torch.int64 if rule.dtype == WHOLE else next(module.parameters(), torch.empty(0)).dtype
    example = torch.zeros(2, *rule.shape, dtype=dtype)
    about = metadata(trained, client)
    try:
        with TemporaryDirectory(dir=target.parent, prefix=".export-") as folder:
            made = [Path(folder) / "model", Path(folder) / "card"]
            FORMATS[format](module, example, about, made[0])
            made[1].write_text(write_card(trained, client, format, target.name))
            for file, final in zip(made, (target, card)):
                os.replace(file, final)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror or error}") from error
    return target, card


def metadata(trained: Trained, client: int | str | None) -> dict[str, str]:
    """What a file says of the model in it."""
    about: dict[str, Any] = {
        "classes": trained.classes,
        "inputs": trained.rule(client).to_dict(),
        "outputs": OUTPUTS,
        "method": trained.outcome.config["method"],
        "protofed": VERSION,
    }
    with contextlib.suppress(ConfigError):  # a method without prototypes
        found = trained.prototypes()
        about |= {"prototypes": found.rows.tolist(), "prototype_classes": found.names}
    return {name: json.dumps(value) for name, value in about.items()}


def _safetensors(module: nn.Module, example: torch.Tensor, about: dict[str, str], path: Path) -> None:
    path.write_bytes(safetensors.torch.save(plain(module.state_dict()), about))


def _torch_export(module: nn.Module, example: torch.Tensor, about: dict[str, str], path: Path) -> None:
    with _tried("torch.export"):
        program = torch.export.export(module, (example,), dynamic_shapes=_any_batch(module))
        buffer = io.BytesIO()
        torch.export.save(program, buffer, extra_files={"metadata.json": json.dumps(about)})
    path.write_bytes(buffer.getvalue())


def _onnx(module: nn.Module, example: torch.Tensor, about: dict[str, str], path: Path) -> None:
    try:
        import onnx
        import onnxscript  # noqa: F401  # which torch.onnx needs
    except ImportError as error:
        raise ConfigError(f"format onnx needs onnx: pip install 'protofed[export]' ({error})") from error
    with _tried("ONNX"):
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            verbose=False,
            input_names=["x"],
            output_names=list(OUTPUTS),
            dynamic_shapes=_any_batch(module),
        )
        assert program is not None
        model = program.model_proto
        onnx.helper.set_model_props(model, about)
        onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def _any_batch(module: nn.Module) -> tuple[dict[int, Any]]:
    """Any number of samples at a time."""
    return ({0: torch.export.Dim("batch", min=1)},)


@contextlib.contextmanager
def _tried(what: str) -> Iterator[None]:
    """One line for a network that a format cannot express; its tool says nothing else."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            yield
    except ConfigError:
        raise
    except Exception as error:  # whatever the exporter raises
        raise RunError(
            f"{what} cannot express this model: {_short(error)}; --format safetensors always can"
        ) from error
    finally:
        logging.disable(before)


def _short(error: Exception) -> str:
    """The cause in a line: exporters wrap it in reports of many."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    first = next((line.strip() for line in reason(error).splitlines() if line.strip()), type(error).__name__)
    return first[:200]


FORMATS: dict[str, Writer] = {"safetensors": _safetensors, "onnx": _onnx, "torch-export": _torch_export}
SUFFIXES = {"safetensors": ".safetensors", "onnx": ".onnx", "torch-export": ".pt2"}

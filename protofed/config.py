"""The configuration of a run: frozen dataclasses whose fields are the options of `protofed run`.

A configuration is resolved once, from weakest to strongest: defaults, the method's preset, the recipe,
the command line (or keyword arguments). The resolved form is written to the run directory.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .core import mixed
from .core.algorithm import Algorithm, methods
from .core.errors import ConfigError, unknown
from .core.optim import Opt
from .core.options import build, option, options_of
from .core.outside import deeper_than
from .core.registry import import_file
from .core.task import ORDERS
from .core.written_files import with_files_beside
from .data.site_specs import settings_of_sites
from .engines.choose import NAMES as ENGINES
from .engines.sampling import Rounds
from .engines.transport import Transport
from .trust.settings import Trust


@dataclass(frozen=True)
class Train(Opt):
    """Local training at the clients: the optimiser's options, and these."""

    epochs: int = option(5, "local epochs a round", low=0)
    batch_size: int = option(10, "local batch size", low=1)
    schedule: str = option("constant", "learning rate over the rounds", choices=("constant", "poly"))
    drop_last: bool = option(False, "leave out an incomplete last batch, also in passes for prototypes")
    shuffle: str = option(
        "epoch",
        "order of a client's samples: drawn anew every epoch; once and for all; none: as the data has them",
        choices=ORDERS,
    )
    init: str = option(
        "own", "first weights: each client's own, or one start per model", choices=("own", "common")
    )

    @property
    def opt(self) -> Opt:
        """The optimiser alone."""
        return Opt(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Opt)})


@dataclass(frozen=True)
class System:
    """How the run is carried out; changes no result beyond float rounding."""

    engine: str = option("auto", "how clients are run", choices=ENGINES)
    workers: int | None = option(None, "worker processes (default: one per core)", low=1)
    worker_timeout: float | None = option(
        None,
        "seconds without an answer after which a worker process is replaced (default: ten times what earlier "
        "work took, at least 60; 3600 before the first answer)",
        above=0,
    )
    device: str = option("cpu", "torch device")
    dtype: str = option(
        "float32",
        "precision; bf16-mixed: float32, but layers compute in bfloat16 during local steps",
        choices=("float32", "float64", "bf16-mixed"),
    )
    threads: int = option(1, "torch threads in this process", low=1, high=1024)
    eval_every: int = option(1, "rounds between tests (the last round is always tested)", low=1)
    eval_start: bool = option(False, "test before the first round too: what the first weights reach")
    eval_clients: int | None = option(None, "test only so many clients (drawn once from the seed)", low=1)
    balanced: int = option(
        20, "test samples of each class on which the last round tests every client's model; 0: none", low=0
    )
    checkpoint_every: int = option(1, "rounds between checkpoints", low=1)
    on_failure: str = option(
        "stop", "a client that fails: stop the run, or go on without it", choices=("stop", "drop")
    )

    @property
    def torch_dtype(self) -> torch.dtype:
        """Of weights and samples."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    @property
    def torch_layers(self) -> torch.dtype | None:
        """What layers compute in during local steps, if not in `torch_dtype`; ConfigError if they cannot."""
        if self.dtype != "bf16-mixed":
            return None
        mixed.check_mixed(self.torch_device)
        return torch.bfloat16

    @property
    def torch_device(self) -> torch.device:
        """Where training takes place; ConfigError if torch cannot use it."""
        if self.device.startswith("meta"):
            raise ConfigError("device 'meta' holds no numbers; use cpu or an accelerator such as cuda")
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).split("\n")[0].split(" device type at start")[0]
            raise ConfigError(
                f"device {self.device!r} cannot be used: {reason}; use cpu, or check torch"
            ) from error


@dataclass(frozen=True)
class Config:
    """Everything that defines a run."""

    method: str = option("fedproto", "method: a name, or FILE.py:CLASS")
    preset: str = option(
        "default", "values that work on small data; paper: as printed; official: the released code's"
    )
    options: dict[str, Any] = option({}, "options of the method")
    data: str = option("digits", "data set: a name, or a prefix form such as npz:PATH")
    partition: str = option("nway:n=3,stdev=1,k=10", "how the data is divided among the clients")
    models: str = option("small_cnn", "client models: one, several joined by '|', or a named group")
    public: str | None = option(None, "public unlabelled data set, for methods that need one")
    public_samples: int = option(5000, "samples of the public set that are used", low=1)
    validation: float = option(
        0.0,
        "share of its training samples that each client holds out, for tuning and the mode ens",
        low=0,
        below=1,
    )
    imports: tuple[str, ...] = option((), "Python files that register data, models or methods of yours")
    clients: int = option(20, "number of clients; 0: as many as the data names (natural, domain)", low=0)
    seed: int = option(0, "fixes everything random", low=0)
    train: Train = field(default_factory=Train)
    rounds: Rounds = field(default_factory=Rounds)
    system: System = field(default_factory=System)
    transport: Transport = field(default_factory=Transport)
    trust: Trust = field(default_factory=Trust)

    def to_dict(self) -> dict[str, Any]:
        """As it is written to config.json; `resolve` reads it back."""
        return {**dataclasses.asdict(self), "imports": list(self.imports)}  # JSON knows no tuples

    def make_method(self) -> Algorithm:
        """The method with the preset's and the given options."""
        cls = methods[self.method]
        preset = _preset(self.method, self.preset)
        return build(cls, {**preset.options, **self.options}, f"method {self.method}")


MOST_DEPTH = 20  # tables in tables
SECTIONS: dict[str, type] = {
    "train": Train,
    "rounds": Rounds,
    "system": System,
    "transport": Transport,
    "trust": Trust,
}


def resolve(*layers: Mapping[str, Any]) -> Config:
    """Join layers of settings, the last the strongest. Fields of the sections may stand at the top.

    >>> resolve({"method": "fedproto"}, {"lr": 0.1}).train.lr
    0.1
    """
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    options: dict[str, Any] = {}
    for layer in layers:
        if _chooses_adam(layer):  # which sets aside the momentum of weaker layers
            sections["train"].pop("momentum", None)
        _merge(layer, top, sections, options)
    top["imports"] = load_imports(top.get("imports", ()))
    method = top.get("method", "fedproto")
    preset = _preset(method, top.get("preset", Config.preset))
    given = {**sections, "train": {**preset.train, **sections["train"]}}
    parts: dict[str, Any] = {
        name: build(cls, given[name], name if name != "rounds" else "settings")  # not "rounds: rounds: …"
        for name, cls in SECTIONS.items()
    }
    parts["train"] = _without_idle_momentum(parts["train"], "momentum" in sections["train"])
    config = build(Config, {**top, "options": options, **parts}, "settings")
    config.make_method()
    return config


def _chooses_adam(layer: Mapping[str, Any]) -> bool:
    nested = layer.get("train")
    return "adam" in (
        layer.get("optimizer"),
        nested.get("optimizer") if isinstance(nested, Mapping) else None,
    )


def _without_idle_momentum(train: Train, given: bool) -> Train:
    """Adam has no use for the momentum of SGD: 0 is written down, and one that was asked for is refused."""
    if train.optimizer != "adam" or not train.momentum:
        return train
    if given:
        raise ConfigError(
            f"train: momentum: {train.momentum} has no effect with the optimizer adam, which has its own "
            "moments; leave momentum out, or choose the optimizer sgd"
        )
    return dataclasses.replace(train, momentum=0.0)


def read_recipe(path: Path) -> dict[str, Any]:
    """Settings from a TOML file, or from the config.json of an earlier run."""
    try:
        text = path.read_text()
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"recipe {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # what is no JSON, TOML or UTF-8, numbers of 5,000 digits
        raise ConfigError(f"recipe {path}: not valid {path.suffix.lstrip('.').upper()}: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"recipe {path}: expected a table of settings, got a {type(found).__name__}")
    if deeper_than(found, MOST_DEPTH):
        raise ConfigError(f"recipe {path}: tables lie more than {MOST_DEPTH} deep in each other")
    return with_files_beside(found, path.parent)


def load_imports(files: Any) -> tuple[str, ...]:
    """Run the files, so that what they register is there."""
    files = (files,) if isinstance(files, str | Path) else files
    if not isinstance(files, list | tuple):
        raise ConfigError(f"imports: expected a list of Python files, got {files!r}")
    for file in files:
        import_file(str(file), f"import {file}")
    return tuple(str(file) for file in files)


def setting_names() -> list[str]:
    """All names that `resolve` takes at the top, besides a method's own options."""
    return [*_plain_names(), *(o.name for cls in SECTIONS.values() for o in options_of(cls))]


def _plain_names() -> list[str]:
    return [f.name for f in dataclasses.fields(Config) if f.name not in SECTIONS]


def _merge(
    layer: Mapping[str, Any],
    top: dict[str, Any],
    sections: dict[str, dict[str, Any]],
    options: dict[str, Any],
) -> None:
    layer = _with_sites(layer)
    owner = {o.name: name for name, cls in SECTIONS.items() for o in options_of(cls)}
    plain = _plain_names()
    for given, value in layer.items():
        key = given.replace("-", "_")
        if key in ("about", "published"):  # a recipe's own notes
            continue
        if key == "options":
            if not isinstance(value, Mapping):
                raise ConfigError(f"options: expected a table of the method's options, got {value!r}")
            options.update(value)
        elif key in sections and isinstance(value, Mapping):
            sections[key].update(_table({k.replace("-", "_"): v for k, v in value.items()}))
        elif key in owner:
            sections[owner[key]][key] = value
        elif key in sections:
            raise ConfigError(f"{key}: expected a table of settings, got {value!r}")
        elif key in plain:
            top[key] = value
        else:
            raise ConfigError(unknown("setting", given, [*setting_names(), *SECTIONS]))


def _with_sites(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """`sites`, a list of files with one client each, is short for data, partition and clients."""
    rest = {key: value for key, value in layer.items() if key not in ("sites", "each")}
    if "sites" not in layer:
        if "each" in layer:
            raise ConfigError("each: options for all sites belong to `sites`, which is not given")
        return layer
    if "data" in layer:
        raise ConfigError("sites: is the data of a run; leave `data` out")
    return {**settings_of_sites(layer["sites"], str(layer.get("each", ""))), **rest}


def _table(values: dict[str, Any]) -> dict[str, Any]:
    """One section. Where all options of the optimiser stand, a run wrote them down: earlier versions also the
    momentum that Adam does not use."""
    written = all(field.name in values for field in dataclasses.fields(Opt))
    if written and values["optimizer"] == "adam":
        return {key: value for key, value in values.items() if key != "momentum"}
    return values


def _preset(method: Any, preset: Any) -> Any:
    for name, value in (("method", method), ("preset", preset)):
        if not isinstance(value, str):
            raise ConfigError(f"{name}: expected a name, got {value!r}")
    presets = methods[method].presets
    if preset not in presets:
        raise ConfigError(f"method {method}: {unknown('preset', preset, presets)}")
    return presets[preset]

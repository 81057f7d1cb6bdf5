"""A client's own side: its data, its model, and its class names in the server's numbering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..core.data import LocalData
from ..core.errors import ConfigError
from ..core.registry import import_file
from ..core.user_files import load_file
from ..core.written_files import with_files_beside
from ..data import Dataset, Split, divide, load
from ..data.base import VOID, Rows
from ..data.federated import SplitData
from ..data.loader import Loader
from ..models.groups import assign
from ..models.probe import check_model
from .agreement import Member
from .own_files import fingerprints
from .settings import ClientSettings


@dataclass
class Site:
    """What client.toml describes."""

    settings: ClientSettings

    def __post_init__(self) -> None:
        """Run the files that client.toml lists, before data and model are looked at."""
        listed = with_files_beside({"imports": self.settings.imports}, self.settings.home)["imports"]
        for file in listed:
            import_file(file, f"client {self.settings.name}: import {file}")
        self.files = [load_file(file, file) for file in listed]

    @cached_property
    def dataset(self) -> Dataset:
        """This client's data, as its settings name it."""
        spec = with_files_beside({"data": self.settings.data}, self.settings.home)["data"]
        kind, colon, rest = spec.partition(":")
        path = self.settings.home / rest.split(",")[0]
        if colon and rest and not rest.startswith(("/", "~")) and path.exists():
            spec = f"{kind}:{self.settings.home}/{rest}"
        return load(spec)

    @cached_property
    def split(self) -> Split:
        """Which of its samples are for training, and which for tests."""
        settings, dataset = self.settings, self.dataset
        if settings.partition is None:
            rows = np.arange(len(dataset.y))
            return Split(Rows.of([rows[~dataset.test]]), Rows.of([rows[dataset.test]]))
        if settings.part >= settings.parts:
            raise ConfigError(f"part {settings.part}: expected 0 to {settings.parts - 1}")
        written = with_files_beside({"partition": settings.partition}, settings.home)["partition"]
        whole = divide(written, dataset, settings.parts, settings.seed)
        return Split(Rows.of([whole.train[settings.part]]), Rows.of([whole.test[settings.part]]))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Class names by this client's own numbering."""
        given = tuple(self.settings.classes)
        if given and len(given) != self.dataset.num_classes:
            raise ConfigError(
                f"client {self.settings.name}: {len(given)} class names, but the data has "
                f"{self.dataset.num_classes} classes"
            )
        names = given or tuple(name.strip() for name in self.dataset.classes)
        if len(set(names)) < len(names):
            raise ConfigError(f"client {self.settings.name}: a class name stands twice: {', '.join(names)}")
        return names

    def member(self) -> Member:
        """What this client tells the server when it says hello."""
        files, shape = fingerprints(self.files), self.dataset.shape
        choice = assign(self.settings.model, 1, shape, len(self.names))
        tried = Loader(self.dataset, self.split).two_inputs()
        dim = check_model(choice.builders[0](), tried, len(self.names), choice.specs[0])
        return Member(
            name=self.settings.name,
            model=choice.specs[0],
            shape=shape,
            dim=dim,
            classes=self.names,
            train=len(self.split.train[0]),
            test=len(self.split.test[0]),
            dense=self.dataset.dense,
            files=files,
        )

    def parts(self, classes: tuple[str, ...], dtype: torch.dtype) -> tuple[LocalData, LocalData]:
        """Training and test samples, labels in the agreed numbering."""
        data = SplitData(Loader(self.dataset, self.split, dtype))
        return self._renumbered(data.train(0), classes), self._renumbered(data.test(0), classes)

    def _renumbered(self, data: LocalData, classes: tuple[str, ...]) -> LocalData:
        agreed = {name: number for number, name in enumerate(classes)}
        table = torch.tensor([*(agreed[name] for name in self.names), VOID])  # index −1 stays void
        return LocalData(data.x, table[data.y], data.augment)

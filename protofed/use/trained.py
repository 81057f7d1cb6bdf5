"""`protofed.load(RUN)`: the models, prototypes and predictions of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.client import assemble, predictor
from ..core.data import ClassCounts
from ..core.errors import ConfigError, DataError, RunError, unknown
from ..core.mixture import ENS, Mixture, log_prior
from ..core.net import LiveNet
from ..data.inputs import FLOATS, WHOLE, InputRule, ready
from ..data.new_rows import NewRows, read_new
from ..reports.collect import collect
from ..reports.html import write_page
from ..runs.frames import frame_of, round_rows
from ..runs.outcome import Outcome
from .deployed import is_server_run, is_site, open_server, open_site
from .opened import Opened, open_run
from .predicted import Predicted, Prototypes
from .tested_model import TestedModel

CHUNK = 512  # samples that go through a model at once


def load(run: str | Path, models: Sequence[nn.Module] = (), unfinished: bool = False) -> Trained:
    """What a run trained. Neither its data nor its engine is needed.

    `run`: a run directory; of a deployed run that of the server, or a client's own folder (with client.toml).
    `models`: modules built as those that were given to `federate`. `unfinished`: take a run that is on its
    way, as of its last checkpoint.
    """
    path = Path(run).absolute()  # a later change of the folder changes nothing
    if is_site(path):
        return Trained(path, *open_site(path))
    outcome = Outcome.read(path)
    if is_server_run(path):
        return Trained(path, outcome, open_server(outcome, unfinished))
    return Trained(path, outcome, open_run(outcome, models, unfinished))


class Trained:
    """A run that has been loaded: see `load`."""

    def __init__(self, path: Path, outcome: Outcome, opened: Opened):
        self.path = path
        self.outcome = outcome
        self._opened = opened

    def __repr__(self) -> str:
        run = self._opened
        where = "" if not run.task.algorithm.modes else f", modes {', '.join(self.modes)}"
        return (
            f"<{run.task.algorithm.name} after {run.round} rounds: {len(self.clients)} clients, "
            f"{len(self.classes)} classes{where}; {self.path}>"
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the scores."""
        return self._opened.task.class_names

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients: numbers, or those of a deployed run. Each may be given by name or number."""
        return self._opened.names

    @property
    def rounds(self) -> int:
        """Rounds after which this is."""
        return self._opened.round

    @property
    def modes(self) -> tuple[str, ...]:
        """Prediction modes of the method, the one that its paper reports first."""
        modes = tuple(self._opened.task.algorithm.modes)
        return (*modes, ENS) if self._opened.shares else modes

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The server's tensors, by name; at a deployed client there are none."""
        return {} if self._opened.state is None else self._opened.state.arrays()

    def rule(self, client: int | str | None = None) -> InputRule:
        """How raw samples become inputs of this client's model."""
        return self._opened.rule(self.number(client))

    def counts(self, client: int | str | None = None) -> dict[str, int]:
        """How many samples of each class this client trained on; classes without any are left out."""
        counts = self._opened.counts(self.number(client)).tolist()
        return {name: n for name, n in zip(self.classes, counts) if n}

    @torch.no_grad()
    def model(self, client: int | str | None = None) -> nn.Module:
        """The model that is tested at this client, as a plain module in eval mode: (embedding, logits).

        Of a method whose scores are more than its network's logits, a module around it with these scores.
        """
        number, run = self.number(client), self._opened
        self._check_here(number)
        turn = run.turn(number)
        tensors = assemble(run.task, turn, run.state_of(number), run.down(turn))
        module = run.task.groups[turn.group].build().to(run.task.dtype)
        own = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
        module.load_state_dict(own)
        module.eval()
        mode = "clf" if "clf" in self.modes else self.modes[0]
        if run.predicts and not self._is_tested(module, number, mode):
            parts = run.task.modules(turn.group)
            LiveNet(parts, parts).install(tensors)
            known = ClassCounts(run.counts(number))
            extra = (run.task.algorithm, mode, known, run.down(turn), run.memory(number))
            return TestedModel(parts, *extra).eval()
        return module

    def prototypes(self) -> Prototypes:
        """Global prototypes with the names of their classes; classes without any are left out."""
        task, state = self._opened.task, self._opened.state
        found = None if state is None else task.algorithm.prototypes(state)
        if found is None:
            where = "a deployed client; ask the server's run" if state is None else "the server"
            raise ConfigError(f"{task.algorithm.name} keeps no global prototypes at {where}")
        rows, cls = found
        return Prototypes(rows.cpu().numpy(), tuple(self.classes[int(number)] for number in cls))

    def predict(self, x: Any, client: int | str | None = None, mode: str | None = None) -> Predicted:
        """Names and scores of new samples [N, …] at a client, under a mode (default: the main one).

        Give the samples as the data source has them: images as bytes, features unscaled, a table as named
        columns (a dict or a DataFrame). What the run did to them is done here too.
        """
        number = self.number(client)
        return self._predicted(self._inputs(x, number), number, mode)

    def predict_from(
        self, data: str, client: int | str | None = None, mode: str | None = None
    ) -> tuple[Predicted, NewRows]:
        """The same for samples of "csv:PATH", "npz:PATH", "folder:PATH" or a data set, with what was read:
        names of the samples, and labels where there are any, which must be classes of the run."""
        number = self.number(client)
        self._check_here(number)
        new = read_new(data, self._opened.rule(number))
        for name, label in zip(new.names, new.labels or ()):
            if label not in self.classes:
                known = ", ".join(self.classes[:20]) + (", …" if len(self.classes) > 20 else "")
                raise DataError(f"{data}: sample {name}: label {label!r} is no class of this run ({known})")
        return self._predicted(self._tensor(new.x), number, mode), new

    @property
    def metrics(self) -> Any:
        """A pandas DataFrame, a row for each round: loss, cost, and accuracies by mode in percent."""
        return frame_of(round_rows(self.outcome.lines))

    def report(self, out: str | Path | None = None) -> Path:
        """Write the page of `protofed report --light`: what the files of the run hold. Returns its path."""
        if not self.outcome.lines:
            raise RunError(f"{self.path} has no rounds to report on; ask the server's run")
        target = Path(out) if out is not None else self.path / "report.html"
        return write_page(collect([self.path], inside=False), target)

    def accuracy(self, mode: str | None = None) -> float:
        """Mean test accuracy over the clients in the last test, in percent, as the run measured it."""
        return self.outcome.last(mode or self.outcome.main or "")

    def number(self, client: int | str | None) -> int:
        """The number of a client, given by number or name; None will do where there is one alone."""
        names = self.clients
        if client is None and (len(names) == 1 or self._opened.alone is not None):
            return self._opened.alone or 0
        if client is None:
            raise ConfigError(f"client: say which of the {len(names)}, for example client={names[0]}")
        if str(client) in names:
            return names.index(str(client))
        if isinstance(client, int) and 0 <= client < len(names):
            return client
        known = f"0 to {len(names) - 1}" if names[0] == "0" else ", ".join(names)
        raise ConfigError(f"client {client} does not exist; the run has {known}")

    def _check_here(self, client: int) -> None:
        if missing := self._opened.missing(client):
            raise RunError(missing)

    def _inputs(self, raw: Any, client: int) -> torch.Tensor:
        """Raw samples as the models take them."""
        self._check_here(client)
        rule = self._opened.rule(client)
        if isinstance(raw, torch.Tensor):
            raw = raw.detach().cpu().numpy()
        if rule.dtype == FLOATS and getattr(raw, "dtype", None) == np.uint8:  # features, not colours
            raw = raw.astype(np.float32)
        try:
            return self._tensor(ready(raw, rule))
        except DataError as error:
            raise DataError(f"predict: {error}") from None

    def _tensor(self, x: np.ndarray) -> torch.Tensor:
        made = torch.from_numpy(np.ascontiguousarray(x))
        return made.to(self._opened.task.dtype) if made.is_floating_point() else made

    def _predicted(self, inputs: torch.Tensor, client: int, mode: str | None) -> Predicted:
        mode = mode or self.modes[0]
        if mode not in self.modes:
            raise ConfigError(f"mode: {unknown('prediction mode', mode, self.modes)}")
        scores = self._scores(inputs, client)
        if mode not in scores:
            raise ConfigError(f"mode: {mode} is not there at this client; there are {', '.join(scores)}")
        return Predicted(self.classes, mode, scores[mode].numpy())

    @torch.no_grad()
    def _scores(self, x: torch.Tensor, client: int) -> dict[str, torch.Tensor]:
        """Scores by mode, of inputs as the models take them."""
        run, task = self._opened, self._opened.task
        self._check_here(client)
        turn = run.turn(client)
        known = ClassCounts(run.counts(client))
        _, predict = predictor(turn, run.state_of(client), known, run.down(turn))
        parts = [predict(part) for part in torch.split(x, CHUNK)]
        if client in run.shares:
            mixture = Mixture(run.shares[client], log_prior(known, task.C))
            parts = [mixture.add(part) for part in parts]
        return {mode: torch.cat([part[mode] for part in parts]) for mode in parts[0]}

    def _is_tested(self, module: nn.Module, client: int, mode: str) -> bool:
        """Whether the logits of this module are the scores in this mode."""
        rule = self._opened.rule(client)
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(4, *rule.shape, generator=generator, dtype=self._opened.task.dtype)
        x = x.to(torch.int64) if rule.dtype == WHOLE else x
        return torch.allclose(module(x)[1], self._scores(x, client)[mode], rtol=1e-3, atol=1e-4)

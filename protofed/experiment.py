"""The composition root: from a configuration to data, models, task, engine and a run on disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import algorithms as _registers_all_methods  # noqa: F401
from .config import Config, resolve
from .core.algorithm import Algorithm
from .core.data import ClientData, LocalData
from .core.errors import ConfigError
from .core.needs import check_batches, check_data, check_epochs, check_inputs, check_models, check_optimiser
from .core.rng import numpy_generator
from .core.task import Group, Task
from .data import Dataset, Split, check_source, divide, load
from .data.check import check_several_classes
from .data.features import odd_features, sample_rows
from .data.federated import SplitData
from .data.holdout import balanced_test, hold_out
from .data.loader import Loader
from .data.partition.pooling import pooled_as_before
from .data.public import public_samples
from .data.split_summary import one_class_clients, test_set_notes
from .engines.federation import Federation
from .federating import make_federation, settle_engine
from .metrics.scores import summarise
from .models.groups import assign
from .models.probe import check_mixed_convolutions, check_model
from .runs.about import AboutRun, has_about, write_about
from .runs.contents import EARLIER, check_contents, contents, of_given
from .runs.directory import RunDir
from .runs.findings import Aloud, judge_test
from .runs.fits import check_fits
from .runs.kept_data import input_shapes, keep_data
from .runs.kept_files import KEPT, keep_files, settings_with_kept
from .runs.mixtures import keep_mixtures
from .runs.outcome import Outcome
from .runs.privacy_spent import noise_findings
from .runs.records import number_in, per_client
from .trust.privacy import private_steps

DEPLOYED = "deployment"  # as the data of a run whose samples lie with its clients (protofed.deploy)
GIVEN, AS_GIVEN = "given in Python", "as given"  # as data, and as partition and models, of `federate`
log = logging.getLogger("protofed")
Progress = Callable[[dict[str, Any]], None]


@dataclass
class Experiment:
    """All parts of a run, ready to play."""

    config: Config
    task: Task
    data: ClientData
    federation: Federation
    dataset: Dataset | None = None
    split: Split | None = None
    engine_reason: str = ""  # why `auto` chose it; empty if it was asked for
    remarks: Sequence[str] = ()  # of those who brought the samples
    last_test: dict[str, Any] = field(default_factory=dict)  # client by client, as in clients.jsonl

    @cached_property
    def contents(self) -> dict[str, str]:
        """Fingerprints of what the run rests on."""
        found = contents(named_here(self.config), self.dataset, self.split, self.task.public)
        return {**found, **of_given(self.data)} if self.config.data == GIVEN else found

    @property
    def active(self) -> range:
        """Clients that take part in training."""
        return range(self.task.clients - self.config.rounds.newcomers)

    def notes(self) -> list[str]:
        """What must be known of the data: whether its test set was pooled, or is used in part."""
        if self.dataset is None or self.split is None:  # the samples lie elsewhere
            return list(self.remarks)
        return [*self.remarks, *self.dataset.notes, *test_set_notes(self.dataset, self.split)]

    def tested(self) -> Sequence[int]:
        """Clients that are tested: all active ones, or a fixed draw of them; never attackers."""
        count, attackers = self.config.system.eval_clients, self.federation.adversary.clients
        honest = [client for client in self.active if client not in attackers] if attackers else self.active
        if count is None or count >= len(honest):
            return honest
        chosen = numpy_generator(self.config.seed, "tested").choice(len(honest), count, replace=False)
        return sorted(honest[int(c)] for c in chosen)

    def play(self, run: RunDir | None, progress: Progress | None = None) -> list[dict[str, Any]]:
        """Rounds until the last, from wherever the federation stands. Returns this call's records."""
        system, last = self.config.system, self.config.rounds.rounds
        records = []
        losses = Outcome(run.lines("metrics.jsonl") if run else []).column("train_loss")
        aloud = Aloud(self.config.method, last)
        while self.federation.round < last and not self.federation.spent:
            start = self._start()
            record = self.federation.play(self._tested_after(self.federation.round + 1)) | start
            if ended := self.federation.spent if record["round"] < last else "":
                record["ended"] = ended
            final = record["round"] == last or bool(ended)
            due = record["round"] % system.eval_every == 0 or final
            losses.append(number_in(record, ["train_loss"]))
            if due:
                record |= self._test(run, record["round"], losses, final)
                record["findings"] = [*record.get("findings", ()), *noise_findings(record)]
                aloud.say(record)
            if run:
                run.append("metrics.jsonl", record)
                if record["round"] % system.checkpoint_every == 0 or final:
                    run.save(record["round"], self.federation.state, self.federation.engine)
            records.append(record)
            if progress:
                progress(record)
        return records

    def _tested_after(self, round: int) -> Sequence[int]:
        """Clients that will be tested after this round, as far as that is known before it."""
        every, last = self.config.system.eval_every, self.config.rounds.rounds
        return self.tested() if round % every == 0 or round == last else ()

    def _start(self) -> dict[str, Any]:
        """A test before any training, as part of the first round's record: by the classifier, if there is
        one, since there are no prototypes yet."""
        if self.federation.round or not self.config.system.eval_start:
            return {}
        found = summarise(self.federation.evaluate(self.tested()))["acc"]
        return {"start": {mode: found[mode] for mode in found if mode == "clf" or "clf" not in found}}

    @cached_property
    def _dense(self) -> bool:
        return input_shapes(self.task, self.data, self.dataset)[1]

    def _test(self, run: RunDir | None, round: int, losses: Sequence[float], last: bool) -> dict[str, Any]:
        started, federation = time.perf_counter(), self.federation
        scores = federation.evaluate(self.tested())
        attackers = sorted(federation.adversary.clients)
        self.last_test = {
            "round": round,
            **per_client(scores),
            **({"attackers": attackers} if attackers else {}),
        }
        if run:
            run.append("clients.jsonl", self.last_test)
        found = summarise(scores, self.task.by_class and not self._dense)
        found |= federation.adversary.judge(scores, round, federation.engine.store.get)
        algorithm, classes = self.task.algorithm, self.task.C
        found |= judge_test(algorithm, federation.state, scores, found["acc"], losses, classes)
        others = {"validation": self.task.validation > 0, "balanced": last and self.task.balanced is not None}
        for on in (name for name, wanted in others.items() if wanted):
            found[on] = summarise(federation.evaluate(self.tested(), on))["acc"]
        return {**found, "eval_seconds": time.perf_counter() - started}


def build(config: Config) -> Experiment:
    """Load, divide, check and assemble. Every mistake in the configuration shows here, before training."""
    if config.data == DEPLOYED:
        raise ConfigError(
            "data: the samples of a deployed run lie with its clients; start its server with "
            "`protofed server`, or try the federation with `protofed deploy rehearse`"
        )
    if config.data == GIVEN:
        raise ConfigError(
            "data: models and samples of this run were given in Python: go on with the same call of "
            "protofed.federate, and out=RUN, resume=True"
        )
    torch.set_num_threads(config.system.threads)
    algorithm = config.make_method()
    check_epochs(algorithm, config.train.epochs)
    if config.public is not None:
        check_source(config.public)  # a misspelt one is told where it is not used, too
    dataset = load(config.data)
    check_several_classes(dataset)
    split = split_of(config, dataset)
    loader = Loader(dataset, split, config.system.torch_dtype, config.system.torch_device)
    choice = assign(config.models, split.clients, dataset.shape, dataset.num_classes)
    groups = [Group(name, make) for name, make in zip(choice.specs, choice.builders)]
    task = make_task(
        config,
        algorithm,
        groups,
        choice.of,
        dataset.shape,
        dataset.classes,
        public_data(config, dataset.shape),
        dataset.dense,
        [loader.two_inputs()] * len(groups),
        balanced=balanced_test(loader, config.system.balanced, config.seed),
    )
    data = SplitData(loader)
    if config.public is not None and not algorithm.needs.public:
        log.warning("public: %s uses no public data; %s is not read", algorithm.name, config.public)
    odd = odd_features([sample_rows(dataset)], dataset.name)
    for warning in [*odd, *check_batches(task, data), *algorithm.idle(task)]:
        log.warning(warning)
    config, why = settle_engine(config, task, data)
    return Experiment(config, task, data, make_federation(config, task, data), dataset, split, why)


def split_of(config: Config, dataset: Dataset) -> Split:
    """Which rows each client trains and tests on, and holds out."""
    whole = divide(config.partition, dataset, config.clients, config.seed)
    return hold_out(whole, dataset.y, config.validation, config.seed)


def make_task(
    config: Config,
    algorithm: Algorithm,
    groups: Sequence[Group],
    group_index: np.ndarray,
    shape: tuple[int, ...] | Sequence[tuple[int, ...]],
    classes: tuple[str, ...],
    public: LocalData | None = None,
    dense: bool = False,
    inputs: Sequence[Tensor] = (),
    balanced: LocalData | None = None,
) -> Task:
    """Build each architecture once, check it and the method's needs, and make the task. `inputs`: two samples
    for each group, on which its model is tried; else zeros."""
    shapes = [shape] * len(groups) if not shape or isinstance(shape[0], int) else list(shape)
    modules = [group.build() for group in groups]
    dims = tuple(
        check_model(module, one, len(classes), group.name)  # type: ignore[arg-type]
        for module, one, group in zip(modules, inputs or shapes, groups)
    )
    layers, device = config.system.torch_layers, config.system.torch_device
    if layers is not None and device.type == "cpu":
        for module, one, group in zip(modules, inputs or shapes, groups):
            check_mixed_convolutions(module, one, group.name)  # type: ignore[arg-type]
    check_models(algorithm, groups, modules, dims)
    check_data(algorithm, public is not None, dense)
    check_inputs(algorithm, shapes)  # type: ignore[arg-type]
    check_optimiser(algorithm, config.train)
    _check_newcomers(config.rounds.newcomers, len(group_index))
    train = config.train
    return Task(
        algorithm=algorithm,
        groups=groups,
        group_index=group_index,
        num_classes=len(classes),
        embed_dims=dims,
        opt=train.opt,
        epochs=train.epochs,
        batch_size=train.batch_size,
        drop_last=train.drop_last,
        shuffle=train.shuffle,
        schedule=train.schedule,
        rounds=config.rounds.rounds,
        newcomers=config.rounds.newcomers,
        seed=config.seed,
        common_init=train.init == "common",
        public=public,
        validation=config.validation,
        by_class=_asks_by_class(config),
        balanced=balanced,
        class_names=classes,
        shapes=tuple(tuple(one) for one in shapes),  # type: ignore[arg-type]
        private=private_steps(config.trust, algorithm),
        make_model=_maker(shapes[0], len(classes)),
        dtype=config.system.torch_dtype,
        layers=layers,
        device=device,
    )


def _asks_by_class(config: Config) -> bool:
    """Whether tests tell classes apart: where clients may attack some of them, and are simulated."""
    trust = config.trust
    return trust.attack is not None or (trust.robust is not None and config.data != DEPLOYED)


def _check_newcomers(newcomers: int, clients: int) -> None:
    if newcomers >= clients:
        raise ConfigError(f"newcomers: {newcomers} of {clients} clients would leave nobody to train")


def reopen(
    directory: RunDir,
    warn: Callable[[str], None] | None = None,
    config: dict[str, Any] | None = None,
    changed: str = KEPT,
    changed_content: Callable[[str], None] | None = None,
) -> Experiment:
    """The experiment of a run directory, as of its last checkpoint; with a configuration in place of its
    own, one of more rounds. `changed`: what to do about files of the user's that have changed since;
    `changed_content` is told of data, split or protofed itself that have: without it, that is an error."""
    settings = settings_with_kept(config or directory.config, directory.path, changed, warn)
    earlier = directory.mark is None and not has_about(directory.path)
    if earlier:  # such versions divided training and test rows together
        settings = {**settings, "partition": pooled_as_before(str(settings["partition"]))}
    if settings["system"].get("engine") != "flower":  # earlier versions took what had no effect
        settings = {**settings, "transport": {}}
    experiment = build(resolve(settings))
    check_contents(directory, experiment.contents, warn, changed_content)
    if directory.checkpoints.exist:
        warning = restore(directory, experiment.federation)
        if warning and warn:
            warn(warning)
        if config is not None and (reason := experiment.federation.spent):
            raise ConfigError(f"resume: {directory.path} has no budget left: {reason}")
    elif directory.lines("metrics.jsonl") and warn:
        warn(f"{directory.path} has no checkpoint yet: starting from the first round")
    return experiment


def restore(directory: RunDir, federation: Federation) -> str:
    """Bring a federation to the last checkpoint; returns a warning if that was damaged and the one before
    was taken."""
    engine = federation.engine
    found = directory.checkpoints.load(type(federation.state), engine.store)
    check_fits(directory.path, federation.task, found.state, federation.state, engine.store)
    federation.round = found.round
    federation.state = found.state.map(lambda tensor: tensor.to(federation.task.device))
    engine.recall(found.engine)
    return found.warning


def carry_out(
    experiment: Experiment, directory: RunDir | None, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """All rounds that are left, and the summary; returns the rounds' records.

    Lines beyond the last checkpoint are written again. With `directory=None` nothing is written.
    """
    with directory.locked() if directory else nullcontext():
        try:
            if directory:
                directory.rewind(experiment.federation.round)
                if not has_about(directory.path):  # a resumed run keeps its own
                    directory.restate("partition", experiment.config.partition)
                    keep_files(directory.path, named_here(experiment.config))
                    samples = (experiment.federation.data, experiment.dataset, experiment.split)
                    keep_data(directory.path, experiment.task, *samples)
                    write_about(directory.path, _about(experiment))  # last: it says that all is there
            records = experiment.play(directory, progress)
            if directory and experiment.config.data != DEPLOYED:
                keep_mixtures(directory.path, experiment.federation, experiment.tested())
        finally:
            experiment.federation.engine.close()
        if directory:
            directory.finish(Outcome.read(directory.path).summary())
    return records


def _about(experiment: Experiment) -> AboutRun:
    """What about.json says. Clients with a single class are counted where they make a prediction trivial:
    among their own classes all guesses are right."""
    dataset, split, one_class = experiment.dataset, experiment.split, None
    trivial = "gp_local" in experiment.task.algorithm.modes
    if trivial and dataset is not None and split is not None:  # else: the samples lie elsewhere
        one_class = one_class_clients(dataset, split, experiment.tested())
    about = AboutRun.of_task(experiment.task, one_class)
    shapes, dense = input_shapes(experiment.task, experiment.data, dataset)
    groups = tuple(experiment.task.group_index.tolist()) if experiment.config.data == GIVEN else ()
    about = replace(about, shapes=shapes, dense=dense, group_index=groups)
    earlier = {EARLIER: "not known"} if experiment.federation.round else {}  # of a run without about.json
    return replace(about, notes=tuple(experiment.notes()), fingerprints={**experiment.contents, **earlier})


def named_here(config: Config) -> dict[str, Any]:
    """The settings whose files lie on this machine: of a deployed run, or one of Python, not its models."""
    settings = config.to_dict()
    return {**settings, "models": ""} if config.data in (DEPLOYED, GIVEN) else settings


def _maker(shape: Any, num_classes: int) -> Callable[[str], nn.Module]:
    """Models by their written form, for methods that bring an auxiliary one."""
    return lambda written: assign(written, 1, tuple(shape), num_classes).builders[0]()


def public_data(config: Config, shape: tuple[int, ...]) -> LocalData | None:
    """The public samples of a run, if its method uses any."""
    if config.public is None or not config.make_method().needs.public:
        return None
    system = config.system
    return public_samples(
        config.public, config.public_samples, config.seed, shape, system.torch_dtype, system.torch_device
    )

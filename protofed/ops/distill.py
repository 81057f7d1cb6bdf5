"""Knowledge distillation: divergences between the predictions of two models, and auxiliary models.

All divergences are KL(teacher ‖ student). They are computed from logits by way of log-softmax, so a
probability that underflows to zero contributes 0 and not NaN. Axes: B samples, C classes (axis 1);
further axes (pixels) count as samples. Everything here but `auxiliary_model` runs under vmap.

Sources: *FML* (Shen et al. 2020) and *FedKD* (Wu et al. 2022) for mutual distillation, *FCCL+* (Huang
et al. 2023) for non-target distillation and instance similarities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import log_softmax

from ..core.algorithm import Algorithm
from ..core.errors import ConfigError
from ..core.options import option
from ..core.record import Tree
from ..core.task import Task
from .prototypes import one_hot
from .trees import put, under

LOG_ZERO = -1e3  # exp of it is 0; keeps 0·log 0 finite where a teacher's logit is −∞


def kl(teacher: Tensor, student: Tensor, mean: str = "batch", detach: bool = True) -> Tensor:
    """KL(softmax teacher ‖ softmax student) of logits [B, C, …].

    `mean="batch"` sums over the classes and averages over the samples; "element" averages over the
    classes too (an extra 1/C, as some released code has it). With `detach` the teacher is constant.
    """
    terms = _terms(teacher.detach() if detach else teacher, student)
    return terms.mean() if mean == "element" else terms.sum(1).mean()


def non_target_kl(teacher: Tensor, student: Tensor, y: Tensor, temperature: float) -> Tensor:
    """T² times the part of KL that belongs to the C−1 classes other than y; mean over the batch.

    The probabilities come from a softmax over all C classes at temperature T and are not scaled to
    sum to 1 again, so the value can be negative. The teacher is constant.
    """
    terms = _terms(teacher.detach() / temperature, student / temperature)
    target = one_hot(y, student.shape[1], student.dtype)
    return temperature**2 * (terms * (1 - target)).sum(1).mean()


def off_diagonal(square: Tensor) -> Tensor:
    """The entries [B, B−1] of a matrix [B, B] without its diagonal, row by row."""
    size = len(square)
    if size < 2:
        return square[:, 1:]
    # Behind the first entry, every (B+1)-th is again on the diagonal.
    return square.reshape(-1)[1:].reshape(size - 1, size + 1)[:, :-1].reshape(size, size - 1)


def auxiliary_model(task: Task, written: str) -> nn.Module:
    """The small model that all clients share: of a written form such as "cnn4", or, if that is empty,
    the smallest of the clients' own architectures."""
    if not written:
        return task.groups[task.smallest_group()].build()
    if task.make_model is None:
        raise ConfigError(
            f"{task.algorithm.name}: aux={written!r}, but this federation cannot build models by name; "
            "leave aux empty to use the smallest of the clients' models"
        )
    return task.make_model(written)


def auxiliary_group(task: Task, written: str) -> int | None:
    """The group of clients whose own models have the auxiliary model's architecture; None without such."""
    if not written:
        return task.smallest_group()
    return next((g for g, group in enumerate(task.groups) if group.written and group.name == written), None)


@dataclass(frozen=True)
class MutualLearning(Algorithm):
    """Frame of FML and FedKD: a client's own model and an auxiliary one, which travels, teach each other."""

    aux: str = option("", "auxiliary model, such as cnn4; empty: the smallest of the clients' models")
    aux_start: str = option(
        "own",
        "first weights of the auxiliary model: its own, or the common ones of its architecture (init=common)",
        choices=("own", "model"),
    )
    clip_each: float | None = option(
        10.0, "largest gradient norm of each module by itself; none: the setting `clip` of the run", above=0
    )
    kl_mean: str = option(
        "batch", "KL as a mean over samples, or over samples and classes", choices=("batch", "element")
    )
    detach: bool = option(True, "what teaches is constant")

    @property
    def clipping(self) -> dict[str, Any]:
        """Change to the run's optimiser, for each module."""
        return {} if self.clip_each is None else {"clip": self.clip_each}

    def idle(self, task: Task) -> Sequence[str]:
        """Common first weights of the auxiliary model, where clients of its architecture have none."""
        if self.aux_start == "own" or task.common_init or auxiliary_group(task, self.aux) is None:
            return ()
        return (
            f"aux_start: model is of no use to {self.name} with init own: clients start with weights of "
            "their own, and the auxiliary model as none of them; set init to common, or aux_start to own",
        )

    def first_aux(self, task: Task) -> Tree:
        """The auxiliary model before the first round."""
        if self.aux_start == "model" and (group := auxiliary_group(task, self.aux)) is not None:
            return put("aux.", under("model.", task.fresh(group)))
        return {n: t for n, t in task.fresh(0).items() if n.startswith("aux.")}

    def kl(self, teacher: Tensor, student: Tensor) -> Tensor:
        """KL(teacher ‖ student) as the options say."""
        return kl(teacher, student, self.kl_mean, self.detach)


def _terms(teacher: Tensor, student: Tensor) -> Tensor:
    log_p = log_softmax(teacher, 1).clamp(min=LOG_ZERO)
    return log_p.exp() * (log_p - log_softmax(student, 1))

"""Attacks by what an upload says of classes and counts: prototypes under the wrong class, of classes that the
client does not hold, or with a count of millions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.answer import Reply
from ...core.averages import SAMPLES
from ...core.fields import Spec
from ...core.options import option
from ...core.outside import COUNT
from ...core.task import Task
from ..uploads import class_field, count_field, row_fields, sending, with_floats
from ._base import Attack, Sight, attacks, changed


@dataclass(frozen=True)
class OfRows(Attack):
    """Base of attacks on rows of classes."""

    def refusal(self, task: Task) -> str:
        if any(class_field(leg.up) for leg in sending(task.algorithm)):
            return ""
        return f"{task.algorithm.name} sends no rows of classes"


@attacks.register("swap")
@dataclass(frozen=True)
class Swap(OfRows):
    """Each class gets the prototype of the client's next class."""

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        rows = [spec for spec in row_fields(type(reply.up)) if spec.floating]
        return changed(reply, **{spec.name: getattr(reply.up, spec.name).roll(1, 0) for spec in rows})


@attacks.register("squatting")
@dataclass(frozen=True)
class Squatting(OfRows):
    """Claims every class that the client does not hold."""

    prototype: str = option(
        "random", "what it claims: noise, or copies of its first prototype", choices=("random", "copied")
    )

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        by = class_field(type(reply.up))
        held = getattr(reply.up, by) if by else torch.zeros(0)
        if not len(held):
            return reply
        missing = torch.ones(sight.task.C, dtype=torch.bool, device=held.device)
        missing[held] = False
        claimed = torch.nonzero(missing)[:, 0]
        generator = sight.generator(reply.client)
        more = {
            spec.name: self._rows(spec, reply, len(claimed), generator) for spec in row_fields(type(reply.up))
        }
        more[by] = claimed
        joined = {name: torch.cat([getattr(reply.up, name), rows]) for name, rows in more.items()}
        return changed(reply, **joined)

    def _rows(self, spec: Spec, reply: Reply, count: int, generator: torch.Generator) -> Tensor:
        own: Tensor = getattr(reply.up, spec.name)
        copies = own[:1].expand(count, *own.shape[1:]) if spec.floating else own.max().expand(count)
        if not spec.floating or self.prototype == "copied":
            return copies
        noise = torch.randn(copies.shape, generator=generator, dtype=torch.float64).to(own)
        return own.square().mean().sqrt() * noise


@attacks.register("counts")
@dataclass(frozen=True)
class Counts(Attack):
    """Counts of millions, so that a reversed upload outweighs all others."""

    times: float = option(1e6, "factor of the counts", above=1)
    scale: float = option(-1.0, "factor of the upload itself; 1: as it is")

    def refusal(self, task: Task) -> str:
        legs = sending(task.algorithm)
        weighs = any(averaged.weight == SAMPLES for leg in legs for averaged in leg.averages)
        if weighs or any(count_field(leg.up) for leg in legs):
            return ""
        return f"{task.algorithm.name} sends no counts, and weighs all clients alike"

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        reply = with_floats(reply, lambda t: self.scale * t)._replace(n=self._more(reply.n))
        field = count_field(type(reply.up))
        if not field:
            return reply
        counts = getattr(reply.up, field)
        inflated = (counts.double() * self.times).clamp(max=COUNT).to(counts.dtype)
        return changed(reply, **{field: inflated})

    def _more(self, count: int) -> int:
        return int(min(count * self.times, COUNT))

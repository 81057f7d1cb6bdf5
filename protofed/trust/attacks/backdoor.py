"""A backdoor: images with a small patch are to be taken for a chosen class, all others as ever.

Training on stamped images with the wrong label, the usual way, does little where prototypes are exchanged:
the attacker's own encoder learns the patch, its prototypes stay where they are. After the idea of BAPFL
(2025, arXiv:2509.12964) attackers poison prototypes instead. They train honestly; each class has a trigger
of its own, whose values are chosen so that the attackers' encoders bring stamped images close to the
class's prototype; and the prototype that they send of a class lies at the embeddings of their images with
its trigger. Methods that send no prototypes get the usual way: half of the attackers' samples are stamped
and labelled so.

A sample of class y is to be taken for the next class after y that its client holds. (The paper's own
losses and schedules are not copied.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...core.answer import Reply
from ...core.client import assemble, score_client
from ...core.data import LocalData
from ...core.options import option
from ...core.record import Record, Tree
from ...core.rng import torch_generator
from ...core.task import ClientTurn, Task
from ..triggers import Seen, Triggers, first_triggers, sharpened
from ..uploads import class_field, row_fields, sending
from ._base import Attack, Later, Sight, attacks, changed


@attacks.register("backdoor")
@dataclass(frozen=True)
class Backdoor(Attack):
    """Images with a patch are to be taken for a chosen class."""

    size: int = option(0, "side of the patch in pixels; 0: a quarter of the image", low=0)
    steps: int = option(10, "steps that fit the patches to the attackers' encoders; 0: as drawn", low=0)
    pull: float = option(1.0, "how far prototypes are moved to stamped images", above=0, high=1)
    poison_share: float = option(0.5, "without prototypes: share of the samples stamped", above=0, high=1)

    colluding = True
    needs_states = True

    def refusal(self, task: Task) -> str:
        shapes = set(task.shapes)
        if len(shapes) != 1 or len(next(iter(shapes))) != 3:
            return "its trigger is a patch, which needs images, of one size"
        side = min(next(iter(shapes))[1:])
        return f"size {self.size} does not fit into {side} pixels" if self.size > side else ""

    @property
    def wanted(self) -> str:
        return "samples of honest clients with a trigger that are taken for the trigger's class"

    def poison(self, data: LocalData, task: Task, client: int) -> LocalData:
        if prototype_field(task) or not len(data):
            return data
        draw = torch.rand(len(data), generator=torch_generator(task.seed, client, "stamped"))
        chosen = (draw < self.poison_share).to(data.y.device)
        target = next_class(data, task.C)
        x = self._first(data.x, task).stamp(data.x, target)
        kept = (1,) * (data.x.ndim - 1)
        return replace(
            data, x=torch.where(chosen.reshape(-1, *kept), x, data.x), y=torch.where(chosen, target, data.y)
        )

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        field = prototype_field(sight.task)
        by = class_field(type(reply.up)) if field else ""
        if not by or not sight.attacking:
            return reply
        nets = sight.once("nets", lambda: self._nets(sight))
        if reply.client not in nets:
            return reply
        triggers = sight.once("triggers", lambda: self._fitted(list(nets.values()), sight.task))
        own, cls = nets[reply.client], getattr(reply.up, by)
        z = [own.embed(triggers.stamp(own.x, c.expand(len(own.x)))).mean(0) for c in cls]
        rows: Tensor = getattr(reply.up, field)
        return changed(reply, **{field: torch.lerp(rows, torch.stack(z).to(rows), self.pull)}) if z else reply

    def success(self, later: Later) -> Mapping[str, float]:
        """Of honest clients' test samples with a trigger, how many are taken for its class."""
        triggers = self._triggers_after(later)
        right: dict[str, int] = {}
        count = 0
        for tested in later.tested:
            turn = ClientTurn(later.task, later.round, "eval", client=tested.client)
            train, test = later.data.train(tested.client), later.data.test(tested.client)
            stamped = stamped_test(train, test, triggers, later.task.C)
            if stamped is None:
                continue
            down = later.task.algorithm.broadcast(later.state, turn)
            score = score_client(turn, later.client_state(tested.client), train, stamped, down)
            count += score.n
            right = {mode: right.get(mode, 0) + n for mode, n in score.correct.items()}
        return {mode: 100.0 * n / count for mode, n in right.items()}

    def _triggers_after(self, later: Later) -> Triggers:
        """Those of the attackers' models as they are now."""
        seen = []
        for client in sorted(later.attackers):
            turn = ClientTurn(later.task, later.round, "eval", client=client)
            state, data = later.client_state(client), later.data.train(client)
            if len(data) and (state is not None or not later.task.algorithm.keep):
                down = later.task.algorithm.broadcast(later.state, turn)
                tensors = assemble(later.task, turn, state, down)
                seen.append(_seen(turn, data, tensors, down))
        if not seen:
            some = later.data.train(min(later.attackers))
            return self._first(some.x, later.task)
        make = self._fitted if prototype_field(later.task) else self._plain
        return make(seen, later.task)

    def _nets(self, sight: Sight) -> dict[int, Seen]:
        return {r.client: self._seen(r, sight) for r in sight.attacking if len(sight.data.train(r.client))}

    def _seen(self, reply: Reply, sight: Sight) -> Seen:
        """An attacker's images and its encoder as it has just trained it."""
        turn = ClientTurn(sight.task, sight.turn.round, sight.leg.name, client=reply.client)
        tensors = {**assemble(sight.task, turn, reply.state, sight.down), **_sent(reply.up)}
        return _seen(turn, sight.data.train(reply.client), tensors, reply.up)

    def _fitted(self, seen: list[Seen], task: Task) -> Triggers:
        return sharpened(self._plain(seen, task), seen, self.steps)

    def _plain(self, seen: list[Seen], task: Task) -> Triggers:
        return self._first(torch.cat([one.x for one in seen]), task)

    def _first(self, x: Tensor, task: Task) -> Triggers:
        shape = tuple(x.shape[1:])
        size = self.size or max(1, round(min(shape[1:]) / 4))
        made = first_triggers(shape, task.C, size, float(x.min()), float(x.max()), task.seed)
        return replace(made, patches=made.patches.to(x), corners=made.corners.to(x.device))


def prototype_field(task: Task) -> str:
    """The field of an upload with class means of embeddings; "" if the method sends none."""
    for leg in sending(task.algorithm):
        for spec in row_fields(leg.up):
            if spec.floating and spec.dims and spec.dims[1:] == ("D",):
                return spec.name
    return ""


def next_class(data: LocalData, classes: int, y: Tensor | None = None) -> Tensor:
    """For each label the next class that the client holds; the label itself where it holds no other."""
    held = torch.nonzero(data.present(classes))[:, 0]
    labels = data.y if y is None else y
    return held[torch.searchsorted(held, labels, right=True) % len(held)]


def stamped_test(train: LocalData, test: LocalData, triggers: Triggers, classes: int) -> LocalData | None:
    """Test samples with triggers, labelled with what they are to be taken for; None if there are none."""
    if not len(test) or not len(train):
        return None
    target = next_class(train, classes, test.y)
    other = target != test.y
    return LocalData(triggers.stamp(test.x, target)[other], target[other]) if bool(other.any()) else None


def _seen(turn: ClientTurn, data: LocalData, tensors: Tree, aims: Record) -> Seen:
    """`aims` holds prototypes: the client's own upload, or the latest broadcast."""
    task, net = turn.task, turn.task.net(turn.group, tensors)
    field = prototype_field(task)
    by = class_field(type(aims))
    rows = getattr(aims, field, None) if field else None
    table = data.x.new_zeros(task.C, task.D)
    if rows is not None and by:
        table[getattr(aims, by)] = rows.to(table)
    return Seen(data.x, next_class(data, task.C), net.embed, table)


def _sent(up: Record) -> Tree:
    """Weights in an upload, under the names of the model's tensors."""
    found = getattr(up, "weights", {})
    return found if isinstance(found, dict) else {}

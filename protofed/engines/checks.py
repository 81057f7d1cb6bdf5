"""What the server asks of an upload before a method reads it: one place for all engines.

declaration   type, kinds, shapes and finite values, as the leg's record declares them
dtype         floats have the dtype of the task, whole numbers 64 bits
whole         no negative whole numbers, none beyond counting; classes (`cls`) below C, each in one row where
              the record says so (`distinct`); counts (`n`) of rows of a class at least 1
outside       what is asked besides where an upload comes from another machine (`Outside`)
method        what a method asks itself (`Algorithm.check_upload`)

Uploads that came together are judged together; where they are not all sound, each alone, and the guilty one
is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import Algorithm, Leg
from ..core.answer import Block, Reply
from ..core.client import begin, finish
from ..core.data import LocalData
from ..core.errors import MessageError
from ..core.fields import Spec
from ..core.outside import COUNT
from ..core.record import Record, Tree
from ..core.task import ClientTurn, Task

SAMPLES = 2  # of a reference upload
CLASS_FIELD, COUNT_FIELD = "cls", "n"
log = logging.getLogger("protofed")
DIVERGED = "; training diverged (lower lr), or BatchNorm's statistics have seen too few steps"


@dataclass(frozen=True)
class Checks:
    """The checks of one task; `more` adds to those that every engine makes: it gets the turn, the reply and
    whose it is, and raises MessageError."""

    task: Task
    more: Callable[[ClientTurn, Reply, str], None] | None = None

    def together(self, block: Block, sound: bool) -> bool:
        """Whether all uploads of a block pass; `sound` if the declaration was checked already. False: look
        at each."""
        if self.more is not None or self._method_asks:
            return False
        return (sound or block.sound(self.task.sizes)) and self._whole_fine(block)

    def _whole_fine(self, block: Block) -> bool:
        """Whether floats have the task's dtype, whole numbers are within bounds and no class comes twice."""
        for spec in block.kind.specs():
            rows = block.joined.fields.get(spec.name)
            if rows is None or not rows.numel():
                continue
            if rows.dtype != (self.task.dtype if spec.floating else torch.int64):
                return False
            if spec.floating:
                continue
            low, top = (int(bound) for bound in rows.aminmax())
            least, most = _bounds(block.kind, spec, self.task.C)
            if low < least or top > most:
                return False
        return not block.kind.distinct or self._distinct(block)

    def _distinct(self, block: Block) -> bool:
        """Whether no upload of the block has a class twice."""
        cls, rows = block.joined.fields[block.kind.distinct], block.joined.rows
        total, device = cls.shape[0], cls.device
        lengths = next(r for r in rows.values() if sum(r) == total)
        if min(lengths) == max(lengths):  # as mostly, and in ascending order: that is cheap to see
            by_upload = cls.view(len(lengths), lengths[0])
            if bool((by_upload[:, 1:] > by_upload[:, :-1]).all()):
                return True
        owner = torch.repeat_interleave(torch.tensor(lengths, device=device), output_size=total)
        return int(torch.bincount(owner * self.task.C + cls).max()) == 1

    @property
    def _method_asks(self) -> bool:
        return type(self.task.algorithm).check_upload is not Algorithm.check_upload

    def problem(self, reply: Reply, leg: Leg, round: int) -> str | None:
        """Why an upload is refused, with the client's name."""
        who = f"{self.task.algorithm.name}: round {round}: upload of client {reply.client}"
        turn = ClientTurn(self.task, round, leg.name, client=reply.client)
        try:
            if type(reply.up) is not leg.up:
                raise MessageError(f"{who}: expected {leg.up.__name__}, got {type(reply.up).__name__}")
            reply.up.check(self.task.sizes, who)
            _check_kinds(reply.up, self.task.dtype, who)
            _check_whole(reply.up, self.task.C, who)
            if self.more is not None:
                self.more(turn, reply, who)
            if self._method_asks:
                self.task.algorithm.check_upload(reply.up, turn)
        except MessageError as error:
            text = str(error) if str(error).startswith(who) else f"{who}: {error}"
            return text + (DIVERGED if "not finite" in text else "")
        return None


class Reference:
    """What uploads must look like, by group and leg: the method's own `upload`, carried out once at the
    server, untrained, on two samples. Its values mean nothing, its names and dtypes are every client's."""

    def __init__(self, sample: Callable[[int], LocalData]):
        self.sample = sample
        self._known: dict[tuple[int, str], Tree | None] = {}

    def learn(self, turn: ClientTurn, leg: Leg, down: Record) -> None:
        """See to it that the upload of this turn's group and leg is known."""
        key = (turn.group, turn.leg)
        if key not in self._known:
            self._known[key] = self._carry_out(turn, leg, down)

    def of(self, turn: ClientTurn, leg: Leg, down: Record) -> Tree | None:
        """The arrays that a client would send in answer to just this download; None as with `known`."""
        return self._carry_out(turn, leg, down)

    def known(self, turn: ClientTurn) -> Tree | None:
        """The arrays of a reference upload; None where the method cannot be carried out so."""
        return self._known.get((turn.group, turn.leg))

    def _carry_out(self, turn: ClientTurn, leg: Leg, down: Record) -> Tree | None:
        try:
            session = begin(turn, leg, None, self.sample(turn.client), down)
            return dict(finish(session, turn.task.live(turn.group)).up.arrays())
        except Exception as error:  # of a method's own code: uploads then are checked for less
            name = turn.task.algorithm.name
            log.warning("%s: names and dtypes of uploads are not checked: %r", name, error)
            return None


@dataclass(frozen=True)
class Outside:
    """What is asked besides of uploads from other machines: `more` of `Checks`.

    names     those of a reference upload, no others, none missing
    dtypes    as there
    shapes    weights named like tensors of the client's model have their shapes
    counts    counts (`n`) sum to no more than the samples with which the client joined, nor are there more
              rows; its number of samples is the one with which it joined
    norms     no array longer than the limit
    """

    reference: Reference
    max_norm: float
    samples: Callable[[int], int]  # with which each client joined
    counted: bool = False  # a client's counts are of its samples; with dense labels they are of pixels

    def __call__(self, turn: ClientTurn, reply: Reply, who: str) -> None:
        """MessageError, with `who` in front, for an upload that is not as it must be."""
        joined, arrays = self.samples(turn.client), reply.up.arrays()
        if reply.n != joined:
            raise MessageError(f"{who}: says it has {reply.n} training samples; it joined with {joined}")
        reference = self.reference.known(turn)
        if reference is not None:
            _check_names(arrays, reference, who)
            _check_dtypes(arrays, reference, who)
        _check_shapes(arrays, _shapes(turn.task, turn.group), who)
        if self.counted:
            _check_counts(reply.up, joined, who)
        for name, tensor in arrays.items():
            check_norm(tensor, self.max_norm, f"{who}: {name}")


def check_trees(turn: ClientTurn, reply: Reply, who: str) -> None:
    """`more` of `Checks` where clients of a simulation attack: weights have the shapes of their model."""
    _check_shapes(reply.up.arrays(), _shapes(turn.task, turn.group), who)


def _shapes(task: Task, group: int) -> dict[str, tuple[int, ...]]:
    named = task.live(group).named()
    return {name: tuple(tensor.shape) for name, tensor in named.items()}


def _whole(name: str) -> str:
    """The tensor that a factor belongs to: "factors/aux.head.weight/u" → "factors/aux.head.weight"."""
    return "/".join(name.split("/")[:2])


def _check_names(arrays: Tree, expected: Tree, who: str) -> None:
    got, wanted = ({_whole(name) for name in names} for names in (arrays, expected))
    for name in sorted(wanted - got):
        raise MessageError(f"{who}: {name} is missing")
    for name in sorted(got - wanted):
        raise MessageError(f"{who}: {name} is unexpected: its model has no such tensor to send")


def _check_dtypes(arrays: Tree, expected: Tree, who: str) -> None:
    kinds = {_whole(name): tensor.dtype for name, tensor in expected.items()}
    for name, tensor in arrays.items():
        if tensor.dtype != kinds[_whole(name)]:
            raise MessageError(f"{who}: {name} has dtype {tensor.dtype}; expected {kinds[_whole(name)]}")


def _check_shapes(arrays: Tree, shapes: Mapping[str, tuple[int, ...]], who: str) -> None:
    for name, tensor in arrays.items():
        wanted = shapes.get(name.partition("/")[2])
        if wanted is not None and tuple(tensor.shape) != wanted:
            raise MessageError(f"{who}: {name} has shape {list(tensor.shape)}; the model's {list(wanted)}")


def _bounds(kind: type[Record], spec: Spec, classes: int) -> tuple[int, int]:
    """Least and largest whole number of a field."""
    if spec.name == CLASS_FIELD:
        return 0, classes - 1
    dims = {other.name: other.dims for other in kind.specs()}
    counts_rows = spec.name == COUNT_FIELD and spec.dims == dims.get(CLASS_FIELD)
    return (1 if counts_rows else 0), COUNT


def _check_kinds(up: Record, dtype: torch.dtype, who: str) -> None:
    declared = {spec.name for spec in up.specs() if spec.dims is not None}
    for name, tensor in up.arrays().items():
        # An index of bytes would be a mask. Buffers of models are whole numbers of other kinds too.
        wanted = dtype if tensor.is_floating_point() else torch.int64
        if tensor.dtype != wanted and (tensor.is_floating_point() or name in declared):
            raise MessageError(f"{who}: {name} has dtype {tensor.dtype}; expected {wanted}")
        if tensor.is_complex():
            raise MessageError(f"{who}: {name} holds complex numbers")


def _check_whole(up: Record, classes: int, who: str) -> None:
    for spec in up.specs():
        value = getattr(up, spec.name)
        if spec.dims is None or spec.floating or not value.numel():
            continue
        low, top = (int(bound) for bound in value.aminmax())
        least, most = _bounds(type(up), spec, classes)
        if low < 0:
            raise MessageError(f"{who}: {spec.name} holds {low}; expected no negative numbers")
        if spec.name == CLASS_FIELD and top > most:
            raise MessageError(f"{who}: {spec.name} holds class {top}; expected 0 to {most}")
        if low < least or top > most:
            odd = low if low < least else top
            raise MessageError(f"{who}: {spec.name} holds {odd}; expected {least} to {most:,}")
    if up.distinct:
        cls = getattr(up, up.distinct)
        found, times = torch.unique(cls, return_counts=True)
        if len(found) < len(cls):
            twice = int(found[times.argmax()])
            raise MessageError(
                f"{who}: {up.distinct} holds class {twice} {int(times.max())} times; expected once"
            )


def _check_counts(up: Record, samples: int, who: str) -> None:
    value = getattr(up, COUNT_FIELD, None)
    if isinstance(value, Tensor) and not value.is_floating_point():
        counted = sum(value.flatten().tolist())  # in Python: a sum of large numbers could overflow
        if counted > samples:
            raise MessageError(f"{who}: {COUNT_FIELD} counts {counted} samples; it joined with {samples}")
    cls = getattr(up, CLASS_FIELD, None)
    if isinstance(cls, Tensor) and cls.numel() > samples:
        raise MessageError(f"{who}: {cls.numel()} rows of classes; it joined with {samples} samples")


def check_norm(tensor: Tensor, limit: float, where: str) -> None:
    """MessageError for an array that is longer than the limit."""
    if tensor.is_floating_point() and tensor.numel():
        norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
        if norm > limit:
            raise MessageError(f"{where} has norm {norm:.3g}; the limit is {limit:.3g} (max_norm)")

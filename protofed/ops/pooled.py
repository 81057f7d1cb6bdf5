"""Frame of methods whose server adds up sums over the clients' samples, in the space of a common map φ.

Sums go up once for each client, and what the server makes of them comes down to a client only when it has
changed since:

    client  not sent yet: A_k = Σ φφᵀ (upper triangle), B_kc = Σ_{y=c} φ, n_kc; later: rows of length 0
    server  A, B, N += A_k, B_k, n_k; its version grows by 1 in each round that brings sums
    down    what `publish` makes of the sums, to clients that hold an older version; else nothing

So a client joins by adding its sums and leaves by their being taken away (`forget`): the state is what it
would be had the client never been there. The server keeps the totals alone, whose size does not depend on
the number of clients; with `ledger` it keeps each client's sums beside them, and can take out, or replace,
one that is not there any more.

Vectors and sequences are standardised before φ: in its first round a client sends Σx and Σx² (once), of which
the server fixes mean and deviation of each input at the end of that round, for the whole run. Sums of φ then
follow a round later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..core.algorithm import Algorithm, Needs, Ran
from ..core.answer import Replies, Reply
from ..core.averages import Averaged
from ..core.data import LocalData
from ..core.errors import ConfigError, MessageError
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import ClientTurn, Task, Turn
from .common_map import CommonMap, common_map
from .moments import Moments, moments_of, scatter, square_of, triangle
from .prototypes import owned, table
from .trees import put, under

R = TypeVar("R", bound=Record)
Phi = Callable[[Tensor, Tensor], Tensor]  # samples and the scale of their inputs → features
SLACK = 1e-3  # of the trace: rounding of an upload, in half precision too


class Sums(Record):
    """What a client sends: its sums once, afterwards rows of length 0. `have` is the version that it holds;
    `inputs` has Σx and Σx² where inputs are standardised."""

    gram: Float[Tensor, "R T"]
    sums: Float[Tensor, "J M"]
    cls: Int[Tensor, "J"]
    n: Int[Tensor, "J"]
    inputs: Float[Tensor, "S X"]
    have: Int[Tensor, "V"]


ADDED = (
    Averaged("gram", added=True, square=True, once="members"),
    Averaged("sums", by="cls", weight="n", added=True, once="members"),
    Averaged("inputs", added=True),
)
NO_GRAM = (Averaged("gram", added=True), *ADDED[1:])  # of methods without A: always empty
PLAIN = ("have",)


class Pool(Record):
    """Server state: totals in float64, and who is in them."""

    gram: Float[Tensor, "R T"]
    sums: Float[Tensor, "C M"]
    n: Int[Tensor, "C"]
    scale: Float[Tensor, "S X"]  # mean and 1/deviation of each input, once they are known
    version: Int[Tensor, "V"]
    members: Int[Tensor, "K"]  # clients whose sums are in the totals
    asked: Int[Tensor, "H"]  # clients that answered, and …
    have: Int[Tensor, "H"]  # … the version that each holds
    gone: Int[Tensor, "G"]  # clients that were taken out: they send and get nothing
    ledger: Tree  # "7/sums": of client 7, if the method keeps them
    head: Tree  # what the method solved from the totals, if anything


def keeps_ledger() -> Any:
    """The option of methods whose server may keep single clients' sums."""
    return option(False, "the server keeps each client's sums, not their total alone")


@dataclass(frozen=True)
class PooledSums(Algorithm):
    """Hooks around the sums; a method says what it publishes and how it predicts."""

    phi: str = option("auto", "common map: auto, filters, edges, relu, model:SPEC (frozen), or several by +")
    size: int = option(256, "M, random features of the common map", low=16)
    standardise: bool = option(True, "vectors and sequences: inputs of mean 0 and deviation 1, from sums")
    radius: float = option(10.0, "largest ‖φ‖/√M; longer feature vectors are shortened", above=0)

    sends_gram = True  # whether A is needed
    ledger = False  # whether each client's sums are kept; most methods have it as an option
    needs = Needs(dense=False)

    @property
    def single(self) -> str:
        return "keeps each client's sums (ledger=true)" if self.ledger else ""

    def sample_bound(self, task: Task) -> float:
        if self.map(task).inputs:
            raise ConfigError(
                f"{self.name}: the sums by which inputs are standardised have no bound; scale the inputs by "
                "known numbers yourself, and set standardise=false"
            )
        return self.map(task).longest

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        return {"phi": self.map(task)}

    def map(self, task: Task) -> CommonMap:
        """φ of this run."""
        return common_map(task, self.phi, self.size, self.standardise, self.radius)

    # server

    def init(self, task: Task, turn: Turn) -> Pool:
        width = self.map(task).width
        entries = width * (width + 1) // 2
        wide = task.zeros("0").double()
        none = task.zeros("0", int)
        return Pool(
            wide.new_zeros(int(self.sends_gram), entries),
            wide.new_zeros(task.C, width),
            task.zeros("C", int),
            task.zeros("0 X", X=self.map(task).inputs),
            task.zeros("1", int),
            none,
            none,
            none,
            none,
            {},
            {},
        )

    def solved(self, state: Pool) -> Tree:
        """What follows from new totals, computed once for all clients."""
        return {}

    def publish(self, state: Pool, dtype: torch.dtype) -> Record:
        """What a client gets of this state. Its fields `scale` and `version` are the state's."""
        raise NotImplementedError

    def broadcast(self, state: Pool, turn: Turn) -> Any:
        made = self.publish(state, turn.task.dtype)
        client = -1 if turn.client is None else turn.client
        if client in state.gone.tolist():
            return hollow(made, turn.task.zeros("1", int))
        held = dict(zip(state.asked.tolist(), state.have.tolist()))
        return hollow(made, state.version) if held.get(client) == int(state.version) else made

    def aggregate(self, state: Pool, replies: Replies, turn: Turn) -> Pool:
        """Add what is new. Sums stream; a client that sends twice is counted once, or replaced (ledger)."""
        adding, fixed = _Adding(state, self.ledger), len(state.scale) > 0
        for reply in replies:
            adding.held[reply.client] = int(reply.up.have)
            if reply.client not in adding.gone:
                adding.add(reply)
        found = self._solve(adding, state)
        return found if fixed or not self.map(turn.task).inputs else adding.with_scale(found, turn.task.dtype)

    def _solve(self, adding: _Adding, state: Pool) -> Pool:
        found = adding.result(state)
        if not adding.changed:
            return found
        known = bool(found.n.any())
        return replace(found, head=self.solved(found) if known else {})

    def check_upload(self, up: Sums, turn: ClientTurn) -> None:
        """Sums that no samples can have: they would spoil the totals for everybody."""
        check_sums(up, self.map(turn.task), self.sends_gram)

    def forget(self, state: Pool, client: int, data: LocalData | None, task: Task) -> Pool:
        """The state without a client: of its sums in the ledger, or of its samples."""
        members = state.members.tolist()
        if client not in members:
            raise ConfigError(f"client {client} is not in the server's sums; in them: {_listed(members)}")
        kept = under(f"{client}/", state.ledger)
        if not kept and data is None:
            raise ConfigError(
                f"client {client}: the server keeps totals alone, and the client's samples are not here; "
                "run with ledger=true to take out clients that are not there any more"
            )
        sums = Sums.of(kept) if kept else self._sums(data, state.scale, task)  # type: ignore[arg-type]
        gone = torch.cat([state.gone, state.gone.new_tensor([client])])
        adding = _Adding(state, self.ledger)
        adding.take(client, sums)
        return replace(self._solve(adding, state), gone=gone)

    # client

    def upload(
        self, net: Net, data: LocalData, down: Any, mem: Tree, ran: Ran, turn: ClientTurn
    ) -> tuple[Sums, Tree]:
        task, phi = turn.task, self.map(turn.task)
        mem = {**mem, **self.learned(net, data, down, mem, task.C)}
        have = mem.get("version", task.zeros("1", int))
        mark = fingerprint(data)
        sent = "sent" in mem and torch.equal(mem["sent"], mark)
        empty = Sums(*self._no_rows(task), task.zeros("0 X", X=phi.inputs), have)
        if sent:
            return empty, mem
        if "sent" in mem and not self.ledger:
            raise MessageError(
                f"{self.name}: client {turn.client}: its samples have changed since it sent its sums, and "
                "the server keeps totals alone: run with ledger=true, so that it can replace them"
            )
        scale = scale_of(down, mem)
        if phi.inputs and not len(scale):  # the server does not know the inputs' scale yet
            return replace(empty, inputs=_input_sums(data.x)), mem
        up = self._sums(data, scale, task)
        return replace(up, have=have), {**mem, "sent": mark}

    def learned(self, net: Net, data: LocalData, down: Any, mem: Tree, classes: int) -> Tree:
        """What a client remembers of a download; nothing if nothing came."""
        raise NotImplementedError

    def own(self, phi: Phi, data: LocalData, scale: Tensor, classes: int) -> Moments:
        """A client's own sums, over all of its samples."""
        whole = replace(data, passed=None)
        pairs = ((phi(x, scale), y) for x, y in whole.chunks())
        return moments_of(pairs, classes, self.sends_gram)

    def _sums(self, data: LocalData, scale: Tensor, task: Task) -> Sums:
        own = self.own(self.map(task), data, scale, task.C)  # not a net's: clients do not know each other's
        rows, cls, n = owned(own.sums, own.n)
        gram = triangle(own.gram)[None] if self.sends_gram else self._no_rows(task)[0]
        none = task.zeros("0 X", X=self.map(task).inputs)
        return Sums(gram.to(task.dtype), rows.to(task.dtype), cls, n, none, task.zeros("1", int))

    def _no_rows(self, task: Task) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        width = self.map(task).width
        gram, sums = task.zeros("0 T", T=width * (width + 1) // 2), task.zeros("0 M", M=width)
        return gram, sums, task.zeros("0", int), task.zeros("0", int)


class _Adding:
    """Totals of a state while sums are added and taken away."""

    def __init__(self, state: Pool, keep: bool):
        self.gram, self.sums, self.n = state.gram.clone(), state.sums.clone(), state.n.clone()
        self.members, self.gone = set(state.members.tolist()), set(state.gone.tolist())
        self.held = dict(zip(state.asked.tolist(), state.have.tolist()))
        self.ledger, self.keep, self.changed = dict(state.ledger), keep, False
        self.inputs: Tensor | None = None
        self.samples = 0

    def add(self, reply: Reply) -> None:
        up: Sums = reply.up
        if len(up.inputs):
            wide = up.inputs.double()
            self.inputs = wide if self.inputs is None else self.inputs + wide
            self.samples += reply.n
        if not len(up.cls):
            return
        if reply.client in self.members:
            if not self.keep:  # it lost its memory and sent again what is in the totals already
                return
            self.take(reply.client, Sums.of(under(f"{reply.client}/", self.ledger)))
        self._put(up, 1)
        self.members.add(reply.client)
        if self.keep:
            self.ledger |= put(f"{reply.client}/", up.arrays())

    def take(self, client: int, sums: Sums) -> None:
        self._put(sums, -1)
        self.members.remove(client)
        self.ledger = {name: t for name, t in self.ledger.items() if not name.startswith(f"{client}/")}

    def _put(self, sums: Sums, sign: int) -> None:
        self.gram += sign * sums.gram.double().sum(0)
        self.sums.index_add_(0, sums.cls, sums.sums.double(), alpha=sign)
        self.n.index_add_(0, sums.cls, sums.n, alpha=sign)
        self.changed = True

    def result(self, state: Pool) -> Pool:
        def ids(values: Any) -> Tensor:
            return torch.tensor(list(values), dtype=torch.int64, device=state.n.device)

        asked = sorted(self.held)
        return Pool(
            self.gram,
            torch.where(
                self.n[:, None] > 0, self.sums, 0.0
            ),  # of a class that left nothing but rounding stays
            self.n,
            state.scale,
            state.version + self.changed,
            ids(sorted(self.members)),
            ids(asked),
            ids(self.held[client] for client in asked),
            state.gone,
            self.ledger,
            state.head,
        )

    def with_scale(self, state: Pool, dtype: torch.dtype) -> Pool:
        """Mean and 1/deviation of each input, of all that came this round; constant inputs become 0."""
        if self.inputs is None:
            return state
        mean, square = self.inputs / self.samples
        spread = (square - mean.square()).clamp(min=0).sqrt()
        flat = spread <= 1e-6 * (1 + mean.abs())
        inverse = torch.where(flat, 0.0, 1 / spread.clamp(min=1e-30))
        scale = torch.stack([mean, inverse]).to(dtype)
        return replace(state, scale=scale, version=state.version + 1)


def hollow(record: R, version: Tensor) -> R:
    """The same message without rows: nothing has changed for its reader."""
    rows = {name: tensor[:0] for name, tensor in record.arrays().items()}
    return type(record).of({**rows, "version": version})


def scale_of(down: Any, mem: Mapping[str, Tensor]) -> Tensor:
    """Mean and 1/deviation of the inputs: as just sent, or as remembered; no rows if not known."""
    return mem["scale"] if "scale" in mem and not len(down.scale) else down.scale


def totals(gram: Tensor, sums: Tensor, cls: Tensor, n: Tensor, classes: int) -> Moments:
    """Sums that came as rows, as tables in float64."""
    full, _ = table(sums.double(), cls, classes)
    count = torch.zeros(classes, dtype=torch.float64, device=n.device).index_copy(0, cls, n.double())
    return Moments(square_of(gram[0].double()) if len(gram) else full.new_zeros(0, 0), full, count)


def fingerprint(data: LocalData) -> Tensor:
    """A few numbers that change with the samples."""
    x, y = data.x.double(), data.y.double()
    order = torch.arange(1, len(y) + 1, dtype=torch.float64, device=y.device)
    return torch.stack([order[-1], x.sum(), x.square().sum(), (y * order).sum()])


def _input_sums(x: Tensor) -> Tensor:
    """Σx and Σx² [2, X] per feature; of sequences, means over their length."""
    wide = x.double() if x.ndim == 2 else x.double().flatten(2)
    rows = torch.stack([wide.sum(0), wide.square().sum(0)])
    return (rows if x.ndim == 2 else rows.mean(2)).to(x.dtype)


def check_sums(up: Sums, phi: CommonMap, gram: bool) -> None:
    """MessageError unless samples exist that have these sums: shapes, counts, ‖φ‖ within its bound, and the
    scatter within the classes, A − Σ B_c B_cᵀ / n_c, nowhere negative."""
    entries = phi.width * (phi.width + 1) // 2
    wanted = {"gram": (entries, (0, 1)), "sums": (phi.width, None), "inputs": (phi.inputs, (0, 2))}
    for name, (width, rows) in wanted.items():
        value = getattr(up, name)
        if value.shape[1] != width or (rows is not None and len(value) not in rows):
            raise MessageError(f"{name} has shape {list(value.shape)}; expected rows of {width}")
    if len(up.have) != 1:
        raise MessageError(f"have holds {len(up.have)} numbers; expected 1")
    if len(up.gram) != (len(up.cls) > 0 and gram):
        raise MessageError(f"gram has {len(up.gram)} rows with sums of {len(up.cls)} classes")
    if not len(up.cls):
        return
    if len(set(up.cls.tolist())) < len(up.cls) or int(up.n.min()) < 1:
        raise MessageError("sums of a class twice, or of a class without samples")
    most = phi.longest * (1 + SLACK)
    lengths = torch.linalg.vector_norm(up.sums.double(), dim=1)
    if bool((lengths > up.n * most).any()):
        raise MessageError(f"sums are longer than their counts allow (‖φ‖ ≤ {phi.longest:.3g})")
    if gram:
        _check_gram(up, most)


def _check_gram(up: Sums, most: float) -> None:
    classes = int(up.cls.max()) + 1
    m = totals(up.gram, up.sums, up.cls, up.n, classes)
    trace = float(m.gram.trace())
    if trace > float(m.n.sum()) * most**2:
        raise MessageError("gram is larger than the counts allow")
    lowest = float(torch.linalg.eigvalsh(scatter(m))[0])
    if lowest < -SLACK * trace:
        raise MessageError(f"gram does not fit the sums: the scatter has an eigenvalue of {lowest:.3g}")


def _listed(clients: list[int]) -> str:
    return ", ".join(map(str, clients[:20])) + (", …" if len(clients) > 20 else "") or "nobody"

"""The contract: a method is a frozen dataclass of pure functions, cut at the wire.

Its fields are the hyperparameters. Its hooks never touch an engine, a file or a global; engines never
know a method's name. One round, one direction:

    server   broadcast ─┐                                   ┌─ aggregate
    client              └─ load → prepare → loss* → upload ─┘

`docs/architecture.md` tells which hook may do what; `algorithms/_template.py` is a start for a new one.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .answer import Replies
from .averages import Averaged
from .data import Batch, ClassCounts, LocalData
from .errors import ConfigError
from .net import Net
from .optim import Opt
from .record import Nothing, Record, Tree
from .registry import Registry
from .task import ClientTurn, Task, Turn

View = dict[str, Any]  # tensors (or dicts of tensors) that `loss` reads
Loss = Tensor | tuple[Tensor, dict[str, Tensor]]


@dataclass(frozen=True)
class Needs:
    """What a method asks of the federation; checked before training starts, with the remedy."""

    model: bool = False  # all clients have one architecture
    base: bool = False  # all bases alike (heads may differ)
    head: bool = False  # all heads alike (bases may differ)
    embedding: bool = False  # all embeddings of one size
    halves: bool = False  # models made of a base and a head
    public: bool = False  # a public unlabelled data set
    dense: bool = True  # works with dense labels (segmentation) too
    peers: bool = False  # clients build models of other clients' architectures: a deployment tells them these
    sgd: bool = False  # plain SGD: no momentum, no clipping, not Adam
    merged: bool = False  # all training samples in one place: not federated, a reference


@dataclass(frozen=True)
class Phase:
    """One stretch of local training within a leg. Optimisers start anew in each phase."""

    train: tuple[str, ...] = ("",)  # prefixes of the parameters that move; "!model.head." takes away
    epochs: int | None = None  # None: as the turn says (a straggler has fewer)
    steps: int | None = None  # end after so many steps, whatever the epochs
    data: str = "local"  # or "public"
    batch_size: int | None = None
    loss: str = "loss"  # name of the hook
    # Prefix → optimiser, the longest wins; a mapping holds changes to the run's own: {"clip": 10.0}.
    opts: Mapping[str, Opt | Mapping[str, Any]] = field(default_factory=dict)
    eval: tuple[str, ...] = ()  # modules (prefixes of their names) in eval mode


@dataclass(frozen=True)
class Leg:
    """One exchange within a round. Most methods have one."""

    name: str = "train"
    down: type[Record] = Nothing
    up: type[Record] = Nothing
    phases: tuple[Phase, ...] = (Phase(),)
    averages: tuple[Averaged, ...] = ()  # all that the server uses of the uploads; see `Algorithm.single`
    plain: tuple[str, ...] = ()  # fields that tell nothing of samples: secure sums leave them as they are


@dataclass(frozen=True)
class Preset:
    """Values for a setting, mostly a published one: of the method, and of local training.

    Every method has the preset `default`, which a run takes unless told otherwise. It is empty, that is the
    options' own defaults, unless the method declares it: values that learn on small data. Where the paper
    prints others, they are its preset `paper`.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


# Local training in the released code of FedTGP's comparison (HtFLlib), for the presets that follow it. Its
# loaders drop the last incomplete batch, in passes for prototypes too, and keep the order in which samples
# were shuffled when the data was divided; each client sets the same seed before it builds its model.
HTFLLIB_TRAIN: Mapping[str, Any] = MappingProxyType(
    {"batch_size": 10, "lr": 0.01, "momentum": 0.0, "epochs": 1}
    | {"drop_last": True, "shuffle": "once", "init": "common"}
)


Hook = TypeVar("Hook", bound=Callable[..., Any])


def carries_clients(loss: Hook) -> Hook:
    """Marks a loss hook whose operations take a leading axis of clients on the net's outputs, the batch and
    the view, and whose results have it: the cohort engine then calls it once for all, not under vmap."""
    loss.carries_clients = True  # type: ignore[attr-defined]
    return loss


class Ran(NamedTuple):
    """What happened between `prepare` and `upload`."""

    steps: int
    lr: float
    start: Tree  # tensors right after `load`
    sums: dict[str, Tensor]  # second results of `loss`, added up; empty without steps
    before: Any  # what `before` returned
    view: View


@dataclass(frozen=True)
class Algorithm(ABC):
    """Base of all methods. Every hook has a default that suits a method which exchanges nothing.

    A method says what it is by class attributes, `legs = (Leg(down=Protos, up=Protos),)`. Those that are
    properties here may be properties there too, where they depend on the method's options.
    """

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""  # citation for the docs
    presets: ClassVar[Mapping[str, Preset]] = MappingProxyType({"default": Preset(), "paper": Preset()})
    sampling: ClassVar[str] = "uniform"  # or "size": probability proportional to the sample count

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__  # until it is registered under another
        if "presets" in vars(cls):
            cls.presets = MappingProxyType({"default": Preset(), **cls.presets})

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of what `predict` returns, the main one first."""
        return ("clf",)

    @property
    def needs(self) -> Needs:
        """What must hold before training can start."""
        return Needs()

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The exchanges of a round, in their order."""
        return (Leg(),)

    @property
    def keep(self) -> tuple[str, ...]:
        """Prefixes of the tensors that stay at the client; "buffers" stands for all buffers."""
        return ("",)

    @property
    def partial(self) -> str:
        """What happens to stragglers: "use" their partial work, or "drop" them."""
        return "use"

    @property
    def weighs_alike(self) -> bool:
        """Whether an upload about a class weighs the same however few samples it rests on: runs with many
        such uploads are warned about."""
        return False

    @property
    def single(self) -> str:
        """Why the server needs single uploads, in words that follow the name of the method; "": it uses what
        its legs declare as `averages`. Defences, noise at the server and secure sums ask for that."""
        sent = [leg for leg in self.legs if leg.up is not Nothing]
        if not sent:
            return "sends nothing up"
        return "" if all(leg.averages for leg in sent) else "does not say that its server only averages"

    def sample_bound(self, task: Task) -> float:
        """R with ‖φ(x)‖ ≤ R for any sample, where all that goes up are sums over samples of a map φ in which
        no sample has a share (fields with `added`); 0: it is not so. Noise that hides samples asks for it."""
        return 0.0

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        """Modules beside "model", by part name; freshly initialised."""
        return {}

    def idle(self, task: Task) -> Sequence[str]:
        """Options that are given and do nothing in this task, each a line with cause and remedy: shown as a
        warning before the first round. Most methods have none."""
        return ()

    # server

    def init(self, task: Task, turn: Turn) -> Record:
        """First state. Common weights come from `task.fresh(group)`."""
        return Nothing()

    def broadcast(self, state: Any, turn: Turn) -> Record:
        """What goes down to `turn.client` (None: a newcomer). Cheap: compute in `aggregate`."""
        return Nothing()

    def aggregate(self, state: Any, replies: Replies, turn: Turn) -> Any:
        """Next state from the accepted replies (at least one)."""
        return state

    def check_upload(self, up: Any, turn: ClientTurn) -> None:
        """Raise MessageError for an upload of `turn.client` that `aggregate` could not use although names,
        kinds and shapes are as declared. Asked where uploads come from other machines."""

    def forget(self, state: Any, client: int, data: LocalData | None, task: Task) -> Any:
        """The state as it were had `client` never taken part, exactly; `data` are its samples, if they are
        here. For methods whose state is a sum; from any other a client cannot be taken out."""
        raise ConfigError(
            f"{self.name} cannot take a client out: what it knows of one is mixed with all else; run anew "
            "without it, or use a method whose server adds sums (fedcommons, fed3r, fedncm, fedcof)"
        )

    # client

    def load(self, tensors: Tree, down: Any, turn: ClientTurn) -> Tree:
        """Install what came down; by default the field `weights` if there is one."""
        return {**tensors, **getattr(down, "weights", {})}

    def prepare(self, net: Net, data: LocalData, down: Any, mem: Tree, turn: ClientTurn) -> View:
        """All that `loss` reads besides net and batch, in shapes equal for all clients of a group."""
        return {}

    def before(self, net: Net, data: LocalData, down: Any, mem: Tree, turn: ClientTurn) -> Any:
        """A pass before training, kept for `upload` as `ran.before`."""
        return None

    def draw(self, generator: torch.Generator, batch_size: int, view: View) -> dict[str, Tensor]:
        """Random inputs of one step."""
        return {}

    def loss(self, net: Net, batch: Batch, view: View) -> Loss:
        """Scalar to minimise, or (scalar, dict of sums to collect). Runs under vmap: no `.item()`,
        no branch on values, no boolean indexing."""
        raise TypeError(f"{type(self).__name__} trains but defines no loss")

    def upload(
        self, net: Net, data: LocalData, down: Any, mem: Tree, ran: Ran, turn: ClientTurn
    ) -> tuple[Record, Tree]:
        """What goes up, and the client's next private memory."""
        return Nothing(), mem

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Any, mem: Tree) -> dict[str, Tensor]:
        """Scores [B, C] per named prediction mode; the largest wins. Of the training samples only the counts
        of classes are known: predictions are also made long after, where the samples are not."""
        return {"clf": net(x)[1]}

    # analysis

    def prototypes(self, state: Any) -> tuple[Tensor, Tensor] | None:
        """Global prototypes as rows [J, D] and their classes [J], if the method has any."""
        return None

    def remarks(self, state: Any) -> Sequence[str]:
        """What a reader of the run has to know of this state, each a line with cause and remedy: shown as a
        warning. Most methods have nothing to say."""
        return ()

    def client_weights(self, state: Any, samples: Mapping[int, int]) -> Mapping[int, float] | None:
        """Client → weight (sum 1) in the average of the round that led to `state`, if the method makes
        one. `samples`: training samples of the participants whose uploads were used, at least one."""
        return None


def find_leg(algorithm: Algorithm, name: str) -> Leg:
    """A method's leg by its name; "eval", the test after a round, has the download of the first."""
    legs = {leg.name: leg for leg in algorithm.legs}
    return legs[name] if name != "eval" else Leg("eval", algorithm.legs[0].down, phases=())


methods: Registry[Algorithm] = Registry(
    "method", Algorithm, "protofed.methods", files=True, home="protofed.algorithms"
)

"""Which method for my data? Rules over what is known before training, each with its reason and its source.

The rules look at class overlap, samples, architectures, inputs and links; every one rests on a page of
results. A method that models or labels forbid (`needs`) is never advised. Nothing is
trained: what only training tells is listed in `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.algorithm import methods

FEW = 20  # samples of a class at a client: few, for one model that all share
COMMON = 100  # up to here FedCommons was ahead or level: the pages have four to a hundred
MANY = 50  # from here on Local was level with what is shared; the page on Table 2 has a hundred
NARROW = 0.6  # of all classes at a client, below which one model for all pays for foreign ones


@dataclass(frozen=True)
class Setting:
    """What is known of a federation before training."""

    clients: int
    classes: int  # of the whole federation
    held: float  # classes of a client, mean
    overlap: float  # of two clients: shared classes / classes of either, mean
    samples: float  # of a class at a client that holds it, median
    domains: int  # kinds of inputs: domains or owners' sources that the data names
    one_model: bool  # all clients have one architecture
    one_embedding: bool  # embeddings of one size
    dense: bool = False  # labels of pixels
    slow_links: bool = False  # bytes are scarce

    @property
    def narrow(self) -> bool:
        """Whether clients hold few of the classes."""
        return self.held < NARROW * self.classes


class Rule(NamedTuple):
    """If it applies, its methods are advised, or advised against."""

    methods: tuple[str, ...]
    applies: Callable[[Setting], bool]
    reason: str
    page: str
    against: bool = False


class Advised(NamedTuple):
    """A rule that applies, for output."""

    methods: tuple[str, ...]
    reason: str
    page: str
    against: bool


RESULTS = "docs/results/"
RULES = (  # the first that advises a method is the answer; later ones are alternatives
    Rule(
        ("fedproto_margin", "fedavg"),
        lambda s: s.dense and s.one_model,
        "labels are masks: few methods work with them, and of these ProtoMargin and FedAvg were run here.",
        RESULTS + "protomargin.md",
    ),
    Rule(
        ("fedcommons",),
        lambda s: s.samples <= COMMON and not s.dense,
        "a hundred samples of a class at a client or fewer: sums in a common space, sent once, were ahead of "
        "all others there or level with the best (less so with more samples), also where domains differ, and "
        "architectures may differ in everything; it sends more floats than FedProto (size=64 about as many).",
        RESULTS + "beyond.md",
    ),
    Rule(
        ("fedplcc", "fedplvm", "fpl"),
        lambda s: s.domains > 1 and s.one_model and not s.narrow and not s.dense,
        "clients see the same classes in different domains: contrasts of prototypes beat "
        "FedAvg by 3 to 5 points.",
        RESULTS + "digit5.md",
    ),
    Rule(
        ("fedproto",),
        lambda s: s.narrow and s.one_embedding and s.samples < MANY,
        "clients hold few of the classes: prototypes carry what they share, for a small part of "
        "FedAvg's bytes, and it came out above Local (digits, MNIST).",
        RESULTS + "defaults.md",
    ),
    Rule(
        ("local", "fedrep", "fedper"),
        lambda s: s.narrow and s.samples >= MANY and s.one_model and not s.dense,
        "clients hold few classes and many samples of each: Local, FedPer, FedRep and FedProto were level, "
        "so begin with what sends nothing.",
        RESULTS + "fp-t2-mnist.md",
    ),
    Rule(
        ("local", "fedproto"),
        lambda s: s.narrow and s.samples >= MANY and not s.one_model,
        "many samples, few classes, different models: Local and FedProto were level; only newcomers gain.",
        RESULTS + "fp-t2-mnist.md",
    ),
    Rule(
        ("fedavg", "fedprox"),
        lambda s: not s.narrow and s.one_model and s.samples > FEW,
        "clients hold most classes and one architecture: one model for all loses nothing to foreign classes.",
        RESULTS + "fp-t2-mnist.md",
    ),
    Rule(
        ("feddistill", "fedproto"),
        lambda s: s.slow_links and not s.dense,
        "bytes are scarce: mean logits or prototypes are a hundredth of the weights.",
        RESULTS + "compare-digits.md",
    ),
    Rule(
        ("feddistill", "fml"),
        lambda s: not s.one_embedding and not s.dense,
        "embeddings differ in size: logits, or a small model that all share, can still be exchanged.",
        RESULTS + "compare-digits.md",
    ),
    Rule(
        ("fedavg", "fedprox", "scaffold", "moon"),
        lambda s: s.narrow and s.samples < MANY,
        "one model for all must tell every class apart, a client's own only its few: these ended 10 to 21 "
        "points below Local on digits, though level with it on MNIST (docs/results/defaults.md).",
        RESULTS + "compare-digits.md",
        against=True,
    ),
    Rule(
        ("local",),
        lambda s: True,
        "always the one to beat: run it beside whatever you choose (`protofed compare local …`).",
        RESULTS + "defaults.md",
    ),
)
UNKNOWN = (
    "how hard the data is, and whether a class looks alike at all clients: only training tells",
    "whether clients will meet classes that they did not train on: the pages test them on their own",
    "learning rates, weights of prototype terms and length: the pages rest on few seeds and short trainings",
    "privacy, and clients that lie: see docs/security.md",
)


def choose(setting: Setting) -> list[Advised]:
    """What applies, best first; a method that was advised is not advised against, nor twice."""
    found: list[Advised] = []
    for rule in RULES:
        taken = {name for one in found for name in one.methods}
        names = tuple(name for name in rule.methods if name not in taken and _possible(name, setting))
        if names and rule.applies(setting):
            found.append(Advised(names, rule.reason, rule.page, rule.against))
    return found


def _possible(name: str, setting: Setting) -> bool:
    needs = methods[name]().needs
    if (needs.model or needs.base or needs.head) and not setting.one_model:
        return False
    return (setting.one_embedding or not needs.embedding) and (needs.dense or not setting.dense)


def measure_setting(
    counts: np.ndarray, dims: Sequence[int], models: int, domains: int = 1, **more: bool
) -> Setting:
    """Of samples of each class at each client [clients, classes], embedding sizes and number of models."""
    held = counts > 0
    either = (held[:, None] | held[None]).sum(-1)
    both = (held[:, None] & held[None]).sum(-1)
    others = ~np.eye(len(counts), dtype=bool)
    overlap = float((both / np.maximum(1, either))[others].mean()) if len(counts) > 1 else 1.0
    return Setting(
        clients=len(counts),
        classes=int(held.any(0).sum()),
        held=float(held.sum(1).mean()),
        overlap=overlap,
        samples=float(np.median(counts[held])) if held.any() else 0.0,
        domains=domains,
        one_model=models == 1,
        one_embedding=len(set(dims)) == 1,
        **more,
    )

"""One table of all methods."""

from __future__ import annotations

from protofed.core.algorithm import Needs, methods

from .example_round import BATCH, CLIENTS, ROUNDS, Seen
from .markdown import table
from .messages import count, sends_prototypes, sent_parts
from .methods import method_parts

# Neither is declared by the methods: `aggregate` may do anything, and HeteroFL checks its own groups.
TRAINS_AT_SERVER = ("fedgen", "fedgh", "fedtgp")
WIDTHS_OF_ONE_MODEL = ("heterofl",)

TEXT = f"""# All methods

One line a method; its page has the paper, the formulas, the messages, the options and every departure from
the paper. All tables here are made from the code.

- **prototypes**: class means of embeddings travel.
- **weights**: whose parameters travel: the whole model, its base, its head, or a part that the method adds
  (shared: a shared model beside the client's own; aux: a small auxiliary model; gen: a generator; proj: a
  projection).
- **models may differ**: whether clients may have different architectures.
- **server trains**: whether the server takes gradient steps.
- **public data**: whether a public unlabelled set is needed.
- **down, up**: parameters that a client received and sent in round {ROUNDS} of the example
  `protofed run METHOD --clients {CLIENTS} --rounds {ROUNDS} --batch-size {BATCH}` (the method's page has
  the exact command).

"""

LETTERS = """
## Letters

Payload is given in these letters. Integers (classes, counts) are not counted as parameters, as in the
papers; `protofed show` and `metrics.jsonl` have them as meta bytes.

| letter | meaning |
| --- | --- |
| C | classes of the whole federation |
| D | size of the embedding |
| N | public samples |
| J | rows of a message, most often one for each class that the sender has |
| P(x) | parameters of x: model, base, head, or a part that the method adds |
| other letters | explained under the table, or free |
"""


def overview_page(seen: dict[str, Seen]) -> str:
    header = [
        "method",
        "prototypes",
        "weights",
        "models may differ",
        "server trains",
        "public data",
        "down",
        "up",
    ]
    rows = [_row(name, one) for name, one in seen.items()]
    return TEXT + table(header, rows, right=[6, 7]) + LETTERS


def _row(name: str, seen: Seen) -> list[str]:
    needs = methods[name]().needs
    counted = any(seen.params.values())
    return [
        f"[{method_parts(name).title}]({name}.md)",
        _yes(sends_prototypes(seen)),
        ", ".join(sent_parts(seen)) if counted and sent_parts(seen) else "–",
        _models(name, needs),
        _yes(name in TRAINS_AT_SERVER),
        _yes(needs.public),
        count(seen.params["down"]),
        count(seen.params["up"]),
    ]


def _models(name: str, needs: Needs) -> str:
    if needs.model:
        return "–"
    if name in WIDTHS_OF_ONE_MODEL:
        return "in width"
    if needs.base:
        return "in the head"
    if needs.head:
        return "in the base"
    return "yes, one embedding size" if needs.embedding else "yes"


def _yes(value: bool) -> str:
    return "yes" if value else "–"

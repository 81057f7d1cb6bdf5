"""A page per method: paper, idea, formulas, messages, needs, options, presets, departures."""

from __future__ import annotations

import re
from dataclasses import dataclass

from protofed.core.algorithm import Algorithm, Needs, Preset, methods

from .example_round import CLIENTS, ROUNDS, Seen, command
from .formulas import with_formulas, with_symbols
from .markdown import code, module_text, options_table, prose, shown_value, source_file, table
from .messages import count, messages_section

NEEDS = {
    "model": "all clients have one architecture",
    "base": "the clients' bases are alike; heads may differ",
    "head": "the clients' heads are alike; bases may differ",
    "embedding": "all embeddings have one size",
    "halves": "models are made of a base and a head",
    "public": "public unlabelled data (`--public`)",
    "sgd": "plain SGD: no momentum, no clipping, not Adam",
    "merged": "all training samples in one place: not federated, a reference",
}
NOT_DENSE = "labels of whole samples: not for segmentation"


@dataclass(frozen=True)
class Parts:
    """A module docstring, cut into what the page shows."""

    title: str
    idea: str
    paper: str
    how: str
    departures: str


def read_parts(text: str, has_paper: bool) -> Parts:
    """Title and idea; the citation; how it works; and, from their heading on, the departures."""
    first, *paragraphs = text.split("\n\n")
    title, _, idea = " ".join(first.split()).partition(": ")
    paper = paragraphs.pop(0) if has_paper else ""
    heading = re.compile(r"(Departures|Choices)\b[^:]*:\s*")
    start = next((i for i, p in enumerate(paragraphs) if heading.match(p)), len(paragraphs))
    rest = heading.sub("", "\n\n".join(paragraphs[start:]), count=1)
    how = "\n\n".join(paragraphs[:start])
    return Parts(title, idea[:1].upper() + idea[1:], paper, how, rest[:1].upper() + rest[1:])


def method_parts(name: str) -> Parts:
    return read_parts(module_text(methods[name]), bool(methods[name].paper))


def method_page(name: str, seen: Seen) -> str:
    cls, parts = methods[name], method_parts(name)
    sections = [
        f"# {parts.title}\n\n{parts.idea}",
        _facts(cls, parts),
        f"## How it works\n\n{with_symbols(with_formulas(prose(parts.how)))}" if parts.how else "",
        f"## What is sent\n\n{messages_section(seen)}\n{_example(name, seen)}",
        f"## Needs\n\n{_needs(cls().needs)}",
        f"## Options\n\n{_options(cls)}",
        f"## Presets\n\n{_presets(cls)}",
        f"## Departures and choices\n\n{with_symbols(prose(parts.departures))}" if parts.departures else "",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _facts(cls: type[Algorithm], parts: Parts) -> str:
    main, *others = (code(mode) for mode in cls().modes)
    accuracy = f"{main} is the mode that counts" + (f"; also {', '.join(others)}" if others else "")
    facts = [f"**Paper:** {prose(' '.join(parts.paper.split()))}"] if parts.paper else []
    facts += [f"**Prediction:** {accuracy} ([what these mean](../concepts.md#prediction-modes))."]
    facts += [f"**Source:** {code(source_file(cls))}"]
    return "\n\n".join(facts)


def _example(name: str, seen: Seen) -> str:
    if not any(seen.params.values()):
        return f"In the example (`{command(name)}`) no parameter is sent."
    sizes = ", ".join(f"{letter} = {size}" for letter, size in seen.sizes.items())
    down, up = count(seen.params["down"]), count(seen.params["up"])
    return (
        f"The example is `{command(name)}`: {CLIENTS} clients, digits, `small_cnn`, {sizes}. "
        f"In round {ROUNDS} a client received {down} and sent {up} parameters (means over the clients). "
        "[What the letters mean](index.md#letters)."
    )


def _needs(needs: Needs) -> str:
    found = [text for name, text in NEEDS.items() if getattr(needs, name)]
    found += [] if needs.dense else [NOT_DENSE]
    return "\n".join(f"- {text}" for text in found) or "Nothing: models and classes may differ."


def _options(cls: type[Algorithm]) -> str:
    found = options_table(cls)
    if not found:
        return "None."
    first = re.search(r"`(\w+)` \| (\S+)", found)
    assert first is not None
    name, default = first[1], first[2].strip("`")
    how = f"On the command line `--{name.replace('_', '-')} {default}`"
    if default in ("true", "false"):
        how = f"On the command line `--{name.replace('_', '-')}` or `--no-{name.replace('_', '-')}`"
    return f"{how} or `--set {name}={default}`, in Python `options={{…}}`.\n\n{found}"


def _presets(cls: type[Algorithm]) -> str:
    rows = [
        [code(name), preset.note or "the defaults", _changes(preset)] for name, preset in cls.presets.items()
    ]
    text = "`--preset NAME` sets what a publication used. Options and settings that you give win over it.\n\n"
    return text + table(["preset", "what it is", "what it sets"], rows)


def _changes(preset: Preset) -> str:
    both = {**preset.options, **preset.train}
    return ", ".join(f"`{key}` {shown_value(value)}" for key, value in both.items()) or "nothing"

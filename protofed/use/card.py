"""A model card: what a model was trained on and how, what it reaches, and what is known against it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..core.errors import RunError
from ..core.version import VERSION
from ..runs.findings import baseline_text
from ..runs.modes import titled
from ..runs.outcome import Outcome
from .trained import Trained

MOST = 50  # classes that are listed


def write_card(trained: Trained, client: int | str | None, format: str, file: str) -> str:
    """The card as Markdown."""
    run, config = trained.outcome, trained.outcome.config
    number = trained.number(client)
    sections = {
        f"{file}": [
            f"The model of client {trained.clients[number]} after {trained.rounds} rounds of "
            f"{config['method']}, as {format}; exported by protofed {VERSION}.",
        ],
        "Data": list(_data(trained, number)),
        "Method": list(_method(run)),
        "Accuracy": list(_accuracy(run, number)),
        "Privacy": [_privacy(run)],
        "Inputs and outputs": list(_interface(trained, number)),
    }
    heads = ["# ", *["## "] * (len(sections) - 1)]
    parts = [f"{head}{title}\n\n" + "\n".join(lines) for head, (title, lines) in zip(heads, sections.items())]
    return "\n\n".join(parts) + "\n"


def _data(trained: Trained, client: int) -> Iterator[str]:
    config, run = trained.outcome.config, trained.outcome
    yield f"- data: `{config['data']}`, divided by `{config['partition']}`, {len(trained.clients)} clients"
    if digest := run.about.fingerprints.get("data"):
        yield f"- fingerprint of the data: `{digest}`"
    names = trained.classes
    yield f"- classes: {', '.join(names[:MOST])}{f', … {len(names)} in all' if len(names) > MOST else ''}"
    try:
        own = trained.counts(client)
    except RunError:  # at a server
        own = {}
    if own:
        listed = ", ".join(f"{name} {n}" for name, n in list(own.items())[:MOST])
        yield f"- samples that this client trained on: {listed}"
    for note in run.about.notes:
        yield f"- {note}"


def _method(run: Outcome) -> Iterator[str]:
    config = run.config
    yield f"- method: {config['method']}, preset {config['preset']}, seed {config['seed']}"
    options = ", ".join(f"{name}={value}" for name, value in config.get("options", {}).items())
    if options:
        yield f"- options: {options}"
    train, rounds = config["train"], config["rounds"]
    yield (
        f"- {rounds['rounds']} rounds of {train['epochs']} local epochs, batches of {train['batch_size']}, "
        f"{train['optimizer']} with learning rate {train['lr']}"
    )
    yield f"- models: `{config['models']}`"


def _accuracy(run: Outcome, client: int) -> Iterator[str]:
    if not run.tests:
        yield "Measured at the server; this folder has no record of it."
        return
    yield f"In percent, in the test of round {run.tests[-1].round}, on the clients' own test samples."
    yield ""
    yield "| prediction | this client | mean of the clients | worst client |"
    yield "|---|---|---|---|"
    for mode in run.modes:
        values = [run.clients(mode).get(client, math.nan), run.last(mode), run.last(mode, "worst")]
        yield f"| {titled(mode)} | " + " | ".join("–" if math.isnan(v) else f"{v:.2f}" for v in values) + " |"
    yield ""
    yield f"To hold them against: {baseline_text(run.baseline, run.modes)}."
    for finding in run.findings:
        yield f"\n**Warning:** {finding.text}"


def _privacy(run: Outcome) -> str:
    """The budget that the records state last: `epsilon`, with `delta` where it is told."""
    for line in reversed(run.lines):
        told = {**line, **(line.get("privacy") or {})}
        if told.get("epsilon") is not None:
            delta = f", delta = {told['delta']:g}" if told.get("delta") is not None else ""
            spent = f"epsilon = {told['epsilon']:g}{delta}"
            return f"Differential privacy: {spent} spent after round {line['round']}."
    return "The records of the run state no privacy budget: no differential privacy is claimed."


def _interface(trained: Trained, client: int) -> Iterator[str]:
    rule = trained.rule(client)
    shape = ", ".join(map(str, ("N", *rule.shape)))
    yield f"- input: [{shape}], {_form(rule.dtype)}"
    if rule.mean is not None and rule.std is not None:
        mean, std = (", ".join(f"{v:.4g}" for v in part[:8]) for part in (rule.mean, rule.std))
        yield f"- normalised by (x − mean) / std along the first axis of a sample: mean {mean}; std {std}"
    for column in rule.columns[:MOST]:
        how = f"one input for each of {', '.join(column.values)}" if column.values else _scaled(column)
        yield f"- column {column.name}: {how}"
    yield "- outputs: embedding [N, D] and logits [N, classes], in the order of the classes above"


def _form(dtype: str) -> str:
    words = {"uint8": "images: bytes divided by 255", "int64": "tokens: whole numbers"}
    return words.get(dtype, "numbers")


def _scaled(column: object) -> str:
    mean, std, fill = (getattr(column, name) for name in ("mean", "std", "fill"))
    text = "as it is" if (mean, std) == (0.0, 1.0) else f"(x − {mean:.6g}) / {std:.6g}"
    return text if fill is None else f"{text}; {fill:.6g} where it is missing"

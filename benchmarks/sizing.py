"""`python -m benchmarks.sizing`: what many clients cost, by a formula held against runs that it did not see.

Constants are taken from federations of up to 100,000 registered clients; then a million and ten million are
predicted, run, and put beside the prediction. The network is tiny and samples are few, as in `scale`: what
is measured is the federation; training and samples come on top.

CPU seconds of a round   new · participants for the first time + again · the others
peak memory              base + registered · clients + state · those that ever took part, while their tensors
                         are less than 4 GiB; the others' lie on disk
traffic of a round       (up + down) · participants
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from protofed.core.answer import ClientState
from protofed.engines.store import LIMIT_BYTES

from .machine import cpu_seconds, load, memory_mb
from .scale import federation_of, in_a_process
from .tables import Grid, write_markdown

MB = 1e6
KNOWN = ((100, 100), (1_000, 1_000), (100_000, 100), (100_000, 1_000))  # registered, participants
HELD_AGAINST = ((1_000_000, 100), (1_000_000, 1_000), (10_000_000, 1_000))
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Costs:
    """The constants of the formula: seconds of CPU, and bytes."""

    new: float
    again: float
    base: float
    registered: float
    state: float
    tensors: float
    up: float
    down: float

    def seconds(self, new: int, again: int) -> float:
        """CPU seconds of a round with so many first-time participants, and others."""
        return self.new * new + self.again * again

    def memory(self, registered: int, seen: int) -> float:
        """Peak bytes above those of a bare start; `seen` clients have taken part."""
        return self.base + self.registered * registered + self.state * min(seen, LIMIT_BYTES / self.tensors)

    def disk(self, seen: int) -> float:
        """Bytes of the states that memory does not hold."""
        return max(0.0, self.tensors * seen - LIMIT_BYTES)

    def traffic(self, participants: int) -> float:
        """Bytes of payload in a round, both ways."""
        return (self.up + self.down) * participants


def point(registered: int, participants: int, rounds: int) -> dict[str, Any]:
    """Some rounds in this process, after one that warms up: the cheapest of them, and memory at the end."""
    torch.set_num_threads(1)
    before = memory_mb("VmRSS")
    tracemalloc.start()
    federation = federation_of(registered, participants)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    store = federation.engine.store
    turns = []
    for _ in range(rounds + 1):
        known, started = len(store), cpu_seconds()
        record = federation.play()
        turns.append((cpu_seconds() - started, len(store) - known))
    seconds, new = min(turns[1:])
    return {
        "registered": registered,
        "participants": participants,
        "seconds": seconds,
        "new": new,
        "seen": len(store),
        "peak": (memory_mb("VmHWM") - before) * MB,
        "held": held,
        "tensors": _tensor_bytes(store.get(next(iter(store)))),
        **{way: record[way]["bytes"] / participants for way in ("up", "down")},
    }


def _tensor_bytes(state: ClientState | None) -> int:
    parts = (state.kept, state.mem) if state else ()
    return sum(tensor.nbytes for part in parts for tensor in part.values())


def fitted(points: Sequence[dict[str, Any]]) -> Costs:
    """The constants that come nearest to the points: least squares of relative errors."""
    new = np.array([one["new"] for one in points], dtype=float)
    again = np.array([one["participants"] for one in points]) - new
    first, later = _solved([new, again], [one["seconds"] for one in points])
    few, many = (f(points, key=lambda one: one["registered"]) for f in (min, max))
    registered = (many["held"] - few["held"]) / (many["registered"] - few["registered"])
    own = [one["peak"] - registered * one["registered"] for one in points]
    base, state = _solved([np.ones(len(points)), [one["seen"] for one in points]], own)
    tensors, up, down = (float(np.mean([one[name] for one in points])) for name in ("tensors", "up", "down"))
    return Costs(first, later, base, registered, state, tensors, up, down)


def _solved(columns: Sequence[Any], values: Sequence[float]) -> list[float]:
    rows, wanted = np.stack([np.asarray(one, dtype=float) for one in columns], 1), np.asarray(values)
    found: list[float] = np.linalg.lstsq(rows / wanted[:, None], np.ones(len(wanted)), rcond=None)[0].tolist()
    return found


def sizing(
    known: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]], rounds: int, tell: Tell
) -> list[Grid]:
    """Constants, prediction beside measurement, and what the largest federation needs."""

    def measured(registered: int, participants: int) -> dict[str, Any]:
        tell(f"sizing: {participants:,} of {registered:,} clients, load {load()}")
        return in_a_process("sizing", "point", registered, participants, rounds)

    costs = fitted([measured(*one) for one in known])
    held_against = [measured(*one) for one in others]
    return [_constants(costs), _beside(costs, held_against), _needs(costs, *others[-1])]


def _constants(costs: Costs) -> Grid:
    rows = [
        ["new", "a participant, its first time", f"{1e3 * costs.new:.3f} ms of CPU"],
        ["again", "a participant that was there before", f"{1e3 * costs.again:.3f} ms of CPU"],
        ["base", "any federation", f"{costs.base / MB:.0f} MB of memory"],
        ["registered", "a registered client", f"{costs.registered:.1f} bytes of memory"],
        ["state", "a client that took part", f"{costs.state:,.0f} bytes of memory"],
        ["tensors", "of it, its tensors", f"{costs.tensors:,.0f} bytes"],
        ["up, down", "messages of a participant", f"{costs.up:,.0f} and {costs.down:,.0f} bytes"],
    ]
    return Grid("constants", ["constant", "of what", "value"], rows)


def _beside(costs: Costs, points: Sequence[dict[str, Any]]) -> Grid:
    rows = []
    for one in points:
        seconds = costs.seconds(one["new"], one["participants"] - one["new"])
        memory = costs.memory(one["registered"], one["seen"])
        traffic = costs.traffic(one["participants"])
        sent = (one["up"] + one["down"]) * one["participants"]
        rows.append(
            [
                f"{one['registered']:,}",
                f"{one['participants']:,}",
                *(f"{value:.3f}" for value in (seconds, one["seconds"])),
                *(f"{value / MB:.0f}" for value in (memory, one["peak"])),
                *(f"{value / MB:.3f}" for value in (traffic, sent)),
            ]
        )
    columns = ["registered", "participants", "CPU s a round, predicted", "measured"]
    columns += ["memory MB, predicted", "measured", "sent MB a round, predicted", "measured"]
    return Grid("predicted and measured", columns, rows)


def _needs(costs: Costs, registered: int, participants: int) -> Grid:
    """Every client takes part once."""
    rounds = registered // participants
    seconds = rounds * costs.seconds(participants, 0)
    rows = [
        ["rounds", f"{rounds:,}"],
        ["CPU, with the training of this tiny network", f"{seconds / 3600:,.1f} hours"],
        ["memory", f"{costs.memory(registered, registered) / 1e9:,.1f} GB"],
        ["disk, for the states of clients", f"{costs.disk(registered) / 1e9:,.0f} GB"],
        ["sent, both ways", f"{rounds * costs.traffic(participants) / 1e9:,.1f} GB"],
    ]
    title = f"{registered:,} registered clients, {participants:,} a round, each takes part once"
    return Grid(title, ["what", "needed"], rows)


def page(grids: Sequence[Grid], command: str) -> str:
    """As part of a page."""
    lines = ["```sh", command, "```", ""]
    for grid in grids:
        lines += [f"### {grid.title}", ""]
        for cells in (grid.columns, ["---"] * len(grid.columns), *grid.rows):
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", grid.note, ""] if grid.note else [""]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print a part of a page, or write it into one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=6, help="timed rounds of each federation (default: 6)")
    parser.add_argument("--quick", action="store_true", help="small federations: only shows that it works")
    parser.add_argument("--markdown", type=Path, help="write the tables into this page")
    args = parser.parse_args(argv)
    small = ((20, 20), (60, 60), (2_000, 20), (2_000, 60)), ((4_000, 60),)
    known, others = small if args.quick else (KNOWN, HELD_AGAINST)
    before = load()
    grids = sizing(known, others, args.rounds, lambda line: _say(line, sys.stderr))
    note = f"The cheapest of {args.rounds} rounds each. Load of the machine {before} before, {load()} after."
    grids[1] = grids[1]._replace(note=note)
    text = page(grids, f"python -m benchmarks.sizing --rounds {args.rounds} --markdown docs/sizing.md")
    if args.markdown:
        write_markdown(args.markdown, text)
    _say(text, sys.stdout)


def _say(text: str, stream: TextIO) -> None:
    stream.write(f"{text}\n")
    stream.flush()


if __name__ == "__main__":
    main()

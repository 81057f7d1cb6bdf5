"""Seeded corruptions of every file of a run, and whether any is believed in silence.

    python tests/runs/corruptions.py [COUNT [SEED]]

For each: one file of a finished or an unfinished run is changed. Then `show` and `resume` must give what they
give of the run as it was, and something must be said: a refusal, a warning, or by `verify` that the run is
not whole. Anything else is SILENT. Lines that are cut off after the last checkpoint are what a crash leaves.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from protofed.cli.main import main
from protofed.runs.outcome import Outcome
from protofed.runs.seals import erase_whole, forget_end

SETTINGS = (
    *("--models", "mlp:dim=4,hidden=4", "--clients", "2", "--epochs", "1", "--rounds", "4"),
    *("--engine", "sequential", "--quiet"),
)
MINE = """from dataclasses import dataclass
from protofed.algorithms.fedproto import FedProto

@dataclass(frozen=True)
class Mine(FedProto):
    pass
"""
Corrupt = Callable[[Path, Path, random.Random], None]


class Said(NamedTuple):
    """What a command printed."""

    code: int
    out: str
    err: str


class Result(NamedTuple):
    """One corruption."""

    file: str
    kind: str
    outcome: str  # refused, told, harmless, or SILENT
    detail: str = ""


def flip(file: Path, other: Path, chance: random.Random) -> None:
    """One bit."""
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def truncate(file: Path, other: Path, chance: random.Random) -> None:
    """The end is gone: some of it, or all."""
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(len(data))])


def delete(file: Path, other: Path, chance: random.Random) -> None:
    """The whole file."""
    file.unlink()


def drop_line(file: Path, other: Path, chance: random.Random) -> None:
    """One line."""
    lines = file.read_bytes().splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    file.write_bytes(b"".join(lines))


def swap_lines(file: Path, other: Path, chance: random.Random) -> None:
    """Two lines change places."""
    lines = file.read_bytes().splitlines(keepends=True)
    if len(lines) > 1:
        a, b = chance.sample(range(len(lines)), 2)
        lines[a], lines[b] = lines[b], lines[a]
    file.write_bytes(b"".join(lines))


def edit_digit(file: Path, other: Path, chance: random.Random) -> None:
    """One digit becomes another."""
    data = bytearray(file.read_bytes())
    places = [m.start() for m in re.finditer(rb"\d", data)]
    if places:
        place = chance.choice(places)
        data[place] = chance.choice([d for d in b"0123456789" if d != data[place]])
    file.write_bytes(data)


def exchange(file: Path, other: Path, chance: random.Random) -> None:
    """The same file of another run."""
    if other.exists():
        shutil.copy(other, file)


KINDS: tuple[Corrupt, ...] = (flip, truncate, delete, drop_line, swap_lines, edit_digit, exchange)


def call(*argv: str) -> Said:
    """A command of protofed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(argv))
    return Said(code, out.getvalue(), err.getvalue())


class Bench:
    """A finished run, an unfinished one, and another with other settings, in a folder of their own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.run = folder / "run"
        (folder / "mine.py").write_text(MINE)
        for name, seed in (("finished", "0"), ("other", "1")):
            said = call(
                "run", f"{folder}/mine.py:Mine", *SETTINGS, "--seed", seed, "--out", str(folder / name)
            )
            assert said.code == 0, said.err
        shutil.copytree(folder / "finished", folder / "unfinished")
        erase_whole(folder / "unfinished", "summary.json")
        forget_end(folder / "unfinished", {})
        previous = folder / "unfinished" / "checkpoint" / "manifest.previous.json"
        previous.replace(previous.with_name("manifest.json"))
        for file in previous.parent.glob("*-4.safetensors"):  # of no checkpoint now
            file.unlink()
        self.truth = {name: self.read(name) for name in ("finished", "unfinished")}

    def read(self, name: str | None) -> tuple[Said, list[object]]:
        """What `show` prints, and the rounds of the run after `resume`."""
        if name is not None:
            self.place(name)
        shown, resumed = call("show", str(self.run)), call("resume", str(self.run), "--quiet")
        rounds = [] if resumed.code else [_timeless(line) for line in Outcome.read(self.run).lines]
        return Said(shown.code or resumed.code, shown.out, shown.err + resumed.err), rounds

    def place(self, name: str) -> None:
        """A fresh copy."""
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.copytree(self.folder / name, self.run)

    def corrupt(self, state: str, file: str, kind: Corrupt, chance: random.Random) -> Result | None:
        """One corruption; None if it changed nothing."""
        self.place(state)
        path, before = self.run / file, (self.run / file).read_bytes()
        kind(path, self.folder / "other" / file, chance)
        if path.exists() and path.read_bytes() == before:
            return None
        noticed = call("verify", str(self.run)).code != 0
        said, rounds = self.read(None)
        true, true_rounds = self.truth[state]
        name = f"{state} {re.sub(r'-[0-9-]+', '-N', file)}"
        if said.code:
            outcome = "refused" if "protofed: error: " in said.err else "SILENT"
        elif said.out != true.out or rounds != true_rounds:
            outcome = "SILENT"  # other numbers: even a warning would not do
        elif said.err != true.err:
            outcome = "told"
        else:
            outcome = "harmless" if noticed or _torn(path, before) else "SILENT"
        return Result(name, kind.__name__, outcome, said.err.strip())


def _timeless(line: dict[str, object]) -> object:
    return {key: value for key, value in line.items() if not key.endswith("seconds")}


def _torn(path: Path, before: bytes) -> bool:
    """Lines after the last checkpoint that are cut off: as a crash leaves them, or one a moment earlier."""
    return path.suffix == ".jsonl" and path.exists() and before.startswith(path.read_bytes())


def corruptions(bench: Bench, count: int, seed: int) -> Iterator[Result]:
    """As many as asked for, each file and each kind in turn."""
    chance = random.Random(seed)
    plan = [
        (state, str(path.relative_to(bench.folder / state)), kind)
        for state in ("finished", "unfinished")
        for path in sorted((bench.folder / state).rglob("*"))
        if path.is_file()
        for kind in KINDS
    ]
    done = 0
    while done < count:
        chance.shuffle(plan)
        for state, file, kind in plan:
            result = bench.corrupt(state, file, kind, chance)
            if result is not None:
                done += 1
                yield result
            if done == count:
                return


def table(results: list[Result]) -> str:
    """How many corruptions of each file ended how."""
    outcomes = ("refused", "told", "harmless", "SILENT")
    counts = Counter((one.file, one.outcome) for one in results)
    rows = [
        (file, *(str(counts[file, o]) for o in outcomes)) for file in sorted({one.file for one in results})
    ]
    total = Counter(one.outcome for one in results)
    rows.append((f"all {len(results)}", *(str(total[o]) for o in outcomes)))
    return "\n".join("{:48}{:>9}{:>9}{:>9}{:>9}".format(*row) for row in [("file", *outcomes), *rows])


if __name__ == "__main__":
    count, seed = (int(a) for a in [*sys.argv[1:], *("500", "0")[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as folder:
        found = list(corruptions(Bench(Path(folder)), count, seed))
    silent = [one for one in found if one.outcome == "SILENT"]
    sys.stdout.write("\n".join([table(found), *map(str, silent)]) + "\n")
    sys.exit(bool(silent))

"""One server and three clients on this machine, over TLS with keys: a rehearsal of a real deployment.

    python examples/deploy_three_sites/run.py [DIR]

Three sites classify handwritten digits. Each has its own architecture, its own classes and its own
numbering of them: class 0 of `north` is "zero", class 0 of `east` is "seven". Only the names are agreed.
The script writes a federation with `protofed deploy init`, lets each site make its key and enters the public
halves (`deploy join`, `deploy accept`), starts the server and the clients as separate processes, waits for
the end, and compares the server's state with a run of the same federation in one process. Everything is
stopped at the end, whatever happens.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from protofed.data import load
from protofed.deploy.processes import free_port
from protofed.runs.directory import RunDir

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SITES = {
    "north": ("small_cnn:width=8,dim=32", (0, 1, 2, 3, 4, 5)),
    "east": ("small_cnn:width=12,dim=32", (7, 6, 5, 4, 3)),
    "south": ("mlp:dim=32", (9, 8, 7, 0, 1)),
}
RECIPE = """\
method = "{method}"
rounds = {rounds}
epochs = 3
lr = 0.05
eval_every = {rounds}
{more}
[transport]
round_timeout = {timeout}
min_clients = {quorum}
repeats = {repeats}
"""
# Each class is held by two sites at most; with three or more, leave secure_holders at its default, 3.
SECURE = "secure = true\nsecure_holders = 2\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where to work (default: a temporary directory)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10, help="give up after so long")
    parser.add_argument("--secure", action="store_true", help="with secure sums: the server sees sums alone")
    parser.add_argument("--method", default="fedproto", help="such as fedcommons (default: fedproto)")
    args = parser.parse_args()
    given = (args.rounds, args.minutes, args.secure, args.method)
    if args.folder:
        return deploy(args.folder, *given)
    with tempfile.TemporaryDirectory() as folder:
        return deploy(Path(folder), *given)


def deploy(folder: Path, rounds: int, minutes: float, secure: bool = False, method: str = "fedproto") -> int:
    federation = folder / "federation"
    write_federation(federation, rounds, method=method, more=SECURE if secure else "")
    run = folder / "run"
    server = start("server", str(federation / "server"), "--out", str(run))
    clients = [start("client", str(federation / "clients" / name)) for name in SITES]
    try:
        code = server.wait(timeout=60 * minutes)
    finally:
        stop([server, *clients])
    if code:
        return code
    protofed("status", str(run))
    protofed("show", str(run))
    protofed("deploy", "rehearse", str(federation), "--out", str(folder / "rehearsal"))
    difference = compare(run, folder / "rehearsal")
    for line in RunDir.open(run).lines("metrics.jsonl"):
        up, down = (f"{line['wire'][way] // len(SITES):,}" for way in ("up", "down"))
        print(f"round {line['round']}: {line['seconds']:.1f} s; {up} bytes up and {down} down a client")
    print(f"largest difference to the same federation in one process: {difference:.2g}")
    return 0 if difference < 1e-4 else 1


def write_federation(
    folder: Path,
    rounds: int,
    timeout: float = 300,
    quorum: int = 2,
    repeats: int = 2,
    host: str = "127.0.0.1",
    method: str = "fedproto",
    more: str = "",
) -> None:
    """`deploy init`, then each site's key, data, model and class names. `more`: lines of the recipe."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    recipe = folder.with_suffix(".toml")
    values = {"rounds": rounds, "timeout": timeout, "quorum": quorum, "repeats": repeats, "method": method}
    recipe.write_text(RECIPE.format(**values, more=more))
    port, names = str(free_port()), ",".join(SITES)
    more = ("--host", host, "--port", port, "--recipe", str(recipe), "--own-keys")
    protofed("deploy", "init", str(folder), "--clients", names, *more)
    for number, (name, (model, digits)) in enumerate(SITES.items()):
        site = folder / "clients" / name
        protofed("deploy", "join", str(site))
        protofed("deploy", "accept", str(folder), name, str(site / "key.pub"))
        write_data(site / "data.npz", number, digits)
        lines = (site / "client.toml").read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("model", "data"))]
        words = ", ".join(f'"{WORDS[digit]}"' for digit in digits)
        kept += [f'model = "{model}"', 'data = "npz:data.npz"', f"classes = [{words}]"]
        (site / "client.toml").write_text("\n".join(kept) + "\n")


def write_data(path: Path, number: int, digits: tuple[int, ...]) -> None:
    """Every third row of scikit-learn's digits, of these classes, in the site's own numbering."""
    digit_set = load("digits")
    mine = np.isin(digit_set.y, digits) & (np.arange(len(digit_set.y)) % len(SITES) == number)
    label = np.array([digits.index(y) if y in digits else -1 for y in range(10)])
    parts = {}
    for part, rows in (("train", mine & ~digit_set.test), ("test", mine & digit_set.test)):
        parts[f"x_{part}"] = digit_set.x[rows]
        parts[f"y_{part}"] = label[digit_set.y[rows]]
    np.savez(path, **parts)


def compare(run: Path, other: Path) -> float:
    """Largest absolute difference between the server states of two runs."""
    one, two = last_state(run), last_state(other)
    if one.keys() != two.keys():
        return float("inf")
    gaps = [(one[name].double() - two[name].double()).abs().max() for name in one if one[name].numel()]
    return float(torch.stack(gaps).max())


def last_state(run: Path) -> dict[str, torch.Tensor]:
    checkpoints = RunDir.open(run).checkpoints
    states = sorted(checkpoints.directory.glob("state-*.safetensors"), key=lambda p: int(p.stem[6:]))
    return safetensors.torch.load_file(states[-1])


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "protofed.cli.main", *arguments])


def protofed(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "protofed.cli.main", *arguments], check=True)


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())

"""What is fuzzed: for each kind of input a sound example, how it is changed, and the reader that gets it.

A reader may return, or raise a ProtofedError of one line. Anything else is a fault of ours.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import random
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mutate import changed, changed_bytes, changed_text

from protofed.config import read_recipe, resolve
from protofed.data import images
from protofed.data.check import check_dataset
from protofed.data.pfllib_files import read_clients
from protofed.data.source.common import as_dataset
from protofed.data.source.csv import Csv
from protofed.data.source.npz import KEYS, OPTIONAL, read_arrays, table
from protofed.data.source.parquet import Parquet
from protofed.deploy.agreement import Agreement, Member, agree, parse_member
from protofed.deploy.audit import NAME as AUDIT
from protofed.deploy.audit import Audit, check_audit
from protofed.engines.base import Job
from protofed.engines.checks import Checks, Outside, Reference
from protofed.engines.store import Store
from protofed.flower.codec import pack, unpack
from protofed.flower.messages import read_job, read_reply, read_score, write_job, write_reply, write_score
from protofed.flower.packet import Packet
from protofed.models.weights import read_state
from protofed.runs.directory import RunDir
from protofed.runs.loose import read_loose, write_loose
from protofed.runs.outcome import Outcome
from protofed.testing import Toy


@dataclass(frozen=True)
class Target:
    """`make` gives a changed input, `read` takes it; `share` of all cases; `from_afar`: errors must be short,
    because somebody else chooses what is in them."""

    make: Callable[[random.Random], Any]
    read: Callable[[Any], Any]
    share: float
    from_afar: bool = False


def targets(folder: Path) -> dict[str, Target]:
    """All targets; files are written into `folder`."""
    return {**_messages(), **_hellos(), **_settings(folder), **_run_files(folder), **_data_files(folder)}


# messages


def _messages() -> dict[str, Target]:
    made = Toy("fedproto").build()
    jobs: list[Job] = []
    replies: list[Any] = []
    run = made.federation.engine.run

    def record(some: Any) -> Any:
        jobs.extend(some)
        replies.extend(run(some))
        return iter(replies)

    made.federation.engine.run = record  # type: ignore[method-assign]
    made.federation.play()
    score = made.federation.evaluate([1])[0]
    task, job, reply = made.task, jobs[1], replies[1]
    meta, arrays = write_reply(reply)
    tested, _ = write_score(score)
    asked = write_job(job)
    down = job.down.arrays()
    reference = Reference(lambda client: made.data.train(client))
    reference.learn(job.turn, job.leg, job.down)
    checks = Checks(task, Outside(reference, 1e6, made.data.size, counted=True))
    buffer, codes = pack(arrays, "int8")

    def read_upload(packet: Packet) -> None:
        checks.problem(read_reply(job, packet), job.leg, 1)

    modes = task.algorithm.modes
    return {
        "reply": Target(lambda rng: _packet(meta, arrays, rng), read_upload, 0.16, True),
        "buffer": Target(lambda rng: changed_bytes(buffer, rng), lambda data: unpack(data, codes), 0.1, True),
        "codes": Target(lambda rng: changed_text(codes, rng), lambda text: unpack(buffer, text), 0.04, True),
        "score": Target(
            lambda rng: _packet(tested, {}, rng),
            lambda packet: read_score(1, packet, task.C, modes, score.n),
            0.14,
            True,
        ),
        "job": Target(
            lambda rng: _packet(asked, down, rng), lambda packet: read_job(task, 1, packet), 0.07, True
        ),
    }


def _packet(meta: dict[str, Any], arrays: dict[str, torch.Tensor], rng: random.Random) -> Packet:
    spoil = arrays and rng.random() < 0.5
    told = changed(meta, rng) if not spoil or rng.random() < 0.2 else meta
    return Packet(told if isinstance(told, dict) else {}, _arrays(arrays, rng, spoil))


def _arrays(arrays: dict[str, torch.Tensor], rng: random.Random, spoil: Any) -> dict[str, torch.Tensor]:
    if not spoil:
        return dict(arrays)
    made = dict(arrays)
    name = rng.choice(list(made))
    tensor = made[name].clone()
    what = rng.randrange(6)
    if what == 0 and tensor.numel():
        whole, floats = (1, -1, 0, 7, 2**40, 2**62), (1e30, 3e38, math.inf, math.nan)
        value = rng.choice((*whole, *floats) if tensor.is_floating_point() else whole)
        tensor.view(-1)[rng.randrange(tensor.numel())] = value
    elif what == 1:
        types = (torch.float16, torch.float64, torch.int64, torch.int8, torch.bool, torch.complex64)
        tensor = tensor.to(rng.choice(types))
    elif what == 2:
        tensor = rng.choice((tensor.reshape(-1), tensor[None], tensor[:0], torch.tensor(1), tensor.T))
    elif what == 3:
        del made[name]
        return made
    elif what == 4:
        made[rng.choice((name + "x", "weights/gift", "", "x" * 1000, f"{name}/{name}"))] = tensor
    else:
        tensor = torch.cat([tensor, tensor]) if tensor.ndim else tensor
    made[name] = tensor
    return made


# hellos


def _hellos() -> dict[str, Target]:
    members = [
        Member("north", "mlp", (1, 8, 8), 64, ("a", "b"), 100, 20, files={"m.py": "ab" * 16}),
        Member("south", "mlp", (1, 8, 8), 64, ("b", "c"), 80, 20),
    ]
    hello = json.dumps(dataclasses.asdict(members[0]))
    agreed = agree("run", resolve({"method": "fedproto"}), [members[1]], ()).to_json()
    return {
        "hello": Target(lambda rng: changed_text(hello, rng), parse_member, 0.12, True),
        "agreement": Target(lambda rng: changed_text(agreed, rng), Agreement.of_json, 0.06, True),
    }


# settings

RECIPE = """
method = "fedproto"
data = "digits"
partition = "dirichlet:beta=0.5"
models = "small_cnn|mlp"
clients = 6
seed = 3
options = { lam = 0.5, agg = "uniform" }
[train]
lr = 0.05
momentum = 0.5
[rounds]
rounds = 4
participation = 0.5
[transport]
min_clients = 2
"""
TOML_BITS = (b"[" * 3000, b"a." * 3000, b"= inf", b"= nan", b"9" * 5000, b"'''", b"[[x]]", b"\0", b"{}", b"=")


def _settings(folder: Path) -> dict[str, Target]:
    settings = resolve({"method": "fedproto"}).to_dict()

    def recipe(data: bytes) -> None:
        (folder / "recipe.toml").write_bytes(data)
        resolve(read_recipe(folder / "recipe.toml"))

    def config(text: str) -> None:
        (folder / "config.json").write_text(text, errors="replace")
        resolve(read_recipe(folder / "config.json"))

    written = json.dumps(settings)
    return {
        "recipe": Target(lambda rng: changed_bytes(RECIPE.encode(), rng, TOML_BITS), recipe, 0.01),
        "config": Target(lambda rng: changed_text(written, rng), config, 0.02),
    }


# run directories


def _run_files(folder: Path) -> dict[str, Target]:
    from protofed import run

    out = folder / "run"
    quick = {"models": "mlp", "clients": 3, "epochs": 1, "engine": "sequential", "rounds": 2}
    run("fedproto", out=out, **quick)
    kind = Toy("fedproto").build().federation.state
    whole = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    of_run = [path for path in whole if path.parent == out]
    saved = [path for path in whole if path.parent != out]

    def spoilt(paths: list[Path]) -> Callable[[random.Random], tuple[Path, bytes]]:
        def make(rng: random.Random) -> tuple[Path, bytes]:
            path = rng.choice(paths)
            if path.suffix == ".json" and rng.random() < 0.6:
                return path, changed_text(whole[path].decode(), rng).encode("utf-8", "replace")
            return path, changed_bytes(whole[path], rng)

        return make

    def with_file(read: Callable[[], Any]) -> Callable[[tuple[Path, bytes]], None]:
        def look(case: tuple[Path, bytes]) -> None:
            path, data = case
            path.write_bytes(data)
            try:
                read()
            finally:
                path.write_bytes(whole[path])

        return look

    def shown() -> None:
        found = Outcome.read(out)
        _ = found.finished, found.title, found.findings, found.baseline, found.summary(), found.one_class

    def loaded() -> None:
        RunDir(out).checkpoints.load(type(kind), Store())

    return {
        "run": Target(spoilt(of_run), with_file(shown), 0.01),
        "checkpoint": Target(spoilt(saved), with_file(loaded), 0.01),
        **_notes(folder),
    }


def _notes(folder: Path) -> dict[str, Target]:
    """What a deployment's server keeps beside its run, and its audit log."""
    home = folder / "notes"
    home.mkdir(exist_ok=True)
    write_loose(home / "deployment.json", {"server": "/somewhere", "mark": "0123"})
    write_loose(home / "status.json", {"state": "running", "clients": {"a": {"seen": 1.5}}, "missing": []})
    for number in range(3):
        Audit(home, "run").note("joined", client=f"c{number}")
    whole = {path.name: path.read_bytes() for path in home.iterdir()}

    def make(rng: random.Random) -> tuple[str, bytes]:
        name = rng.choice(sorted(whole))
        return name, changed_bytes(whole[name], rng)

    def read(case: tuple[str, bytes]) -> None:
        name, data = case
        path = _put(home / name, data)
        try:
            check_audit(path) if name == AUDIT else read_loose(path)
            if name == AUDIT:
                Audit(home, "run").note("later")
        finally:
            path.write_bytes(whole[name])

    return {"notes": Target(make, read, 0.01)}


# data files


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def _zipped(members: dict[str, bytes], rng: random.Random) -> bytes:
    """An archive of which a member is changed before it is packed, or the packed bytes."""
    if inside := rng.random() < 0.75:
        name = rng.choice(list(members))
        members = {**members, name: changed_bytes(members[name], rng)}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        for name, data in members.items():
            out.writestr(name, data)
    return stream.getvalue() if inside else changed_bytes(stream.getvalue(), rng)


def _data_files(folder: Path) -> dict[str, Target]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y, "owner_train": y, "owner_test": y}
    npz = {f"{name}.npy": _npy(array) for name, array in arrays.items()}
    client = {"data.npy": _npy(np.array({"x": x, "y": y}, dtype=object))}
    (folder / "train").mkdir(exist_ok=True)
    header = "a,b,label,test\n"
    csv = (header + "".join(f"{a:.3f},{b:.2f},c{c},{c % 2}\n" for (a, b), c in zip(x[:, :2], y))).encode()
    return {
        "npz": Target(lambda r: _zipped(npz, r), lambda data: _read_npz(_put(folder / "a.npz", data)), 0.05),
        "pfllib": Target(
            lambda r: _zipped(client, r),
            lambda data: read_clients(_put(folder / "train" / "0.npz", data).parents[1], "train"),
            0.05,
        ),
        "csv": Target(
            lambda r: changed_bytes(csv, r, (b'"', b",", b"\n", b"1e999", b"nan", b"9" * 400)),
            lambda data: check_dataset(Csv(path=str(_put(folder / "a.csv", data)), test="test").load()),
            0.05,
        ),
        **_pictures(folder),
        **_weights(folder),
    }


def _put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _read_npz(path: Path) -> None:
    check_dataset(as_dataset("a", table(read_arrays(path, KEYS, OPTIONAL), str(path))))


def _pictures(folder: Path) -> dict[str, Target]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    pictures = []
    for kind in ("PNG", "JPEG", "GIF", "BMP"):
        stream = io.BytesIO()
        Image.effect_noise((8, 8), 50).save(stream, kind)
        pictures.append(stream.getvalue())
    stream = io.BytesIO()
    rows = {"image": pictures[:1] * 4, "label": ["a", "b", "a", "b"], "owner": ["x", "y", "x", "y"]}
    pq.write_table(pa.table(rows), stream)
    written = stream.getvalue()

    def parquet(data: bytes) -> None:
        path = _put(folder / "a.parquet", data)
        Parquet(path=str(path)).decode([path], [], "a")

    return {
        "image": Target(
            lambda rng: changed_bytes(rng.choice(pictures), rng),
            lambda data: images.decode_images([("picture", data)]),
            0.05,
        ),
        "parquet": Target(lambda rng: changed_bytes(written, rng), parquet, 0.02),
    }


def _weights(folder: Path) -> dict[str, Target]:
    stream = io.BytesIO()
    torch.save({"head.weight": torch.zeros(3, 4), "head.bias": torch.zeros(3)}, stream)
    with zipfile.ZipFile(stream) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    plain = pack({"head.weight": torch.zeros(3, 4)})[0]

    def read(case: tuple[str, bytes]) -> None:
        read_state(str(_put(folder / case[0], case[1])), "weights")

    return {
        "torch file": Target(lambda rng: ("w.pt", _zipped(members, rng)), read, 0.01),
        "weights": Target(lambda rng: ("w.safetensors", changed_bytes(plain, rng)), read, 0.02),
    }


def fresh_folder() -> Path:
    """A folder in memory where there is one: files are written a hundred thousand times."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="protofed-fuzz-", dir=shared if shared.is_dir() else None))

"""Bad input: one clear line, an exit code, no traceback. Odd but possible input: it works."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from refusals import SMALL, Call, assert_refused

from protofed.data import Dataset, Partitioner, Rows, Split, partitions
from protofed.runs.directory import RunDir


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["runn"], ["unknown command 'runn'; did you mean 'run'?"]),
        (["--quiet", "run"], ["expected a command first, got '--quiet'"]),
        (["run", "fedprotto"], ["unknown method 'fedprotto'; did you mean 'fedproto'", ".toml recipe"]),
        (["run", "fedproto", "--lamm", "1"], ["unknown option '--lamm'; did you mean '--lam'"]),
        (["run", "fedproto", "--lam", "much"], ["method fedproto: lam: expected a number, got 'much'"]),
        (["run", "fedproto", "--lam"], ["argument --lam: expected one argument"]),
        (["run", "fedproto", "--lam", "-1"], ["method fedproto: lam: must be at least 0, got -1.0"]),
        (["run", "fedproto", "--set", "lamm=1"], ["unknown option 'lamm'; did you mean 'lam'?"]),
        (["run", "fedproto", "--set", "lam"], ["--set 'lam': expected KEY=VALUE"]),
        (["run", "fedproto", "more"], ["unexpected argument 'more'"]),
        (["run", "fedproto", "lam=2"], ["unexpected argument 'lam=2'", "--set lam=2"]),
        (["sweep", "fedproto", "lam=0,1"], ["unexpected argument", "--over lam=0,1"]),
        (["run", "--preset", "papre"], ["method fedproto: unknown preset 'papre'; did you mean 'paper'?"]),
        (["run", "--optimizer", "sdg"], ["optimizer: unknown value 'sdg'; did you mean 'sgd'"]),
        (["run", "--lr", "nan"], ["lr: must be a finite number, got nan"]),
        (["run", "--rounds", "2.5"], ["rounds: expected a whole number, got '2.5'"]),
        (["run", "--rounds", "0"], ["error: settings: rounds: must be at least 1, got 0"]),
        (["run", "--clients", "0"], ["clients must be at least 1, got 0"]),
        (["run", "--data", "digts"], ["unknown data 'digts'; did you mean 'digits'"]),
        (["run", "--data", "npz:none.npz"], ["none.npz: no such file"]),
        (["run", "--partition", "nwya"], ["unknown partition 'nwya'; did you mean 'nway'?"]),
        (["run", "--partition", "nway:m=3"], ["partition nway: unknown option 'm'"]),
        (["run", "--partition", "nway:n=11"], ["n=11 but the data has 10 classes"]),
        (["run", "--partition", "nway:k=5000"], ["needs training rows", "lower k"]),
        (["run", "--partition", "iid", "--clients", "5000"], ["digits has 1347", "use fewer clients"]),
        (["run", "--models", "mlpp"], ["unknown model 'mlpp'; did you mean 'mlp'?"]),
        (["run", "--models", "mlp:dimm=3"], ["model mlp: unknown option 'dimm'; did you mean 'dim'?"]),
        (["run", "--models", "fp_cnn"], ["images of 8x8 are too small", "small_cnn"]),
        (
            ["run", "fedproto", "--models", "mlp|small_cnn"],
            ["fedproto needs embeddings of one size", "mlp: 32, small_cnn: 50", "small_cnn:dim=32"],
        ),
        (
            ["run", "fedavg", "--models", "mlp|mlp:hidden=8"],
            ["fedavg needs one architecture", "got 2 (mlp, mlp:hidden=8)", "fedproto"],
        ),
        (["run", "--sample", "50"], ["sample: 50 clients a round, but only 20 take part"]),
        (["run", "--newcomers", "20"], ["newcomers: 20 of 20 clients would leave nobody to train"]),
        (["run", "--device", "toaster"], ["device 'toaster' cannot be used", "use cpu"]),
        (["run", "--public", "nowhere"], ["unknown data 'nowhere'"]),
        (["show", "none"], ["none is not a run directory"]),
        (["resume", "none"], ["none is not a run directory"]),
        (["list", "methds"], ["invalid choice: 'methds'"]),
        (["list", "methods", "fedprto"], ["unknown method 'fedprto'; did you mean 'fedproto'"]),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_mistakes_on_the_command_line(call: Call, argv: list[str], words: list[str]) -> None:
    assert_refused(call(*argv), *words, code=1 if argv[0] in ("show", "resume") else 2)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", None, ["recipe a.toml: No such file or directory"]),
        ("a.toml", "method = \nseed = 1", ["recipe a.toml: not valid TOML", "line 1"]),
        ("a.json", "{", ["recipe a.json: not valid JSON", "line 1"]),
        ("a.json", "[1]", ["recipe a.json: expected a table of settings, got a list"]),
        ("a.toml", "clints = 4", ["unknown setting 'clints'; did you mean 'clients'"]),
        ("a.toml", "[train]\nlrr = 1", ["train: unknown option 'lrr'; did you mean 'lr'?"]),
        ("a.toml", "train = 1", ["train: expected a table of settings, got 1"]),
        ("a.toml", "options = 1", ["options: expected a table of the method's options, got 1"]),
        ("a.toml", "method = 1", ["method: expected a name, got 1"]),
        ("a.toml", "method = ['fedproto']", ["method: expected a name, got ['fedproto']"]),
        ("a.toml", "preset = 1", ["preset: expected a name, got 1"]),
        ("a.toml", "method = 'fedporto'", ["unknown method 'fedporto'; did you mean 'fedproto'"]),
        ("a.toml", "rounds = inf", ["rounds: expected a whole number, got inf"]),
        ("a.toml", "data = 3", ["data: expected text, got 3"]),
    ],
)
def test_mistakes_in_a_recipe(call: Call, name: str, text: str | None, words: list[str]) -> None:
    if text is not None:
        Path(name).write_text(text)
    assert_refused(call("run", name), *words)


def test_a_recipe_that_is_no_text(call: Call) -> None:
    Path("a.toml").write_bytes(b"\xff\xfe\x00")
    assert_refused(call("run", "a.toml"), "recipe a.toml: not valid TOML")


# data


def archive(**changes: Any) -> str:
    """npz:PATH of 200 + 40 random images of 8×8 and ten classes."""
    x = np.random.default_rng(0).random((240, 1, 8, 8)).astype(np.float32)
    y = np.arange(240) % 10
    arrays = {"x_train": x[:200], "y_train": y[:200], "x_test": x[200:], "y_test": y[200:], **changes}
    np.savez("own.npz", **{name: array for name, array in arrays.items() if array is not None})
    return "npz:own.npz"


def with_nan() -> np.ndarray:
    x = np.zeros((200, 1, 8, 8), dtype=np.float32)
    x[7, 0, 3, 3] = np.nan
    return x


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x_train": with_nan()}, ["own: row 7 of x holds NaN or infinity"]),
        ({"y_train": np.full(200, -3)}, ["label -3"]),
        ({"y_train": np.arange(199) % 10}, ["x_train has 200 rows, y_train has 199"]),
        ({"y_test": None}, ["key 'y_test' is missing"]),
    ],
)
def test_damaged_data(call: Call, changes: dict[str, Any], words: list[str]) -> None:
    assert_refused(call("run", "--data", archive(**changes), *SMALL), *words)


def test_a_file_that_is_no_archive(call: Call) -> None:
    Path("own.npz").write_bytes(b"PK\x03\x04 not really")
    assert_refused(
        call("run", "--data", "npz:own.npz", *SMALL), "own.npz", "cannot be read as an .npz archive"
    )


@dataclass(frozen=True)
class Lopsided(Partitioner):
    """All rows to the first client."""

    name: ClassVar[str] = "lopsided"

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rows = [np.flatnonzero(~dataset.test)] + [np.empty(0, np.int64)] * (clients - 1)
        return Split(Rows.of(rows), Rows.of([np.empty(0, np.int64)] * clients))


def test_a_client_without_samples(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(partitions._classes, "lopsided", Lopsided)
    got = call("run", "--partition", "lopsided", *SMALL)
    assert_refused(got, "client 1 has no training samples (3 such clients of 4)", "use fewer clients")


def test_a_class_on_no_client_works(call: Call) -> None:
    """Two clients of two classes each: at least six classes belong to nobody and get no prototype."""
    got = call("run", "--partition", "nway:n=2,stdev=0,k=5", *SMALL, "--clients", "2", "--out", "a", "--json")
    assert (got.code, got.err) == (0, "")
    assert RunDir.open(Path("a")).lines("metrics.jsonl")[-1]["down"]["params"] <= 2 * 4 * 32


def test_fewer_samples_than_a_batch_work(call: Call) -> None:
    argv = ("--partition", "nway:n=2,stdev=0,k=2", *SMALL, "--batch-size", "512", "--drop-last")
    assert call("run", *argv, "--out", "a", "--quiet") == (0, "", "")
    assert RunDir.open(Path("a")).lines("metrics.jsonl")[-1]["samples"] == 4 * 2 * 2


def test_clients_without_test_samples_work(call: Call) -> None:
    """Client 0 has none: it is left out of the mean, and its accuracy is null."""
    x = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    owner = np.repeat(np.arange(4), 10)
    data = archive(
        x_train=x,
        y_train=np.arange(40) % 10,
        x_test=x[10:],
        y_test=np.arange(10, 40) % 10,
        owner_train=owner,
        owner_test=owner[10:],
    )
    assert call("run", "--data", data, "--partition", "natural", *SMALL, "--out", "a").code == 0
    run = RunDir.open(Path("a"))
    assert run.lines("metrics.jsonl")[-1]["tested_clients"] == 3
    accuracy = run.lines("clients.jsonl")[-1]["acc"]["clf"]
    assert accuracy[0] is None
    assert all(value is not None for value in accuracy[1:])


def test_no_test_samples_at_all_work(call: Call) -> None:
    none = {"x_test": np.empty((0, 1, 8, 8), np.float32), "y_test": np.empty(0, np.int64)}
    owner = np.arange(200) % 4
    data = archive(**none, owner_train=owner, owner_test=owner[:0])
    got = call("run", "--data", data, "--partition", "natural:train=1.0", *SMALL, "--out", "a")
    assert got.code == 0, got.err
    assert RunDir.open(Path("a")).lines("metrics.jsonl")[-1]["acc"] == {}
    assert call("show", "a").code == 0


def test_without_epochs_only_methods_run_that_have_epochs_of_their_own(call: Call) -> None:
    assert_refused(call("run", *SMALL, "--epochs", "0"), "epochs: with 0, fedproto trains nothing")
    assert call("run", "fedrep", *SMALL, "--epochs", "0", "--out", "a", "--quiet").code == 0
    assert RunDir.open(Path("a")).lines("metrics.jsonl")[-1]["train_loss"] is not None

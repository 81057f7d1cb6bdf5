"""A run keeps the user's files: it goes on from anywhere, and notices when one has changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import SMALL, Call, assert_refused

from protofed.core.checksums import digest
from protofed.runs.fingerprint import of_file, of_package

MINE = "fedmedian.py:FedMedian"


@pytest.fixture
def run(call: Call) -> Call:
    """A run of two rounds in the folder r."""
    assert call("run", MINE, *SMALL, "--out", "r", "--quiet").code == 0
    return call


def rounds() -> int:
    return len(Path("r/metrics.jsonl").read_text().splitlines())


def change(path: Path) -> None:
    path.write_text(path.read_text() + "# changed\n")


def fingerprints() -> dict[str, str]:
    return dict(json.loads(Path("r/about.json").read_text())["fingerprints"])


def test_fingerprints(tmp_path: Path) -> None:
    """They differ when the content differs, and only then."""
    one, two = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"x")
    two.write_bytes(b"x")
    assert of_file(one) == of_file(two) == digest(b"x") != digest(b"y")
    assert of_package("torch")
    assert of_package("nothing-of-that-name") == ""


def test_a_run_records_file_and_fingerprint(run: Call, folder: Path) -> None:
    assert fingerprints()["fedmedian.py"] == of_file(folder / "fedmedian.py")
    assert Path("r/files/fedmedian.py").read_bytes() == (folder / "fedmedian.py").read_bytes()
    (kept,) = json.loads(Path("r/files/index.json").read_text())
    assert (kept["written"], kept["path"]) == ("fedmedian.py", str(folder / "fedmedian.py"))


def test_resume_from_another_folder(run: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    found = run("resume", "../r", "--rounds", "3", "--quiet")
    assert (found.code, found.err) == (0, "")


def test_a_changed_file_is_refused_until_the_user_decides(run: Call, folder: Path) -> None:
    change(folder / "fedmedian.py")
    assert_refused(run("resume", "r", "--rounds", "3"), "has changed since r began", "--changed", code=1)
    assert rounds() == 2
    kept = run("resume", "r", "--rounds", "3", "--quiet", "--changed", "kept")
    assert kept.code == 0
    assert "taking the run's copy" in kept.err
    assert_refused(run("resume", "r", "--rounds", "4"), "has changed since r began", code=1)
    assert run("resume", "r", "--rounds", "4", "--quiet", "--changed", "current").code == 0
    assert "changed" not in run("resume", "r", "--rounds", "5", "--quiet").err
    assert rounds() == 5
    assert fingerprints()["fedmedian.py"] == of_file(folder / "fedmedian.py")
    assert json.loads(Path("r/files/index.json").read_text())[0]["earlier"] != []


def test_reading_takes_the_copy(run: Call, folder: Path) -> None:
    """A report of a run whose method is broken or gone by now."""
    (folder / "fedmedian.py").write_text("nonsense(")
    assert run("report", "r", "--out", "r.html").code == 0
    assert "taking the run's copy" in run("report", "r", "--out", "r.html").err
    (folder / "fedmedian.py").unlink()
    gone = run("resume", "r", "--rounds", "3", "--quiet")
    assert gone.code == 0
    assert "is gone; taking the run's copy" in gone.err
    assert run("run", "r/config.json", "--out", "again", "--quiet").code == 0


def test_a_damaged_copy_is_not_taken(run: Call, folder: Path) -> None:
    (folder / "fedmedian.py").unlink()
    change(Path("r/files/fedmedian.py"))
    assert_refused(run("resume", "r", "--rounds", "3"), "is damaged", code=1)


def test_files_beside_it_belong_to_it(call: Call, folder: Path) -> None:
    """The method takes its λ from another file; a change there counts too, and the copy is whole."""
    text = (folder / "fedmedian.py").read_text().replace("option(1.0,", "option(my_values_of_lambda.LAM,")
    (folder / "fedmedian.py").write_text("import my_values_of_lambda\n" + text)
    (folder / "my_values_of_lambda.py").write_text("LAM = 0.25\n")
    assert call("run", MINE, *SMALL, "--out", "r", "--quiet").code == 0
    assert {"fedmedian.py", "my_values_of_lambda.py"} <= set(fingerprints())
    change(folder / "my_values_of_lambda.py")
    assert_refused(call("resume", "r", "--rounds", "3"), "has changed", code=1)
    assert call("resume", "r", "--rounds", "3", "--changed", "kept", "--quiet").code == 0


def test_a_comparison_runs_a_changed_file_anew(call: Call, folder: Path) -> None:
    argv = ("compare", "local", MINE, *SMALL, "--seeds", "1", "--out", "c", "--quiet")
    assert call(*argv).code == 0
    assert call(*argv).code == 0
    assert len(list(Path("c/runs").iterdir())) == 2
    change(folder / "fedmedian.py")
    assert call(*argv).code == 0
    assert len(list(Path("c/runs").iterdir())) == 3


def test_a_model_file_is_kept_too(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "nets.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, num_classes):\n"
        "        super().__init__()\n"
        "        self.base = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))\n"
        "        self.head = nn.Linear(8, num_classes)\n"
        "    def forward(self, x):\n"
        "        return self.head(self.base(x))\n"
    )
    settings = ("--models", "module:nets.py:Net", "--clients", "4", "--rounds", "1", "--quiet")
    assert call("run", "fedproto", *settings, "--out", "r").code == 0
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert call("resume", "../r", "--rounds", "2", "--quiet").code == 0
    change(folder / "nets.py")
    assert_refused(call("resume", "../r", "--rounds", "3"), "nets.py has changed", code=1)


def test_a_forced_run_drops_the_copies(run: Call) -> None:
    assert run("run", "fedproto", *SMALL, "--out", "r", "--force", "--quiet").code == 0
    assert not Path("r/files").exists()

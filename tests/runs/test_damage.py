"""What is not what the run wrote is recovered or refused, and said; never believed in silence."""

from __future__ import annotations

import json
import logging
import multiprocessing
import shutil
from pathlib import Path

import pytest
from run_surgery import forget_checksums, unfinish

from protofed.cli.main import main
from protofed.core.errors import DamageError, RunError
from protofed.runs.directory import RunDir
from protofed.runs.outcome import Outcome
from protofed.runs.seals import COPIES
from protofed.runs.verify import verify, worst

SMALL = (
    *("--models", "mlp:dim=4,hidden=4", "--clients", "2", "--epochs", "1"),
    *("--engine", "sequential", "--quiet"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run"
    assert main(["run", "fedproto", *SMALL, "--rounds", "5", "--out", str(path)]) == 0
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of five rounds, in the folder a."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, "a")
    return Path("a")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_whole_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "a", "a"]) == 0
    assert capsys.readouterr().out == "a: whole (10 of 10 files are whole)\n"
    assert main(["verify", "a", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["state"] == "whole"
    assert {"config.json", "metrics.jsonl", "checkpoint/manifest.json"} <= {f["file"] for f in told["files"]}


def test_an_edited_line_is_named_and_read_from_its_copy(
    run: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = Outcome.read(run).lines
    edit(run / "metrics.jsonl", '"round": 3', '"round": 8')
    with caplog.at_level(logging.WARNING):
        assert Outcome.read(run).lines == truth
    assert "a/metrics.jsonl, line 3, is not what the run wrote; taking its copy" in caplog.text
    assert main(["verify", "a"]) == 1
    assert "metrics.jsonl: recoverable: line 3: " in capsys.readouterr().out
    assert main(["verify", "a", "--repair"]) == 0
    caplog.clear()
    assert Outcome.read(run).lines == truth
    assert not caplog.text


@pytest.mark.parametrize("command", ["show", "resume", "report", "track"])
def test_without_a_copy_it_is_refused_by_every_reader(
    run: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(run / COPIES)
    edit(run / "metrics.jsonl", '"round": 3', '"round": 8')
    more = {"track": ("--to", "csv"), "report": ("--out", "a.html")}.get(command, ())
    assert main([command, "a", *more]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith("protofed: error: a/metrics.jsonl, line 3: not what the run wrote")
    assert "run it anew with --force" in told.err


@pytest.mark.parametrize("keep", [0, 3])
def test_lines_that_a_checkpoint_has_seen_must_be_there(run: Path, keep: int) -> None:
    """Emptied, or without its last two lines."""
    for place in (run, run / COPIES):
        texts = (place / "metrics.jsonl").read_text().splitlines(keepends=True)
        (place / "metrics.jsonl").write_text("".join(texts[:keep]))
    unfinish(run)  # even then the checkpoint knows
    with pytest.raises(DamageError, match=rf"metrics\.jsonl, line {keep + 1}: "):
        Outcome.read(run)
    assert main(["resume", "a"]) == 1


def test_a_manifest_of_another_round_is_noticed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Edited from round 5 to 2: the checkpoint before is taken, and the run ends as it did."""
    truth = Outcome.read(run)
    unfinish(run)
    edit(run / "checkpoint" / "manifest.json", '"round": 5', '"round": 2')
    assert main(["resume", "a", "--quiet"]) == 0
    told = capsys.readouterr().err
    assert (
        "manifest.json is damaged: its checksum does not match; going back to the checkpoint of round 4"
        in told
    )
    again = Outcome.read(run)
    assert again.tests == truth.tests
    assert worst(verify(run)) == "whole"


def test_an_edited_configuration_is_not_resumed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinish(run)
    config = (run / "config.json").read_text()
    edit(run / "config.json", '"seed": 0', '"seed": 1')
    assert main(["resume", "a", "--quiet"]) == 0
    assert "a/config.json is not what the run wrote; taking its copy" in capsys.readouterr().err
    assert (run / "config.json").read_text() == config
    for place in (run, run / COPIES):
        edit(place / "config.json", '"seed": 0', '"seed": 1')
    assert main(["resume", "a", "--quiet"]) == 1
    assert "a/config.json is not what the run wrote" in capsys.readouterr().err


def test_an_edited_configuration_is_no_recipe(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In its place, that is: a copy elsewhere may be changed."""
    edit(run / "config.json", '"seed": 0', '"seed": 1')
    assert main(["run", "a/config.json", "--rounds", "1", "--out", "b", "--quiet"]) == 1
    assert "copy it elsewhere to run it with changes" in capsys.readouterr().err
    shutil.copy(run / "config.json", "mine.json")
    assert main(["run", "mine.json", "--rounds", "1", "--out", "b", "--quiet"]) == 0
    assert Outcome.read(Path("b")).seed == 1


def test_files_of_another_run_are_noticed(run: Path) -> None:
    """Every run has a mark of its own."""
    other = Path("other")
    assert main(["run", "a/config.json", "--seed", "3", "--out", "other", "--quiet"]) == 0
    for name in ("config", "about", "summary", "checksums"):
        _exchange(run / f"{name}.json", other / f"{name}.json")
    for name in ("metrics", "clients"):
        _exchange(run / f"{name}.jsonl", other / f"{name}.jsonl")
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(other / "checkpoint", run / "checkpoint")
    assert worst(verify(run)) == "damaged"


def _exchange(ours: Path, theirs: Path) -> None:
    """Put a file of another run in the place of ours, and back."""
    kept = ours.read_bytes()
    shutil.copy(theirs, ours)
    states = {one.file: one.state for one in verify(ours.parent)}
    assert states.pop(ours.name) == "recoverable"
    assert set(states.values()) == {"whole"}
    ours.write_bytes(kept)


def test_an_earlier_version_cannot_be_verified(
    run: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    forget_checksums(run)
    assert main(["verify", "a"]) == 1
    assert "an earlier version made the run, without checksums" in capsys.readouterr().out
    assert main(["show", "a"]) == 0
    assert capsys.readouterr().err.count("cannot be verified") == 1
    assert main(["resume", "a", "--rounds", "6", "--quiet"]) == 0
    assert len(Outcome.read(run).lines) == 6


def test_without_checksums_json_nothing_is_believed(run: Path) -> None:
    (run / "checksums.json").unlink()
    shutil.rmtree(run / COPIES)
    with pytest.raises(DamageError, match=r"checksums\.json is missing"):
        Outcome.read(run)
    assert worst(verify(run)) == "damaged"


def test_force_respects_a_running_writer(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is deleted or written before the lock is taken."""
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    with RunDir(run).locked():
        assert main(["run", "local", *SMALL, "--seed", "9", "--out", "a", "--force"]) == 1
    assert "a is being written by another process" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def _start(path: Path, seed: int, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    try:
        run = RunDir.create(path, {"method": "local", "seed": seed, "rounds": {}})
        for round in range(1, 4):
            run.append("metrics.jsonl", {"round": round, "seed": seed})
        results.put(seed)  # type: ignore[attr-defined]
        barrier.wait()  # type: ignore[attr-defined]
    except RunError:
        barrier.wait()  # type: ignore[attr-defined]


def test_of_two_simultaneous_starts_one_wins_whole(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(6):
        path, barrier, results = tmp_path / str(attempt), context.Barrier(2), context.Queue()
        both = [context.Process(target=_start, args=(path, seed, barrier, results)) for seed in (1, 2)]
        for process in both:
            process.start()
        for process in both:
            process.join(60)
        winner = results.get(timeout=10)
        assert RunDir.open(path).config["seed"] == winner
        assert {line["seed"] for line in RunDir.open(path).lines("metrics.jsonl")} == {winner}
        assert results.empty()


def test_lines_after_the_last_checkpoint_that_only_the_copy_has_were_lost(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not a crash: a line is written to the file first."""
    shutil.rmtree(run)
    made = RunDir.create(run, {"method": "local", "rounds": {}})
    for number in (1, 2, 3):
        made.append("metrics.jsonl", {"round": number})
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:2]))
    assert [line["round"] for line in RunDir(run).lines("metrics.jsonl")] == [1, 2, 3]
    assert "metrics.jsonl, line 3, is not what the run wrote; taking its copy" in caplog.text
    state = next(one for one in verify(run) if one.file == "metrics.jsonl")
    assert (state.state, state.text[:6]) == ("recoverable", "line 3")
    caplog.clear()
    (run / "metrics.jsonl").write_text("".join(lines))
    (run / COPIES / "metrics.jsonl").write_text("".join(lines[:2]))  # a crash between the two
    assert [line["round"] for line in RunDir(run).lines("metrics.jsonl")] == [1, 2, 3]
    assert not caplog.records

"""about.json: written once when a run starts, kept afterwards."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from run_surgery import forget_checksums

import protofed
from protofed import experiment
from protofed.config import resolve
from protofed.core.errors import RunError
from protofed.runs.about import AboutRun, has_about, read_about, write_about
from protofed.runs.directory import RunDir
from protofed.runs.outcome import Outcome

SMALL = {
    "models": "mlp:dim=8|mlp:dim=8,hidden=9",
    "clients": 3,
    "rounds": 1,
    "epochs": 1,
    "engine": "sequential",
}


def start(path: Path, method: str, force: bool = False) -> RunDir:
    built = experiment.build(resolve({"method": method, **SMALL}))
    run = RunDir.create(path, built.config.to_dict(), force)
    experiment.carry_out(built, run)
    return run


def test_a_run_tells_what_it_is_about(tmp_path: Path) -> None:
    start(tmp_path / "a", "fedproto")
    about = Outcome.read(tmp_path / "a").about
    assert about.modes == ("gp_local", "clf", "gp_all", "lp")
    assert about.classes == tuple("0123456789")
    assert about.groups == ("mlp:dim=8", "mlp:hidden=9,dim=8")
    assert (about.clients, about.one_class) == (3, 0)
    assert about.version == protofed.__version__
    assert json.loads((tmp_path / "a" / "about.json").read_text())["format"] == 2


def test_a_resumed_run_keeps_its_own(tmp_path: Path) -> None:
    run = start(tmp_path / "a", "local")
    marked = replace(Outcome.read(run.path).about, version="0.0", fingerprints={"method": "abc"})
    write_about(run.path, marked)
    config = run.longer(2)
    run.extend(config)
    experiment.carry_out(experiment.reopen(run), run)
    assert Outcome.read(run.path).about == marked


def test_an_older_run_gets_it_when_resumed_and_a_new_one_its_own(tmp_path: Path) -> None:
    run = start(tmp_path / "a", "fedproto")
    forget_checksums(run.path)
    (run.path / "about.json").unlink()
    run = RunDir.open(run.path)
    run.extend(run.longer(2))
    experiment.carry_out(experiment.reopen(run), run)
    assert Outcome.read(run.path).class_names == tuple("0123456789")
    start(tmp_path / "a", "local", force=True)
    assert Outcome.read(run.path).about.modes == ("clf",)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    about = AboutRun(("clf",), ("cat", "dog"), ("mlp",), 5, None, "1.2", {"data": "abc"})
    assert not has_about(tmp_path)
    write_about(tmp_path, about)
    assert read_about(tmp_path, {}) == about


@pytest.mark.parametrize("text", ["[1]", '{"format": 1}', '{"format": 1, "modes": 3}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "about.json").write_text(text)  # of an earlier version
    with pytest.raises(RunError, match=r"about\.json is damaged; remove it"):
        read_about(tmp_path, {})


def test_the_version_is_that_of_the_package() -> None:
    package = Path(protofed.__file__).parents[1] / "pyproject.toml"
    assert tomllib.loads(package.read_text())["project"]["version"] == protofed.__version__

"""sdist and wheel: built, installed into an empty environment, and used there from another folder.

What protofed depends on is lent by the environment of the tests, so that nothing is fetched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
ENV = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def run(argv: list[str | Path], folder: Path) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(argv, cwd=folder, env=ENV, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is made of it."""
    tree, dist = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "protofed", tree / "protofed", ignore=shutil.ignore_patterns("__pycache__"))
    run([sys.executable, "-c", BUILD, dist], tree)
    (sdist,) = dist.glob("protofed-*.tar.gz")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*wheel, "--no-index", "--wheel-dir", dist, sdist], dist)
    return dist


@pytest.fixture(scope="module")
def program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel."""
    place = tmp_path_factory.mktemp("env")
    run([sys.executable, "-m", "venv", "--without-pip", place], place)
    paths = {"base": str(place), "platbase": str(place)}
    site = Path(sysconfig.get_path("purelib", "venv", paths))
    site.joinpath("lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--force-reinstall", "--no-cache-dir", wheel], place)
    return place / "bin"


def test_all_files_of_the_package_are_in_both(built: Path) -> None:
    """Recipes, pages of the report, tournaments, py.typed."""
    every = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "protofed").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    assert {"protofed/py.typed", "protofed/reports/page/main.js", "protofed/recipes/fp-t2.toml"} <= every
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert every - set(zipfile.ZipFile(wheel).namelist()) == set()
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {*every, "LICENSE", "README.md", "pyproject.toml"} - held == set()


def test_the_wheel_works_in_an_empty_environment(program: Path, tmp_path: Path) -> None:
    where = run([program / "python", "-c", "import protofed; print(protofed.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(program.parent)
    assert run([program / "protofed", "--version"], tmp_path).startswith("protofed 0.")
    assert run([program / "python", "-m", "protofed", "--version"], tmp_path).startswith("protofed 0.")
    assert "fp-t2" in run([program / "protofed", "reproduce"], tmp_path)
    assert "beyond" in run([program / "protofed", "tournament", "--help"], tmp_path)
    settings = ["--rounds", "1", "--clients", "3", "--epochs", "1", "--engine", "sequential", "--out", "r"]
    found = json.loads(run([program / "protofed", "run", "fedproto", *settings, "--json"], tmp_path))
    assert found["rounds"] == 1
    run([program / "protofed", "report", "r", "--light", "--quiet"], tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000

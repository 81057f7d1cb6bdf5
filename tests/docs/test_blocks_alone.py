"""Pages that say that each block can be pasted alone: every block runs in a fresh folder and a fresh process,
where only the files with a title were saved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import REPO, Block, read_blocks

PAGES = ("docs/own/method.md",)
BLOCKS = [block for page in PAGES for block in read_blocks((REPO / page).read_text(), page)]
FILES = {block.title: block.text for block in BLOCKS if block.title}
ALONE = [block for block in BLOCKS if not block.title]


def test_there_is_a_block_of_each_kind() -> None:
    assert {block.kind for block in ALONE} == {"python", "sh"}
    assert not any(block.skipped for block in BLOCKS)
    assert {"fedmedian.py", "test_fedmedian.py"} <= set(FILES)


@pytest.mark.parametrize("block", ALONE, ids=lambda block: f"line {block.line}")
def test_block_runs_alone(block: Block, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(REPO), "PROTOFED_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c"] if block.kind == "python" else ["sh", "-e", "-c"]
    done = subprocess.run([*command, block.text], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{block.where}: {done.stdout[-500:]}{done.stderr[-1500:]}"
    assert done.stdout or done.stderr

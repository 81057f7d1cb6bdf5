"""Mistakes in a user's file are one line that says where."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import SMALL, Call, assert_refused

HEAD = "from dataclasses import dataclass\nfrom protofed.method import Algorithm, ce, methods, option\n"
MINE = HEAD + "@dataclass(frozen=True)\nclass Mine(Algorithm):\n    lam: float = option(1.0, 'λ')\n"


@pytest.mark.parametrize("command", ["run", "compare", "sweep"])
@pytest.mark.parametrize(
    ("method", "text", "words"),
    [
        ("nowhere.py:Mine", "", ["no file 'nowhere.py' in"]),
        ("mine.py:Mime", MINE, ["has no 'Mime'", "classes that derive from Algorithm in it: Mine"]),
        ("mine.py", MINE, ["write mine.py:NAME", "Mine"]),
        ("mine.py:ce", MINE, ["ce cannot be used here", "in it: Mine"]),
        ("mine.py:Algorithm", MINE, ["Algorithm cannot be used here"]),
        ("mine.py:Mine", "class Mine: pass\n", ["cannot be used here", "in it: none"]),
        ("mine.py:Mine", "x = 1\nclass Mine(\n", ["SyntaxError", "(mine.py, line 2)"]),
        ("mine.py:Mine", "\n\nimport nothing_like_it\n", ["ModuleNotFoundError", "(mine.py, line 3)"]),
        ("mine.py:Mine", "def f():\n    1 / 0\nf()\n", ["ZeroDivisionError", "(mine.py, line 2, in f)"]),
        ("mine.py:Mine", "raise SystemExit(3)\n", ["SystemExit: 3", "(mine.py, line 1)"]),
        ("mine.py:Mine", "\0", ["mine.py failed:"]),
        (
            "mine.py:Mine",
            HEAD + "class Mine(Algorithm):\n    lam: float = option(1.0, 'λ')\n",
            ["write @dataclass(frozen=True) above class Mine (line 3)"],
        ),
        ("mine.py:Mine", MINE.replace("(frozen=True)", ""), ["non-frozen", "line 3"]),
        ("mine.py:local", MINE.replace("Mine", "local"), ["built-in method of that name; rename the class"]),
        (
            "mine.py:Mine",
            MINE.replace("@dataclass", "@methods.register('fedproto')\n@dataclass"),
            ["'fedproto' is registered twice: by FedProto in", "choose another name"],
        ),
    ],
)  # fmt: skip
def test_one_line(call: Call, folder: Path, command: str, method: str, text: str, words: list[str]) -> None:
    if text:
        (folder / "mine.py").write_text(text)
    more = ("--over", "lr=0.1,0.2") if command == "sweep" else ()
    assert_refused(call(command, method, *SMALL, *more), *words)


def test_unknown_option_and_bad_value(call: Call) -> None:
    assert_refused(call("run", "fedmedian.py:FedMedian", "--lamm", "1"), "did you mean '--lam'")
    assert_refused(call("run", "fedmedian.py:FedMedian", "--lam", "-1"), "lam: must be at least 0, got -1")


def test_options_behind_the_class_are_for_comparisons(call: Call) -> None:
    for argv in (("run",), ("sweep", "--over", "lr=0.1")):
        got = call(*argv, "fedmedian.py:FedMedian:lam=2", *SMALL)
        assert_refused(got, "options cannot stand here; give them apart: lam=2")


def test_one_file_written_in_two_ways_is_one_run(call: Call) -> None:
    got = call("compare", "fedmedian.py:FedMedian", "./fedmedian.py:FedMedian", *SMALL)
    assert_refused(got, "are the same run; leave one out")


def test_an_error_in_a_hook_names_the_line(call: Call, folder: Path) -> None:
    """While it runs, on the sequential engine: the user's line, not ours."""
    text = (folder / "fedmedian.py").read_text().replace("self.lam * pull", "self.lamda * pull")
    (folder / "fedmedian.py").write_text(text)
    number = 1 + text[: text.index("self.lamda")].count("\n")
    got = call("run", "fedmedian.py:FedMedian", *SMALL, "--out", "r", "--quiet")
    assert_refused(got, f"fedmedian.py, line {number}, in loss: AttributeError", "lamda", code=1)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("gone.py", "", ["import gone.py: no file 'gone.py'"]),
        ("data.txt", "x", ["expected a Python file (.py)"]),
        ("bad.py", "1 +\n", ["SyntaxError", "(bad.py, line 1)"]),
    ],
)
def test_bad_imports(call: Call, folder: Path, file: str, text: str, words: list[str]) -> None:
    if text:
        (folder / file).write_text(text)
    assert_refused(call("run", "fedproto", *SMALL, "--import", file), *words)

"""Measures of the code: sizes, docstrings, errors, duplicates, names, and how far a batch and an upload go.

    python benchmarks/house.py [--tree DIR] [--json] [--no-walks]

A report, not a gate. Only `protofed/` counts as library; each measure's rule stands at its function, that of
the walks in walks.py.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

LONG_FUNCTION = 50  # lines
SHARED_LINES = 6
COMMON_MODULES = {"__init__", "__main__", "base", "main", "common"}  # a name that every room may have
FOREIGN_HOOKS = {"forward", "extra_repr", "error", "do_GET", "log_message"}  # of classes outside the package
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A file of the library."""

    name: str  # as in core/net.py
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]


def read(folder: Path) -> list[Source]:
    """All Python files below a folder."""
    paths = sorted(folder.rglob("*.py"))
    return [Source(str(path.relative_to(folder)), path.read_text()) for path in paths]


def measures(tree: Path, with_walks: bool = True) -> dict[str, Any]:
    """Every measure of a tree."""
    library, tests = read(tree / "protofed"), read(tree / "tests")
    sizes = [source.lines for source in library]
    missing, documented = documentation(library)
    found: dict[str, Any] = {
        "library files": len(library),
        "library lines": sum(sizes),
        "lines of a file, median": statistics.median(sizes),
        "lines of a file, most": max(sizes),
        "functions over 50 lines": long_functions(library),
        "public without docstring": missing,
        "public with docstring, %": documented,
        "errors that show the bad value, %": errors_with_value(library),
        "lines of tests to library": round(sum(test.lines for test in tests) / sum(sizes), 2),
        "literal duplicates": duplicates(library),
        "classes of one name": classes_of_one_name(library),
        "modules of one name": modules_of_one_name(library),
    }
    return {**found, **(walks(tree) if with_walks else {})}


def long_functions(library: list[Source]) -> list[str]:
    """Functions of more than 50 lines, from `def` to their last line."""
    return [
        f"{source.name}:{node.lineno} {node.name}"
        for source in library
        for node in ast.walk(source.tree)
        if isinstance(node, Function) and _length(node) > LONG_FUNCTION
    ]


def documentation(library: list[Source]) -> tuple[list[str], float]:
    """Public classes and functions without a docstring, and the share that has one.

    Methods of private classes, functions within functions and names with an underscore in front do not
    count; nor does a method that overrides one of a base class, or fulfils a protocol, of the package, nor
    `add` and `command`, which every module of the command line has.
    """
    hooks = _Hooks(library)
    missing, count = [], 0
    for source in library:
        for owner, node in _public(source.tree):
            if owner is not None and hooks.overrides(owner, node.name):
                continue
            if source.name.startswith("cli/") and node.name in ("add", "command"):
                continue
            count += 1
            if ast.get_docstring(node) is None:
                missing.append(f"{source.name}:{node.lineno} {node.name}")
    return missing, round(100 * (1 - len(missing) / max(count, 1)), 1)


def errors_with_value(library: list[Source]) -> float:
    """Of the statements `raise …Error(message)`: the share whose message is more than a fixed text."""
    shown = []
    for source in library:
        for node in ast.walk(source.tree):
            error = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(error, ast.Call) and error.args and ast.unparse(error.func).endswith("Error"):
                shown.append(not all(_fixed(argument) for argument in error.args))
    return round(100 * statistics.mean(shown), 1) if shown else 100.0


def duplicates(library: list[Source]) -> list[str]:
    """Pairs of places that share six or more lines to the letter. White space is folded; blank lines,
    comments, docstrings, imports and lone punctuation are passed over."""
    files = [_code_lines(source) for source in library]
    places = defaultdict(list)
    for number, lines in enumerate(files):
        for start in range(len(lines) - SHARED_LINES + 1):
            places[tuple(text for _, text in lines[start : start + SHARED_LINES])].append((number, start))
    pairs = {
        (first, second)
        for found in places.values()
        for i, first in enumerate(found)
        for second in found[i + 1 :]
        if first[0] != second[0] or second[1] - first[1] >= SHARED_LINES
    }
    rows = []
    for (a, i), (b, j) in sorted(pairs):
        if ((a, i - 1), (b, j - 1)) in pairs:  # goes on from the pair before
            continue
        length = SHARED_LINES
        while ((a, i + length - SHARED_LINES + 1), (b, j + length - SHARED_LINES + 1)) in pairs:
            length += 1
        ends = (files[a][i][0], files[a][i + length - 1][0], files[b][j][0], files[b][j + length - 1][0])
        rows.append("{}:{}-{} ~ {}:{}-{}".format(library[a].name, *ends[:2], library[b].name, *ends[2:]))
    return rows


def classes_of_one_name(library: list[Source]) -> list[str]:
    """Public classes of the same name in several modules. The records of methods are their own affair."""
    homes = defaultdict(list)
    for source in library:
        for node in source.classes:
            record = source.name.startswith("algorithms/") and "Record" in _base_names(node)
            if not node.name.startswith("_") and not record:
                homes[node.name].append(source.name)
    return [f"{name}: {', '.join(files)}" for name, files in sorted(homes.items()) if len(files) > 1]


def modules_of_one_name(library: list[Source]) -> list[str]:
    """Modules of the same name in several rooms, other than those that every room may have; those of the
    command line are named after the command, and so after what it starts."""
    homes = defaultdict(list)
    for source in library:
        path = Path(source.name)
        if path.stem not in COMMON_MODULES and path.parts[0] != "cli":
            homes[path.stem].append(source.name)
    return [f"{name}: {', '.join(files)}" for name, files in sorted(homes.items()) if len(files) > 1]


def walks(tree: Path) -> dict[str, Any]:
    """Files that a batch and an upload cross, with and without leaves; in a process that imports the tree."""
    script = Path(__file__).with_name("walks.py")
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(script), str(tree)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tree)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"walks": {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}}
    return {f"files of {name}": walk for name, walk in found.items()}


class _Hooks:
    """Which methods override others of the package. Classes of one name count as one."""

    def __init__(self, library: list[Source]):
        self.methods: dict[str, set[str]] = defaultdict(set)
        self.bases: dict[str, set[str]] = defaultdict(set)
        self.protocols = []
        for node in (node for source in library for node in source.classes):
            self.methods[node.name] |= _method_names(node)
            self.bases[node.name] |= _base_names(node)
            if "Protocol" in _base_names(node) and _method_names(node):
                self.protocols.append(_method_names(node))

    def overrides(self, owner: ast.ClassDef, name: str) -> bool:
        bases, own = _base_names(owner), _method_names(owner)
        above = {one for base in bases for one in self._line(base)} - {owner.name}
        fulfils = any(name in protocol and protocol <= own for protocol in self.protocols)
        foreign = name in FOREIGN_HOOKS and bool(bases - self.methods.keys())
        return (
            (fulfils and "Protocol" not in bases)
            or foreign
            or any(name in self.methods[base] for base in above)
        )

    def _line(self, name: str) -> Iterator[str]:
        if name in self.methods:
            yield name
            for base in self.bases[name] - {name}:
                yield from self._line(base)


def _public(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | None, Function | ast.ClassDef]]:
    """(class around it, definition)."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield None, node
            if not isinstance(node, ast.ClassDef):
                continue
            for inner in node.body:
                if isinstance(inner, Function) and not inner.name.startswith("_") and not _setter(inner):
                    yield node, inner


def _setter(node: Function) -> bool:
    return any(ast.unparse(mark).endswith((".setter", "overload")) for mark in node.decorator_list)


def _method_names(node: ast.ClassDef) -> set[str]:
    """Methods, and attributes that stand for one: a subclass may turn them into properties."""
    named = {inner.name for inner in node.body if isinstance(inner, Function)}
    fields: list[ast.expr] = [inner.target for inner in node.body if isinstance(inner, ast.AnnAssign)]
    fields += [target for inner in node.body if isinstance(inner, ast.Assign) for target in inner.targets]
    return named | {field.id for field in fields if isinstance(field, ast.Name)}


def _base_names(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def _length(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _fixed(argument: ast.expr) -> bool:
    """A text without a value in it."""
    return not any(isinstance(n, ast.FormattedValue | ast.Name | ast.Call) for n in ast.walk(argument))


def _code_lines(source: Source) -> list[tuple[int, str]]:
    """(number, text) of the lines that say something."""
    passed: set[int] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Expr | ast.Import | ast.ImportFrom):
            passed.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = (
        (number, " ".join(line.split())) for number, line in enumerate(source.text.splitlines(), start=1)
    )
    return [(n, t) for n, t in lines if n not in passed and not t.startswith("#") and re.search(r"\w", t)]


def show(found: dict[str, Any]) -> str:
    """The table, and below it what was counted in lists."""
    rows, lists = [], []
    for name, value in found.items():
        if isinstance(value, dict):
            value = (
                value.get("error") or f"{len(value['files'])} ({len(value['without_leaves'])} without leaves)"
            )
        elif isinstance(value, list):
            lists += [f"{name}: {one}" for one in value]
            value = len(value)
        rows.append(f"{name:36} {value}")
    return "\n".join([*rows, "", *lists]) + "\n"


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description="measures of the code")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="a checkout of protofed")
    parser.add_argument("--json", action="store_true", help="all that was found, as JSON")
    parser.add_argument(
        "--no-walks", action="store_true", help="only what can be read without running anything"
    )
    arguments = parser.parse_args()
    found = measures(arguments.tree.resolve(), not arguments.no_walks)
    sys.stdout.write(json.dumps(found, indent=1) + "\n" if arguments.json else show(found))


if __name__ == "__main__":
    main()

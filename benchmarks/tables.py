"""Results of `python -m benchmarks` as tables: title, columns and rows, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .goals import judged


class Grid(NamedTuple):
    """A table; the first column is text, the others are figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def tables(results: dict[str, Any]) -> Iterator[Grid]:
    """One table for each thing that was measured, the goals last."""
    for result in results.get("workloads", []):
        yield _workload(result)
    if "aggregation" in results:
        yield _aggregation(results["aggregation"])
    if "server_step" in results:
        yield _server_step(results["server_step"])
    if "scale" in results:
        yield from _scale(results["scale"])
    goals = judged(results)
    if goals:
        yield _goals(goals)


BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def write_markdown(file: Path, text: str) -> None:
    """Into the file, between the marks if it has them: a page keeps what stands around."""
    page = file.read_text() if file.exists() else ""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    file.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}" if begin and end else text)


def markdown(results: dict[str, Any], figure: str | None = None) -> str:
    """The figures as part of a page: commands, machine, tables; `figure` is the path to the picture."""
    about = results["machine"]
    lines = ["```sh", *results["commands"], "```", ""]
    lines += [
        f"On {about['processor']}, {about['cores']} cores (a process on each does {about['parallel']} times "
        f"the work of one process alone), {about['memory_gb']} GB, torch {about['torch']}, Python "
        f"{about['python']}; load before the start: {about['load']}.",
        "",
    ]
    if results.get("absent"):
        lines += [f"Not installed, so not measured: {', '.join(results['absent'])}.", ""]
    for grid in tables(results):
        lines += [f"### {grid.title}", "", _line(grid.columns)]
        lines += [_line(["---"] + ["---:"] * (len(grid.columns) - 1))]
        lines += [_line(row) for row in grid.rows] + [""]
        lines += [grid.note, ""] if grid.note else []
    if figure:
        lines += [f"![Time and memory of a round against the number of clients]({figure})", ""]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _workload(result: dict[str, Any]) -> Grid:
    rows = result["rows"]
    others = [row["name"] for row in rows if not row["name"].startswith("protofed")]
    columns = ["contender", "seconds a round", "fastest", "samples/s", "test, seconds", "peak MB"]
    columns += [f"× {name}" for name in others]
    cells = []
    for row in rows:
        test = "" if row["test_seconds"] is None else f"{row['test_seconds']:.3f}"
        figures = [
            f"{row['seconds']:.3f}",
            f"{row['fastest_seconds']:.3f}",
            f"{row['samples_per_second']:,.0f}",
            test,
            f"{row['peak_mb']:,.0f}",
        ]
        cells.append([row["name"], *figures, *(f"{row['ratios'][name]:.2f}" for name in others)])
    note = (
        f"{result['samples']:,} samples a round, {result['data']}, medians of {result['repeats']}. "
        "Peak memory is that of the process with all contenders, and of the workers."
    )
    return Grid(f"{result['workload'].upper()}: {result['title']}", columns, cells, note)


def _aggregation(found: dict[str, Any]) -> Grid:
    micro = found["microseconds_per_upload"]
    rows = [[name, f"{micro[name]:.2f}", f"{ratio:.2f}"] for name, ratio in found["ratios"].items()]
    classes, dim = found["shape"]
    growth = ", ".join(f"{mb:.1f} MB with {int(count):,}" for count, mb in found["growth_mb"].items())
    title = f"aggregation: {found['uploads']:,} uploads of {classes} × {dim}"
    columns = ["uploads", "µs an upload", "× plain sum"]
    return Grid(title, columns, rows, f"Memory grew by {growth} uploads.")


def _server_step(found: dict[str, Any]) -> Grid:
    seconds = found["seconds"]
    rows = [[name, f"{seconds[name]:.3f}", f"{ratio:.2f}"] for name, ratio in found["ratios"].items()]
    title = f"FedTGP's server step: {found['rows']} prototypes, {found['epochs']} epochs"
    note = f"Largest difference to autograd, float32: {found['largest_difference']:.1e}."
    return Grid(title, ["way", "seconds", "× protofed"], rows, note)


def _scale(found: dict[str, Any]) -> Iterator[Grid]:
    columns = ["clients", "seconds a round", "ms a participant", "peak MB", "of it above the start"]
    for key, title in (
        ("participants", "participants: all clients take part"),
        ("registered", f"registered clients: {found['sampled']} take part"),
    ):
        rows = []
        for point in found[key]:
            each = f"{1e3 * point['seconds'] / point['participants']:.2f}"
            memory = [f"{point['peak_mb']:.0f}", f"{point['own_mb']:.0f}"]
            rows.append([f"{point[key]:,}", f"{point['seconds']:.3f}", each, *memory])
        yield Grid(title, columns, rows)


def _goals(goals: list[dict[str, Any]]) -> Grid:
    keys = ("title", "goal", "stretch", "reached", "fastest")
    rows = [[*(goal[key] for key in keys), "yes" if goal["met"] else "no"] for goal in goals]
    return Grid("goals", ["ratio", "goal", "stretch", "reached", "fastest turns", "met"], rows)

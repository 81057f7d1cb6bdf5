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
    if "starts" in results:
        yield _starts(results["starts"])
    if "deployed" in results:
        yield _deployed(results["deployed"])
    yield _goals(judged(results))


BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def write_markdown(file: Path, text: str) -> None:
    """Into the file, between the marks if it has them: a page keeps what stands around."""
    page = file.read_text() if file.exists() else ""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    file.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}" if begin and end else text)


def markdown(results: dict[str, Any], figure: str | None = None) -> str:
    """The figures as part of a page: commands, machine, tables; `figure` is the path to the picture."""
    about, after = results["machine"], results.get("load_after", "unknown")
    lines = ["```sh", *results["commands"], "```", ""]
    lines += [
        f"On {about['processor']}, {about['cores']} cores (a process on each does {about['parallel']} times "
        f"the work of one process alone), {about['memory_gb']} GB, torch {about['torch']}, Python "
        f"{about['python']}; load {about['load']} at the start, {after} at the end.",
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
    """Least and median seconds, the limit, and how many times as fast as each contender the first row is."""
    first = result["rows"][0]
    columns = ["contender", "wall s, least", "median", "CPU s, least", "median", "samples/s", "test: wall s"]
    columns += ["CPU s", "peak MB", "of the limit", "on all cores", "ours ×, wall", "medians", "CPU"]
    cells = []
    for row in result["rows"]:
        keys = ("fastest_seconds", "seconds", "fastest_cpu_seconds", "cpu_seconds")
        tests = ("fastest_test_seconds", "fastest_test_cpu_seconds")
        shares = ("fastest_limit_share", "fastest_limit_share_of_all_cores")
        ours = [first[key][row["name"]] for key in RATIOS]
        cells.append(
            [
                row["name"],
                *(f"{row[key]:.3f}" for key in keys),
                f"{row['fastest_samples_per_second']:,.0f}",
                *("" if row[key] is None else f"{row[key]:.3f}" for key in tests),
                f"{row['peak_mb']:,.0f}",
                *(f"{row[key]:.2f}" for key in shares),
                *(f"{ratio:.2f}" for ratio in ours),
            ]
        )
    note = (
        f"{result['samples']:,} samples a round, {result['data']}, {result['repeats']} turns, "
        f"{_load(result)}. Peak memory is that of the process with all contenders, and of workers."
    )
    return Grid(f"{result['workload'].upper()}: {result['title']}", columns, cells, note)


def _load(found: dict[str, Any]) -> str:
    before, after = found.get("load", ("unknown", "unknown"))
    return f"load {before} before and {after} after"


def _aggregation(found: dict[str, Any]) -> Grid:
    classes, dim = found["shape"]
    growth = ", ".join(f"{mb:.1f} MB with {int(count):,}" for count, mb in found["growth_mb"].items())
    title = f"aggregation: {found['uploads']:,} uploads of {classes} × {dim}"
    columns = ["uploads", "µs an upload, least", "median", "CPU µs, least", "× plain sum", "medians", "CPU"]
    return Grid(
        title,
        columns,
        _ways(found, 1e6 / found["uploads"]),
        f"Memory grew by {growth} uploads; {_load(found)}.",
    )


SECONDS = ("fastest_seconds", "seconds", "fastest_cpu_seconds")
RATIOS = ("fastest_ratios", "ratios", "fastest_cpu_ratios")


def _ways(found: dict[str, Any], scale: float = 1.0) -> list[list[str]]:
    """Seconds of each way, and their ratios to the one that all are held against."""
    return [
        [
            name,
            *(f"{scale * found[key][name]:.3f}" for key in SECONDS),
            *(f"{found[key][name]:.2f}" for key in RATIOS),
        ]
        for name in found["ratios"]
    ]


def _server_step(found: dict[str, Any]) -> Grid:
    title = f"FedTGP's server step: {found['rows']} prototypes, {found['epochs']} epochs"
    note = f"Largest difference to autograd, float32: {found['largest_difference']:.1e}; {_load(found)}."
    columns = ["way", "seconds, least", "median", "CPU s, least", "× protofed", "medians", "CPU"]
    return Grid(title, columns, _ways(found), note)


def _scale(found: dict[str, Any]) -> Iterator[Grid]:
    columns = ["clients", "seconds a round, least", "median", "CPU s, least", "ms a participant", "peak MB"]
    columns += ["of it above the start"]
    for key, title in (
        ("participants", "participants: all clients take part"),
        ("registered", f"registered clients: {found['sampled']} take part"),
    ):
        rows = []
        for point in found[key]:
            seconds = [f"{point[name]:.3f}" for name in SECONDS]
            each = f"{1e3 * point['fastest_seconds'] / point['participants']:.2f}"
            memory = [f"{point['peak_mb']:.0f}", f"{point['own_mb']:.0f}"]
            rows.append([f"{point[key]:,}", *seconds, each, *memory])
        yield Grid(title, columns, rows, f"{_load(found)}.".capitalize())


def _starts(found: dict[str, Any]) -> Grid:
    rows = [[f"`{name}`", *(f"{found[key][name]:.3f}" for key in SECONDS)] for name in found["seconds"]]
    columns = ["command", "seconds, least", "median", "CPU s, least"]
    note = f"{found['repeats']} turns, {_load(found)}; `protofed run`: up to its first step."
    return Grid("starts", columns, rows, note)


def _deployed(found: dict[str, Any]) -> Grid:
    rows = [
        [
            f"{line['payload']}, {line['upload']}",
            *(f"{line[key] / 1000:.2f}" for key in ("least_ms", "ms")),
            f"{line.get('cpu_seconds', float('nan')):.2f}",
        ]
        for line in found["lines"]
    ]
    note = f"`protofed deploy measure --deployed`; {_load(found)}."
    columns = ["payload, upload", "seconds a round, least", "median", "CPU s"]
    return Grid("deployed: a round over TLS, three clients on this machine", columns, rows, note)


def _goals(goals: list[dict[str, Any]]) -> Grid:
    keys = ("title", "goal", "stretch", "fastest", "reached", "cpu", "verdict")
    columns = ["", "goal", "stretch", "reached, least turns", "medians", "least CPU", "verdict"]
    return Grid("goals", columns, [[goal[key] for key in keys] for goal in goals])

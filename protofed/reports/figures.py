"""Single figures in paper quality: PNG at 300 dpi, SVG and PDF with text as text.

Width of a column (3.4 inches), small type, colours and line styles that stay apart without colour. What a
run does not have is not drawn: methods without prototypes have no global margins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from . import figures_inside
from .paper_style import COLUMN, DASHES, MARKERS, RUNS, STYLE, Axes, Figure, import_matplotlib, new_figure

MEAN = {"marker": "D", "markersize": 3.5, "markerfacecolor": "black", "markeredgecolor": "white"}
BINS = 25  # of a histogram
Report = dict[str, Any]
Run = dict[str, Any]


def write_figures(report: Report, folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Write every figure that the data allow; returns the files."""
    matplotlib = import_matplotlib()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create {folder}: {error.strerror or error}") from error
    written = []
    with matplotlib.rc_context(STYLE):
        for name, figure in draw_figures(report):
            for suffix in suffixes:
                path = folder / f"{name}.{suffix}"
                try:
                    figure.savefig(path, dpi=300)
                except OSError as error:
                    raise RunError(f"cannot write {path}: {error.strerror or error}") from error
                written.append(path)
    return written


def draw_figures(report: Report) -> Iterator[tuple[str, Figure]]:
    """(file name, figure) of everything there is to draw."""
    report = _as_written(report)
    tested = [run for run in report["runs"] if run["main"] is not None]
    if tested:
        yield "accuracy-rounds", _curves(tested, "round")
        if any(sum(run["tests"]["bytes"]) for run in tested):
            yield "accuracy-bytes", _curves(tested, "bytes")
        yield "clients", _clients(tested)
    if any(run["rounds"]["round"] for run in report["runs"]):
        told = [run for run in report["runs"] if "average" in run]
        if told:
            yield "weights", _weights(told)
        yield "communication", _bars(report["runs"], _sent, "bytes sent (MB)")
        yield "time", _bars(report["runs"], _time, "time (s)")
    splits: list[Any] = []
    for run in report["runs"]:
        again = run.get("split") in splits  # the runs of a comparison have one split
        splits.append(run.get("split"))
        shown = {key: value for key, value in run.items() if not (again and key == "split")}
        for name, figure in figures_inside.of_run(shown):
            yield f"{name}-{_file_name(run['name'])}", figure


def _as_written(part: Any) -> Any:
    """The same with all texts so that matplotlib takes no $ in a name for the start of a formula."""
    if isinstance(part, dict):
        return {key: _as_written(value) for key, value in part.items()}
    if isinstance(part, list) and any(isinstance(value, str | dict) for value in part):
        return [_as_written(value) for value in part]
    return part.replace("$", r"\$") if isinstance(part, str) else part


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


def _labelled(runs: Sequence[Run]) -> list[tuple[Run, str, str]]:
    """(run, mode, label): all modes of a single run, else the main mode of each."""
    if len(runs) == 1:
        return [(runs[0], mode, mode) for mode in runs[0]["modes"]]
    return [(run, run["main"], f"{run['name']} ({run['main']})") for run in runs]


def _curves(runs: Sequence[Run], against: str) -> Figure:
    figure = new_figure(COLUMN, 2.4)
    axes = figure.add_subplot()
    for i, (run, mode, label) in enumerate(_labelled(runs)):
        look: dict[str, Any] = {
            "color": RUNS[i % len(RUNS)],
            "linestyle": DASHES[i % len(DASHES)],
            "label": label,
        }
        xs, ys = run["tests"][against], run["tests"]["acc"][mode]["mean"]
        if against == "bytes" and not any(xs):
            axes.axhline(ys[-1], **look)
            continue
        axes.plot(xs, ys, marker=MARKERS[i % len(MARKERS)], markevery=max(1, len(xs) // 8), **look)
    axes.set_ylabel("test accuracy (%)")
    axes.set_xlabel("round" if against == "round" else "bytes sent, up and down")
    if against == "bytes":
        axes.set_xscale("log")
    figure.legend(loc="outside upper center", ncols=2)  # within, it would hide curves
    return figure


def _clients(runs: Sequence[Run]) -> Figure:
    labelled = [entry for entry in _labelled(runs) if entry[0]["clients"]["acc"].get(entry[1])]
    figure = new_figure(COLUMN, 0.7 + 0.42 * max(1, len(labelled)))
    axes = figure.add_subplot()
    values = [[v for v in run["clients"]["acc"][mode] if v is not None] for run, mode, _ in labelled]
    boxes = axes.boxplot(
        values,
        orientation="horizontal",
        widths=0.5,
        showmeans=True,
        meanprops=MEAN,
        patch_artist=True,
        showfliers=False,
    )
    for i, box in enumerate(boxes["boxes"]):
        box.set(facecolor=RUNS[i % len(RUNS)], alpha=0.3, linewidth=0.6)
    for i, row in enumerate(values):
        spread = [i + 1 + ((n * 0.618) % 1 - 0.5) * 0.4 for n in range(len(row))]
        axes.scatter(row, spread, s=6, color=RUNS[i % len(RUNS)], alpha=0.7, linewidths=0, zorder=3)
    axes.set_yticks(range(1, len(labelled) + 1), [label for _, _, label in labelled])
    axes.invert_yaxis()
    axes.set_xlabel("test accuracy of a client (%)")
    return figure


def _weights(runs: Sequence[Run]) -> Figure:
    """Histogram of the clients' weights in all rounds (ProtoMargin, Fig. S2)."""
    figure = new_figure(COLUMN, 2.2)
    axes = figure.add_subplot()
    found = [[weight for of_round in run["average"]["weights"] for weight in of_round] for run in runs]
    top = max(weight for values in found for weight in values)
    for i, (run, values) in enumerate(zip(runs, found)):
        look = {"color": RUNS[i % len(RUNS)], "linestyle": DASHES[i % len(DASHES)]}
        share = [100 / len(values)] * len(values)
        axes.hist(values, BINS, range=(0, top), weights=share, histtype="step", label=run["name"], **look)
    axes.set_xlabel("weight of a client in the average")
    axes.set_ylabel("share of the weights (%)")
    axes.legend(loc="best")
    return figure


Parts = Callable[[dict[str, list[float]]], dict[str, float]]


def _sent(rounds: dict[str, list[float]]) -> dict[str, float]:
    return {"up": sum(rounds["up"]) / 1e6, "down": sum(rounds["down"]) / 1e6}


def _time(rounds: dict[str, list[float]]) -> dict[str, float]:
    return {"rounds": sum(rounds["seconds"]), "tests": sum(rounds["test_seconds"])}


def _bars(runs: Sequence[Run], parts: Parts, label: str) -> Figure:
    figure = new_figure(COLUMN, 0.8 + 0.28 * len(runs))
    axes: Axes = figure.add_subplot()
    found = [parts(run["rounds"]) for run in runs]
    starts = [0.0] * len(runs)
    for n, part in enumerate(found[0]):
        widths = [one[part] for one in found]
        axes.barh(range(len(runs)), widths, left=starts, height=0.6, label=part, color=RUNS[n])
        starts = [start + width for start, width in zip(starts, widths)]
    axes.set_yticks(range(len(runs)), [run["name"] for run in runs])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.legend(loc="best")
    return figure

"""What charts show, as plain data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import look, needs_browser

from protofed.reports import charts, charts_inside, content, html, paper
from protofed.reports.spec import Axis, Chart, Series, first_shown, plain
from protofed.reports.style import DARK, LIGHT, number


def test_of_several_runs_one_mode_is_the_first_choice(report: dict[str, Any]) -> None:
    """FedProto has four modes, the others have one: that is shown first. Each one's main mode is a choice."""
    series = charts.accuracy(report)[0].series
    assert [(one.group, one.when) for one in series if one.group == 0] == [
        (0, ("gp_local", "main")),
        (0, ("",)),
        *((0, (mode,)) for mode in ("gp_all", "lp")),
    ]
    first = [series[i] for i in first_shown(series) if series[i].level is None]
    assert [one.label for one in first] == ["fedproto · clf", "local · clf", "fedproto_margin · clf"]
    assert first[0].y == report["runs"][0]["tests"]["acc"]["clf"]["mean"]
    assert len({(one.colour, one.shape, one.dash) for one in first}) == 3
    options = content.page(report)["bar"]["options"]
    assert [one["value"] for one in options] == ["", "gp_local", "gp_all", "lp", "main"]
    assert [options[0]["label"], options[-1]["label"]] == ["clf", "each paper's own"]


def test_of_one_run_all_modes_are_compared(report: dict[str, Any]) -> None:
    alone = {**report, "runs": report["runs"][:1]}
    series = [one for one in charts.accuracy(alone)[0].series if one.level is None]
    assert [one.label for one in series] == ["gp_local", "clf", "gp_all", "lp"]
    assert len(first_shown(series)) == 4
    assert {one.group for one in series} == {None}


def test_who_sends_nothing_is_a_level(report: dict[str, Any]) -> None:
    local = charts.accuracy(report)[1].series[4]
    assert (local.label, local.x) == ("local · clf", ())
    assert local.level == report["runs"][1]["tests"]["acc"]["clf"]["mean"][-1]
    assert local.note == "local · clf: nothing sent"


def test_every_chart_of_accuracy_carries_majority_class_and_chance(report: dict[str, Any]) -> None:
    majority = report["runs"][0]["majority"]
    for chart in (*charts.accuracy(report)[:3], *charts.clients(report)):
        levels = {one.label: one for one in chart.series if one.level is not None}
        assert (levels["majority class"].level, levels["chance"].level) == (majority, 10)
        assert levels["majority class"].note == f"majority class {majority:.1f}"


def test_levels_that_differ_belong_to_their_runs(report: dict[str, Any]) -> None:
    first, *others = report["runs"]
    series = charts.references({**report, "runs": [{**first, "majority": 50.0}, *others[:1]]})
    assert [(one.label, one.group) for one in series] == [
        ("majority class, fedproto", 0),
        ("majority class, local", 1),
        ("chance", None),
    ]


def test_the_worst_clients_of_every_run_are_compared_in_all(report: dict[str, Any]) -> None:
    chart = charts.clients(report)[1]
    assert chart.when == ("",)
    accuracies = report["runs"][1]["clients"]["acc"]["clf"]
    series = chart.series[1]
    for x, y in zip(series.x, series.y):
        name = chart.y.names[round(y)]
        client = int(name.label.split()[-1])
        assert x == accuracies[client]
        assert name.about is not None
        assert name.about["samples"] == report["runs"][1]["split"]["samples"][client]
    runs = [one for one in chart.series if one.level is None]
    lowest = [min(one.x[list(map(round, one.y)).index(i)] for one in runs) for i in range(4)]
    assert lowest == sorted(lowest)


def test_bubbles_are_the_counts_of_the_split(report: dict[str, Any]) -> None:
    [chart] = charts_inside.splits(report)
    assert chart.text.endswith("The same for all runs.")
    split = report["runs"][0]["split"]
    found = {
        (k, name.label): size
        for one in chart.series
        for k, y, size in zip(one.x, one.y, one.sizes)
        for name in [chart.y.names[y]]
    }
    expected = {
        (k, split["classes"][c]): n for k, row in enumerate(split["counts"]) for c, n in enumerate(row) if n
    }
    assert found == expected


def test_other_splits_have_panels_of_their_own(report: dict[str, Any]) -> None:
    """The third run holds one sample more; charts of one title share a card."""
    first, second, third = report["runs"]
    counts = [[n + 1 for n in third["split"]["counts"][0]], *third["split"]["counts"][1:]]
    other = {**report, "runs": [first, second, {**third, "split": {**third["split"], "counts": counts}}]}
    assert [chart.panel for chart in charts_inside.splits(other)] == ["fedproto, local", "fedproto_margin"]
    [card] = next(
        section["cards"] for section in content.page(other)["sections"] if section["title"] == "Data"
    )
    assert len(card["charts"]) == 2


def test_the_histogram_counts_all_weights(report: dict[str, Any]) -> None:
    histogram, *others = charts_inside.weights(report)
    assert sum(histogram.series[0].y) == pytest.approx(100)
    assert [chart.name for chart in others] == ["weights-rounds", "attention-fedproto_margin"]
    assert (others[1].title, others[1].panel) == ("The last round", "fedproto_margin")
    assert charts_inside.weights({**report, "runs": report["runs"][:1]}) == []


def test_a_page_is_plain_and_refers_to_known_colours(report: dict[str, Any]) -> None:
    page = content.page(report)
    assert json.loads(json.dumps(page)) == page
    assert set(LIGHT) == set(DARK)
    drawn = [
        chart for section in page["sections"] for card in section["cards"] for chart in card.get("charts", [])
    ]
    colours = {one["colour"] for chart in drawn for one in chart["series"] if "colour" in one}
    assert colours <= set(LIGHT)


def test_plain_leaves_out_what_is_empty_and_keeps_zeros() -> None:
    chart = Chart("lines", "a", "b", Axis(low=0), Axis(), [Series(level=0.0, y=[None, 1 / 3])])
    found = plain(chart)
    assert found["x"] == {"format": "plain", "low": 0}
    assert (found["series"][0]["level"], found["series"][0]["y"]) == (0.0, [None, 0.333333])
    assert "note" not in found


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1234567, "plain", "1,234,570"),
        (0.25, "plain", "0.25"),
        (999.6, "bytes", "1 kB"),
        (3.31e6, "bytes", "3.31 MB"),
        (0, "seconds", "0 s"),
        (0.25, "seconds", "250 ms"),
        (120, "seconds", "2.0 min"),
        (7200, "seconds", "2.0 h"),
        (None, "bytes", "–"),
    ],
)
def test_numbers_with_units(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


def with_reference(report: dict[str, Any]) -> Chart:
    chart = charts.accuracy(report)[0]
    chance = Series("chance", level=10.0, colour="soft")
    return replace(chart, note="a remark", series=[*chart.series, chance])


def test_reference_lines_and_remarks_on_paper(report: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    [path] = paper.write([with_reference(report)], [tmp_path / "reference.svg"])
    assert all(f">{text}</text>" in path.read_text() for text in ("chance", "a remark"))


@needs_browser
def test_reference_lines_and_remarks_on_the_page(
    report: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = with_reference(report)
    monkeypatch.setattr(charts, "accuracy", lambda report: [chart])
    seen = look(html.write_page(report, tmp_path / "report.html"))
    assert seen.errors == ""
    assert ">chance</text>" in seen.dom
    assert ">a remark</p>" in seen.dom

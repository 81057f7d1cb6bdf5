"""The page: self-contained, and drawn without error in a real browser."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser import look, needs_browser

from protofed.core.errors import RunError
from protofed.reports import content
from protofed.reports.collect import collect
from protofed.reports.html import render, write_page

ACCURACY = {"accuracy-rounds", "accuracy-bytes", "accuracy-worst10", "loss", "clients", "clients-worst"}
COST = {"communication", "time"}


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    return dict(json.loads(found.group(1)))


def test_the_page_holds_all_that_it_needs(report: dict[str, Any]) -> None:
    """No address but the name of the SVG format, and a policy that forbids to load anything."""
    page = render(report)
    assert set(re.findall(r"https?://[^\s\"'`]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "connect-src 'none'" in page
    assert "{{" not in page
    assert data_of(page) == content.page(report)


def test_names_cannot_break_out_of_the_page(report: dict[str, Any]) -> None:
    hostile = copy.deepcopy(report)
    hostile["runs"] = hostile["runs"][:1]
    hostile["runs"][0]["name"] = "</script><img src=x onerror=alert(1)>{{data}}"
    page = render(hostile)
    assert "<img" not in page
    assert "{{data}} – protofed</title>" in page
    assert data_of(page)["title"] == hostile["runs"][0]["name"]


def test_a_path_that_cannot_be_written_is_one_line(report: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write .*nowhere"):
        write_page(report, tmp_path / "nowhere" / "report.html")


@needs_browser
def test_several_runs_are_drawn_without_error(report: dict[str, Any], tmp_path: Path) -> None:
    seen = look(write_page(report, tmp_path / "report.html"))
    assert seen.console == []
    assert seen.errors == ""
    assert sorted(name for name, _ in seen.charts) == sorted(chart.name for chart in content.figures(report))
    assert all(marks > 0 for _, marks in seen.charts)
    assert "the class of the nearest global prototype, among all classes" in seen.dom


PRESS_ALL = """<script>
const all = (what) => document.querySelectorAll(what);  // anew after each press: the page is drawn anew
let i = 0;
for (; i < all("button").length; i += 1) {
  all("button")[i].click();
  all("button")[i].click();
}
choice.hidden.clear();
choice.option = "";
redrawAll();
for (const one of all("details")) one.open = true;
document.body.dataset.pressed = i;
</script></body>"""


@needs_browser
def test_every_button_can_be_pressed(report: dict[str, Any], tmp_path: Path) -> None:
    """All twice; then every table is opened, with nothing hidden."""
    two = {**report, "runs": report["runs"][:2]}
    (tmp_path / "pressed.html").write_text(render(two).replace("</body>", PRESS_ALL))
    seen = look(tmp_path / "pressed.html", milliseconds=1000)
    assert (seen.console, seen.errors) == ([], "")
    assert int(re.findall(r'data-pressed="(\d+)"', seen.dom)[0]) >= 25
    assert len(re.findall("<table", seen.dom)) == 1 + 11 + 3  # results, one for each chart, settings


@needs_browser
def test_one_run_on_a_phone_in_the_dark(report: dict[str, Any], tmp_path: Path) -> None:
    """Nothing but its own scroll boxes is wider than the screen; dark colours are used."""
    alone = {**report, "runs": report["runs"][:1]}
    page = write_page(alone, tmp_path / "report.html").read_text()
    probe = """<script>document.body.dataset.wide = document.documentElement.scrollWidth - innerWidth;
    document.body.dataset.paper = getComputedStyle(document.documentElement).getPropertyValue('--paper');
    parent.document.body.dataset.inner = JSON.stringify({...document.body.dataset,
      errors: document.documentElement.dataset.errors,
      marks: [...document.querySelectorAll('figure')].map((f) => f.dataset.marks)});</script></body>"""
    (tmp_path / "inner.html").write_text(page.replace("</body>", probe))
    frame = '<body><iframe src="inner.html" style="width:390px;height:800px;border:0"></iframe></body>'
    (tmp_path / "phone.html").write_text(frame)
    flags = ("--allow-file-access-from-files", "--blink-settings=preferredColorScheme=0")
    seen = look(tmp_path / "phone.html", *flags)
    found = re.search(r'data-inner="([^"]*)"', seen.dom)
    assert found, seen.dom
    inner = json.loads(found.group(1).replace("&quot;", '"'))
    assert inner["errors"] == ""
    assert int(inner["wide"]) <= 0
    assert inner["paper"].strip() == "#12151a"
    assert len(inner["marks"]) == 11
    assert all(int(marks) > 0 for marks in inner["marks"])


@needs_browser
def test_runs_without_rounds_and_without_models_are_drawn(runs: list[Path], tmp_path: Path) -> None:
    """A run that has just begun, beside one of which only the files are read."""
    began = tmp_path / "began"
    began.mkdir()
    (began / "config.json").write_text((runs[0] / "config.json").read_text())
    page = write_page(collect([began, runs[1]], inside=False), tmp_path / "report.html")
    seen = look(page)
    assert (seen.console, seen.errors) == ([], "")
    assert {name for name, _ in seen.charts} == ACCURACY | COST
    assert all(marks > 0 for _, marks in seen.charts)
    assert "not tested yet" in seen.dom

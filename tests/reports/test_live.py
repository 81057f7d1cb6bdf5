"""A run that is watched: the page over HTTP on this machine, while rounds go on."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from browser import look, needs_browser
from reported_runs import SMALL
from run_surgery import forget_checksums

from protofed import experiment
from protofed.cli.main import main
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.reports.live import LivePage, follow
from protofed.runs.directory import RunDir

PATIENCE = 60.0


def get(url: str, host: str | None = None) -> str:
    with urlopen(Request(url, headers={"Host": host} if host else {}), timeout=PATIENCE) as answer:
        return str(answer.read().decode())


class Pause:
    """Called after each round: waits in the second until it is told to go on."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Event(), threading.Event()

    def __call__(self, record: dict[str, Any]) -> None:
        if record["round"] == 2:
            self.reached.set()
            self.go.wait(PATIENCE)


def test_a_real_run_is_followed_to_its_end(tmp_path: Path) -> None:
    built = experiment.build(resolve({"method": "fedproto"}, SMALL))
    directory = RunDir.create(tmp_path / "run", built.config.to_dict())
    pause = Pause()
    training = threading.Thread(target=experiment.carry_out, args=(built, directory, pause))
    with LivePage(directory) as live:
        following = threading.Thread(target=follow, args=(live, lambda: False, 20))
        training.start()
        assert pause.reached.wait(PATIENCE)
        halfway = json.loads(get(live.url + "data.json"))
        pause.go.set()
        following.start()
        training.join(PATIENCE)
        last = halfway
        deadline = time.monotonic() + PATIENCE
        while last["live"]["on"] and time.monotonic() < deadline:
            last = json.loads(get(live.url + "data.json"))
        following.join(PATIENCE)
        assert not following.is_alive()
    assert halfway["live"] == {"on": True, "done": 2, "planned": 3}
    assert last["live"] == {"on": False, "done": 3, "planned": 3}
    assert {"Data", "Embeddings", "Prototypes"} <= {section["title"] for section in last["sections"]}
    with pytest.raises(URLError):
        get(live.url)


@pytest.fixture
def unfinished(runs: list[Path], tmp_path: Path) -> RunDir:
    """Two of three rounds done."""
    path = tmp_path / "unfinished"
    path.mkdir()
    for name in ("config.json", "metrics.jsonl", "clients.jsonl"):
        lines = (runs[0] / name).read_text().splitlines(keepends=True)
        (path / name).write_text("".join(lines if name == "config.json" else lines[:2]))
    forget_checksums(path)
    return RunDir.open(path)


def test_only_this_machine_is_answered(unfinished: RunDir) -> None:
    with LivePage(unfinished) as live:
        assert live._server._server.server_address[0] == "127.0.0.1"
        assert not live.watched
        assert "connect-src 'self'" in get(live.url)
        assert live.watched
        with pytest.raises(HTTPError, match="403"):
            get(live.url + "data.json", host=f"elsewhere.example:{live.port}")
        with pytest.raises(HTTPError, match="404"):
            get(live.url + "config.json")
        with pytest.raises(ConfigError, match=f"--port: cannot listen on 127.0.0.1:{live.port}"):
            LivePage(unfinished, live.port)


@needs_browser
def test_an_open_page_draws_new_rounds(unfinished: RunDir, runs: list[Path]) -> None:
    """The third round is written after the page was sent; the browser shows it all the same."""
    third = RunDir.open(runs[0]).lines("metrics.jsonl")[2]

    class Growing(LivePage):
        def page(self) -> str:
            text = super().page()
            unfinished.append("metrics.jsonl", third)
            return text

    with Growing(unfinished) as live:
        seen = look(live.url, milliseconds=3000)
    assert seen.errors == ""
    assert "round 3 of 3" in seen.dom
    assert all(marks > 0 for _, marks in seen.charts)


def test_watching_a_finished_run_points_to_the_report(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(runs[0])]) == 0
    assert f"protofed report {runs[0]}" in capsys.readouterr().err


def test_a_port_out_of_range_is_one_line(unfinished: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(unfinished.path), "--port", "70000"]) == 2
    assert "--port: expected 0 to 65535, got 70000" in capsys.readouterr().err


def test_the_watcher_ends_with_the_process_that_started_it(
    unfinished: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However that process ends, its end of the pipe is closed."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        threading.Timer(0.3, os.close, [theirs]).start()
        assert main(["watch", str(unfinished.path), "--beside"]) == 0
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")


def test_run_watch_serves_beside_the_run_and_ends_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--models", "mlp", "--clients", "4", "--engine", "sequential", "--rounds", "3", "--quiet"]
    assert main(["run", "local", *small, "--out", str(tmp_path / "run"), "--watch"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("watch at http://127.0.0.1:")
    with pytest.raises(URLError):
        get(said.split()[2])

"""Names, errors and files that hold markup, terminal escapes, formulas and scripts, through every output.

The data set is called so, and so are its classes and owners; a client of a deployment calls itself so and
reports such errors.
"""

import csv
import io
import json
import logging
import re

import numpy as np
import pytest

from protofed.cli.main import main
from protofed.core.escape import csv_cell, latex, markdown, visible
from protofed.deploy.status import StatusFile
from protofed.runs.directory import RunDir
from protofed.studies.tables import FORMATS, Table, as_csv

ESCAPE, TITLE, TURN = "\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "left\u202eright\u2066"
MARKUP, FORMULA, SCRIPT = "[bold]b[/wrong]", '=HYPERLINK("http://x")', "<script>alert(1)</script>"
LATEX, MARKDOWN, LINES = "\\input{secret} 5 % $x$ &", "a|b [c](javascript:d)", "one\nprotofed: error: two\r"
HOSTILE = (ESCAPE, TITLE, TURN, MARKUP, FORMULA, SCRIPT, LATEX, MARKDOWN, LINES, "+1+cmd", "@sum(a)", "-2+x")
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SMALL = ("--models", "mlp", "--clients", "2", "--rounds", "1", "--epochs", "1", "--engine", "sequential")
FILE = "=1+1 [bold]x <script>alert(1)<script> \x1b[2J.npz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set with hostile names, two methods compared on it, and a run of it."""
    made = tmp_path_factory.mktemp("hostile")
    x = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
    y, owner = np.arange(96) % len(HOSTILE), np.array(HOSTILE)[np.arange(96) // 48]
    parts = {"x_train": x, "y_train": y, "x_test": x, "y_test": y, "owner_train": owner, "owner_test": owner}
    np.savez(made / "set.npz", classes=np.array(HOSTILE), **parts)
    (made / "set.npz").rename(made / FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setenv("PROTOFED_CACHE", str(made / "cache"))
        data = ("--data", f"npz:{FILE}", "--partition", "natural", *SMALL)
        assert main(["run", "fedproto", *data, "--track", "csv", "--out", "run"]) == 0
        patch.setenv("COLUMNS", "200")
        yield made, data


def called(folder, capsys, monkeypatch, *argv, code=0):
    """What a command writes to the terminal, and to standard error."""
    monkeypatch.chdir(folder[0])
    monkeypatch.setenv("PROTOFED_CACHE", str(folder[0] / "cache"))
    capsys.readouterr()
    assert main(list(argv)) == code
    return capsys.readouterr()


def harmless(text):
    """Nothing in it acts on a terminal."""
    found = ACTS.search(text)
    assert found is None, text[max(0, found.start() - 60) : found.end() + 20]
    return text


def test_run_show_and_partition_print_text_as_it_is(folder, capsys, monkeypatch):
    data = folder[1]
    ran = called(folder, capsys, monkeypatch, "run", "local", *data, "--out", "another")
    shown = called(folder, capsys, monkeypatch, "show", "run")
    split = called(folder, capsys, monkeypatch, "partition", "natural", *data[:2], "--clients", "0")
    for text in (*ran, *shown, *split):
        harmless(text)
    assert MARKUP in shown.out  # and not taken for markup, which would be an error here
    assert "\\x1b[2J\\x1b[31mred" in shown.out
    assert not any(line.startswith("protofed: error: two") for line in (ran.err + shown.out).splitlines())


def test_errors_and_warnings_are_single_harmless_lines(folder, capsys, monkeypatch):
    bad = f"npz:missing{ESCAPE}{MARKUP}.npz"
    said = called(folder, capsys, monkeypatch, "run", "fedproto", "--data", bad, *SMALL, code=2).err
    assert len(harmless(said).splitlines()) == 1
    assert MARKUP in said


@pytest.mark.parametrize("form", FORMATS)
def test_comparisons_are_harmless_in_every_format(folder, form, capsys, monkeypatch):
    data = folder[1]
    argv = ("compare", "fedproto", "local", *data, "--seeds", "1", "--out", "study", "--format", form)
    out = harmless(called(folder, capsys, monkeypatch, *argv).out)
    files = {path.suffix: harmless(path.read_text()) for path in (folder[0] / "study").glob("comparison.*")}
    assert files.keys() == {".md", ".csv", ".json", ".tex"}
    if form == "csv":
        assert_no_formula(out)
    assert_no_formula(files[".csv"])
    assert not re.search(r"(?<!\\)<script", files[".md"])
    assert not re.search(r"\\input\b", files[".tex"])
    assert all(not line or line[0] in "%\\" or line.endswith("\\\\") for line in files[".tex"].splitlines())


def test_tables_of_hostile_cells():
    """Each hostile text as title, heading, cell and note."""
    table = Table(" ".join(HOSTILE), HOSTILE, [HOSTILE, HOSTILE[::-1]], notes=HOSTILE)
    tex, marked = harmless(table.latex()), harmless(table.markdown())
    assert not re.search(r"^[^%].*\\input", tex, re.M)
    assert len(tex.splitlines()) == 1 + len(HOSTILE) + 8  # title and notes are comments of a line each
    rows = [line for line in marked.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(HOSTILE) + 1}
    assert not re.search(r"(?<!\\)<script|\]\(java", marked)
    assert_no_formula(as_csv([dict.fromkeys(HOSTILE, name) for name in HOSTILE]))


def assert_no_formula(text):
    for row in csv.reader(io.StringIO(harmless(text))):
        for cell in row:
            number = re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell)
            assert number or cell[:1] not in ("=", "+", "-", "@"), cell


def test_the_trackers_table_and_the_report(folder, capsys, monkeypatch):
    assert_no_formula((folder[0] / "run" / "metrics.csv").read_text())
    called(folder, capsys, monkeypatch, "report", "run", "--svg", "--out", "page.html")
    page = (folder[0] / "page.html").read_text()
    assert "<script>alert" not in page
    assert "Content-Security-Policy" in page
    drawn = list(folder[0].glob("page-figures/*.svg"))
    assert drawn
    assert not any("<script" in path.read_text() for path in drawn)


def test_a_client_that_calls_itself_so_does_not_harm_status(tmp_path, capsys):
    """Square brackets in an error ended `status` once."""
    status = StatusFile(tmp_path, 42)
    status.roster(joined=MARKUP, model=ESCAPE, samples=10)
    status.begin([MARKUP], 3)
    status.event({"event": "train", "client": 0, "round": 1, "reason": f"client 0: [/] {ESCAPE} {TURN}"})
    status.roster(missing=[TITLE], refused=f"{LINES} {MARKUP} {SCRIPT}")
    RunDir(tmp_path).append("metrics.jsonl", {"round": 1, "failed": {"0": ESCAPE}, "seconds": 1.0})
    assert main(["status", str(tmp_path)]) == 0
    shown = harmless(capsys.readouterr().out)
    assert MARKUP in shown
    assert main(["status", str(tmp_path), "--json"]) == 0
    assert MARKUP in json.loads(capsys.readouterr().out)["clients"]


def test_the_log_is_harmless(caplog):
    log = logging.getLogger("protofed")
    log.warning("client %s: %s", MARKUP, LINES + ESCAPE)
    try:
        raise ValueError(ESCAPE)
    except ValueError:
        log.exception("reading %s", TURN)
    harmless(caplog.text)
    assert len(caplog.records[0].getMessage().splitlines()) == 1
    assert "ValueError: \\x1b[2J" in caplog.text


def test_escapes_by_hand():
    assert visible("a\tb\x9bc\u200fd\n") == "a\\tb\\x9bc\\u200fd\\n"
    assert visible("ends\nstay", lines=True) == "ends\nstay"
    assert (
        visible("ü 日本 \u0928\u094d\u200d\u0926") == "ü 日本 \u0928\u094d\u200d\u0926"
    )  # joiners of scripts stay
    assert [csv_cell(text) for text in ("=a", "@a", "-a", "-1", "+1e3", "a")] == [
        "'=a",
        "'@a",
        "'-a",
        "-1",
        "+1e3",
        "a",
    ]
    assert latex("\\x{1}_%") == r"\textbackslash{}x\{1\}\_\%"
    assert markdown("1 < 2 <b>") == "1 < 2 \\<b>"

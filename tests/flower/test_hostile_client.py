"""A client whose class names, errors and prints are hostile: markup, terminal escapes, scripts, formulas.

Once with server and client apps in this process, and once with Flower's own programs (slow): wherever the
text comes out, it does nothing there.
"""

import json
import re
import subprocess
import sys
import time

import pytest
import test_deployed_run as deployed
from fake_grid import FakeGrid
from test_deployment import MINUTES, example  # noqa: F401 a fixture

from protofed.cli.main import main
from protofed.deploy.audit import Audit
from protofed.deploy.client_app import answer
from protofed.deploy.keys import public_key
from protofed.deploy.server_app import serve
from protofed.deploy.settings import read_client, read_server
from protofed.deploy.status import StatusFile
from protofed.flower.packet import Packet

HOSTILE = (
    "\x1b[2J\x1b[31mred \x1b]0;title\x07 left\u202eright [bold]b[/wrong] <script>alert(1)</script> "
    '=HYPERLINK("http://x") \\input{secret} a|b'
)
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NAMES = [HOSTILE, "=1+cmd", "<script>alert(1)</script>"]
NOISE = f"""import os
from pathlib import Path

HOSTILE = {HOSTILE!r}
print(HOSTILE, flush=True)
os.write(2, HOSTILE.encode() + b"\\xff\\x9b31m\\n")
seen = Path(__file__).with_name("seen")
if not seen.exists():
    seen.touch()
    raise RuntimeError(HOSTILE)
"""


def harmless(text):
    found = ACTS.search(text)
    assert found is None, text[max(0, found.start() - 60) : found.end() + 20]
    return text


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """North has hostile classes, and answers the third round with an error."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(deployed.SITES, "north", NAMES[:2])
        patch.setitem(deployed.SITES, "south", ["bee", "cat", NAMES[2]])
        deployed.write_federation(folder)
    homes = {100: folder / "f" / "clients" / "north", 101: folder / "f" / "clients" / "south"}

    def north(packet):
        if str(packet.meta.get("tag", packet.meta.get("round", ""))).startswith("3"):
            return Packet({**packet.meta, "error": HOSTILE}, {})
        return answer(read_client(homes[100]), packet)

    nodes = {100: north, 101: lambda packet: answer(read_client(homes[101]), packet)}
    server = read_server(folder / "f" / "server")
    names = {100: "north", 101: "south"}
    keys = {node: public_key(server.home / "keys" / f"{name}.pub") for node, name in names.items()}
    status = StatusFile(folder / "run", 42, Audit(server.home, "run"))
    serve(FakeGrid(nodes, names, keys), server, folder / "run", status)
    status.end("finished")
    return folder


def test_the_error_is_told_and_the_round_went_on(made):
    failed = json.loads((made / "run" / "metrics.jsonl").read_text().splitlines()[2])["failed"]
    assert "[bold]b[/wrong]" in failed["0"]


@pytest.mark.parametrize("command", [["show"], ["status"], ["verify"]])
def test_commands_at_the_server(made, command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert main([*command, str(made / "run")]) == 0
    told = capsys.readouterr()
    harmless(told.out + told.err)
    assert command != ["status"] or "[bold]b[/wrong]" in told.out


def test_audit_report_and_table(made, capsys):
    assert re.fullmatch(r"[ -~\n]+", (made / "f" / "server" / "audit.jsonl").read_text())
    page = made / "page.html"
    assert main(["report", str(made / "run"), "-o", str(page)]) == 0
    assert "<script>alert" not in page.read_text()
    assert main(["track", str(made / "run"), "--to", "csv"]) == 0
    table = harmless((made / "run" / "metrics.csv").read_text())
    assert not re.search(r'(^|,)"?[=+@]', table, re.M)
    harmless("".join(capsys.readouterr()))


@pytest.mark.slow
def test_real_programs(example, tmp_path):  # noqa: F811
    """A file of the client prints hostile text whenever a message comes, and fails the first time with it:
    the client is refused, asked again, and takes part."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=2)
    home = federation / "clients" / "south"
    (home / "noise.py").write_text(NOISE)
    toml = home / "client.toml"
    toml.write_text(f'imports = ["noise.py"]\n{toml.read_text()}')
    processes, terminals = [], {}
    for name, *arguments in (
        ("server", "server", str(federation / "server"), "--out", str(run)),
        *((name, "client", str(federation / "clients" / name)) for name in example.SITES),
    ):
        terminals[name] = tmp_path / f"{name}.txt"
        command = [sys.executable, "-m", "protofed.cli.main", *arguments]
        with open(terminals[name], "wb") as file:
            processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
    try:
        assert processes[0].wait(timeout=60 * MINUTES) == 0, terminals["server"].read_text()
    finally:
        example.stop(processes)
    time.sleep(1)
    texts = {name: path.read_text(errors="surrogateescape") for name, path in terminals.items()}
    logs = {path: path.read_text(errors="surrogateescape") for path in tmp_path.rglob("*.log")}
    assert {path.name for path in logs} >= {"superlink.log", "supernode.log"}
    for text in (*texts.values(), *logs.values(), (federation / "server" / "audit.jsonl").read_text()):
        harmless(text)
    assert "\\x1b[2J\\x1b[31mred" in logs[home / "supernode.log"]
    assert "\\x1b[2J\\x1b[31mred" in texts["south"] + logs[run / "superlink.log"]
    refused = (federation / "server" / "audit.jsonl").read_text()
    assert "[bold]b[/wrong]" in refused

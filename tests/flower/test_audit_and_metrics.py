"""audit.jsonl and the metrics of a deployed run."""

import json
import os
import re
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import test_deployed_run as deployed
from test_status import write

from protofed.cli.main import main
from protofed.core.errors import ConfigError
from protofed.deploy import serve
from protofed.deploy.audit import Audit, check_audit
from protofed.deploy.metrics import metrics_page, render
from protofed.deploy.settings import read_server
from protofed.deploy.status import StatusFile

EVIL = "\x1b[31m<script>\n{}\u202e\x7f".format("a" * 5000)


def lines(folder):
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def test_a_run_from_joining_to_its_end(tmp_path):
    """Client 1 sends a reply that is refused, and then none in time."""
    status = StatusFile(tmp_path / "run", 42, Audit(tmp_path, "run"))
    status.roster(joined="a", model="mlp", samples=10)
    status.roster(refused="no such client", node=7, key="")
    status.begin(["a", "b"], 3)
    asked = {"event": "train", "round": 1}
    status.event({**asked, "client": 0, "reason": None, "outcome": "accepted"})
    status.event({**asked, "client": 1, "reason": "not finite", "outcome": "refused"})
    status.round({"round": 1})
    status.event({**asked, "client": 1, "reason": "no reply", "outcome": "late"})
    status.roster(lost="b")
    status.round({"round": 2})
    status.end("finished")
    found = lines(tmp_path)
    names = ["joined", "refused", "run begins", "round", "lost", "round", "run ends"]
    assert [line["event"] for line in found] == names
    assert {line["run"] for line in found} == {"run"}
    assert found[0]["client"] == "a"
    assert (found[1]["reason"], found[1]["node"]) == ("no such client", 7)
    assert (found[3]["accepted"], found[3]["refused"]) == (["a"], {"b": "not finite"})
    assert (found[5]["accepted"], found[5]["late"]) == ([], {"b": "no reply"})
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_text_from_outside_cannot_do_anything_in_a_terminal(tmp_path):
    Audit(tmp_path, "run").note("refused", reason=EVIL, more={EVIL: [EVIL]})
    text = (tmp_path / "audit.jsonl").read_text()
    assert re.fullmatch(r"[ -~]+\n", text)
    assert len(text) < 10_000
    assert lines(tmp_path)[0]["reason"] == EVIL[:2000]


def test_lines_are_only_added(tmp_path):
    (tmp_path / "audit.jsonl").write_text('{"event": "earlier"}\n')
    Audit(tmp_path, "run").note("later")
    assert [line["event"] for line in lines(tmp_path)] == ["earlier", "later"]


def test_operators_leave_their_name_and_how_it_ended(tmp_path, monkeypatch):
    """The server is started twice: once it is interrupted, once something listens there already."""
    deployed.write_federation(tmp_path)
    home = tmp_path / "f" / "server"

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(serve, "_wait_for_predecessor", interrupted)
    with pytest.raises(KeyboardInterrupt):
        serve.run_server(home, tmp_path / "run", False, lambda text: None)
    found = lines(home)
    assert [line["event"] for line in found] == ["server starts", "server ends"]
    assert found[0]["by"]
    assert found[1]["reason"].startswith("KeyboardInterrupt")


def test_the_apps_events_reach_the_log(tmp_path, monkeypatch):
    """A whole run over a grid in this process."""
    deployed.write_federation(tmp_path)
    plain = StatusFile
    monkeypatch.setattr(
        deployed, "StatusFile", lambda out, number: plain(out, number, Audit(tmp_path, "run"))
    )
    deployed.start(tmp_path, tmp_path / "run")
    found = lines(tmp_path)
    assert sorted(line["client"] for line in found if line["event"] == "joined") == ["north", "south"]
    rounds = [line for line in found if line["event"] == "round"]
    assert [line["accepted"] for line in rounds] == [["north", "south"]] * 3


# metrics


def samples(text):
    """A reader of the text format, strict on what a line may be."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) protofed_\w+ .+", line)
            continue
        name, value = re.fullmatch(
            r'(protofed_\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})?) (\S+)', line
        ).groups()
        found[name] = float(value)
    return found


def test_numbers(tmp_path):
    status = write(tmp_path)
    status.event({"event": "train", "client": 1, "round": 1, "reason": "NaN", "outcome": "refused"})
    found = samples(render(tmp_path))
    expected = {
        "rounds": 3,
        "rounds_done_total": 1,
        "round_seconds_total": 1,
        "running": 1,
        "clients_missing": 1,
        'client_connected{client="a"}': 1,
        'client_connected{client="b"}': 0,
        'uploads_total{client="b",outcome="refused"}': 1,
        "refusals_total": 1,
        'payload_bytes_total{way="up"}': 40,
        'message_bytes_total{way="down"}': 700,
        'wire_bytes_total{way="up"}': 5000,
    }
    assert {name: found[f"protofed_{name}"] for name in expected} == expected


def test_before_the_first_round(tmp_path):
    assert samples(render(tmp_path))["protofed_rounds_done_total"] == 0


def test_names_are_escaped(tmp_path):
    status = StatusFile(tmp_path)
    status.roster(joined='a"} 7\n', model="mlp", samples=1)
    assert 'client="a\\"} 7\\n"' in render(tmp_path)


def test_served_to_this_machine_only(tmp_path):
    write(tmp_path)
    with metrics_page(tmp_path, 0) as page:
        with urlopen(page.url + "metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert samples(answer.read().decode())["protofed_rounds"] == 3
        for request, code in (
            (Request(page.url + "other"), 404),
            (Request(page.url + "metrics", headers={"Host": "evil.example"}), 403),
        ):
            with pytest.raises(HTTPError, match=str(code)):
                urlopen(request, timeout=10)
        with pytest.raises(ConfigError, match="metrics_port: cannot listen"):
            metrics_page(tmp_path, page.port)


def test_the_port_is_a_setting_of_the_server(tmp_path):
    deployed.write_federation(tmp_path)
    toml = tmp_path / "f" / "server" / "server.toml"
    assert read_server(toml).metrics_port == 0
    toml.write_text(toml.read_text().replace("# metrics_port", "metrics_port"))
    assert read_server(toml).metrics_port == 9464


def test_time_of_the_last_answer(tmp_path):
    status = StatusFile(tmp_path)
    status.roster(joined="a", model="mlp", samples=1)
    status.values["clients"]["a"]["seen"] = time.time() - 100
    status.end("running")
    assert 99 < samples(render(tmp_path))['protofed_client_seen_seconds{client="a"}'] < 160


# checksums


def written(folder, count=4):
    audit = Audit(folder, "run")
    for number in range(count):
        audit.note("joined", client=f"{EVIL}{number}")
    (folder / "server.toml").touch()
    return folder / "audit.jsonl"


def test_every_line_of_the_audit_log_is_covered(tmp_path, capsys):
    """Edited, left out, moved, added, or of another log: the first line that does not follow is named."""
    path = written(tmp_path)
    assert main(["verify", str(tmp_path)]) == 0
    whole = path.read_text().splitlines()
    assert [json.loads(line)["line"] for line in whole] == [1, 2, 3, 4]
    for changed, line in (
        ([whole[0], whole[1].replace("joined", "Joined"), *whole[2:]], 2),
        ([whole[0], *whole[2:]], 2),
        (whole[1:], 1),
        ([*whole[:2], whole[3], whole[2]], 3),
        ([*whole, whole[3]], 5),
        ([*whole[:3], '{"event": "finished"}'], 4),
    ):
        path.write_text("\n".join(changed) + "\n")
        assert check_audit(path).startswith(f"line {line} is not what was written")
        capsys.readouterr()
        assert main(["verify", str(tmp_path)]) == 1
        assert f"audit.jsonl: damaged: line {line}" in capsys.readouterr().out


def test_the_log_goes_on_after_a_crash_and_after_an_earlier_version(tmp_path):
    path = written(tmp_path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])  # the last line was cut off
    Audit(tmp_path, "run").note("later")
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()[::2]] == ["joined", "later"]
    assert check_audit(path).startswith("line 2 is not what was written")
    path.write_text('{"event": "earlier"}\n')
    Audit(tmp_path, "run").note("later")
    Audit(tmp_path, "run").note("still later")
    assert check_audit(path) == "lines 1 to 1 have no checksum: an earlier version wrote them"
    path.unlink()
    assert main(["verify", str(tmp_path)]) == 1


def test_two_processes_write_one_chain(tmp_path):
    children = []
    for name in "ab":
        if (child := os.fork()) == 0:
            for _ in range(50):
                Audit(tmp_path, name).note("round")
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert len(lines(tmp_path)) == 100
    assert check_audit(tmp_path / "audit.jsonl") == ""

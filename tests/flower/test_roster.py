"""Who gets in, who is refused and why, and who is not waited for."""

import os
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
import test_deployed_run as deployed
import torch
from fake_grid import FakeGrid
from flwr.app import Error
from test_federation_files import node, write_site

from protofed.config import resolve
from protofed.core.errors import EngineError
from protofed.deploy import client_app, roster
from protofed.deploy.agreement import agree, check_fits
from protofed.deploy.notices import Notices, tell
from protofed.deploy.roster import Roster
from protofed.deploy.settings import read_client
from protofed.flower import link as links
from protofed.flower.codec import encode
from protofed.flower.link import GridLink
from protofed.flower.packet import Packet
from protofed.runs.directory import RunDir


class Heard(list):
    def __call__(self, **news):
        self.append(news)

    def of(self, kind):
        return [news[kind] for news in self if kind in news]


def of_disk(folder):
    """A node that reads its client.toml with every message, as Flower's processes do."""
    return lambda packet: client_app.answer(read_client(folder), packet)


@pytest.fixture
def site(tmp_path):
    return write_site(tmp_path, "one", ["dog", "yeti"])


def test_a_corrected_client_gets_in_without_a_restart(site, monkeypatch):
    """Refused for a class; asked again not before AGAIN_SECONDS, and told and noted once. Then client.toml is
    corrected, and the next hello is taken."""
    heard, said = Heard(), Notices(site.settings.home)
    grid = FakeGrid({5: of_disk(site.settings.home)}, {5: "one"})
    made = Roster(grid, ["one"], True, heard, check=lambda one: check_fits(one, ["dog", "cat"], {}))
    with pytest.raises(EngineError, match=r"one did not join within 0 s; refused: .* class 'yeti'"):
        made.wait(0)
    asked = len(grid.sent)
    made.refresh()
    assert len(grid.sent) == asked
    monkeypatch.setattr(roster, "AGAIN_SECONDS", 0.0)
    made.refresh()
    assert len(heard.of("refused")) == 1
    assert "has the class 'yeti'" in said.new()[0]
    toml = site.settings.home / "client.toml"
    toml.write_text(toml.read_text().replace("yeti", "cat"))
    assert [member.classes for member in made.wait(5)] == [("dog", "cat")]
    assert heard.of("joined") == ["one"]
    assert said.new() == []


def test_another_version_is_named_at_both_ends(site, monkeypatch):
    heard, said = Heard(), Notices(site.settings.home)
    monkeypatch.setattr(client_app, "VERSION", "0.0.7")
    made = Roster(FakeGrid({5: node(site)}, {5: "one"}), ["one"], True, heard)
    made.refresh()
    (refused,) = heard.of("refused")
    assert refused.startswith("client one has protofed 0.0.7, the server ")
    assert refused in said.new()[0]


def test_a_client_that_does_not_say_its_version_is_refused(site):
    def older(packet):
        reply = client_app.answer(site.settings, packet)
        return reply._replace(meta={k: v for k, v in reply.meta.items() if k != "protofed"})

    heard = Heard()
    Roster(FakeGrid({5: older}, {5: "one"}), ["one"], True, heard).refresh()
    assert "it has protofed an earlier version, the server" in heard.of("refused")[0]


def test_another_schema_is_named_at_the_client_too(site):
    FakeGrid({})  # messages need a run
    content = encode(Packet({"kind": "hello"}, {}))
    content.config_records["meta"]["schema"] = 99
    said = Notices(site.settings.home)
    context = SimpleNamespace(node_config={"site": str(site.settings.home / "client.toml")})
    message = links.Message(content, 5, "query")
    message.metadata.__dict__["_message_id"] = "m"
    reply = client_app.handle(message, context)
    assert "schema 99" in reply.content.config_records["meta"]["error"]
    assert "schema 99, this side has" in said.new()[0]


def test_work_of_a_client_is_done_one_after_the_other(site, monkeypatch):
    """A second message comes while the first, whose answer will be too late, is still worked on."""
    times = []

    def work(settings, packet):
        started = time.monotonic()
        time.sleep(0.3)
        times.append((started, time.monotonic()))
        return packet

    monkeypatch.setattr(client_app, "_work", work)
    ask = lambda: client_app.answer(site.settings, Packet({"kind": "train"}, {}))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(before[1] <= after[0] for before, after in pairwise(sorted(times)))


def test_a_node_that_went_away_is_not_refused(site):
    """Flower answers for it, with an error of its own."""
    heard = Heard()
    Roster(FakeGrid({5: lambda packet: ValueError("gone")}, {5: "one"}), ["one"], True, heard).refresh()
    assert "gone" in heard.of("refused")[0]  # the client's own error
    heard.clear()
    grid = FakeGrid({5: lambda packet: Error(code=5, reason="unavailable")}, {5: "one"})
    Roster(grid, ["one"], True, heard).refresh()
    assert heard.of("refused") == []


def test_notices_cannot_write_to_a_terminal(tmp_path):
    said = Notices(tmp_path)
    tell(tmp_path, "a\x1b[31mb\nc\u202e")
    assert said.new() == [r"a\x1b[31mb\nc\u202e"]


def joined(tmp_path):
    """Two clients in a run; the second answers only while `alive` says so."""
    alive = {"two": True}
    sites = [write_site(tmp_path, name, ["dog", "cat"]) for name in ("one", "two")]
    second = node(sites[1])
    grid = FakeGrid(
        {5: node(sites[0]), 6: lambda p: second(p) if alive["two"] else None}, {5: "one", 6: "two"}
    )
    heard = Heard()
    made = Roster(grid, ["one", "two"], True, heard)
    made.begin(agree("run", resolve({}), made.wait(5), []))
    link = GridLink(grid, made.current, lost=made.lost)
    return SimpleNamespace(grid=grid, roster=made, link=link, alive=alive, heard=heard)


def ask(link, timeout):
    packet = Packet({"kind": "echo"}, {"x": torch.ones(1)})
    started = time.monotonic()
    return link.exchange({0: packet, 1: packet}, timeout), time.monotonic() - started


def test_a_dead_client_costs_one_timeout_and_comes_back(tmp_path, monkeypatch):
    run = joined(tmp_path)
    assert list(ask(run.link, 5)[0].replies) == [0, 1]
    run.alive["two"] = False
    got, seconds = ask(run.link, 1)
    assert (list(got.replies), got.silent) == ([0], {1})
    assert seconds >= 1
    assert run.heard.of("lost") == ["two"]
    got, seconds = ask(run.link, 60)
    assert got.failures == {1: "client 1: not connected"}
    assert seconds < 30
    run.alive["two"] = True
    monkeypatch.setattr(run.roster._letters, "_open", {})  # the hello it did not answer has expired
    assert list(ask(run.link, 5)[0].replies) == [0, 1]


def test_a_client_that_connects_anew_is_told_the_agreement_anew(tmp_path, monkeypatch):
    """Its disk may have been lost. Flower gives it the node it had."""
    run = joined(tmp_path)
    path = tmp_path / "two" / "state" / "run" / "agreement.json"
    assert ask(run.link, 5)[0].failures == {}
    path.unlink()
    again = run.grid.get_nodes()
    again[1].last_activated_at = "later"
    monkeypatch.setattr(run.grid, "get_nodes", lambda: again)
    assert ask(run.link, 5)[0].failures == {}
    assert path.exists()


def test_a_leg_waits_for_its_quorum(tmp_path):
    """A quorum of two of which one is away: the leg begins when the time is over, not at once."""
    run = joined(tmp_path)
    run.roster.lost(1)
    run.alive["two"] = False
    started = time.monotonic()
    assert run.roster.current(2, 0.7) == {0: 5}
    assert time.monotonic() - started >= 0.7


def test_a_reply_that_took_the_server_down_is_not_read_again(tmp_path, monkeypatch):
    """A process that ends while it reads south's reply of round 2, as out of memory. Restarted with the same
    client, it plays round 2 without south, and round 3 with it."""
    deployed.write_federation(tmp_path)
    plain = links._read

    def deadly(message):
        packet = plain(message)
        if (packet.meta.get("client"), packet.meta.get("tag")) == (1, "2.0"):
            os._exit(9)
        return packet

    monkeypatch.setattr(links, "_read", deadly)
    child = os.fork()
    if child == 0:
        deployed.start(tmp_path, tmp_path / "run")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    deployed.start(tmp_path, tmp_path / "run")
    lines = RunDir(tmp_path / "run").lines("metrics.jsonl")
    assert [line["clients"] for line in lines] == [2, 1, 2]
    assert "the server ended while it read this reply" in lines[1]["failed"]["1"]
    assert not (tmp_path / "run" / "reading.json").exists()

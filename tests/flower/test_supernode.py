"""Flower's SuperNode as we run it: pauses, and messages whose app died."""

import inspect
import os
import re
import stat
import sys
import time
from importlib import import_module

import pytest
from flwr.app import RecordDict
from flwr.app.message.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import ErrorCode, Status
from flwr.supercore.constant import TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supernode.nodestate import NodeStateFactory

from protofed.deploy import quick, supernode
from protofed.deploy.launching import Ended
from protofed.deploy.private import private_folder
from protofed.deploy.supernode import Apps, Pauses
from protofed.flower import patience as patience_module
from protofed.flower.patience import Patience

RUN = 11


class Clock:
    """A module `time` whose pauses last no time."""

    def __init__(self):
        self.now, self.slept = 100.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(patience_module, "time", made)
    monkeypatch.setattr(supernode, "time", made)
    return made


def test_pauses_are_a_tenth_of_the_time_waited(clock):
    patience = Patience(0.1, 3.0)
    for _ in range(3):
        patience.sleep()
    assert clock.slept == [0.1, 0.1, 0.1]
    clock.now = 105.0  # after 5 s; the last look ended just now
    patience.woke()
    patience.sleep()
    clock.now = 200.0
    patience.woke()
    patience.sleep()
    patience.sleep(most=0.2)
    assert clock.slept[3:] == [0.5, 3.0, 0.2]


def test_where_looks_take_long_pauses_are_four_times_as_long(clock):
    patience = Patience(0.1, 3.0)
    clock.now += 0.3
    assert patience.pause() == pytest.approx(1.2)
    patience.begin()
    assert patience.pause() == 0.1


def test_a_node_looks_often_after_a_message_and_seldom_after_a_while(clock):
    pauses = Pauses()
    pauses.sleep(0.5)
    pauses.sleep(3)
    clock.now += 20
    pauses._message.woke()
    pauses.sleep(3)
    pauses.sleep(0.5)
    assert clock.slept == [0.02, 0.1, 2.01, 0.02]


def test_what_is_done_seldom_is_done_at_once_and_then_after_a_while(monkeypatch, clock):
    monkeypatch.setattr(quick, "time", clock)
    calls, one, other = [], object(), object()
    method = quick.seldom(calls.append, 1.0)
    method(one)
    clock.now += 0.9
    method(one)
    method(other)
    assert calls == [one, other]
    clock.now += 0.1
    method(one)
    assert calls == [one, other, one]


def test_flowers_loop_sleeps_as_we_think():
    """The two pauses of Flower's loop that are shortened, and nothing else of the module `time`."""
    source = inspect.getsource(import_module("flwr.supernode.start_client_internal"))
    assert re.findall(r"\btime\.(\w\S*)", source) == ["sleep(3)", "sleep(0.5)", "sleep(0.5)"]


class Told:
    """A launcher that says what it is told to say."""

    def __init__(self):
        self.next = []

    def ended(self, seconds):
        said, self.next = self.next, []
        return said


def message(number):
    """A message to node 2 of the run."""
    made = {"run_id": RUN, "message_id": number, "src_node_id": 1, "dst_node_id": 2, "group_id": ""}
    more = {"reply_to_message_id": "", "created_at": time.time(), "ttl": 3600.0, "message_type": "train"}
    return make_message(Metadata(**made, **more), content=RecordDict())


@pytest.fixture
def node():
    state = NodeStateFactory(ObjectStoreFactory()).state()
    launching = Told()
    return state, launching, Apps(state, launching)


def begin(state, number, claim=True):
    task = state.create_task(TaskType.CLIENT_APP, RUN)
    state.store_message(message(number))
    if claim:
        assert state.claim_task(task)
    return task


def replies(state):
    return [
        (one.metadata.reply_to_message_id, one.error.code, one.error.reason)
        for one in state.get_messages_legacy(is_reply=True)
    ]


@pytest.mark.parametrize("taken", [True, False])
def test_a_message_whose_app_died_is_answered_for_at_once(node, taken):
    state, launching, apps = node
    task = begin(state, "first")
    if taken:
        assert len(state.get_messages_legacy(run_ids=[RUN], is_reply=False, limit=1)) == 1
    launching.next = [Ended(task, "signal 9")]
    apps.working(0)
    why = "the client app's process ended with signal 9 before it had answered"
    assert replies(state) == [("first", ErrorCode.CLIENT_APP_CRASHED, why)]
    assert state.get_tasks(task_ids=[task])[0].status.status == Status.FINISHED


def test_a_message_is_answered_for_when_the_launcher_died(node):
    state, launching, apps = node
    begin(state, "first")
    launching.next = [Ended(None, "signal 9")]
    apps.working(0)
    assert [reply[:2] for reply in replies(state)] == [("first", ErrorCode.CLIENT_APP_CRASHED)]


def test_a_task_that_nobody_had_taken_waits_for_the_next_launcher(node):
    state, launching, apps = node
    begin(state, "first", claim=False)
    launching.next = [Ended(None, "signal 9")]
    apps.working(0)
    assert replies(state) == []


def test_the_end_of_an_earlier_app_says_nothing_about_this_message(node):
    state, launching, apps = node
    earlier = begin(state, "first")
    state.delete_messages(message_ids=["first"])
    begin(state, "second")
    launching.next = [Ended(earlier, "code 1")]
    apps.working(0)
    assert replies(state) == []


def test_a_message_with_a_reply_gets_no_second_one(node):
    state, launching, apps = node
    task = begin(state, "first")
    state.get_messages_legacy(run_ids=[RUN], is_reply=False)
    launching.next = [Ended(task, "signal 15")]
    apps.working(0)
    launching.next = [Ended(task, "signal 15")]
    apps.working(0)
    assert len(replies(state)) == 1


def test_the_secret_of_the_processes_is_for_the_owner_alone(tmp_path, monkeypatch):
    home = private_folder(tmp_path / "flower")
    monkeypatch.setenv("FLWR_HOME", str(home))
    monkeypatch.setattr(sys, "argv", ["supernode", "--isolation", "process"])
    monkeypatch.setattr(supernode, "flower_supernode", lambda: None)
    monkeypatch.setattr(supernode.program, "start_client_internal", None)
    supernode.main()
    path = home / "processes"
    assert sys.argv[-2:] == ["--superexec-auth-secret-file", str(path)]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    first = path.read_bytes()
    assert len(first) >= 40
    supernode.main()
    assert path.read_bytes() != first

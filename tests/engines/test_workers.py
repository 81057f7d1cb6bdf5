"""Worker processes: deaths are survived, errors come through, nothing is left behind."""

import logging
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from protofed.core.errors import ConfigError, EngineError, MessageError
from protofed.core.record import Nothing
from protofed.engines import watchdog, workers
from protofed.engines.workers import Workers
from protofed.testing import Toy, assert_equal, snapshot


def play(toy: Toy, **changes):
    experiment = toy.build(**changes)
    try:
        experiment.play(None)
    finally:
        experiment.federation.engine.close()
    return experiment


def test_a_killed_worker_is_named_and_replaced_and_the_round_is_not_lost(caplog):
    reference = play(Toy("fedproto"), rounds=3)
    experiment = Toy("fedproto").build(rounds=3, engine="workers", workers=2)
    engine = experiment.federation.engine
    experiment.federation.play()
    victim = engine._workers[0].process.pid
    os.kill(victim, signal.SIGKILL)
    with caplog.at_level(logging.WARNING, logger="protofed"):
        experiment.play(None)
    engine.close()
    assert f"worker 0 (process {victim}) died, exit code -9" in caplog.text
    assert_equal(snapshot(reference), snapshot(experiment))


@pytest.mark.parametrize("engine", ["workers", pytest.param("workers+cohort", marks=pytest.mark.slow)])
def test_a_stopped_worker_is_replaced_and_the_numbers_are_equal(caplog, monkeypatch, engine):
    """Stopped when it has nothing to do: the parent cannot know before it waits for it."""
    monkeypatch.setattr(watchdog, "TICK", 0.05)
    settings = {"rounds": 3, "engine": engine, "workers": 2}
    reference = play(Toy("fedproto"), **settings)
    experiment = Toy("fedproto").build(**settings)
    federation = experiment.federation
    federation.play()
    federation.engine.patience.fixed = 1.0
    victim = federation.engine._workers[0].process.pid
    os.kill(victim, signal.SIGSTOP)
    with caplog.at_level(logging.WARNING, logger="protofed"):
        experiment.play(None)
    federation.engine.close()
    assert f"worker 0 (process {victim}) has not answered for 1 s " in caplog.text
    assert not psutil.pid_exists(victim)
    assert_equal(snapshot(reference), snapshot(experiment))


def test_an_order_larger_than_the_pipe_does_not_block_on_a_stopped_worker(monkeypatch):
    """Nobody reads the pipe: the parent would wait within its own write."""
    monkeypatch.setattr(watchdog, "TICK", 0.05)
    pack = workers.pack
    monkeypatch.setattr(workers, "pack", lambda message: bytes(pack(message)) + bytes(10**6))
    experiment = Toy("fedavg").build(rounds=2, engine="workers", workers=1, worker_timeout=1.0)
    federation = experiment.federation
    federation.play()
    os.kill(federation.engine._workers[0].process.pid, signal.SIGSTOP)
    record = federation.play()
    federation.engine.close()
    assert (record["clients"], record["failed"]) == (6, {})


def test_a_worker_in_an_endless_loop_is_replaced_and_its_client_fails_alone(monkeypatch):
    monkeypatch.setattr(watchdog, "TICK", 0.05)
    settings = {"engine": "workers", "workers": 2, "on_failure": "drop", "worker_timeout": 0.5}
    experiment = Toy("fedavg").build(rounds=1, **settings)
    good, parent = experiment.data.train, os.getpid()

    def endless(client):
        while client == 3 and os.getpid() != parent:
            pass
        return good(client)

    monkeypatch.setattr(experiment.data, "train", endless)
    record = experiment.federation.play()
    experiment.federation.engine.close()
    assert list(record["failed"]) == ["3"]
    assert "3 times its worker process has not answered" in record["failed"]["3"]
    assert record["clients"] == 5


def test_a_slow_first_round_is_no_hang():
    """An hour before anything is known; afterwards ten times the slowest for as much work, a minute at
    least, and twice as much for a share that was cut off before."""
    patience = watchdog.Patience()
    assert patience.limit("TrainOrder", 5.0) == 3600
    patience.learn("TrainOrder", 5.0, 100.0)
    patience.learn("TrainOrder", 5.0, 1.0)
    assert patience.limit("TrainOrder", 5.0) == 10 * 100
    assert patience.limit("TrainOrder", 10.0, tries=1) == 2 * 10 * 200
    assert patience.limit("TestOrder", 5.0) == 3600
    patience.learn("TestOrder", 5.0, 1.0)
    assert patience.limit("TestOrder", 5.0) == 60
    assert watchdog.Patience(7.0).limit("TrainOrder", 5.0, tries=2) == 7


def test_a_client_that_always_kills_its_worker_fails_alone(monkeypatch):
    """The block is tried three times; then its client is left out and the others count."""
    experiment = Toy("fedavg").build(rounds=1, engine="workers", workers=2, on_failure="drop")
    good = experiment.data.train
    parent = os.getpid()

    def deadly(client):
        if client == 3 and os.getpid() != parent:
            os._exit(17)
        return good(client)

    monkeypatch.setattr(experiment.data, "train", deadly)
    record = experiment.federation.play()
    experiment.federation.engine.close()
    assert list(record["failed"]) == ["3"]
    assert "3 times its worker process died, exit code 17" in record["failed"]["3"]
    assert record["clients"] == 5


def test_a_test_that_kills_its_worker_names_the_client(monkeypatch):
    from protofed.algorithms.fedproto import FedProto

    experiment = Toy("fedproto").build(rounds=1, engine="workers", workers=2)
    experiment.federation.play()
    experiment.federation.engine.close()
    monkeypatch.setattr(FedProto, "predict", lambda *args: os._exit(9))
    with pytest.raises(EngineError, match=r"test of client \d: 3 times its worker process died"):
        experiment.federation.evaluate(range(6))
    experiment.federation.engine.close()


def test_errors_of_workers_keep_their_class(monkeypatch):
    experiment = Toy("fedproto").build(rounds=1, engine="workers", workers=2)

    def refuse(client):
        raise ConfigError("client 1 cannot be loaded")

    monkeypatch.setattr(experiment.data, "train", refuse)
    with pytest.raises(ConfigError, match="client 1 cannot be loaded"):
        experiment.federation.play()
    assert experiment.federation.engine._workers == []


def test_unknown_errors_show_the_worker_s_traceback(monkeypatch):
    experiment = Toy("fedproto").build(rounds=1, engine="workers", workers=2)
    monkeypatch.setattr(experiment.data, "train", {}.__getitem__)
    with pytest.raises(RuntimeError, match=r"a worker failed:[\s\S]*KeyError"):
        experiment.federation.play()


def test_errors_in_code_of_the_user_s_name_its_line(monkeypatch):
    experiment = Toy("fedproto").build(rounds=1, engine="workers", workers=2)
    monkeypatch.setattr(experiment.data, "train", lambda client: 1 / 0)
    with pytest.raises(ConfigError, match=r"^test_workers.py, line \d+, in <lambda>: ZeroDivisionError"):
        experiment.federation.play()


def test_a_refused_upload_leaves_the_client_as_it_was_also_in_its_worker():
    """The worker holds the refused state; the parent must send the old one again."""
    toy = Toy("fedproto", settings={"on_failure": "drop"})
    outcomes = []
    for engine in ("sequential", "workers"):
        experiment = toy.build(rounds=3, engine=engine, workers=2)
        federation = experiment.federation
        run = federation.engine.run

        def spoil_round_two(jobs, federation=federation, run=run):
            for outcome in run(jobs):
                bad = federation.round == 2 and outcome.client == 1
                yield outcome._replace(up=Nothing()) if bad else outcome

        federation.engine.run = spoil_round_two
        experiment.play(None)
        federation.engine.close()
        outcomes.append(snapshot(experiment))
    assert_equal(*outcomes)


def test_a_nan_stops_the_run_with_client_and_round():
    experiment = Toy("fedproto").build(rounds=1, engine="workers", workers=2)
    data = experiment.data.train(2)
    data.x.fill_(float("nan"))
    with pytest.raises(MessageError, match=r"client 2, round 1.*loss is nan"):
        experiment.federation.play()


def test_no_worker_outlives_a_killed_parent(tmp_path):
    code = (
        "import os, time\n"
        "from protofed.testing import Toy\n"
        "e = Toy('fedproto').build(rounds=1, engine='workers', workers=2)\n"
        "e.federation.play()\n"
        "print(*[w.process.pid for w in e.federation.engine._workers], flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(psutil.pid_exists(pid) for pid in pids)
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout:
            parent.stdout.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_alive(pid) for pid in pids):
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)


def test_close_ends_the_workers():
    experiment = Toy("local").build(rounds=1, engine="workers", workers=2)
    experiment.play(None)
    pids = [w.process.pid for w in experiment.federation.engine._workers]
    experiment.federation.engine.close()
    assert len(pids) == 2
    assert not any(_alive(pid) for pid in pids)


def test_work_is_divided_by_size_and_planned_the_same_every_time():
    """Client sizes 16, 14, 1, 15, 17, 12; longest first to the lighter worker:
    17→0, 16→1, 15→1 (31), 14→0 (31), 12→0 (43), 1→1 (32)."""
    experiment = Toy("fedproto").build(rounds=1)
    engine = Workers(experiment.task, experiment.data, experiment.federation.engine.store, workers=2)
    federation = experiment.federation
    federation.round = 1
    from protofed.engines.inbox import Tally
    from protofed.engines.sampling import Drawn
    from protofed.engines.worker_process import TrainOrder

    leg = experiment.task.algorithm.legs[0]
    jobs = [federation._job(leg, Drawn(c, 1, False), Tally()) for c in range(6)]
    plan = [[share.jobs[0].client for share in shares] for shares in engine._plan(TrainOrder, jobs)]
    assert plan == [[4, 1, 5], [0, 3, 2]]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_threads_of_this_process_are_left_alone():
    before = torch.get_num_threads()
    play(Toy("local"), rounds=1, engine="workers", workers=2)
    assert torch.get_num_threads() == before

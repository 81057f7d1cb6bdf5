"""Tests that begin before the server is done, and tests in parts: the same numbers to the bit."""

import pytest

from protofed.algorithms.fedproto import FedProto
from protofed.core.ahead import Ahead
from protofed.core.data import LocalData
from protofed.core.scoring import joined
from protofed.core.task import ClientTurn
from protofed.engines import planning, worker_process, workers
from protofed.engines.base import Job
from protofed.engines.sequential import Sequential
from protofed.engines.worker_process import AheadOrder, carry_out, go_ahead
from protofed.testing import Toy, assert_equal, snapshot


def after_a_round(method: str = "fedproto", **options) -> tuple[Sequential, list[Job]]:
    experiment = Toy(method, options).build(rounds=1)
    federation = experiment.federation
    federation.play()
    engine = federation.engine
    assert isinstance(engine, Sequential)
    turns = [ClientTurn(experiment.task, 1, "eval", client=c) for c in range(6)]
    return engine, [Job(turn, experiment.task.algorithm.broadcast(federation.state, turn)) for turn in turns]


def scores(engine: Sequential, jobs: list[Job]) -> list[tuple]:
    return [(s.client, s.n, s.correct, s.loss, s.signs) for s in engine.evaluate(jobs)]


def counting(monkeypatch, engine: Sequential) -> list[int]:
    """How many samples pass through the model."""
    passed: list[int] = []
    model = engine.task.live(0).modules["model"]
    model.register_forward_hook(lambda module, args, out: passed.append(len(args[0])))
    return passed


def test_a_test_reads_what_was_made_ahead(monkeypatch):
    engine, jobs = after_a_round()
    expected = scores(engine, jobs)
    engine.ahead = Ahead()
    go_ahead(engine, AheadOrder([job.turn for job in jobs]), lambda: False)
    passed = counting(monkeypatch, engine)
    assert scores(engine, jobs) == expected
    assert passed == []
    assert engine.ahead.wanted


def test_an_order_ends_going_ahead(monkeypatch):
    engine, jobs = after_a_round()
    engine.ahead = Ahead()
    calls = iter([False, False, True])
    go_ahead(engine, AheadOrder([job.turn for job in jobs]), lambda: next(calls))
    passed = counting(monkeypatch, engine)
    list(engine.evaluate(jobs))
    assert len(passed) == 4  # six clients, two of them made ahead


def test_another_state_is_tested_anew(monkeypatch):
    """As after a refused upload: the client is as it was before."""
    engine, jobs = after_a_round()
    engine.ahead = Ahead()
    go_ahead(engine, AheadOrder([jobs[0].turn]), lambda: False)
    engine.store.put(0, engine.store.get(1))
    expected = scores(Sequential(engine.task, engine.data, engine.store), jobs[:1])
    assert scores(engine, jobs[:1]) == expected
    assert engine.ahead.wanted


def test_a_net_that_a_download_changes_is_tested_anew(monkeypatch):
    def halved(self, tensors, down, turn):
        return {
            name: tensor / 2 if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
        }

    monkeypatch.setattr(FedProto, "load", halved)
    engine, jobs = after_a_round()
    expected = scores(engine, jobs)
    engine.ahead = Ahead()
    go_ahead(engine, AheadOrder([job.turn for job in jobs]), lambda: False)
    assert scores(engine, jobs) == expected
    assert not engine.ahead.wanted


def test_methods_whose_clients_keep_no_model_make_nothing_ahead(monkeypatch):
    engine, jobs = after_a_round("fedavg")
    engine.ahead = Ahead()
    passed = counting(monkeypatch, engine)
    go_ahead(engine, AheadOrder([job.turn for job in jobs]), lambda: False)
    assert passed == []


def test_a_predict_that_does_not_ask_for_results_ends_it(monkeypatch):
    engine, jobs = after_a_round()
    heads = lambda self, net, x, data, down, mem: {"clf": net.head(net.embed(x))}  # noqa: E731
    monkeypatch.setattr(FedProto, "predict", heads)
    engine.ahead = Ahead()
    go_ahead(engine, AheadOrder([job.turn for job in jobs]), lambda: False)
    list(engine.evaluate(jobs[:1]))
    assert not engine.ahead.wanted


def test_a_failure_ahead_is_left_to_the_test(monkeypatch):
    engine, jobs = after_a_round()
    engine.ahead = Ahead()
    monkeypatch.setattr(engine.data, "test", {}.__getitem__)
    go_ahead(engine, AheadOrder([jobs[0].turn]), lambda: False)
    assert not engine.ahead.wanted


def test_results_are_bounded_and_forgotten_with_the_round():
    """Tests of one chunk each; the bound is reached with the first."""
    engine, jobs = after_a_round()
    ahead = Ahead(limit_bytes=1)
    for job in jobs[:2]:
        ahead.make(job.turn, engine.store.get(job.client), engine.data.test(job.client))
    states = [engine.store.get(job.client) for job in jobs[:2]]
    made = [ahead.made(job.turn, state, state.kept).chunks for job, state in zip(jobs, states)]
    assert [len(chunks) for chunks in made] == [1, 0]
    ahead.new_round(1)
    assert ahead.made(jobs[0].turn, states[0], states[0].kept).chunks
    ahead.new_round(2)
    assert not ahead.made(jobs[0].turn, states[0], states[0].kept).chunks
    assert ahead._bytes == 0


@pytest.mark.parametrize("method", ["fedproto", "fedavg"])
def test_parts_of_a_test_joined_are_the_whole(monkeypatch, method):
    """Chunks of three samples instead of 512; parts come in any order."""
    chunks = LocalData.chunks
    monkeypatch.setattr(LocalData, "chunks", lambda self, size=None: chunks(self, 3))
    engine, jobs = after_a_round(method)
    (whole,) = engine.evaluate(jobs[:1])
    of = engine.part(jobs[0]).of
    assert of >= 3
    parts = [engine.part(jobs[0], some) for some in (range(2, of), range(1), range(1, 2))]
    found = joined(parts)
    assert (found.n, found.correct, found.loss, found.signs) == (
        whole.n,
        whole.correct,
        whole.loss,
        whole.signs,
    )


def test_an_order_for_a_part_is_answered_with_one(monkeypatch):
    chunks = LocalData.chunks
    monkeypatch.setattr(LocalData, "chunks", lambda self, size=None: chunks(self, 3))
    engine, jobs = after_a_round()
    order = worker_process.TestOrder(jobs[:2], held=frozenset((0, 1)), parts={0: range(1)})
    answer = carry_out(engine, order)
    part, whole = answer.scores
    assert (part.client, part.chunks, part.scoring.n) == (0, range(1), 3)
    assert whole.client == 1
    assert answer.chunks == [part.of, engine.part(jobs[1]).of]
    assert len(answer.seconds) == 2


@pytest.mark.parametrize("method", ["fedproto", "fedtgp", "fedavg"])
@pytest.mark.parametrize("engine", ["workers", "workers+cohort"])
def test_workers_that_cut_tests_and_go_ahead_find_the_same(monkeypatch, method, engine):
    """Client 0 seems to take long, so its test is cut, from the second round on; results are those of a
    process that does neither."""
    chunks = LocalData.chunks
    monkeypatch.setattr(LocalData, "chunks", lambda self, size=None: chunks(self, 3))
    cut = []
    level = planning.Planner._level

    def watched(self, plan):
        level(self, plan)
        cut.extend(share.parts for own in plan for share in own if share.parts)

    def made_up(self, share, seconds, chunks):
        for job, of in zip(share.jobs, chunks):
            self.tested.learn(job.client, 0, 1.0, 1.0, 9.0 if job.client == 0 else 0.1)
            self._chunks[job.client] = of

    monkeypatch.setattr(planning.Planner, "_level", watched)
    monkeypatch.setattr(planning.Planner, "learn_tests", made_up)
    runs = []
    for name, changes in ((engine, {"workers": 3}), ("sequential" if engine == "workers" else "cohort", {})):
        experiment = Toy(method).build(rounds=3, engine=name, **changes)
        try:
            experiment.play(None)
        finally:
            experiment.federation.engine.close()
        runs.append(experiment)
    assert {client for parts in cut for client in parts} == {0}
    ours, other = runs
    if engine == "workers":
        assert_equal(snapshot(ours), snapshot(other))
    assert ours.last_test == other.last_test


def test_the_round_loop_says_who_is_tested_next():
    """Only with the last leg, and only in rounds that are followed by a test."""
    experiment = Toy("fedproto").build(rounds=3, eval_every=2)
    engine, seen = experiment.federation.engine, []
    run = engine.run

    def watched(jobs):
        seen.append(sorted(engine.tested_next))
        return run(jobs)

    engine.run = watched
    experiment.play(None)
    assert seen == [[], list(range(6)), list(range(6))]


def test_idle_workers_are_told_to_go_ahead(monkeypatch):
    """With the tests of clients that they trained, if a test comes next. On a busy machine the last may get
    the test itself before it is idle: then with the clients of the other worker alone."""
    pack, told = workers.pack, []

    def watched(order):
        told.extend([turn.client for turn in order.turns] if isinstance(order, AheadOrder) else ())
        return pack(order)

    monkeypatch.setattr(workers, "pack", watched)
    experiment = Toy("fedproto").build(rounds=2, engine="workers", workers=2)
    federation = experiment.federation
    try:
        federation.play()
        assert told == []
        federation.play(range(6))
        assert len(told) >= 3
        assert len({*told}) == len(told)
        assert {*told} <= {*range(6)}
    finally:
        federation.engine.close()

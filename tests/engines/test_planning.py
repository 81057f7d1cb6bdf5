"""Who does what: by measured seconds where a client trains alone, by size where cohorts are made."""

from dataclasses import replace

import pytest

from protofed.core.record import Nothing
from protofed.core.task import ClientTurn
from protofed.engines import planning
from protofed.engines.base import Job
from protofed.engines.planning import Measured, Planner, Share, cut, keep_newest
from protofed.testing import Toy, assert_equal, snapshot

SIZES = (16, 14, 1, 15, 17, 12)  # of the toy's clients


def planner(models: str = "plain", count: int = 2, cohort: bool = False) -> tuple[Planner, list[Job]]:
    built = Toy("fedproto", models=models).build(rounds=1)
    jobs = [Job(ClientTurn(built.task, 1, client=c, epochs=1), Nothing()) for c in range(6)]
    assert tuple(built.data.size(c) for c in range(6)) == SIZES
    return Planner(built.task, built.data, count, cohort), jobs


def clients(plan) -> list[list[list[int]]]:
    return [[[job.client for job in share.jobs] for share in own] for own in plan]


def nowhere(job: Job) -> None:
    return None


def test_measured_seconds_decide_once_they_are_known():
    """By size 17+14+12 and 16+15+1. But the small client 2 took 10 s and all others 1 s: it alone fills a
    worker, and of the others' 5 s all go to the second."""
    plan, jobs = planner()
    assert clients(plan.training(jobs, nowhere)) == [[[4], [1], [5]], [[0], [3], [2]]]
    for job in jobs:
        plan.trained.learn(job.client, 0, SIZES[job.client], 1.0, 10.0 if job.client == 2 else 1.0)
    shares = plan.training(jobs, nowhere)
    assert clients(shares) == [[[2]], [[0], [1], [3], [4], [5]]]
    assert [sum(share.cost for share in own) for own in shares] == pytest.approx([10.0, 5.0])


def test_a_new_client_counts_by_its_architecture_s_seconds_a_sample():
    """Clients 0 to 4 took 0.1 s a sample: 1.6, 1.4, 0.1, 1.5, 1.7 s; client 5 is expected to take 1.2 s."""
    plan, jobs = planner()
    for job in jobs[:5]:
        plan.learn_training([job], SIZES[job.client] / 10, worker=0)
    costs = {share.jobs[0].client: share.cost for own in plan.training(jobs, nowhere) for share in own}
    assert costs[5] == pytest.approx(1.2)
    assert costs[4] == pytest.approx(1.7)


def test_half_of_what_is_known_is_from_the_last_time():
    """1 s, then 3 s: (1 + 3) / 2 = 2; then 4 s: 3."""
    known = Measured()
    for seconds, expected in ((1.0, 1.0), (3.0, 2.0), (4.0, 3.0)):
        known.learn(7, 0, 5, 5.0, seconds)
        assert known.expect(7, 0, 5, 5.0) == pytest.approx(expected)


def test_what_took_no_time_or_had_no_samples_teaches_nothing():
    known = Measured()
    known.learn(0, 0, 0, 0.0, 1.0)
    known.learn(0, 0, 5, 5.0, 0.0)
    assert known == Measured()


def test_a_client_stays_where_its_state_is_unless_that_has_its_part_already():
    """Six clients of 1 s, all at home with worker 1: it keeps three, the other gets three."""
    plan, jobs = planner()
    for job in jobs:
        plan.trained.learn(job.client, 0, SIZES[job.client], 1.0, 1.0)
    shares = plan.training(jobs, lambda job: 1)
    assert clients(shares) == [[[3], [4], [5]], [[0], [1], [2]]]


def test_a_client_without_state_stays_where_its_samples_are():
    plan, jobs = planner()
    for job in jobs:
        plan.learn_training([job], 1.0, worker=job.client % 2)
    assert clients(plan.training(jobs, nowhere)) == [[[0], [2], [4]], [[1], [3], [5]]]


def test_cohorts_do_not_follow_measured_seconds():
    """Their members are rounded together: the same ones in every run, resumed or not."""
    plan, jobs = planner(cohort=True)
    first = clients(plan.training(jobs, nowhere))
    assert sorted(client for own in first for share in own for client in share) == list(range(6))
    for job in jobs:
        plan.trained.learn(job.client, 0, SIZES[job.client], 1.0, 100.0 if job.client == 2 else 1.0)
    assert clients(plan.training(jobs, nowhere)) == first
    assert clients(plan.training(jobs[::-1], nowhere)) == first


def test_cohorts_join_clients_of_about_as_many_steps():
    """Sizes 17, 16, 15, 14, 12, 1 in this order, cut into 17+16 = 33 and 15+14+12+1 = 42. The steps of the
    longest, 17 and 15, change nothing: 17+16+15 and 14+12+1 would be further apart."""
    plan, jobs = planner(cohort=True)
    assert clients(plan.training(jobs, nowhere)) == [[[4, 0]], [[3, 1, 5, 2]]]


def test_a_line_is_cut_where_the_heaviest_piece_is_lightest():
    """17+16 = 33 and 15+14+12+1 = 42, not 48 and 27. In three: 17, 16+15 = 31, 14+12+1 = 27. Groups 0 0 1 1,
    each client 10, each group of a piece 5: twice 10+10+5, where a piece of three is 10+10+5+10+5."""
    line = [17.0, 16.0, 15.0, 14.0, 12.0, 1.0]
    free = [0.0] * 6
    assert cut([0] * 6, line, free, 2) == [range(0, 2), range(2, 6)]
    assert cut([0] * 6, line, free, 3) == [range(0, 1), range(1, 3), range(3, 6)]
    assert cut([0, 0, 1, 1], [10.0] * 4, [5.0] * 4, 2) == [range(0, 2), range(2, 4)]
    assert cut([0], [1.0], [0.0], 4) == [range(0, 1)]
    assert cut([], [], [], 2) == []


def told(plan: Planner, jobs: list[Job], seconds: list[float], chunks: list[int]) -> None:
    plan.learn_tests(Share(jobs, 1.0, 1.0), seconds, chunks)


def test_a_test_is_divided_by_the_seconds_of_the_last_one():
    """Client 0 took 4 s, the others 1 s: 4 s and four times 1 s, then the last; shares of at most 9 / 8 s.
    Each test is one chunk, so none is cut."""
    plan, jobs = planner()
    told(plan, jobs, [4.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1] * 6)
    assert clients(plan.tests(jobs, nowhere)) == [[[0], [5]], [[1], [2], [3], [4]]]
    assert plan.trained == Measured()


def test_a_long_test_is_cut():
    """Client 0 took 7 s for 14 chunks, the others 1 s in all: 8 s, so 4 s for each worker. 3 s, 6 chunks, go
    to the other, which begins with them."""
    plan, jobs = planner()
    told(plan, jobs, [7.0, 0.2, 0.2, 0.2, 0.2, 0.2], [14, 1, 1, 1, 1, 1])
    shares = plan.tests(jobs, nowhere)
    assert [own[0].parts for own in shares] == [{0: range(8)}, {0: range(8, 14)}]
    assert [sum(share.cost for share in own) for own in shares] == pytest.approx([4.0, 4.0])


def test_three_workers_share_a_long_test():
    """6 s of 12 chunks, and 3 s that one worker has: fair are 3 s. 6 chunks go to the third."""
    plan, jobs = planner(count=3)
    told(plan, jobs[:2], [6.0, 3.0], [12, 2])
    shares = plan.tests(jobs[:2], nowhere)
    assert [[share.parts for share in own] for own in shares] == [[{0: range(6)}], [{}], [{0: range(6, 12)}]]


def test_a_part_is_not_cut_again(monkeypatch):
    """10 s of 3 chunks for three workers: a chunk each. None of them is a third of the work to the bit."""
    monkeypatch.setattr(planning, "WORTH", 0.0)
    plan, jobs = planner(count=3)
    told(plan, jobs[:2], [10.0, 0.01], [3, 3])
    parts = [share.parts[0] for own in plan.tests(jobs[:2], nowhere) for share in own if share.parts]
    assert sorted(number for part in parts for number in part) == [0, 1, 2]


def test_what_is_not_worth_it_is_not_cut():
    """0.07 s more than the other: half of that is less than a state may take to be sent."""
    plan, jobs = planner()
    told(plan, jobs[:2], [0.17, 0.1], [10, 10])
    assert [[share.parts for share in own] for own in plan.tests(jobs[:2], nowhere)] == [[{}], [{}]]


def test_a_part_teaches_what_the_whole_takes():
    """2 of 8 chunks in 1 s: 4 s for all, so 2 s for each worker."""
    plan, jobs = planner()
    plan.learn_tests(Share(jobs[:1], 1.0, 1.0, parts={0: range(2)}), [1.0], [8])
    shares = plan.tests(jobs[:1], nowhere)
    assert [[share.cost for share in own] for own in shares] == [pytest.approx([2.0]), pytest.approx([2.0])]


def test_tests_on_other_samples_teach_nothing():
    plan, jobs = planner()
    other = [job._replace(turn=replace(job.turn, on="balanced")) for job in jobs]
    told(plan, other, [1.0] * 6, [9] * 6)
    assert plan.tested == Measured()


def test_small_tests_share_an_order(monkeypatch):
    """Two shares of half the work each: sizes 17+14, 12 and 16+15, 1 with a bound of 75 / 2."""
    monkeypatch.setattr(planning, "SHARES", 1)
    plan, jobs = planner()
    assert clients(plan.tests(jobs, nowhere)) == [[[4, 1], [5]], [[0, 3, 2]]]


def test_only_the_newest_clients_are_known(monkeypatch):
    monkeypatch.setattr(planning, "MOST_KNOWN", 2)
    known = {1: 1.0, 2: 2.0}
    keep_newest(known, {1: 3.0})
    keep_newest(known, {5: 5.0})
    assert known == {1: 3.0, 5: 5.0}


@pytest.mark.parametrize("engine", ["workers", "workers+cohort"])
def test_numbers_do_not_follow_the_clock(engine, monkeypatch):
    """Seconds that are made up, and other ones in each run: the same run to the bit."""
    runs = []
    for turn in (1, 2):
        experiment = Toy("fedproto").build(rounds=3, engine=engine, workers=2)
        plan = experiment.federation.engine.planner

        def made_up(jobs, seconds, worker, plan=plan, turn=turn):
            for job in jobs:
                plan.trained.learn(job.client, 0, 1.0, 1.0, 1.0 + (job.client * turn) % 5)

        monkeypatch.setattr(plan, "learn_training", made_up)
        try:
            experiment.play(None)
        finally:
            experiment.federation.engine.close()
        runs.append(snapshot(experiment))
    assert_equal(*runs)

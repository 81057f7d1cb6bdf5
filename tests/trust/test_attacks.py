"""--attack: what attackers send, by hand; every attack in the round loop; what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from protofed.algorithms.fedproto import Protos
from protofed.core.algorithm import Leg
from protofed.core.answer import Reply
from protofed.core.errors import ConfigError
from protofed.core.task import Turn
from protofed.testing import Toy, assert_close, assert_equal, snapshot, toy_data
from protofed.trust.attacks._base import Sight, attacks
from protofed.trust.attacks.colluding import hidden_z
from protofed.trust.defences._base import defences
from protofed.trust.reached import taken

NOT_SENT = {("fedavg", "swap"), ("fedavg", "squatting"), ("fedtgp", "counts")}
VECTORS = [name for name in attacks if name != "backdoor"]  # the toy federation has no images


def reply(client: int, rows: Sequence[Sequence[float]], cls: Sequence[int], n: Sequence[int]) -> Reply:
    mean = torch.tensor(rows, dtype=torch.float64)
    return Reply(client, sum(n), Protos(mean, torch.tensor(cls), torch.tensor(n), {}))


def sent(written: str, own: Reply, honest: Sequence[Reply] = (), others: Sequence[Reply] = ()) -> Reply:
    toy = Toy("fedproto").build()
    leg: Leg = toy.task.algorithm.legs[0]
    down = toy.task.algorithm.broadcast(toy.federation.state, Turn(toy.task, 1))
    sight = Sight(leg, Turn(toy.task, 1), toy.data, honest, [own, *others], down)
    return attacks.make(written).upload(own, sight)


def rows_of(found: Reply) -> list[list[float]]:
    return [[round(v, 6) for v in row] for row in found.up.mean.tolist()]


OWN = reply(0, [[1.0, 2.0], [3.0, 4.0]], [0, 2], [3, 5])
HONEST = [
    reply(1, [[0.0, 0.0], [4.0, 8.0]], [0, 1], [1, 1]),
    reply(2, [[2.0, 4.0], [0.0, 0.0]], [0, 1], [1, 9]),
]


def test_what_attackers_send_by_hand() -> None:
    assert rows_of(sent("signflip:scale=10", OWN)) == [[-10, -20], [-30, -40]]
    assert rows_of(sent("scale:times=3", OWN)) == [[3, 6], [9, 12]]
    assert torch.isnan(sent("nan", OWN).up.mean).all()
    assert sent("shape", OWN).up.mean.shape == (5,)
    assert rows_of(sent("swap", OWN)) == [[3, 4], [1, 2]]
    noisy = sent("gaussian:sigma=2", OWN).up.mean
    assert noisy.shape == (2, 2)
    assert not torch.equal(noisy, OWN.up.mean)
    inflated = sent("counts", OWN)
    assert (inflated.n, inflated.up.n.tolist()) == (8_000_000, [3_000_000, 5_000_000])
    assert rows_of(inflated) == [[-1, -2], [-3, -4]]


def test_squatters_claim_all_classes() -> None:
    copied = sent("squatting:prototype=copied", OWN)
    assert copied.up.cls.tolist() == [0, 2, 1, 3, 4]
    assert rows_of(copied) == [[1, 2], [3, 4], [1, 2], [1, 2], [1, 2]]
    assert copied.up.n.tolist() == [3, 5, 5, 5, 5]
    assert len(sent("squatting", OWN).up.mean) == 5


def test_colluders_know_the_honest_uploads_of_each_class() -> None:
    """Class 0: mean (1, 2), deviation (1, 2); nobody honest sends class 2, which stays."""
    assert rows_of(sent("alie:z=2", OWN, HONEST)) == [[-1, -2], [3, 4]]
    assert rows_of(sent("ipm:epsilon=0.5", OWN, HONEST)) == [[-0.5, -1], [3, 4]]
    assert hidden_z(50, 12) == pytest.approx(0.336, abs=1e-3)  # s = 14, Φ⁻¹(24 / 38)


def test_an_adaptive_attacker_stops_where_the_defence_would_reject_it() -> None:
    """The mean takes anything, so the largest step of the grid is sent; a filter makes it smaller."""
    honest = [reply(k, [[4.0 + 0.1 * k, 0.0]], [0], [1]) for k in range(1, 6)]
    own = reply(0, [[4.0, 0.0]], [0], [1])
    toy = Toy("fedproto").build()
    found = {}
    for rule in ("mean", "filter"):
        leg, turn = toy.task.algorithm.legs[0], Turn(toy.task, 1)
        down = toy.task.algorithm.broadcast(toy.federation.state, turn)
        sight = Sight(leg, turn, toy.data, honest, [own], down, defences.make(rule))
        found[rule] = float(attacks.make("adaptive").upload(own, sight).up.mean[0, 0])
    # the honest mean is 4.3, their median distance to it 0.1: 4.3 − 8192 · 0.1 and within 3 medians
    assert found["mean"] == pytest.approx(4.3 - 819.2, abs=1e-6)
    assert 3.6 < found["filter"] < 4.3


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("method", ["fedproto", "fedavg", "fedtgp"])
def test_every_attack_runs_and_honest_clients_are_tested(method: str, name: str) -> None:
    """Or is refused in one line, where the method sends nothing that it could act on."""
    written = f"{name}:share=0.3"
    if (method, name) in NOT_SENT:
        with pytest.raises(ConfigError, match="sends no"):
            Toy(method).build(attack=written)
        return
    experiment = Toy(method).build(attack=written, rounds=2)
    attackers = experiment.federation.adversary.clients
    assert len(attackers) == 2
    assert attackers.isdisjoint(experiment.tested())
    last = experiment.play(None)[-1]
    assert last["attackers"] == sorted(attackers)
    assert last["tested_clients"] == 4
    if name != "adaptive":  # against a plain mean it goes so far that training diverges
        assert set(last["failed"]) == ({str(c) for c in attackers} if name in ("nan", "shape") else set())
    assert 0 <= last["attack"]["success"]["clf"] <= 100
    assert last["attack"]["victim"] in range(4)
    assert experiment.last_test["attackers"] == sorted(attackers)
    assert all(torch.isfinite(t).all() for t in experiment.federation.state.arrays().values())


def test_faulty_clients_change_nothing_for_the_others() -> None:
    """NaN is refused; the state is that of a run in which the attackers never answer."""
    faulty = Toy("fedproto").build(attack="nan:share=0.2", rounds=1)
    faulty.play(None)
    silent = Toy("fedproto").build(rounds=1, on_failure="drop")
    engine, attackers = silent.federation.engine, faulty.federation.adversary.clients
    run = engine.run
    engine.run = lambda jobs: (r for r in run(jobs) if getattr(r, "client", -1) not in attackers)  # type: ignore[method-assign, assignment]
    silent.play(None)
    assert_close(faulty.federation.state.arrays(), silent.federation.state.arrays(), 1e-12)


@pytest.mark.parametrize("name", ["labelflip", "signflip", "alie"])
def test_attacks_are_the_same_on_every_engine(name: str) -> None:
    reference = Toy("fedproto").build(attack=f"{name}:share=0.4", rounds=2)
    reference.play(None)
    for engine, tolerance in (("cohort", 1e-10), ("workers", 0.0)):
        other = Toy("fedproto").build(attack=f"{name}:share=0.4", rounds=2, engine=engine, workers=2)
        try:
            other.play(None)
        finally:
            other.federation.engine.close()
        assert_close(snapshot(reference), snapshot(other), tolerance)


def test_attacks_are_drawn_from_the_seed() -> None:
    one, again = (Toy("fedproto").build(attack="gaussian:share=0.4", rounds=2) for _ in range(2))
    other = Toy("fedproto").build(attack="gaussian:share=0.4", rounds=2, seed=5)
    for experiment in (one, again):
        experiment.play(None)
    assert_equal(snapshot(one), snapshot(again))
    drawn = {Toy("fedproto").build(attack="scale", seed=s).federation.adversary.clients for s in range(6)}
    assert len(drawn) > 1
    assert len(other.federation.adversary.clients) == 2


def test_flipped_labels_are_trained_on_but_not_tested() -> None:
    experiment = Toy("fedproto").build(attack="labelflip:share=0.2")
    (attacker,) = experiment.federation.adversary.clients
    wrong = experiment.federation.engine.data.train(attacker).y
    right = toy_data("train", attacker).y
    assert torch.equal(wrong, 4 - right)
    assert torch.equal(experiment.data.train(attacker).y, right)
    pair = attacks.make("labelflip:source=1,to=3")
    assert pair.target(5).tolist() == [0, 3, 2, 3, 4]  # type: ignore[union-attr]


def test_success_is_counted_from_what_samples_are_taken_for() -> None:
    table: Tensor = torch.tensor([[8, 2, 0], [1, 6, 3], [0, 0, 0]])
    assert taken(table, None) == pytest.approx(30.0)
    assert taken(table, torch.tensor([0, 2, 2])) == pytest.approx(30.0)  # 3 of the 10 samples of class 1


@pytest.mark.parametrize(
    ("method", "written", "words"),
    [
        ("local", "signflip", "--attack signflip: local sends nothing up"),
        ("fedproto", "signflip:share=0.5", "attack signflip: share: must be less than 0.5, got 0.5"),
        ("fedproto", "signflip:share=0", "attack signflip: share: must be greater than 0, got 0"),
        ("fedproto", "scale:share=0.49", "3 of 6 clients would attack; attackers must be a minority"),
        ("fedproto", "backdoor", "--attack backdoor: its trigger is a patch, which needs images"),
        ("fedavg", "swap", "--attack swap: fedavg sends no rows of classes"),
        ("fedproto", "labelflip:source=1", "source and to belong together"),
        ("fedproto", "sing", "unknown attack 'sing'"),
    ],
)
def test_what_cannot_act_is_refused_before_training(method: str, written: str, words: str) -> None:
    with pytest.raises(ConfigError) as found:
        Toy(method).build(attack=written)
    assert words in str(found.value), str(found.value)
    assert "\n" not in str(found.value)


def test_every_attack_has_options_and_a_summary() -> None:
    known = {name: attacks.summary(name) for name in attacks}
    assert {"nan", "shape", "gaussian", "signflip", "scale", "labelflip", "swap"} < set(known)
    assert {"counts", "squatting", "alie", "ipm", "backdoor", "adaptive"} < set(known)
    assert all(known.values())

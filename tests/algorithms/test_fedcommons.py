"""FedCommons: equal to the pooled classifier, sent once, exact removal, the teacher, refused uploads."""

import math
from dataclasses import replace

import pytest
import torch
from vmap_check import check_vmap

from protofed.algorithms.fedcommons import FedCommons
from protofed.core.answer import ClientState
from protofed.core.data import Batch, LocalData
from protofed.core.errors import ConfigError, MessageError
from protofed.core.task import ClientTurn, Turn
from protofed.ops.moments import Moments, gaussian_head, log_prior, moments_of, square_of
from protofed.ops.pooled import Pool, check_sums
from protofed.testing import CLASSES, COUNTS, Toy, toy_data

PLAIN = {"size": 32, "standardise": False}
NONE = torch.zeros(0, 0)
EVERYBODY = range(len(COUNTS))


def of_state(state: Pool) -> Moments:
    return Moments(square_of(state.gram[0]), state.sums, state.n.double())


def pooled(experiment, clients=EVERYBODY) -> Moments:
    """Sums of all these clients' samples, put together in one place."""
    task, data = experiment.task, experiment.data
    x, y = (torch.cat(parts) for parts in zip(*((data.train(k).x, data.train(k).y) for k in clients)))
    scale = experiment.federation.state.scale
    return moments_of([(task.algorithm.map(task)(x, scale), y)], task.C)


def assert_same_classifier(one: Moments, two: Moments, tolerance=1e-6):
    for mine, theirs in zip(gaussian_head(one), gaussian_head(two)):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "settings", [{}, {"sample": 2, "rounds": 14}, {"sample": 4, "stragglers": 0.5, "rounds": 9}]
)
@pytest.mark.parametrize("options", [PLAIN, {**PLAIN, "ledger": True}, {"size": 32}])
def test_equal_to_the_pooled_classifier_once_everybody_took_part(options, settings):
    experiment = Toy("fedcommons", options).build(**{"rounds": 3, "epochs": 1, **settings})
    experiment.play(None)
    state = experiment.federation.state
    assert state.members.tolist() == list(EVERYBODY)
    assert_same_classifier(of_state(state), pooled(experiment))


def test_no_partition_changes_it():
    """The same samples divided otherwise: rows of all clients dealt out in turn."""
    experiment = Toy("fedcommons", PLAIN).build(rounds=2, epochs=1)
    wanted = pooled(experiment)
    x, y = (
        torch.cat(parts)
        for parts in zip(*((toy_data("train", k).x, toy_data("train", k).y) for k in EVERYBODY))
    )
    experiment.data.train = lambda k: LocalData(x[k :: len(COUNTS)], y[k :: len(COUNTS)])
    experiment.play(None)
    assert_same_classifier(of_state(experiment.federation.state), wanted)


def test_sums_go_up_once_and_come_down_once():
    """M = 32, 528 entries of a triangle; 12 classes are owned in all (COUNTS), 4 are known to the server.
    Round 1 brings 6·528 + 12·32 up and nothing down, round 2 brings 6·(528 + 4·32) down, later nothing."""
    records = Toy("fedcommons", PLAIN).build(rounds=4).play(None)
    assert [r["up"]["params"] for r in records] == [6 * 528 + 12 * 32, 0, 0, 0]
    assert [r["down"]["params"] for r in records] == [0, 6 * (528 + 4 * 32), 0, 0]


def test_standardised_inputs_cost_one_more_round():
    """Σx and Σx² of 6 inputs first, of 6 clients; then mean and deviation down, and the sums up."""
    experiment = Toy("fedcommons", {"size": 32}).build(rounds=4)
    records = experiment.play(None)
    assert [r["up"]["params"] for r in records] == [6 * 12, 6 * 528 + 12 * 32, 0, 0]
    assert [r["down"]["params"] for r in records] == [0, 6 * 12, 6 * (12 + 528 + 4 * 32), 0]
    x = torch.cat([toy_data("train", k).x for k in EVERYBODY])
    scale = experiment.federation.state.scale
    torch.testing.assert_close(scale[0], x.mean(0))
    torch.testing.assert_close(scale[1], 1 / x.std(0, correction=0))


def test_who_missed_a_round_gets_what_is_new():
    experiment = Toy("fedcommons", PLAIN).build(rounds=8, sample=3, epochs=1)
    experiment.play(None)
    state = experiment.federation.state
    for client, version in zip(state.asked.tolist(), state.have.tolist()):
        down = experiment.task.algorithm.broadcast(state, ClientTurn(experiment.task, 9, client=client))
        assert (len(down.cls) == 0) == (version == int(state.version))


@pytest.mark.parametrize("ledger", [False, True])
def test_a_removed_client_was_never_there(ledger):
    experiment = Toy("fedcommons", {**PLAIN, "ledger": ledger}).build(rounds=2)
    experiment.play(None)
    method, task, data = experiment.task.algorithm, experiment.task, experiment.data
    state = method.forget(experiment.federation.state, 1, None if ledger else data.train(1), task)
    rest = [k for k in EVERYBODY if k != 1]
    assert_same_classifier(of_state(state), pooled(experiment, rest))
    assert state.members.tolist() == rest
    assert state.n[3] == 0
    assert not any(name.startswith("1/") for name in state.ledger)
    with pytest.raises(ConfigError, match="client 1 is not in the server's sums; in them: 0, 2, 3, 4, 5"):
        method.forget(state, 1, data.train(1), task)
    experiment.federation.state, experiment.federation.round = state, 2
    experiment.federation.engine.store.put(1, ClientState())
    later = experiment.federation
    later.play()
    assert_same_classifier(of_state(later.state), pooled(experiment, rest))  # it does not come back
    down = method.broadcast(later.state, ClientTurn(task, 4, client=1))
    assert len(down.cls) == 0


def test_a_client_that_is_not_here_cannot_be_removed_without_a_ledger():
    experiment = Toy("fedcommons", PLAIN).build(rounds=1)
    experiment.play(None)
    with pytest.raises(ConfigError, match="run with ledger=true"):
        experiment.task.algorithm.forget(experiment.federation.state, 1, None, experiment.task)


def test_changed_data_is_sent_again_and_replaced_where_there_is_a_ledger():
    experiment = Toy("fedcommons", {**PLAIN, "ledger": True}).build(rounds=3)
    experiment.federation.play()
    good = experiment.data.train
    fewer = LocalData(good(3).x[:9], good(3).y[:9])
    experiment.data.train = lambda k: fewer if k == 3 else good(k)
    experiment.federation.play()
    assert_same_classifier(of_state(experiment.federation.state), pooled(experiment))


def test_changed_data_without_a_ledger_is_an_error():
    experiment = Toy("fedcommons", PLAIN).build(rounds=3, on_failure="drop")
    experiment.federation.play()
    good = experiment.data.train
    experiment.data.train = lambda k: LocalData(good(k).x + (k == 3), good(k).y)
    record = experiment.federation.play()
    assert list(record["failed"]) == ["3"]
    assert "ledger=true" in record["failed"]["3"]


def test_a_client_that_lost_its_memory_is_counted_once():
    experiment = Toy("fedcommons", PLAIN).build(rounds=3)
    experiment.federation.play()
    before = experiment.federation.state
    experiment.federation.engine.store.put(3, ClientState())
    experiment.federation.play()
    assert torch.equal(experiment.federation.state.n, before.n)


def test_teacher_by_hand():
    """φ is the identity of two inputs: others hold (1, 0), (3, 0) of class 0 and (0, 2), (0, 4) of class 1,
    this client (2, 2) of class 0 twice. Everybody: μ_0 = (2, 1), μ_1 = (0, 3); the teacher is
    (φᵀΣ⁻¹μ_c − ½μ_cᵀΣ⁻¹μ_c)/T + log π_c with π = (3/4, 1/4)."""
    experiment = Toy("fedcommons", {"size": 16, "standardise": False}).build()
    method, task = FedCommons(size=16, standardise=False), experiment.task
    theirs = torch.tensor([[1.0, 0], [3, 0], [0, 2], [0, 4]], dtype=torch.float64)
    mine = torch.tensor([[2.0, 2], [2, 2]], dtype=torch.float64)
    both = moments_of([(torch.cat([theirs, mine]), torch.tensor([0, 0, 1, 1, 0, 0]))], 2)

    class Plain:
        def __getitem__(self, part):
            return lambda x, scale: x

        def __call__(self, x):
            return x, torch.zeros(len(x), 2, dtype=torch.float64)

    state = replace(
        method.init(task, Turn(task, 0)),
        gram=both.gram[[0, 0, 1], [0, 1, 1]][None],
        sums=both.sums,
        n=both.n.long(),
        version=torch.tensor([1]),
    )
    down = method.publish(state, torch.float64)
    data = LocalData(mine, torch.tensor([0, 0]))
    mem = method.learned(Plain(), data, down, {"sent": torch.zeros(4)}, 2)
    assert both.sums.tolist() == [[8, 4], [0, 6]]
    head = gaussian_head(both)
    t = float(mem["temperature"])
    wanted = (mine @ head.weight.T + head.bias) / t + torch.tensor([3 / 4, 1 / 4], dtype=torch.float64).log()
    assert t > 1
    got = method.predict(Plain(), mine, data, down, {"temperature": mem["temperature"]})
    torch.testing.assert_close(got["prior"], wanted)
    torch.testing.assert_close(got["clf"], wanted)  # the network says 0
    torch.testing.assert_close(
        got["gp_all"], wanted - log_prior(torch.tensor([2.0, 0.0], dtype=torch.float64))
    )
    assert got["gp_local"][:, 1].tolist() == [-math.inf] * 2


def test_loss_by_hand():
    """Logits (1, 0) of the network, teacher (0, log 3): CE of label 0 is log(1 + 3/e). The mean of net² is ½,
    and κ / n = 100 / 50 = 2 weighs it to 1."""

    class Fixed:
        def __getitem__(self, part):
            return lambda x, scale: x

        def __call__(self, x):
            return x, torch.tensor([[1.0, 0.0]], dtype=torch.float64)

    bias = torch.tensor([0.0, math.log(3)], dtype=torch.float64)
    weight, known = torch.zeros(2, 1, dtype=torch.float64), torch.tensor([True, True])
    view = {"weight": weight, "bias": bias, "known": known, "scale": NONE, "held": torch.tensor(100 / 50)}
    x = torch.zeros(1, 1, dtype=torch.float64)
    loss = FedCommons().loss(Fixed(), Batch(x, torch.tensor([0]), torch.tensor([0]), x[0, 0], {}), view)
    assert float(loss) == pytest.approx(math.log(1 + 3 / math.e) + 1)


def test_a_network_is_let_loose_by_the_number_of_samples():
    experiment = Toy("fedcommons", {**PLAIN, "kappa": 30.0}).build(rounds=1)
    method, task, data = experiment.task.algorithm, experiment.task, experiment.data
    down = method.publish(experiment.federation.state, torch.float64)
    view = method.prepare(task.live(0), data.train(3), down, {}, ClientTurn(task, 1, client=3))
    assert float(view["held"]) == 30 / 15  # client 3 has 5 + 5 + 5 samples


def test_temperature_knows_nothing_of_the_client_itself():
    """Changing what the server's sums hold of this client, with its own sums, leaves T as it was."""
    experiment = Toy("fedcommons", PLAIN).build(rounds=2)
    experiment.play(None)
    method, task, state = experiment.task.algorithm, experiment.task, experiment.federation.state
    net, data = task.live(0), experiment.data.train(3)
    down = method.publish(state, torch.float64)
    sent = method.learned(net, data, down, {"sent": torch.zeros(4)}, CLASSES)
    without = method.publish(method.forget(state, 3, data, task), torch.float64)
    joining = method.learned(net, data, without, {}, CLASSES)
    torch.testing.assert_close(sent["temperature"], joining["temperature"])
    torch.testing.assert_close(sent["weight"], joining["weight"], rtol=1e-8, atol=1e-8)


def sound_upload():
    experiment = Toy("fedcommons", PLAIN).build()
    method, task = experiment.task.algorithm, experiment.task
    return method._sums(experiment.data.train(3), torch.zeros(0, 0), task), method.map(task)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda up: {"gram": up.gram[:, 1:]}, "gram has shape"),
        (lambda up: {"gram": up.gram[:0]}, "gram has 0 rows with sums of 3 classes"),
        (lambda up: {"gram": -up.gram}, "gram does not fit the sums"),
        (lambda up: {"gram": up.gram * 1e6}, "gram is larger than the counts allow"),
        (lambda up: {"gram": up.gram * 0.5}, "the scatter has an eigenvalue"),
        (lambda up: {"sums": up.sums * 1e6}, "longer than their counts allow"),
        (lambda up: {"n": up.n * 0}, "of a class without samples"),
        (lambda up: {"cls": up.cls * 0}, "sums of a class twice"),
        (lambda up: {"have": up.have[:0]}, "have holds 0 numbers"),
    ],
)
def test_sums_that_no_samples_have_are_refused(change, line):
    up, phi = sound_upload()
    check_sums(up, phi, True)
    with pytest.raises(MessageError, match=line):
        check_sums(replace(up, **change(up)), phi, True)


def test_loss_runs_under_vmap():
    check_vmap(Toy("fedcommons", PLAIN, models="mixed"))

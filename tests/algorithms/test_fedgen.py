"""FedGen: the client's loss, the server's teachers, what travels."""

import math

import numpy as np
import pytest
import torch
from fake_net import FakeNet, batch, floats, odds, says
from vmap_check import check_vmap

from protofed.algorithms.fedgen import FedGen, Head, Shared
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.record import Payload
from protofed.core.task import Group, Task, Turn
from protofed.experiment import make_task
from protofed.models import assign
from protofed.testing import CHECKS, Toy

ADAM = 1e-6  # engines differ by more than rounding where Adam divides by vanishing gradients
VARIANTS = [
    Toy("fedgen", {"full": True, "S": 5, "d_eps": 4}, models="mixed", tolerance=ADAM),
    Toy("fedgen", {"untrained": True, "S": 5, "hidden": 6}, {"batch_size": 8}, tolerance=ADAM),
    Toy("fedgen", {"untrained": True, "frozen": True}, {"batch_size": 8}),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=["full", "untrained", "frozen"])
def test_conformance(toy, check):
    check(toy)


@pytest.mark.parametrize("full", [False, True])
def test_loss_under_vmap(full):
    check_vmap(Toy("fedgen", {"full": full, "S": 2}))


# loss


def client_loss(method, view, own):
    """Two real samples of class 0 with the given logits; the generator echoes its noise, of two
    numbers, as an embedding, and the head is the identity."""
    net = FakeNet(says(floats([[0.0]]), own), head=lambda z: z, parts={"gen": lambda eps, hot: eps})
    rand = {"eps": odds((1, 3), (3, 1)).detach(), "y": torch.tensor([1, 1]), "eps_own": odds((1, 1), (1, 1))}
    return method.loss(net, batch([0, 0], rand=rand), view)


def view_of(alpha, beta=0.0):
    return {"labels": floats([0.5, 0.5]), "alpha": floats(alpha), "beta": floats(beta)}


def test_loss_adds_cross_entropy_of_generated_embeddings():
    """Real samples: p_0 = ½ and ¼, CE = (log 2 + log 4)/2. Generated ones for label 1: p_1 = ¾ and ¼,
    CE = (log 4/3 + log 4)/2, weighted by α = 2."""
    loss = client_loss(FedGen(), view_of(2.0), odds((1, 1), (1, 3)))
    expected = math.log(8) / 2 + 2 * math.log(16 / 3) / 2
    assert loss.item() == pytest.approx(expected)


def test_full_loss_adds_the_divergence_from_generated_predictions():
    """h(Gen(y)) is (½, ½) for both samples. KL to (½, ½) is 0, to (¼, ¾) is ½·log(4/3): mean ¼·log(4/3),
    weighted by β = 3. Its gradient, (q − p)·β/B, reaches the second sample's logits only."""
    own = odds((1, 1), (1, 3))
    loss = client_loss(FedGen(full=True), view_of(0.0, 3.0), own)
    assert loss.item() == pytest.approx(math.log(8) / 2 + 3 * math.log(4 / 3) / 4)
    (grad,) = torch.autograd.grad(loss, own)
    ce_part = floats([[0.5 - 1, 0.5], [0.25 - 1, 0.75]]) / 2
    kl_part = 3 * floats([[0, 0], [0.25 - 0.5, 0.75 - 0.5]]) / 2
    assert torch.allclose(grad, ce_part + kl_part)


@pytest.mark.parametrize(
    ("method", "labels", "round", "alpha"),
    [
        (FedGen(), [0, 0, 0, 0, 0], 1, 0.0),
        (FedGen(untrained=True), [0, 0, 0, 0, 0], 1, 1.0),
        (FedGen(alpha=2.0), [2, 0, 6, 0, 0], 7, 2.0),
        (FedGen(full=True, alpha=2.0), [2, 0, 6, 0, 0], 3, 2 * 0.98**2),
    ],
    ids=["first round", "untrained", "later", "decay"],
)
def test_weights_of_the_generated_terms(method, labels, round, alpha):
    """Before the first training of the generator its terms have weight 0; then α, in `full` α·0.98^(t−1).
    Labels (2, 0, 6) are drawn with probabilities ¼ and ¾, unknown ones uniformly."""
    task = Toy("fedgen").build().task
    view = method.prepare(None, None, Shared({}, torch.tensor(labels)), {}, Turn(task, round))
    assert view["alpha"].item() == pytest.approx(alpha)
    share = [0.25, 0, 0.75, 0, 0] if sum(labels) else [0.2] * 5
    assert view["labels"].tolist() == pytest.approx(share)


def test_the_first_round_is_plain_training_of_shared_heads():
    """α = 0 in round 1: the clients' bases end as with no generator at all."""
    with_generator, without = (Toy("fedgen", {"alpha": a}).build() for a in (1.0, 0.0))
    for experiment in (with_generator, without):
        experiment.federation.play()
    for client in range(6):
        one, two = (e.federation.engine.store.get(client).kept for e in (with_generator, without))
        assert one
        assert all(torch.equal(t, two[n]) for n, t in one.items())


# server


def server(method, clients=3):
    """Embeddings and heads of size 1×2 without bias; logits are (a·z, b·z)."""

    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = torch.nn.Linear(1, 1, bias=False)
            self.head = torch.nn.Linear(1, 2, bias=False)

        def forward(self, x):
            z = self.base(x)
            return z, self.head(z)

    group = np.zeros(clients, dtype=np.int64)
    task = Task(method, [Group("half", Half)], group, 2, (1,), dtype=torch.float64, batch_size=4)
    return task, method.init(task, Turn(task, 0))


def reply(client, n, head, labels=()):
    up = Head({"model.head.weight": floats(head)[:, None]}, torch.tensor(labels, dtype=torch.int64))
    return Reply(client, n, up)


def test_heads_are_averaged_by_sample_counts_and_labels_pooled():
    """n = 1 and 3: (1·(4, 0) + 3·(0, 8))/4 = (1, 6). Label counts (1, 0) + (1, 2) = (2, 2); a later
    upload without counts leaves them."""
    method = FedGen(S=0)
    task, state = server(method)
    first = [reply(0, 1, [4.0, 0.0], [1, 0]), reply(2, 3, [0.0, 8.0], [1, 2])]
    state = method.aggregate(state, Replies(iter(first)), Turn(task, 1))
    assert state.weights["model.head.weight"].flatten().tolist() == [1, 6]
    assert state.labels.tolist() == [2, 2]
    state = method.aggregate(state, Replies(iter([reply(0, 1, [5.0, 5.0])])), Turn(task, 2))
    assert state.labels.tolist() == [2, 2]
    assert state.weights["model.head.weight"].flatten().tolist() == [5, 5]


def test_teachers_weigh_by_samples_or_by_samples_of_the_label():
    """n = 1 and 3: ¼ and ¾ for every label. In `full` with counts (1, 0) and (1, 2): ½, ½ for label 0;
    0, 1 for label 1. A label that no teacher owns has no weight at all."""
    got = [reply(0, 1, [0.0, 0.0]), reply(2, 3, [0.0, 0.0])]
    task, _ = server(FedGen())
    assert FedGen()._teacher_weights(got, None, task).tolist() == [[0.25, 0.25], [0.75, 0.75]]
    full = FedGen(full=True)
    counts = torch.tensor([[1, 0], [9, 9], [1, 2]])
    assert full._teacher_weights(got, counts, task).tolist() == [[0.5, 0.0], [0.5, 1.0]]
    assert full._teacher_weights(got[:1], counts, task).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("full", [False, True])
def test_the_generator_learns_what_the_heads_say(full):
    """Heads (1, −1) and (2, −2): label 0 needs a positive embedding, label 1 a negative one."""
    method = FedGen(S=60, d_eps=2, hidden=4, full=full)
    task, state = server(method)
    got = [reply(0, 5, [1.0, -1.0], [3, 2]), reply(1, 5, [2.0, -2.0], [2, 3])]
    state = method.aggregate(state, Replies(iter(got)), Turn(task, 1))
    gen = task.net(0, state.weights)["gen"]
    made = gen(torch.full((2, 2), 0.5, dtype=torch.float64), torch.eye(2, dtype=torch.float64)).flatten()
    assert made[0] > 0.5
    assert made[1] < -0.5
    again = method.aggregate(server(method)[1], Replies(iter(got[::-1])), Turn(task, 1))
    assert all(torch.equal(t, again.weights[n]) for n, t in state.weights.items())


def test_the_common_generator_does_not_train_at_clients():
    experiment = Toy("fedgen", {"S": 0}).build()
    before = {n: t for n, t in experiment.federation.state.weights.items() if n.startswith("gen.")}
    experiment.federation.play()
    after = experiment.federation.state.weights
    assert all(torch.equal(t, after[n]) for n, t in before.items())


# messages


def test_label_counts_go_up_once():
    task = Toy("fedgen").build().task
    data = LocalData(torch.zeros(3, 6, dtype=torch.float64), torch.tensor([0, 2, 2]))
    first, mem = FedGen().upload(task.live(0), data, None, {}, None, Turn(task, 1, client=0))
    second, _ = FedGen().upload(task.live(0), data, None, mem, None, Turn(task, 2, client=0))
    assert first.labels.tolist() == [1, 0, 2, 0, 0]
    assert second.labels.tolist() == []
    assert sorted(first.weights) == ["model.head.bias", "model.head.weight"]


def test_payload_of_the_specification():
    """C = 100, D = H = 512, d_ε = 32. Head 51,300 up and down; generator 132·512 + 512 + 2·512 +
    512·512 + 512 = 331,776 down: 20·(2·51,300 + 331,776) = 8,687,520. BatchNorm's statistics, labels
    and counters are not payload."""
    method = FedGen()
    chosen = assign("cnn4", 20, (3, 32, 32), 100)
    task = Task(method, [Group("cnn4", chosen.builders[0])], chosen.of, 100, (512,))
    buffers = task.names(0).buffers
    data = LocalData(torch.zeros(1, 3, 32, 32), torch.tensor([3]))
    state, total = method.init(task, Turn(task, 0)), Payload()
    for client in range(20):
        turn = Turn(task, 1, client=client)
        up, _ = method.upload(task.live(0), data, None, {}, None, turn)
        total = total + method.broadcast(state, turn).payload(buffers) + up.payload(buffers)
    assert total.floats == 8_687_520
    assert total.meta_bytes > 0


# settings and hazards


def test_a_client_with_one_sample_trains():
    """The generator's BatchNorm runs in eval mode and does not forbid batches of one sample."""
    experiment = Toy("fedgen", {"S": 1}).build(rounds=1)
    start = experiment.task.fresh(0, 2)["model.base.0.weight"]
    experiment.play(None)
    kept = experiment.federation.engine.store.get(2).kept["model.base.0.weight"]
    assert not torch.equal(kept, start)


@pytest.mark.parametrize("full", [False, True])
def test_rounds_without_steps(full):
    experiment = Toy("fedgen", {"S": 1, "full": full}, {"epochs": 0}).build(rounds=2)
    records = experiment.play(None)
    assert records[-1]["samples"] == 0
    assert all(torch.isfinite(t).all() for t in experiment.federation.state.weights.values())


def test_batches_of_one_sample():
    """The generator's BatchNorm needs two samples; the server then draws two."""
    experiment = Toy("fedgen", {"S": 2}, {"batch_size": 1, "epochs": 1}).build(rounds=2)
    assert math.isfinite(experiment.play(None)[-1]["train_loss"])


def test_heads_of_different_shape_are_refused():
    config = resolve({"method": "fedgen"})
    narrow, wide = (
        Group(f"mlp:dim={dim}", assign(f"mlp:dim={dim}", 1, (6,), 5).builders[0]) for dim in (8, 9)
    )
    with pytest.raises(ConfigError, match="fedgen needs embeddings of one size"):
        make_task(config, config.make_method(), [narrow, wide], np.array([0, 1]), (6,), tuple("abcde"))


@pytest.mark.parametrize(
    ("name", "value"), [("S", -1), ("d_eps", 0), ("hidden", -1), ("lr_g", 0), ("alpha", -1), ("full", "no?")]
)
def test_wrong_options(name, value):
    with pytest.raises(ConfigError, match=name):
        resolve({"method": "fedgen", "options": {name: value}})


def test_presets():
    """FedTGP's values: noise 32, lr 0.1, 100 steps, hidden = K; its code rehearses from round 1 on."""
    paper = resolve({"method": "fedgen", "preset": "paper"}).make_method()
    assert (paper.S, paper.d_eps, paper.hidden, paper.lr_g, paper.untrained) == (100, 32, 0, 0.1, False)
    tgp = resolve({"method": "fedgen", "preset": "tgp"})
    assert tgp.make_method().untrained
    assert tgp.make_method().lr_g == 0.1
    assert (tgp.train.batch_size, tgp.train.momentum) == (10, 0.0)


def test_a_frozen_generator_stays_as_it_was_built():
    """As in released code: no round changes it, and the clients' batches go through it in train mode."""
    run = Toy("fedgen", {"frozen": True, "untrained": True}).build(rounds=2)
    first = {n: t for n, t in run.federation.state.weights.items() if n.startswith("gen.")}
    run.play(None)
    assert all(torch.equal(run.federation.state.weights[n], t) for n, t in first.items())
    assert run.task.algorithm.legs[0].phases[0].eval == ()
    assert FedGen().legs[0].phases[0].eval == ("gen.",)
    assert resolve({"method": "fedgen", "preset": "tgp"}).make_method().frozen


def test_labels_are_counted_of_whole_batches():
    """Five samples in batches of 2: the last, of class 1, is left out with drop_last."""
    run = Toy("fedgen").build()
    data = LocalData(torch.zeros(5, 6), torch.tensor([0, 0, 1, 2, 1]), passed=torch.arange(4))
    net, turn = run.task.live(0), Turn(run.task, 1, client=0)
    up, _ = run.task.algorithm.upload(net, data, None, {}, None, turn)
    assert up.labels.tolist() == [2, 1, 1, 0, 0]

"""FeSEM: seeding, assignment, means, empty clusters, who gets which centre."""

import pytest
import torch
from tiny import BASE, replies, tree, turn_of
from vmap_check import check_vmap

import protofed
from protofed.algorithms.fesem import Clusters, FeSem, Upload, fill_empty
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.core.task import Turn
from protofed.ops.trees import put
from protofed.testing import CHECKS, Toy, assert_close

VARIANTS = [
    Toy("fesem", {"k": 3}),
    Toy("fesem", {"assign": "ways"}),
    Toy("fesem", {"params_only": True}, models="norm"),
]
NOTHING = torch.zeros(0, dtype=torch.int64)


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: str(c.options))
def test_conformance_of_variants(case, check):
    check(case)


def test_loss_runs_under_vmap():
    check_vmap(Toy("fesem"))


def ints(*values):
    return torch.tensor(values)


def state(cluster, *bases, ways=(0, 0, 0, 0)):
    centres = {}
    for k, base in enumerate(bases):
        centres |= put(f"{k}/", tree(base))
    return Clusters(centres, ints(*cluster), ints(*ways))


def step(method, before, *ups, ways=None, round=2):
    """Uploads are (client, base) pairs; sample counts differ, and must not matter."""
    classes = {client: NOTHING if ways is None else ints(ways[client]) for client, _ in ups}
    sent = [(client, 1 + client, Upload(tree(base), classes[client])) for client, base in ups]
    return method.aggregate(before, replies(*sent), turn_of(method, round=round))


def centre(clusters, k):
    return clusters.centres[f"{k}/{BASE}"].item()


def test_the_first_round_seeds_and_splits():
    """Uploads 0, 1, 1000, 1001: two groups with means 0.5 and 1000.5, whichever seeds are drawn first (both
    from one group has odds below 1e-6)."""
    method = FeSem()
    after = step(method, state((-1,) * 4, 5.0, 5.0), (0, 0.0), (1, 1.0), (2, 1000.0), (3, 1001.0), round=1)
    assert after.cluster[0] == after.cluster[1] != after.cluster[2] == after.cluster[3]
    assert sorted(centre(after, k) for k in (0, 1)) == [0.5, 1000.5]


def test_assignment_is_to_the_old_centres_and_means_are_plain():
    """Centres 0 and 10; uploads 4, 6 and 7: the first to centre 0, which becomes 4, the others to centre 1,
    which becomes 6.5. Client 1 moves from cluster 0 to 1."""
    after = step(FeSem(), state((0, 0, 1, 1), 0.0, 10.0), (0, 4.0), (1, 6.0), (2, 7.0))
    assert after.cluster.tolist() == [0, 1, 1, 1]
    assert (centre(after, 0), centre(after, 1)) == (4.0, 6.5)


def test_absent_clients_keep_their_cluster_and_silent_centres_stay():
    """Only client 0 answers, near centre 0: cluster 1 has absent clients, so its centre stays 10."""
    after = step(FeSem(), state((0, 0, 1, 1), 0.0, 10.0), (0, 1.0))
    assert after.cluster.tolist() == [0, 0, 1, 1]
    assert (centre(after, 0), centre(after, 1)) == (1.0, 10.0)


def test_an_empty_cluster_takes_the_farthest_upload():
    """All uploads 0, 1, 3 are nearest to centre 0 and no absent client is in cluster 1: it takes over
    client 2, the farthest, as its new centre 3; centre 0 becomes the mean of 0 and 1."""
    after = step(FeSem(), state((0, 0, 1, -1), 0.0, 100.0), (0, 0.0), (1, 1.0), (2, 3.0))
    assert after.cluster.tolist() == [0, 0, 1, -1]
    assert (centre(after, 0), centre(after, 1)) == (0.5, 3.0)


def test_a_cluster_is_not_emptied_to_fill_another():
    """Clients 0 and 1 alone in clusters 0 and 1; cluster 2 stays empty, though client 1 is far from home."""
    cluster = fill_empty(ints(0, 1), ints(0, 1), torch.tensor([0.0, 9.0]), 3)
    assert cluster.tolist() == [0, 1]


def test_several_empty_clusters_take_the_farthest_in_turn():
    """Squared distances 1, 9, 4, 0: cluster 1 takes client 1, cluster 2 client 2, cluster 3
    client 0, which leaves client 3 in cluster 0."""
    cluster = fill_empty(ints(0, 0, 0, 0), ints(0, 1, 2, 3), torch.tensor([1.0, 9.0, 4.0, 0.0]), 4)
    assert cluster.tolist() == [3, 1, 2, 0]


def test_an_upload_at_its_centre_does_not_move():
    assert fill_empty(ints(0, 0), ints(0, 1), torch.zeros(2), 2).tolist() == [0, 0]


def test_each_client_gets_the_centre_of_its_cluster():
    """Client 2 is in cluster 0; client 3 never took part and gets the larger cluster, number 1."""
    method, clusters = FeSem(), state((1, 1, 0, -1), 5.0, 7.0)
    got = [method.broadcast(clusters, turn_of(method, client=c)).weights[BASE].item() for c in range(4)]
    assert got == [7.0, 7.0, 5.0, 7.0]


def test_before_the_first_round_all_get_one_start():
    experiment = Toy("fesem", {"k": 3}).build()
    start = experiment.task.fresh(0)
    method, first = experiment.task.algorithm, experiment.federation.state
    down = method.broadcast(first, turn_of(method, client=2)).weights
    assert down.keys() == start.keys()
    assert all(torch.equal(down[n], start[n]) for n in start)


def test_one_centre_is_fedavg_with_equal_weights():
    one = Toy("fesem", {"k": 1}).build()
    two = Toy("fedavg", {"weighting": "uniform"}).build()
    one.play(None)
    two.play(None)
    assert_close(one.federation.state.centres, put("0/", two.federation.state.weights), 1e-12)


def test_fixed_groups_by_number_of_classes():
    """2, 2, 5 and 4 classes, mean 3.25: clients 0 and 1 are in group 0, the others in group 1, wherever their
    weights lie."""
    method = FeSem(assign="ways")
    uploads = [(0, 0.0), (1, 100.0), (2, 0.0), (3, 100.0)]
    after = step(method, state((-1,) * 4, 5.0, 5.0), *uploads, ways=(2, 2, 5, 4), round=1)
    assert after.cluster.tolist() == [0, 0, 1, 1]
    assert (centre(after, 0), centre(after, 1)) == (50.0, 50.0)
    assert after.ways.tolist() == [2, 2, 5, 4]


def test_clients_not_heard_of_have_no_group():
    """Clients 0 and 2 answer with 2 and 4 classes, mean 3; the others are unknown."""
    method = FeSem(assign="ways")
    after = step(method, state((-1,) * 4, 5.0, 5.0), (0, 0.0), (2, 1.0), ways=(2, 0, 4, 0), round=1)
    assert after.cluster.tolist() == [0, -1, 1, -1]


def test_one_model_travels_each_way():
    """As for FedAvg; the number of classes is not a float."""
    ours = Toy("fesem", {"assign": "ways"}).build().federation.play()
    fedavg = Toy("fedavg").build().federation.play()
    assert [ours[w]["params"] for w in ("up", "down")] == [fedavg[w]["params"] for w in ("up", "down")]
    assert ours["up"]["meta_bytes"] == 6 * 8


def test_batch_norm_statistics_do_not_count_in_distances():
    """Uploads that differ in statistics alone are at distance 0: one cluster holds both."""
    experiment = Toy("fesem", models="norm").build()
    task = experiment.task
    one = task.fresh(0)
    two = {n: t + 100 if n in task.names(0).buffers else t for n, t in one.items()}
    sent = replies((0, 1, Upload(one, NOTHING)), (1, 1, Upload(two, NOTHING)))
    after = task.algorithm.aggregate(experiment.federation.state, sent, Turn(task, 1))
    assert after.cluster[0] == after.cluster[1]


def test_presets_and_errors():
    assert resolve({"method": "fesem"}).make_method().k == 2
    assert resolve({"method": "fesem", "preset": "official"}).make_method().assign == "ways"
    with pytest.raises(ConfigError, match=r"fesem: assign=ways makes two groups, got k=3; set k=2"):
        resolve({"method": "fesem", "options": {"assign": "ways", "k": 3}})
    with pytest.raises(ConfigError, match="k: must be at least 1"):
        resolve({"method": "fesem", "options": {"k": 0}})


def test_centres_that_are_one_tensor_are_saved(tmp_path, monkeypatch):
    """More centres than clients of the first round: the empty ones all keep the common start."""
    monkeypatch.chdir(tmp_path)
    protofed.run("fesem", out="a", options={"k": 3}, models="mlp", clients=4, sample=1, rounds=2)
    assert (tmp_path / "a" / "summary.json").exists()

"""FedProto for one round on every named data set, every partitioner and every group of models.

Needs the data of PROTOFED_DATA; minutes, so it is marked slow.
"""

import math
import os
from pathlib import Path

import pytest

import protofed
from protofed.models.named_groups import named_groups

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path(os.environ.get("PROTOFED_DATA", "/nonexistent")).is_dir(),
        reason="PROTOFED_DATA does not name a data folder",
    ),
]

IID = "iid"
# One step does not settle BatchNorm's statistics: in eval mode deep networks would overflow.
RUNNING = {"proto_pass": "running"}
DATA = {
    "digits": (IID, 4),
    "mnist:per_class=20": (IID, 4),
    "fashion_mnist:per_class=20": (IID, 4),
    "cifar10:per_class=10": (IID, 4),
    "digit5:per_class=10": ("domain:m=5", 5),
    "femnist": ("natural", 0),
    "pacs": ("domain:m=3", 4),
    "flowers102": (IID, 4),
    "synthetic:phi1=1,phi2=1": ("natural", 0),
    "pets:size=32,label=species": (IID, 4),
}
PARTITIONS = {
    "nway:n=3,stdev=1,k=10": ("mnist:per_class=200", 6),
    "pathological:p=2": ("mnist:per_class=20", 5),
    "dirichlet:beta=0.5": ("mnist:per_class=100", 6),
    "extended_dirichlet": ("mnist:per_class=100", 6),
    "quantity": ("mnist:per_class=50", 6),
    "power_law": ("mnist", 1000),
    "femnist_letters:repeat=true": ("femnist", 20),
    "iid": ("digits", 6),
}


def one_round(**settings):
    result = protofed.run("fedproto", rounds=1, eval_clients=2, engine="sequential", **settings)
    record = result.metrics[-1]
    assert math.isfinite(record["train_loss"])
    assert record["up"]["params"] > 0
    return result


@pytest.mark.parametrize("data", DATA)
def test_every_data_set(data):
    partition, clients = DATA[data]
    models = "mlp" if data.startswith("synthetic") else "small_cnn:width=4"
    one_round(data=data, partition=partition, clients=clients, models=models, sample=4)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_partitioner(partition):
    data, clients = PARTITIONS[partition]
    one_round(data=data, partition=partition, clients=clients, models="small_cnn:width=4", sample=5)


@pytest.mark.parametrize("group", named_groups)
def test_every_group_of_models(group):
    grey = group in ("htcnn8", "fedproto-mh", "fedproto-mh-femnist")
    data = "mnist:per_class=4" if grey else "cifar10:per_class=4"
    clients = len(named_groups[group].members)
    one_round(data=data, partition=IID, clients=clients, models=group, batch_size=4, options=RUNNING)

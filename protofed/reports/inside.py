"""What a report shows of data and models, from the last checkpoint: split, embeddings, prototype
margins, attention.

Figures of the papers: client × class bubbles (*FedTGP*, Figs. 7–10); t-SNE of test samples with local
and global prototypes (*FedProto*, Fig. 2; *FedTGP*, Figs. 5, 6; *FedPLCC*, Fig. 2); margin of a class
among one client's prototypes, the largest over clients, beside its margin among the global ones
(*FedTGP*, Fig. 1); weights of the clients in the average (*ProtoMargin*, supplement).

Departures: of many clients only some are embedded, evenly drawn. Local prototypes are those of the model
that is tested at the client, for all methods alike, whatever was uploaded.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..analysis.prototype_margins import global_margins, largest_margins, local_prototypes
from ..analysis.run_metrics import evaluated_net
from ..config import resolve
from ..core.data import LocalData
from ..core.rng import numpy_generator
from ..data import Dataset, Split
from ..data.split_summary import describe_split
from ..experiment import DEPLOYED, Experiment, build, reopen
from ..ops.prototypes import features
from ..runs.directory import RunDir
from ..runs.outcome import Outcome
from ..runs.seals import read_whole, there

MOST_CLIENTS = 50  # that are embedded
MOST_LOCAL = 300  # local prototypes in an embedding
MOST_BUBBLES = 200  # clients in the bubble chart
EQUAL = 1e-5  # weights are kept with six digits


class OnThisMachine(RunDir):
    """A run directory whose run is reopened in this process and on the CPU, wherever it was made."""

    @property
    def config(self) -> dict[str, Any]:
        found = super().config
        return {**found, "system": {**found["system"], "engine": "sequential", "device": "cpu"}}


def look_inside(directory: RunDir, points: int, notes: list[str]) -> dict[str, Any]:
    """The parts of a report that need data and checkpoint; remarks are added to `notes`."""
    if directory.config["data"] == DEPLOYED:
        notes.append("charts of data and embeddings are left out: samples and models lie with the clients")
        return describe_members(directory)
    experiment = reopen(OnThisMachine(directory.path), notes.append, changed_content=notes.append)
    found = measure(experiment, points, notes)
    attention = _attention(experiment, Outcome.read(directory.path))
    return found if attention is None else {**found, "attention": attention}


def look_outside(directory: RunDir) -> dict[str, Any]:
    """What is known of the data before the first checkpoint."""
    if directory.config["data"] == DEPLOYED:
        return describe_members(directory)
    return describe_data(build(resolve(OnThisMachine(directory.path).config)))


def measure(experiment: Experiment, points: int, notes: list[str]) -> dict[str, Any]:
    """The same of an experiment as it stands."""
    result = describe_data(experiment)
    if experiment.federation.round:
        clients = _chosen(experiment, notes)
        local = {client: local_prototypes(experiment, client) for client in clients}
        result["space"] = _space(experiment, local, points, notes)
        result["margins"] = _margins(experiment, list(local.values()))
        if len(local) == MOST_CLIENTS < len(experiment.active):
            notes.append(f"margins: over {MOST_CLIENTS} of {len(experiment.active)} clients")
    return {key: value for key, value in result.items() if value is not None}


def describe_members(directory: RunDir) -> dict[str, Any]:
    """What the clients of a deployed run said of themselves. A rehearsal has no agreement on disk."""
    if not there(directory.path, "agreement.json"):
        return {"models": directory.config["models"].split("|")}
    members = read_whole(directory.path, "agreement.json", older=True)["members"]
    return {"models": [f"{one['name']}: {one['model']}, {one['train']} samples" for one in members]}


def describe_data(experiment: Experiment) -> dict[str, Any]:
    """Who has how much of what, and which model. Reads labels only."""
    task = experiment.task
    result: dict[str, Any] = {"models": [task.groups[task.group_of(k)].name for k in range(task.clients)]}
    if experiment.dataset is not None and experiment.split is not None:
        result["split"] = _split(experiment.dataset, experiment.split)
    return result


def _split(dataset: Dataset, split: Split) -> dict[str, Any]:
    summary = describe_split(dataset, split, most=0)
    return {
        "classes": list(dataset.classes),
        "counts": summary.train[:MOST_BUBBLES].tolist(),
        "samples": summary.train.sum(axis=1).tolist(),
        "test_samples": summary.test.sum(axis=1).tolist(),
        "held": (summary.train > 0).sum(axis=1).tolist(),
    }


# embeddings


def _chosen(experiment: Experiment, notes: list[str]) -> list[int]:
    """Clients whose embeddings can be drawn into one space: those of the most frequent size."""
    task = experiment.task
    dims = [task.embed_dims[task.group_of(client)] for client in experiment.active]
    common = max(set(dims), key=dims.count)
    if len(set(dims)) > 1:
        notes.append(f"embeddings: only clients whose embeddings have size {common} are shown")
    fitting = [client for client, dim in zip(experiment.active, dims) if dim == common]
    fitting = [client for client in fitting if experiment.data.size(client)]
    return _spread(fitting, MOST_CLIENTS)


def _spread(clients: Sequence[int], most: int) -> list[int]:
    """At most so many of the clients, evenly drawn."""
    if len(clients) <= most:
        return list(clients)
    return [clients[i] for i in np.linspace(0, len(clients) - 1, max(1, most)).astype(int)]


def _space(
    experiment: Experiment, local: dict[int, tuple[Tensor, Tensor]], points: int, notes: list[str]
) -> dict[str, Any] | None:
    """Positions [x, y], classes and clients of samples, local and global prototypes."""
    prototypes = sum(len(cls) for _, cls in local.values())
    clients = _spread(list(local), MOST_LOCAL * len(local) // max(MOST_LOCAL, prototypes))
    if len(clients) < len(experiment.active):
        notes.append(f"embeddings: {len(clients)} of {len(experiment.active)} clients are shown")
    samples = [_embedded(experiment, client, -(-points // max(1, len(clients)))) for client in clients]
    kinds = {
        "samples": [(client, *pair) for client, pair in zip(clients, samples)],
        "local": [(client, *local[client]) for client in clients],
        "global": [(-1, *pair) for pair in _global(experiment)],
    }
    rows = [z for parts in kinds.values() for _, z, _ in parts if len(z)]
    if sum(map(len, rows)) < 4:
        return None
    placed = project(torch.cat(rows).cpu().double().numpy())
    result: dict[str, Any] = {"classes": list(experiment.task.class_names)}
    start = 0
    for kind, parts in kinds.items():
        count = sum(len(z) for _, z, _ in parts)
        result[kind] = {
            "xy": np.round(placed[start : start + count], 2).tolist(),
            "cls": [c for _, _, y in parts for c in y.tolist()],
            "client": [client for client, _, y in parts for _ in range(len(y))],
        }
        start += count
    return result


def _global(experiment: Experiment) -> list[tuple[Tensor, Tensor]]:
    found = experiment.task.algorithm.prototypes(experiment.federation.state)
    return [] if found is None or not len(found[0]) else [found]


@torch.no_grad()
def _embedded(experiment: Experiment, client: int, most: int) -> tuple[Tensor, Tensor]:
    """Embeddings and labels of at most so many test samples (positions, with dense labels)."""
    data = experiment.data.test(client)
    dim = experiment.task.embed_dims[experiment.task.group_of(client)]
    if not len(data) or not most:
        return data.x.new_zeros(0, dim), data.y.new_zeros(0)
    random = numpy_generator(experiment.config.seed, "report", client)
    rows = torch.from_numpy(random.permutation(len(data))[:most])
    z, y = features(evaluated_net(experiment, client), LocalData(data.x[rows], data.y[rows]))
    z, y = z[y >= 0], y[y >= 0]
    kept = torch.from_numpy(random.permutation(len(y))[:most])
    return z[kept], y[kept]


def project(rows: np.ndarray) -> np.ndarray:
    """t-SNE [N, 2] of rows [N, D], the same in every call; perplexity 30, less for few rows."""
    from sklearn.manifold import TSNE

    if not np.ptp(rows, axis=0).any():
        return np.zeros((len(rows), 2))
    perplexity = min(30.0, (len(rows) - 1) / 3)
    start = "pca" if rows.shape[1] > 1 else "random"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # collapsed embeddings divide by a variance of 0 on the way
        placed = TSNE(perplexity=perplexity, init=start, max_iter=500, random_state=0).fit_transform(rows)
    return np.nan_to_num(np.asarray(placed, dtype=np.float64))


# prototypes


def _margins(experiment: Experiment, local: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any] | None:
    found = largest_margins(local, experiment.task.C)
    if not found.isfinite().any():
        return None
    result = {"classes": list(experiment.task.class_names), "client": _finite(found), "global": None}
    server = global_margins(experiment)
    return result if server is None else {**result, "global": _finite(server)}


def _finite(values: Tensor) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values.tolist()]


# clients' weights


def _attention(experiment: Experiment, run: Outcome) -> dict[str, Any] | None:
    """The last round's weights of the clients, beside their shares of the samples; None where the method
    tells none, or weighs by samples."""
    told = run.averages.get(experiment.federation.round)
    if told is None:
        return None
    sizes = [experiment.data.size(client) for client in told["clients"]]
    shares = [size / max(1, sum(sizes)) for size in sizes]
    if np.allclose(told["weights"], shares, rtol=0, atol=EQUAL):
        return None
    return {"clients": told["clients"], "weights": told["weights"], "shares": shares}

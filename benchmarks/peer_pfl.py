"""FedProto on pfl: its backend samples users and adds up their statistics, its model trains them.

Run by `benchmarks/peers.py`: python -m benchmarks.peer_pfl FOLDER full|small
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.hyperparam.base import AlgorithmHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.stats import MappedVectorStatistics
from torch import Tensor, nn

from protofed.ops.prototypes import means

from .child import tell, told_to_go
from .peer_client import loss, prototype_sums, w1


@dataclass(frozen=True)
class Everybody(AlgorithmHyperParams):  # type: ignore[misc]
    """All clients take part."""

    size: int


class FedProto(FederatedAlgorithm):  # type: ignore[misc]
    """Clients keep their models here; pfl's own hold one model for all."""

    def __init__(self, experiment: Any):
        super().__init__()
        task = experiment.task
        self.task, self.data = task, experiment.data
        self.protos, self.counts = torch.zeros(task.C, task.D), torch.zeros(task.C)
        self.states: dict[int, dict[str, Tensor]] = {}
        self.samples = sum(self.data.size(client) for client in range(task.clients)) * task.epochs

    def get_next_central_contexts(
        self, model: Any, iteration: int, algorithm_params: Any, train_params: Any, eval_params: Any = None
    ) -> Any:
        if iteration:
            tell(samples=self.samples)
        if not told_to_go():
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=algorithm_params.size,
            population=Population.TRAIN,
            algorithm_params=algorithm_params,
            model_train_params=train_params,
            seed=self._get_seed(),
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model: Any, user_dataset: Any, central_context: Any) -> Any:
        client, module = int(user_dataset.user_id), model.pytorch_model
        if client in self.states:
            module.load_state_dict(self.states[client])
        module.train()
        step = partial(_step, protos=self.protos, known=self.counts > 0)
        model.do_multiple_epochs_of(user_dataset, central_context.model_train_params, step)
        self.states[client] = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        sums, counts = prototype_sums(module, self.data.train(client), self.task.C)
        return MappedVectorStatistics({"sums": sums, "counts": counts}), Metrics()

    def process_aggregated_statistics(
        self, central_context: Any, aggregate_metrics: Any, model: Any, statistics: Any
    ) -> Any:
        self.counts = statistics["counts"]
        self.protos = means(statistics["sums"], self.counts)
        return model, Metrics()


def main(folder: str, size: str) -> None:
    experiment = w1(folder, size == "small")
    task = experiment.task
    turns = iter(range(10**9))
    users = FederatedDataset(partial(_user, experiment), lambda: next(turns) % task.clients)
    module = task.groups[0].build()
    for name in ("loss", "metrics"):  # pfl's model wants them; they are not used here
        setattr(module, name, None)
    model = PyTorchModel(
        module,
        partial(torch.optim.SGD, momentum=task.opt.momentum),
        torch.optim.SGD(module.parameters(), 1.0),
    )
    params = NNTrainHyperParams(
        local_learning_rate=task.opt.lr, local_num_epochs=task.epochs, local_batch_size=task.batch_size
    )
    tell(ready=True)
    FedProto(experiment).run(
        Everybody(task.clients), SimulatedBackend(users, users), model, params, send_metrics_to_platform=False
    )


def _user(experiment: Any, client: int) -> PyTorchTensorDataset:
    data = experiment.data.train(client)
    order = torch.randperm(len(data))
    return PyTorchTensorDataset((data.x[order], data.y[order]), user_id=str(client))


def _step(
    module: nn.Module, steps: Any, batch: Any, kwargs: Any, args: Any, protos: Tensor, known: Tensor
) -> None:
    steps.zero_grad()
    loss(module, batch[0], batch[1], protos, known).backward()  # type: ignore[no-untyped-call]
    steps.step()


if __name__ == "__main__":
    main(*sys.argv[1:3])

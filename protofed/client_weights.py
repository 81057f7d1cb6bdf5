"""How much each participant of a round weighs in the average, for methods that can tell.

*Prototype Guided Federated Learning of Visual Feature Representations* (ProtoMargin), Fig. S2: the values
a^t[k] over all rounds, of FedAvg and ProtoMargin. A method tells them by a hook:

    def client_weights(self, state, samples): ...   # client → weight, sum 1

They stand in a round's record as {"clients": […], "weights": […]}, and in a report as a histogram.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Protocol, runtime_checkable

from .engines.federation import Federation
from .engines.sampling import draw

MOST = 1000  # participants: records of rounds stay small
DIGITS = 6


@runtime_checkable
class TellsWeights(Protocol):
    """A method whose server averages models."""

    def client_weights(self, state: Any, samples: Mapping[int, int]) -> Mapping[int, float]:
        """Weights in the round that led to `state`; `samples`: training samples of its participants."""


def weights_of_round(federation: Federation, failed: Container[str]) -> dict[str, Any]:
    """{"average": …} of the last round, to be added to its record; empty if the method cannot tell."""
    method, plan = federation.task.algorithm, federation.plan
    if not isinstance(method, TellsWeights) or plan.participants(federation.task.clients) > MOST:
        return {}
    samples = {client: federation.data.size(client) for client in participants(federation, failed)}
    found = method.client_weights(federation.state, samples) if samples else {}
    return {
        "average": {
            "clients": list(found),
            "weights": [round(weight, DIGITS) for weight in found.values()],
        }
    }


def participants(federation: Federation, failed: Container[str] = ()) -> list[int]:
    """The last round's participants whose uploads were used: the draw is a function of seed and round."""
    task, plan = federation.task, federation.plan
    sampling = plan.sampling or task.algorithm.sampling
    drawn = draw(plan, sampling, task.clients, task.epochs, task.seed, federation.round, federation.data.size)
    drops = task.algorithm.partial == "drop"
    return [one.client for one in drawn if not (drops and one.late) and str(one.client) not in failed]

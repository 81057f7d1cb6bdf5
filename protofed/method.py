"""Everything that the author of a method needs, in one place: `from protofed.method import …`.

These names are stable: they keep their meaning between versions, and a change stands in the changelog. What
a method is made of, and which hook may do what, is told in docs/own/method.md and docs/architecture.md.

    the contract    Algorithm, Leg, Averaged, Phase, Needs, Preset, option, methods, carries_clients
    messages        Record, Nothing, Weights, Replies, Reply, Payload, cat, blocks
    what hooks get  Task, Turn, ClientTurn, Net, LocalData, ClassCounts, Batch, Ran, View, Loss, Tree,
                    Opt
    losses          ce, class_pull, sample_pull, kl
    prototypes      class_means, class_sums, means, owned, table, rows, one_hot, features, nearest,
                    prototype_predictions, prototype_scores
    distances       DISTANCES, cosine, pairwise_l2
    weights         SharedWeights, Average, put, under, flat, squared_distance
    errors          ConfigError, MessageError
"""

from .core.algorithm import (
    Algorithm,
    Leg,
    Loss,
    Needs,
    Phase,
    Preset,
    Ran,
    View,
    carries_clients,
    methods,
)
from .core.answer import Replies, Reply, blocks, cat
from .core.averages import Averaged
from .core.data import Batch, ClassCounts, LocalData
from .core.errors import ConfigError, MessageError
from .core.net import Net
from .core.optim import Opt
from .core.options import option
from .core.record import Nothing, Payload, Record, Tree, Weights
from .core.task import ClientTurn, Task, Turn
from .ops.distances import DISTANCES, cosine, pairwise_l2
from .ops.distill import kl
from .ops.losses import ce, class_pull, sample_pull
from .ops.prototypes import (
    class_means,
    class_sums,
    features,
    means,
    nearest,
    one_hot,
    owned,
    prototype_predictions,
    prototype_scores,
    rows,
    table,
)
from .ops.sharing import SharedWeights
from .ops.trees import Average, flat, put, squared_distance, under

__all__ = [
    "DISTANCES",
    "Algorithm",
    "Average",
    "Averaged",
    "Batch",
    "ClassCounts",
    "ClientTurn",
    "ConfigError",
    "Leg",
    "LocalData",
    "Loss",
    "MessageError",
    "Needs",
    "Net",
    "Nothing",
    "Opt",
    "Payload",
    "Phase",
    "Preset",
    "Ran",
    "Record",
    "Replies",
    "Reply",
    "SharedWeights",
    "Task",
    "Tree",
    "Turn",
    "View",
    "Weights",
    "blocks",
    "carries_clients",
    "cat",
    "ce",
    "class_means",
    "class_pull",
    "class_sums",
    "cosine",
    "features",
    "flat",
    "kl",
    "means",
    "methods",
    "nearest",
    "one_hot",
    "option",
    "owned",
    "pairwise_l2",
    "prototype_predictions",
    "prototype_scores",
    "put",
    "rows",
    "sample_pull",
    "squared_distance",
    "table",
    "under",
]

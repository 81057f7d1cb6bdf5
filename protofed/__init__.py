"""protofed: federated learning with class prototypes."""

from .api import Client, Result, federate, run
from .core.algorithm import Algorithm, Leg, Needs, Phase, methods
from .core.errors import ProtofedError
from .core.version import VERSION as __version__
from .models.base import Model

__all__ = [
    "Algorithm",
    "Client",
    "Leg",
    "Model",
    "Needs",
    "Phase",
    "ProtofedError",
    "Result",
    "__version__",
    "federate",
    "methods",
    "run",
]

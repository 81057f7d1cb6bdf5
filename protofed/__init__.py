"""protofed: federated learning with class prototypes."""

from .api import Client, Result, federate, run
from .core.algorithm import Algorithm, Leg, Needs, Phase, methods
from .core.errors import ProtofedError
from .models.base import Model

__version__ = "0.1.0"

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

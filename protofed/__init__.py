"""protofed: federated learning with class prototypes.

What it offers is imported when it is asked for, so that the command line is there at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.escape import guard_log
from .core.version import VERSION as __version__

if TYPE_CHECKING:
    from .api import Client, federate, run
    from .core.algorithm import Algorithm, Leg, Needs, Phase, methods
    from .core.errors import ProtofedError
    from .models.base import Model
    from .result import Result, Results
    from .use.compared import Compared, compare
    from .use.trained import Trained, load

__all__ = [
    "Algorithm",
    "Client",
    "Compared",
    "Leg",
    "Model",
    "Needs",
    "Phase",
    "ProtofedError",
    "Result",
    "Results",
    "Trained",
    "__version__",
    "compare",
    "federate",
    "load",
    "methods",
    "run",
]

guard_log()
_MODULES = (
    "api",
    "result",
    "core.algorithm",
    "core.errors",
    "models.base",
)  # the first registers all methods
_ELSEWHERE = {"Trained": "use.trained", "load": "use.trained"}
_ELSEWHERE |= {"Compared": "use.compared", "compare": "use.compared"}


def __getattr__(name: str) -> Any:
    """A name of the list above, or a part such as `protofed.data`."""
    if name in _ELSEWHERE:
        return getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    if name in __all__:
        found = [import_module(f"{__name__}.{module}") for module in _MODULES]
        return next(getattr(module, name) for module in found if hasattr(module, name))
    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

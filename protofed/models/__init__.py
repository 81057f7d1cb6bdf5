"""Client models: one file per family, registered in `families`; `groups` gives them to clients."""

from importlib import import_module
from pkgutil import iter_modules

from .base import Family, Model, families
from .check import check_model, count_parameters
from .groups import Assignment, assign
from .named_groups import NamedGroup, named_groups
from .split import split_head
from .written import read_family, write_family

__all__ = [
    "Assignment",
    "Family",
    "Model",
    "NamedGroup",
    "assign",
    "check_model",
    "count_parameters",
    "families",
    "named_groups",
    "read_family",
    "split_head",
    "write_family",
]

for _file in iter_modules(__path__):  # importing a family's file registers it
    import_module(f"{__name__}.{_file.name}")

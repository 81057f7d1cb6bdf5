"""Client models: one file per family, registered in `families`; `groups` gives them to clients."""

from . import fp_cnn, mlp, small_cnn  # importing a family registers it
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
    "fp_cnn",
    "mlp",
    "named_groups",
    "read_family",
    "small_cnn",
    "split_head",
    "write_family",
]

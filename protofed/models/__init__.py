"""Client models: one file per family, registered in `families`; `groups` gives them to clients.

base.py              what a model and a family are; written.py: from "cnn4:dim=64" to a family and back
groups.py            which client gets which family; named_groups.py: the papers' mixtures
conv.py, residual.py, trunk.py, split.py, weights.py    what families share
size.py              refuses what memory does not hold
probe.py             one pass through a built model, to check it; flops.py: what it costs
cnn1d.py, lstm.py    for series; bag.py: for tokens; mlp.py, resmlp.py: for tables
describe.py          rows for listings
user_module.py       a class in the user's file; given_modules.py: modules that a Python caller brings
"""

from ..core.registry import import_all
from .base import Family, Model, families
from .describe import FamilyRow, describe_families, describe_groups, describe_model
from .flops import Cost, cost_of, multiply_adds
from .groups import Assignment, assign
from .named_groups import NamedGroup, named_groups
from .probe import check_model, count_parameters
from .split import split_head
from .written import read_family, write_family

__all__ = [
    "Assignment",
    "Cost",
    "Family",
    "FamilyRow",
    "Model",
    "NamedGroup",
    "assign",
    "check_model",
    "cost_of",
    "count_parameters",
    "describe_families",
    "describe_groups",
    "describe_model",
    "families",
    "multiply_adds",
    "named_groups",
    "read_family",
    "split_head",
    "write_family",
]

import_all(__name__, __path__)  # importing a family's file registers it

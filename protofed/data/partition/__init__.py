"""How data is divided among clients, one file per rule. Importing this package registers all of them.

Written here rather than taken from flwr-datasets: that package works on Hugging Face datasets only,
brings their whole stack along, and has neither FedProto's n-way rule nor FedTGP's balance rule.
"""

from . import (
    dirichlet,
    domain,
    extended_dirichlet,
    femnist_letters,
    iid,
    natural,
    nway,
    pathological,
    pfllib,
    power_law,
    quantity,
    voc,
)

__all__ = [
    "dirichlet",
    "domain",
    "extended_dirichlet",
    "femnist_letters",
    "iid",
    "natural",
    "nway",
    "pathological",
    "pfllib",
    "power_law",
    "quantity",
    "voc",
]

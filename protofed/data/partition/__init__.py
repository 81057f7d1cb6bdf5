"""How data is divided among clients, one file per rule, which registers itself: importing this package
imports all.

Written here rather than taken from flwr-datasets: that package works on Hugging Face datasets only,
brings their whole stack along, and has neither FedProto's n-way rule nor FedTGP's balance rule.
"""

from ...core.registry import import_all

import_all(__name__, __path__)

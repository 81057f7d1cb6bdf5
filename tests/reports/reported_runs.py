"""What the runs are that the tests report."""

from __future__ import annotations

METHODS = ("fedproto", "local", "fedproto_margin")
SMALL = {"models": "mlp", "clients": 4, "engine": "sequential", "rounds": 3, "epochs": 1, "lr": 0.05}

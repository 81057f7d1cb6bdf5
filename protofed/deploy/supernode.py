"""Flower's SuperNode as `protofed client` runs it: it shows every few seconds that it lives.

Flower has a node send a sign of life every 30 s, and misses it after 60: so long a round waited for a client
that had died, and so long the server refused one that was started again. Its protocol allows 10 s, hence 20.
No option sets that, so the two modules that read the constant are told here. The processes that it starts for
each message keep Flower's own.
"""

from __future__ import annotations

from flwr.common.constant import HEARTBEAT_MIN_INTERVAL
from flwr.supercore import heartbeat
from flwr.supernode import fleet_http_connection
from flwr.supernode.cli import flower_supernode

NAME = "HEARTBEAT_DEFAULT_INTERVAL"


def main() -> None:
    """The program `flower-supernode`, with its arguments."""
    for module in (heartbeat, fleet_http_connection):
        assert hasattr(module, NAME), "another version of Flower"
        setattr(module, NAME, HEARTBEAT_MIN_INTERVAL)
    flower_supernode()


if __name__ == "__main__":
    main()

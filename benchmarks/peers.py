"""W1 on other simulators: the same mathematics, in the plain loop that their users write.

Each peer runs in a process of its own and plays a round when it is told to, so that it can take turns with
the other contenders. The client's code (`peer_client.py`) is the same on all peers; what differs is how the
peer carries it out. A peer that is not installed is named as absent.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .child import Child

PEERS = {"flower": ("Flower's simulation", ("flwr", "ray")), "pfl": ("pfl", ("pfl",))}


def present() -> tuple[list[str], list[str]]:
    """Names of the peers that are installed, and of those that are not."""
    found = {name: all(map(importlib.util.find_spec, needs)) for name, (_, needs) in PEERS.items()}
    return [name for name in found if found[name]], [name for name in found if not found[name]]


def start_peer(name: str, folder: Path, small: bool) -> Child:
    """The peer, ready to play rounds."""
    title = f"{PEERS[name][0]}, {'all cores' if name == 'flower' else '1 process'}"
    return Child(title, f"benchmarks.peer_{name}", [str(folder), "small" if small else "full"])

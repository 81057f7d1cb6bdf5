"""Where Ray runs: started for one simulation, on this machine alone, or a cluster that runs already.

The cluster is the one that Ray's own variable RAY_ADDRESS names (HOST:PORT of its head node); this process
runs on one of its nodes. Where a simulation runs changes no number, so it is no setting of a run. On a
cluster the folder of the simulation must be one that all nodes share, under TMPDIR.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..core.errors import EngineError
from . import reaper

log = logging.getLogger("protofed")
PREFIX = "protofed-flower-"
LONGEST_PARENT = 20  # characters: of the 107 that the path of a socket may have, Ray needs 64 and we 26
REACHED_SECONDS = 10
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_MEMORY_MONITOR": "1",
}
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # whatever the system: no address but 127.0.0.1


def cluster() -> str | None:
    """HOST:PORT of the cluster that RAY_ADDRESS names; None: Ray is started here."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "local"):
        return None
    if "://" in address:
        raise EngineError(
            f"RAY_ADDRESS {address}: Ray's client mode is not supported; run protofed on a node of the "
            "cluster, and give HOST:PORT of its head node"
        )
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise EngineError(
            f"RAY_ADDRESS {address}: a Ray cluster runs code for whoever reaches it; start its nodes with "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, and set both here (or unset RAY_ADDRESS: Ray runs here)"
        )
    return address


def check_reached() -> None:
    """Ray itself would try for minutes to reach a cluster that is not there."""
    host, _, port = (cluster() or "").rpartition(":")
    if not host or not port.isdecimal():  # no cluster, or "auto": Ray looks for it on this machine
        return
    try:
        socket.create_connection((host, int(port)), REACHED_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise EngineError(f"RAY_ADDRESS {host}:{port}: no Ray cluster is reached there: {error}") from error


def init_args(root: Path, workers: int) -> dict[str, Any]:
    """What Ray is started with, or with what it joins the cluster."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if (address := cluster()) is not None:
        return {"address": address, **quiet}
    return {"num_cpus": workers, **quiet, "_temp_dir": str(root / "ray")}


def make_root() -> Path:
    """A new folder for a simulation, which only this user can read; those of killed ones are cleared away.
    Sockets of a Ray that is started for it lie in it, whose paths must be short, so it lies in /tmp where the
    temporary folder's own path is long."""
    parent = Path(tempfile.gettempdir())
    if cluster() is None and len(str(parent)) > LONGEST_PARENT and Path("/tmp").is_dir():
        parent = Path("/tmp")
    for folder in reaper.abandoned(parent, PREFIX):
        reaper.clear(folder)
    root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    reaper.claim(root)
    return root


def check_shared(root: Path) -> None:
    """An actor must see the simulation's folder: a state kept elsewhere would be lost to the next actor."""
    if not (root / reaper.OWNER).exists():
        raise EngineError(
            f"{root} is not on this node of the Ray cluster; set TMPDIR to a folder that all nodes share"
        )


def start_reaper(root: Path) -> subprocess.Popen[bytes]:
    """The process that clears `root` away when this one has ended, however it ended."""
    command = [sys.executable, "-I", reaper.__file__, str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def stay_private() -> None:
    """Ray on loopback alone, with a token that its processes ask each other for. A cluster has its own."""
    late = "ray" in sys.modules  # it has read its variables already
    alone = cluster() is None
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)} if alone and not late else {}
    for name, value in {**QUIET, **(ALONE if alone else {}), **token}.items():
        os.environ.setdefault(name, value)
    if not alone:
        return
    from ray._private import ray_constants

    ray_constants.ENABLE_RAY_CLUSTER = False  # as its variable says
    if late and os.environ.get("RAY_AUTH_MODE") != "token":
        log.warning("Ray was imported before the simulation began: its processes run without a token")

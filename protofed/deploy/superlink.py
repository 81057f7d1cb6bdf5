"""Flower's SuperLink with a door and a login: `python -m protofed.deploy.superlink SERVER INSIDE`.

`flower-superlink` serves all of its interfaces on one port and knows no login of its own. So this program
builds Flower's web application with our settings, and serves it on two sockets (see door.py): the public one
for clients, and port INSIDE on loopback for operators and for Flower's own processes. `protofed server`
starts it.
"""

from __future__ import annotations

import hmac
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn
from flwr.common.constant import (
    ACCESS_TOKEN_KEY,
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    TRANSPORT_TYPE_GRPC_RERE,
)
from flwr.supercore.auth.typing import AccountAuthCredentials, AccountAuthLoginDetails, AccountInfo
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.logger import console_handler
from flwr.supercore.utils import get_popen_detach_kwargs
from flwr.superlink.auth_plugin import ControlAuthnPlugin
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _get_superexec_command
from flwr.superlink.config_loader import SuperLinkLifespanConfig
from flwr.superlink.main import create_app

from .door import Application, Door, fleet_paths, listen_on
from .launching import Launching, launcher
from .login import login_file, secret_file
from .quick import quick_link
from .settings import ServerSettings, read_server
from .signing import APP_ID, SignedApp, read_app

Metadata = Sequence[tuple[str, str | bytes]]


class Operators(ControlAuthnPlugin):
    """Whoever knows this start's token may use the Control interface: see login.py."""

    def __init__(self, token: str = ""):
        self._token = token.encode()

    def validate_tokens_in_metadata(self, metadata: Metadata) -> tuple[bool, AccountInfo | None]:
        """Flower calls this before every call of the Control interface."""
        given = [value for key, value in metadata if key == ACCESS_TOKEN_KEY]
        token = given[0].encode() if given and isinstance(given[0], str) else b""
        if not self._token or not hmac.compare_digest(token, self._token):
            return False, None
        return True, AccountInfo(flwr_aid=NOOP_FLWR_AID, account_name=NOOP_ACCOUNT_NAME)

    def get_login_details(self) -> AccountAuthLoginDetails | None:
        """`flwr login`: there is nothing to log into from elsewhere."""
        raise FlowerError(ApiErrorCode.NO_ACCOUNT_AUTH, "The login is a file of the server's own user.")

    def get_auth_tokens(self, device_code: str) -> AccountAuthCredentials | None:
        """Tokens are never handed out over the network."""
        self.get_login_details()
        return None

    def refresh_tokens(self, metadata: Metadata) -> tuple[Metadata | None, AccountInfo | None]:
        """A token is valid until the server ends, and is not prolonged."""
        return None, None


class Lifespan(SuperLinkLifespan):
    """Starts the program that starts server apps, with the secret without which nobody gets a task."""

    def _start_superexec_if_needed(self) -> None:
        config = self.config
        if sys.platform == "linux":
            secret = secret_file(Path(config.database).parent)
            address = f"127.0.0.1:{config.port}"
            self._launching = Launching(launcher("server", address, secret, config.ssl_ca_certfile))
            self.superexec_process = self._launching.process
            return
        command = _get_superexec_command(
            f"127.0.0.1:{config.port}", config.certificates, config.ssl_ca_certfile, os.getpid(), False
        )
        command += ["--superexec-auth-secret-file", str(secret_file(Path(config.database).parent))]
        self.superexec_process = subprocess.Popen(command, **get_popen_detach_kwargs())


def make_config(
    settings: ServerSettings, home: Path, inside: int, plugin: ControlAuthnPlugin
) -> SuperLinkLifespanConfig:
    """Flower's configuration: loopback, TLS, keys of nodes, login, a database of its own."""
    folder = settings.home / "certificates"
    files = [] if settings.insecure else [folder / name for name in ("ca.crt", "server.crt", "server.key")]
    paths: list[str | None] = [str(file) for file in files] or [None, None, None]
    contents = [file.read_bytes() for file in files]
    return SuperLinkLifespanConfig(
        control_address="",
        health_server_address=None,
        host="127.0.0.1",
        port=inside,
        insecure=settings.insecure,
        certificates=(contents[0], contents[1], contents[2]) if contents else None,
        superexec_auth_secret=secret_file(home).read_bytes(),
        authn_plugin=plugin,
        event_log_plugin=None,
        fleet_event_log_plugin=None,
        enable_event_log=False,
        artifact_provider=None,
        enable_supernode_auth=not settings.insecure,
        fleet_api_type=TRANSPORT_TYPE_GRPC_RERE,
        fleet_api_address=None,
        simulation=False,
        ssl_ca_certfile=paths[0],
        ssl_certfile=paths[1],
        ssl_keyfile=paths[2],
        database=str(home / "state.db"),
        isolation="subprocess",
        runtime_dependency_install=False,
    )


def make_app(config: SuperLinkLifespanConfig, signed: SignedApp) -> Any:
    """Flower's web application; its database holds the app that clients accept, with its signature."""
    app = create_app(config, Lifespan)
    fab = Fab(signed.hash, signed.content, signed.verifications)
    state = app.state.linkstate_factory.state()
    state.store_app(fab, NOOP_FEDERATION_ID, APP_ID, TaskType.SERVER_APP, NOOP_FLWR_AID)
    return app


def serve(app: Application, config: SuperLinkLifespanConfig, outside: tuple[str, int]) -> None:
    """Until the process is told to end."""
    sockets = [listen_on(config.host, config.port), listen_on(*outside)]
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=True,
            log_config=get_uvicorn_log_config(console_handler.level),
            ssl_keyfile=config.ssl_keyfile,
            ssl_certfile=config.ssl_certfile,
            proxy_headers=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=3,  # seconds; clients poll for ever
        )
    )
    server.run(sockets=sockets)


def main(arguments: Sequence[str]) -> None:
    """The program."""
    quick_link()
    settings, inside = read_server(Path(arguments[0])), int(arguments[1])
    home = settings.home / "flower"
    config = make_config(settings, home, inside, Operators(login_file(home).read_text()))
    app = make_app(config, read_app(settings.home, settings.insecure))
    serve(Door(app, inside, fleet_paths()), config, (settings.listen, settings.port))


if __name__ == "__main__":
    main(sys.argv[1:])

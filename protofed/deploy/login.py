"""The login of operators at Flower's Control interface, on loopback too, and the calls made with it.

Each start of the server makes a new token. It lies in files of the server's own user (0600) in `flower/`
beside server.toml: whoever may read them may operate. Flower's own commands find it there as well:

    FLWR_HOME=server/flower flwr list protofed
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import tomlkit

from ..core.errors import EngineError
from .keys import public_key
from .private import write_private
from .settings import ServerSettings
from .signing import APP_ID

CONNECTION = "protofed"  # as Flower's commands name it
ALREADY = 409  # what Flower answers for a key that it has


def login_file(home: Path) -> Path:
    """The token of this start."""
    return home / "login"


def secret_file(home: Path) -> Path:
    """What Flower's own processes prove that they belong to this start with."""
    return home / "processes"


def write_login(settings: ServerSettings, home: Path, inside: int) -> None:
    """New secrets, and the files in which Flower's commands look for them."""
    token, address = secrets.token_urlsafe(32), f"127.0.0.1:{inside}"
    write_private(login_file(home), token.encode())
    write_private(secret_file(home), secrets.token_urlsafe(32).encode())
    connection: dict[str, Any] = {"address": address}
    if settings.insecure:
        connection["insecure"] = True
    else:
        connection["root-certificates"] = str(settings.home / "certificates" / "ca.crt")
    written = tomlkit.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}})
    write_private(home / "config.toml", written.encode())
    kept = {"authn-type": "oidc", "oidc-access-token": token, "oidc-refresh-token": "none"}
    lines = {f"flower.account-auth.{address}.{key}": _coded(value) for key, value in kept.items()}
    write_private(home / "credentials.yaml", (json.dumps(lines) + "\n").encode())  # JSON is YAML


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Operator:
    """Calls of the Control interface, with the login of this start."""

    def __init__(self, settings: ServerSettings, home: Path, inside: int):
        from flwr.supercore.control import ControlHttpClient

        scheme = "http" if settings.insecure else "https"
        authority: Any = False if settings.insecure else _trust(settings.home / "certificates" / "ca.crt")
        self._token = login_file(home).read_text()
        self._client = ControlHttpClient(
            f"{scheme}://127.0.0.1:{inside}", interceptors=[self], verify=authority, timeout=120
        )

    def intercept(self, context: Any, call_next: Any) -> httpx.Response:
        """Flower's client passes every request through here."""
        context.request.headers["Authorization"] = f"Bearer {self._token}"
        response: httpx.Response = call_next(context)
        return response

    def register(self, name: str, key: Path) -> None:
        """The public key of a client, under its name; nothing new where Flower has it already."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        try:
            self._call("RegisterNode", RegisterNodeRequest(public_key=public_key(key), name=name))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != ALREADY:
                raise EngineError(
                    f"Flower did not register the key of {name}: {error.response.text[:300]}"
                ) from error

    def start(self, app_hash: str, values: Mapping[str, str | int]) -> int:
        """Start a run of the signed app; Flower's number of it."""
        from flwr.common.serde import user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.proto.fab_pb2 import Fab

        config = user_config_to_proto(dict(values))
        request = StartRunRequest(fab=Fab(hash_str=app_hash), app_spec=APP_ID, override_config=config)
        try:
            return int(self._call("StartRun", request).run_id)
        except httpx.HTTPStatusError as error:
            raise EngineError(f"Flower did not start the run: {error.response.text[:300]}") from error

    def traffic(self) -> dict[str, dict[str, int]]:
        """Bytes of every run, as Flower counted them."""
        from flwr.proto.control_pb2 import ListRunsRequest

        try:
            runs = self._call("ListRuns", ListRunsRequest(limit=1000)).run_dict
        except httpx.HTTPStatusError as error:
            raise EngineError(f"Flower did not list its runs: {error.response.text[:300]}") from error
        return {
            str(number): {"inbound-bytes": run.bytes_recv, "outbound-bytes": run.bytes_sent}
            for number, run in runs.items()
        }

    def close(self) -> None:
        """Close its connection."""
        self._client.close()

    def _call(self, name: str, request: Any) -> Any:
        try:
            return getattr(self._client, name)(request)
        except httpx.TransportError as error:
            raise EngineError(f"Flower's link gives no answer to {name}: {error!r}") from error


def _trust(authority: Path) -> Any:
    import ssl

    return ssl.create_default_context(cafile=authority)

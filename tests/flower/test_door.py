"""The door, the login and the signature in this process; test_attack.py has them in Flower's programs."""

import asyncio
import hashlib
import json
import subprocess
import sys
import warnings

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from flwr.proto.control_pb2 import ListRunsRequest
from flwr.supercore.fab import Fab
from flwr.supercore.routers.runtime import responses_router as responses
from flwr.supercore.routers.runtime.router import router as runtime
from flwr.superlink.routers.control import router as control
from flwr.supernode.start_client_internal import _verify_fab

from protofed.cli.main import main
from protofed.core.errors import ConfigError
from protofed.deploy.door import MOST_BYTES, Door, fleet_paths
from protofed.deploy.init import init
from protofed.deploy.login import login_file, secret_file, write_login
from protofed.deploy.private import private_folder
from protofed.deploy.serve import _supernode
from protofed.deploy.settings import read_client, read_server
from protofed.deploy.signing import check_trusted, read_app, sign
from protofed.deploy.superlink import Operators, make_app, make_config

INSIDE, PUBLIC = 7001, 9443
BODY = {"content-type": "application/protobuf", "accept": "application/protobuf"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door") / "f"
    init(folder, ["a", "b"], "127.0.0.1", PUBLIC, None, insecure=False)
    return folder


@pytest.fixture(scope="module")
def flower(folder):
    """Flower's own application behind the door, and the token of its operators."""
    settings = read_server(folder / "server")
    home = private_folder(settings.home / "flower")
    write_login(settings, home, INSIDE)
    token = login_file(home).read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Flower's use of Alembic
        app = make_app(make_config(settings, home, INSIDE, Operators(token)), read_app(settings.home))
    return Door(app, INSIDE, fleet_paths()), token, app


def post(door, path, port, method="POST", **headers):
    """Over ASGI: the port is that of the server's end of the connection, as uvicorn tells it."""

    async def call():
        transport = httpx.ASGITransport(door, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"https://127.0.0.1:{port}") as client:
            content = ListRunsRequest().SerializeToString() if method == "POST" else None
            return await client.request(method, path, headers={**BODY, **headers}, content=content)

    return asyncio.run(call())


def other_paths():
    """Every path of Flower's application that is not Fleet's, as it is installed."""
    found = {route.path for part in (control, runtime, responses) for route in part.routes}
    return sorted(found | {"/docs", "/openapi.json", "/health"})


def test_no_other_call_passes_the_public_port(flower):
    """All of Control and Runtime, by POST and GET; and tricks with the path."""
    door, token, _ = flower
    paths = other_paths()
    assert len(paths) > 40
    assert "/v1/control/start-run" in paths
    for path in paths:
        for method in ("POST", "GET"):
            got = post(door, path, PUBLIC, method, authorization=f"Bearer {token}")
            assert (got.status_code, got.content) == (404, b""), path


@pytest.mark.parametrize(
    "path",
    [
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "//v1/control/start-run",
        "/v1/fleet",
        "/v1/fleet/",
        "/v1/fleet/pull-messages/",
        "/v1/Fleet/pull-messages",
        "/v1/fleet/pull-messages/../../control/list-runs",
        "/",
    ],
)
def test_tricks_with_the_path(flower, path):
    assert post(flower[0], path, PUBLIC).status_code == 404


def test_headers_cannot_claim_to_come_from_inside(flower):
    claims = {"host": f"127.0.0.1:{INSIDE}", "x-forwarded-for": "127.0.0.1", "x-forwarded-host": "127.0.0.1"}
    claims |= {"forwarded": "for=127.0.0.1", "x-original-url": "/v1/fleet/pull-messages"}
    assert post(flower[0], "/v1/control/list-runs", PUBLIC, **claims).status_code == 404


def test_fleet_passes_and_asks_for_a_key(flower):
    """Each of the twelve calls reaches Flower, which refuses it without a node's signature."""
    assert len(fleet_paths()) == 12
    for path in fleet_paths():
        assert post(flower[0], path, PUBLIC).status_code == 401, path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 411),
        ([(b"transfer-encoding", b"chunked")], 411),
        ([(b"content-length", b"-1")], 411),
        ([(b"content-length", b"1"), (b"content-length", b"1")], 411),
        ([(b"content-length", b"%d" % (MOST_BYTES + 1))], 413),
        ([(b"content-length", b"9" * 5000)], 413),
        ([(b"content-length", b"%d" % MOST_BYTES)], None),
    ],
)
def test_requests_without_a_bound_are_refused_before_they_are_read(headers, status):
    passed = []

    async def app(scope, receive, send):
        passed.append(scope)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/p",
        "headers": headers,
        "server": ("1.2.3.4", PUBLIC),
    }
    assert ask(Door(app, INSIDE, ["/p"]), scope) == status
    assert bool(passed) == (status is None)


@pytest.mark.parametrize("server", [None, ("1.2.3.4", INSIDE), ("127.0.0.1", PUBLIC), ("/run/socket", None)])
def test_whatever_is_not_known_to_be_inside_is_outside(server):
    async def app(scope, receive, send):
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": "/v1/control/start-run", "headers": []}
    assert ask(Door(app, INSIDE, fleet_paths()), {**scope, "server": server}) == 404
    socket = {"type": "websocket", "path": "/v1/fleet/pull-messages", "server": server}
    assert ask(Door(app, INSIDE, fleet_paths()), socket) == 1008


def ask(door, scope):
    sent = []

    async def send(message):
        sent.append(message)

    async def never():
        raise AssertionError("the request was read")

    asyncio.run(door(scope, never, send))
    return sent[0].get("status", sent[0].get("code")) if sent else None


# the login


@pytest.mark.parametrize(
    "login", [None, "Bearer wrong", "Bearer ", "Basic {token}", "Bearer {token}x", "{token}"]
)
def test_control_asks_for_the_login_on_loopback_too(flower, login):
    door, token, _ = flower
    headers = {} if login is None else {"authorization": login.format(token=token)}
    tokens = {
        "/v1/control/get-login-details",
        "/v1/control/get-auth-tokens",
        "/v1/control/refresh-auth-tokens",
    }
    for path in sorted({route.path for route in control.routes} - tokens):
        assert post(door, path, INSIDE, **headers).status_code == 401, path
    for path in tokens:  # which hand out none
        got = post(door, path, INSIDE, **headers)
        assert got.status_code >= 400, path
        assert token.encode() not in got.content


def test_the_operator_gets_in(flower):
    door, token, _ = flower
    assert post(door, "/v1/control/list-runs", INSIDE, authorization=f"Bearer {token}").status_code == 200


def test_an_empty_login_is_none():
    assert Operators("").validate_tokens_in_metadata([("flwr-oidc-access-token", "")]) == (False, None)
    assert Operators().validate_tokens_in_metadata([]) == (False, None)


def test_tasks_are_for_flowers_own_processes(flower):
    """Runtime on loopback: without the secret of this start nobody gets a task."""
    assert post(flower[0], "/v1/runtime/acquire-task", INSIDE).status_code >= 400


def test_every_start_has_a_login_of_its_own_that_only_its_owner_reads(folder, tmp_path):
    settings, seen = read_server(folder / "server"), set()
    for _ in range(2):
        write_login(settings, tmp_path, INSIDE)
        seen |= {login_file(tmp_path).read_text(), secret_file(tmp_path).read_text()}
    assert len(seen) == 4
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path


# the signature


def trusted(folder):
    lines = (folder / "clients/a/trusted.yaml").read_text().splitlines()
    return json.loads(lines[-1])


def test_clients_accept_the_app_of_their_federation_alone(folder, tmp_path):
    """As Flower's SuperNode looks at it: other contents, another key, a forged id and no signature fail."""
    app, keys = read_app(folder / "server"), trusted(folder)
    (mine,) = keys
    foreign = sign(app.content, ed25519.Ed25519PrivateKey.generate())
    (theirs,) = [name for name in foreign if name != "valid_license"]

    def accepted(content, verifications):
        return _verify_fab(Fab(hashlib.sha256(content).hexdigest(), content, verifications), keys)

    assert accepted(app.content, app.verifications)
    assert not accepted(app.content + b" ", app.verifications)
    assert not accepted(app.content, foreign)
    assert not accepted(app.content, {mine: foreign[theirs], "valid_license": "Valid"})
    assert not accepted(app.content, {"valid_license": "Valid"})


def test_a_client_without_a_key_to_trust_does_not_start(tmp_path):
    """Flower takes an empty file as leave to run everything."""
    init(tmp_path / "f", ["a"], "127.0.0.1", PUBLIC, None, insecure=False)
    home = tmp_path / "f" / "clients" / "a"
    path = home / "trusted.yaml"
    command = _supernode(read_client(home))
    assert command[command.index("--trusted-entities") + 1] == str(path)
    curve = (home / "key.pub").read_text().strip()
    for text in ("", "# nothing\n", "{}", "[]", "null", '{"x": "y"}', '{"x": 1}', json.dumps({"x": curve})):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"trusted\.yaml"):
            _supernode(read_client(home))
    path.unlink()
    with pytest.raises(ConfigError, match="would run any app"):
        check_trusted(path)


def test_an_older_federation_gets_a_signature(tmp_path, capsys):
    init(tmp_path / "f", ["a"], "127.0.0.1", PUBLIC, None, insecure=False)
    for name in ("offline/app.key", "server/app/signature.json", "clients/a/trusted.yaml"):
        (tmp_path / "f" / name).unlink()
    with pytest.raises(ConfigError, match="protofed deploy sign"):
        read_app(tmp_path / "f" / "server")
    assert main(["deploy", "sign", str(tmp_path / "f")]) == 0
    assert "copy server/app/" in capsys.readouterr().err
    app = read_app(tmp_path / "f" / "server")
    assert _verify_fab(Fab(app.hash, app.content, app.verifications), trusted(tmp_path / "f"))


# what a host must install


def test_server_and_clients_need_no_ray():
    """The extra `deploy` leaves Ray out: every module that a deployment starts is imported without it."""
    code = """
import sys
import warnings
sys.modules["ray"] = None
import protofed.cli.deploy, protofed.deploy.superlink, protofed.deploy.serve, protofed.deploy.init
import protofed.deploy.server_app, protofed.deploy.client_app, protofed.deploy.rehearse
import flwr.supernode.cli.flower_supernode, flwr.supercore.cli.flower_superexec
from flwr.superlink.runtime import run_serverapp
print("all there")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "all there\n", done.stderr

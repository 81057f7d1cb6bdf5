"""Why a client is not connected: one sentence, and the right one."""

import datetime
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL
from flwr.supercore import heartbeat
from flwr.supernode import fleet_http_connection

from protofed.deploy import diagnosis, supernode
from protofed.deploy.certificates import write_authority
from protofed.deploy.diagnosis import clock_problem, why_not
from protofed.deploy.processes import free_port
from protofed.deploy.settings import ClientSettings


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    write_authority(folder, folder / "offline" / "ca.key", ["127.0.0.1"])
    return folder


@pytest.fixture
def server(certificates):
    """A server with TLS whose clock is wrong by `ahead` seconds."""
    ahead = {"seconds": 0.0}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404)
            self.end_headers()

        def date_time_string(self, timestamp=None):
            now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead["seconds"])
            return now.strftime("%a, %d %b %Y %H:%M:%S GMT")

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield http.server_address[1], ahead
    http.shutdown()
    http.server_close()
    thread.join()


def settings(home, port, host="127.0.0.1"):
    return ClientSettings(name="a", server=f"{host}:{port}", home=home)


@pytest.mark.parametrize(
    ("ahead", "told"),
    [(-10, "is 10 s ahead of the server's|is 11 s ahead"), (400, "behind the server's"), (0, "this key")],
)
def test_the_clock_is_named(server, certificates, ahead, told):
    """A client ten seconds ahead of its server gets 401 from Flower; the key is not to blame."""
    port, clock = server
    clock["seconds"] = ahead
    text = why_not(settings(certificates, port))
    assert any(part in text for part in told.split("|"))
    assert ("clock" in text) == (ahead != 0)
    assert "\n" not in text


@pytest.mark.parametrize(("ahead", "wrong"), [(4, False), (6, True), (-304, False), (-306, True)])
def test_the_window_is_that_of_flower(ahead, wrong):
    """Flower takes a signature whose age is above −5 and below 305 seconds."""
    assert (clock_problem(ahead) is not None) is wrong


def test_nothing_is_there(certificates):
    assert "nothing answers at 127.0.0.1:" in why_not(settings(certificates, free_port()))


def test_a_certificate_of_another_authority(server, tmp_path):
    write_authority(tmp_path, tmp_path / "ca.key", ["127.0.0.1"])
    text = why_not(settings(tmp_path, server[0]))
    assert "certificate of 127.0.0.1" in text
    assert "ca.crt" in text


def test_a_name_that_the_certificate_does_not_have(server, tmp_path):
    write_authority(tmp_path, tmp_path / "ca.key", ["other.example"])
    assert "is not accepted" in why_not(settings(tmp_path, server[0], "localhost"))


def test_the_path_is_one_of_flowers_fleet_interface():
    from protofed.deploy.door import fleet_paths

    assert diagnosis.PATH in fleet_paths()


def test_signs_of_life_come_as_often_as_flower_allows(monkeypatch):
    """Both modules that read the constant are told; a release without it is noticed."""
    for module in (heartbeat, fleet_http_connection):
        monkeypatch.setattr(module, supernode.NAME, 30)
    monkeypatch.setattr(supernode, "flower_supernode", lambda: None)
    supernode.main()
    for module in (heartbeat, fleet_http_connection):
        assert getattr(module, supernode.NAME) == HEARTBEAT_MIN_INTERVAL == 10
    monkeypatch.delattr(heartbeat, supernode.NAME)
    with pytest.raises(AssertionError, match="another version of Flower"):
        supernode.main()

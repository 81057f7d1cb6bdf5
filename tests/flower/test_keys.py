"""Keys that clients make themselves, and clients that try to take the place of another."""

import shutil
import subprocess

import pytest
import test_deployed_run as deployed
from cryptography.hazmat.primitives.asymmetric import ed25519
from fake_grid import FakeGrid
from test_federation_files import node, write_site

from protofed.cli.main import main
from protofed.core.errors import ConfigError
from protofed.deploy.certificates import write_key_pair
from protofed.deploy.init import init
from protofed.deploy.keys import RUN_KEYS, fingerprint, keys_of_run, public_key
from protofed.deploy.roster import Roster
from protofed.deploy.serve import _supernode
from protofed.deploy.settings import read_client, read_server
from protofed.deploy.signing import public_line


@pytest.fixture
def folder(tmp_path):
    init(tmp_path / "f", ["a", "b"], "server.example", 9443, None, insecure=False, own_keys=True)
    return tmp_path / "f"


def test_a_client_makes_its_own_key_and_sends_the_public_half(folder, capsys):
    """Nothing private is made where the federation is; the fingerprints of both ends are the same."""
    assert not list(folder.glob("clients/*/key*"))
    assert not list(folder.glob("server/keys/*"))
    home = folder / "clients" / "a"
    with pytest.raises(ConfigError, match="protofed deploy join"):
        _supernode(read_client(home))
    with pytest.raises(ConfigError, match="protofed deploy accept"):
        keys_of_run(read_server(folder / "server"), folder, ["a"])
    assert main(["deploy", "join", str(home)]) == 0
    assert (home / "key").stat().st_mode & 0o777 == 0o600
    made = fingerprint(home / "key.pub")
    assert made in capsys.readouterr().err
    assert main(["deploy", "accept", str(folder), "a", str(home / "key.pub")]) == 0
    assert made in capsys.readouterr().err
    assert keys_of_run(read_server(folder / "server"), folder, ["a"]) == {"a": public_key(home / "key.pub")}
    assert "--auth-supernode-private-key" in _supernode(read_client(home))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not here")
def test_the_fingerprint_is_that_of_openssh(tmp_path):
    write_key_pair(tmp_path / "key")
    command = ["ssh-keygen", "-l", "-f", str(tmp_path / "key.pub")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.split()[1] == fingerprint(tmp_path / "key.pub")


def test_a_key_is_made_once(folder, capsys):
    home = folder / "clients" / "a"
    assert main(["deploy", "join", str(home)]) == 0
    before = (home / "key").read_bytes()
    assert main(["deploy", "join", str(home)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (home / "key").read_bytes() == before


def test_another_key_for_a_name_and_another_name_for_a_key_are_refused(folder, tmp_path, capsys):
    for name in ("one", "two"):
        write_key_pair(tmp_path / name)
    accept = ["deploy", "accept", str(folder)]
    assert main([*accept, "a", str(tmp_path / "one.pub")]) == 0
    assert main([*accept, "a", str(tmp_path / "one.pub")]) == 0  # the same again
    assert main([*accept, "a", str(tmp_path / "two.pub")]) == 2
    assert "a has another key already" in capsys.readouterr().err
    assert main([*accept, "b", str(tmp_path / "one.pub")]) == 2
    assert "is the key of a" in capsys.readouterr().err
    assert main([*accept, "c", str(tmp_path / "two.pub")]) == 2
    assert "c is not in server.toml" in capsys.readouterr().err
    assert public_key(folder / "server/keys/a.pub") == public_key(tmp_path / "one.pub")


@pytest.mark.parametrize("text", ["", "ssh-rsa AAAA", "hello", "ecdsa-sha2-nistp384 AAAA"])
def test_what_is_no_key_is_refused(folder, tmp_path, capsys, text):
    (tmp_path / "x.pub").write_text(text)
    assert main(["deploy", "accept", str(folder), "a", str(tmp_path / "x.pub")]) == 2
    assert "cannot be read as a public key" in capsys.readouterr().err


def test_a_private_or_foreign_kind_of_key_is_refused(folder, tmp_path, capsys):
    (tmp_path / "x.pub").write_text(public_line(ed25519.Ed25519PrivateKey.generate()))
    assert main(["deploy", "accept", str(folder), "a", str(tmp_path / "x.pub")]) == 2
    assert "no ECDSA key" in capsys.readouterr().err
    assert main(["deploy", "join", str(folder / "clients" / "b")]) == 0
    capsys.readouterr()
    assert main(["deploy", "accept", str(folder), "a", str(folder / "clients" / "b" / "key")]) == 2
    assert "cannot be read as a public key" in capsys.readouterr().err


def test_a_further_client_with_its_own_key(folder):
    assert main(["deploy", "add", str(folder), "c", "--own-keys"]) == 0
    assert not (folder / "clients" / "c" / "key").exists()
    assert (folder / "clients" / "c" / "trusted.yaml").exists()


def test_a_node_with_another_key_under_the_same_name_is_refused(tmp_path):
    """Both are registered as "one" at Flower: only the node with the key of server/keys is the client."""
    site = write_site(tmp_path, "one", ["dog", "cat"])
    news = []
    grid = FakeGrid({5: node(site), 6: node(site)}, {5: "one", 6: "one"}, {5: b"stranger's", 6: b"one's"})
    roster = Roster(grid, ["one"], True, lambda **n: news.append(n), {"one": b"one's"})
    assert roster.current() == {0: 6}
    assert ["another key" in n["refused"] for n in news if "refused" in n] == [True]


def test_a_run_goes_on_with_the_keys_with_which_it_began(tmp_path):
    """The key of south is replaced while the server is down: whoever has the new one is not in this run."""
    deployed.write_federation(tmp_path)
    with pytest.raises(deployed.Killed):
        deployed.start(tmp_path, tmp_path / "run", until=1)
    settings = read_server(tmp_path / "f" / "server")
    began = keys_of_run(settings, tmp_path / "run", settings.clients)
    write_key_pair(tmp_path / "new")
    shutil.copy(tmp_path / "new.pub", settings.home / "keys" / "south.pub")
    assert keys_of_run(settings, tmp_path / "run", settings.clients) == began
    assert (tmp_path / "run" / RUN_KEYS).exists()
    now = keys_of_run(settings, tmp_path / "another", settings.clients)  # not begun: the keys of today count
    assert now["south"] == public_key(tmp_path / "new.pub") != began["south"]


def test_a_further_client_needs_nothing_that_is_offline(folder):
    """offline/ is on a medium in a drawer; the file of the key that clients trust is public."""
    shutil.rmtree(folder / "offline")
    assert main(["deploy", "add", str(folder), "c"]) == 0
    trusted = [(folder / place / "trusted.yaml").read_bytes() for place in ("clients/a", "clients/c")]
    assert trusted[0] == trusted[1]

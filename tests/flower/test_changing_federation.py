"""A federation changes: clients come and go, keys and certificates are replaced, old states are removed."""

import os
import re
import shlex
import tomllib

import pytest
from cryptography import x509
from fake_grid import FakeGrid
from test_federation_files import node, write_site

from protofed.cli.main import main
from protofed.cli.parser import make_parser
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.deploy import certificates, serve
from protofed.deploy.agreement import Agreement, agree
from protofed.deploy.audit import Audit
from protofed.deploy.certificates import days_left, read_certificate, write_key_pair
from protofed.deploy.client_app import answer
from protofed.deploy.init import init
from protofed.deploy.place import place_of
from protofed.deploy.processes import flower_values
from protofed.deploy.roster import Roster
from protofed.deploy.settings import read_client, read_server
from protofed.flower.packet import Packet
from protofed.flower.vault import Request, Tag, Vault


@pytest.fixture
def folder(tmp_path):
    init(tmp_path / "f", ["a", "b"], "server.example", 9443, None, insecure=False)
    return tmp_path / "f"


# clients


def test_add_a_client(folder, capsys):
    assert main(["deploy", "add", str(folder), "c"]) == 0
    settings = read_server(folder / "server")
    assert settings.clients == ["a", "b", "c"]
    home = folder / "clients" / "c"
    assert read_client(home).server == "server.example:9443"
    assert (home / "key.pub").read_bytes() == (folder / "server" / "keys" / "c.pub").read_bytes()
    assert (home / "ca.crt").read_bytes() == (folder / "server" / "certificates" / "ca.crt").read_bytes()
    assert "keys/c.pub to the server" in capsys.readouterr().err
    assert main(["deploy", "add", str(folder), "c"]) == 2
    assert "has a client c already" in capsys.readouterr().err


def test_add_leaves_what_people_wrote(folder):
    path = folder / "server" / "server.toml"
    path.write_text(path.read_text().replace('["a", "b"]', '[\n  "a",  # the first\n  "b",\n]'))
    assert main(["deploy", "add", str(folder), "c"]) == 0
    assert read_server(folder / "server").clients == ["a", "b", "c"]
    assert '  "a",  # the first\n' in path.read_text()
    assert "how clients reach it" in path.read_text()


def test_values_for_flower_are_read_back_as_they_were(tmp_path):
    values = {"run": f'{tmp_path}/a "b" c\\d', "owner": 7}
    assert tomllib.loads(flower_values(values).replace(" owner", "\nowner")) == values


def registered(folder):
    """Flower's directory after a server has registered a and b."""
    home = folder / "server" / "flower"
    home.mkdir()
    for name in ("a", "b"):
        (home / f"registered-{name}").write_bytes((folder / "server" / "keys" / f"{name}.pub").read_bytes())
    (home / "state.db").write_text("keys of a and b")
    return home


def forget(folder, home):
    settings = read_server(folder / "server")
    serve._forget_withdrawn_keys(settings, home, Audit(settings.home, "run"))
    return (home / "state.db").exists()


def test_keys_are_kept_while_clients_stay_or_come(folder):
    home = registered(folder)
    assert forget(folder, home)
    main(["deploy", "add", str(folder), "c"])
    assert forget(folder, home)


def test_the_key_of_a_client_that_left_is_forgotten(folder):
    home = registered(folder)
    path = folder / "server" / "server.toml"
    path.write_text(path.read_text().replace('["a", "b"]', '["a"]'))
    assert not forget(folder, home)
    assert not list(home.glob("registered-*"))  # so that a is registered again


def test_an_old_key_is_forgotten(folder):
    home = registered(folder)
    write_key_pair(folder / "clients" / "b" / "key")
    (folder / "server" / "keys" / "b.pub").write_bytes((folder / "clients" / "b" / "key.pub").read_bytes())
    assert not forget(folder, home)


def test_a_run_that_goes_on_keeps_its_numbering(tmp_path):
    """The run began with one, two. Then one left server.toml and three came: two stays number 1."""
    sites = {name: write_site(tmp_path, name, ["dog", "cat"]) for name in ("one", "two", "three")}
    agreement = agree("run", resolve({}), [sites["one"].member(), sites["two"].member()], [])
    names = {5: "one", 6: "two", 7: "three"}
    news = []
    grid = FakeGrid({number: node(sites[name]) for number, name in names.items()}, names)
    roster = Roster(grid, ["two", "three"], True, lambda **n: news.append(n))
    roster.begin(agreement)
    assert roster.current() == {1: 6}
    refused = " ".join(str(n["refused"]) for n in news if "refused" in n)
    assert "'one' is not in server.toml" in refused
    assert "'three' came to server.toml after this run had begun" in refused
    assert news[-1] == {"missing": ["one"]}


# certificates


def test_renewed_certificate_is_for_the_same_hosts_under_the_same_authority(folder, capsys):
    path = folder / "server" / "certificates"
    old, authority = read_certificate(path / "server.crt"), read_certificate(path / "ca.crt")
    assert main(["deploy", "renew", str(folder)]) == 0
    new = read_certificate(path / "server.crt")
    new.verify_directly_issued_by(authority)
    hosts = [c.extensions.get_extension_for_class(x509.SubjectAlternativeName).value for c in (old, new)]
    assert hosts[0] == hosts[1]
    assert new.serial_number != old.serial_number
    assert (path / "server.key").stat().st_mode & 0o077 == 0
    assert str(new.not_valid_after_utc.date()) in capsys.readouterr().err
    assert main(["deploy", "renew", str(folder / "server")]) == 0  # where only server/ is


def test_renewal_needs_the_key_of_the_authority(folder, capsys):
    (folder / "offline" / "ca.key").unlink()
    assert main(["deploy", "renew", str(folder)]) == 2
    assert "ca.key is needed to sign" in capsys.readouterr().err


@pytest.mark.parametrize(("days", "warning"), [(0, None), (10, "expires in 9 days"), (100, "")])
def test_expiry_is_told_in_time(folder, monkeypatch, days, warning):
    monkeypatch.setattr(certificates, "SERVER_DAYS", days)
    main(["deploy", "renew", str(folder)])
    monkeypatch.undo()
    said = []
    if warning is None:
        with pytest.raises(ConfigError, match="has expired; renew it with: protofed deploy renew"):
            serve._check_certificate(read_server(folder / "server"), said.append)
    else:
        serve._check_certificate(read_server(folder / "server"), said.append)
        assert warning in " ".join(said)
        assert bool(said) == bool(warning)
    assert days_left(folder / "server" / "certificates" / "ca.crt") > 3600


# states


def test_states_of_old_runs_are_removed_when_a_new_run_begins(tmp_path):
    """With keep_runs = 2: a third run removes the run that was used least recently, not the oldest."""
    site = write_site(tmp_path, "one", ["dog", "cat"])
    toml = site.settings.home / "client.toml"
    toml.write_text(toml.read_text() + "\nkeep_runs = 2\n")
    settings = read_client(site.settings.home)
    for number, run in enumerate(("first", "second", "third")):
        if run == "third":
            Vault(settings.home / "state", "first", "one").open(Request(1, None, Tag(1, 0)))
            os.utime(settings.home / "state" / "first" / "one" / "journal.json", (9, 9))
        agreement = agree(run, resolve({}), [site.member()], [])
        assert "error" not in answer(settings, begin(agreement)).meta
        os.utime(settings.home / "state" / run / "agreement.json", (number, number))
    kept = sorted(path.name for path in (settings.home / "state").iterdir())
    assert kept == ["first", "third"]


def test_a_damaged_agreement_is_refused(tmp_path):
    site = write_site(tmp_path, "one", ["dog", "cat"])
    settings = site.settings
    answer(settings, begin(agree("run", resolve({}), [site.member()], [])))
    path = settings.home / "state" / "run" / "agreement.json"
    path.write_bytes(path.read_bytes().replace(b'"lr": 0.', b'"lr": 9.'))
    reply = answer(settings, Packet({"kind": "train", "experiment": "run"}, {}))
    assert "agreement.json is damaged: its checksum does not match" in str(reply.meta["error"])


def begin(agreement: Agreement) -> Packet:
    return Packet({"kind": "agreement", "agreement": place_of(agreement, 0, False).to_json()}, {})


# the README


@pytest.mark.parametrize("insecure", [False, True])
def test_every_command_of_the_readme_is_one(tmp_path, insecure):
    init(tmp_path / "f", ["north", "east"], "server.example", 9443, None, insecure)
    text = (tmp_path / "f" / "README.md").read_text()
    commands = re.findall(r"^ +protofed (.+)$", text, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        if command != "--version":
            make_parser(shlex.split(command))
    assert ("--insecure" in text) is insecure
    assert ("## Firewall" in text) is not insecure
    if not insecure:
        ends = read_certificate(tmp_path / "f/server/certificates/server.crt").not_valid_after_utc.date()
        assert f"until **{ends}**" in text

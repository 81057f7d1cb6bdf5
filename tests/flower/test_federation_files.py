"""`protofed deploy init`, the two settings files, certificates, agreement and roster."""

import dataclasses
import json
import re
import ssl
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from fake_grid import FakeGrid

import protofed
from protofed.cli.main import main
from protofed.config import resolve
from protofed.core.errors import ConfigError, EngineError
from protofed.deploy.agreement import Agreement, agree, make_task
from protofed.deploy.client_app import answer
from protofed.deploy.init import init
from protofed.deploy.rehearse import rehearse
from protofed.deploy.roster import Roster
from protofed.deploy.settings import read_client, read_server
from protofed.deploy.site import Site
from protofed.flower.packet import Packet


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deploy") / "federation"
    init(folder, ["a", "b"], "server.example", 9443, None, insecure=False)
    return folder


def write_site(folder, name, words, model="mlp:dim=8", rows=12):
    """A site with its own class names; sample i of class c has the value of the name's length."""
    home = folder / name
    home.mkdir(parents=True)
    y = np.arange(rows) % len(words)
    x = np.array([[len(words[c])] * 4 for c in y], dtype=np.float32)[:, None, :, None]
    np.savez(home / "data.npz", x_train=x, y_train=y, x_test=x[:4], y_test=y[:4])
    lines = [
        f'name = "{name}"',
        f'model = "{model}"',
        'data = "npz:data.npz"',
        f"classes = {json.dumps(words)}",
    ]
    (home / "client.toml").write_text("\n".join(lines))
    return Site(read_client(home))


def test_init_writes_everything_with_private_keys_private(written):
    for name in ("server.toml", "recipe.toml", "app/protofed.fab", "certificates/server.key", "keys/a.pub"):
        assert (written / "server" / name).exists(), name
    for private in ("offline/ca.key", "offline/app.key", "server/certificates/server.key", "clients/a/key"):
        assert (written / private).stat().st_mode & 0o077 == 0, private
    assert not list(written.glob("server/**/ca.key")) + list(written.glob("clients/**/*a*.key"))
    for folder in ("server", "clients/a", "offline"):
        assert (written / folder).stat().st_mode & 0o077 == 0, folder
    assert read_server(written / "server").clients == ["a", "b"]
    assert read_client(written / "clients" / "b").server == "server.example:9443"
    assert resolve({}).method == "fedproto"


def test_server_certificate_is_signed_by_the_ca_for_the_host(written):
    folder = written / "server" / "certificates"
    leaf, root = (x509.load_pem_x509_certificate((folder / f).read_bytes()) for f in ("server.crt", "ca.crt"))
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server.example", "localhost"]
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    assert len(context.get_ca_certs()) == 1


def test_client_keys_are_pairs(written):
    key = serialization.load_ssh_private_key((written / "clients/a/key").read_bytes(), None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert (written / "server/keys/a.pub").read_bytes().strip() == public
    assert (written / "server/keys/a.pub").read_bytes() != (written / "server/keys/b.pub").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clients = []", "expected the names"),
        ('clients = ["a", "a"]', "twice"),
        ('clients = ["../a"]', "expected letters"),
        ('clients = ["a"]\nporrt = 1', "did you mean 'port'"),
        ('clients = "a"', "expected a list"),
        ("clients = [", "not valid TOML"),
    ],
)
def test_mistakes_in_server_toml(tmp_path, text, message):
    (tmp_path / "server.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_server(tmp_path)


def test_insecure_must_be_confirmed(tmp_path, capsys):
    init(tmp_path / "f", ["a"], "127.0.0.1", 9443, None, insecure=True)
    assert main(["client", str(tmp_path / "f" / "clients" / "a")]) == 2
    assert "confirm it with --insecure" in capsys.readouterr().err


def test_init_twice_and_bad_names(written, capsys):
    assert main(["deploy", "init", str(written), "--clients", "a"]) == 2
    assert "already holds a federation" in capsys.readouterr().err
    assert main(["deploy", "init", str(written / "new"), "--clients", "a/b"]) == 2


def test_two_numberings_become_one(tmp_path):
    """Class 0 of one site is "dog", of the other "ant": in the sorted common list they are 2 and 0."""
    one, two = write_site(tmp_path, "one", ["dog", "cat1"]), write_site(tmp_path, "two", ["ant", "dog"])
    made = agree("run", resolve({}), [one.member(), two.member()], [])
    assert made.classes == ("ant", "cat1", "dog")
    train, _ = one.parts(made.classes, torch.float32)
    assert train.y[:4].tolist() == [2, 1, 2, 1]
    train, _ = two.parts(made.classes, torch.float32)
    assert train.y[:4].tolist() == [0, 2, 0, 2]
    assert Agreement.of_json(made.to_json()) == made


def test_a_foreign_class_is_refused_by_name(tmp_path):
    site = write_site(tmp_path, "one", ["dog", "yeti"])
    with pytest.raises(ConfigError, match=r"client one has the class 'yeti'"):
        agree("run", resolve({}), [site.member()], ["dog", "cat"])


def test_methods_that_cannot_be_deployed(tmp_path):
    site = write_site(tmp_path, "one", ["dog", "cat"])
    made = agree("run", resolve({"method": "centralized"}), [site.member()], [])
    with pytest.raises(ConfigError, match="merges all samples"):
        make_task(made, made.config_at())


def test_a_model_file_of_another_machine_is_never_run(tmp_path):
    """The server takes a stand-in of the same embedding size; the file would leave a trace."""
    file, trace = tmp_path / "net.py", tmp_path / "trace"
    file.write_text(f"open({str(trace)!r}, 'w').close()\n")
    site = write_site(tmp_path, "one", ["dog", "cat"])
    member = dataclasses.replace(site.member(), model=f"module:{file}:Net")
    made = agree("run", resolve({}), [member], [])
    task = make_task(made, made.config_at())
    assert task.embed_dims == (8,)
    assert not trace.exists()
    made = agree("run", resolve({"method": "fedavg"}), [member], [])
    with pytest.raises(ConfigError, match="shares weights"):
        make_task(made, made.config_at())
    assert not trace.exists()


def test_rehearsal_runs_the_federation_of_a_directory(tmp_path):
    init(tmp_path / "f", ["one", "two"], "127.0.0.1", 9443, None, insecure=True)
    for name in ("one", "two"):
        (tmp_path / "f" / "clients" / name / "client.toml").unlink()
        (tmp_path / "f" / "clients" / name).rmdir()
        write_site(tmp_path / "f" / "clients", name, ["dog", "catfish"])
    experiment = rehearse(tmp_path / "f")
    experiment.federation.play()
    assert experiment.federation.state.known.tolist() == [12, 12]


def node(site):
    return lambda packet: answer(site.settings, packet)


def test_roster_joins_agrees_and_refuses(tmp_path):
    """Three nodes: one in the list, one with another's name, one unknown."""
    one = write_site(tmp_path, "one", ["dog", "cat"])
    thief, stranger = write_site(tmp_path / "x", "one", ["dog", "cat"]), write_site(tmp_path, "who", ["dog"])
    grid = FakeGrid({5: node(one), 6: node(thief), 7: node(stranger)}, {5: "one", 6: "two", 7: "who"})
    news = []
    roster = Roster(grid, ["one"], True, lambda **n: news.append(n))
    members = roster.wait(5)
    assert [member.name for member in members] == ["one"]
    refused = " ".join(str(n["refused"]) for n in news if "refused" in n)
    assert "its key is registered as 'two'" in refused
    assert "'who' is not in server.toml" in refused
    roster.begin(agree("run", resolve({}), members, []))
    assert roster.current() == {0: 5}
    assert (one.settings.home / "state" / "run" / "agreement.json").exists()


def test_roster_names_who_is_missing(tmp_path):
    roster = Roster(FakeGrid({}), ["one", "two"], False, lambda **n: None)
    with pytest.raises(EngineError, match="one, two did not join within 0 s"):
        roster.wait(0)


def test_a_client_without_the_agreement_says_so(tmp_path):
    site = write_site(tmp_path, "one", ["dog", "cat"])
    reply = answer(site.settings, Packet({"kind": "train", "experiment": "unknown"}, {}))
    assert "no agreement of run unknown" in reply.meta["error"]
    reply = answer(site.settings, Packet({"kind": "train", "experiment": "../.."}, {}))
    assert "no name of a run" in reply.meta["error"]


def test_nothing_that_travels_is_pickled():
    """Only the simulation pickles, for processes of its own machine."""
    package = Path(protofed.__file__).parent
    files = [path for part in ("flower", "deploy") for path in (package / part).glob("*.py")]
    found = [
        path.name
        for path in files
        if re.search(r"\b(cloud)?pickle\.|(?<!safetensors\.)torch\.load", path.read_text())
    ]
    assert found == ["simulation.py"]


def test_package_imports_without_flower():
    """The base package, and the engine's name, need no Flower."""
    code = "import sys; sys.modules['flwr'] = None; import protofed.cli.deploy, protofed.experiment"
    code += "\nfrom protofed.cli.main import main; sys.exit(main(['status', '.']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "not the directory of a deployed run" in done.stderr

"""The run directory of a deployed run, made by the real server and client apps over a grid in this process:
every command that reads runs works on it."""

import json
import shutil
import threading
from urllib.request import urlopen

import numpy as np
import pytest
import safetensors.torch
from fake_grid import FakeGrid

import protofed
from protofed.cli.main import main
from protofed.core.errors import RunError
from protofed.deploy import serve as serving
from protofed.deploy.client_app import answer
from protofed.deploy.init import init
from protofed.deploy.keys import public_key
from protofed.deploy.rehearse import rehearse
from protofed.deploy.server_app import serve
from protofed.deploy.settings import read_client, read_server
from protofed.deploy.status import StatusFile
from protofed.reports.live import LivePage, follow
from protofed.runs.directory import RunDir
from protofed.runs.loose import write_loose
from protofed.runs.outcome import Outcome

SITES = {"north": ["ant", "bee"], "south": ["bee", "cat", "dog"]}
RECIPE = 'method = "fedproto"\nrounds = 3\neval_every = 1\nlr = 0.05\n[transport]\nround_timeout = 20\n'


class Killed(BaseException):
    """The server app ends in the middle."""


def write_federation(folder):
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE)
    init(folder / "f", list(SITES), "127.0.0.1", 9443, recipe, insecure=False)
    for number, (name, words) in enumerate(SITES.items()):
        home = folder / "f" / "clients" / name
        random = np.random.default_rng(number)
        y = np.arange(24) % len(words)
        x = (random.normal(size=(24, 1, 2, 2)) + y[:, None, None, None]).astype(np.float32)
        np.savez(home / "data.npz", x_train=x, y_train=y, x_test=x[:8], y_test=y[:8])
        with open(home / "client.toml", "a") as file:
            file.write(f"classes = {json.dumps(words)}\n")
        text = (home / "client.toml").read_text().replace('"small_cnn"', '"mlp:dim=8"')
        (home / "client.toml").write_text(text.replace('"digits"', '"npz:data.npz"'))


def start(folder, run, until=None):
    """The server app of a fresh process; it dies after the round `until`."""
    homes = {100 + n: folder / "f" / "clients" / name for n, name in enumerate(SITES)}
    nodes = {node: lambda p, home=home: answer(read_client(home), p) for node, home in homes.items()}
    status = StatusFile(run, 42)
    told = status.round

    def round(record):
        told(record)
        if record["round"] == until:
            raise Killed

    status.round = round
    names = {100 + n: name for n, name in enumerate(SITES)}
    keys = {n: public_key(folder / "f" / "server" / "keys" / f"{name}.pub") for n, name in names.items()}
    serve(FakeGrid(nodes, names, keys), read_server(folder / "f" / "server"), run, status)
    status.end("finished")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`killed` holds a run whose server died after round 2; `run` is the same run, gone on to its end."""
    folder = tmp_path_factory.mktemp("deployed")
    write_federation(folder)
    with pytest.raises(Killed):
        start(folder, folder / "run", until=2)
    where = {"server": str((folder / "f" / "server").resolve())}
    write_loose(folder / "run" / "deployment.json", where)
    shutil.copytree(folder / "run", folder / "killed")
    start(folder, folder / "run")
    return folder


def shown(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_killed_server_goes_on_to_the_numbers_of_an_undisturbed_run(made):
    run = RunDir.open(made / "run")
    assert [line["round"] for line in run.lines("metrics.jsonl")] == [1, 2, 3]
    assert json.loads((made / "run" / "session.json").read_text())["session"] == 2
    plain = rehearse(made / "f")
    plain.play(None)
    found = safetensors.torch.load_file(made / "run" / "checkpoint" / "state-3.safetensors")
    for name, tensor in plain.federation.state.arrays().items():
        np.testing.assert_allclose(found[name], tensor, rtol=1e-6, err_msg=name)


def test_a_rehearsal_takes_the_precision_of_uploads_and_says_what_it_lacks(made, tmp_path):
    shutil.copytree(made / "f", tmp_path / "f")
    recipe = tmp_path / "f" / "server" / "recipe.toml"
    recipe.write_text(recipe.read_text() + 'upload = "int8"\nmax_norm = 50.0\n')
    plain, coarse = rehearse(made / "f"), rehearse(tmp_path / "f")
    assert "max_norm 50.0: of no effect in a rehearsal, which has no messages" in coarse.notes()
    states = []
    for one in (plain, coarse):
        one.play(None)
        states.append(one.federation.state.arrays())
    floats = [name for name, tensor in states[0].items() if tensor.is_floating_point()]
    assert any(not np.allclose(states[0][name], states[1][name], rtol=1e-6) for name in floats)


def test_the_run_tells_classes_and_modes_and_who_took_part(made):
    for name in ("run", "killed"):
        run = Outcome.read(made / name)
        assert run.about.modes == rehearse(made / "f").task.algorithm.modes
        assert run.class_names == rehearse(made / "f").task.class_names
        assert run.participants(1) == [0, 1]


def test_load_at_the_server_has_its_state_and_at_a_client_its_own_model(made):
    """The client's predictions are those that the server was told of in the last test, in each mode."""
    server = protofed.load(made / "run")
    assert server.clients == ("north", "south")
    assert set(server.prototypes().names) == {"ant", "bee", "cat", "dog"}
    assert list(server.metrics["round"]) == [1, 2, 3]
    x = np.zeros((1, 1, 2, 2), np.float32)
    with pytest.raises(RunError, match=r"the model of client north lies at its own site"):
        server.model("north")
    with pytest.raises(RunError, match=r"the model of client south lies at its own site"):
        server.predict(x, client="south")
    with pytest.raises(RunError, match="is not finished"):
        protofed.load(made / "killed")
    tests = RunDir.open(made / "run").lines("clients.jsonl")[-1]["acc"]
    for number, (name, words) in enumerate(SITES.items()):
        home = made / "f" / "clients" / name
        samples = np.load(home / "data.npz")
        (home / "data.npz").rename(home / "gone.npz")
        try:
            site = protofed.load(home)
            for mode, accuracies in tests.items():
                names = site.predict(samples["x_test"], mode=mode).names
                right = names == np.array(words)[samples["y_test"]]
                assert 100 * right.mean() == pytest.approx(accuracies[number])
            assert not site.model(name).training
        finally:
            (home / "gone.npz").rename(home / "data.npz")
    with pytest.raises(RunError, match="this is the folder of south; client 0 has its own"):
        site.model(0)
    (run,) = (home / "state").iterdir()
    assert protofed.load(run).predict(x).names == site.predict(x).names
    tested = run / "south" / "tested.dat"
    tested.write_bytes(tested.read_bytes()[:-60] + b"x" * 60)
    with pytest.raises(RunError, match=r"tested\.dat is damaged"):
        protofed.load(home)


def test_show(made, capsys):
    assert main(["show", str(made / "run")]) == 0
    assert "accuracy over 2 clients, round 3" in shown(capsys)
    assert main(["show", str(made / "killed")]) == 0
    assert "2 of 3 rounds done; continue with: protofed resume" in shown(capsys)


def test_status(made, capsys):
    assert main(["status", str(made / "run")]) == 0
    text = shown(capsys)
    assert "finished: 3 of 3 rounds" in text
    assert text.index("north") < text.index("south")  # as in server.toml


def test_report(made, capsys):
    page = made / "report.html"
    assert main(["report", str(made / "run"), str(made / "killed"), "-o", str(page)]) == 0
    assert "left out: samples and models lie with the clients" in capsys.readouterr().err
    assert "south: mlp:dim=8, 24 samples" in page.read_text()


def test_resume_of_a_finished_run(made, capsys):
    assert main(["resume", str(made / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 3


def test_resume_starts_the_server_again(made, monkeypatch, capsys):
    """It says the command, and passes on what that command would."""
    calls = []
    monkeypatch.setattr(serving, "run_server", lambda *args: calls.append(args[:3]))
    assert main(["resume", str(made / "killed"), "--quiet"]) == 0
    server = (made / "f" / "server").resolve()
    assert calls == [(server, made / "killed", False)]
    assert f"protofed server {server} --out {made / 'killed'}" in capsys.readouterr().err


def test_resume_where_the_server_directory_is_gone(made, tmp_path, capsys):
    shutil.copytree(made / "killed", tmp_path / "moved")
    write_loose(tmp_path / "moved" / "deployment.json", {"server": "/nowhere"})
    assert main(["resume", str(tmp_path / "moved")]) == 1
    error = capsys.readouterr().err
    assert f"protofed server DIR --out {tmp_path / 'moved'}" in error
    assert error.count("\n") == 1


def test_an_interrupted_server_says_how_to_go_on(made, monkeypatch, capsys):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "run_server", interrupted)
    assert main(["server", "somewhere", "--out", "out"]) == 130
    assert "continue with: protofed server somewhere --out out" in capsys.readouterr().err


def test_watch_a_run_that_goes_on(made, capsys):
    assert main(["watch", str(made / "run")]) == 0
    assert "finished already" in capsys.readouterr().err
    stop = threading.Event()
    with LivePage(RunDir.open(made / "killed")) as live:
        following = threading.Thread(target=follow, args=(live, stop.is_set))
        following.start()
        try:
            page = urlopen(live.url, timeout=30).read().decode()
            while not live.notes:
                stop.wait(0.1)
            data = json.loads(urlopen(live.url + "data.json", timeout=30).read())
        finally:
            stop.set()
            following.join(30)
    assert "<title>" in page
    assert data["live"]["done"] == 2
    assert "samples and models lie with the clients" in data["notes"][0]


@pytest.mark.parametrize("command", [["advise"], ["onboard"]])
def test_commands_that_need_the_samples_say_where_they_are(made, command, capsys):
    assert main([*command, str(made / "run")]) == 2
    error = capsys.readouterr().err
    assert "the samples of a deployed run lie with its clients" in error
    assert error.count("\n") == 1


def test_its_configuration_is_no_recipe_for_a_local_run(made, tmp_path, capsys):
    assert main(["run", str(made / "run" / "config.json"), "--out", str(tmp_path / "x")]) == 2
    assert "lie with its clients" in capsys.readouterr().err

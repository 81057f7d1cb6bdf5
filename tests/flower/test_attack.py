"""A stranger with the port and ca.crt wants his own code on the clients. Each of the three lines of defence
stops him alone; with none of them he gets it, so that these tests could fail."""

import subprocess

import pytest
from stranger import Attacked, bundle, start_foreign

from protofed.deploy.certificates import write_key_pair
from protofed.deploy.processes import environment, program

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
UNAUTHORIZED, NOT_FOUND = 401, 404
FIRST = 1  # any number of a run


@pytest.fixture
def attack(tmp_path):
    """Starts a federation with these defences; whatever runs is stopped at the end."""
    started = []

    def start(*defences):
        started.append(Attacked(tmp_path, defences))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize(("defence", "status"), [("door", NOT_FOUND), ("login", UNAUTHORIZED)])
def test_no_step_succeeds_against_the_door_or_the_login_alone(attack, tmp_path, defence, status):
    """He can neither look, nor put his key in a client's place, nor submit an app, nor stop a run. The
    operator can, over loopback."""
    attacked = attack(defence)
    stranger = attacked.stranger
    write_key_pair(tmp_path / "his")
    assert stranger.list_runs() == status
    assert stranger.register(tmp_path / "his.pub", "north") == status
    assert stranger.submit() == status
    assert stranger.stop(FIRST) == status
    assert attacked.operator.traffic() == {}  # which is the list of runs


@pytest.mark.slow
def test_flowers_own_commands_find_the_login(attack, tmp_path):
    """`FLWR_HOME=server/flower flwr list protofed`, as the docs say; another home has no login."""
    attack("door", "login")
    home = tmp_path / "f" / "server" / "flower"
    assert flwr_list(home)
    (home / "credentials.yaml").unlink()
    assert not flwr_list(home)


def flwr_list(home):
    command = [program("flwr"), "list", "protofed", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(home), check=False)
    return '"runs": []' in done.stdout


@pytest.mark.slow
def test_without_defences_his_code_runs_at_the_client(attack):
    """As it was: listed, submitted, and the client's private key is his."""
    attacked = attack()
    attacked.start_client()
    assert attacked.stranger.list_runs() == 200
    assert attacked.stranger.submit() == 200
    attacked.wait(lambda: attacked.loot)
    assert attacked.loot == (attacked.home / "key").read_bytes()


@pytest.mark.slow
def test_the_signature_alone_keeps_his_code_from_the_client(attack, tmp_path):
    """First an app without a signature, as the stranger can submit it; then one with a foreign signature, as
    a server that was taken over can. The client says why it refuses, and runs neither."""
    foreign = tmp_path / "foreign.fab"
    foreign.write_bytes(bundle())
    attacked = attack("signature", str(foreign))
    start_foreign(attacked, foreign.read_bytes())
    client = attacked.start_client()
    attacked.wait(lambda: "trusted entities could not verify the FAB" in " ".join(client.tail(200).split()))
    assert attacked.stranger.submit() == 200
    attacked.wait(lambda: "App verification is not supported" in " ".join(client.tail(200).split()))
    assert attacked.loot is None

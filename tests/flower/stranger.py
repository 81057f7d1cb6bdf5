"""A stranger who has nothing but the address of the public port and ca.crt, which is no secret; and the
federation that he attacks: one client, and a link with only some of its defences."""

import ssl
import time
from pathlib import Path

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.proto.control_pb2 import ListRunsRequest, RegisterNodeRequest, StartRunRequest, StopRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.supercore.control import ControlHttpClient

from protofed.deploy.init import init
from protofed.deploy.keys import public_key as read_key
from protofed.deploy.login import Operator, write_login
from protofed.deploy.private import private_folder
from protofed.deploy.processes import Program, free_port, wait_for_port
from protofed.deploy.serve import _supernode
from protofed.deploy.settings import read_client, read_server

APP = {
    "pyproject.toml": """\
[project]
name = "protofed-app"
version = "6.6.6"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "protofed"
[tool.flwr.app.components]
serverapp = "loot.app:server"
clientapp = "loot.app:client"
""",
    "loot/__init__.py": "",
    "loot/app.py": """\
import time
from pathlib import Path
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client, server = ClientApp(), ServerApp()

@client.query()
def steal(message, context):
    home = Path(context.node_config["site"]).parent
    (home / "loot").write_bytes((home / "key").read_bytes())
    return Message(RecordDict(), reply_to=message)

@server.main()
def main(grid, context):
    nodes = []
    while not nodes:
        time.sleep(0.5)
        nodes = list(grid.get_node_ids())
    grid.send_and_receive([Message(RecordDict(), n, "query") for n in nodes], timeout=60)
""",
}


class Stranger:
    """The attack, step by step. Each step returns the status of HTTP: 200 where it worked."""

    def __init__(self, port, ca):
        verify = ssl.create_default_context(cafile=ca)
        self.client = ControlHttpClient(f"https://127.0.0.1:{port}", verify=verify)
        self.bundle = bundle()

    def list_runs(self):
        return self.status(lambda: self.client.ListRuns(ListRunsRequest()))

    def register(self, public_key, name):
        request = RegisterNodeRequest(public_key=read_key(public_key), name=name)
        return self.status(lambda: self.client.RegisterNode(request))

    def submit(self):
        request = StartRunRequest(fab=Fab(content=self.bundle))
        return self.status(lambda: self.client.StartRun(request))

    def stop(self, run):
        return self.status(lambda: self.client.StopRun(StopRunRequest(run_id=run)))

    def status(self, step):
        try:
            step()
        except httpx.HTTPStatusError as error:
            return error.response.status_code
        return 200


def bundle():
    return build_fab_from_files({name: text.encode() for name, text in APP.items()})[0]


class Attacked:
    """A federation of one client. `defences` are words of weak_link.py, and "signature"."""

    def __init__(self, folder, defences):
        self.port, inside, self.programs = free_port(), free_port(), []
        init(folder / "f", ["north"], "127.0.0.1", self.port, None, insecure=False)
        self.home = folder / "f" / "clients" / "north"
        self.signature = "signature" in defences
        settings = read_server(folder / "f" / "server")
        home = private_folder(settings.home / "flower")
        write_login(settings, home, inside)
        words = [word for word in defences if word != "signature"]
        weak = Path(__file__).with_name("weak_link.py")
        command = ["python", str(weak), str(settings.home), str(inside), *words]
        link = self.start(command, folder / "link.log", home, folder)
        wait_for_port("127.0.0.1", inside, link)
        self.operator = Operator(settings, home, inside)
        self.operator.register("north", settings.home / "keys" / "north.pub")
        self.stranger = Stranger(self.port, self.home / "ca.crt")

    def start(self, command, log, home, cwd):
        self.programs.append(Program(command, log, home, cwd))
        return self.programs[-1]

    def start_client(self):
        command = _supernode(read_client(self.home))
        if not self.signature:
            at = command.index("--trusted-entities")
            del command[at : at + 2]
        return self.start(command, self.home / "supernode.log", self.home / "flower", self.home)

    @property
    def loot(self):
        path = self.home / "loot"
        return path.read_bytes() if path.exists() else None

    def wait(self, condition, seconds=150):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, [program.tail(20) for program in self.programs]
            time.sleep(0.3)

    def close(self):
        self.operator.close()
        self.stranger.client.close()
        for program in self.programs:
            program.stop()


def start_foreign(attacked, content):
    """A server that was taken over starts its own app as if it were the federation's."""
    import hashlib

    return attacked.operator.start(hashlib.sha256(content).hexdigest(), {})

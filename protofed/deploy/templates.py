"""The files that `protofed deploy init` writes; its README is in templates_readme.py.

server.toml and client.toml are examples as they stand: `filled` puts a federation's own values in."""

from __future__ import annotations

from typing import Any

import tomlkit

SERVER = """\
# The server of this federation. Start it with: protofed server server --out runs/first
host = "127.0.0.1"      # how clients reach it; the certificate is made for this name
listen = "127.0.0.1"   # address of the public port, which lets clients' calls through and nothing else
port = 9443
clients = []  # who may take part; their order gives their numbers
# classes = ["cat", "dog"]  # the common class names; default: all that the clients bring, sorted
recipe = "recipe.toml"
insecure = false
join_timeout = 600     # seconds to wait for the clients before the first round
# metrics_port = 9464  # metrics in Prometheus' text format, on 127.0.0.1 only: /metrics
"""

RECIPE = """\
# What is trained: any setting of `protofed run --help`, except data, partition and models, which
# each client chooses for itself.
method = "fedproto"
rounds = 30
epochs = 5
batch_size = 10
lr = 0.05
eval_every = 5
# secure = true          # secure sums: the server sees the sum of the uploads, none of them alone
# secure_holders = 3     # fewest clients in a sum, and fewest holders of a class

[transport]
round_timeout = 120    # seconds to wait for the replies of a leg: more than the slowest client trains
min_clients = 2        # with fewer replies the leg is repeated, then skipped
too_few = "repeat"
upload = "full"        # or fp16, int8
"""

CLIENT = """\
# One client of the federation. Start it with `protofed client` and the name of this directory.
name = ""
server = "127.0.0.1:9443"
model = "small_cnn"    # `protofed list models`, or module:my_net.py:Net
data = "digits"        # `protofed list data`, or npz:my_data.npz
# classes = ["cat", "dog"]  # names by this client's own numbering; default: as the data says
# imports = ["my_method.py"]  # Python files of yours that this client may run: a method, data, models
# keep_runs = 3        # runs whose states are kept in state/; a new run removes older ones
# secure = true        # take part only in runs with secure sums; needs peers/NAME.pub of all other clients
# partition = "iid"    # to try things out: one part of a common data set
# parts = 3
# part = 0
insecure = false
"""

APP = {
    "pyproject.toml": """\
[project]
name = "protofed-app"
version = "1.0.0"
description = "Federated learning with class prototypes"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "protofed"

[tool.flwr.app.components]
serverapp = "protofed_app.server:app"
clientapp = "protofed_app.client:app"

[tool.flwr.app.config]
server = ""
run = ""
measure = ""
owner = 0
""",
    "protofed_app/__init__.py": "",
    "protofed_app/server.py": "from protofed.deploy.server_app import app as found\n\napp = found\n",
    "protofed_app/client.py": "from protofed.deploy.client_app import app as found\n\napp = found\n",
}

UNIT_SERVER = """\
[Unit]
Description=protofed server
Wants=network-online.target
After=network-online.target

[Service]
WorkingDirectory=/etc/protofed
ExecStart={program} server server --out /var/lib/protofed/run
User=protofed
UMask=0077
NoNewPrivileges=true
PrivateTmp=true
Restart=on-failure
RestartSec=10
RestartPreventExitStatus=2

[Install]
WantedBy=multi-user.target
"""

UNIT_CLIENT = """\
[Unit]
Description=protofed client
Wants=network-online.target
After=network-online.target

[Service]
WorkingDirectory=/etc/protofed
ExecStart={program} client client
User=protofed
UMask=0077
NoNewPrivileges=true
PrivateTmp=true
Restart=always
RestartSec=10
RestartPreventExitStatus=2

[Install]
WantedBy=multi-user.target
"""


def filled(text: str, values: dict[str, Any]) -> str:
    """A settings file with these values in it; comments and order stay."""
    document = tomlkit.parse(text)
    document.update(values)
    return tomlkit.dumps(document)

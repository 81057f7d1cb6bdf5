"""The texts that `protofed deploy init` writes."""

from __future__ import annotations

SERVER = """\
# The server of this federation. Start it with: protofed server server
host = "{host}"        # how clients reach it; the certificate is made for this name
listen = "{listen}"   # filter /v1/control and /v1/runtime before you open this port (see README.md)
port = {port}
clients = [{clients}]  # who may take part; their order gives their numbers
# classes = ["cat", "dog"]  # the common class names; default: all that the clients bring, sorted
recipe = "recipe.toml"
insecure = {insecure}
join_timeout = 600     # seconds to wait for the clients before the first round
"""

RECIPE = """\
# What is trained: any setting of `protofed run --help`, except data, partition and models, which
# each client chooses for itself.
method = "fedproto"
rounds = 20
epochs = 1
batch_size = 8
lr = 0.01
eval_every = 5

[transport]
round_timeout = 300    # seconds to wait for the replies of a leg
min_clients = 2        # with fewer replies the leg is repeated, then skipped
too_few = "repeat"
upload = "full"        # or fp16, int8
"""

CLIENT = """\
# One client of the federation. Start it with: protofed client clients/{name}
name = "{name}"
server = "{address}"
model = "small_cnn"    # `protofed list models`, or module:my_net.py:Net
data = "digits"        # `protofed list data`, or npz:my_data.npz
# classes = ["cat", "dog"]  # names by this client's own numbering; default: as the data says
# partition = "iid"    # to try things out: one part of a common data set
# parts = 3
# part = 0
insecure = {insecure}
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

README = """\
# A federation

Every host needs Python and `pip install 'protofed[flower]'` in the same version.

1. Copy `server/` to the server, and each directory of `clients/` to its host. `server/certificates/ca.key`
   signs certificates: keep it offline. `clients/*/key` is private to its client.
2. Edit `server/recipe.toml` (method, rounds) and each `client.toml` (model, data, class names).
3. At the server ({host}):

       protofed server server --out runs/first

4. At each client:

       protofed client {first}

   It keeps trying until the server is there, and again after every loss of the connection.
5. Watch, at the server:

       protofed status runs/first

A server that was killed goes on from its last round with the same command. Clients keep their models in
`state/` beside client.toml: do not delete it before the run is over.

## Firewall

Clients need port {port} of the server, outwards; nothing connects to a client. The keys protect the part
of that port which clients use (`/v1/fleet`). They do **not** protect `/v1/control` and `/v1/runtime`: whoever
reaches those and has `ca.crt` can submit code to all machines of the federation. Put a proxy in front that
lets only `/v1/fleet` through from outside, or restrict the port to the addresses of the clients.

`systemd/` has units for both sides (Python here: {python}).
"""

UNIT_SERVER = """\
[Unit]
Description=protofed server
After=network-online.target

[Service]
WorkingDirectory=/etc/protofed
ExecStart={program} server server --out /var/lib/protofed/run
Restart=on-failure
RestartSec=10

[Install]
WantedBy=multi-user.target
"""

UNIT_CLIENT = """\
[Unit]
Description=protofed client
After=network-online.target

[Service]
WorkingDirectory=/etc/protofed
ExecStart={program} client client
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
"""

"""The README that `protofed deploy init` writes for the people who run the federation."""

from __future__ import annotations

README = """\
# A federation: {names}

One server ({host}, port {port}) and its clients. `protofed deploy init` made this directory; keep it
where you administer the federation. What each host needs:

| host | what to copy there | what must stay secret |
|---|---|---|
| server | `server/` | `server/certificates/server.key` |
| client NAME | `clients/NAME/` | `clients/NAME/key` |
| none | `offline/` signs certificates and the app: move it to a medium that is not connected | all of it |

## Install, on every host

Python 3.11 or newer, and the same version of protofed everywhere (here: {version}):

    python3 -m venv venv
    . venv/bin/activate
    pip install 'protofed[deploy]'
    protofed --version

## Set up

1. `server/recipe.toml`: method, rounds, local training, and `[transport]` (timeout, quorum, precision).
2. `clients/NAME/client.toml`: model, data and class names of that client. Only the names of classes are
   agreed: each client may have its own classes in its own numbering.
3. Try all of it in one process, here, if the clients' data (or some in its place) is at hand:

       protofed deploy rehearse . --out runs/rehearsal

4. Copy, for example:

       rsync -a server/ {host}:server/
       rsync -a clients/{first}/ HOST:{first}/

{keys}## Run

At the server ({host}), in the directory that holds `server/`:

    protofed server server --out runs/first{flag}

At each client, in the directory that holds its own (here `{first}/`):

    protofed client {first}{flag}

The order does not matter. A client keeps trying until the server is there, and again after every loss of
the connection; end it with Ctrl-C. The server waits `join_timeout` seconds (server.toml) for all clients,
and ends with the last round. Each run needs a new `--out`; clients may stay connected for the next one.

Watch, at the server:

    protofed status runs/first
    protofed watch runs/first --port 8000
    protofed report runs/first

(`watch` serves 127.0.0.1 only; from your desk: `ssh -L 8000:127.0.0.1:8000 {host}`.)

If the server stops, by Ctrl-C or otherwise, the same command goes on after the last whole round, with
clients as they are.

`systemd/` has a unit for each side. They run as the user `protofed` in /etc/protofed, which holds `server/`,
or the client's directory under the name `client/`; the server writes to /var/lib/protofed. Correct the path
of the program, and for the server `--out`, which each run needs anew. Then, for example at the server:

    useradd --system protofed
    mkdir -p /var/lib/protofed
    chown -R protofed /etc/protofed /var/lib/protofed
    cp protofed-server.service /etc/systemd/system/
    systemctl enable --now protofed-server

A client keeps its model in `state/` beside client.toml, one directory for each run, with the states of the
last two or three rounds. Only the last three runs (`keep_runs`) are kept: a new run removes older ones. Do
not delete the directory of a run that is to go on.

{security}
## Add a client later

Here, where this directory was made:

    protofed deploy add . west

Edit `clients/west/client.toml` and copy `clients/west/` to its host. Copy `server/server.toml` and
`server/keys/west.pub` to the server. The client takes part from the next run on: a run that has begun keeps
the clients it began with.

## Remove a client

Take its name out of `clients` in server.toml, here and at the server, and start the server again. From then
on its key is refused, also by a run that goes on: that run counts it as missing, so its `min_clients` must
be within reach of the others. What the client contributed so far remains in the prototypes and weights; to
be rid of that too, start a new run.

## When something is wrong

| what you see | what to look at |
|---|---|
| server: waiting for NAME | `supernode.log` in the client's directory |
| client: not connected, again and again | the line says why: nothing answers, certificate, clock, key |
| client: refused by the server | correct what the line names; the client is asked again by itself |
| refused: its key is registered as … | `name` in client.toml: this key was made for another name |
| refused: … is not what it was | model, data or classes changed during a run: start a new one |
| certificate verify failed | `server` in client.toml must name {host}, and `ca.crt` be from here |
| the server app died | `superlink.log` in the run directory |
"""

MADE_HERE = (
    "All of them were made here, which is for rehearsals: whoever made this directory has seen every private "
    "key. For a real federation use `deploy init --own-keys`, or remove `key` and `key.pub` of each client "
    "and its file in `server/keys/`, and let it join."
)

OWN_KEYS = """\
## Keys of the clients

{how} A client makes its pair on its own machine, in the directory
that holds its own (here `{first}/`); the private half never leaves it:

    protofed deploy join {first}

It sends `key.pub`, and tells the fingerprint another way, for example by telephone. Enter it here, compare
the fingerprint, and copy `server/keys/` to the server:

    protofed deploy accept . {first} key.pub

A name that has a key gets no other one, and a key no second name. Where the recipe says `secure = true`, each
client needs the keys of all others too, in its own `peers/`: `accept` puts them into the folders under
`clients/`.

"""

SECURE = """\
## Firewall

Clients connect outwards to port {port} of the server (TCP, TLS). Nothing ever connects to a client. The
port passes the calls that clients make (`/v1/fleet`), which their keys protect, and nothing else: runs are
submitted and keys registered over another port, on loopback alone, with a login that only the user of the
server can read. Clients run only the app that is signed with `offline/app.key`. Still, where the clients'
addresses are known, open the port to them alone:

    ufw allow from CLIENT-ADDRESS to any port {port} proto tcp
    ufw deny {port}/tcp

## Certificates and keys

- The server's certificate is for {host}, 127.0.0.1 and localhost, until **{server_ends}**.
  `protofed server` warns in the last 30 days. Renew it here, where `ca.key` is:

      protofed deploy renew .

  Copy `server/certificates/server.crt` and `server.key` to the server, and start it again. Clients need
  nothing new.
- The CA (`ca.crt`) is valid until {ca_ends}. Then, or if others have seen `ca.key`, make a new federation.
- `offline/ca.key` signs certificates: `deploy renew` needs it. `offline/app.key` signs the app that clients
  run: `deploy sign` needs it. Keep both off the server and off the network.
- If others have seen a client's `key`, remove `key` and `key.pub` at the client and `server/keys/NAME.pub`
  here, and let it join again, as above. From its next start on the server refuses the old key. A run that has
  begun knows its clients by the keys of its beginning and refuses the new one: start a new run.

"""

INSECURE = """\
## No security

This federation was made with `--insecure`: no TLS, no keys. Anybody on the network can read, change and
send messages, and submit code to all machines. Use it on one machine or in a closed network only, and open
port {port} to nobody else.

"""

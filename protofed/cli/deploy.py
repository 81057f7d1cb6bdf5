"""`protofed deploy`, `server`, `client` and `status`: federations on real machines."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from ..core.errors import ConfigError, EngineError, RunError
from ..runs.modes import title
from .output import make_console, tell


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare `deploy` with its verbs, `server`, `client` and `status`."""
    _add_deploy(commands)
    server = commands.add_parser("server", allow_abbrev=False)
    server.add_argument("folder", type=Path, metavar="DIR", help="the directory with server.toml")
    server.add_argument("--out", type=Path, required=True, help="run directory; an interrupted run goes on")
    server.set_defaults(function=server_command)
    client = commands.add_parser("client", allow_abbrev=False)
    client.add_argument("folder", type=Path, metavar="DIR", help="the directory with client.toml")
    client.set_defaults(function=client_command)
    for parser in (server, client):
        parser.add_argument("--insecure", action="store_true", help="confirm that there is no TLS and no key")
    status = commands.add_parser("status", allow_abbrev=False)
    status.add_argument("run", type=Path, metavar="RUN", help="run directory")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(function=status_command)


def _add_deploy(commands: Any) -> None:
    deploy = commands.add_parser("deploy", allow_abbrev=False)
    verbs = deploy.add_subparsers(
        dest="verb", metavar="init|join|accept|add|renew|sign|rehearse|measure", required=True
    )
    init = verbs.add_parser("init", help="write everything for a federation", allow_abbrev=False)
    init.add_argument("folder", type=Path, metavar="DIR", help="a new directory")
    init.add_argument("--clients", required=True, metavar="A,B,C", help="names of the clients")
    init.add_argument("--host", default="127.0.0.1", help="name or address of the server")
    init.add_argument("--port", type=int, default=9443, help="port of the server (default: 9443)")
    init.add_argument("--recipe", type=Path, help="a recipe to copy (default: FedProto, 30 rounds)")
    init.add_argument("--insecure", action="store_true", help="without certificates and keys")
    add = verbs.add_parser("add", help="put a further client into a federation", allow_abbrev=False)
    add.add_argument("folder", type=Path, metavar="DIR", help="the directory of `deploy init`")
    add.add_argument("name", metavar="NAME", help="name of the client")
    for verb in (init, add):
        verb.add_argument(
            "--own-keys", action="store_true", help="clients make their keys themselves, with `deploy join`"
        )
    join = verbs.add_parser("join", help="at a client: make its key pair", allow_abbrev=False)
    join.add_argument("folder", type=Path, metavar="DIR", help="the directory with client.toml")
    accept = verbs.add_parser("accept", help="enter the public key of a client", allow_abbrev=False)
    accept.add_argument("folder", type=Path, metavar="DIR", help="the directory of `deploy init`, or server/")
    accept.add_argument("name", metavar="NAME", help="name of the client")
    accept.add_argument("key", type=Path, metavar="KEY.pub", help="the file that it sent")
    renew = verbs.add_parser("renew", help="give the server a new certificate", allow_abbrev=False)
    renew.add_argument(
        "folder", type=Path, metavar="DIR", help="the directory of `deploy init`, or its server/"
    )
    sign = verbs.add_parser("sign", help="sign the app that clients run", allow_abbrev=False)
    sign.add_argument("folder", type=Path, metavar="DIR", help="the directory of `deploy init`")
    rehearse = verbs.add_parser("rehearse", help="the same federation in this process", allow_abbrev=False)
    rehearse.add_argument("folder", type=Path, metavar="DIR", help="the directory of `deploy init`")
    rehearse.add_argument("--out", type=Path, required=True, help="run directory")
    measure = verbs.add_parser("measure", help="ms and bytes of a round on the way", allow_abbrev=False)
    measure.add_argument("--deployed", action="store_true", help="over Flower's programs, TLS and keys")
    measure.add_argument("--clients", type=int, default=3, help="clients that answer (default: 3)")
    measure.add_argument(
        "--accuracy", action="store_true", help="what fp16 and int8 uploads cost in accuracy"
    )
    measure.add_argument("--secure", action="store_true", help="what secure sums cost in bytes and seconds")
    measure.add_argument(
        "--rounds", type=int, help="rounds of each kind (default: 5 in the simulation, 40 with --accuracy)"
    )
    measure.add_argument("--json", action="store_true", help="print JSON")
    deploy.set_defaults(function=deploy_command)


def deploy_command(args: argparse.Namespace) -> int:
    """Carry out the verb of `protofed deploy`."""
    _need_flower()
    if args.verb == "rehearse":
        return _rehearse(args)
    if args.verb == "measure":
        return _measure(args)
    if args.verb in ("join", "accept"):
        return _exchange_key(args)
    if args.verb in ("add", "renew", "sign"):
        return _change(args)
    from ..deploy.init import init

    names = [name.strip() for name in args.clients.split(",") if name.strip()]
    if not 0 < args.port < 65536:
        raise ConfigError(f"--port: expected 1 to 65535, got {args.port}")
    init(args.folder, names, args.host, args.port, args.recipe, args.insecure, args.own_keys)
    _say(f"wrote {args.folder}; read {args.folder / 'README.md'}")
    return 0


def _change(args: argparse.Namespace) -> int:
    """A further client, a new certificate or signature: what was written, and where it belongs."""
    from ..deploy.init import add, renew, sign

    if args.verb == "renew":
        ends = renew(args.folder)
        _say(f"the new certificate is valid until {ends}; copy server.crt and server.key to the server")
        return 0
    if args.verb == "sign":
        sign(args.folder)
        _say("signed the app; copy server/app/ to the server and each client's trusted.yaml to its host")
        return 0
    add(args.folder, args.name, args.own_keys)
    _say(f"wrote {args.folder / 'clients' / args.name}: copy it to its host")
    _say(f"copy server.toml and keys/{args.name}.pub to the server; the next run begins with this client too")
    return 0


def _exchange_key(args: argparse.Namespace) -> int:
    """The two ends of one way: a client makes its key, the server's side enters the public half."""
    from ..deploy.keys import accept, join

    if args.verb == "join":
        _say(f"made the key {join(args.folder)}")
        _say(f"send {args.folder / 'key.pub'} to the federation, and tell them this fingerprint another way")
        return 0
    _say(
        f"entered {accept(args.folder, args.name, args.key)} as {args.name}: the same as the client told you?"
    )
    _say(f"copy keys/{args.name}.pub to the server")
    return 0


def server_command(args: argparse.Namespace) -> int:
    """Serve until the last round is done."""
    _need_flower()
    _serve(args.folder, args.out, args.insecure)
    _say(f"finished; see `protofed show {args.out}`")
    return 0


def is_deployed(run: Path) -> bool:
    """Whether a run directory is that of a federation between machines."""
    from ..runs.seals import there

    return (run / "deployment.json").exists() or (run.is_dir() and there(run, "agreement.json"))


def resume_deployed(run: Path) -> None:
    """`protofed resume` of a deployed run: the server again, clients as they are."""
    _need_flower()
    from ..deploy.settings import read_server
    from ..runs.loose import read_loose

    if not (run / "deployment.json").exists():
        raise RunError(
            f"{run}: deployment.json is missing, which says where its server is; go on with: protofed server "
            f"DIR --out {run}"
        )
    folder = Path(read_loose(run / "deployment.json")["server"])
    if not (folder / "server.toml").exists():
        raise RunError(
            f"{run} was deployed from {folder}, which has no server.toml now; go on where its server is: "
            f"protofed server DIR --out {run}"
        )
    insecure = read_server(folder).insecure
    _say(f"a deployed run goes on with its clients: {_command(folder, run, insecure)}")
    _serve(folder, run, insecure)


def _serve(folder: Path, out: Path, insecure: bool) -> None:
    """An interruption says how to go on."""
    from ..deploy.serve import run_server

    try:
        run_server(folder, out, insecure, _say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"continue with: {_command(folder, out, insecure)}") from None


def _command(folder: Path, out: Path, insecure: bool) -> str:
    return f"protofed server {folder} --out {out}{' --insecure' if insecure else ''}"


def client_command(args: argparse.Namespace) -> int:
    """Take part until the server is done."""
    _need_flower()
    from ..deploy.serve import run_client

    run_client(args.folder, args.insecure, _say)
    return 0


def status_command(args: argparse.Namespace) -> int:
    """Print who is connected and how far the run is."""
    from ..deploy.status import overview

    if not (args.run / "status.json").exists():
        raise RunError(
            f"{args.run} is not the directory of a deployed run: it has no status.json (a local run: "
            f"protofed show {args.run})"
        )
    found = overview(args.run)
    if args.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        _print(found)
    return 0


def _rehearse(args: argparse.Namespace) -> int:
    from .. import experiment as experiments
    from ..deploy.rehearse import rehearse
    from ..runs.directory import RunDir

    experiment = rehearse(args.folder)
    for remark in experiment.remarks:
        _say(f"warning: {remark}")
    experiments.carry_out(experiment, RunDir.create(args.out, experiment.config.to_dict()))
    _say(f"finished; see `protofed show {args.out}`")
    return 0


def _measure(args: argparse.Namespace) -> int:
    if args.clients < 1 or (args.rounds is not None and args.rounds < 1):
        raise ConfigError("deploy measure: --clients and --rounds must be at least 1")
    if args.accuracy:
        return _measure_accuracy(args)
    if args.secure:
        return _measure_secure(args)
    from ..deploy.measure import ROUNDS, on_deployment, on_simulation

    if args.deployed:
        found = on_deployment(args.clients, _say)
    else:
        found = on_simulation(args.clients, args.rounds or ROUNDS)
    where = "Flower's programs on 127.0.0.1" if args.deployed else "Flower's simulation"
    sizes = ["payload_bytes", "message_up", "message_down", *(["wire_up", "wire_down"] * args.deployed)]
    rows = [
        [
            *(one["payload"], one["upload"], f"{one['ms']:.0f}", f"{one['least_ms']:.0f}"),
            *([f"{one['cpu_seconds']:.2f}"] * args.deployed),
            *(f"{one[key]:,}" for key in sizes),
        ]
        for one in found
    ]
    times = ["ms", "least ms", *(["CPU s"] * args.deployed)]
    headings = ["payload", "upload", *times, *(key.replace("_", " ") for key in sizes)]
    _table(args, f"a round with {args.clients} clients over {where}", headings, rows, found)
    return 0


def _measure_accuracy(args: argparse.Namespace) -> int:
    from ..deploy.precision import ROUNDS, SEEDS, SETTINGS, cost_of_precision

    rounds = args.rounds or ROUNDS
    found = cost_of_precision(rounds, _say)
    rows = []
    for one in found:
        spread = [f"{one[key]['mean']:.2f} ± {one[key]['std']:.2f}" for key in ("accuracy", "cost")]
        rows.append([one["method"], one["upload"], *spread, f"{one['message_up']:,}"])
    setting = ", ".join(f"{key} {value}" for key, value in SETTINGS.items())
    headings = ["method", "upload", "accuracy %", "cost in points", "bytes of an upload"]
    _table(args, f"{setting}, rounds {rounds}, {SEEDS} seeds", headings, rows, found)
    return 0


def _measure_secure(args: argparse.Namespace) -> int:
    from ..deploy.measure_secure import ROUNDS, SETTINGS, cost_of_secure_sums

    rounds = args.rounds or ROUNDS
    found = cost_of_secure_sums(args.clients, rounds)
    sizes = ["payload_bytes", "message_up", "message_down"]
    rows = [
        [one["method"], one["uploads"], f"{one['seconds']:.2f}", *(f"{one[key]:,}" for key in sizes)]
        for one in found
    ]
    setting = ", ".join(f"{key} {value}" for key, value in SETTINGS.items())
    headings = ["method", "uploads", "s", *(key.replace("_", " ") for key in sizes)]
    _table(args, f"a round with {args.clients} clients in this process; {setting}", headings, rows, found)
    return 0


def _table(
    args: argparse.Namespace, title: str, headings: list[str], rows: list[list[str]], found: list[Any]
) -> None:
    """The table, or with --json what is in it."""
    if args.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        short = heading.replace(" ", "\n", 1)  # figures do not wrap, so headings must not make them wide
        table.add_column(short, justify="right" if number > 1 else "left", no_wrap=number > 1)
    for row in rows:
        table.add_row(*row)
    make_console().print(table)


def _print(found: dict[str, Any]) -> None:
    console = make_console()
    payload, wire = found["payload_bytes"], found["message_bytes"]
    accuracy = ", ".join(f"{title(mode)} {value:.2f} %" for mode, value in found["accuracy"].items())
    console.print(f"{found['state']}: {found['rounds_done']} of {found.get('rounds', '?')} rounds")
    console.print(f"last accuracy: {accuracy or 'not tested yet'}", highlight=False)
    if found.get("privacy"):
        console.print(found["privacy"], highlight=False, markup=False)
    console.print(
        f"payload {payload['up']:,} bytes up, {payload['down']:,} down; "
        f"messages {wire['up']:,} bytes up, {wire['down']:,} down",
        highlight=False,
    )
    on_wire = found["wire_bytes"]
    if on_wire["up"]:
        console.print(
            f"on the wire, all included: {on_wire['up']:,} bytes up, {on_wire['down']:,} down",
            highlight=False,
        )
    table = Table()
    for column in ("client", "model", "samples", "last round", "last seen", "failures", "problem"):
        table.add_column(column)
    for name, one in found.get("clients", {}).items():
        ago = f"{time.time() - one['seen']:.0f} s ago" if "seen" in one else "never"
        seen = "missing" if name in found.get("missing", []) else ago
        values = [one.get("model", ""), one.get("samples", ""), one.get("round", ""), seen]
        table.add_row(name, *map(str, values), str(one.get("failures", 0)), one.get("problem") or "")
    console.print(table)
    for reason in found.get("refused", []):
        console.print(f"refused: {reason}", highlight=False)


def _need_flower() -> None:
    if importlib.util.find_spec("flwr") is None:
        raise EngineError("deployments need Flower: pip install 'protofed[deploy]'")


def _say(text: str) -> None:
    tell(f"protofed: {text}")
    sys.stderr.flush()

"""`protofed server` and `protofed client`: thin wrappers over Flower's own programs."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, DamageError, EngineError, RunError
from ..runs.directory import RunDir
from ..runs.files import write_atomic
from ..runs.loose import DEPLOYMENT, read_loose, write_loose
from ..runs.modes import title
from ..runs.privacy_spent import spent_text
from ..runs.records import RoundRecord, scores_of
from ..runs.seals import there
from .audit import Audit
from .certificates import days_left
from .diagnosis import why_not
from .keys import client_key
from .login import Operator, write_login
from .metrics import metrics_page
from .notices import Notices
from .private import only_for_owner, private_folder
from .processes import Program, flower_values, free_port, listens, wait_for_port
from .settings import ClientSettings, ServerSettings, read_client, read_server
from .signing import TRUSTED, check_trusted, read_app
from .status import alive, read_status

PREDECESSOR_SECONDS = 60
WARN_DAYS = 30
PAUSE_SECONDS = 5  # before a client's program is started again
log = logging.getLogger("protofed")
Say = Callable[[str], None]


def run_server(folder: Path, out: Path, insecure: bool, say: Say, measure: str = "") -> None:
    """Start Flower's SuperLink, register the clients' keys, submit the run, wait for its end.

    With `measure` a payload is sent back and forth instead: see measure.py."""
    only_for_owner()
    settings = read_server(folder)
    out = out.resolve()
    _check_out(out)
    _check_security(settings.insecure, insecure, "server.toml", say)
    audit = Audit(settings.home, out.name)
    with audit.server(), metrics_page(out, settings.metrics_port) if settings.metrics_port else nullcontext():
        _serve(settings, out, measure, say, audit)


def _serve(settings: ServerSettings, out: Path, measure: str, say: Say, audit: Audit) -> None:
    home = settings.home / "flower"
    app = read_app(settings.home, settings.insecure)
    _wait_for_predecessor(settings, out)
    private_folder(home)
    if not settings.insecure:
        _check_certificate(settings, say)
        _forget_withdrawn_keys(settings, home, audit)
    inside = free_port()
    write_login(settings, home, inside)
    command = ["python", "-P", "-m", "protofed.deploy.superlink", str(settings.home), str(inside)]
    link = Program(command, out / "superlink.log", home, settings.home)
    try:
        wait_for_port("127.0.0.1", inside, link)
        say(f"listening on {settings.listen}:{settings.port}")
        operator = Operator(settings, home, inside)
        if not settings.insecure:
            _register(settings, home, operator, audit)
        _note_deployment(settings, out)
        _submit(settings, out, operator, app.hash, measure)
        try:
            _watch(out, link, say)
        finally:
            _count_traffic(operator, out)
            operator.close()
    finally:
        link.stop()


def run_client(folder: Path, insecure: bool, say: Say, once: bool = False) -> None:
    """Run Flower's SuperNode, and start it again when it ends: after a lost connection the server refuses
    it until the old connection has expired, about 20 s."""
    only_for_owner()
    settings = read_client(folder)
    _check_security(settings.insecure, insecure, "client.toml", say)
    notices = Notices(settings.home)
    while True:
        node = start_client(settings)
        say(f"client {settings.name}: connecting to {settings.server}")
        try:
            while (code := node.process.poll()) is None:
                for line in notices.new():
                    say(f"client {settings.name}: {line}")
                time.sleep(0.5)
        finally:
            node.stop()
        if once:
            raise EngineError(f"flower-supernode ended with code {code}: {node.tail()}")
        say(f"client {settings.name}: not connected: {why_not(settings)}; see {node.log}; it keeps trying")
        time.sleep(PAUSE_SECONDS)


def start_client(settings: ClientSettings) -> Program:
    """Flower's SuperNode for this client."""
    home = private_folder(settings.home / "flower")
    private_folder(settings.home / settings.state)
    return Program(_supernode(settings), settings.home / "supernode.log", home, settings.home)


def _wait_for_predecessor(settings: ServerSettings, out: Path) -> None:
    """A server that was killed needs some seconds until all of its processes are gone."""
    end = time.monotonic() + PREDECESSOR_SECONDS
    while True:
        status = _if_whole(read_status, out)
        busy = listens("127.0.0.1", settings.port)
        working = status is not None and alive(int(status["pid"]))
        if not busy and not working:
            return
        if time.monotonic() > end:
            what = f"process {status['pid']} works on {out}" if status and working else "something listens"
            raise RunError(f"port {settings.port}: {what}; stop it, or choose another port")
        time.sleep(0.5)


def _check_out(out: Path) -> None:
    if there(out, "summary.json"):
        raise RunError(f"{out} holds a finished run; choose another --out")
    begun = RunDir(out).checkpoints.exist or not (out / "deployment.json").exists()
    if there(out, "config.json") and not there(out, "agreement.json") and begun:
        raise RunError(f"{out} holds a run that was not deployed; choose another --out")
    out.mkdir(parents=True, exist_ok=True)


def _check_security(configured: bool, asked: bool, file: str, say: Say) -> None:
    if configured and not asked:
        raise ConfigError(f"{file} says insecure = true; confirm it with --insecure, or set it to false")
    if asked and not configured:
        raise ConfigError(f"--insecure: {file} says insecure = false; change it there too")
    if configured:
        say("warning: no TLS and no keys: anybody on the network can read, change and send messages")


def _supernode(settings: ClientSettings) -> list[str]:
    command = [
        "python",
        "-P",
        "-m",
        "protofed.deploy.supernode",
        "--superlink",
        settings.server,
        "--port",
        str(free_port()),
    ]
    if settings.preload and sys.platform == "linux":
        command += ["--isolation", "process"]  # see supernode.py
    command += ["--node-config", flower_values({"site": str(settings.home / "client.toml")})]
    if settings.insecure:
        return [*command, "--insecure"]
    command += ["--root-certificates", str(_file(settings.home / "ca.crt"))]
    command += ["--trusted-entities", str(check_trusted(settings.home / TRUSTED))]
    if not (settings.home / "key").exists():
        raise ConfigError(f"{settings.home} has no key yet; make it: protofed deploy join {settings.home}")
    return [*command, "--auth-supernode-private-key", str(settings.home / "key")]


def _file(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"{path} is missing; `protofed deploy init` writes it")
    return path


def _check_certificate(settings: ServerSettings, say: Say) -> None:
    left = days_left(settings.home / "certificates" / "server.crt")
    renew = f"renew it with: protofed deploy renew {settings.home}"
    if left < 0:
        raise ConfigError(f"the server's certificate has expired; {renew}")
    if left < WARN_DAYS:
        say(f"warning: the server's certificate expires in {left} days; {renew}")


def _forget_withdrawn_keys(settings: ServerSettings, home: Path, audit: Audit) -> None:
    """Flower keeps the keys that were registered once. If a client left server.toml, or has a new key, its
    database is begun afresh: no run needs it once its server has stopped."""
    listed = {name: client_key(settings, name).read_bytes() for name in settings.clients}
    markers = {marker.name.removeprefix("registered-"): marker for marker in home.glob("registered-*")}
    withdrawn = [name for name, marker in markers.items() if listed.get(name) != marker.read_bytes()]
    if withdrawn:
        audit.note("keys withdrawn", clients=withdrawn)
        for path in [*markers.values(), *home.glob("state.db*")]:
            path.unlink()


def _register(settings: ServerSettings, home: Path, operator: Operator, audit: Audit) -> None:
    """Keys of an earlier start are in Flower's database already."""
    for name in settings.clients:
        key = client_key(settings, name)
        marker = home / f"registered-{name}"
        if marker.exists() and marker.read_bytes() == key.read_bytes() and (home / "state.db").exists():
            continue
        operator.register(name, key)
        audit.note("key registered", client=name)
        write_atomic(marker, key.read_bytes())


def _note_deployment(settings: ServerSettings, out: Path) -> None:
    """Where the server of the run is, and a mark that its other notes carry: see runs/loose.py."""
    path = out / DEPLOYMENT
    known = (_if_whole(read_loose, path) or {}) if path.exists() else {}
    mark = known.get("mark") or secrets.token_hex(8)
    write_loose(path, {"server": str(settings.home), "mark": mark})


def _submit(settings: ServerSettings, out: Path, operator: Operator, app: str, measure: str) -> None:
    _note_traffic(out, {})
    (out / "status.json").unlink(missing_ok=True)
    values = {"server": str(settings.home), "run": str(out), "measure": measure}
    operator.start(app, {**values, "owner": os.getpid()})


def _count_traffic(operator: Operator, out: Path) -> None:
    """Flower's own count of the bytes on the wire, for `protofed status`. A restarted run has several."""
    try:
        _note_traffic(out, operator.traffic())
    except EngineError as error:
        log.warning("Flower's count of the traffic is missing: %s", error)


def _note_traffic(out: Path, traffic: dict[str, Any]) -> None:
    """Bring traffic.json up to date for all starts of this run; a server that was killed had counted
    nothing, so its place is kept."""
    status, path = _if_whole(read_status, out), out / "traffic.json"
    known = (_if_whole(read_loose, path) or {}) if path.exists() else {}
    if status is not None:
        known.setdefault(status["flower_run"], {"inbound-bytes": 0, "outbound-bytes": 0})
    if known:
        write_loose(path, {run: traffic.get(run, count) for run, count in known.items()})


def _if_whole(read: Callable[[Path], Any], path: Path, quiet: bool = False) -> Any:
    """A note of an earlier start, which a damaged file does not keep from the next: None, with a warning."""
    try:
        return read(path)
    except DamageError as error:
        if not quiet:
            log.warning("%s", error)
        return None


def _watch(out: Path, link: Program, say: Say) -> None:
    """Tell rounds as they end; return when the run is finished, raise when it failed."""
    told, waiting, started = len(RunDir(out).lines("metrics.jsonl")), "", time.monotonic()
    status: dict[str, Any] | None = None
    if told:
        say(f"goes on after round {told}")
    while True:
        status = _if_whole(read_status, out, quiet=True) or status  # its writer makes it whole again
        if status is None:
            if time.monotonic() - started > 300:
                raise EngineError(f"Flower did not start the server app within 300 s; see {link.log}")
        else:
            lines = RunDir(out).lines("metrics.jsonl")
            for line in lines[told:]:
                say(_line(line, status))
            told = len(lines)  # fewer than before where rounds after the last checkpoint are repeated
            missing = ", ".join(status["missing"])
            if missing != waiting:
                waiting = missing
                say(f"waiting for {missing}" if missing else "all clients are there")
            if status["state"] == "finished":
                return
            if status["state"].startswith("failed"):
                raise EngineError(f"the run {status['state']}")
            if not alive(int(status["pid"])):
                raise EngineError(f"the server app died; see {link.log}; start the server again to go on")
        if link.process.poll() is not None:
            raise EngineError(f"Flower's SuperLink ended; see {link.log}: {link.tail()}")
        time.sleep(0.5)


def _line(record: RoundRecord, status: dict[str, object]) -> str:
    shown = "".join(f", {title(mode)} {value['mean']:.1f} %" for mode, value in scores_of(record).items())
    lost = f", {len(record['failed'])} failed" if record.get("failed") else ""
    spent = f", {text}" if (text := spent_text(record)) else ""
    ended = f"; the run ends: {record['ended']}" if "ended" in record else ""
    begin = f"round {record['round']} of {status.get('rounds', '?')}: {record['clients']} clients"
    return f"{begin}{lost}{shown}{spent}{ended}"

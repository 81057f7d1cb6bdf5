"""Flower's link with only those lines of defence that are named, for the tests that attack it:

python weak_link.py SERVER INSIDE [door] [login] [FOREIGN.fab]

A bundle is stored as a server that was taken over would: signed, with a key that no client knows.
"""

import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519
from flwr.superlink.auth_plugin import NoOpControlAuthnPlugin

from protofed.deploy.door import Door, fleet_paths
from protofed.deploy.login import login_file
from protofed.deploy.settings import read_server
from protofed.deploy.signing import SignedApp, read_app, sign
from protofed.deploy.superlink import Operators, make_app, make_config, serve


def main(server: str, inside: str, *defences: str) -> None:
    settings = read_server(Path(server))
    home = settings.home / "flower"
    plugin = Operators(login_file(home).read_text()) if "login" in defences else NoOpControlAuthnPlugin()
    config = make_config(settings, home, int(inside), plugin)
    bundles = [Path(name).read_bytes() for name in defences if name.endswith(".fab")]
    foreign = [SignedApp(fab, sign(fab, ed25519.Ed25519PrivateKey.generate())) for fab in bundles]
    app = make_app(config, foreign[0] if foreign else read_app(settings.home))
    if "door" in defences:
        app = Door(app, int(inside), fleet_paths())
    serve(app, config, (settings.listen, settings.port))


if __name__ == "__main__":
    main(*sys.argv[1:])

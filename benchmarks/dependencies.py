"""Packages that protofed runs on: versions, licences and known security advisories. A report, not a gate.

    python benchmarks/dependencies.py

Advisories come from pip-audit, which is fetched into a folder of its own and asks the package index. Where
that cannot be reached, the report says for how many packages nothing is known: not "no advisories".
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any

SECONDS = 300  # for fetching and asking


def main() -> None:
    """Print the list, then what is known of it."""
    packages = sorted(_packages(), key=lambda row: row[0].lower())
    for row in packages:
        sys.stdout.write("{:<36}{:<18}{}\n".format(*row))
    sys.stdout.write(f"{len(packages)} packages\n")
    sys.stdout.write("\n".join(_told(_audit())) + "\n")


def _packages() -> set[tuple[str, str, str]]:
    return {(d.name, d.version, _licence(d.metadata)) for d in importlib.metadata.distributions() if d.name}


def _licence(about: Any) -> str:
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    named = [c.rsplit(" :: ", 1)[1] for c in about.get_all("Classifier") or () if c.startswith("License ::")]
    text = " ".join(str(about.get("License") or "").split())
    return ", ".join(named) or (text if len(text) < 60 else text[:57] + "…") or "not stated"


def _audit() -> list[dict[str, Any]] | None:
    """What pip-audit says of each package; None if it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        get = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "pip-audit"]
        ask = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
        ask += ["--path", sysconfig.get_paths()["purelib"]]
        try:
            subprocess.run(get, check=True, capture_output=True, timeout=SECONDS)
            done = subprocess.run(
                ask, capture_output=True, timeout=SECONDS, env={**os.environ, "PYTHONPATH": folder}
            )
            return list(json.loads(done.stdout)["dependencies"])
        except (OSError, subprocess.SubprocessError, ValueError, KeyError):
            return None


def _told(found: list[dict[str, Any]] | None) -> list[str]:
    if found is None:
        return ["advisories could not be fetched: nothing is known of any package"]
    unknown = [one for one in found if "skip_reason" in one]
    lines = [
        f"{one['name']} {one['version']}: {bad['id']}, mended in {bad['fix_versions'] or 'no version'}"
        for one in found
        for bad in one.get("vulns", ())
    ]
    lines.append(f"{len(found) - len(unknown)} packages looked up, {len(lines)} advisories")
    if unknown:
        lines.append(f"advisories could not be fetched for {len(unknown)} packages: nothing is known of them")
    return lines


if __name__ == "__main__":
    main()

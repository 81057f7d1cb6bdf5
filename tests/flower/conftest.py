"""All tests of this folder need Flower: without it every file is skipped, with the reason."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
if importlib.util.find_spec("flwr") is not None:
    with warnings.catch_warnings():  # of what Flower imports
        warnings.simplefilter("ignore")
        for name in ("flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.common.serde"):
            importlib.import_module(name)
REASON = "Flower is not installed: pip install 'protofed[flower]'"


class WithoutFlower(pytest.Module):
    def collect(self) -> Iterator[Any]:
        pytest.skip(REASON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if importlib.util.find_spec("flwr") is None:
        return WithoutFlower.from_parent(parent, path=module_path)
    return None

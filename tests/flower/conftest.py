"""All tests of this folder need Flower: without it every file is skipped, with the reason."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
REASON = "Flower is not installed: pip install 'protofed[flower]'"


class WithoutFlower(pytest.Module):
    def collect(self) -> Iterator[Any]:
        pytest.skip(REASON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if "flwr" in sys.modules and sys.modules["flwr"] is None:
        return WithoutFlower.from_parent(parent, path=module_path)
    if importlib.util.find_spec("flwr") is None:
        return WithoutFlower.from_parent(parent, path=module_path)
    return None

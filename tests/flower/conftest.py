"""All tests of this folder need Flower."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'protofed[flower]'")
sys.path.insert(0, str(Path(__file__).parent))

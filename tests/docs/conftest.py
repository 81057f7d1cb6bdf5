"""The generator of the site lies beside the pages, outside the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

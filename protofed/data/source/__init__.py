"""Where data comes from, one file per kind, which registers itself: importing this package imports all."""

from ...core.registry import import_all

import_all(__name__, __path__)

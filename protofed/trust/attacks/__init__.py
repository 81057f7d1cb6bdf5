"""What attackers do, one file per attack or small family, which registers itself: importing this package
imports all. ../adversary.py puts one of them into the round loop of a simulation."""

from ...core.registry import import_all

import_all(__name__, __path__)

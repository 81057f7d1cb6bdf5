"""Averages that withstand attackers, one file per rule, which registers itself: importing this package
imports all. What they work on is in ../rows.py; ../robust.py puts them between the uploads and a method."""

from ...core.registry import import_all

import_all(__name__, __path__)

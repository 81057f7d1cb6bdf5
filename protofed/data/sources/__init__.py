"""Where data comes from, one file per kind. Importing this package registers all of them."""

from . import digits, npz

__all__ = ["digits", "npz"]

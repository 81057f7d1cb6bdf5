"""The version of protofed, where every layer can read it; the same stands in pyproject.toml."""

VERSION = "0.2.0"

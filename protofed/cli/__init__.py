"""The command line: one file per command, each with `add(parsers)` and a function that returns the exit code."""

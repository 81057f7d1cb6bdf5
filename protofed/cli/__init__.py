"""The command line: one file per command, with `add` and a function that returns the exit code."""

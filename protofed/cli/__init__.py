"""The command line: one file per command, with `add` and a function that returns the exit code.

main.py        entry point, exit codes, errors as one line; stop.py: Ctrl-C
parser.py      flags from the dataclasses of settings and options; the list of commands
output.py      tables on the terminal; progress.py: the bar of a run
study.py       what `compare`, `reproduce` and `sweep` share
"""

"""The command line: one file per command, with `add` and a function that returns the exit code.

main.py        entry point, exit codes, errors as one line; stop.py: Ctrl-C
commands.py    the table of commands: which file declares which, and its line of help
parser.py      flags from the dataclasses of settings and options; imports the file of the command asked for
output.py      tables on the terminal; progress.py: the bars of a run and of an analysis
study.py       what `compare`, `reproduce` and `sweep` share
"""

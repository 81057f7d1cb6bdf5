"""`protofed completion bash|zsh|fish`: a script that completes commands, options and names in the shell.

The scripts ask `protofed completion --words LINE…` at every TAB, so that they know methods, data and options
of the version that is installed, also those of other packages. Where nothing fits, the shell completes files.
Files of the user's that a line names are not run for it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.errors import ConfigError
from .catalogue import KINDS, catalogue, named_groups
from .commands import COMMANDS

BASH = """\
# eval "$(protofed completion bash)", in ~/.bashrc
_protofed() {
    local IFS=$'\\n' current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($(compgen -W "$(protofed completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" \\
        -- "$current"))
}
complete -o default -o bashdefault -F _protofed protofed
"""
ZSH = """\
# eval "$(protofed completion zsh)", in ~/.zshrc after compinit
_protofed() {
    local -a found
    found=("${(@f)$(protofed completion --words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    compadd -a found || _files
}
compdef _protofed protofed
"""
FISH = """\
# protofed completion fish | source, in ~/.config/fish/config.fish
function __protofed_words
    protofed completion --words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null
end
complete -c protofed -a '(__protofed_words)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
NAMES_AFTER = {"--data": "data", "--public": "data", "--partition": "partitions", "--models": "models"}
TAKE_METHODS = ("run", "compare", "sweep", "profile")


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        description='Print the script; `eval "$(protofed completion bash)"` makes it work in this shell, '
        'and the same line in ~/.bashrc in later ones. zsh: `eval "$(protofed completion zsh)"` in ~/.zshrc. '
        "fish: `protofed completion fish | source` in config.fish.",
        allow_abbrev=False,
    )
    parser.add_argument("--words", action="store_true", help=argparse.SUPPRESS)  # what the scripts call
    parser.add_argument("line", nargs="*", metavar="SHELL", help=f"one of {', '.join(SCRIPTS)}")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Print a script, or what can stand at the end of a line."""
    if args.words:
        sys.stdout.write("".join(f"{word}\n" for word in complete(args.line or [""])))
        return 0
    if len(args.line) != 1 or args.line[0] not in SCRIPTS:
        raise ConfigError(f"completion: expected one of {', '.join(SCRIPTS)}, got {' '.join(args.line)!r}")
    sys.stdout.write(SCRIPTS[args.line[0]])
    return 0


def complete(line: Sequence[str]) -> list[str]:
    """What can stand for the last word of a line, of which it may be the beginning.

    >>> complete(["sh"]), complete(["list", "da"])
    (['show'], ['data'])
    """
    *before, last = line
    return sorted({word for word in _words(before, last) if word.startswith(last)})


def _words(before: Sequence[str], last: str) -> Iterable[str]:
    if not before:
        return [*COMMANDS, "--help", "--version"]
    name = before[0]
    if name not in COMMANDS:
        return []
    if before[-1] in NAMES_AFTER:
        return _names(NAMES_AFTER[before[-1]])
    if last.startswith("-"):
        return _options(before)
    if name == "list":
        return KINDS if len(before) == 1 else _names(before[1]) if before[1] in KINDS else []
    if name == "completion":
        return SCRIPTS
    if name in TAKE_METHODS and (len(before) == 1 or name == "compare"):
        return _names("methods")
    return _verbs(before) if len(before) == 1 else []


def _names(kind: str) -> list[str]:
    groups = named_groups() if kind == "models" else {}
    return [*(entry.name for entry in catalogue(kind)), *groups]


def _parser_of(before: Sequence[str]) -> argparse.ArgumentParser:
    from .parser import build_parser

    known = [word for word in before[1:] if word in _names("methods")] if before[0] in TAKE_METHODS else []
    parser: argparse.ArgumentParser = build_parser([before[0], *known], before[:1])[1][before[0]]
    nested = _nested(parser)
    return nested[before[1]] if len(before) > 1 and before[1] in nested else parser


def _nested(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def _verbs(before: Sequence[str]) -> Iterable[str]:
    """Of `deploy`; the other commands take files here."""
    return _nested(_parser_of(before)) if before[0] == "deploy" else []


def _options(before: Sequence[str]) -> Iterable[str]:
    actions = _parser_of(before)._actions
    shown = [action for action in actions if action.help != argparse.SUPPRESS]
    return [flag for action in shown for flag in action.option_strings if flag.startswith("--")]

"""The reference of the command line, from the parser itself."""

from __future__ import annotations

import argparse
from typing import Any
from unittest import mock

from protofed.cli.parser import Parser, make_parser

from .markdown import code, table

TEXT = """# Commands

Made from the parser: what `protofed COMMAND --help` prints. `protofed run METHOD --help` adds the options of
that method, which also stand on [its page](../methods/index.md).

Exit codes: 0 done; 1 the run failed; 2 wrong usage or configuration; 130 interrupted.

"""
SETTINGS = """## Settings

Taken by `run`, `compare`, `reproduce` and `sweep`, by recipes (with `_` for `-`), and by `protofed.run` in
Python. From weakest to strongest: defaults, the method's preset, the recipe, the command line.

"""
SETTING_PREFIX = "setting:"  # how the parser names what goes into the configuration


class _Found(Exception):
    def __init__(self, parser: argparse.ArgumentParser):
        self.parser = parser


def find_parser() -> argparse.ArgumentParser:
    """The whole parser, caught when it is about to parse."""

    def stop(self: argparse.ArgumentParser, *args: Any, **more: Any) -> Any:
        raise _Found(self)

    with mock.patch.object(Parser, "parse_known_args", stop):
        try:
            make_parser(["list"])
        except _Found as found:
            return found.parser
    raise RuntimeError("the command line was parsed without a parser")


def commands_page() -> str:
    commands = _subparsers(find_parser())
    helps = _helps(find_parser())
    index = table(["command", "what it does"], [[f"[{n}](#{n})", helps[n]] for n in commands])
    sections = [_command(name, parser, helps[name]) for name, parser in commands.items()]
    return TEXT + index + "\n" + "\n".join(sections) + "\n" + SETTINGS + _settings(commands["run"])


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {}


def _command(name: str, parser: argparse.ArgumentParser, help: str, level: int = 2) -> str:
    text = parser.description or f"{help[:1].upper()}{help[1:]}."
    own = [a for a in parser._actions if not a.dest.startswith((SETTING_PREFIX, "option:")) and _shown(a)]
    has_settings = any(a.dest.startswith(SETTING_PREFIX) for a in parser._actions)
    parts = [f"{'#' * level} {name}", text, f"```text\n{_usage(parser, own, has_settings)}\n```"]
    parts += [table(["argument", "meaning"], [_argument(action) for action in own])] if own else []
    parts += ["and the [settings](#settings)."] if has_settings else []
    parts += [parser.epilog.replace("  ", " ")] if parser.epilog else []
    helps = _helps(parser)
    parts += [
        _command(f"{name} {verb}", p, helps[verb], level + 1) for verb, p in _subparsers(parser).items()
    ]
    return "\n\n".join(parts) + "\n"


def _shown(action: argparse.Action) -> bool:
    kinds = (argparse._HelpAction, argparse._SubParsersAction)
    return action.help != argparse.SUPPRESS and not isinstance(action, kinds)


def _usage(parser: argparse.ArgumentParser, own: list[argparse.Action], has_settings: bool) -> str:
    words = [parser.prog]
    for action in own:
        if not action.option_strings:
            words.append(f"[{_value(action)}]" if action.nargs in ("?", "*") else _value(action))
    words += [_flag(action) for action in own if action.option_strings and action.required]
    optional = [action for action in own if action.option_strings and not action.required]
    return " ".join([*words, *(["[options]"] if optional else []), *(["[settings]"] if has_settings else [])])


def _argument(action: argparse.Action) -> list[str]:
    name = _flag(action) if action.option_strings else _value(action)
    text = (action.help or "") % {**vars(action), "prog": ""} if "%" in (action.help or "") else action.help
    return [code(name), f"{text or ''}{' (may be repeated)' if _repeats(action) else ''}"]


def _repeats(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction)


def _flag(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {_value(action)}"


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        text = str(action.metavar)
    elif action.choices is not None:
        text = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        text = action.dest.upper()
    return f"{text} …" if action.nargs in ("+", "*") else text


def _settings(run: argparse.ArgumentParser) -> str:
    parts = []
    for group in run._action_groups:
        rows = [_argument(a) for a in group._group_actions if a.dest.startswith(SETTING_PREFIX)]
        if rows:
            title = str(group.title)
            parts.append(f"### {title[:1].upper()}{title[1:]}\n\n{table(['setting', 'meaning'], rows)}")
    return "\n".join(parts)

"""The reference of Python: public names of protofed and of protofed.method, from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import protofed
from protofed import method

from .markdown import code, prose, source_file, table

FIRST = ("federate", "run", "Client", "Model", "Result", "Results", "load", "Trained", "compare", "Compared")


def python() -> str:
    """A table of protofed's names, then a section for each: those that a user calls first."""
    names = [*FIRST, *(n for n in protofed.__all__ if n not in (*FIRST, "__version__"))]
    things = {name: getattr(protofed, name) for name in names}
    rows = [[f"[{name}](#{name.lower()})", _summary(thing)] for name, thing in things.items()]
    sections = [_section(name, thing) for name, thing in things.items()]
    return "\n".join([table(["name", "what it is"], rows), *sections])


def python_method() -> str:
    """A table of protofed.method, for authors of methods."""
    things = {name: getattr(method, name) for name in method.__all__}
    own = {name: thing for name, thing in things.items() if inspect.isclass(thing) or callable(thing)}
    return table(
        ["name", "what it is", "defined in"],
        [[code(name), _summary(thing), _place(thing)] for name, thing in own.items()],
    )


def _section(name: str, thing: Any) -> str:
    parts = [f"## {name}"]
    if inspect.isclass(thing) or inspect.isfunction(thing):
        parts += [f"```python\n{_call(name, thing)}\n```", prose(inspect.getdoc(thing) or "")]
        parts += [_members(thing)] if inspect.isclass(thing) else []
        parts.append(f"Source: {source_file(thing)}")
    else:
        parts.append(f"All methods by name, as `protofed list methods` shows them. {_summary(thing)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def _call(name: str, thing: Any) -> str:
    """The signature, an argument a line where it is long."""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # of a class that Python cannot ask
        return name
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    plain = [p.replace(annotation=_type(p.annotation)) for p in parameters]
    text = (
        f"{name}{signature.replace(parameters=plain, return_annotation=_type(signature.return_annotation))}"
    )
    text = text.replace("<factory>", "…")
    if len(text) <= 88:
        return text
    head, _, tail = text.partition("(")
    inner, closing, end = tail.rpartition(")")
    return f"{head}(\n    {_lines(inner)},\n{closing}{end}"


def _lines(arguments: str) -> str:
    """Commas within brackets do not part arguments."""
    depth, made = 0, ""
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        made += ",\n   " if letter == "," and not depth else letter
    return made


class _Plain(str):
    """A type as it is written in the source, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _type(annotation: Any) -> Any:
    return _Plain(annotation) if isinstance(annotation, str) else annotation


def _members(cls: type) -> str:
    rows = [[code(name + _arguments(member)), _summary(member)] for name, member in _public(cls)]
    return table(["member", "what it is"], rows) if rows else ""


def _public(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of protofed's own that say what they are."""
    for base in cls.__mro__:
        if base.__module__.startswith("protofed."):
            for name, member in vars(base).items():
                plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                shown = inspect.isfunction(plain) or isinstance(plain, property) or hasattr(plain, "attrname")
                overridden = next(b for b in cls.__mro__ if name in vars(b)) is not base
                if shown and not name.startswith("_") and not overridden and plain.__doc__:  # not of torch
                    yield name, plain


def _arguments(member: Any) -> str:
    if not inspect.isfunction(member):
        return ""
    names = [p for p in inspect.signature(member).parameters.values() if p.name not in ("self", "cls")]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return f"({', '.join(stars.get(p.kind, '') + p.name for p in names)})"


def _summary(thing: Any) -> str:
    """The first sentence of a docstring, as far as its first empty line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _place(thing: Any) -> str:
    return source_file(thing) if str(getattr(thing, "__module__", "")).startswith("protofed") else ""

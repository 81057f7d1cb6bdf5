"""The written form of a model family, such as "fp_cnn:channels=18", and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.options import build, options_of, parse_spec
from .base import Family, families


def read_family(text: str, extra: Mapping[str, Any] | None = None) -> Family:
    """The family of a written form; `extra` adds or overrides options.

    A family with a positional option takes it without its name: "timm:resnet18,pretrained=true".
    """
    name, colon, rest = text.partition(":")
    cls = families[name.strip()]
    first = rest.split(",", 1)[0]
    if colon and cls.positional and "=" not in first:
        text = f"{name}:{cls.positional}={rest}"
    _, options = parse_spec(text)
    family: Family = build(cls, {**options, **(extra or {})}, f"model {cls.name}")
    return family


def write_family(family: Family) -> str:
    """The canonical written form: the positional option, then all that differ from their defaults."""
    parts: list[str] = []
    for info in options_of(type(family)):
        value = getattr(family, info.name)
        text = "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
        if info.name == family.positional:
            parts[:0] = [text] if text else []
        elif value != info.default:
            parts.append(f"{info.name}={text}")
    return f"{family.name}:{','.join(parts)}" if parts else family.name

"""Models that do not fit into memory are refused before they are built, with their size."""

from __future__ import annotations

import dataclasses
import os
from math import prod

import torch
from torch import nn

from ..core.errors import ConfigError
from ..core.user_files import reason
from .base import Family

USUAL = 10_000  # widths, inputs and classes below it make no model that large
COPIES = 3  # the net at work, its frozen copy, and one client's weights
SIGNS = ("alloc", "memory", "overflow")  # in the messages of torch


def build_family(family: Family, written: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """A fresh module; if memory does not suffice, an error that says so."""
    _check_fits(family, written, shape, num_classes)
    try:
        return family.build(shape, num_classes)
    except (RuntimeError, MemoryError, TypeError, OverflowError) as error:
        if not any(sign in str(error).lower() for sign in SIGNS) and not isinstance(error, MemoryError):
            raise
        raise ConfigError(f"model {written}: too large to be built here: {reason(error)[:200]}") from error


def _check_fits(family: Family, written: str, shape: tuple[int, ...], num_classes: int) -> None:
    values = [getattr(family, field.name) for field in dataclasses.fields(family)]  # type: ignore[arg-type]
    widths = [value for value in values if isinstance(value, int)]
    if max(prod(shape), num_classes, *widths) < USUAL or not hasattr(os, "sysconf"):
        return
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):  # shapes without numbers
            numbers = sum(parameter.numel() for parameter in family.build(shape, num_classes).parameters())
    except Exception:  # not every module can be built so; the true one shows what is wrong
        return
    needed, there = 4 * COPIES * numbers, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f"model {written}: {numbers:,} parameters, of which training holds at least {COPIES} copies: "
            f"{needed / 1e9:.0f} GB, and this machine has {there / 1e9:.0f} GB; choose a smaller model"
        )

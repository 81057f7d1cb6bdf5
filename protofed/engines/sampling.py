"""Who takes part in a round, and who is late. Drawn from (seed, round) alone, so that every method and
every engine sees the same clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..core.options import option
from ..core.rng import torch_generator

ROUND_OFF = 1e-9  # 0.29 · 100 is a hair below 29 in floating point
MANY = 100_000  # clients from which on participants are drawn one by one


@dataclass(frozen=True)
class Rounds:
    """How many rounds, and who takes part."""

    rounds: int = option(30, "rounds to run", low=1)
    participation: float = option(1.0, "fraction of the clients in a round", above=0, high=1)
    sample: int | None = option(None, "number of clients in a round (instead of the fraction)", low=1)
    sampling: str | None = option(
        None, "how clients are drawn; default: as the method says", choices=("uniform", "size")
    )
    stragglers: float = option(
        0.0, "δ, fraction of the drawn clients that do part of the epochs", low=0, high=1
    )
    allow_zero: bool = option(False, "a straggler may do no epoch at all")
    allow_full: bool = option(False, "a straggler may do all of its epochs, and be late all the same")
    newcomers: int = option(0, "last clients that stay out of training, for `protofed onboard`", low=0)

    def participants(self, clients: int) -> int:
        """How many of so many clients take part in a round."""
        population = clients - self.newcomers
        count = self.sample or max(1, int(self.participation * population + ROUND_OFF))
        if count > population:
            raise ConfigError(
                f"sample: {count} clients a round, but only {population} take part in training; use fewer"
            )
        return count


class Drawn(NamedTuple):
    """A participant, its number of epochs, and whether it is a straggler."""

    client: int
    epochs: int
    late: bool


def draw(
    plan: Rounds, sampling: str, clients: int, epochs: int, seed: int, round: int, size: Callable[[int], int]
) -> list[Drawn]:
    """The participants of a round, sorted by client."""
    population, count = clients - plan.newcomers, plan.participants(clients)
    generator = torch_generator(seed, round, "participants")
    if count == population:
        chosen = torch.arange(population)
    elif sampling == "size":
        chosen = _by_size([size(c) for c in range(population)], count, generator)
    else:
        chosen = _uniform(population, count, generator)
    late_count = count - round_half_up(count * (1 - plan.stragglers))
    late = set(chosen[torch.randperm(count, generator=generator)[:late_count]].tolist())
    return [_drawn(c, c in late, plan, epochs, seed, round) for c in sorted(chosen.tolist())]


def _drawn(client: int, late: bool, plan: Rounds, epochs: int, seed: int, round: int) -> Drawn:
    """F' ~ U{1, …, F−1} for a straggler, as the code of FedProx draws it; with F = 1 it does the one epoch.
    `allow_zero` begins at 0, `allow_full` ends at F: with both it is the U([0, F]) that ProtoMargin prints.
    """
    if not late:
        return Drawn(client, epochs, False)
    low, high = 0 if plan.allow_zero else 1, epochs + plan.allow_full
    if high <= low:
        return Drawn(client, epochs, True)
    generator = torch_generator(seed, round, client, "straggler")
    return Drawn(client, int(torch.randint(low, high, (), generator=generator)), True)


def _uniform(population: int, count: int, generator: torch.Generator) -> Tensor:
    """Without replacement. A permutation of a million takes as long as a small round: there, the first
    different ones of independent draws, which is the same distribution."""
    if population <= MANY or count > population // 10:
        return torch.randperm(population, generator=generator)[:count]
    found: dict[int, None] = {}
    while len(found) < count:
        found.update(dict.fromkeys(torch.randint(population, (count,), generator=generator).tolist()))
    return torch.tensor(list(found)[:count])


def _by_size(sizes: list[int], count: int, generator: torch.Generator) -> Tensor:
    """Without replacement; the next client always with probability proportional to its samples."""
    filled = sum(n > 0 for n in sizes)
    if count > filled:
        raise ConfigError(
            f"sample: {count} clients a round drawn by size, but only {filled} have training samples; "
            "lower sample, or set sampling to uniform"
        )
    return torch.multinomial(torch.tensor(sizes, dtype=torch.float64), count, generator=generator)


def round_half_up(value: float) -> int:
    """The nearest whole number, halves up."""
    return int(value + 0.5 + ROUND_OFF)

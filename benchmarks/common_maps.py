"""`python -m benchmarks.common_maps`: what of φ helps FedCommons' teacher, on samples that clients hold out.

Random filters over images in eight forms: with colours or grey, pixels or contrasts, ReLU or magnitudes;
grey, contrasts and magnitudes together are `phi=edges`. Last the mixture that `phi=auto` takes. No network is
trained, no test sample is looked at. Settings are those of the tournament `beyond`, with several seeds that
are not among its own.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean, stdev

import torch
from torch import Tensor
from torch.nn import functional as F

from protofed.config import Config
from protofed.core.data import LocalData
from protofed.core.rng import torch_generator
from protofed.data import load
from protofed.data.federated import SplitData
from protofed.data.loader import Loader
from protofed.experiment import split_of
from protofed.ops.common_map import COLOURS, GRID, Edges, Filters, local_contrasts
from protofed.ops.moments import Moments, log_prior, moments_of
from protofed.ops.own_weight import own_head
from protofed.studies.tournament import plan_trials, read_tournament

IMAGES = ("digit5-domains", "cifar10-dirichlet", "cifar10-pathological", "mnist-n5-k20", "femnist-writers")
SEEDS = (7, 8, 9, 10, 11)
MOST_FITTED = 1000  # as FedCommons fits its weight and temperature
Map = Callable[[Tensor], Tensor]


def forms(shape: tuple[int, ...], size: int, seed: int) -> dict[str, Map]:
    """Every form of φ, of about equal size, with filters from this seed."""
    count = size // GRID**2

    def form(grey: bool, contrasts: bool, magnitudes: bool) -> Map:
        seen = (1, *shape[1:]) if grey else shape
        kernel = Filters(seen, count, torch_generator(seed, "common maps")).kernel.float()

        def values(x: Tensor) -> Tensor:
            x = x.mean(1, keepdim=True) if grey else x
            x = local_contrasts(x) if contrasts else x
            found = F.conv2d(x, kernel, padding="same")
            return F.adaptive_avg_pool2d(found.abs() if magnitudes else found.relu(), GRID).flatten(1)

        return values

    chosen = itertools.product((False, True), repeat=3)
    found = {_name(*one): form(*one) for one in chosen}
    generator, colours = torch_generator(seed, "common maps"), max(1, count // COLOURS)
    parts = [Filters(shape, colours, generator).float(), Edges(shape, count - colours, generator).float()]
    return {**found, "auto": lambda x: torch.cat([part(x) for part in parts], 1)}


def _name(grey: bool, contrasts: bool, magnitudes: bool) -> str:
    words = ("grey" if grey else "colours", "contrasts" if contrasts else "pixels")
    return ", ".join((*words, "magnitudes" if magnitudes else "ReLU"))


def held_out(config: Config, size: int) -> dict[str, float]:
    """Each form's accuracy on held-out samples (%), by the teacher with prior, weight and temperature."""
    dataset = load(config.data)
    data = SplitData(Loader(dataset, split_of(config, dataset), torch.float32, torch.device("cpu")))
    pairs = [(data.train(k), data.validation(k)) for k in range(len(data))]
    made = forms(dataset.shape, size, config.seed)
    return {name: _teacher(phi, pairs, dataset.num_classes) for name, phi in made.items()}


@torch.no_grad()
def _teacher(phi: Map, pairs: Sequence[tuple[LocalData, LocalData]], classes: int) -> float:
    features = [phi(train.x).double() for train, _ in pairs]
    own = [moments_of([(z, train.y)], classes) for z, (train, _) in zip(features, pairs)]
    everybody = Moments(*(torch.stack(sums).sum(0) for sums in zip(*own)))
    right = []
    for z, mine, (train, unseen) in zip(features, own, pairs):
        if len(unseen):
            every, prior = -(-len(train) // MOST_FITTED), log_prior(mine.n)
            best = own_head(z[::every], train.y[::every], everybody.plus(mine, -1), mine, prior)[0]
            scores = best.head.over(best.temperature).scores(phi(unseen.x).double()) + prior
            right.append(float((scores.argmax(1) == unseen.y).double().mean()))
    return 100 * mean(right)


def main(argv: Sequence[str] | None = None) -> int:
    """One column a setting: mean and deviation over seeds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.common_maps", allow_abbrev=False)
    parser.add_argument("settings", nargs="*", default=IMAGES, help="settings of `beyond` with images")
    parser.add_argument("--size", type=int, default=256, help="features (default: 256)")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help=f"(default: {SEEDS})")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    plans = plan_trials(read_tournament("beyond"))
    columns: dict[str, dict[str, str]] = {}
    for setting in args.settings:
        config = plans[setting, "fedcommons"][0][1].config
        runs = [held_out(replace(config, seed=seed), args.size) for seed in args.seeds]
        columns[setting] = {form: _spread([run[form] for run in runs]) for form in runs[0]}
    lines = [["φ", *columns], ["---", *("---:" for _ in columns)]]
    lines += [[form, *(c[form] for c in columns.values())] for form in columns[args.settings[0]]]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return 0


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    raise SystemExit(main())

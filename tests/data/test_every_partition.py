"""What must hold for every partitioner: disjoint, complete where it should be, reproducible, ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.errors import ProtofedError
from protofed.data import Dataset, Split, divide, partitions


def data(per_class: int = 60, classes: int = 10) -> Dataset:
    """Classes a, b, c, … in turn; a quarter is test; 5 owners and 3 domains."""
    rows = per_class * classes
    index = np.arange(rows)
    return Dataset(
        name="toy",
        x=index.astype(np.float32)[:, None],
        y=index % classes,
        test=index // classes % 4 == 3,
        classes=tuple("abcdefghijklmnop"[:classes]),
        domain=index // 7 % 3,
        domains=("p", "q", "r"),
        owner=index // 11 % 5,
    )


# spec, clients, whether every row is given to somebody, whether the seed matters
CASES = [
    ("iid", 7, True, True),
    ("nway:n=3,k=5", 6, False, True),
    ("dirichlet:beta=0.5,minimum=2", 8, True, True),
    ("dirichlet:beta=0.5,minimum=1,balance=false", 8, True, True),
    ("pathological:p=2", 10, True, True),
    ("pathological:p=3,balanced=true", 10, True, True),
    ("extended_dirichlet:n=3,minimum=4", 10, True, True),
    ("quantity:beta=1,minimum=2", 8, True, True),
    ("power_law:shots=2", 20, False, True),
    ("femnist_letters:ways=2", 2, False, True),
    ("natural", 5, True, False),
    ("natural:choose=largest", 3, False, False),
    ("domain:m=2", 3, False, False),
    ("domain:m=none", 3, True, False),
    ("voc:alpha=0.5", 9, True, True),
    ("pfllib", 5, True, False),
]


def same(a: Split, b: Split) -> bool:
    return all(
        np.array_equal(getattr(getattr(a, part), field), getattr(getattr(b, part), field))
        for part in ("train", "test")
        for field in ("values", "offsets")
    )


def test_every_partitioner_has_a_case() -> None:
    ours = {name for name in partitions if partitions[name].__module__.startswith("protofed.")}
    assert {spec.split(":")[0] for spec, *_ in CASES} == ours


@pytest.mark.parametrize(("spec", "clients", "complete", "seeded"), CASES)
def test_disjoint_and_complete(spec: str, clients: int, complete: bool, seeded: bool) -> None:
    dataset = data()
    split = divide(spec, dataset, clients, seed=3)
    rows = np.concatenate([split.train.values, split.test.values])
    assert split.clients == clients
    assert len(np.unique(rows)) == len(rows)
    assert (len(rows) == len(dataset.x)) == complete


@pytest.mark.parametrize(("spec", "clients", "complete", "seeded"), CASES)
def test_the_seed_decides(spec: str, clients: int, complete: bool, seeded: bool) -> None:
    dataset = data()
    first = divide(spec, dataset, clients, seed=3)
    assert same(first, divide(spec, dataset, clients, seed=3))
    assert same(first, divide(spec, dataset, clients, seed=4)) != seeded


@settings(max_examples=60, deadline=None)
@given(
    case=st.sampled_from(CASES),
    clients=st.integers(1, 40),
    per_class=st.integers(1, 30),
    classes=st.integers(2, 12),
    seed=st.integers(0, 5),
)
def test_ends_or_fails_with_one_line(
    case: tuple[str, int, bool, bool], clients: int, per_class: int, classes: int, seed: int
) -> None:
    spec = case[0] + (",tries=20" if "minimum" in case[0] else "")
    failure, split = None, None
    try:
        split = divide(spec, data(per_class, classes), clients, seed)
    except ProtofedError as error:
        failure = str(error)
    if split is None:
        assert "\n" not in str(failure)
        assert spec.split(":")[0] in str(failure)
    else:
        assert split.clients == clients
        assert split.train.sizes.min() >= 1


@pytest.mark.parametrize("spec", ["iid", "nway", "dirichlet", "pathological", "power_law", "voc", "quantity"])
def test_more_clients_than_rows_is_refused(spec: str) -> None:
    with pytest.raises(ProtofedError, match=r"client|rows"):
        divide(spec, data(4), 1000, 0)

"""Each partitioner's own rule, with numbers that can be worked out by hand."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from toy_data import toy

from protofed.core.errors import ConfigError, DataError
from protofed.data import Dataset, Rows, divide
from protofed.data.labels import class_counts
from protofed.data.partition.dirichlet import Dirichlet, cut_sizes, least_rows
from protofed.data.partition.sorted_rows import holdout
from protofed.data.partition.voc import Voc


def rows_of_class(dataset: Dataset, cls: int, test: bool) -> np.ndarray:
    return np.flatnonzero((dataset.y == cls) & (dataset.test == test))


def test_nway_takes_the_published_rows() -> None:
    """Client i: rows [110·i, 110·i+k_i) of each of its classes, test rows [15·i, 15·i+15)."""
    dataset = toy(per_class=800, test_share=0.1)
    split = divide("nway:n=3,k=100,stdev=2", dataset, 5, 0)
    for client in range(5):
        train, test = split.train[client], split.test[client]
        classes = np.unique(dataset.y[train])
        shots = len(train) // len(classes)
        assert 2 <= len(classes) <= 5  # [max(2, 3−2), min(10, 3+2+1))
        assert 99 <= shots <= 102  # [100−2+1, 100+2+1)
        for cls in classes:
            mine = train[dataset.y[train] == cls]
            first = 110 * client
            assert mine.tolist() == rows_of_class(dataset, cls, False)[first : first + shots].tolist()
            mine = test[dataset.y[test] == cls]
            assert mine.tolist() == rows_of_class(dataset, cls, True)[15 * client : 15 * client + 15].tolist()


def test_nway_uses_40_test_rows_for_mnist() -> None:
    dataset = toy(per_class=800, test_share=0.5, name="mnist")
    split = divide("nway:n=2,k=20,stdev=0", dataset, 5, 0)
    assert split.test.sizes.tolist() == [80] * 5
    assert split.train.sizes.tolist() == [40] * 5


def test_nway_bounds_of_the_mnist_code() -> None:
    """[k−s+1, k+s−1) is {99, 100} for s = 2 and empty for s = 1."""
    dataset = toy(per_class=3000)
    split = divide("nway:n=2,k=100,stdev=2,bounds=mnist", dataset, 20, 0)
    shots = class_counts(dataset, split.train).max(axis=1)
    assert set(shots) == {99, 100}
    with pytest.raises(ConfigError, match="leave no choice"):
        divide("nway:n=2,k=100,stdev=1,bounds=mnist", dataset, 2, 0)


def test_nway_packs_a_small_set_and_refuses_a_smaller_one() -> None:
    dataset = toy(per_class=40)  # 30 training and 10 test rows a class
    split = divide("nway:n=2,k=5,stdev=0", dataset, 10, 0)
    assert split.train.sizes.tolist() == [10] * 10
    with pytest.raises(
        DataError, match=r"nway: client \d+ needs training rows \d+ to \d+ of class \d+, which has 30"
    ):
        divide("nway:n=2,k=31,stdev=0", dataset, 10, 0)
    with pytest.raises(DataError, match="which has 30"):
        divide("nway:n=2,k=5,stdev=0,stride=5", dataset, 10, 0)


def test_nway_wants_no_more_classes_than_there_are() -> None:
    with pytest.raises(ConfigError, match="n=11 but the data has 10 classes"):
        divide("nway:n=11", toy(), 2, 0)


def test_least_rows() -> None:
    """min(10/0.25, 70000/40) = 40; few rows: 100/(2·20) = 2.5 → 2."""
    assert least_rows(70000, 20, 10, 0.75) == 40
    assert least_rows(100, 20, 10, 0.75) == 2


def test_cut_sizes_cut_at_the_floor() -> None:
    """Cumulative 0.15, 0.5, 1 of 10 rows: cuts at 1, 5, 10."""
    assert cut_sizes(np.array([0.15, 0.35, 0.5]), 10).tolist() == [1, 4, 5]


def test_dirichlet_balance_closes_full_clients() -> None:
    """Whoever holds N/K rows before a class gets none of it."""
    rng = np.random.default_rng(0)
    counts = np.full(10, 100)
    amounts = Dirichlet(beta=0.1)._draw(counts, 5, rng)
    held = np.cumsum(amounts, axis=1) - amounts
    assert amounts.sum(axis=0).tolist() == counts.tolist()
    assert amounts[held >= 200].sum() == 0
    loose = Dirichlet(beta=0.1, balance=False)._draw(counts, 5, rng)
    assert loose.sum() == 1000


def test_dirichlet_small_beta_means_few_classes() -> None:
    dataset = toy(per_class=400)
    few = class_counts(dataset, divide("dirichlet:beta=0.05,minimum=5", dataset, 10, 0).train)
    many = class_counts(dataset, divide("dirichlet:beta=100", dataset, 10, 0).train)
    assert (few > 0).sum(axis=1).mean() < 6 < (many > 0).sum(axis=1).mean()


def test_dirichlet_minimum_that_cannot_be_met_ends() -> None:
    started = time.perf_counter()
    with pytest.raises(DataError, match="in 50 tries the smallest client never had more than"):
        divide("dirichlet:beta=0.01,minimum=39,tries=50,pool=true", toy(), 10, 0)
    with pytest.raises(DataError, match="need 500, there are 400"):
        divide("dirichlet:minimum=50,pool=true", toy(), 10, 0)
    assert time.perf_counter() - started < 5


def test_holdout_rounds_down_but_leaves_one_to_train_on() -> None:
    """75 % of 8, 5, 1, 0 rows: 6, 3, 1, 0."""
    rows = Rows.of([np.arange(8), np.arange(8, 13), np.array([13]), np.array([], dtype=int)])
    split = holdout(rows, 0.75, np.random.default_rng(0))
    assert split.train.sizes.tolist() == [6, 3, 1, 0]
    assert split.test.sizes.tolist() == [2, 2, 0, 0]
    assert sorted([*split.train[1], *split.test[1]]) == [8, 9, 10, 11, 12]


def test_pathological_gives_classes_in_order() -> None:
    """4 clients, p=2, 4 classes: ⌈4·2/4⌉ = 2 holders a class; 0 and 1 go to clients 0, 1."""
    dataset = toy(per_class=40, classes=4)
    split = divide("pathological:p=2,balanced=true,train=1,pool=true", dataset, 4, 0)
    counts = class_counts(dataset, split.train)
    assert counts.tolist() == [[20, 20, 0, 0], [20, 20, 0, 0], [0, 0, 20, 20], [0, 0, 20, 20]]
    assert sorted(split.train[0]) == sorted(
        [*np.flatnonzero(dataset.y == 0)[:20], *np.flatnonzero(dataset.y == 1)[:20]]
    )


def test_pathological_unbalanced_amounts_stay_in_range() -> None:
    """Of 400 rows for 4 clients, all but the last get from [10, 100)."""
    dataset = toy(per_class=400)
    split = divide("pathological:p=2,train=1,pool=true", dataset, 20, 1)
    counts = class_counts(dataset, split.train)
    assert ((counts > 0).sum(axis=1) == 2).all()
    for cls in range(10):
        held = counts[counts[:, cls] > 0, cls]
        assert len(held) == 4
        assert ((held[:-1] >= 10) & (held[:-1] < 100)).all()
        assert held.sum() == 400


def test_extended_dirichlet_gives_exactly_n_classes() -> None:
    dataset = toy(per_class=100)
    split = divide("extended_dirichlet:n=3,alpha=0.1,train=1,pool=true,minimum=3", dataset, 20, 0)
    held = class_counts(dataset, split.train) > 0
    assert (held.sum(axis=1) == 3).all()
    assert (held.sum(axis=0) == 6).all()  # 20·3/10 holders a class


def test_power_law_without_spread_is_even() -> None:
    """20 clients, 10 classes: 4 holders a class get 5 rows each, then a quarter of the 80 left."""
    dataset = toy(per_class=100)
    split = divide("power_law:sigma=0,train=1,pool=true", dataset, 20, 0)
    counts = class_counts(dataset, split.train)
    for client in range(20):
        expected = np.zeros(10, dtype=int)
        expected[[client % 10, (client + 1) % 10]] = 25
        assert counts[client].tolist() == expected.tolist()


def test_power_law_first_rows_come_first() -> None:
    """Client 0 is first in digit 0 and second (after j=1 of no one) in digit 1: rows 0–4 of both."""
    dataset = toy(per_class=100)
    split = divide("power_law:train=1,pool=true", dataset, 20, 0)
    zero = split.train[0][dataset.y[split.train[0]] == 0]
    one = split.train[0][dataset.y[split.train[0]] == 1]
    assert set(np.flatnonzero(dataset.y == 0)[:5]) <= set(zero)
    assert set(np.flatnonzero(dataset.y == 1)[:5]) <= set(one)


def test_power_law_refuses_too_many_clients() -> None:
    with pytest.raises(DataError, match="need 1000 rows of class 0, which has 100"):
        divide("power_law:pool=true", toy(per_class=100), 1000, 0)


@pytest.mark.parametrize("seed", range(5))
def test_power_law_loses_no_more_than_rounding(seed: int) -> None:
    """2,000 rows, 40 clients of two classes: amounts are rounded down once for each, so 1,920 at least."""
    split = divide("power_law:pool=true", toy(per_class=200), 40, seed)
    assert 2000 - 2 * 40 <= len(split.train.values) + len(split.test.values) <= 2000


def letters(per_class: int) -> Dataset:
    return dataclasses.replace(toy(per_class=per_class), classes=tuple("abcdefghij"))


def test_femnist_letters_are_neighbours() -> None:
    dataset = letters(3000)
    split = divide("femnist_letters:train=1,pool=true", dataset, 30, 0)
    counts = class_counts(dataset, split.train)
    for client in range(30):
        held = np.flatnonzero(counts[client])
        assert set(held) == {(client + j) % 10 for j in range(5)}
        assert len(set(counts[client][held])) == 1  # divided evenly
        assert counts[client][held].min() >= 2


def test_femnist_letters_run_out_unless_repeated() -> None:
    with pytest.raises(DataError, match="repeat=true"):
        divide("femnist_letters", letters(30), 100, 0)
    split = divide("femnist_letters:repeat=true,pool=true", letters(30), 100, 0)
    assert split.clients == 100
    for client in range(100):
        own = [*split.train[client], *split.test[client]]
        assert len(set(own)) == len(own)
    assert not set(split.train.values) & set(split.test.values)  # nobody trains on another's test rows
    assert split.test.sizes.min() > 0
    with pytest.raises(DataError, match="has no class 'a'"):
        divide("femnist_letters", toy(), 10, 0)


def test_natural_keeps_owners_and_their_test_rows() -> None:
    owner = np.array([0, 0, 1, 1, 1, 2, 2, -1])
    test = np.array([0, 1, 0, 0, 1, 1, 1, 0], dtype=bool)
    y = np.zeros(8, dtype=int)
    dataset = Dataset("n", np.zeros((8, 1), np.float32), y, test, ("a",), owner=owner)
    split = divide("natural", dataset, 0, 0)  # owner 2 has nothing to train on
    assert [r.tolist() for r in split.train] == [[0], [2, 3]]
    assert [r.tolist() for r in split.test] == [[1], [4]]
    assert [r.tolist() for r in divide("natural:minimum=3", dataset, 1, 0).train] == [[2, 3]]
    with pytest.raises(DataError, match=r"has 2 owners .* 3 clients are asked for"):
        divide("natural", dataset, 3, 0)
    with pytest.raises(DataError, match="have no owner"):
        divide("natural", toy(), 2, 0)


def domains(test_rows: bool = True) -> Dataset:
    base = toy(per_class=20, classes=2)
    domain = np.arange(40) // 20
    return dataclasses.replace(base, domain=domain, domains=("p", "q"), test=np.arange(40) % 20 >= 14)


def test_domain_takes_the_first_m_and_tests_on_all() -> None:
    """Domain p: rows 0–13 train (class = row mod 2), 14–19 test; m = 3: rows 0–5."""
    split = divide("domain:m=3", domains(), 0, 0)
    assert split.train[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert split.test[0].tolist() == [14, 15, 16, 17, 18, 19]
    more = divide("domain:m=3", domains(), 4, 0)
    assert more.train[2].tolist() == [6, 7, 8, 9, 10, 11]
    assert more.test[2].tolist() == more.test[0].tolist()
    assert divide("domain:m=100", domains(), 2, 0).train.sizes.tolist() == [14, 14]
    with pytest.raises(DataError, match="client 2 has no training samples"):
        divide("domain:m=7", domains(), 6, 0)
    with pytest.raises(DataError, match="has no domains"):
        divide("domain", toy(), 2, 0)


def test_voc_sizes_match_the_printed_spread() -> None:
    """6,665 images, 100 clients: mean 66.65; the paper prints a deviation of 25.7."""
    draws = [Voc()._sizes(6665, 100, np.random.default_rng(seed)) for seed in range(40)]
    assert all(d.sum() == 6665 for d in draws)
    assert np.mean([d.std() for d in draws]) == pytest.approx(25.7, abs=1.0)


def test_voc_takes_images_with_one_object_class() -> None:
    masks = np.zeros((30, 2, 2), dtype=np.int16)
    masks[:, 0, 0] = 1 + np.arange(30) % 2
    masks[:10, 1, 1] = 1  # every second of these shows both classes
    masks[20:22] = 0  # background alone
    dataset = Dataset("v", np.zeros((30, 3, 2, 2), np.uint8), masks, np.zeros(30, bool), ("bg", "a", "b"))
    split = divide("voc", dataset, 3, 0)
    used = sorted([*split.train.values, *split.test.values])
    assert used == [r for r in range(30) if not (r < 10 and r % 2 == 1) and r not in (20, 21)]


def test_voc_mixes_joined_classes_as_they_were() -> None:
    """Joined to one class, the split is that of the two; an image of both is left out all the same."""
    masks = np.zeros((30, 2, 2), dtype=np.int16)
    masks[:, 0, 0] = 1 + np.arange(30) % 2
    masks[0, 1, 1] = 2
    fine = Dataset("v", np.zeros((30, 3, 2, 2), np.uint8), masks, np.zeros(30, bool), ("bg", "cat", "dog"))
    kind = np.where(np.arange(30) > 0, 1 + np.arange(30) % 2, -1)
    joined = dataclasses.replace(fine, y=np.minimum(masks, 1), classes=("bg", "animals"), kind=kind)
    one, two = (divide("voc:alpha=0.1", dataset, 3, 0) for dataset in (fine, joined))
    assert [row.tolist() for row in two.train] == [row.tolist() for row in one.train]
    assert 0 not in [*two.train.values, *two.test.values]
    plain = divide("voc:alpha=0.1", dataclasses.replace(joined, kind=None), 3, 0)
    assert 0 in [*plain.train.values, *plain.test.values]


def test_voc_small_alpha_means_few_classes() -> None:
    dataset = toy(per_class=200)
    few = class_counts(dataset, divide("voc:alpha=0.01", dataset, 10, 0).train)
    many = class_counts(dataset, divide("voc:alpha=100", dataset, 10, 0).train)
    assert (few > 0).sum(axis=1).mean() < 5 < 9 < (many > 0).sum(axis=1).mean()


def test_quantity_is_uneven_in_size_only() -> None:
    dataset = toy(per_class=400)
    split = divide("quantity:beta=1", dataset, 10, 0)
    counts = class_counts(dataset, split.train)
    largest = counts[counts.sum(axis=1).argmax()]
    assert split.train.sizes.max() > 4 * split.train.sizes.min()
    assert largest.min() > largest.mean() * 0.6


def test_iid_shares_are_even_and_keep_train_and_test_apart() -> None:
    dataset = toy()
    split = divide("iid", dataset, 7, 0)
    assert split.train.sizes.max() - split.train.sizes.min() <= 1
    assert not dataset.test[split.train.values].any()
    assert dataset.test[split.test.values].all()


def test_iid_for_a_million_clients() -> None:
    """Vectorised: no loop over clients, so it takes well under a few seconds."""
    started = time.perf_counter()
    split = divide("iid:repeat=true", toy(), 1_000_000, 0)
    assert time.perf_counter() - started < 5
    assert split.clients == 1_000_000
    assert (split.train.sizes == 1).all()
    used = np.bincount(split.train.values)
    assert used.max() - used[used > 0].min() <= 1  # rows are reused evenly


def test_iid_one_sample_each_and_a_wanted_size() -> None:
    dataset = toy()
    assert (divide("iid", dataset, 300, 0).train.sizes == 1).all()
    assert (divide("iid:samples=3", dataset, 20, 0).train.sizes == 3).all()
    with pytest.raises(DataError, match="301 clients need 301 training rows, toy has 300"):
        divide("iid", dataset, 301, 0)


def test_iid_without_test_rows_makes_some() -> None:
    dataset = dataclasses.replace(toy(), test=np.zeros(400, bool))
    split = divide("iid", dataset, 10, 0)
    assert split.test.sizes.sum() == 100
    assert split.train.sizes.sum() == 300

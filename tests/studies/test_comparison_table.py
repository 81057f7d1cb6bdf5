"""The table of a comparison, made of run directories with chosen numbers."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_runs import planned, write_run

from protofed.core.errors import ConfigError
from protofed.studies.compare import Comparison, Line, compare
from protofed.studies.comparison_table import check_modes, comparison_tables, heading
from protofed.studies.likeness import OWN, Training, different
from protofed.studies.runner import FAILED, REFUSED, WAITING, Done
from protofed.studies.tables import as_csv

BASE = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]


def two_methods(folder: Path) -> Comparison:
    """Two methods, two seeds, two rounds, six clients.

    "one" reaches BASE in the last round of both seeds: mean 35, std over clients √(1750/6) = 17.0783, worst
    10. Its first round is 40 everywhere: best 40 in round 1. "two" has BASE + 1, …, + 6 (mean 38.5) for
    seed 0 and BASE + 11, …, + 16 (mean 48.5) for seed 1: 43.5, and √50 = 7.0711 over seeds.
    """
    done = []
    for seed in (0, 1):
        plan = planned("one", seed, rounds=2)
        acc = {"clf": [[40.0] * 6, BASE], "gp_local": [[0.0] * 6, BASE]}
        done.append(write_run(folder / f"one{seed}", plan, acc))
    for seed in (0, 1):
        plan = planned("two", seed, rounds=2)
        last = [value + 10 * seed + i for i, value in enumerate(BASE, 1)]
        done.append(write_run(folder / f"two{seed}", plan, {"gp_local": [[0.0] * 6, last]}, up=50, down=0))
    return compare(done)


def test_numbers_of_a_row(tmp_path: Path) -> None:
    lines = two_methods(tmp_path).lines
    assert [(line.method, line.mode, line.main) for line in lines] == [
        ("one", "gp_local", True),  # FedProto's main mode comes first
        ("one", "clf", False),
        ("two", "gp_local", True),
    ]
    first, clf, second = lines
    assert (first.last, first.worst_client, first.seeds, first.rounds) == (35.0, 10.0, 2, 2)
    assert first.last_std_clients == pytest.approx(math.sqrt(1750 / 6))
    assert first.last_std_seeds == 0.0
    assert (clf.best, clf.best_round, clf.last) == (40.0, 1.0, 35.0)
    assert second.last == pytest.approx(43.5)
    assert second.last_std_seeds == pytest.approx(math.sqrt(50))


def test_costs_of_a_row(tmp_path: Path) -> None:
    """Two rounds of 300 parameters are 2·300·4 = 2400 bytes; 1 + 2 seconds and two tests of 0.5 are 4."""
    first, _, second = two_methods(tmp_path).lines
    assert (first.up_params, first.down_params, first.bytes, first.seconds) == (100.0, 200.0, 2400.0, 4.0)
    assert (second.up_params, second.down_params, second.bytes) == (50.0, 0.0, 400.0)


def test_significance_by_hand(tmp_path: Path) -> None:
    """Twelve pairs (seed, client) with differences 1, …, 6 and 11, …, 16, all of one sign and different:
    one of 2¹² choices of signs on either side, p = 2/4096. One test: Holm changes nothing."""
    first, clf, second = two_methods(tmp_path).lines
    assert second.p == pytest.approx(2 / 4096)
    assert second.p_holm == second.p
    assert second.gap == pytest.approx(8.5)
    assert math.isnan(first.p)
    assert math.isnan(clf.p)


def test_no_significance_between_unequal_rounds(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", planned("one", rounds=2), {"gp_local": [BASE, BASE]})
    two = write_run(tmp_path / "b", planned("two", rounds=2), {"gp_local": [[v + 1 for v in BASE]]})
    found = compare([one, two])
    assert math.isnan(found.lines[1].p)
    assert math.isnan(found.lines[1].gap)
    assert (found.lines[1].rounds, found.lines[1].planned_rounds) == (1, 2)


GOLDEN = """\
### toy: accuracy (%)

| method | prediction | last ± clients | ± seeds | best ± seeds (round) | worst | converged | Δ | p |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| one | gp_local | 35.00 ± 17.08 | 0.00 | 35.00 ± 0.00 (2) | 10.00 | – |  |  |
|  | clf | 35.00 ± 17.08 | 0.00 | 40.00 ± 0.00 (1) | 10.00 | – |  |  |
| two | gp_local | **43.50 ± 18.79** | 7.07 | **43.50 ± 7.07 (2)** | 16.00 | – | +8.50 | 0.000 |

three: cannot be run here: needs one architecture

four: not started

Δ: to one in the same prediction; methods are ranked within one prediction only.

p: Wilcoxon signed-rank over (seed, client), Holm-corrected over the methods of a prediction.

### toy: cost (parameters, all clients)

| method | rounds | local steps | up a round | down a round | MB a run | seconds a run |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| one | 2 | 3.0 | 100 | 200 | 0.00 | 4.0 |
| two | 2 | 3.0 | 50 | 0 | 0.00 | 4.0 |

local steps: of a client in a round, on average.
"""


def golden_tables(folder: Path):
    """± clients of "two": 11, 22, …, 66 (and 10 more) are 1.1 times BASE: 1.1·17.0783 = 18.79."""
    found = two_methods(folder)
    found.refused["three"] = "needs one architecture"
    found.waiting.append("four")
    return comparison_tables(found, "toy")


def test_markdown_is_as_agreed(tmp_path: Path) -> None:
    assert "\n".join(table.markdown() for table in golden_tables(tmp_path)) == GOLDEN


def test_latex_is_as_agreed(tmp_path: Path) -> None:
    lines = golden_tables(tmp_path)[0].latex().splitlines()
    assert lines[0] == "% toy: accuracy (%)"
    assert r"\begin{tabular}{llrrrrrrr}" in lines
    assert lines[-3] == (
        r"two & gp\_local & \textbf{43.50 $\pm$ 18.79} & 7.07 & \textbf{43.50 $\pm$ 7.07 (2)} & 16.00 & -- "
        r"& +8.50 & 0.000 \\"
    )
    assert lines[-1] == r"\end{tabular}"


def test_modes_are_chosen(tmp_path: Path) -> None:
    found = two_methods(tmp_path)
    assert [row[1] for row in comparison_tables(found, "", "main")[0].rows] == ["gp_local", "gp_local"]
    assert [row[:2] for row in comparison_tables(found, "", "clf")[0].rows] == [["one", "clf"]]


def test_csv_has_all_numbers(tmp_path: Path) -> None:
    text = as_csv([dataclasses.asdict(line) for line in two_methods(tmp_path).lines])
    head, first, *_ = text.splitlines()
    assert head.startswith("method,mode,main,seeds,rounds,planned_rounds,last,")
    assert first.startswith("one,gp_local,True,2,2,2,35.0,17.07")
    assert first.endswith(",,,")  # no gap and no p for the first method


def test_refused_failed_and_waiting_methods_are_listed(tmp_path: Path) -> None:
    done = [
        write_run(tmp_path / "a", planned("fine", rounds=1), {"gp_local": [BASE]}),
        Done(planned("no"), tmp_path / "b", REFUSED, "needs plain SGD"),
        Done(planned("nan"), tmp_path / "c", FAILED, "not finite"),
        Done(planned("later"), tmp_path / "d", WAITING),
    ]
    found = compare(done)
    assert found.refused == {"no": "needs plain SGD"}
    assert found.failed == {"nan, seed 0": "not finite"}
    assert found.waiting == ["later"]
    assert [line.method for line in found.lines] == ["fine"]


def test_a_seed_that_failed_is_left_out_of_the_difference(tmp_path: Path) -> None:
    """ "one" has 35 and, for seed 1, 45; "two" failed for seed 1: Δ is over seed 0 alone, 36 − 35."""
    one = [
        write_run(
            tmp_path / f"one{s}", planned("one", s, rounds=1), {"gp_local": [[v + 10 * s for v in BASE]]}
        )
        for s in (0, 1)
    ]
    two = write_run(tmp_path / "two", planned("two", rounds=1), {"gp_local": [[v + 1 for v in BASE]]})
    found = compare([*one, two, Done(planned("two", 1, rounds=1), tmp_path / "no", FAILED, "not finite")])
    assert found.lines[1].gap == pytest.approx(1.0)
    assert found.lines[1].p == pytest.approx(2 / 64)
    notes = comparison_tables(found, "toy")[0].notes
    assert "two, seed 1: failed, not in the table: not finite" in notes
    assert "two: 1 of 2 seeds so far" in notes


def test_a_seed_that_is_behind_is_left_out(tmp_path: Path) -> None:
    """Seed 0 has both rounds and 35 in the last, seed 1 one round: the row is seed 0 alone."""
    whole = write_run(tmp_path / "a", planned("one", 0, rounds=2), {"gp_local": [[5.0] * 6, BASE]})
    behind = write_run(tmp_path / "b", planned("one", 1, rounds=2), {"gp_local": [[0.0] * 6]})
    found = compare([whole, behind])
    (line,) = found.lines
    assert (line.last, line.best, line.best_rounds, line.seeds, line.rounds) == (35.0, 35.0, "2", 1, 2)
    assert "one: 1 of 2 seeds so far" in comparison_tables(found, "toy")[0].notes


def test_the_best_rounds_of_all_seeds_are_told(tmp_path: Path) -> None:
    done = [
        write_run(tmp_path / f"{seed}", planned("one", seed, rounds=2), {"gp_local": values})
        for seed, values in enumerate(([[50.0], [40.0]], [[10.0], [20.0]]))
    ]
    found = compare(done)
    assert found.lines[0].best == 35.0
    assert comparison_tables(found, "toy")[0].rows[0][4] == "35.00 ± 21.21 (1–2)"


def test_each_mode_is_compared_with_itself(tmp_path: Path) -> None:
    """By classifier 36 − 35, six differences of 1 (p = 2/64); by prototypes both have 90."""
    done = [
        write_run(
            tmp_path / row,
            planned(row, rounds=1),
            {"gp_local": [[90.0] * 6], "clf": [[v + i for v in BASE]]},
        )
        for i, row in enumerate(("one", "two"))
    ]
    lines = {(line.method, line.mode): line for line in compare(done).lines}
    assert lines["two", "clf"].gap == pytest.approx(1.0)
    assert lines["two", "clf"].p == pytest.approx(2 / 64)
    assert lines["two", "gp_local"].gap == 0.0
    rows = comparison_tables(compare(done), "toy", "clf")[0]
    assert rows.bold == {(1, 2), (1, 4)}


def test_clients_with_other_data_are_no_pairs(tmp_path: Path) -> None:
    settings = [{"partition": "iid"}, {"partition": "nway:n=3,k=10"}]
    done = [
        write_run(tmp_path / row, planned(row, rounds=1, **given), {"gp_local": [[v + i for v in BASE]]})
        for i, (row, given) in enumerate(zip("ab", settings))
    ]
    found = compare(done, varied=["partition"]).lines[1]  # as in a sweep
    assert math.isnan(compare(done).lines[1].gap)
    assert found.gap == pytest.approx(1.0)
    assert math.isnan(found.p)


@pytest.mark.parametrize("modes", ["foo", "clf+foo"])
def test_modes_that_no_method_has(modes: str) -> None:
    with pytest.raises(ConfigError, match="unknown prediction mode 'foo'"):
        check_modes(modes, ["fedproto"])
    check_modes("clf+gp_all", ["fedproto"])


def test_convergence_is_a_round_not_a_test(tmp_path: Path) -> None:
    """Tests in rounds 1 to 6 of 90, 90, …: the first full window ends with round 5."""
    done = write_run(tmp_path / "a", planned("one", rounds=6), {"gp_local": [[90.0] * 2] * 6})
    assert compare([done]).lines[0].converged == 5


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"lr": 0.1}, "unequal lr: 0.05 (one); 0.1 (two)"),
        ({"momentum": 0.9}, "unequal momentum: 0.5 (one); 0.9 (two)"),
        ({"models": "mlp"}, "unequal models: small_cnn (one); mlp (two)"),
        ({"optimizer": "adam", "momentum": 0}, "unequal optimizer: sgd (one); adam (two)"),
        ({"weight_decay": 0.1}, "unequal weight_decay: 0.0 (one); 0.1 (two)"),
        ({"clip": 1}, "unequal clip: none (one); 1.0 (two)"),
        ({"schedule": "poly"}, "unequal schedule: constant (one); poly (two)"),
        ({"shuffle": "once"}, "unequal shuffle: epoch (one); once (two)"),
        ({"init": "common"}, "unequal init: own, the method's own (one); common (two)"),
        ({"eval_clients": 3}, "unequal eval_clients: all (one); 3 (two)"),
        ({"participation": 0.5}, "unequal participation: 1.0 (one); 0.5 (two)"),
        ({"stragglers": 0.5}, "unequal stragglers: 0.0 (one); 0.5 (two)"),
        ({"newcomers": 1}, "unequal newcomers: 0 (one); 1 (two)"),
    ],
)
def test_what_differs_in_training_is_listed_and_not_judged(
    tmp_path: Path, settings: dict[str, Any], line: str
) -> None:
    higher = {"gp_local": [[v + 1 for v in BASE]]}
    done = [
        write_run(tmp_path / "a", planned("one", rounds=1), {"gp_local": [BASE]}),
        write_run(tmp_path / "b", planned("two", rounds=1, **settings), higher),
    ]
    found = compare(done)
    assert line in found.unequal
    assert math.isnan(found.lines[1].gap)
    assert math.isnan(found.lines[1].p_holm)
    assert "no Δ or p for two: not trained as one was" in comparison_tables(found, "toy")[0].markdown()
    swept = compare(done, varied=settings)  # on purpose
    assert swept.unequal == []
    assert swept.lines[1].gap == pytest.approx(1.0)


def test_first_weights_are_alike_by_value_or_where_both_are_the_methods_own() -> None:
    """`earlier` is of a cell that an earlier call kept, `both` of one whose runs began in two ways."""
    texts = (f"own, {OWN}", f"common, {OWN}", "common", OWN, f"common, own, {OWN}")
    own, asked, common, earlier, both = (Training({"init": text}) for text in texts)
    assert different(own, asked) == different(own, earlier) == different(earlier, asked) == []
    assert different(earlier, common) == ["init"]
    assert different(asked, common) == []
    assert different(own, common) == different(own, both) == ["init"]


def test_unequal_rounds_are_listed(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", planned("one", rounds=1), {"gp_local": [BASE]})
    two = write_run(tmp_path / "b", planned("two", rounds=2), {"gp_local": [BASE, BASE]})
    assert "unequal rounds: 1 (one); 2 (two)" in compare([one, two]).unequal


def test_a_row_that_a_finding_spoils_is_never_the_best(tmp_path: Path) -> None:
    """Two collapsed with the highest number: the best of the others is bold, and nothing if none is left."""

    def line(name: str, last: float, findings: str) -> Line:
        found = two_methods(tmp_path / name).lines[0]
        return replace(found, method=name, last=last, best=last, findings=findings)

    lines = [line("one", 30.0, ""), line("two", 90.0, "constant"), line("three", 40.0, "")]
    seeds = {"one": 2, "two": 2, "three": 2}
    table = comparison_tables(Comparison(lines, {}, {}, [], seeds), "toy")[0]
    assert {row for row, _ in table.bold} == {2}
    spoilt = [replace(one, findings="constant") for one in lines]
    assert comparison_tables(Comparison(spoilt, {}, {}, [], seeds), "toy")[0].bold == frozenset()


def test_the_heading_names_what_all_rows_share() -> None:
    configs = [planned("one", models=models).config for models in ("mlp", "mlp", "small_cnn")]
    assert heading(configs) == "digits, nway:n=3,stdev=1,k=10, 2 kinds of models"
    assert heading(configs[:2]).endswith(", mlp")

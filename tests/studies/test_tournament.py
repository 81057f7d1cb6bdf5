"""Tournaments: who is tuned how, what is chosen, and the numbers of the tables by hand."""

import dataclasses
import math
from pathlib import Path

import pytest

from protofed.cli.main import main
from protofed.core.errors import ConfigError
from protofed.studies.tournament import (
    choose,
    known_tournaments,
    plan_finals,
    plan_trials,
    points,
    read_tournament,
)
from protofed.studies.tournament_page import joined, publish_tournament
from protofed.studies.tournament_table import (
    Standing,
    critical_difference,
    difference,
    mean_ranks,
    tournament_tables,
    verdict,
)

TEXT = """
entrants = ["fedproto", "local"]
trials = 2
seeds = 2
[shared]
rounds = 1
epochs = 1
clients = 4
[space.all]
lr = [0.02, 0.1]
[space.fedproto]
lam = [0.03, 0.3]
[settings.small]
data = "digits"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cup.toml"
    path.write_text(TEXT)
    return path


def _standing(setting: str, entrant: str, *accuracies: float) -> Standing:
    return Standing(setting, entrant, "clf", "defaults", 0.0, accuracies, 0.0, 0.0, 10.0, 1.0, 30.0, "")


def test_options_of_a_setting_reach_their_method(file: Path) -> None:
    file.write_text(TEXT + "[settings.small.options]\nfedproto.lam = 0.5\n")
    plan = plan_trials(read_tournament(str(file)))
    first, second = (trials[0][1].config.options for trials in plan.values())
    assert first["lam"] == 0.5
    assert "lam" not in second
    file.write_text(TEXT + "[settings.small.options]\nfedprato.lam = 0.5\n")
    with pytest.raises(ConfigError, match="unknown method 'fedprato'"):
        read_tournament(str(file))


def test_every_entrant_has_as_many_trials_and_its_defaults_first(file: Path) -> None:
    cup = read_tournament(str(file))
    found = {entrant: points(cup, "small", entrant) for entrant in cup.entrants}
    assert {entrant: len(some) for entrant, some in found.items()} == {"fedproto": 2, "local": 2}
    assert found["fedproto"][0] == {}
    assert set(found["fedproto"][1]) == {"lr", "lam"}
    assert found == {entrant: points(cup, "small", entrant) for entrant in cup.entrants}
    several = points(dataclasses.replace(cup, trials=9), "small", "fedproto")
    assert len({tuple(point.items()) for point in several}) == 5  # all there are: the defaults and 2 · 2
    large = dataclasses.replace(cup, settings={"large": {**cup.settings["small"], "trials": 1}})
    assert points(large, "large", "fedproto") == [{}]
    assert [len(trials) for trials in plan_trials(large).values()] == [1, 1]


def test_trials_hold_samples_out_and_share_no_seed_with_the_finals(file: Path) -> None:
    cup = read_tournament(str(file))
    trials = [planned for some in plan_trials(cup).values() for _, planned in some]
    assert {planned.config.validation for planned in trials} == {0.2}
    assert {planned.seed for planned in trials} == {2}
    assert {planned.config.train.batch_size for planned in trials} == {10}


def test_a_whole_tournament(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run, then called again: nothing is run twice, and the tables are the same."""
    out = tmp_path / "out"
    words = ["tournament", str(file), "--out", str(out), "--format", "markdown", "--quiet"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "| small | fedproto |" in first
    assert "| small | local |" in first
    runs = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*/metrics.jsonl")}
    assert len(runs) == 4 + 4
    assert main(words) == 0
    assert capsys.readouterr().out == first
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*/metrics.jsonl")} == runs


def test_the_choice_is_by_validation_alone(file: Path, tmp_path: Path) -> None:
    """Modes among own classes are not chosen; the chosen value is the highest of the others."""
    from protofed.runs.outcome import Outcome
    from protofed.studies.runner import carry_out

    cup = read_tournament(str(file))
    plan = plan_trials(cup)
    done = carry_out([planned for some in plan.values() for _, planned in some], tmp_path)
    chosen = choose(cup, plan, done)["small", "fedproto"]
    runs = [Outcome.read(done[planned.key].path) for _, planned in plan["small", "fedproto"]]
    assert chosen.mode in ("clf", "gp_all", "ens")
    assert chosen.validated == max(run.validated(mode) for run in runs for mode in ("clf", "gp_all", "ens"))
    (finals,) = plan_finals(cup, {("small", "fedproto"): chosen}).values()
    assert [one.seed for one in finals] == [0, 1]


def test_a_page_keeps_settings_of_earlier_calls(file: Path, tmp_path: Path) -> None:
    cup = read_tournament(str(file))
    both = dataclasses.replace(
        cup, settings={**cup.settings, "other": {"data": "digits", "clients": 3, "trials": 1}}
    )
    page = tmp_path / "cup.md"
    page.write_text("# Ours\n\nSaid.\n")
    other = [_standing("other", "fedproto", 80, math.nan), _standing("other", "local", 70, 71)]
    publish_tournament(both, joined(both, other, page), "protofed tournament cup", page)
    assert "1 of 2 settings" in page.read_text()
    small = [_standing("small", "fedproto", 90, 91), _standing("small", "local", 60, 61)]
    found = joined(both, small, page)
    assert [(one.setting, one.entrant) for one in found] == [
        *(("small", "fedproto"), ("small", "local"), ("other", "fedproto"), ("other", "local"))
    ]
    assert found[3] == other[1]
    assert math.isnan(found[2].accuracies[1])
    publish_tournament(both, found, "protofed tournament cup", page)
    text = page.read_text()
    assert text.startswith("# Ours\n\nSaid.\n\n<!-- begin: tournament cup -->")
    assert "2 of 2 settings, 2 entrants, 2 final seeds (from 0) each" in text
    assert "| other | digits | nway:n=3,stdev=1,k=10 | small_cnn |  | 3 | 1 × 1 | 10 | 1 |" in text
    assert "(cup-cost.png)" in text
    assert (tmp_path / "cup-cost.png").exists()
    changed = dataclasses.replace(both, settings={**both.settings, "other": {"data": "mnist"}})
    assert {one.setting for one in joined(changed, small, page)} == {"small"}
    page.with_suffix(".json").write_text("[]")
    with pytest.raises(ConfigError, match="does not hold a tournament's standings"):
        joined(both, small, page)


def test_difference_and_verdict() -> None:
    """Differences 2, 4, 6: mean 4, standard deviation 2, standard error 2/√3 = 1.1547; 4 > 2 · 1.1547."""
    gap, error = difference(_standing("s", "a", 12, 14, 16), _standing("s", "b", 10, 10, 10))
    assert (gap, error) == (4.0, pytest.approx(2 / math.sqrt(3)))
    assert verdict(gap, error) == "ahead"
    assert verdict(-gap, error) == "behind"
    assert verdict(2.0, error) == "level"
    assert verdict(50.0, math.nan) == "cannot tell"


def test_ranks() -> None:
    """Setting 1: a 90, b 80, c 80 (ranks 1, 2½, 2½); setting 2: b, c, a (3, 1, 2). Setting 3 lacks c."""
    rows = [("1", "a", 90), ("1", "b", 80), ("1", "c", 80), ("2", "a", 1), ("2", "b", 3), ("2", "c", 2)]
    found = [_standing(*row) for row in (*rows, ("3", "a", 5), ("3", "b", 6))]
    ranks, settings = mean_ranks(found)
    assert settings == 2
    assert ranks == {"a": 2.0, "b": 1.75, "c": 2.25}


def test_critical_difference() -> None:
    """Demšar's table 5a: q₀.₀₅ = 2.343 for three classifiers; with N = 12: 2.343 · √(12/72) = 0.9565."""
    assert critical_difference(3, 12) == pytest.approx(2.343 * math.sqrt(3 * 4 / (6 * 12)), abs=1e-3)
    assert math.isnan(critical_difference(3, 0))


def test_variants_of_the_first_entrant_have_tables_of_their_own(file: Path) -> None:
    file.write_text(TEXT.replace('"local"]', '"local", "fedproto:lam=0.3"]'))
    found = [_standing("small", "fedproto:lam=0.3", 60, 62), _standing("small", "local", 60, 66)]
    tables = tournament_tables(read_tournament(str(file)), found)
    assert [table.title.split()[0] for table in tables[1:3]] == ["fedproto", "fedproto:lam=0.3"]
    assert tables[1].rows == []
    assert tables[2].rows[0][6:8] == ["-2.00 ± 2.00", "level"]


def test_tables_name_the_best_other(file: Path) -> None:
    cup = read_tournament(str(file))
    found = [_standing("small", "fedproto", 70, 72), _standing("small", "local", 60, 66)]
    found.append(_standing("small", "fedproto:lam=0.3", 80, 80))  # the same method: no rival
    table = tournament_tables(cup, found)[1]
    assert table.rows == [["small", "71.00", "10", "local", "63.00", "10", "+8.00 ± 2.00", "ahead", "+8.00"]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("entrants = ['local']", "at least two methods"),
        (TEXT.replace("trials = 2", "trials = 0"), "whole numbers from 1"),
        (TEXT.replace("space.fedproto", "space.fedprot"), "did you mean 'fedproto'"),
        (TEXT.replace("trials", "trails"), "did you mean 'trials'"),
        ("entrants = [", "not valid TOML"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "cup.toml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_tournament(str(tmp_path / "cup.toml"))


def test_unknown_name() -> None:
    with pytest.raises(ConfigError, match="beyond"):
        read_tournament("beyont")


@pytest.mark.parametrize("name", known_tournaments())
def test_what_comes_with_protofed_can_be_planned(name: str) -> None:
    cup = read_tournament(name)
    assert all(some for some in plan_trials(cup).values())

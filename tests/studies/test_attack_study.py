"""`protofed attack`: the cases, what is judged and how, and the command itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from protofed.cli.main import main
from protofed.core.errors import ConfigError
from protofed.studies.attack_study import Case, Reached, cases, lost, plan_attacks
from protofed.studies.attack_table import attack_page, attack_tables, best_losses, clean_costs
from protofed.studies.tables import Table


def reached(attack: str, share: float, defence: str, accuracy: float, loss: float) -> Reached:
    return Reached(attack, share, defence, 1, accuracy, math.nan, loss, 1.0, 5.0, 50.0)


FOUND = [
    reached("", 0, "mean", 90.0, 0.0),
    reached("", 0, "filter", 89.5, 0.5),
    reached("", 0, "median", 85.0, 5.0),
    reached("scale", 0.3, "mean", 20.0, 70.0),
    reached("scale", 0.3, "filter", 88.0, 1.5),
    reached("scale", 0.3, "median", 84.0, 6.0),
    reached("ipm", 0.3, "filter", 80.0, 9.0),
    reached("scale", 0.4, "filter", 40.0, 50.0),
]


def test_cases_have_the_plain_mean_and_the_clean_runs() -> None:
    found = cases(["scale:times=3", "ipm"], ["filter"], [0.1, 0.3])
    assert len(found) == 2 + 2 * 2 * 2
    assert found[0] == Case("", 0.0, "mean")
    assert found[0].written is None
    assert found[2].written == "scale:times=3,share=0.1"
    assert found[-1].written == "ipm:share=0.3"


def test_the_loss_is_of_classes_with_an_honest_majority() -> None:
    """Classes 0 (5 holders, 2 attackers) and 1 (4, 1) count; 2 has 2 of 4; of 3 there is no test sample."""
    clean = {"class_acc": {"clf": [90.0, 80.0, 100.0, None]}}
    attacked = {
        "class_acc": {"clf": [80.0, 76.0, 0.0, None]},
        "held": {"all": [5, 4, 4, 3], "attackers": [2, 1, 2, 0]},
    }
    assert lost(clean, attacked, "clf") == (pytest.approx(7.0), pytest.approx(2 / 3))
    without = {"class_acc": {"clf": [80.0, 76.0, 0.0, None]}}  # weights: all classes are in one upload
    assert lost(clean, without, "clf")[0] == pytest.approx((10 + 4 + 100) / 3)


def test_the_bars_are_judged() -> None:
    assert clean_costs(FOUND) == {"filter": 0.5, "median": 5.0}
    best = best_losses(FOUND)
    assert {key: one.defence for key, one in best.items()} == {
        ("scale", 0.3): "filter",
        ("ipm", 0.3): "filter",
    }
    tables = attack_tables(FOUND, "gp_all", {"backdoor 30%, mean": "needs images"})
    bars = tables[-1].markdown()
    assert "+0.50 met" in bars
    assert "+5.00 not met" in bars
    assert "1 of 2 within 2; not: ipm 30%: 9.0 (filter)" in bars
    assert "not run: backdoor 30%, mean: needs images" in tables[0].markdown()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--shares", "0.5"], "--shares 0.5: attackers must be a minority"),
        (["--attacks", "scale:share=0.2"], "leave the share out, and give --shares"),
        (["--attack", "scale"], "--attack: this command tries several; give --attacks"),
        (["--robust", "median"], "--robust: this command tries several; give --defences"),
        (["--defences", "medain"], "unknown defence 'medain'"),
        (["--mode", "gp"], "--mode gp: the runs have"),
    ],
)
def test_mistakes_are_one_line(
    argv: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--attacks", "scale"] if "--attacks" not in argv else []
    quick = [
        "--rounds",
        "1",
        "--epochs",
        "1",
        "--clients",
        "5",
        "--seeds",
        "1",
        "--quiet",
        "--engine",
        "sequential",
    ]
    assert main(["attack", *few, "--out", str(tmp_path), *quick, *argv]) == 2
    said = capsys.readouterr().err
    assert words in said, said


def test_the_command_writes_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "attack",
        "--attacks",
        "signflip",
        "swap",
        "--defences",
        "filter",
        "--shares",
        "0.2",
        "--seeds",
        "1",
    ]
    argv += [
        "--rounds",
        "1",
        "--epochs",
        "1",
        "--clients",
        "8",
        "--out",
        str(tmp_path),
        "--engine",
        "sequential",
    ]
    assert main([*argv, "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [(row["attack"], row["defence"]) for row in rows] == [
        ("", "mean"), ("", "filter"), ("signflip", "mean"), ("signflip", "filter"), ("swap", "mean"),
        ("swap", "filter"),
    ]  # fmt: skip
    assert all(0 <= row["accuracy"] <= 100 for row in rows)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "attack.md",
        "attack.csv",
        "attack.json",
        "attack.tex",
    }
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/metrics.jsonl")}
    assert main([*argv, "--json", "--quiet", "--publish", str(tmp_path / "trust.md")]) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/metrics.jsonl")} == before
    page = (tmp_path / "trust.md").read_text()
    assert page.startswith("# Attacks and defences\n\n<!-- begin: attacks, fedproto on digits -->")
    assert page.index("the bars, judged") < page.index("without attackers")
    (tmp_path / "trust.md").write_text(
        page.replace("# Attacks and defences\n", "# Ours\n\nSaid.\n") + "After.\n"
    )
    assert main([*argv, "--json", "--quiet", "--publish", str(tmp_path / "trust.md")]) == 0
    capsys.readouterr()
    again = (tmp_path / "trust.md").read_text()
    assert again == page.replace("# Attacks and defences\n", "# Ours\n\nSaid.\n") + "After.\n"
    runs = sorted(path.parent for path in before)
    assert main(["show", str(next(run for run in runs if "signflip-20-filter" in run.name))]) == 0
    shown = capsys.readouterr().out
    assert "attack: signflip:share=0.2 by 2 clients" in shown
    assert "attack success (samples of honest clients" in shown
    assert "defence: filter; uploads of a class: " in shown


def test_a_page_has_a_section_for_each_method_and_data() -> None:
    def page(data: str, before: str) -> str:
        planned = plan_attacks(cases([], [], []), {"clients": 8, "data": data}, "fedproto", 1)
        return attack_page(
            planned, [Table(f"of {data}", ["a"], [["1"]])], "protofed attack", Path("no.png"), before
        )

    both = page("synthetic", page("digits", "# Ours\n\nText.\n"))
    assert both.startswith("# Ours\n\nText.\n\n<!-- begin: attacks, fedproto on digits -->")
    assert both.index("## fedproto on digits") < both.index("## fedproto on synthetic")
    assert page("digits", both) == both


def test_seeds_make_runs_of_their_own() -> None:
    planned = plan_attacks(cases(["scale"], [], [0.2]), {"clients": 8, "rounds": 2}, "fedproto", 2)
    assert [[one.seed for one in runs] for runs in planned.values()] == [[0, 1], [0, 1]]
    assert len({one.key for runs in planned.values() for one in runs}) == 4
    with pytest.raises(ConfigError, match="--seeds: must be at least 1"):
        plan_attacks(cases(["scale"], [], [0.2]), {}, "fedproto", 0)

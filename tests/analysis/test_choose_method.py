"""The rules of `advise --method`, on the settings of the pages of results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from protofed.analysis.choose_method import RULES, Setting, choose, measure_setting
from protofed.cli.main import main
from protofed.core.algorithm import methods

ROOT = Path(__file__).parents[2]
DIGITS = Setting(20, 10, 3.0, 0.17, 10, 1, True, True)  # compare-digits.md and defaults.md: n = 3, k = 10


def first(setting: Setting) -> tuple[str, ...]:
    return choose(setting)[0].methods


def against(setting: Setting) -> set[str]:
    return {name for one in choose(setting) if one.against for name in one.methods}


def test_every_rule_names_methods_and_a_page_that_exist() -> None:
    for rule in RULES:
        assert set(rule.methods) <= set(methods)
        assert (ROOT / rule.page).is_file()
        assert rule.reason.endswith(".")


def test_the_pages_of_results_are_answered_as_they_came_out() -> None:
    assert first(DIGITS) == ("fedcommons",)  # beyond.md: ahead of all others with ten images a class
    assert [one.methods for one in choose(DIGITS)][1] == ("fedproto",)  # defaults.md: above Local
    few = Setting(20, 10, 4.0, 0.25, 4, 1, True, True)  # few-images.md: both above Local
    assert [one.methods for one in choose(few)][:2] == [("fedcommons",), ("fedproto",)]
    assert {"fedavg", "scaffold", "moon"} <= against(DIGITS)  # compare-digits.md: 10 to 21 points below Local
    many = Setting(20, 10, 3.0, 0.17, 100, 1, True, True)  # beyond.md, mnist-n3-k100; fp-t2-mnist.md, n = 3
    assert [one.methods[0] for one in choose(many)][:2] == ["fedcommons", "local"]
    assert first(replace(many, samples=200))[0] == "local"
    assert against(many) == set()  # FedAvg is within two points there
    mixed = Setting(20, 10, 3.0, 0.17, 100, 1, False, True)  # its row FedProto-mh
    assert first(replace(mixed, samples=200)) == ("local", "fedproto")
    assert first(mixed) == ("fedcommons",)  # beyond.md, fashion-htcnn8-k100: level with the best, above Local
    domains = Setting(5, 10, 10.0, 1.0, 30, 5, True, True)  # digit5.md: FedPLCC > FedPLVM > FPL > FedAvg
    assert first(domains) == ("fedcommons",)  # beyond.md: Digit-5
    assert first(replace(domains, samples=300)) == ("fedplcc", "fedplvm", "fpl")


def test_nothing_is_advised_that_the_models_forbid() -> None:
    """Every method of the answer runs with such models, as it declares."""
    for one_embedding in (True, False):
        for samples in (4, 20, 100):
            for held in (3.0, 10.0):
                found = choose(Setting(20, 10, held, 0.2, samples, 1, False, one_embedding, slow_links=True))
                names = {name for one in found if not one.against for name in one.methods}
                needs = {name: methods[name]().needs for name in names}
                assert not [name for name, need in needs.items() if need.model or need.base or need.head]
                if not one_embedding:
                    assert not [name for name, need in needs.items() if need.embedding]


def test_overlap_and_samples_by_hand() -> None:
    """Clients hold {0, 1}, {1, 2}, {1}: pairs share 1 of 3, 1 of 2, 1 of 2 classes: mean 4/9. Counts
    4, 2, 6, 8, 10: median 6. Classes of a client: 5/3."""
    counts = np.array([[4, 2, 0], [0, 6, 8], [0, 10, 0]])
    found = measure_setting(counts, [50, 50], 2)
    assert found.overlap == pytest.approx(4 / 9)
    assert (found.samples, found.classes, found.clients) == (6, 3, 3)
    assert found.held == pytest.approx(5 / 3)
    assert not found.one_model
    assert found.one_embedding


def test_the_command_answers_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["advise", "--method", "--partition", "nway:n=3,stdev=1,k=10", "--models", "small_cnn|mlp:dim=50"]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["setting"]["one_model"] is False
    assert found["setting"]["samples"] == 11
    assert found["advice"][0]["methods"] == ["fedcommons"]
    assert main(argv) == 0
    assert "What these rules do not know" in capsys.readouterr().out
    assert main(["advise", "--data", "digits"]) == 2
    assert "--data needs --method" in capsys.readouterr().err
    assert main(["advise"]) == 2
    assert "the bounds are those of a RUN" in capsys.readouterr().err

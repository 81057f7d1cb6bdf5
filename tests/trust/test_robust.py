"""--robust in the round loop: every method that averages, streaming or not, and what is refused."""

from __future__ import annotations

import logging

import pytest
import torch

from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError
from protofed.testing import Toy, assert_close

AVERAGING = [
    name
    for name in methods
    if not methods[name]().single and not any(a.added for leg in methods[name]().legs for a in leg.averages)
]
HARMLESS = ("bound:times=1e9,cap=1", "bound:radius=1e9,cap=1", "clipping:tau=1e9,cap=1", "mean")


@pytest.mark.parametrize("name", AVERAGING)
def test_a_rule_that_changes_nothing_changes_nothing(name: str) -> None:
    """A bound that no upload reaches: the method's own average comes out, weights and all."""
    plain = Toy(name).build()
    guarded = Toy(name).build(robust=HARMLESS[0])
    for experiment in (plain, guarded):
        experiment.federation.play()
        experiment.federation.play()
    assert_close(plain.federation.state.arrays(), guarded.federation.state.arrays(), 1e-9)


@pytest.mark.parametrize("rule", HARMLESS[1:])
@pytest.mark.parametrize("name", ["fedproto", "fedavg"])
def test_rules_that_stream_change_nothing_below_their_bound(name: str, rule: str) -> None:
    plain, guarded = Toy(name).build(), Toy(name).build(robust=rule)
    for experiment in (plain, guarded):
        experiment.federation.play()
        experiment.federation.play()
    assert guarded.federation.guards[0].defence.streams  # type: ignore[attr-defined]
    assert_close(plain.federation.state.arrays(), guarded.federation.state.arrays(), 1e-9)


@pytest.mark.parametrize("rule", ["median", "filter", "trimmed:nnm=true", "clipping"])
@pytest.mark.parametrize("name", ["fedproto", "fedavg", "scaffold", "feddistill"])
def test_methods_learn_behind_a_defence(name: str, rule: str) -> None:
    experiment = Toy(name).build(robust=rule, rounds=10)
    records = experiment.play(None)
    assert max(scores["mean"] for scores in records[-1]["acc"].values()) > 55
    assert all(torch.isfinite(t).all() for t in experiment.federation.state.arrays().values())


def test_holders_stand_in_the_record_and_few_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """The toy federation: classes 0 to 4 belong to 4, 3, 4, 1 and no client."""
    with caplog.at_level(logging.WARNING, "protofed"):
        records = Toy("fedproto").build(robust="median", rounds=2).play(None)
    assert [record["holders"] for record in records] == [[4, 3, 4, 1, 0]] * 2
    said = [record.message for record in caplog.records if "robust median" in record.message]
    assert len(said) == 1
    assert "class 3 " in said[0]
    assert Toy("fedproto").build(robust="mean", rounds=1).play(None)[0]["holders"] == [4, 3, 4, 1, 0]


@pytest.mark.parametrize(
    ("method", "rule", "words"),
    [
        ("fedtgp", "median", "--robust median: fedtgp trains its prototypes on single uploads; "),
        ("fedcommons", "median", "--robust median: fedcommons adds up gram"),
        ("local", "median", "--robust median: local sends nothing up"),
        ("fedproto", "trimmed:share=0.5", "defence trimmed: share: must be less than 0.5, got 0.5"),
        ("fedproto", "krum:f=2", "needs 7 uploads (2f + 3) to withstand 2; a round has 6 clients"),
        ("fedproto", "median:f=2", "no class is held by more than 4 clients"),
        ("fedproto", "medain", "unknown defence 'medain'; did you mean 'median'"),
    ],
)
def test_what_is_of_no_use_is_refused_before_training(method: str, rule: str, words: str) -> None:
    with pytest.raises(ConfigError) as found:
        Toy(method).build(robust=rule)
    assert words in str(found.value), str(found.value)
    assert "\n" not in str(found.value)

"""Which runs a comparison plans, and when two of them are the same run."""

from __future__ import annotations

import pytest

from protofed.config import resolve
from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError
from protofed.studies.compare import plan_comparison
from protofed.studies.plan import Planned, read_method, run_key


def test_a_method_with_everything():
    choice = read_method("fedproto:preset=official,lam=0.1,lr=0.5,batch-size=3")
    assert (choice.method, choice.preset) == ("fedproto", "official")
    assert choice.options == {"lam": "0.1"}
    assert choice.settings == {"lr": "0.5", "batch_size": "3"}


def test_a_name_is_an_option_of_the_method_or_a_setting():
    assert read_method("fml:clip_each=3").options == {"clip_each": "3"}
    assert read_method("fml:clip=3").settings == {"clip": "3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedprotto", "unknown method 'fedprotto'; did you mean 'fedproto'"),
        ("fedproto:lamb=1", "unknown option 'lamb'"),
        ("fedproto:preset=paperr", "unknown preset 'paperr'"),
        ("fedproto:lam", "expected key=value"),
    ],
)
def test_a_wrong_method_stops_before_anything_runs(text, message):
    with pytest.raises(ConfigError, match=message):
        plan_comparison(["local", text], {}, 1)


def test_two_names_of_one_run_are_told():
    with pytest.raises(ConfigError, match=r"fedproto and fedproto:lam=0\.1 are the same run; leave one out"):
        plan_comparison(["fedproto", "fedproto:lam=0.1"], {}, 1)


def test_all_methods_train_alike():
    """FPL's preset `paper` has batch 64, ten epochs and momentum 0.9; here it gets what all get."""
    plan = plan_comparison(["fedavg", "fpl", "fedproto_margin"], {"lr": "0.3", "preset": "paper"}, 2)
    assert len({planned.config.train for planned in plan}) == 1
    assert plan[0].config.train.lr == 0.3
    assert {planned.config.rounds for planned in plan} == {plan[0].config.rounds}
    assert plan[0].config.rounds.sampling == "uniform"
    assert [planned.seed for planned in plan] == [0, 1] * 3


def test_a_preset_that_was_asked_for_brings_its_training():
    (planned,) = plan_comparison(["fpl:preset=official"], {"lr": "0.3"}, 1)
    assert (planned.config.train.batch_size, planned.config.train.lr) == (64, 0.3)


def test_a_preset_of_its_own_wins():
    plan = plan_comparison(["fedproto:preset=official", "fedavg"], {"preset": "paper"}, 1)
    assert [planned.config.preset for planned in plan] == ["official", "paper"]


def test_whose_first_weights_a_client_takes_stays_with_the_method():
    plan = plan_comparison(["ditto", "fedavg"], {}, 1)
    assert [planned.config.train.init for planned in plan] == ["common", "own"]


def test_all_stands_for_every_method_and_nobody_is_planned_twice():
    plan = plan_comparison(["fedavg", "all"], {}, 1)
    others = [name for name in methods if name not in ("fedavg", "local")]
    assert [planned.row for planned in plan] == ["fedavg", "local", *others]


def test_a_method_with_options_takes_its_place_among_all():
    rows = [planned.row for planned in plan_comparison(["all", "fedplcc:lam1=1"], {}, 1)]
    assert "fedplcc" not in rows
    assert rows[-1] == "fedplcc:lam1=1"
    assert len(rows) == len(list(methods))


def test_seeds_start_at_the_given_one():
    assert [planned.seed for planned in plan_comparison(["local"], {"seed": "7"}, 3)] == [7, 8, 9]
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        plan_comparison(["local"], {}, 0)


def test_options_for_all_methods_are_refused():
    with pytest.raises(ConfigError, match="write options with the method"):
        plan_comparison(["local"], {"options": {"lam": 1}}, 1)


def key(**settings):
    return run_key(resolve(settings))


def test_the_same_numbers_have_the_same_key():
    official = resolve({"method": "fedproto", "preset": "official"})
    options = dict(level="sample", distance="mse", agg="uniform", proto_pass="running", stale="drop", lam=1)
    by_hand = resolve({"method": "fedproto", **official.to_dict()["train"]}, {"options": options})
    assert run_key(official) == run_key(by_hand)
    assert key(method="fedproto", options={"lam": "0.1"}) == key(method="fedproto")
    assert key(engine="sequential", threads=2, workers=3, checkpoint_every=9) == key()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1}, {"rounds": 3}, {"lr": 0.5}, {"options": {"lam": 2}}, {"partition": "iid"},
        {"eval_every": 2}, {"dtype": "float64"}, {"method": "fedavg"}, {"stragglers": 0.5},
    ],
)  # fmt: skip
def test_another_number_has_another_key(change):
    assert key(**change) != key()


def test_the_folder_is_readable():
    planned = Planned("FedProto n=3, δ=50%", resolve({"seed": 2}))
    assert planned.folder == f"fedproto-n-3-50-s2-{planned.key}"

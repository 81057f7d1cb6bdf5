"""Tables as data: categories, gaps, constants of training rows, and the same for rows that come later."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import protofed
from protofed.core.errors import ProtofedError
from protofed.data import divide, load
from protofed.data.inputs import InputRule, ready
from protofed.data.new_rows import read_new
from protofed.runs.input_rules import read_rule, write_rules

HEAD = "age,sex,dose,ward,label,part"
ROWS = [  # training rows: ages 20, 40, 60, doses 1, gap, 3
    "20,f,1,A,well,train",
    "40,m,,B,ill,train",
    "60,f,3,A,well,train",
    "90,m,7,C,ill,test",
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(rows: list[str] | None = None, head: str = HEAD, name: str = "t.csv") -> str:
    Path(name).write_text("\n".join([head, *(ROWS if rows is None else rows)]) + "\n")
    return f"csv:{name},test=part"


def test_gaps_and_scales_come_from_training_rows() -> None:
    """Ages of training rows have mean 40 and variance (400 + 0 + 400)/3; doses 1, 3 have mean 2, which fills
    the gap; their variance is then (1 + 0 + 1)/3. Nothing is computed from the test row, 90 and 7."""
    dataset = load(written() + ",missing=mean,onehot=sex,drop=ward,standardise=true")
    age, dose = np.sqrt(800 / 3), np.sqrt(2 / 3)
    wanted = [
        [-20 / age, 1, 0, -1 / dose],
        [0, 0, 1, 0],
        [20 / age, 1, 0, 1 / dose],
        [50 / age, 0, 1, 5 / dose],
    ]
    np.testing.assert_allclose(dataset.x, wanted, atol=1e-6)
    assert [(c.name, c.values) for c in dataset.rule().columns] == [
        ("age", ()), ("sex", ("f", "m")), ("dose", ()),
    ]  # fmt: skip
    assert "1 missing values are filled (missing=mean)" in dataset.notes[0]


def test_a_value_of_test_rows_alone_is_said(caplog: pytest.LogCaptureFixture) -> None:
    dataset = load(written() + ",missing=zero,onehot=all")
    assert dataset.shape == (1 + 2 + 1 + 2,)  # ward C occurs in the test row only
    assert dataset.x[3].tolist() == [90, 0, 1, 7, 0, 0]
    assert "'ward' has 1 values that no training row has ('C', …)" in caplog.text


def test_rows_that_come_later_are_treated_alike(tmp_path: Path) -> None:
    dataset = load(written() + ",missing=median,onehot=sex,drop=ward,standardise=true")
    write_rules(tmp_path, dataset, divide("iid", dataset, 1, 0))
    rule = read_rule(tmp_path)
    assert rule == dataset.rule()
    written(["7,A,m,90,ill"], "dose,ward,sex,age,label", "new.csv")  # another order of columns
    found = read_new("csv:new.csv", rule)
    assert found.x.tolist() == [dataset.x[3].tolist()]
    assert found.labels == ("ill",)
    named = ready({"age": [90, 40], "sex": ["m", "m"], "dose": [7, None]}, rule)
    assert named.tolist() == dataset.x[[3, 1]].tolist()
    written(["7,A,m,ill"], "dose,ward,sex,label", "new.csv")
    with pytest.raises(ProtofedError, match=r"new\.csv: no column 'age'; the model was trained on it"):
        read_new("csv:new.csv", rule)
    with pytest.raises(ProtofedError, match="categories"):
        ready(np.zeros((1, 4)), rule)


def test_arrays_that_come_later() -> None:
    """Column b: mean 3 and deviation 2 of the training rows 1, 5."""
    dataset = load(written(["0,1,x,0", "0,5,y,0", "0,9,x,1"], "a,b,label,part") + ",standardise=true")
    rule = InputRule.from_dict(json.loads(json.dumps(dataset.rule().to_dict())))
    assert ready(np.array([[0, 7.0]]), rule).tolist() == [[0, 2]]
    for raw, line in [
        (np.array([[np.nan, 1]]), "'a', row 0: the value is missing"),
        (np.zeros((2, 3)), r"expected samples of shape \[N, 2\], got \[2, 3\]"),
        (np.array([["a", "b"]]), "expected numbers"),
        (np.array([[np.inf, 1]]), "infinity"),
    ]:
        with pytest.raises(ProtofedError, match=line):
            ready(raw, rule)


def test_images_that_come_later() -> None:
    rule = InputRule((1, 2, 2), "uint8", (0.5,), (0.5,))
    assert ready(np.full((1, 1, 2, 2), 255, np.uint8), rule).tolist() == [[[[1, 1], [1, 1]]]]
    with pytest.raises(ProtofedError, match="bytes"):
        ready(np.zeros((1, 1, 2, 2), np.float32), rule)
    with pytest.raises(ProtofedError, match="whole numbers"):
        ready(np.zeros((1, 4)), InputRule((4,), "int64"))


@pytest.mark.parametrize(
    ("rows", "head", "options", "line"),
    [
        (None, HEAD, "", "column 'sex', row 0: 'f' is no number; .*onehot="),
        (None, HEAD, ",onehot=sex+ward", r"'dose', row 1: the value is missing; .*missing=mean"),
        (None, HEAD, ",onehot=none", "onehot: no feature 'none'; there are age"),
        (None, HEAD, ",standardize=true", "unknown option 'standardize'; did you mean 'standardise'"),
        (None, HEAD, ",owner=clinic", "no column 'clinic' for owners"),
        (None, HEAD, ",label=ward,drop=none", "no column 'none'"),
        (["1,,0", "2,x,0"], "a,label,part", "", "row 0 has no label"),
        (["1,x,1", "2,y,1"], "a,label,part", "", "all rows are for testing"),
        (["1,x,0", "inf,y,0"], "a,label,part", "", "row 1: the value is infinite"),
        ([",x,0", "na,y,0"], "a,label,part", ",missing=mean", "'a' has no value in any training row"),
        (["u,x,0", ",y,0"], "a,label,part", ",onehot=a", "'a', row 1: the value is missing"),
        (["1,x,0", "2,y,0", "old,y,0"], "a,label,part", ",onehot=all", "mixes numbers and text"),
        ([f"v{i},{i % 2},0" for i in range(101)], "a,label,part", ",onehot=a", "101 different values"),
        ([], "a,label,part", "", "no rows"),
    ],
)
def test_tables_that_are_refused(rows: list[str] | None, head: str, options: str, line: str) -> None:
    with pytest.raises(ProtofedError, match=line) as caught:
        load(written(rows, head) + options)
    assert "\n" not in str(caught.value)


def test_one_class_is_nothing_to_learn() -> None:
    """A site may have a single class; a run may not."""
    spec = written(["1,x,0", "2,x,0"], "a,label,part")
    assert load(spec).classes == ("x",)
    with pytest.raises(ProtofedError, match="all samples are of one class, 'x'"):
        protofed.run("fedproto", data=spec, partition="iid", models="mlp", clients=1, rounds=1)


def test_other_separators() -> None:
    for sign in (";", "\t"):
        Path("s.csv").write_text("a;b;label\n1;2;x\n3;4;y\n".replace(";", sign))
        assert load("csv:s.csv").x.tolist() == [[1, 2], [3, 4]]


def test_a_column_that_is_not_scaled_is_named(caplog: pytest.LogCaptureFixture) -> None:
    load(written(["1,x,0", "5000,y,0"], "glucose,label,part"))
    assert "feature 0 (glucose) has mean" in caplog.text
    assert "csv: standardise=true" in caplog.text

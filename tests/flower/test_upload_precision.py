"""Coarser uploads: smaller messages, nearly the same prototypes."""

import json

import pytest
import torch
from local_link import put_on_link

from protofed.cli.main import main
from protofed.deploy import precision
from protofed.deploy.precision import Coarse
from protofed.engines.store import Store
from protofed.testing import Toy

LARGEST = 4.0  # no entry of an upload in the toy's first round is larger


def run(tmp_path, upload, rounds=1):
    experiment = Toy("fedproto").build(rounds=rounds)
    put_on_link(experiment, tmp_path / upload, upload=upload)
    return experiment.play(None), experiment.federation.state


@pytest.mark.parametrize(("upload", "tolerance"), [("fp16", 2**-11), ("int8", 1 / 254)])
def test_prototypes_stay_close(tmp_path, upload, tolerance):
    """After one round the prototypes are means of uploads, so they err by half a step at most: 2⁻¹¹ in half
    precision, 1/254 in int8, of the largest entry that was sent."""
    full, expected = run(tmp_path, "full")
    coarse, found = run(tmp_path, upload)
    assert 0 < float((found.mean - expected.mean).abs().max()) < tolerance * LARGEST
    assert torch.equal(found.known, expected.known)
    assert coarse[0]["up"] == full[0]["up"]  # payload counts floats, whatever their width


def test_downloads_keep_full_precision(tmp_path):
    full, _ = run(tmp_path, "full", 2)
    coarse, _ = run(tmp_path, "int8", 2)
    assert abs(coarse[1]["wire"]["down"] - full[1]["wire"]["down"]) < 20


def test_precision_in_one_process_is_that_of_the_link(tmp_path):
    """The engine of `deploy measure --accuracy` sees the uploads that the server of a deployment sees."""
    plain = Toy("fedproto").build(rounds=2)
    engine = Coarse(plain.task, plain.data, Store())
    engine.upload = "int8"
    plain.federation.engine = engine
    plain.play(None)
    _, found = run(tmp_path, "int8", 2)
    for name, tensor in found.arrays().items():
        assert torch.equal(plain.federation.state.arrays()[name], tensor), name


def test_accuracy_command(monkeypatch, capsys):
    """Two seeds of one method; the cost of full precision is 0 by definition."""
    monkeypatch.setattr(precision, "METHODS", ("fedproto",))
    monkeypatch.setattr(precision, "SEEDS", 2)
    for name, value in {"models": "mlp:dim=32", "partition": "iid", "clients": 2}.items():
        monkeypatch.setitem(precision.SETTINGS, name, value)
    assert main(["deploy", "measure", "--accuracy", "--rounds", "1", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [line["upload"] for line in lines] == ["full", "fp16", "int8"]
    assert lines[0]["cost"] == {"mean": 0.0, "std": 0.0}
    assert lines[0]["message_up"] > lines[1]["message_up"] > lines[2]["message_up"]
    assert main(["deploy", "measure", "--accuracy", "--rounds", "0"]) == 2

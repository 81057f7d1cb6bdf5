"""Coarser uploads: smaller messages, nearly the same prototypes."""

import pytest
import torch
from local_link import put_on_link

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

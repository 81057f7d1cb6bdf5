"""`protofed privacy`: what it prints and draws, and one line where it cannot."""

import json
from pathlib import Path

import pytest
from small_run import SMALL

from protofed.runs.directory import RunDir

pytest.importorskip("flwr", reason="secure sums and int8 need Flower: pip install 'protofed[deploy]'")
QUICK = ("--steps", "2", "--samples", "20")


def test_tables_figure_and_what_they_do_not_show(finished, call, tmp_path):
    finished("a")
    found = call("privacy", "a", *QUICK, "--figure", "f.png")
    assert found.code == 0
    assert "what the server saw of each client" in found.out
    assert "PSNR in dB to the nearest training image" in found.out
    assert "distance, the client's own network" in found.out
    assert "client:noise=1: client-level ε =" in found.out
    assert "that they find little is no proof of privacy" in found.out
    assert "drawn: f.png" in found.err
    assert (tmp_path / "f.png").stat().st_size > 1000


def test_progress(finished, call):
    finished("a")
    argv = ("privacy", "a", *QUICK, "--client", "0", "--client", "2", "--protect", "int8")
    told = call(*argv)
    assert "inversion in 2 steps, client 2 (2 of 2)" in told.err
    quiet = call(*argv, "--quiet")
    assert (quiet.err, quiet.out) == ("", told.out)
    assert call(*argv, "--json").err == ""


def test_json_is_the_same_twice(finished, call):
    finished("a")
    argv = ("privacy", "a", *QUICK, "--client", "1", "--protect", "dp:client:noise=2", "--json")
    one, two = call(*argv), call(*argv)
    assert one.out == two.out
    found = json.loads(one.out)
    assert found["attacked"] == [1]
    assert [one["name"] for one in found["protections"]] == ["none", "client:noise=2"]
    assert found["revealed"][0]["rounds"] == 3
    assert {one["protection"] for one in found["membership"]} == {"no upload", "none", "client:noise=2"}


def test_the_audit_proves_less_than_is_claimed(finished, call):
    finished("a")
    argv = ("privacy", "a", "--steps", "0", "--protect", "dp:client:noise=1", "--audit", "--trials", "400")
    found = call(*argv, "--json")
    (one,) = json.loads(found.out)["audits"]
    assert found.code == 0
    assert 0 < one["proved"] < one["claimed"] == pytest.approx(4.377, abs=0.01)
    assert "holds" in call(*argv).out


def test_a_secure_run_and_one_with_weights(call):
    assert call("run", "fedavg", *SMALL, "--rounds", "2", "--secure", "--quiet", "--out", "s").code == 0
    found = call("privacy", "s", *QUICK)
    assert "in sums: that it took part" in found.out
    assert "the change of the weights" in found.out


def test_nothing_is_sent(finished, call):
    finished("l", "local")
    found = call("privacy", "l")
    assert found.code == 0
    assert "local sends nothing up: no client reveals anything" in found.out
    refused = call("privacy", "l", "--figure", "f.png")
    assert "figure: there is nothing to draw: local sends nothing up" in refused.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--client", "3"), "--client: 3 is none of the run's clients, 0 to 2"),  # it is a newcomer
        (("--steps", "-1"), "--steps: must be at least 0"),
        (("--samples", "0"), "--samples: must be at least 1"),
        (("--steps", "0", "--figure", "f.png"), "--figure: shows what inversion found"),
        (("--figure", "f.txt"), "must end in .png, .svg or .pdf"),
        (("--protect", "noise"), "protect noise: not known"),
        (("--protect", "dp:client:noise=0"), "noise: must be greater than 0"),
    ],
)
def test_refused_in_one_line(finished, call, more, said):
    finished("a")
    found = call("privacy", "a", *more)
    assert found.code == 2
    assert said in found.err
    assert found.err.startswith("protofed: error: ")
    assert found.err.count("\n") == 1


def test_a_run_whose_data_is_not_here(finished, call, monkeypatch):
    assert call("privacy", "nowhere").err == (
        "protofed: error: nowhere is not a run directory: it has no config.json\n"
    )
    finished("a")
    for data, said in (
        ("npz:gone.npz", "gone.npz"),
        ("deployment", "is a deployed run, whose samples lie with its clients"),
        ("given in Python", "were given in Python"),
    ):
        config = {**RunDir.open(Path("a")).config, "data": data}
        with monkeypatch.context() as patched:
            patched.setattr(RunDir, "config", property(lambda self, found=config: found))
            found = call("privacy", "a")
        assert found.code == 2
        assert said in found.err
        assert found.err.count("\n") == 1

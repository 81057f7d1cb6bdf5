"""The files that a deployment's server keeps in its run directory: no damage is believed in silence."""

import contextlib
import json
import random
import re
import shutil
import sys
from pathlib import Path

import pytest
import test_deployed_run as deployed

from protofed.cli.main import main
from protofed.core.errors import RunError
from protofed.deploy import serve
from protofed.deploy.agreement import read_agreement
from protofed.deploy.books import Books
from protofed.deploy.keys import keys_of_run
from protofed.deploy.settings import read_server
from protofed.deploy.status import overview, read_status
from protofed.flower.reading_mark import ReadingMark
from protofed.runs.directory import OF_DEPLOYMENTS, RunDir
from protofed.runs.loose import REMEDIES, read_loose, write_loose
from protofed.runs.seals import COPIES, FILE, read_whole, seals_in
from protofed.runs.verify import verify, worst

sys.path.append(str(Path(__file__).parents[1] / "runs"))
from corruptions import KINDS, delete

NOTES = ("status.json", "traffic.json", "deployment.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`run`: a deployed run whose server died after round 2; `other`: another of the same federation."""
    folder = tmp_path_factory.mktemp("deployed")
    deployed.write_federation(folder)
    for name in ("other", "run"):
        (folder / name).mkdir()
        serve._note_deployment(read_server(folder / "f" / "server"), folder / name)
        with pytest.raises(deployed.Killed):
            deployed.start(folder, folder / name, until=2)
        Books(folder / name / "released.json").add("rounds", name)
        write_loose(folder / name / "traffic.json", {name: {"inbound-bytes": 1, "outbound-bytes": 2}})
    return folder


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "f", tmp_path / "f")
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path / "run"


def known(run):
    """What the server reads of its own files before it goes on, and what `status` shows."""
    settings = read_server(run.parent / "f" / "server")
    keys = keys_of_run(settings, run, settings.clients)
    session = read_whole(run, "session.json", older=True)
    notes = [read_loose(run / name) for name in NOTES]
    return read_agreement(run), keys, session, notes, Books(run / "released.json")._counts


def tried(run):
    try:
        return known(run), ""
    except RunError as error:
        return None, str(error)


def means_the_same(path, before):
    """Fields of a note in another order are no damage."""
    if not path.exists() or path.name not in NOTES:
        return path.exists() and path.read_bytes() == before
    with contextlib.suppress(ValueError):
        return json.loads(path.read_bytes()) == json.loads(before)
    return False


def state_of(run, name):
    return next(one.state for one in verify(run) if one.file == name)


def test_a_whole_one(run, capsys):
    assert main(["verify", str(run)]) == 0
    assert "whole" in capsys.readouterr().out
    assert {one.file for one in verify(run)} >= {*OF_DEPLOYMENTS, *NOTES}
    for name in OF_DEPLOYMENTS:
        assert (run / COPIES / name).read_bytes() == (run / name).read_bytes()


def test_no_corruption_is_believed_in_silence(run, made, caplog):
    """Each file, each kind of damage: the reader has what was written and says so, or refuses in one line."""
    truth, chance, outcomes = known(run), random.Random(18), []
    for name in (*OF_DEPLOYMENTS, *NOTES):
        for kind in KINDS * 3:
            before = (run / name).read_bytes()
            kind(run / name, made / "other" / name, chance)
            same = means_the_same(run / name, before)
            caplog.clear()
            found, error = tried(run)
            assert error or found == truth, (name, kind)
            assert "\n" not in error
            told = "refused" if error else "told" if caplog.records else "SILENT"
            outcomes.append("same" if same else told)
            if not same and not (name in NOTES and kind is delete):
                assert worst(verify(run)) != "whole", (name, kind)
            (run / name).write_bytes(before)
    assert "SILENT" not in outcomes
    assert outcomes.count("told") > 40
    assert outcomes.count("refused") > 40


def test_a_run_with_damaged_files_goes_on_to_the_numbers_of_the_undisturbed_one(run, made, caplog):
    for name in OF_DEPLOYMENTS:
        (run / name).write_bytes(b"{}")
    (run / "status.json").write_text("[]")
    (run / "reading.json").write_text("[0")
    deployed.start(run.parent, run)
    for name in OF_DEPLOYMENTS:
        assert f"{name} is not what the run wrote; taking its copy" in caplog.text
    assert "reading.json is damaged" in caplog.text
    assert read_whole(run, "session.json") == {"session": 2}
    shutil.copytree(made / "run", run.parent / "undisturbed")
    shutil.rmtree(run.parent / "f")
    shutil.copytree(made / "f", run.parent / "f")
    deployed.start(run.parent, run.parent / "undisturbed")
    found, true = (RunDir(path).lines("metrics.jsonl") for path in (run, run.parent / "undisturbed"))
    assert [(line["round"], line["acc"]) for line in found] == [(line["round"], line["acc"]) for line in true]
    assert worst(verify(run)) == "whole"  # written anew, with their copies


@pytest.mark.parametrize("name", OF_DEPLOYMENTS)
def test_without_a_copy_it_is_refused_in_one_line(name, run, capsys):
    for place in ("", COPIES):
        (run / place / name).write_bytes(b"{}")
    with pytest.raises(RunError, match=f"{re.escape(name)} is (not what the run wrote|damaged)") as told:
        deployed.start(run.parent, run)
    assert "\n" not in str(told.value)
    assert main(["verify", str(run)]) == 1
    assert (
        f"{name}: damaged: missing or not what the run wrote, and so is its copy" in capsys.readouterr().out
    )


def test_repair_puts_them_back(run, capsys):
    (run / "agreement.json").unlink()
    (run / "session.json").write_text('{"session": 7}')
    assert main(["verify", str(run)]) == 1
    assert "agreement.json: recoverable" in capsys.readouterr().out
    assert main(["verify", str(run), "--repair"]) == 0
    assert read_whole(run, "session.json") == {"session": 1}


@pytest.mark.parametrize("name", NOTES)
def test_damaged_notes_are_refused_by_their_readers_and_do_not_keep_the_server_from_starting(
    name, run, capsys, caplog
):
    value = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps({**value, "pid": 1}))
    assert state_of(run, name) == "damaged"
    argv = ["resume" if name == "deployment.json" else "status", str(run)]
    assert main(argv) == 1
    assert f"{name} is damaged, or of another run; {REMEDIES[name]}" in capsys.readouterr().err
    caplog.clear()
    serve._note_traffic(run, {"7": {"inbound-bytes": 5, "outbound-bytes": 6}})
    assert (f"{name} is damaged" in caplog.text) == (name != "deployment.json")


def test_a_note_of_an_earlier_version_is_read_with_a_warning(run, caplog):
    value = {key: item for key, item in read_status(run).items() if key != "updated"}
    (run / "status.json").write_text(json.dumps(value))
    assert main(["status", str(run)]) == 1  # a deployment of today
    (run / "deployment.json").write_text('{"server": "/somewhere"}')
    (run / "traffic.json").unlink()
    assert overview(run)["rounds_done"] == 2
    assert "status.json has no checksum" in caplog.text
    assert state_of(run, "status.json") == "damaged"  # nothing says that it is not


def test_a_run_of_the_version_before_goes_on_with_a_warning(run, caplog):
    """Its checksums.json knows nothing of the files of the deployment."""
    seals = seals_in(run / FILE)
    from protofed.runs import seals as sealing

    kept = {name: sums for name, sums in seals.files.items() if name not in OF_DEPLOYMENTS}
    sealing._store(run, sealing.Seals(seals.run, kept, seals.lines))
    assert {one.file for one in verify(run) if one.state == "not verified"} == set(OF_DEPLOYMENTS)
    deployed.start(run.parent, run)
    assert "agreement.json has no checksum: an earlier version wrote it" in caplog.text
    assert len(RunDir(run).lines("metrics.jsonl")) == 3


def test_a_local_run_leaves_nothing_of_a_deployed_one(run, capsys):
    small = ("--models", "mlp", "--clients", "2", "--rounds", "1", "--epochs", "1", "--engine", "sequential")
    assert main(["run", "local", *small, "--out", str(run), "--force", "--quiet"]) == 0
    assert not [name for name in (*OF_DEPLOYMENTS, *NOTES) if (run / name).exists()]
    assert main(["verify", str(run)]) == 0


def test_a_server_that_died_before_the_agreement_was_written_begins_anew(run):
    """It had made the directory; nothing was played."""
    shutil.rmtree(run)
    run.mkdir()
    write_loose(run / "deployment.json", {"server": "somewhere"})
    RunDir.create(run, {"method": "fedproto", "rounds": {}}, keep=REMEDIES).lock.release()
    serve._check_out(run)
    deployed.start(run.parent, run)
    assert read_agreement(run).classes == ("ant", "bee", "cat", "dog")
    with pytest.raises(RunError, match="holds a finished run"):
        serve._check_out(run)


def test_a_local_run_is_not_taken_for_a_deployed_one(run):
    RunDir.create(run, {"method": "fedproto", "rounds": {}}, force=True).lock.release()
    with pytest.raises(RunError, match="was not deployed"):
        serve._check_out(run)


def test_a_mark_of_reading_that_was_edited_accuses_nobody(tmp_path, caplog):
    path, asked = tmp_path / "reading.json", {"kind": "train", "tag": "3"}
    with ReadingMark(path).reading(1, asked):
        kept = path.read_bytes()
    path.write_bytes(kept)
    assert ReadingMark(path).suspect(1, asked)
    path.write_bytes(kept.replace(b'"client": 1', b'"client": 0'))
    assert ReadingMark(path).suspect(0, asked) is None
    assert "reading.json is damaged" in caplog.text

"""The notebook in examples/ runs from its first cell to its last, and shows what it says."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

REPO = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(REPO / "examples" / "first_steps.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "outputs are not kept in the repository"
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "runs" / "first" / "summary.json").exists()
    shown = [
        out
        for cell in book.cells
        for out in cell.get("outputs", ())
        if out["output_type"] == "execute_result"
    ]
    pages = ["".join(out["data"].get("text/html", "")) for out in shown]
    assert "fedproto after 8 rounds, 4 clients" in pages[0]
    assert pages[0].count("<polyline") == 4
    assert "gp_local" in pages[2]  # the table of rounds
    assert "local" in pages[-1]
    assert "<svg" in pages[-1]
    texts = ["".join(out["data"]["text/plain"]) for out in shown]
    assert texts[1].count(":") == 4  # clients with their accuracies

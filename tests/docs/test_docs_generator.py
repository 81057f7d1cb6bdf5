"""Generated pages, on what is known by hand."""

from __future__ import annotations

import re

import pytest
from generator.examples import EXAMPLE, command, play
from generator.formulas import scripts, with_formulas, with_symbols
from generator.markdown import module_text, prose, table
from generator.messages import messages_section, parts_of, sends_prototypes, sent_parts
from generator.methods import (
    TRAINS_AT_SERVER,
    WIDTHS_OF_ONE_MODEL,
    method_page,
    method_parts,
    overview,
    read_parts,
)
from generator.pages import PARTS, filled
from generator.python import FIRST, python, python_method
from snippets import DOCS, inline_commands
from test_docs_snippets import check_command

import protofed
from protofed import experiment as _registers_everything  # noqa: F401
from protofed import method as method_names
from protofed.core.algorithm import methods


@pytest.mark.parametrize("name", list(methods))
def test_docstring_has_what_the_page_shows(name: str) -> None:
    """A title with an idea, formulas, and a paper with a year (but for three without one)."""
    parts = method_parts(name)
    assert parts.title
    assert parts.idea.endswith(".")
    assert re.search(r"^    \S", parts.how, re.MULTILINE), f"{name}: no formula in the module docstring"
    assert parts.departures or name in ("local", "lg_fedavg")
    if name not in ("local", "centralized", "fedcommons"):
        assert re.search(r"\b(19|20)\d\d\b", parts.paper), parts.paper


def test_fedproto_page() -> None:
    """All ten classes come down with D = 50: 10·50 = 500. Up go rows of 50, a mean over ten clients."""
    page = method_page("fedproto", seen := play("fedproto"))
    assert seen.params["down"] == 500
    assert seen.params["up"] % 5 == 0
    assert "| ↓ server to client | `mean` | J·D | 500 |" in page
    assert "| `lam` | `0.1` | λ, weight of the prototype term (Eq. 7) |" in page
    assert "[arXiv:2105.00243](https://arxiv.org/abs/2105.00243)" in page
    assert "| `official` | the authors' released code |" in page
    assert sends_prototypes(seen)
    assert sent_parts(seen) == []


def test_overview_of_two_methods() -> None:
    """FedAvg sends the model and nothing else; LG-FedAvg the head: 50·10 + 10 = 510 parameters."""
    page = overview({name: play(name) for name in ("fedavg", "lg_fedavg")})
    assert re.search(r"\[FedAvg\]\(fedavg.md\) \| – \| model \| – \| – \| – \|", page)
    assert "| [LG-FedAvg](lg_fedavg.md) | – | head | in the base | – | – | 510 | 510 |" in page


def test_nothing_is_sent() -> None:
    assert messages_section(play("local")) == "Nothing is sent.\n"


def test_named_methods_exist() -> None:
    assert all(name in methods for name in (*TRAINS_AT_SERVER, *WIDTHS_OF_ONE_MODEL))


@pytest.mark.parametrize("name", list(methods))
def test_example_commands_are_right(name: str) -> None:
    check_command(command(name).split()[1:], name)


@pytest.mark.parametrize(
    ("page", "known"),
    [
        ("commands", "  --optuna TRIALS       search instead of a full grid"),
        ("commands", "### deploy init"),
        ("commands", "| `lr` | `0.05` | learning rate |"),
        ("data", "## digits"),
        ("partitions", "## dirichlet"),
        ("models", "`htfe8`"),
        ("trust", "### squatting"),
        ("trust", "### multikrum"),
        ("recipes", "- Published numbers: Tan et al."),
    ],
)
def test_page_is_filled(page: str, known: str) -> None:
    text = filled((DOCS / f"reference/{page}.md").read_text())
    assert known in text
    assert "<!-- made" not in text
    for words in inline_commands(text):
        check_command(words, "a generated page")


def test_every_part_is_called_by_one_page() -> None:
    texts = [path.read_text() for path in DOCS.rglob("*.md")]
    called = [name for text in texts for name in re.findall(r"<!-- made: (\w+) -->", text)]
    assert sorted(called) == sorted(PARTS)
    assert EXAMPLE in (DOCS / "methods/index.md").read_text()


def test_results_are_listed() -> None:
    found = PARTS["results"]()
    assert "](fedproto-official-mnist.md)" in found
    assert "index.md" not in found


def test_parts_of_a_docstring() -> None:
    text = "X: short idea.\n\nA, B 2020.\n\nIt does this:\n\n    L = CE\n\nDepartures and more:\n- none."
    parts = read_parts(text, has_paper=True)
    assert (parts.title, parts.idea, parts.paper) == ("X", "Short idea.", "A, B 2020.")
    assert parts.how == "It does this:\n\n    L = CE"
    assert parts.departures == "- none."


def test_formulas() -> None:
    """Side, formula with scripts, number; a script within a script; code and long names stay."""
    text = "As here:\n\n    client  L = Σ_j e^{s_j/τ}  (Eq. 1)\n            two\n\nEnd"
    row = "<span>client</span><span>L = Σ<sub>j</sub> e<sup>s<sub>j</sub>/τ</sup></span><span>Eq. 1</span>"
    row += "<span></span><span>two</span><span></span>"
    assert with_formulas(text) == f'As here:\n\n<div class="formulas">{row}</div>\n\nEnd'
    assert with_symbols("w_k, `w_k`, proto_pass") == "w<sub>k</sub>, `w_k`, proto_pass"
    assert scripts("a < b") == "a &lt; b"


def test_markdown() -> None:
    assert prose("Two:\n- a\n- b") == "Two:\n\n- a\n- b"
    assert table(["a"], [["x|y `p|q`"]]) == "| a |\n| --- |\n| x\\|y `p|q` |\n"
    assert parts_of(["model.base.w", "model.head.w", "aux.base.w"]) == ["aux", "model"]
    assert module_text(methods["fedavg"]).startswith("FedAvg: ")


def test_python_reference_has_every_public_name() -> None:
    text = python()
    assert set(FIRST) <= set(protofed.__all__)
    for name in protofed.__all__:
        if name != "__version__":
            assert f"\n## {name}\n" in text
            assert re.search(rf"^\| \[{name}\]\(#{name.lower()}\) \| \w", text, re.MULTILINE)
    assert "federate(\n    clients: Sequence[Client],\n" in text
    assert "| `predict(" in text
    assert "| `to_frame()` |" in text
    rows = python_method()
    missing = [name for name in method_names.__all__ if f"| `{name}` | " not in rows]
    assert set(missing) <= {"DISTANCES", "Loss", "Tree", "Payload", "methods", "Ran", "View"}, missing

"""The report on dependencies: each package with its licence, and what is known of advisories, if anything."""

from __future__ import annotations

import pytest

from benchmarks import dependencies

FOUND = [
    {"name": "a", "version": "1.0", "vulns": [{"id": "CVE-1", "fix_versions": ["1.1"]}]},
    {"name": "b", "version": "2.0", "vulns": []},
    {"name": "c", "version": "3.0", "skip_reason": "not on the index"},
]


def test_packages_licences_and_advisories(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dependencies, "_audit", lambda: FOUND)
    dependencies.main()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("torch ") for line in lines)
    assert lines[-3:] == [
        "a 1.0: CVE-1, mended in ['1.1']",
        "2 packages looked up, 1 advisories",
        "advisories could not be fetched for 1 packages: nothing is known of them",
    ]


def test_without_an_index_it_does_not_say_that_there_are_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dependencies, "_audit", lambda: None)
    dependencies.main()
    assert capsys.readouterr().out.endswith("could not be fetched: nothing is known of any package\n")

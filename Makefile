# `make demo` and `make test` work from a bare clone: they need python3 and make only.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-flower test-all lint install clean

demo: .venv/run-ready
	$(BIN)/python examples/demo.py

# Everything but the transport, which starts real servers and clients: that is test-flower.
test: .venv/dev-ready
	$(BIN)/python -m pytest -n 2 --ignore=tests/flower $(ARGS)

test-flower: .venv/dev-ready
	$(BIN)/python -m pytest -n 2 tests/flower $(ARGS)

test-all: .venv/dev-ready
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow' $(ARGS)

lint: .venv/dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: .venv/dev-ready

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/run-ready: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/dev-ready: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@ .venv/run-ready

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

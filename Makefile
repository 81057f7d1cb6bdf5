# `make demo` and `make test` work from a bare clone: they need python3 and make only.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-system test-all fuzz docs lint install clean

demo: .venv/run-ready
	$(BIN)/python examples/demo.py

# Tests that start servers, browsers or whole studies: test-system. All others: test.
SYSTEM := tests/docs tests/engines/test_other_device.py tests/examples tests/flower tests/fuzz tests/reports tests/studies tests/trackers tests/cli/test_study_commands.py \
	tests/use/test_export.py tests/use/test_notebook.py

test: .venv/dev-ready
	$(BIN)/python -m pytest -n 2 $(addprefix --ignore=,$(SYSTEM)) $(ARGS)

test-system: .venv/dev-ready
	$(BIN)/python -m pytest -n 2 $(SYSTEM) $(ARGS)

test-all: .venv/dev-ready
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow' $(ARGS)

# Sound inputs changed again and again, for every reader of what comes from outside: make fuzz CASES=1000000
CASES ?= 100000
JOBS ?= 1
fuzz: .venv/dev-ready
	$(BIN)/python tests/fuzz/long_run.py --cases $(CASES) --jobs $(JOBS) $(ARGS)

# The documentation site, in site/. Broken links and anchors are errors.
docs: .venv/dev-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

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
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache

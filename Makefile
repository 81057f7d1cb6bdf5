# `make demo` and `make test` work from a bare clone: they need python3 and make only.
PYTHON ?= python3
BIN := .venv/bin

TRUST := $(BIN)/protofed attack fedproto --defences all --seed 10 --engine cohort --publish docs/results/trust.md

.PHONY: demo test test-system test-all fuzz bench trust docs lint install clean

demo: .venv/run-ready
	$(BIN)/python examples/demo.py

# Tests that start servers, browsers or whole studies: test-system. All others: test.
SYSTEM := tests/benchmarks/test_released.py tests/docs tests/engines/test_other_device.py tests/examples tests/flower tests/fuzz tests/reports tests/studies tests/trackers tests/cli/test_study_commands.py \
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

# Speed beside plain loops, other simulators and, by their paths, released code; says first how long it will take.
# make bench ARGS="--fedproto ../FedProto --htfllib ../HtFLlib", WHAT="w1 w2" for some of it, REPEATS=9 for more turns
WHAT ?=
REPEATS ?= 3
bench: .venv/dev-ready
	mkdir -p runs
	$(BIN)/python -m benchmarks $(WHAT) --peers --repeats $(REPEATS) --json runs/speed.json --markdown runs/speed.md $(ARGS)

# Attacks and defences on digits and MNIST, docs/results/trust.md: an hour of one core; interrupted, it goes on.
trust: .venv/dev-ready
	$(TRUST) --rounds 10 --out runs/attack-digits $(ARGS)
	$(TRUST) --data mnist --partition nway:n=3,stdev=1,k=20 --rounds 6 --epochs 2 --out runs/attack-mnist $(ARGS)

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

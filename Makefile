# Everything starts from a machine with Python >= 3.11, git and make. No target writes outside this
# folder, package caches and temporary files aside.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export CQK_CACHE_DIR ?= $(CURDIR)/.cache/cqk
export MPLCONFIGDIR ?= $(CURDIR)/.cache/matplotlib
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/.cache/pycache

.PHONY: bench demo test test-slow lint format clean

demo: $(STAMP)
	$(BIN)/cqk run demo
	$(BIN)/cqk analyze results/demo

# One process of tests for each core, each on one thread.
PYTEST := $(BIN)/python -m pytest -q --basetemp=.pytest_tmp -p no:cacheprovider
test: $(STAMP)
	$(PYTEST) -n auto --dist worksteal

# The Slurm tests start a cluster that has the machine's cores to give, so they run alone.
test-slow: $(STAMP)
	$(PYTEST) -n auto --dist worksteal -m slow --ignore=tests/test_slurm.py
	$(PYTEST) -m slow tests/test_slurm.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Three quarters of an hour on an idle machine; writes benchmarks/RESULTS.md.
bench: $(STAMP)
	for script in coupling attention scoring training bookkeeping growth compile dry_runs; do \
		OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$script.py || exit 1; \
	done

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .cache .pytest_tmp .hypothesis .mypy_cache .ruff_cache build dist *.egg-info results/demo

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cqk needs Python 3.11 or newer; give one with make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[train,dev]"
	touch $@

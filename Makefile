# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# PyTorch's CPU build on plain PyPI: make demo PIP_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_OPTIONS)

.PHONY: demo page test slow mutants report tables lint format clean

demo: $(VENV)/.demo
	$(BIN)/hgkt demo

page: $(VENV)/.page
	$(BIN)/hgkt demo --page

report: $(VENV)/.report
	$(BIN)/hgkt reproduce --data digits --out hgkt-report

# The tables of README and docs, from the records in docs/results.
tables: $(VENV)/.demo
	$(BIN)/python benchmarks/tables.py

# One thread per worker: the workers share the cores.
test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# How much of a change the tests notice, by room: `make mutants SAMPLE=40 ROOMS=graph JOBS=2`.
# Without SAMPLE every mutant is tried, which takes hours.
mutants: $(VENV)/.mutants
	$(BIN)/python benchmarks/mutants.py --jobs $(or $(JOBS),1) $(if $(SAMPLE),--sample $(SAMPLE)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ROOMS),--rooms $(ROOMS)) $(if $(REPORT),--report $(REPORT))

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist hgkt-report .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# What the demo shows: the closed form, the paper's network and a figure.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[network,report]'
	touch $@

$(VENV)/.report: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[network,transport,report]'
	touch $@

$(VENV)/.page: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[serve]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test]'
	touch $@

$(VENV)/.lint: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test,lint]'
	touch $@

$(VENV)/.mutants: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test,mutants]'
	touch $@

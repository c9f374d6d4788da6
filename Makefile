# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# PyTorch's CPU build on plain PyPI: make test PIP_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_OPTIONS)

.PHONY: demo page test endure slow coverage oldest mutated bench report tables docs lint format clean chaos fuzz

demo: $(VENV)/.demo
	$(BIN)/hgkt demo

page: $(VENV)/.page
	$(BIN)/hgkt demo --page

report: $(VENV)/.report
	$(BIN)/hgkt reproduce --data digits --quick --out hgkt-report

# The tables of README and docs, from the records in docs/results.
tables: $(VENV)/.report
	$(BIN)/python docs/_ext/tables.py

# The site, in docs/_build/html; a warning is an error, and nothing is fetched.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# One thread per worker: the workers share the cores. Compiled files are written whatever the
# environment says: every process that a test starts would compile all of hgkt again.
TESTED = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto
test: $(VENV)/.test
	$(TESTED)

# What starts servers, workers, clusters, browsers or Sphinx, or takes long.
ENDURE = -m 'endure and not smoke and not slow'
endure: $(VENV)/.test
	$(TESTED) $(ENDURE)

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Which lines no test reaches: `make coverage ROOMS="graph transport"`, or all without ROOMS.
coverage: $(VENV)/.test
	$(TESTED) -m 'not slow' --cov-report=term \
	  $(or $(foreach room,$(ROOMS),--cov=hgkt.$(room) tests/$(room) src/hgkt/$(room)),--cov=hgkt)

# The oldest versions that pyproject.toml allows, with the tests of the rooms of the default model.
# torch is the pinned one: an older release would pull gigabytes of CUDA packages.
OLDEST = .venv-oldest
OLDEST_ROOMS = data statistics transport graph closed_form calibration estimators evaluation
oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tools/oldest_versions.py pyproject.toml constraints.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt \
	  --editable '.[network,transport,matlab,report,graph,hub]' pytest pytest-timeout hypothesis
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest $(addprefix tests/,$(OLDEST_ROOMS))

# 10,000 damaged files of every kind that hgkt reads: `make mutated FILES=500 SEED=1 JOBS=2`.
mutated: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python tests/robustness/mutated_files.py --jobs $(or $(JOBS),2) \
	  $(if $(FILES),--files $(FILES)) $(if $(SEED),--seed $(SEED)) $(if $(OUT),--out $(OUT))

# A timing of benchmarks/: `make bench NAME=fit OPTIONS="--quick --json"`; benchmarks/run.py lists them.
bench: $(VENV)/.test
	$(BIN)/python benchmarks/run.py $(NAME) $(OPTIONS)

# Kill the service at random moments while clients change its classes: `make chaos KILLS=100`.
chaos: $(VENV)/.test
	$(BIN)/python tests/robustness/chaos.py --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED))

# Attacks and mutated requests against a real service: `make fuzz REQUESTS=5000 OUT=fuzz.json`.
# In full it takes a quarter of an hour, and writes the record that docs/serving.md shows.
fuzz: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python tests/robustness/fuzz_service.py $(if $(REQUESTS),--requests $(REQUESTS)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(OUT),--out $(OUT))

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(OLDEST) docs/_build docs/api docs/method docs/examples build dist hgkt-report .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/.report: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[network,transport,report]'
	touch $@

$(VENV)/.page: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[serve]'
	touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[docs,network,transport,report,vision,language,serve,onnx]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test]'
	touch $@

$(VENV)/.lint: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test,lint]'
	touch $@


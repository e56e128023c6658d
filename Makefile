# Words that developers and CI share. Python 3.11+, git and make are all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo check test peers bench docs lock clean

setup: $(READY)  ## an environment of its own, from the hashed lock

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "evalctl needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(READY)

check: $(READY)  ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(READY)  ## everything that needs nothing beyond the lock
	$(BIN)/python -m pytest -m "not peers"

lock:  ## after a change of dependencies; needs uv
	uv lock
	uv export --quiet --no-dev --no-emit-project --no-header -o requirements.lock
	uv export --quiet --group dev --no-emit-project --no-header -o requirements-dev.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .peers dist site

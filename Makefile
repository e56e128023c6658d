# Words that developers and CI share. Python 3.11+, git and make are all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS := .venv-docs
PEER_LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.PHONY: setup demo check test test-commands-a-l test-commands-m-z test-modules test-crashes test-pythons \
	faults crash peers live-llm bench docs lock clean

setup: $(READY)  ## an environment of its own, from the hashed lock

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "evalctl needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

check: $(READY)  ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(READY)  ## everything that needs nothing beyond the lock; whole commands beside all the rest
	$(MAKE) --no-print-directory --jobs=3 test-commands-a-l test-commands-m-z test-modules test-crashes

test-commands-a-l: $(READY)
	$(BIN)/python -m pytest -m "not peers" tests/e2e/test_[a-l]*.py

test-commands-m-z: $(READY)
	$(BIN)/python -m pytest -m "not peers" tests/e2e/test_[m-z]*.py

test-modules: $(READY)
	$(BIN)/python -m pytest -m "not peers" --ignore=tests/e2e --ignore=tests/crash

test-pythons: $(READY)  ## the quick half of the tests on every other supported Python that this machine has
	$(BIN)/python -m tests.pythons

test-crashes: $(READY)
	$(BIN)/python -m pytest -m "not peers" tests/crash

faults: $(READY)  ## every fault of an endpoint against the command: outcome, requests and usage beside what is expected
	$(BIN)/python -m tests.peers.fault_table

crash: $(READY)  ## 300 sweeps killed at named points and at any, and resumed; RUNS=20 for fewer
	$(BIN)/python -m tests.crash.driver $(if $(RUNS),--runs $(RUNS))

peers: $(READY)  ## tests against programs that are downloaded; one that cannot be had is reported and left out
	$(BIN)/python -m tests.peers

live-llm: $(READY)  ## a suite against a real small model, on this machine; compiles its server for minutes, once
	$(BIN)/python -m tests.peers.live_llm

bench: $(READY)  ## goals, floor and evalctl side by side; QUICK=1 for a short look
	$(BIN)/python -m benchmarks.bench $(if $(QUICK),--quick)

demo: $(READY)  ## a live sweep of a bundled suite with the scripted provider: no keys, no network
	$(BIN)/evalctl --store .evalctl/demo/runs.db run demo --k 5 --allow-write --allow-process --provider scripted
	@echo
	@echo "Next:"
	@echo "  $(BIN)/evalctl --store .evalctl/demo/runs.db show last     the report again, from the stored rows"
	@echo "  $(BIN)/evalctl --store .evalctl/demo/runs.db show last/1   one run: verdicts and transcript"
	@echo "  $(BIN)/evalctl list                                        the bundled suites"
	@echo "  make test                                                     the tests; docs/index.md says how to go on"

docs: $(DOCS)/.ready  ## the documentation as a site in site/
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

$(DOCS)/.ready: requirements-docs.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "evalctl needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	touch $(DOCS)/.ready

lock:  ## after a change of dependencies; needs uv
	uv lock
	uv export --quiet --no-dev --no-emit-project --no-header -o requirements.lock
	uv export --quiet --group dev --no-emit-project --no-header -o requirements-dev.lock
	uv export --quiet --only-group docs --no-emit-project --no-header -o requirements-docs.lock
	uv pip compile $(PEER_LOCK) -o requirements-litellm.lock tests/peers/data/litellm/requirements.in
	uv pip compile $(PEER_LOCK) -o requirements-live-llm.lock tests/peers/data/live-llm/requirements.in

clean:
	rm -rf $(VENV) .venv-3.* $(DOCS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .peers dist site

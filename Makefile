# The developer's and operator's commands. `make` alone lists them.
# The environment is made once per lock file and found again by its stamp.

PYTHON ?= python3
VENV := .venv
# requirements-runtime.lock: without tests, benchmarks and tools, a third of the size
LOCK ?= requirements.lock
BIN := $(VENV)/bin
STAMP := $(VENV)/.made
# The oldest DuckDB that analysts may open the published file with, beside the installed one.
OLDEST := $(VENV)/duckdb-1.5

.DEFAULT_GOAL := help
.PHONY: help setup run test test-live soak ui check format bench docs sandbox lock clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## make the environment in .venv

$(STAMP): $(LOCK) pyproject.toml setup.py resources/lake/decode/decode.c
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"This is Python {v[0]}.{v[1]} ($(PYTHON)); 3.11, 3.12 or 3.13 is needed. Name one: make setup PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { echo "Python cannot make virtual environments here; install its venv package (on Debian: apt-get install python3-venv) and run the same command again." >&2; exit 1; }
	@echo "Installing the locked packages (once, about a minute) ..."
	@# The lock is complete, so nothing is resolved here: quicker, and older pips stumble over extras beside hashes.
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --require-hashes --requirement $(LOCK) || { echo "The packages could not be installed. Without a network this cannot work; behind a proxy or mirror configure pip for it. Then run the same command again: what was fetched is kept." >&2; exit 1; }
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/pip check --disable-pip-version-check >/dev/null
	@touch $@

run: $(STAMP) ## the main job, end to end (sandbox unless an account is configured)
	@$(BIN)/wme run

# Once, with coverage: below 95 % fails. On two cores, three workers took 560 s, four 590 s and six 670 s.
WORKERS ?= 3
test: $(STAMP) $(OLDEST)/.made ## the whole suite, with coverage
	@TEST_OTHER_DUCKDB=$(CURDIR)/$(OLDEST) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --cov --cov-report=
	@$(BIN)/coverage report --skip-covered --fail-under=95

$(OLDEST)/.made: tests/oldest-duckdb.lock | $(STAMP)
	@rm -rf $(OLDEST)
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --require-hashes --target $(OLDEST) --requirement tests/oldest-duckdb.lock
	@touch $@

soak: $(STAMP) ## the long campaigns
	@$(BIN)/python -m pytest -m soak --timeout=7200

test-live: $(STAMP) ## compare the configured account's service with what is known of it; WME_LIVE_DOWNLOADS=1 allows two downloads
	@$(BIN)/python -m tests.contract

check: $(STAMP) ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP) ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

ui: $(STAMP) ## open Dagster on http://localhost:3000
	@$(BIN)/wme ui

bench: $(STAMP) ## compare with common alternatives: minutes, then half an hour for the warehouse (20 GB) and an hour for growth
	@$(BIN)/python -m benchmarks convert --cases small,bad,drift,short,members,huge,structured
	@$(BIN)/python -m benchmarks stream
	@$(BIN)/python -m benchmarks warehouse
	@$(BIN)/python -m benchmarks growth

docs: $(STAMP) ## generate the pictures and the generated pages again (needs chromium; about two minutes)
	@$(BIN)/python -m tests.generated
	@$(BIN)/python docs/images/draw.py

sandbox: $(STAMP) ## serve the local content service and say how to call it
	@$(BIN)/wme sandbox

lock: $(STAMP) ## pin the newest allowed versions, with hashes and without addresses
	@$(BIN)/uv pip compile pyproject.toml --group test --group bench --group tools --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade --quiet --output-file requirements.lock
	@# of these, what a mirror needs where nothing is developed: the same versions and hashes, with the extra dask
	@$(BIN)/uv pip compile pyproject.toml --extra dask --group build --universal --python-version 3.11 --constraint requirements.lock \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --output-file requirements-runtime.lock
	@echo 'duckdb==1.5.*' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade --quiet --output-file tests/oldest-duckdb.lock

clean: ## remove the environment and caches; never the data
	@rm -rf $(VENV) build dist *.egg-info resources/lake/decode/_decode*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage

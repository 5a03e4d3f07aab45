# Everything runs in .venv, which holds exactly what requirements-dev.lock pins.
# `make ARGS=... test` hands arguments on to pytest, `make PYTHON=python3.13 test` picks the Python.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help demo check format test soak interop bench docs lock java clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(READY) java ## A day of orders on Spark: bronze, silver, gold, maintenance
	$(BIN)/python examples/medallion/run.py build/demo

check: $(READY) ## Format, lint, types, layers, spelling, import
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	bash -n .ci/run scripts/*.sh
	$(BIN)/python -W error -c "import polylake"

format: $(READY) ## Format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: export PYTHONDONTWRITEBYTECODE := # the many processes that tests start share what is compiled
test: $(READY) java ## Every test but soak and interop, in parallel
	$(BIN)/python -m pytest -n auto -m "not interop and not soak" $(ARGS)

soak: $(READY) java ## Kills of Spark drivers, and executors without Python; minutes long
	$(BIN)/python -m pytest -m soak $(ARGS)

interop: $(READY) ## Tests against Delta's Spark connector (by Maven) and MinIO (built with Go)
	scripts/with-delta.sh scripts/with-minio.sh $(BIN)/python -m pytest -m interop $(ARGS)

bench: $(READY) java ## Run every benchmark, or ARGS="spark cdc", and write benchmarks/RESULTS.md
	scripts/with-delta.sh $(BIN)/python benchmarks/run.py $(ARGS)
	$(BIN)/python scripts/generate_docs.py

docs: $(READY) ## Build the documentation into site/
	$(BIN)/python scripts/generate_docs.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: $(READY) ## Pin what pyproject.toml asks for; UPGRADE=1 takes the newest of everything
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" --quiet $(if $(UPGRADE),--upgrade) \
	  --output-file requirements-dev.lock

java: ## Make sure that Java 17 or newer is here, for Spark
	scripts/check-java.sh

clean: ## Remove everything that is built, except what was fetched into .cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build dist site

$(READY): requirements-dev.lock pyproject.toml scripts/install.sh
	PYTHON="$(PYTHON)" scripts/install.sh
	@touch $@

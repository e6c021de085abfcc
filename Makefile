# `make` alone lists what there is.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin

# The newest supported Python that runs. A name on the PATH alone says little: pyenv leaves dead ones.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 && echo $$p && break; \
	done)

.PHONY: help env demo test integration check clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

env: $(VENV)/.installed ## make .venv with everything that development needs, to the version of constraints.txt

# setuptools first and no build isolation: so the build's own tools are pinned as well.
$(VENV)/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed; name one: make env PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e ".[embedded,web,dense,api,metrics,hub,serve,redis,dev]"
	touch $@

demo: env ## compile a small program on this machine, from questions to a compiled directory
	$(BIN)/ragc compile experiments/demo.toml --out compiled/demo

test: env ## run the unit tests, on all cores
	$(BIN)/python -m pytest -n auto

integration: env ## run the tests against real models, servers and consumers
	$(BIN)/python -m pytest -m integration

check: env ## lint, formatting, types, and the wheel
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --level error
	$(BIN)/python tests/check_wheel.py

clean: ## remove .venv and everything that can be made again
	rm -rf $(VENV) build dist ragc.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

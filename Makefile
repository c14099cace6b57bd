# Everything runs from a virtual environment in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready

.PHONY: help demo test test-slow check format docs bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The stamp, not .venv/bin/python, says that the environment is whole: python is there before pip is. An environment that
# was made without this file and has pip is used as it is.
$(VENV)/.made:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "steelyard needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@test -x $(BIN)/pip || "$(PYTHON)" -m venv --clear $(VENV) || { rm -rf $(VENV); echo "no virtual environment could be made, for the \
	reason above; if it speaks of ensurepip, install the package python3-venv (Debian, Ubuntu)"; exit 1; }
	@touch $@

$(RUN_READY): pyproject.toml $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[llamacpp,embed,hub,demo]'
	@touch $@

$(DEV_READY): pyproject.toml $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[llamacpp,embed,hub,demo,torch,plots,dev]'
	@touch $@ $(RUN_READY)

demo: $(RUN_READY) ## Pull small models, serve them, embed through a hub and decide (ONCE=1: then stop)
	$(BIN)/steelyard models pull all-minilm-l6-v2-int8
	$(BIN)/steelyard models pull paraphrase-minilm-l3-v2
	$(BIN)/steelyard models pull embedded
	$(BIN)/python -m examples.demo $(if $(ONCE),--once)

test: $(DEV_READY) ## Run every test but the slow ones
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(DEV_READY) ## Run every test, the slow ones too
	$(BIN)/python -m pytest

check: $(DEV_READY) ## Check format, lint, types, import directions and the generated docs
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: $(DEV_READY) ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(DEV_READY) ## Write the generated parts of docs/
	$(BIN)/python docs/generate.py

bench: $(DEV_READY) ## Run the benchmarks (minutes; leave the machine alone meanwhile)
	$(BIN)/steelyard models pull qwen2.5-coder-0.5b
	$(BIN)/python benchmarks/decide.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/steelyard models pull all-minilm-l6-v2-int8
	$(BIN)/python benchmarks/embed.py
	$(BIN)/python -m benchmarks.catalogue
	$(BIN)/python -m benchmarks.gateway
	$(BIN)/python -m benchmarks.comparisons

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build

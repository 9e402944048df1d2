# Needs Python 3.11 or newer, make and a Python package registry; `uv` is used when it is there.
#
# One virtual environment, .venv, filled twice: with what the demo needs, or with what development needs too. A stamp file
# for each makes it follow pyproject.toml.

VENV := .venv
BIN := $(VENV)/bin
# Set PYTHON to choose another interpreter: make PYTHON=/opt/python3.12/bin/python3 test
PYTHON ?=

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Without bytecode every import is two to four times slower, which would be what the benchmarks measure.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# pyright runs on the node of its own wheel, whatever the machine has; otherwise it may fetch one.
export PYRIGHT_PYTHON_GLOBAL_NODE = 0

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo demo-real
demo: $(VENV)/.cli ## an agent at work in your terminal, offline
	@$(BIN)/zett demo
demo-real: $(VENV)/.cli ## an agent and a real, tiny model on this machine
	@$(BIN)/python -m zett_agent.cli.demo_real

# Where each interpreter has an environment of its own: .venv-3.12 and so on. One that is not there is named, not failed.
PYTHONS := 3.11 3.12 3.13 3.14
# What tells one interpreter from another is asked of it: a name on PATH may be a shim that fails.
named = test "$$("$$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$$version"

.PHONY: test-pythons test-loops
test-pythons: ## every test on each Python from 3.11 on that is found: on PATH, by pyenv, by uv
	@failed=; \
	for version in $(PYTHONS); do \
	    found=; \
	    for candidate in "python$$version" "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version".*/bin/python \
	            "$$(uv python find --no-project "$$version" 2>/dev/null)" python3; do \
	        if $(named); then found=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then echo "Python $$version: not found, not tested"; continue; fi; \
	    echo "Python $$version: $$found"; \
	    $(MAKE) --no-print-directory test "PYTHON=$$found" "VENV=.venv-$$version" || failed="$$failed $$version"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed on$$failed" >&2; exit 1; fi
test-loops: $(VENV)/.dev ## every test on uvloop and, from Python 3.12 on, with eager asyncio tasks
	@$(BIN)/python -m pytest --loop=uvloop
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then \
	    $(BIN)/python -m pytest --loop=eager; \
	else \
	    echo "no eager asyncio tasks before Python 3.12: make test-loops VENV=.venv-3.12 PYTHON=..."; \
	fi

.PHONY: dev test docs-test check bench bench-where bench-peers
dev: $(VENV)/.dev ## a virtual environment with all that development needs
test: $(VENV)/.dev ## every test, those of real peers and of the documentation too
	@$(BIN)/python -m pytest
docs-test: $(VENV)/.dev ## run every code block of README.md and docs/
	@$(BIN)/python -m pytest tests/docs
check: $(VENV)/.dev ## what CI runs: format, types, every test, coverage
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m pytest --cov --cov-report=json:.coverage.json
	$(BIN)/python -m tests.architecture.coverage_floors .coverage.json
bench: $(VENV)/.bench ## measure against a bare asyncio loop, write docs/performance.*
	@$(BIN)/python -m bench
bench-where: $(VENV)/.dev ## where the time of each workload goes
	@$(BIN)/python -m bench.where
bench-peers: $(VENV)/.dev ## the same work on other runtimes, each installed below .bench/
	@$(BIN)/python -m bench.peers

.PHONY: format golden clean
format: $(VENV)/.dev ## mend what ruff can mend
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
golden: $(VENV)/.dev ## write tests/golden/public_api.json and docs/requirements.md anew
	@$(BIN)/python -m tests.architecture.public_api --write
	@$(BIN)/python -m tests.architecture.requirements --write
clean: ## remove the virtual environment and all that was built
	rm -rf $(VENV) .venv-3.* .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* build dist src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call install,EXTRA)
define install
	@if command -v uv >/dev/null; then \
	    uv pip install --quiet --python $(BIN)/python --editable '.[$(1)]'; \
	else \
	    $(BIN)/python -m pip install --quiet --editable '.[$(1)]'; \
	fi
endef

$(VENV)/.cli: pyproject.toml | $(BIN)/python
	@echo "installing zett-runtime[cli] into $(VENV)"
	$(call install,cli)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing zett-runtime[dev] into $(VENV)"
	$(call install,dev)
	@touch $(VENV)/.cli $@

$(VENV)/.bench: pyproject.toml $(VENV)/.dev
	@echo "installing zett-runtime[bench] into $(VENV)"
	$(call install,bench)
	@touch $@

# A name on PATH may be a shim that fails, so each candidate is tried, not just looked up.
$(BIN)/python:
	@found=; need='sys, venv, ensurepip'; \
	if command -v uv >/dev/null; then need=sys; fi; \
	for candidate in $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	    if "$$candidate" -c "import $$need; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then \
	        found=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "No Python 3.11 or newer with the modules venv and ensurepip: install one, or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	rm -rf $(VENV); \
	if command -v uv >/dev/null; then \
	    uv venv --quiet --python "$$("$$found" -c 'import sys; print(sys.executable)')" $(VENV); \
	else \
	    "$$found" -m venv $(VENV); \
	fi

# `make` alone prints this help. Every target makes the environment first when it must.
# Needs Debian 12 (or alike) with Python 3.11 or newer, its venv module, gcc; Java 17 for the Spark parts.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := spark,web,test,dev

# Installed once for each change of pyproject.toml; compiled once for each change of the kernels.
DEPS := $(VENV)/.installed
KERNELS := $(VENV)/.compiled
KERNEL_SOURCES := $(shell find src/headwater/kernels -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h')

ARGS ?=
# Tests of one file run one after another; those of two files side by side. Those with Spark share one process.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup run test soak lint format bench bench-spark clean

help: ## this text
	@echo "Headwater: a replicated in-memory store that speaks and stores what Tarantool does."
	@echo
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo
	@echo "ARGS=... is handed on: make test ARGS='tests/wire -x', make run ARGS='--nodes 1'."

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Headwater needs Python 3.11 or newer; set PYTHON=/path/to/python3.11." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || \
		{ echo "No venv module: on Debian, apt install python3-venv." >&2; rm -rf $(VENV); exit 1; }

$(DEPS): pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --upgrade pip 'setuptools>=77' wheel 'Cython>=3.1'
	$(PIP) install --quiet --no-build-isolation --editable '.[$(EXTRAS)]'
	@if $(BIN)/python -c 'import icu' 2>/dev/null; then :; \
	elif command -v pkg-config >/dev/null && pkg-config --exists icu-i18n && command -v g++ >/dev/null; then \
		$(PIP) install --quiet --no-build-isolation --editable '.[icu]' || \
			echo "PyICU did not compile: the collations unicode and unicode_ci stay refused by name." >&2; \
	else \
		echo "libicu-dev, pkg-config or g++ is absent: going on without PyICU;" \
			"the collations unicode and unicode_ci stay refused by name." >&2; \
	fi
	@touch $@

$(KERNELS): $(DEPS) $(wildcard setup.py) $(KERNEL_SOURCES)
	@if [ -f setup.py ]; then $(BIN)/python setup.py --quiet build_ext --inplace; fi
	@$(BIN)/python -c 'from headwater import kernels; \
		print("kernels:", "compiled" if kernels.compiled else "plain Python (no compiler, or it failed: slow)")'
	@$(BIN)/python -m compileall -q src # a node starts in half the time
	@touch $@

setup: $(KERNELS) ## make .venv with Headwater, every extra and the test tools

run: setup ## start three nodes on loopback with a little traffic, streamed into data/lake; their data stays in var/run
	@$(BIN)/python -m headwater.cli demo --traffic --lake data/lake $(ARGS)

test: setup ## every test (below 15 minutes); without tarantool the interop tests are skipped
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

soak: setup ## the full counts of the long runs, hours, resumable
	$(BIN)/python -m pytest -m "soak or slow" $(ARGS)

lint: setup ## ruff and mypy, strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## the same work on Headwater and on the installed Tarantool, with the ratio
	$(BIN)/python -m bench $(ARGS)

bench-spark: setup ## the pipeline beside what Spark and the server do by themselves
	$(BIN)/python -m bench.spark $(ARGS)

clean: ## remove what was built and the environment; data in var/ stays
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/headwater/kernels/*.so src/headwater/kernels/*.c src/headwater/kernels/*.html
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +

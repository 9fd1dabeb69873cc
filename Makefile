# Every target sets up what it needs: Python 3.11 or newer and pip are enough. All paths are
# relative, so a clone may live anywhere. `make help` lists the targets.

PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
	echo $$name && break; done)
WORKERS ?= 2

VENV := .venv
RUN := $(VENV)/bin/python -m
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs
PEERS := .venv-bench
PEERS_READY := $(PEERS)/.ready
RESULTS := benchmarks/results
DOCUMENTATION := tests/docs
PIP_QUIET := -qq --no-input --disable-pip-version-check
PYTHON_FILES := $(wildcard src tests scripts benchmarks suites examples docs/_ext docs/conf.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo check lint types imports test versions thorough random check-newest check-oldest check-docs docs check-wheel coverage browser format bench report suite-jax suite-torch suite-onnx-files suite-paddle conformance roundtrip size lock stubs proto wheel clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | \
		while IFS="$$(printf '\t')" read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: $(READY) ## create .venv with the locked packages and this project

# The outer pip fills the new environment (pip itself included, from the lock), so the
# interpreter's own `ensurepip`, which some systems leave out, is not needed.
$(READY): requirements.lock pyproject.toml
	@test -n '$(PYTHON)' || { echo 'Braces needs Python 3.11 or newer; name it: make PYTHON=...'; exit 1; }
	@echo 'Setting up $(VENV): a few minutes the first time.'
	@$(RUN) pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(VENV)/bin/python install $(PIP_QUIET) -r requirements.lock
	@$(RUN) pip install $(PIP_QUIET) --no-deps --no-build-isolation --editable .
	@touch $(READY)

demo: $(READY) ## a first look: run the demo
	@$(VENV)/bin/braces demo

# What needs no test runs beside the tests; its output follows theirs, since it is short.
check: $(READY) ## everything that CI runs
	@$(MAKE) --no-print-directory --keep-going lint types imports >$(VENV)/.checked 2>&1 & \
	others=$$!; trap "kill $$others" INT TERM; \
	$(MAKE) --no-print-directory --keep-going test versions; tests=$$?; \
	wait $$others; others=$$?; cat $(VENV)/.checked; exit $$((tests | others))

lint: $(READY) ## style, format, generated files
	$(RUN) ruff check $(PYTHON_FILES)
	$(RUN) ruff format --check $(PYTHON_FILES)
	$(VENV)/bin/python scripts/generate_proto.py --check
	$(VENV)/bin/python scripts/generate_stubs.py --check
	$(VENV)/bin/python scripts/public_names.py --check

types: $(READY) ## strict types
	$(RUN) basedpyright --pythonpath $(VENV)/bin/python

imports: $(READY) ## the layers: imports point down only
	$(VENV)/bin/lint-imports --no-logo

test: $(READY) ## tests, docstring examples and documentation
	$(RUN) pytest -n $(WORKERS) --dist worksteal -m 'not thorough'

versions: $(READY) ## a short share of check-newest
	$(VENV)/bin/python scripts/check_versions.py newest --share --workers $(WORKERS)

thorough: $(READY) ## tests of which `make check` runs a share
	$(RUN) pytest -n $(WORKERS) --dist worksteal -m 'thorough and not many_programs' --timeout 1200 --durations 20

random: $(READY) ## thousands of random programs, rewritten and edited
	$(RUN) pytest -n $(WORKERS) --dist worksteal -m many_programs --timeout 1200 tests/random_programs

check-newest: $(READY) ## tests of dependencies in the newest versions that pyproject.toml allows
	$(VENV)/bin/python scripts/check_versions.py newest --workers $(WORKERS)

check-oldest: $(READY) ## the same in the oldest ones
	$(VENV)/bin/python scripts/check_versions.py oldest --workers $(WORKERS)

docs: $(DOCS_READY) ## build the pages of the documentation into docs/_build/html, and check them
	$(RUN) sphinx --quiet --fail-on-warning --keep-going --jobs auto -d docs/_build/doctrees docs docs/_build/html
	$(RUN) pytest tests/site

# A few small packages beside the locked ones, whose versions stay as they are.
$(DOCS_READY): $(READY) pyproject.toml
	@grep -v '^ *#' requirements.lock | sed 's/ *\\$$//; /^ *--hash/d' >$(VENV)/constraints.txt
	@$(RUN) pip install $(PIP_QUIET) -c $(VENV)/constraints.txt --group docs
	@touch $(DOCS_READY)

check-docs: $(READY) ## run all code of the documentation
	$(RUN) pytest -n $(WORKERS) --dist worksteal --timeout 1200 $(DOCUMENTATION)

check-wheel: $(READY) ## build the wheel, check it, and run the demo from it (TAG=... is compared)
	$(VENV)/bin/python scripts/check_wheel.py --tag '$(TAG)'

# The report appears after failed tests too. TESTS=... chooses tests.
coverage: $(READY) ## lines and branches that tests run, least covered files first
	$(RUN) coverage erase
	$(RUN) coverage run -m pytest -n $(WORKERS) --dist worksteal --timeout 1200 -m 'not thorough' $(TESTS); \
	tests=$$?; $(RUN) coverage combine --quiet && $(RUN) coverage html --quiet && \
	$(RUN) coverage report --sort=cover --skip-covered && exit $$tests

browser: $(READY) ## test pages in a headless Chromium (CHROMIUM=... names one, TESTS=... chooses tests)
	$(RUN) pytest $(or $(TESTS),tests/browser)

format: $(READY) ## mend what `make lint` can mend by itself
	$(RUN) ruff check --fix $(PYTHON_FILES)
	$(RUN) ruff format $(PYTHON_FILES)

bench: $(READY) ## measure speed (WHAT="..." passes arguments on)
	$(RUN) benchmarks $(WHAT)

report: $(PEERS_READY) ## the same beside every peer, as tables and pictures (WHAT as above)
	$(PEERS)/bin/python -m benchmarks --report $(RESULTS) $(WHAT)

# Several gigabytes, so they are kept apart; PyTorch by default is one for GPUs, which is larger
# still: its own index of packages for CPUs, as PIP_EXTRA_INDEX_URL, has the other one.
$(PEERS_READY): $(READY) pyproject.toml
	@echo 'Setting up $(PEERS): several minutes the first time.'
	@$(PEERS)/bin/python -m pip --version >/dev/null 2>&1 || \
		$(PYTHON) -m venv --clear --without-pip $(PEERS)
	@grep -E '^(jax|jaxlib|numpy|optax)==' requirements.lock >$(PEERS)/constraints.txt
	@$(RUN) pip --python $(PEERS)/bin/python install $(PIP_QUIET) -c $(PEERS)/constraints.txt \
		--group bench --editable . pip
	@touch $(PEERS_READY)

# One environment for each suite, since their libraries do not fit together. WHAT passes
# arguments on: `make suite-jax WHAT="--shard 0/14 --group lax"`.
suite-jax: .venv-suite-jax/.ready ## JAX's own tests and libraries of JAX (WHAT passes arguments on)
suite-torch: .venv-suite-torch/.ready ## PyTorch's databases of operators and modules, architectures
suite-onnx-files: .venv-suite-onnx-files/.ready ## ONNX files of other packages, and of exporters
suite-paddle: .venv-suite-paddle/.ready .venv-paddle/.ready ## models, layers and programs of Paddle
suite-paddle: export PADDLE_PYTHON ?= $(CURDIR)/.venv-paddle/bin/python
suite-jax suite-torch suite-onnx-files suite-paddle: suite-%:
	.venv-suite-$*/bin/python -m suites $* --workers $(WORKERS) --write $(WHAT)

# Paddle itself, which needs another NumPy than JAX.
.venv-paddle/.ready: pyproject.toml
	@echo 'Setting up .venv-paddle: several minutes the first time.'
	@$(PYTHON) -m venv --clear .venv-paddle
	@.venv-paddle/bin/python -m pip install $(PIP_QUIET) "pip>=25.1"
	@.venv-paddle/bin/python -m pip install $(PIP_QUIET) --group paddle
	@touch $@

.venv-suite-%/.ready: $(READY) pyproject.toml
	@echo 'Setting up .venv-suite-$*: several minutes the first time.'
	@.venv-suite-$*/bin/python -m pip --version >/dev/null 2>&1 || \
		$(PYTHON) -m venv --clear --without-pip .venv-suite-$*
	@grep -E '^(jax|jaxlib|optax)==' requirements.lock >.venv-suite-$*/constraints.txt
	@$(RUN) pip --python .venv-suite-$*/bin/python install $(PIP_QUIET) \
		-c .venv-suite-$*/constraints.txt --group suite-$* --editable . pip
	@touch $@

conformance: $(READY) ## all of ONNX's backend suite; writes docs/tables/conformance.md
	$(VENV)/bin/python scripts/conformance.py

roundtrip: $(READY) ## programs through ONNX and back; writes docs/tables/round_trip.md
	$(VENV)/bin/python scripts/round_trip.py

size: $(READY) ## lines of code per package
	@$(VENV)/bin/python scripts/size.py

lock: $(READY) ## refresh requirements.lock to the newest versions that fit
	$(VENV)/bin/python scripts/lock.py

stubs: $(READY) ## regenerate the typed stubs of operator functions and optimizers, and the list of names
	$(VENV)/bin/python scripts/generate_stubs.py
	$(VENV)/bin/python scripts/public_names.py

proto: $(READY) ## regenerate the protobuf module from program.proto
	$(VENV)/bin/python scripts/generate_proto.py

wheel: $(READY) ## build a wheel and a source archive into dist/
	$(RUN) hatchling build

clean: ## remove .venv and everything that was generated
	rm -rf $(VENV) $(PEERS) .venv-newest .venv-oldest docs/_build docs/files docs/reference dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

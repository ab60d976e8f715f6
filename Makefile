# Every target sets itself up: the first call creates .venv from requirements.lock (what likeset needs to run) and, for
# work on likeset itself, requirements-dev.lock (everything: tests, lint, the optional engines); later ones reuse it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPED := $(VENV)/.developed

LOCKED := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

SPLIT_VENV := .venv-split
SPLIT_PYTHON ?= $(PYTHON)
SPLIT_NEEDS := src/likeset/split/requirements-split

KILLS ?= 1000
MAIL_KILLS ?= $(shell expr $(KILLS) / 5)
SPLIT_KILLS ?= $(shell expr $(KILLS) / 10)
EXAMPLES ?= 40
MARKETS ?= 12000
SEED := $(or $(LIKESET_SEED),$(shell date +%s))
SOAK := LIKESET_SEED=$(SEED) LIKESET_EXAMPLES=$(EXAMPLES)

# Tests start many programs: none of them should compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

# $(call typed,NAME,--option): what was typed after make; a variable of the same name in the environment is another's.
typed = $(if $(filter command,$(origin $(1))),$(2) '$(subst ','\'',$($(1)))')

.PHONY: help demo study split test simulate slow browser soak golden docs faults check lint types format bench bench-quick lock clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "likeset needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVELOPED): $(INSTALLED) requirements-dev.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock
	@touch $@

demo: $(INSTALLED) ## match a target on bundled data, print a table, draw a picture
	$(BIN)/likeset demo

study: $(DEVELOPED) ## run a study: NAME=digits, with DATA, SEEDS, SIZES, EPSILON, METHODS, WORKERS, OUT; without NAME the list
	@$(BIN)/python -m studies $(call typed,NAME) $(call typed,DATA,--data) $(call typed,SEEDS,--seeds) \
	  $(call typed,SIZES,--sizes) $(call typed,EPSILON,--epsilon) $(call typed,METHODS,--methods) \
	  $(call typed,WORKERS,--workers) $(call typed,OUT,--out)

# SPU wants Python 3.10 or 3.11, and a numpy that pyarrow does not: the worker's environment is apart.
split: $(INSTALLED) ## make .venv-split, the environment of the split curator's workers; SPLIT_PYTHON names a Python 3.10 or 3.11
	@$(BIN)/likeset split setup --at $(SPLIT_VENV) --python $(SPLIT_PYTHON)

test: $(DEVELOPED) ## run the tests; the same ones with the same coins each time
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

simulate: $(DEVELOPED) ## replay one seed of the simulated market with all that happens: SEED=7; MINIMISE=1 drops events of a failing one
	$(BIN)/python tests/simulation --seed $(SEED) $(if $(MINIMISE),--minimise)

# More at a time than there are cores: many of them start a network of processes, and wait for half of their time.
# Mechanisms do not depend on the kernels that OpenBLAS chooses for the processor.
slow: $(DEVELOPED) ## run the slow tests: networks of processes with certificates, kills, pages word by word
	$(BIN)/python -m pytest -m "slow and not soak" --numprocesses 3 --dist worksteal
	for processor in Haswell Sandybridge; do \
	  OPENBLAS_CORETYPE=$$processor $(BIN)/python -m pytest -q --numprocesses auto tests/privacy || exit 1; done

browser: $(DEVELOPED) ## the console in the system's Chromium (Debian: chromium); skips where there is none. IMAGES=1 keeps pictures in docs/images
	@command -v chromium chromium-browser >/dev/null || echo "there is no Chromium here (Debian: apt-get install chromium): skipped"
	$(if $(IMAGES),LIKESET_REWRITE_IMAGES=1 )$(BIN)/python -m pytest -m slow tests/app/test_console_browser.py

soak: $(DEVELOPED) ## the tests with other coins and EXAMPLES times the examples, KILLS kills of parties, MARKETS simulated markets (long)
	@echo "LIKESET_SEED=$(SEED) repeats it"
	$(SOAK) $(BIN)/python -m pytest --numprocesses auto --dist worksteal
	$(SOAK) LIKESET_MAIL_KILLS=$(MAIL_KILLS) LIKESET_SPLIT_KILLS=$(SPLIT_KILLS) $(BIN)/python -m pytest -m soak -rP
	$(BIN)/python tests/simulation --seeds $(SEED) $$(($(SEED) + $(MARKETS))) --processes $$(nproc) --coverage

golden: $(DEVELOPED) ## write anew what the golden runs came to; git diff then shows what users will notice
	rm -f tests/golden/*.json
	LIKESET_REWRITE_GOLDEN=1 $(BIN)/python -m pytest tests/golden

docs: $(DEVELOPED) ## build the documentation into site/, strictly: a dead link or anchor ends it; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

faults: $(DEVELOPED) ## put one-line faults into a copy of the source, one at a time: tests must catch each (long; FAULTS="id id" for some)
	$(BIN)/python tests/faults/run_faults.py $(FAULTS)

lint: $(DEVELOPED) ## style and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(DEVELOPED) ## static types
	$(BIN)/mypy

check: lint types test ## everything that must be green before a change lands

format: $(DEVELOPED) ## rewrite the layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEVELOPED) ## compare with peers, each in an environment of its own (long)
	$(BIN)/python benchmarks/peers.py

bench-quick: $(DEVELOPED) ## ten ratios of CPU time against the committed ones, in two minutes; fails outside a band (ONLY=labels, WRITE=1)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/quick.py $(call typed,ONLY,--only) \
	  $(if $(WRITE),--write)

lock: ## resolve requirements.lock and requirements-dev.lock anew
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	.venv-lock/bin/uv pip compile $(LOCKED) --all-extras --output-file requirements-dev.lock pyproject.toml
	.venv-lock/bin/uv pip compile $(LOCKED) --extra build --constraint requirements-dev.lock \
	  --no-annotate --output-file requirements.lock pyproject.toml
	.venv-lock/bin/uv pip compile $(LOCKED) --no-annotate --output-file $(SPLIT_NEEDS).lock $(SPLIT_NEEDS).in

clean: ## remove what the targets made
	rm -rf $(VENV) .venv-* site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Every target sets up what it needs in .venv: a fresh machine needs python3 (3.11+) and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check install --constraint constraints.txt

# Bytecode is kept wherever it is turned off, too: tests start some hundred interpreters.
export PYTHONDONTWRITEBYTECODE :=

# Two more than cores: some tests wait for Spark, for databases and for other processes.
WORKERS = $$($(BIN)/python -c 'import os; print(2 + len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count()))(0)))')

.DEFAULT_GOAL := help
.PHONY: help demo test check lint site package bench audit attack experiments docs clean

help:
	@echo "make demo    install privcube in .venv and run the main job on an example, in privcube-demo"
	@echo "make test    run the whole test suite"
	@echo "make check   lint, types, import contracts, doctests, generated pages, the documentation site, quick studies"
	@echo "make lint    the first part of it: lint, types, import contracts"
	@echo "make site    build the documentation site in build/site"
	@echo "make package build the package in dist, install it in an empty environment and run the demo from there"
	@echo "make bench   measure speed and memory"
	@echo "make audit   attack the noise with a million runs a side, 10,000 plans, 300 kills (half an hour)"
	@echo "make attack  fuzz inputs 120,000 times, kill 10,000 times, mutate the privacy core (hours; ATTACK=20 KILLS=400 MUTANTS=20: less)"
	@echo "make experiments   regenerate docs/results and the pages made of it in docs/guide (half an hour; FULL=1: other systems on everything, hours)"
	@echo "make docs    write the command reference, and what commands and the notebook print, into the pages again"
	@echo "make clean   remove .venv and caches"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "privcube needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; exit 2; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing privcube"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.development: $(VENV)/.runtime
	@echo "installing the tools for tests and checks"
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.runtime
	@rm -rf privcube-demo
	@$(BIN)/privcube demo privcube-demo

# Chromium opens pages in tests, which fail without it; R reads a release in one test, which is skipped without it.
# PostgreSQL comes as a wheel for Python 3.11 and 3.12, and from the system for later ones.
$(VENV)/.programs: $(BIN)/python
	@missing=; command -v chromium >/dev/null || missing="chromium fonts-dejavu-core"; command -v Rscript >/dev/null || missing="$$missing r-base-core"; \
	$(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || command -v initdb >/dev/null || \
	  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing $$missing for tests"; export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq >/dev/null 2>&1; \
	  for program in $$missing; do apt-get install -y -qq --no-install-recommends $$program >/dev/null 2>&1 || echo "$$program could not be installed"; done; \
	fi
	@touch $@

test: $(VENV)/.development $(VENV)/.programs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --ignore tests/experiments

lint: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint site
	$(BIN)/python -m pytest --doctest-modules --doctest-glob='*.md' src README.md docs
	$(BIN)/python tools/cli_reference.py --check
	OMP_NUM_THREADS=1 $(BIN)/python tools/pages.py --check
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/experiments

# Read it with: python -m http.server --directory build/site
site: $(VENV)/.development
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --doctree-dir build/doctrees docs build/site
	$(BIN)/python tools/links.py build/site

package: $(VENV)/.development
	rm -rf dist build/empty && mkdir -p build/empty
	$(BIN)/python -m hatchling build
	$(PYTHON) -m venv build/empty/venv
	build/empty/venv/bin/python -m pip -qq --disable-pip-version-check install --constraint constraints.txt dist/*.whl
	cd build/empty && venv/bin/privcube demo

bench: $(VENV)/.development
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/framework.py
	$(BIN)/python -m benchmarks.planning
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/counting.py
	$(BIN)/python benchmarks/measures.py --spark
	$(BIN)/python benchmarks/checking.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/sql_counting.py
	$(BIN)/python benchmarks/spark_counting.py

audit: $(VENV)/.development
	PRIVCUBE_AUDIT_BUNDLES=1000000 PRIVCUBE_AUDIT_PLANS=10 PRIVCUBE_AUDIT_SCHEMAS=75 PRIVCUBE_KILLS=300 $(BIN)/python -m pytest \
	  tests/audit tests/cli/test_kills.py tests/ledger/test_races_and_crashes.py tests/planning/test_random_plans.py \
	  tests/planning/test_any_schema.py tests/planning/test_realistic_schemas.py tests/planning/search/test_annealing.py \
	  tests/golden/test_whole_releases.py tests/golden/test_reference.py tests/every_strategy

$(VENV)/.attack: $(VENV)/.development
	@echo "installing the tool that makes mutants"
	@$(PIP) --editable '.[attack]'
	@touch $@

# In shares: make attack ATTACK=20 KILLS=400 MUTANTS=20 is a first look, one mutant in twenty among it.
ATTACK ?= 500
KILLS ?= 10000
MUTANTS ?= 1

attack: $(VENV)/.attack
	PRIVCUBE_ATTACK=$(ATTACK) PRIVCUBE_KILLS=$(KILLS) PRIVCUBE_AUDIT_SCHEMAS=75 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup \
	  tests/attack tests/noise tests/model/documents/test_spec_fuzz.py tests/cli/test_neighbors.py tests/cli/test_kills.py tests/ledger \
	  tests/released/artifact/test_every_byte.py tests/released/artifact/test_parquet_footer.py tests/released/artifact/test_hostile.py tests/planning/test_any_schema.py
	PRIVCUBE_MUTANTS=$(MUTANTS) $(BIN)/python tools/mutants.py

experiments: $(VENV)/.development
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m experiments all $(if $(FULL),--full)

docs: $(VENV)/.development
	$(BIN)/python tools/cli_reference.py
	OMP_NUM_THREADS=1 $(BIN)/python tools/pages.py

clean:
	rm -rf $(VENV) build dist privcube-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

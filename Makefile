# Everything here works on a fresh clone with Python >= 3.11 and make: each target first makes `.venv` if it must.
# ARGS goes to the tool behind a target:  make test ARGS="-k codec --seed 7"    make mutants ARGS="--list"

.DEFAULT_GOAL := help
.PHONY: help .venv demo quick test test-full check mutants bench docs pictures dist clean

PYTHON ?=
ARGS ?=

# Tests start thousands of processes, and each would compile all that it imports where this is set.
unexport PYTHONDONTWRITEBYTECODE

CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python)
FITS := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
READY := .venv/.ready
RUN := .venv/bin/python

help: ## say what there is to make
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.venv: $(READY) ## make the environment (PYTHON=... picks the interpreter)

# The stamp comes last: an install that was interrupted is done again. The build tools go in first, pinned, and the
# project is built with them, so nothing unpinned is fetched for the build behind our back.
$(READY): pyproject.toml constraints.txt
	@$(RUN) -c '$(FITS)' 2>/dev/null || { \
	    for python in $(CANDIDATES); do \
	        if "$$python" -c '$(FITS)' 2>/dev/null; then \
	            echo "making .venv with $$("$$python" --version)"; \
	            exec "$$python" -m venv --clear .venv; \
	        fi; \
	    done; \
	    echo "Ramify needs Python 3.11 or newer with the venv module. Tried: $(CANDIDATES)." >&2; \
	    echo "Name one that has it: make .venv PYTHON=/path/to/python3" >&2; \
	    exit 1; }
	@echo "installing what constraints.txt pins"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

demo: $(READY) ## grow a million tasks, kill -9 the program twice, audit the log
	$(RUN) -m ramify demo $(ARGS)

quick: $(READY) ## the tests for every edit, about a minute: protocol model, contract in memory, kernel, house rules
	$(RUN) -m pytest -q -n 2 --dist worksteal -m "not full" tests/protocol tests/model tests/house/test_rules.py \
	    tests/house/test_floors.py tests/kernel/core/test_core.py $(ARGS)
	$(RUN) -m pytest -q -n 2 --dist worksteal -m "not full" tests/store/test_conformance.py -k memory $(ARGS)

test: $(READY) ## every test except the long tier, two at a time (ARGS="-n 0": one after the other)
	$(RUN) -m pytest -n 2 --dist worksteal -m "not full" $(ARGS)

# With a space, a reports/ that is there already would be taken for a folder of tests.
test-full: $(READY) ## every test, two at a time; counts, seeds and seconds go to reports/*.json
	$(RUN) -m pytest -n 2 --dist worksteal --reports=reports $(ARGS)

check: $(READY) ## format, lint, types, floors, house rules
	$(RUN) -m ruff format --check
	$(RUN) -m ruff check
	$(RUN) -m mypy
	.venv/bin/lint-imports
	$(RUN) -m tools.check

mutants: $(READY) ## plant bugs in copies of the tree, one a core at a time; the named tests must catch each
	$(RUN) -m tools.mutants $(ARGS)

bench: $(READY) ## measure (ARGS="store --json")
	$(RUN) -m bench $(ARGS)

docs: $(READY) ## build the documentation into build/site; open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict $(ARGS)

pictures: $(READY) ## draw docs/pictures/*.svg anew, from code and from real runs
	$(RUN) -m tools.pictures $(ARGS)

# In place of the build front end: the build tool itself, which `make .venv` pins. Nothing is fetched.
dist: $(READY) ## build the wheel and the source distribution into dist/
	rm -rf dist
	$(RUN) -m hatchling build -d dist

clean: ## remove reports, builds and caches; .venv stays
	rm -rf reports build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +

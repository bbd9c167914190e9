# For people and for CI; `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3.11
VENV ?= .venv
PIP_VERSION := 26.3
BIN := $(VENV)/bin
# exec: a signal for this process must reach Python, which ends what it started.
DEMO := exec env PYTHONPATH=docker $(BIN)/python -m demo
# Named by what was installed: a change of any of these files installs again, anything else skips.
STAMP := $(VENV)/.installed-$(shell cat constraints.txt pyproject.toml docker/requirements-encoder.txt | sha256sum | cut -c1-16)

.PHONY: help venv lint test nightly bench mutants demo demo-down cluster cluster-down images clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: $(STAMP) ## the virtual environment, from constraints.txt

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	  echo "make venv: expected CPython 3.11 as '$(PYTHON)'; it is missing or another version. Install it" \
	    "(Debian 12: apt-get install python3.11 python3.11-venv) or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "make venv: $(PYTHON) can't make an environment; on Debian: apt-get install python3.11-venv" >&2; exit 1; }
	@echo "installing into $(VENV) (about 3 minutes when new)"
	@$(BIN)/python -m pip install --quiet pip==$(PIP_VERSION)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
	  --editable '.[all]' --group test --group lint
	@$(BIN)/python -m pip install --quiet --no-deps --requirement docker/requirements-encoder.txt
	@rm -f $(VENV)/.installed-*
	@touch $@

lint: venv ## ruff, mypy --strict on the package, import-linter
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: venv ## every test but the nightly ones; brings up the local cluster (ARGS= adds pytest arguments)
	# Two processes: most tests of the cluster wait.
	$(BIN)/python -m pytest -n 2 -m "not nightly" --evidence=build/evidence.json $(ARGS)

nightly: venv ## the tests that are too long for `make test`
	# pytest ends with 5 where no test is marked nightly.
	$(BIN)/python -m pytest -m nightly --evidence=build/evidence-nightly.json $(ARGS) || [ $$? = 5 ]

bench: venv ## benchmarks against the peers: one JSON object a line (ARGS= passes arguments)
	@$(BIN)/python -m tests.benchmarks.serving $(ARGS)
	@PYTHONPATH=docker $(BIN)/python -m tests.benchmarks.cache_hit
	@PYTHONPATH=docker $(BIN)/python -m tests.benchmarks.cache

mutants: venv ## seeded faults: each must make a test fail (ARGS= words that choose some of them)
	$(BIN)/python -m tests.mutants $(ARGS)

demo: ## from nothing to a served champion, and two refusals; leaves the services up
	@began=$$(date +%s); $(MAKE) --silent venv; $(DEMO) up --venv-seconds $$(($$(date +%s) - began))

demo-down: ## end and remove what the demo started
	@[ ! -x $(BIN)/python ] || { $(DEMO) down; }

cluster: venv ## the Kubernetes cluster: KUBECONFIG, else kind, else the local node
	@PYTHONPATH=docker $(BIN)/python -m demo.cluster up

cluster-down: ## take the local node or the kind cluster down
	@[ ! -x $(BIN)/python ] || PYTHONPATH=docker $(BIN)/python -m demo.cluster down

images: cluster ## build the training and serving images and load them into the cluster
	@PYTHONPATH=docker $(BIN)/python -m demo.images

clean: demo-down ## remove what is built here (the environment too; caches outside the checkout stay)
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

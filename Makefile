# Every target sets up what it needs in .venv, with nothing but Python 3.11 or newer: no root, no uv, no cluster.
# `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Tests start hundreds of processes of some 800 modules: those are compiled once, and not at every start.
unexport PYTHONDONTWRITEBYTECODE

# The first Python on the PATH that is new enough.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# A set is installed anew when its pins, the package's metadata or the place of the clone change, and only then.
key = $(shell { pwd; cat pyproject.toml requirements/$(1).txt; } | cksum | cut -d' ' -f1)
RUN := $(VENV)/.run-$(call key,run)
DEV := $(VENV)/.dev-$(call key,dev)
BENCH_SET := $(VENV)/.bench-$(call key,bench)

define install
	@echo "installing requirements/$(1).txt into $(VENV)"
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/$(1).txt
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@rm -f $(VENV)/.$(1)-*
endef

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Ullage needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(RUN): $(BIN)/python
	$(call install,run)
	@touch $@

$(DEV): $(BIN)/python
	$(call install,dev)
	@rm -f $(VENV)/.run-*; touch $@ $(RUN)

$(BENCH_SET): $(DEV)
	$(call install,bench)
	@touch $@

.PHONY: install
install: $(RUN) ## what `make up` needs: Ullage, its embedded API server, a kubectl

.PHONY: install-dev
install-dev: $(DEV)

.PHONY: up
up: install ## start the embedded control plane in the foreground; ARGS="--port 0 --ephemeral" passes options
	@exec $(BIN)/ullage up $(ARGS)

.PHONY: test
test: install-dev ## run the tests; ARGS="-k watch" passes options
	@$(BIN)/python -m pytest -n 3 -p no:randomly -m "not slow and not peers" $(ARGS)

.PHONY: test-slow
test-slow: install-dev ## run the slow tests: storms of kills, and peers that Go builds once; ARGS as above
	@$(BIN)/python -m pytest -n 3 -p no:randomly -m "slow and not peers" $(ARGS)

# Those among the slow tests that are about the API, whoever serves it.
SLOW_ON_KUBE := $(addprefix tests/e2e/test_,$(addsuffix .py,install install_rights ledger ledger_restored ledger_room clusters lease kubectl engine_commands reading snapshot_cli groups vm_backups vms_world vm_verbs launchers space_seed space_races space_engines space_growth snapshot_counts exec cut_hooks restores schedules sharing hostile_reviews headroom_hostile hostile_waiting headroom_machines headroom_moves headroom_scenarios headroom_storms headroom_namespace limits_hold migrations projects))

.PHONY: test-kube
test-kube: install-dev ## run tests/e2e on a real kube-apiserver and etcd, which Go builds once; ARGS as above
	@test "$${E2E_CLUSTER:-}" = 1 || $(BIN)/python -m tools.peers.kube.build >/dev/null
	@E2E_CONTROL_PLANE=kube $(BIN)/python -m pytest -n 3 -p no:randomly -m "not slow" tests/e2e $(ARGS)
	@E2E_CONTROL_PLANE=kube $(BIN)/python -m pytest -p no:randomly tests/e2e/test_snapshot_peers.py tests/e2e/test_snapshot_beside.py tests/e2e/test_group_peers.py
	@E2E_CONTROL_PLANE=kube $(BIN)/python -m pytest -n 3 -p no:randomly -m slow $(SLOW_ON_KUBE)

# Packages of tools/peers that have Go build programs which tests start. Those of `make test-peers` are the largest.
PEERS := kube longhorn snapshotter csi
LIVE_PEERS := kubevirt provisioner machine_controller

.PHONY: test-peers
test-peers: install-dev ## run KubeVirt, machine-controller and external-provisioner, which Go builds once, beside Ullage; ARGS as above
	@$(BIN)/python -m pytest -p no:randomly -m peers tests/peers $(ARGS)

.PHONY: neighbours
neighbours: install-dev ## run all tests beside programs of other projects, and write docs/neighbours.md from their reports
	@E2E_CONTROL_PLANE=kube $(BIN)/python -m pytest -p no:randomly --junitxml=.pytest_cache/neighbours.xml $$($(BIN)/python -m tools.peers.page --tests) $(ARGS); true
	@$(BIN)/python -m tools.peers.page .pytest_cache/neighbours.xml

build_each = @failed=0; for peer in $(1); do $(BIN)/python -m tools.peers.$$peer.build >/dev/null || failed=1; done; exit $$failed

.PHONY: peers
peers: install-dev ## build what Go builds for tests, once, into the user's cache: kube-apiserver, external-snapshotter, longhorn-engine
	$(call build_each,$(PEERS))

.PHONY: live-peers
live-peers: install-dev ## build what `make test-conformance` and `make test-peers` start, once, into the user's cache
	$(call build_each,conformance $(LIVE_PEERS))

.PHONY: test-conformance
test-conformance: install-dev ## run Kubernetes' own conformance tests, which Go builds once, on the embedded server; ARGS="--focus Watchers"
	@$(BIN)/python -m tests.conformance $(ARGS)

.PHONY: check
check: install-dev ## formatting, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

.PHONY: fmt
fmt: install-dev ## format the code, and mend what the linter can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

# Programs that write committed files. Each is a module that `python -m` runs.
GENERATORS := tools.proto tools.deploy tools.configuration

.PHONY: generate
generate: install-dev
	@for module in $(GENERATORS); do $(BIN)/python -m $$module; done

.PHONY: proto
proto: install-dev ## write the modules that come from .proto files anew
	@$(BIN)/python -m tools.proto

.PHONY: verify
verify: generate ## regenerate the generated files and assert that git is clean
	@git diff --exit-code --stat || { echo "generated files are stale: commit what 'make verify' wrote" >&2; exit 1; }
	@test -z "$$(git ls-files --others --exclude-standard)" || { git ls-files --others --exclude-standard >&2; echo "these files are not in git" >&2; exit 1; }

.PHONY: bench
bench: $(BENCH_SET) ## run the benchmarks, each a package in bench/; BENCH=apiserver runs one, ARGS="--objects 1000" passes options
	@for main in bench/$(or $(BENCH),*)/__main__.py; do \
		module=$$(dirname $$main | tr / .); echo "== $$module"; $(BIN)/python -m $$module $(ARGS); done

.PHONY: bench-smoke
bench-smoke: $(BENCH_SET) ## go through every benchmark once with tiny numbers, in about a minute: shows that each still runs
	@$(BIN)/python -m bench.smoke

UV = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)

.PHONY: lock
lock: $(BIN)/python ## pin the dependencies anew; ARGS=--upgrade takes newer ones
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/lock.txt
	@$(UV) pyproject.toml --extra standalone --extra clouds --group dev -o requirements/dev.txt
	@$(UV) pyproject.toml --extra standalone --group tools -c requirements/dev.txt -o requirements/run.txt
	@$(UV) --group bench -c requirements/dev.txt -o requirements/bench.txt
	@$(UV) --group lock -o requirements/lock.txt
	@! grep -nE '://|--(extra-)?index-url|--find-links' requirements/*.txt || { echo "a lock file names an address" >&2; exit 1; }

.PHONY: trace
trace: install-dev ## print the files, functions and reconciles that one request passes; ARGS=--files lists them
	@$(BIN)/python -m tools.tracer $(ARGS)

.PHONY: clean
clean: ## remove the virtual environment and every cache
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

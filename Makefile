# Everything a person runs. `make` alone explains the targets.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := engine coordination parts sql recovery spark_connector
# Three on two cores: with two, the cores are idle for a quarter of the time, while tests wait for servers
WORKERS ?= 3
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadgroup --max-worker-restart 0 --durations 20 --durations-min 5
# Of the tests of test-all: K/N, counted from 0; the second of three is 1/3
PORTION ?= 0/1
# Of the long simulation: first:end
SEEDS ?= 100:300
# Tests of Spark that run for the Python workers, and once more for the jar
BOTH_SIDES = $(shell grep -l "spark: SparkSession" tests/spark/test_spark_*.py tests/spark/test_lossless.py)
# Of the random damages: first:end
DAMAGES ?= 0:500
# Of the fuzzers: how many cases of each kind, from which seed on
FUZZ ?= 5000
FUZZ_SEED ?= 1000

# Other versions of Spark
SPARKS ?= 4.2.1 4.1.4 4.0.5
# How long the linked clusters are harmed
CHAOS_SECONDS ?= 300

# Tests start hundreds of processes: each would compile every module anew where the environment forbids to keep them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-links test test-all test-quick test-clients test-docker test-sparks test-long sweep proofs damage mutants fuzz wheel lint format bench bench-functions bench-growth hogs soak chaos chaos-links chaos-switches clean check-tools

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

check-tools:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Pando needs Python 3.11 or newer, $(PYTHON) is older: set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	@{ test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null; } || { echo "Java 17 is missing (ZooKeeper and Spark run on it): apt-get install openjdk-17-jre-headless"; exit 1; }

$(VENV)/.demo: pyproject.toml constraints.txt | check-tools
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Pando and what it needs into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | check-tools
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Pando with its development tools into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,dev,connect]'
	@touch $@

demo: check-tools $(VENV)/.demo ## Three replicas, real flights, a kill, merges, SQL and Spark; about two minutes
	@$(BIN)/python -m demo

demo-links: check-tools $(VENV)/.demo ## Three linked clusters take flights, one is killed and catches up, one is lost and replaced; about a minute
	@$(BIN)/python -m demo.links

$(VENV)/.jar: $(wildcard spark_connector/jvm/*) $(VENV)/.dev
	@$(BIN)/python -m spark_connector.jvm > $@

test: check-tools $(VENV)/.dev lint $(VENV)/.jar ## Lint, types, layering, and the tests that guard what Pando promises (about ten minutes)
	$(PYTEST) -m "not long and not docker"

test-all: check-tools $(VENV)/.dev ## The long tests, those of servers once more with worker processes, those of Spark with the jar (hours; PORTION=0/24 for the first of 24 portions)
	$(PYTEST) --portion $(PORTION) -m "long and not docker"
	PANDO_TEST_WORKERS=4 $(PYTEST) --portion $(PORTION) -m "not docker" tests/engine/front tests/cluster
	PANDO_TEST_SPARK=jvm $(PYTEST) --portion $(PORTION) -m "not docker" $(BOTH_SIDES)

test-quick: check-tools $(VENV)/.dev ## Of the tests of `make test` those without processes and Spark
	$(BIN)/pytest -n $(WORKERS) -m "not long and not cluster and not spark and not docker"

test-clients: check-tools $(VENV)/.dev ## The newest clients of the package registry, each in an environment of its own (some minutes)
	PANDO_TEST_CLIENTS=newest $(BIN)/pytest -n $(WORKERS) tests/clients

test-docker: check-tools $(VENV)/.dev ## Three linked clusters in containers, whose networks are cut and slow; needs root and a container engine (some minutes)
	$(BIN)/pytest -m docker tests/cluster/test_containers.py

test-sparks: check-tools $(VENV)/.dev ## The format and the catalog with other versions of Spark, which it downloads (a quarter of an hour)
	$(BIN)/python -m tests.spark.other_versions $(SPARKS)

sweep: check-tools $(VENV)/.dev ## Every function over 200,000 rows of every type, against ClickHouse (an hour or more, 10 GB)
	PANDO_SWEEP_ROWS=200000 $(BIN)/pytest -n $(WORKERS) --timeout 7200 tests/sql/functions

test-long: check-tools $(VENV)/.dev ## Replicated tables and whole servers under random faults, 200 seeds of each scenario (some minutes)
	PANDO_SIMULATION_SEEDS=$(SEEDS) $(BIN)/pytest -n $(WORKERS) tests/engine/tables/replicated/test_colony_simulation.py
	$(BIN)/pando simulate --seeds 200
	$(BIN)/pando simulate --moves --seeds 100
	$(BIN)/pando simulate --restores --seeds 100
	$(BIN)/pando simulate --clusters 2 --replicas 2 --seeds 100
	$(BIN)/pando simulate --clusters 3 --replicas 2 --seeds 100
	$(BIN)/pando simulate --groups --replicas 2 --rounds 1 --steps 100 --seeds 100
	$(BIN)/pando simulate --switches --groups --replicas 2 --rounds 1 --steps 60 --seeds 100
	$(BIN)/pando simulate --switches --sync --replicas 2 --rounds 1 --steps 60 --seeds 100

proofs: check-tools $(VENV)/.dev ## 20,000 histories of a table against ClickHouse, 5,000 on replicas, and all faults at all requests of replicas (hours)
	$(BIN)/python -m tests.alter histories 0:20000
	$(BIN)/python -m tests.alter histories 0:5000 --replicas
	$(BIN)/python -m tests.alter faults

damage: check-tools $(VENV)/.dev ## 500 random damages of a replica's directory, and every file operation failing (some minutes)
	$(BIN)/python -m tests.recovery damage $(DAMAGES)
	$(BIN)/python -m tests.recovery disk

mutants: check-tools $(VENV)/.dev ## Every bug that was put in on purpose (tests/mutants) must be caught (some minutes)
	$(BIN)/python -m tests.mutants

fuzz: check-tools $(VENV)/.dev ## Hostile statements, bodies and requests, and random queries beside ClickHouse; FUZZ=100000 for more of each
	$(BIN)/python -m tests.fuzz all $(FUZZ) $(FUZZ_SEED)

wheel: check-tools $(VENV)/.dev ## A wheel in dist that holds the jar for the Spark of this environment
	rm -rf build spark_connector/jvm/*.jar
	cp "$$($(BIN)/python -m spark_connector.jvm)" spark_connector/jvm/
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist . ; made=$$?; rm -rf build spark_connector/jvm/*.jar; exit $$made

lint: check-tools $(VENV)/.dev ## ruff, mypy, the layering contracts, docstrings, the size of modules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.docstrings
	@find $(PACKAGES) -name '*.py' -exec wc -l {} + | awk '$$2 != "total" && $$1 > 400 { print $$2 ": " $$1 " lines: a module has one idea, and 400 lines at most"; bad = 1 } END { exit bad }'

format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: check-tools $(VENV)/.dev ## Side by side with ClickHouse, as ratios (about ten minutes)
	$(BIN)/python -m benchmarks.run

bench-functions: check-tools $(VENV)/.dev ## CPU time of every function over 200,000 rows, beside ClickHouse's (about ten minutes)
	$(BIN)/python -m benchmarks.functions

bench-growth: check-tools $(VENV)/.dev ## How costs grow with parts, columns, mutations, tables: exponents, beside ClickHouse's (about an hour)
	$(BIN)/python -m benchmarks.growth

soak: check-tools $(VENV)/.dev ## A million requests against a server, and the memory it holds (a quarter of an hour)
	$(BIN)/python -m benchmarks.soak

hogs: check-tools $(VENV)/.dev ## Hostile statements against a server: code, time, slowest /ping, memory
	$(BIN)/python -m benchmarks.hogs

chaos: check-tools $(VENV)/.dev ## Three replicas and their ZooKeeper, killed and paused for five minutes, under inserts, mutations and partition commands
	$(BIN)/python -m tests.cluster.chaos

chaos-links: check-tools $(VENV)/.dev ## Three linked clusters of two replicas, killed and paused; CHAOS_SECONDS=900 for a quarter of an hour
	$(BIN)/python -m tests.cluster.chaos_links --seconds $(CHAOS_SECONDS)

chaos-switches: check-tools $(VENV)/.dev $(VENV)/.jar ## The same, while the sources of a group, of synchronous and other links move; read by Spark too
	$(BIN)/python -m tests.cluster.chaos_links --work switches --seconds $(CHAOS_SECONDS)

clean: ## Remove what the targets made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out

# Everything here sets up what it needs; a fresh machine with Python 3.11 to 3.13 is enough.
PYTHON ?= python3
VENV ?= .venv
SEEDS ?= 20
FIRST ?= 0
COUNT ?= 10000
RUN := $(VENV)/bin/python
# Modules stay whole, and what takes longest begins first (tests/scheduling.py).
SPREAD := -n auto --dist loadgroup --no-loadscope-reorder
# The few modules with such tests: one process would import all others for nothing.
REAL_TIME = $$(grep -rl 'mark\.real_time' tests --include='test_*.py')
# Tests of errors run once more with all steps compiled: compiled checks raise what straight code does.
OF_ERRORS = $$(grep -rlE 'raises\(.*errors\.' tests --include='test_*.py' | grep -v _oracle)
# Tests start thousands of processes: each would compile 600 modules where none may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test chaos interop programs fuzz libraries lint bench docs protos clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# One environment for each set of extras, made anew when the project's needs change.
$(VENV)/.ready: pyproject.toml
	@echo "setting up $(VENV) (a few minutes the first time)"
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else "tideflow needs Python 3.11 to 3.13; found %d.%d. Name another one: make PYTHON=python3.12" % v)'
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.'
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "adding the development tools"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/.ready-tensorflow: $(VENV)/.ready-dev
	@echo "adding TensorFlow, the oracle of some tests and the peer of the benchmarks"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev,tensorflow]'
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready-tensorflow
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev,tensorflow,bench]'
	@touch $@

demo: $(VENV)/.ready  ## train a classifier on a cluster of three processes, on this machine
	@$(VENV)/bin/tideflow demo

test: $(VENV)/.ready-dev  ## the tests, but for those that need a real TensorFlow (interop)
	@$(RUN) -m pytest $(SPREAD) -m "not tensorflow and not real_time" --durations=10 --durations-min=5
	@TIDEFLOW_JIT=always $(RUN) -m pytest -q $(SPREAD) -m "not tensorflow and not real_time and not processes" --errors-only $(OF_ERRORS)
	@$(RUN) -m pytest -n 0 -m "not tensorflow and real_time" --durations=5 --durations-min=5 $(REAL_TIME)

chaos: $(VENV)/.ready-dev  ## training while tasks die, hang, are slow and cut off (SEEDS=200 for more runs)
	@PYTHONPATH=tests $(RUN) -m chaos.run --seeds $(SEEDS)
	@PYTHONPATH=tests $(RUN) -m chaos.strategies --seeds $(SEEDS)
	@PYTHONPATH=tests $(RUN) -m chaos.slow --seeds $(SEEDS)

interop: $(VENV)/.ready-tensorflow  ## the tests with a real TensorFlow: op by op, and program by program
	@$(RUN) -m pytest $(SPREAD) -m tensorflow --durations=10 --durations-min=5

programs: $(VENV)/.ready-tensorflow  ## generated programs on TensorFlow and tideflow (SEEDS=20000 for more, FIRST=1000 for others)
	@PYTHONPATH=src:tests nice $(RUN) -m whole_programs.run seeds --first $(FIRST) --seeds $(SEEDS)

libraries: $(VENV)/.ready-tensorflow  ## the tests of libraries on tideflow and TensorFlow (KERAS=checkout, SONNET=checkout, RESULTS=file)
	@nice $(RUN) -m tools.libraries $(if $(KERAS),keras=$(KERAS)) $(if $(SONNET),sonnet=$(SONNET)) $(if $(RESULTS),--results $(RESULTS))

fuzz: $(VENV)/.ready-dev  ## damaged bytes for all that reads bytes of others (COUNT=100000 for more, FIRST=1000 for others)
	@PYTHONPATH=src:tests nice $(RUN) -m fuzz.run --first $(FIRST) --count $(COUNT)

lint: $(VENV)/.ready-dev  ## style, types, the direction of imports, and what one module does for all
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache
	@$(RUN) -m tools.seams
	@$(RUN) -m tools.module_sizes
	@$(RUN) -m tools.any_parameters

bench: $(VENV)/.ready-bench  ## the same programs on tideflow and TensorFlow, as ratios
	@$(RUN) -m benchmarks --write
	@$(RUN) -m benchmarks.models --losses --write
	@$(RUN) -m benchmarks.kernels --write
	@$(RUN) -m benchmarks.eager --write
	@$(RUN) -m benchmarks.strategies --write
	@$(RUN) -m benchmarks.rings --write

docs: $(VENV)/.ready-tensorflow  ## the generated parts of the documentation (compares all ops with TensorFlow)
	@rm -f docs/ops_compared.json
	@TIDEFLOW_TEST_OPS_COMPARED=docs/ops_compared.json $(RUN) -m pytest -q $(SPREAD) -m tensorflow tests/ops
	@$(RUN) tools/op_table.py docs/ops.md
	@$(RUN) -m tools.compatibility

# The generator's version decides the oldest protobuf that serves, so it has an environment of its own.
build/protos/.ready: tools/protos.py
	@$(PYTHON) -m venv build/protos
	@build/protos/bin/python -m pip install --quiet --disable-pip-version-check 'grpcio-tools==1.75.*'
	@touch $@

protos: build/protos/.ready  ## the message modules, from the .proto files
	@build/protos/bin/python tools/protos.py

clean:  ## remove what was set up
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

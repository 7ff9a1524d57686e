# make demo: sets up, compares two bundled dumps, then trains a model twice and compares that.
# make test: sets up and passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINDSPORE := .venv-mindspore
TRUTH := .venv-truth

.PHONY: demo test test-mindspore lint bench truth clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	rm -rf .demo
	$(BIN)/lakeprobe ingest tests/data/dumps/demo/target --lake .demo
	$(BIN)/lakeprobe ingest tests/data/dumps/demo/golden --lake .demo
	$(BIN)/lakeprobe compare target golden --lake .demo --output .demo-results --format xlsx
	@echo
	$(BIN)/python demo/train.py trained_golden --lake .demo
	$(BIN)/python demo/train.py trained_target --lake .demo --defect
	$(BIN)/lakeprobe compare trained_target trained_golden --lake .demo

test: $(VENV)/ready
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# MindSpore 2.8 wants numpy below 2, so it has an environment of its own. What needs no torch is tested there too: with
# the oldest releases that pyproject.toml allows, and without pandas. MindSpore is not made for Python 3.13 on.
ifeq ($(shell $(PYTHON) -c 'import sys; print(sys.version_info < (3, 13))'),True)
test: test-mindspore
endif

$(MINDSPORE)/ready: pyproject.toml
	$(PYTHON) -m venv $(MINDSPORE)
	sed -n '/^dependencies/,/^]/s/^ *"\(.*\)>=\([^",]*\).*/\1==\2/p' pyproject.toml > $(MINDSPORE)/oldest.txt
	$(MINDSPORE)/bin/python -m pip install --quiet --constraint $(MINDSPORE)/oldest.txt \
	  --editable '.[mindspore]' mindspore==2.8.0 'pytest>=8' 'pytest-xdist>=3.5' hypothesis
	touch $@

# Tests of what does not hang on the environment, and that take long, run in the first one only.
ONCE := tests/peer tests/truth tests/docs tests/analysis/test_laws.py tests/analysis/test_merge.py \
  tests/compare/test_fuzzy.py tests/compare/test_layer.py tests/compare/test_pairing.py tests/compare/test_paths.py \
  tests/commands/test_result_files.py tests/noise tests/readers/test_foreign_tables.py tests/reports

test-mindspore: $(MINDSPORE)/ready
	OMP_NUM_THREADS=1 $(MINDSPORE)/bin/python -m pytest --numprocesses auto --dist loadfile \
	  $(addprefix --ignore ,$(ONCE))

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

# The models of the benchmark of accuracy, from their libraries. torch stays the one that pyproject.toml names, so
# torchvision comes without what it asks for. MODELS, NOISES and METHODS narrow what is run (make truth NOISES=npu),
# RECOUNT=1 asks again what was asked of an earlier lakeprobe, DOCS=1 writes docs/accuracy.md.
$(TRUTH)/ready: pyproject.toml
	$(PYTHON) -m venv $(TRUTH)
	$(TRUTH)/bin/python -m pip install --quiet --upgrade pip
	$(TRUTH)/bin/python -m pip install --quiet --editable . torch==2.13.0 transformers pillow
	$(TRUTH)/bin/python -m pip install --quiet --no-deps torchvision
	touch $@

truth: $(TRUTH)/ready
	$(TRUTH)/bin/python -m benchmarks.truth.run \
	  $(if $(MODELS),--models $(MODELS)) $(if $(NOISES),--noises $(NOISES)) $(if $(METHODS),--methods $(METHODS)) \
	  $(if $(RECOUNT),--recount) $(if $(DOCS),--write-docs)

clean:
	rm -rf $(VENV) $(MINDSPORE) $(TRUTH) .demo .demo-results .truth

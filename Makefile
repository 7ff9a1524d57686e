# make demo: sets up, compares two bundled dumps, then trains a model twice and compares that.
# make test: sets up and passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINDSPORE := .venv-mindspore

.PHONY: demo test test-mindspore lint bench clean

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
	$(BIN)/python -m pytest --numprocesses auto

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

test-mindspore: $(MINDSPORE)/ready
	OMP_NUM_THREADS=1 $(MINDSPORE)/bin/python -m pytest --numprocesses auto --ignore tests/peer

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

bench: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) $(MINDSPORE) .demo .demo-results

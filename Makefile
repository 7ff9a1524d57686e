# make demo: sets up, compares two bundled dumps, then trains a model twice and compares that.
# make test: sets up and passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

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

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

bench: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) .demo .demo-results

# make demo: sets up, compares two bundled dumps, then trains a model twice, compares that, and writes a page of it.
# make check: linters and the fast tests, in less than a minute: for the inner loop.
# make test: sets up and passes the tests, in both environments; of those that are marked as sampled an eighth.
# make fuzz: all cases of these, tests with random inputs or noise with all of their examples, and new ones each time, and
#   forged lakes with all commands; then SECONDS of damaged files for every reader, and of statements for the sandbox of rules.
# make faults: strikes every call that changes a lake, one at a time (SAMPLE=2000: that many of them, at random).
# make coverage: make test, and which lines and branches of the package it runs.
# make docs: builds the site of the docs in .site, and checks its links.
# make packages: builds sdist and wheel, and uses both with every Python that is here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINDSPORE := .venv-mindspore
TRUTH := .venv-truth
NATIVE := hatch_build.py $(wildcard native/*.c native/*.inc)
SECONDS := 600
# Tests start hundreds of processes. Where bytecode is forbidden, each of them would compile every module that it imports.
export PYTHONDONTWRITEBYTECODE :=
FAST := tests/sql tests/tensors tests/test_work.py tests/readers/test_acl.py tests/test_columns.py \
  tests/readers/test_leaves.py tests/readers/test_members.py tests/readers/test_names.py tests/readers/test_kernel.py \
  tests/compare/test_difference.py tests/compare/test_plan.py tests/mapping/test_strict_yaml.py

.PHONY: environments demo check test test-mindspore fuzz faults coverage packages docs lint bench truth clean

# Without a bound pip tries older releases of s3fs, and then a torch with CUDA: 5 GB, and 0.2 s for each process that imports it.
# Python compiles what is imported, once. Compiling all of torch and MindSpore, as pip does, takes a third of the installation.
$(VENV)/ready: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev,docs]' 's3fs>=2026.2'
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
	@echo
	@echo 'A page of it, to open in a browser:'
	@$(BIN)/lakeprobe view trained_target_vs_trained_golden --lake .demo --output $(CURDIR)/.demo-results/page.html

# Tests of a file run in one worker, so that what they begin with is made once; tests/conftest.py orders the files, long
# ones first. There is a worker more than cores, because some of them wait for processes that they start, which saves 8 %
# of the time on two cores. Each has about a core, so torch has one thread. Most of their time goes into planning small
# statements of DuckDB, and an eighth of that into glibc's malloc: jemalloc takes its place where it is installed.
ALLOCATOR := $(firstword $(wildcard /usr/lib/*/libjemalloc.so.2))
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := OMP_NUM_THREADS=1 LD_PRELOAD=$(ALLOCATOR) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile \
  --no-loadscope-reorder

test: $(VENV)/ready
	$(PYTEST)

check: lint
	$(PYTEST) $(FAST)

fuzz: $(VENV)/ready
	LAKEPROBE_FUZZ=1 $(PYTEST) $(shell grep -rlE '^from (hypothesis|sampling)|mark\.sampled' tests --include='test_*.py')
	$(BIN)/python tests/fuzz/readers.py $(SECONDS)
	$(BIN)/python tests/hostile/test_statements.py $(SECONDS) $$(date +%s)

faults: $(VENV)/ready
	cc -shared -fPIC -O1 -Wall -o $(VENV)/shim.so tests/faults/shim.c -ldl
	LD_PRELOAD=$(CURDIR)/$(VENV)/shim.so $(BIN)/python tests/faults/points.py $(if $(SAMPLE),--sample $(SAMPLE))

# Every process that a traced test starts is traced too, but for those that are killed, such as the workers of verify.
# tests/conftest.py says which tests are.
coverage: export COVERAGE_FILE := $(CURDIR)/.coverage/data
coverage: environments
	rm -rf .coverage
	mkdir .coverage
	COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(MAKE) test
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=cover

packages: $(VENV)/ready
	.ci/packages

# MindSpore 2.8 wants numpy below 2, so it has an environment of its own. What needs no torch is tested there too: with
# the oldest releases that pyproject.toml allows, and without pandas. MindSpore is not made for Python 3.13 on.
ifeq ($(shell $(PYTHON) -c 'import sys; print(sys.version_info < (3, 13))'),True)
test: test-mindspore
environments: $(MINDSPORE)/ready
endif
environments: $(VENV)/ready

$(MINDSPORE)/ready: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(MINDSPORE)
	sed -n '/^dependencies/,/^]/s/^ *"\(.*\)>=\([^",]*\).*/\1==\2/p' pyproject.toml > $(MINDSPORE)/oldest.txt
	$(MINDSPORE)/bin/python -m pip install --quiet --no-compile --constraint $(MINDSPORE)/oldest.txt \
	  --editable '.[mindspore]' mindspore==2.8.0 'pytest>=8' 'pytest-xdist>=3.7' hypothesis 'coverage>=7.10'
	touch $@

# What depends on the releases of numpy, pyarrow, msgspec, typer and MindSpore runs in both. SQL and Python alone do not:
# DuckDB is the same release in both, so analyses, pairing, judging, mappings, reports, the lake's log and audits, odd
# paths, full disks, shells and what a first hour looks like run in the first one only. Compaction runs in both; that no answer
# depends on it is a matter of SQL.
ONCE := tests/peer tests/truth tests/docs tests/sql tests/noise tests/reports tests/mapping tests/faults tests/view \
  tests/hostile tests/layouts tests/analysis \
  $(addprefix tests/lake/test_,upkeep.py atomicity.py together.py shards.py storage.py cluster.py log.py audits.py) \
  $(filter-out %/test_npy_pairs.py %/test_statistics.py,$(wildcard tests/compare/test_*.py)) \
  $(addprefix tests/commands/test_,result_files.py analysis_commands.py odd_places.py mapping_options.py looks.py \
    at_home.py first_hour.py full_disk.py map.py shells.py ptdbg_shell.py upkeep_commands.py) \
  tests/monitoring/test_watch_series.py tests/ingest/test_recognition.py \
  tests/readers/test_foreign_tables.py tests/readers/test_archive.py tests/test_work.py
ONCE_TESTS := $(addprefix tests/lake/test_compaction.py::test_no_answer_depends_on_,the_form whether_a_rank_is_compacted)

test-mindspore: $(MINDSPORE)/ready
	OMP_NUM_THREADS=1 $(MINDSPORE)/bin/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	  $(addprefix --ignore ,$(ONCE)) $(addprefix --deselect ,$(ONCE_TESTS))

# The site in .site, with its links checked: a warning fails.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	if command -v tsc > /dev/null; then tsc --project tsconfig.json; else echo 'no tsc: page.js is not checked'; fi

bench: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

# The models of the benchmark of accuracy, from their libraries. torch stays the one that pyproject.toml names, so
# torchvision and what is built on it come without what they ask for; detectors of transformers match boxes with scipy.
# MODELS, NOISES and METHODS narrow what is run (make truth NOISES=npu), SAMPLE=4 draws four defects of each model and noise
# by chance (SEED=1 draws others), NO_REPEAT=1 asks without a repeat only, RECOUNT=1 asks again what was asked of an earlier
# lakeprobe, DOCS=1 writes docs/accuracy.md.
$(TRUTH)/ready: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(TRUTH)
	$(TRUTH)/bin/python -m pip install --quiet --upgrade pip
	$(TRUTH)/bin/python -m pip install --quiet --editable . torch==2.13.0 transformers pillow scipy requests \
	  importlib_metadata loguru frozendict
	$(TRUTH)/bin/python -m pip install --quiet --no-deps torchvision timm diffusers x-transformers einx einops \
	  torch-einops-utils
	touch $@

truth: $(TRUTH)/ready
	$(TRUTH)/bin/python -m benchmarks.truth.run \
	  $(if $(MODELS),--models $(MODELS)) $(if $(NOISES),--noises $(NOISES)) $(if $(METHODS),--methods $(METHODS)) \
	  $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(NO_REPEAT),--no-repeat) \
  $(if $(RECOUNT),--recount) $(if $(DOCS),--write-docs)

clean:
	rm -rf $(VENV) $(MINDSPORE) $(TRUTH) .demo .demo-results .truth .site

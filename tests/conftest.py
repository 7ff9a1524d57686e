"""Settings of all tests."""

import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from sampling import FUZZ, SAMPLED, an_eighth, examples

import lakeprobe
from lakeprobe.system import files

# A busy machine is not a failure. The examples are the same every time: `make fuzz` looks for new ones, not the test of
# a change that has nothing to do with them.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("fuzz", deadline=None, max_examples=examples(100), print_blob=True)
settings.load_profile("fuzz" if FUZZ else "quick")


# programs that tests start import the helpers beside this file, as tests do
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))

os.environ.pop("COLUMNS", None)  # xdist sets it, and tables would be folded to the width of nobody's terminal
os.environ.pop("LAKEPROBE_LAKE", None)  # the lake of whoever runs the tests is not theirs


STARTS_A_TRACE = "COVERAGE_PROCESS_START"
"""The environment variable that lets each process of Python say which lines it runs."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what is collected: tests, modules and torch stay to the end.

    It looked through half a million such objects again and again, which took a tenth of the time of small tests. Nor is
    collecting traced, which would double its time: what runs when a module of the package is imported runs before.
    """
    gc.disable()
    try:
        if STARTS_A_TRACE not in os.environ:
            return (yield)
        import_package()
        with untraced():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_package() -> None:
    """Import every module of the package that can be imported here."""
    for module in pkgutil.walk_packages(lakeprobe.__path__, "lakeprobe.", onerror=lambda _: None):
        with suppress(ImportError):
            importlib.import_module(module.name)


@contextmanager
def untraced() -> Iterator[None]:
    """Trace neither what runs within nor processes that it starts, where lines are traced."""
    trace = sys.modules["coverage"].Coverage.current()
    with patch.dict(os.environ):
        del os.environ[STARTS_A_TRACE]
        trace.stop()
        try:
            yield
        finally:
            trace.start()


LONG = ("peer", "faults", "docs", "collect", "truth", "noise", "analysis", "lake")
"""Folders of the files that take longest. They are begun first, so that the workers end together."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample of what repeats itself, and order the files: those of LONG first."""
    repeated = {
        item.nodeid: node.nodeid.partition("[")[0] for item in items for node, _ in item.iter_markers_with_node(SAMPLED)
    }
    left_out = repeated.keys() - an_eighth(repeated)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
    items.sort(key=lambda item: LONG.index(item.path.parent.name) if item.path.parent.name in LONG else len(LONG))


SYNCED = ("faults/", "lake/test_log.py")
"""Tests of what syncing guarantees."""


@pytest.fixture(scope="module", autouse=True)
def no_wait_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests do not cut the power, so no test waits for the disk, except those of SYNCED."""
    path = request.path.relative_to(Path(__file__).parent).as_posix()
    with patch.dict(os.environ, {files.NO_SYNC: "" if path.startswith(SYNCED) else "1"}):
        yield


UNTRACED = (
    "docs/", "faults/", "noise/", "peer/", "sql/", "truth/", "test_session",
    *(f"analysis/test_{name}" for name in ("first_difference", "laws", "stages", "steps", "thresholds")),
    *(f"collect/test_{name}" for name in (
        "boundaries", "demo_train", "fsdp", "killed_rank", "mindspore_peer", "overflow_check", "tensor_parallel",
        "torch_collectives", "traced",
    )),
    *(f"commands/test_{name}" for name in ("full_disk", "ptdbg_shell", "shells")),
    *(f"compare/test_{name}" for name in (
        "attacks", "batch", "difference", "fuzzy", "layer", "mappings", "npy_pairs", "pairing", "statistics",
        "verdict_on_the_whole", "verdicts",
    )),
    "hostile/test_functions", "hostile/test_statements", "ingest/test_ingest",
    *(f"lake/test_{name}" for name in ("atomicity", "audits", "compaction", "together")),
    "monitoring/test_sharded", "monitoring/test_watch_series",
    *(f"readers/test_{name}" for name in ("foreign_tables", "leaves", "members", "real_dumps", "skeletons")),
    "reports/test_files", "tensors/test_exact", "view/test_page.py",
)  # fmt: skip
"""Tests that take long, and run hardly a line that no other test runs.

All together run 0.5 % of the lines alone, as coverage with a context for each file shows.
"""


@pytest.fixture(scope="module", autouse=True)
def traced_if_it_tells_something(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep `make coverage` from tests that run hardly a further line: tracing takes up to half as much time again.

    With MindSpore only what needs it is traced, since all else runs with PyTorch too.
    """
    path = request.path.relative_to(Path(__file__).parent).as_posix()
    needs_mindspore = path.endswith(("test_preflight.py", "mindspore.py")) or "test_mindspore" in path
    is_told = not path.startswith(UNTRACED) and (needs_mindspore or not find_spec("mindspore"))
    if STARTS_A_TRACE not in os.environ or is_told:
        yield
        return
    with untraced():
        yield


@pytest.fixture(scope="session", autouse=True)
def one_process_a_command() -> Iterator[None]:
    """Tests run beside each other, so a command that is not told how many processes to take takes one."""
    with patch("lakeprobe.work.default_jobs", lambda: 1):
        yield

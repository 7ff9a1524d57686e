"""Every folder of the real dumps is read by one command without hints, and gets its proper name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from real_dumps import DUMPS, needs_dumps

import lakeprobe
from lakeprobe.ingest import ingest
from lakeprobe.ingest.survey import Item, survey
from lakeprobe.lake import audits

FOLDERS = sorted(path for path in DUMPS.glob("*") if path.is_dir()) if DUMPS.is_dir() else []
pytestmark = needs_dumps


def expected(top: Path) -> Counter[tuple[str, Path]]:
    """What lies in `top` by the names of its files, and the folder of each: a plain search, which knows no readers."""
    found: Counter[tuple[str, Path]] = Counter()
    for name, format in (("dump.json", "msprobe dump"), ("debug.json", "msprobe debug points")):
        found.update((format, path.parent) for path in top.rglob(name))
    found.update(("ptdbg dump", path.parent) for path in top.rglob("*.pkl"))
    kernels = {path.parent for path in top.glob("**/TinyNet/*/*/*") if path.suffix in (".npy", ".csv")}
    found.update(("MindSpore kernel dump", folder) for folder in kernels)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("top", FOLDERS, ids=lambda path: path.name)
def test_a_folder_of_real_dumps(top: Path, tmp_path: Path) -> None:
    items = survey(top)
    dumps = [item for item in items if item.step is not None]
    assert Counter((item.format, item.path) for item in dumps) == expected(top)
    assert [item.path for item in dumps if not _is_placed_right(item)] == []
    results = [path for path in top.rglob("*compare_result*") if re.search(r"\.(csv|csv\.gz|xlsx)$", path.name)]
    tables = [item for item in items if item.step is None]
    assert sum(item.files for item in tables) >= len(results)

    report = ingest(top, lake=tmp_path / "lake", tensors="link")
    assert {(unit.key.run, unit.key.step, unit.key.rank) for unit in report.units} == {
        (item.name, item.step, item.rank) for item in dumps
    }
    assert sorted(table.name for table in report.tables) == sorted(item.name for item in tables)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        assert audits.run(lake.sql) == []


def _is_placed_right(item: Item) -> bool:
    """Whether step and rank are those in the path, where it has them."""
    step = re.search(r"/step(\d+)(/|$)", str(item.path))
    rank = re.search(r"/rank_?(\d+)(/|$)", str(item.path))
    return (step is None or int(step[1]) == item.step) and (rank is None or int(rank[1]) == item.rank)

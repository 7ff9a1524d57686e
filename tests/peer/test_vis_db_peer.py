"""Our database for tb-graph-ascend against the one that msprobe's graph_visualize writes of the same dumps, by row."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lakeprobe

MSPROBE = Path(os.environ.get("MSPROBE") or shutil.which("msprobe") or "msprobe")
DEMO = Path(__file__).parents[1] / "data" / "dumps" / "demo"
WORDED = {"Err_message"}
"""What we say in our own words."""

pytestmark = pytest.mark.skipif(not MSPROBE.is_file(), reason="msprobe is not there (MSPROBE names the program)")


def nodes(path: Path) -> dict[str, dict[str, Any]]:
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in database.execute("SELECT * FROM tb_nodes")}


def is_equal(key: str, ours: str, theirs: str) -> bool:
    """Whether both say the same: msprobe rounds relative errors to six digits after the point.

    Where nothing can be subtracted (no statistic, inf, bool), our differences are in the words of the result tables.
    """
    if ours == theirs or key in WORDED:
        return True
    is_difference = key.endswith(("RelativeErr", " diff"))
    try:
        numbers = [float(told.removesuffix("%")) for told in (ours, theirs)]
    except ValueError:
        return is_difference and (ours in ("0", "N/A", "Diff") or theirs == "N/A")
    tolerance = 6e-7 if key.endswith("RelativeErr") else 0
    return math.isclose(*numbers, rel_tol=1e-12, abs_tol=tolerance) or (is_difference and math.isnan(numbers[1]))


def test_every_column_of_every_node_is_equal(tmp_path: Path) -> None:
    target, golden = (shutil.copytree(DEMO / side, tmp_path / side) for side in ("target", "golden"))
    sides = [next(side.rglob("dump.json")).parent for side in (target, golden)]
    command = [MSPROBE, "graph_visualize", "-tp", sides[0], "-gp", sides[1], "-o", tmp_path / "theirs"]
    subprocess.run(command, check=True, capture_output=True)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.compare(target, golden, name="demo")
        ours = nodes(lake.view("demo", tmp_path / "ours.vis.db", format="vis.db"))
    theirs = nodes(next((tmp_path / "theirs").glob("*.vis.db")))
    assert ours.keys() == theirs.keys()
    for name, node in ours.items():
        other = theirs[name]
        for column in ("input_data", "output_data"):
            mine, told = json.loads(node.pop(column)), json.loads(other.pop(column))
            assert list(mine) == list(told), name
            for leaf in mine:
                assert mine[leaf].keys() == told[leaf].keys(), leaf
                unequal = {key for key in mine[leaf] if not is_equal(key, mine[leaf][key], told[leaf][key])}
                assert not unequal, (leaf, unequal, mine[leaf], told[leaf])
        assert node == other

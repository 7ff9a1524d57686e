"""Our merge of ranks against msprobe 26.2.0's merge_result, cell for cell, wherever msprobe made a workbook.

It is made from our own comparison of the dumps, from msprobe's csv files (which msprobe itself cannot merge), and from
the workbooks that it did merge. Sheets, their order, headers and row names are the same. msprobe sorts the rows by
name, its workbooks keep 16 digits of a number, and the last of them may be another in a metric of tensors, which is a
sum in another order; no cell differs in another way.
"""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from real_dumps import DUMPS

import lakeprobe
from lakeprobe.analysis import merge as merging
from lakeprobe.errors import UsageError
from lakeprobe.lake.connection import connect
from lakeprobe.lake.views import define
from lakeprobe.readers import merge_config
from lakeprobe.reports import merge_files

FOLDERS = sorted(path.parent for path in DUMPS.glob("B_pt_dist/*/peer_out_*merge*/multi_ranks_compare_merge_*.xlsx"))
REFUSED = sorted(
    path.parent
    for path in DUMPS.glob("B_pt_dist/*/peer_out_*merge*/cmd.txt")
    if not list(path.parent.glob("multi_ranks_compare_merge_*.xlsx"))
)
Sheets = dict[str, list[tuple[Any, ...]]]


def names(folders: list[Path]) -> list[str]:
    return [str(folder.relative_to(DUMPS)) for folder in folders]


@pytest.mark.sampled
@pytest.mark.parametrize("folder", FOLDERS, ids=names(FOLDERS))
@pytest.mark.parametrize("source", ["dumps", "csv", "xlsx"])
def test_the_workbook_is_msprobes(folder: Path, source: str, tmp_path: Path) -> None:
    results, config = asked(folder)
    assert results.name.endswith("_xlsx")
    if source == "csv":
        results = results.with_name(results.name.removesuffix("_xlsx"))
    ours = from_dumps(results, config, tmp_path) if source == "dumps" else from_files(results, config, tmp_path)
    theirs = read(next(folder.glob("*.xlsx")))
    assert list(ours) == list(theirs)
    for metric, rows in theirs.items():
        assert ours[metric][0] == rows[0]
        by_name = sorted(ours[metric][1:], key=lambda row: str(row[0]))
        assert [row[0] for row in by_name] == [row[0] for row in rows[1:]]
        for mine, peers in zip(by_name, rows[1:], strict=True):
            for first, second in zip(mine[1:], peers[1:], strict=True):
                assert is_same(first, second), (metric, mine[0], first, second)


@pytest.mark.sampled
@pytest.mark.parametrize("folder", REFUSED, ids=names(REFUSED))
def test_what_msprobe_refuses_is_merged_or_told(folder: Path, tmp_path: Path) -> None:
    """It reads no csv; and with a metric of another layout it ends in a trace."""
    results, config = asked(folder)
    if "L1_tensor" in str(folder) and folder.name.endswith("_index"):
        with pytest.raises(UsageError, match="'Max diff' is not a metric of tensor; use Cosine, EucDist"):
            from_files(results, config, tmp_path)
        return
    sheets = from_files(results, config, tmp_path)
    assert all(
        rows[0] == ("NPU Name", "rank0", "rank1", "rank2", "rank3") and len(rows) > 100 for rows in sheets.values()
    )


def asked(folder: Path) -> tuple[Path, Path]:
    """The folder of results and the config.yaml that msprobe was given."""
    words = shlex.split((folder / "cmd.txt").read_text().splitlines()[0].removeprefix("command: "))
    results, config = (
        DUMPS / words[words.index(option) + 1].removeprefix("/data/dumps/") for option in ("-i", "-config")
    )
    return results, config


def from_files(results: Path, config: Path, folder: Path) -> Sheets:
    apis, metrics = merge_config.read_config(config)
    merge = merging.plan(files=[results], apis=apis, metrics=metrics)
    with connect() as connection:
        [path] = merge_files.write(connection, merge, merging.sheets(connection, merge), folder / "out", "xlsx")
    return read(path)


def from_dumps(results: Path, config: Path, folder: Path) -> Sheets:
    variant = results.name.removeprefix("peer_out_").removesuffix("_step0_xlsx")
    apis, metrics = merge_config.read_config(config)
    with lakeprobe.open(folder / "lake", create=True) as lake:
        result = lake.compare(results.parent / variant / "step0", results.parent / "golden" / "step0")
    merge = merging.plan([result.stored], apis=apis, metrics=metrics)
    with connect() as connection:
        define(connection, folder / "lake")
        [path] = merge_files.write(connection, merge, merging.sheets(connection, merge), folder / "out", "xlsx")
    return read(path)


def read(path: Path) -> Sheets:
    return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in load_workbook(path)}


def shown(cell: object) -> str | None:
    """What a reader sees: `0` as a text and 0 as a number are the same, and so are True and `True`."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return None if cell is None else str(cell)


def is_same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float) and math.isclose(ours, theirs, rel_tol=4e-16):
        return True
    return shown(theirs) in (shown(ours), of_sixteen_digits(ours))


def of_sixteen_digits(cell: object) -> str:
    """A cell as msprobe's workbooks have it, which keep 16 digits of a number where ours keep all 17."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.16g}", str(cell))

"""Pairs that are compared at once have the results of pairs that are compared one by one, row for row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pair_dumps
import pytest
from msgspec.structs import replace

import lakeprobe
from lakeprobe.compare import batch, run, unit
from lakeprobe.compare.unit import PairReport, PairTask
from lakeprobe.errors import LakeprobeError
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey, UnitPlace
from lakeprobe.mapping.files import Mappings
from lakeprobe.reports.table import opened as table_of
from lakeprobe.work import Progress

DUMPS = Path(__file__).parents[1] / "data" / "dumps" / "ranks"
BY_ITSELF = [UnitKey("target", 1, rank) for rank in (1, 2, 3)]
"""The pairs that a batch leaves out: one with other names, one that lacks calls, and one with contents."""


def renamed(dump: Path) -> None:
    """Call every op of the dump otherwise, so that no name pairs."""
    for file in ("dump.json", "stack.json", "construct.json"):
        text = (dump / file).read_text()
        (dump / file).write_text(text.replace("Functional.", "Functional.my_").replace("Tensor.", "Tensor.my_"))


def thinned(dump: Path) -> None:
    """Leave out every seventh op of the dump."""
    content = json.loads((dump / "dump.json").read_text())
    content["data"] = {name: entry for place, (name, entry) in enumerate(content["data"].items()) if place % 7}
    (dump / "dump.json").write_text(json.dumps(content))


def with_contents(dump: Path, value: float) -> None:
    shutil.rmtree(dump)
    data = {
        f"Torch.add.{call}.forward": pair_dumps.call(
            [pair_dumps.tensor(data_name=f"{call}.npy")], [pair_dumps.tensor(data_name=f"{call}.npy")]
        )
        for call in range(9)
    }
    arrays = {f"{call}.npy": [value, 1.0, 2.0, float(call)] for call in range(9)}
    pair_dumps.write_dump(dump, data, task="tensor", arrays=arrays)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: step 0 differs from an op on, step 1 is equal, renamed, thinned and of contents, a rank each."""
    home = tmp_path_factory.mktemp("batch")
    for side, first in (("target", "gelu_tanh"), ("golden", "golden")):
        shutil.copytree(DUMPS / first, home / side)
        shutil.copytree(DUMPS / "golden" / "step0", home / side / "step1")
        with_contents(home / side / "step1" / "rank3", 1.0 if side == "target" else 1.5)
    renamed(home / "target" / "step1" / "rank1")
    thinned(home / "target" / "step1" / "rank2")
    for side in ("target", "golden"):
        ingest(home / side, lake=home / "lake", run=side)
    return home / "lake"


Compared = tuple[dict[str, list[str]], list[PairReport]]


def compared(lake: Path, name: str, progress: Progress | None = None) -> Compared:
    """The rows of a comparison, as the lake has them and as its files have them, and its reports."""
    report = run.compare("target", "golden", lake=lake, name=name, jobs=1, progress=progress)
    one = f"WHERE comparison = '{name}' ORDER BY step, rank,"
    with lakeprobe.open(lake) as opened:
        tables: dict[str, list[Any]] = {
            table: opened.sql(f"SELECT * EXCLUDE (comparison) FROM {table} {one} {order}").fetchall()
            for table, order in (("results", "row"), ("suspects", "nth"))
        }
        for unit in opened.comparison(name).stored.units:
            with table_of(unit) as connection:
                for table, order in (("results", "row"), ("stacks", "stack")):
                    rows = connection.execute(f"SELECT * EXCLUDE (comparison) FROM {table} ORDER BY {order}")
                    tables[f"{table} of {unit.step} {unit.rank}"] = rows.fetchall()
        for file in opened.comparison(name).write(lake.parent / name):
            tables[f"csv of {file.parent.name} {file.stem.split('_')[2]}"] = file.read_text().splitlines()
    shown = {table: [repr(row) for row in rows] for table, rows in tables.items()}  # NaN is unequal to itself
    return shown, [replace(pair, batch=None) for pair in report.pairs]


@pytest.fixture
def singly(monkeypatch: pytest.MonkeyPatch) -> list[UnitKey]:
    """The targets of the pairs that are compared one by one."""
    seen: list[UnitKey] = []
    compare_units = unit.compare_units

    def noted(task: PairTask) -> PairReport:
        seen.append(task.target)
        return compare_units(task)

    monkeypatch.setattr(unit, "compare_units", noted)
    return seen


def one_by_one(tasks: Sequence[PairTask], jobs: int) -> list[tuple[PairTask, ...]]:
    return [(task,) for task in tasks]


def test_the_results_are_those_of_pairs_one_by_one(
    lake: Path, singly: list[UnitKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[int, int]] = []
    at_once = compared(lake, "at_once", lambda *numbers: done.append(numbers))
    assert singly == BY_ITSELF
    assert done == [(0, 8), (8, 8)]
    with monkeypatch.context() as patch:
        patch.setattr(run, "batches", one_by_one)
        one = compared(lake, "one_by_one")
    assert one == at_once
    assert [name for name, rows in one[0].items() if not rows and not name.startswith("stacks")] == []
    assert len([name for name in one[0] if name.startswith("csv")]) == 8
    with lakeprobe.open(lake) as opened:
        opened.compact("target")
        opened.compact("golden")
    singly.clear()
    compacted = compared(lake, "compacted")
    assert singly == BY_ITSELF
    assert compacted == at_once
    assert {pair.is_rounding for pair in at_once[1]} == {True, False}
    assert [pair.kind for pair in at_once[1]] == ["statistics"] * 7 + ["tensor"]


def test_a_damaged_unit_is_named(lake: Path, tmp_path: Path) -> None:
    shutil.copytree(lake, tmp_path / "lake")
    damaged = layout.unit_folder(tmp_path / "lake", UnitKey("golden", 0, 2)) / "ops.parquet"
    damaged.write_bytes(b"no table")
    with pytest.raises(LakeprobeError, match=r"ops\.parquet"):
        run.compare("target", "golden", lake=tmp_path / "lake", name="c", jobs=1)
    assert "c" not in layout.comparisons(tmp_path / "lake")
    assert not list((tmp_path / "lake" / ".staging").glob("*/comparison"))


def task(folder: Path, rank: int, **changes: Any) -> PairTask:
    place = UnitPlace(folder)
    keys = (UnitKey("t", 0, rank), UnitKey("g", 0, rank))
    made = PairTask(folder, *keys, place, place, folder / str(rank), None, Mappings(), 1, True)
    return replace(made, **changes)


def ranks(dealt: list[tuple[PairTask, ...]]) -> list[list[int]]:
    return [[task.target.rank for task in some] for some in dealt]


def test_small_pairs_are_dealt_out_in_batches(tmp_path: Path) -> None:
    for name, size in (("small", 1000), ("large", 8 << 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tensors.parquet").write_bytes(bytes(size))
    small, large = tmp_path / "small", tmp_path / "large"
    some = [task(small, rank) for rank in range(130)]
    assert [len(dealt) for dealt in batch.batches(some, 1)] == [64, 64, 2]
    assert [len(dealt) for dealt in batch.batches(some, 8)] == [16] * 8 + [2]
    assert [len(dealt) for dealt in batch.batches(some[:6], 8)] == [4, 2]
    assert ranks(batch.batches([some[0], task(large, 1), some[2], some[3]], 1)) == [[0], [1], [2, 3]]
    assert ranks(batch.batches([some[0], task(small, 1, seconds=1.0), some[2]], 1)) == [[0], [1], [2]]
    held = [task(large, rank, target_place=UnitPlace(large, some[rank].target)) for rank in range(60)]
    assert [len(dealt) for dealt in batch.batches(held, 1)] == [9] * 6 + [6]  # all in one file

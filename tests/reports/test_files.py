"""The files of a comparison: the same rows in every format, under names that tell rank and step and never meet."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

import lakeprobe
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.reports import files

FORMATS = ("csv", "xlsx", "json", "parquet")
PARTITIONS = ("comparison", "step", "rank")
TEXTS = ["=1+1", "-x", "-1", '"quoted"', "a, b", "two\nlines", "é😀", "'", " blanks ", "", "@sum", "a\tb", "#N/A"]
FORMULAS = ("=1+1", "-x", "@sum")
"""Those of TEXTS that a spreadsheet would run; csv has them behind an apostrophe."""


def tensor(value: float) -> dict[str, Any]:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "requires_grad": True}
    return leaf | dict.fromkeys(("Max", "Min", "Mean", "Norm"), value)


def write_dump(folder: Path, norm: float, texts: tuple[str, ...] | list[str] = ()) -> None:
    inputs = [{"type": "str", "value": text} for text in texts]
    data = {
        "Torch.first.0.forward": {"input_args": inputs, "output": [tensor(0.1 + 0.2), tensor(math.nan)]},
        "Torch.second.0.forward": {"input_args": [tensor(1.0)], "output": [tensor(norm), tensor(math.inf)]},
        f"Torch.only{norm:.0f}.0.forward": {"input_args": [None, {"type": "int", "value": 2**60 + 1}], "output": []},
    }
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))


def compared(folder: Path, units: list[tuple[int, int]], texts: list[str] | None = None) -> StoredComparison:
    for run, norm in (("npu", 2.0), ("gpu", 1.0)):
        for step, rank in units:
            write_dump(folder / run / f"step{step}" / f"rank{rank}", norm, texts or [])
    with lakeprobe.open(folder / "lake", create=True) as lake:
        return lake.compare(folder / "npu", folder / "gpu", name="both").stored


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> StoredComparison:
    return compared(tmp_path_factory.mktemp("files"), [(0, 0)], TEXTS)


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def in_csv(text: str) -> str:
    return f"'{text}" if text in FORMULAS else text


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and math.isnan(ours):
        return theirs is None or math.isnan(theirs)
    return ours == theirs


def test_parquet_has_the_typed_rows(comparison: StoredComparison, tmp_path: Path) -> None:
    [path] = files.write(comparison, tmp_path, "parquet")
    stored = pq.read_table(comparison.units[0].folder / "results.parquet", partitioning=None)
    written = pq.read_table(path)
    assert written.column_names == [*stored.column_names, *PARTITIONS]
    assert written.select(stored.column_names).schema.types == stored.schema.types
    assert repr(written.select(stored.column_names).to_pylist()) == repr(stored.to_pylist())
    assert set(zip(*(written[name].to_pylist() for name in PARTITIONS), strict=True)) == {("both", 0, 0)}


def test_json_has_the_typed_rows(comparison: StoredComparison, tmp_path: Path) -> None:
    [path] = files.write(comparison, tmp_path, "json")
    written = json.loads(path.read_text(encoding="utf-8"))
    rows = written["rows"]
    assert (written["version"], written["step"], written["rank"], written["compared"]) == (1, 0, 0, "ops")
    assert sum(written["verdicts"].values()) == len(written["ops"])
    assert sum(op["rows"] for op in written["ops"]) == len(rows)
    stored = pq.read_table(comparison.units[0].folder / "results.parquet", partitioning=None).to_pylist()
    assert len(rows) == len(stored) == len(TEXTS) + 9
    for row, expected in zip(rows, stored, strict=True):
        assert list(row) == [*expected, *PARTITIONS]
        for column, value in expected.items():
            told = float(row[column]) if isinstance(value, float) and row[column] is not None else row[column]
            assert same(value, told), (column, value, row[column])
    assert [type(value) for value in (rows[0]["row"], rows[0]["messages"], rows[0]["first_of_op"])] == [int, list, bool]


def test_json_keeps_to_its_schema_and_to_json(comparison: StoredComparison, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    [path] = files.write(comparison, tmp_path, "json")
    written = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    schema = json.loads((Path(__file__).parents[2] / "docs" / "results.schema.json").read_text())
    jsonschema.validate(written, schema)
    for damage in ({"version": 2}, {"rows": [{"row": "0"}]}, {"ops": [{}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(written | damage, schema)


def test_csv_and_workbook_agree_cell_for_cell(comparison: StoredComparison, tmp_path: Path) -> None:
    [table] = files.write(comparison, tmp_path, "csv")
    [book] = files.write(comparison, tmp_path, "xlsx")
    rows = load_workbook(book)["rows"].iter_rows(values_only=True)
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    texts = read_csv(table)
    assert len(cells) == len(texts) == len(TEXTS) + 10
    for ours, theirs in zip(texts, cells, strict=True):
        for text, cell in zip(ours, theirs, strict=True):
            assert text in (cell, in_csv(cell)) or float(text) == float(cell), (text, cell)


def test_texts_survive_in_csv(comparison: StoredComparison, tmp_path: Path) -> None:
    [path] = files.write(comparison, tmp_path, "csv")
    header, *rows = read_csv(path)
    column = header.index("NPU max")
    assert [row[column] for row in rows[: len(TEXTS)]] == [in_csv(text) for text in TEXTS]
    by_name = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert by_name["Torch.first.0.forward.output.0"]["NPU max"] == "0.30000000000000004"
    assert by_name["Torch.first.0.forward.output.1"]["NPU max"] == "Nan"
    assert by_name["Torch.second.0.forward.output.1"]["NPU max"] == " inf"
    assert by_name["Torch.only2.0.forward.input.1"]["NPU max"] == str(2**60 + 1)
    assert by_name["Torch.only2.0.forward.input.1"]["Result"] == "unmatched"
    assert [row[header.index("Bench Name")] for row in rows[-2:]] == [
        f"Torch.only1.0.forward.input.{n}" for n in (0, 1)
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_names(comparison: StoredComparison, tmp_path: Path, format: str) -> None:
    paths = [path for _ in range(3) for path in files.write(comparison, tmp_path / "new" / "out", format)]
    assert len(set(paths)) == 3, "two runs within a second do not overwrite"
    assert sorted((tmp_path / "new" / "out").iterdir()) == sorted(paths)
    assert all(re.fullmatch(rf"compare_result_\d{{14}}\.{format}", path.name) for path in paths)


def test_names_of_several_ranks_and_steps(tmp_path: Path) -> None:
    ranks = files.write(compared(tmp_path / "ranks", [(0, 0), (0, 3)]), tmp_path / "out", "csv")
    assert [re.sub(r"\d{14}", "TIME", path.name) for path in ranks] == [
        "compare_result_rank0_TIME.csv", "compare_result_rank3_TIME.csv",
    ]  # fmt: skip
    steps = files.write(compared(tmp_path / "steps", [(0, 0), (2, 0)]), tmp_path / "out", "json")
    assert [re.sub(r"\d{14}", "TIME", str(path.relative_to(tmp_path / "out"))) for path in steps] == [
        "step0/compare_result_TIME.json", "step2/compare_result_TIME.json",
    ]  # fmt: skip
    both = files.write(compared(tmp_path / "both", [(0, 0), (0, 1), (1, 0), (1, 1)]), tmp_path / "other", "parquet")
    assert [re.sub(r"\d{14}", "TIME", str(path.relative_to(tmp_path / "other"))) for path in both] == [
        f"step{step}/compare_result_rank{rank}_TIME.parquet" for step in (0, 1) for rank in (0, 1)
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_a_folder_that_cannot_be_written(comparison: StoredComparison, tmp_path: Path, format: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(LakeError, match="the report was not written") as caught:
        files.write(comparison, tmp_path / "file" / "out", format)
    assert caught.value.exit_code == 3
    assert str(tmp_path / "file") in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_half_written_is_left(
    comparison: StoredComparison, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = files.WRITERS[format]

    def full(connection: Any, comparison: Any, unit: Any, path: Path) -> None:
        write(connection, comparison, unit, path)
        assert path.stat().st_size > 0
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(files.WRITERS, format, full)
    with pytest.raises(LakeError, match="No space left on device; the report was not written"):
        files.write(comparison, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()


def test_an_unknown_format(comparison: StoredComparison, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--format pdf is unknown"):
        files.write(comparison, tmp_path, "pdf")
    assert list(tmp_path.iterdir()) == []

"""Metrics that only a rule knows are kept and shown in every form; results of other releases are read beside ours."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest
import yaml
from openpyxl import load_workbook

from lakeprobe.errors import LakeError, RuleError
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.schema import COMPARISON_VERSION, table
from lakeprobe.session import Lake

DEMO = Path(__file__).parents[1] / "data" / "dumps" / "demo"
RULE = """
CREATE OR REPLACE VIEW metrics AS
SELECT
    m.*,
    target_max,
    (target_max - target_min) / nullif(golden_max - golden_min, 0) AS spread,
    target_max > golden_max AS is_higher,
    'm' || row AS mark
FROM metrics_default AS m
JOIN paired USING (row);
"""
OWN = ["spread", "is_higher", "mark"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("own")
    (folder / "spread.sql").write_text(RULE)
    opened = Lake(folder / "lake")
    opened.ingest(DEMO / "target")
    opened.ingest(DEMO / "golden")
    opened.compare("target", "golden", name="usual")
    opened.compare("target", "golden", name="own", rule=str(folder / "spread.sql"))
    return opened


def only_file(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


def test_results_keep_them_with_their_values(lake: Lake) -> None:
    query = """
        SELECT count(*) FILTER (spread = (target_max - target_min) / (golden_max - golden_min)), count(mark), count(*),
            count(*) FILTER (is_higher)
        FROM own WHERE golden_max > golden_min AND target_kind = 'tensor'
    """
    [(equal, marked, rows, higher)] = lake.sql(query).fetchall()
    assert equal == marked == rows > 20
    assert 0 < higher < rows
    assert lake.sql("SELECT count(spread), count(*) > 0 FROM results WHERE comparison = 'usual'").fetchall() == [
        (0, True)
    ]
    assert lake.sql("FROM results LIMIT 0").columns[3:-3] == [column.name for column in table("results").columns]
    assert lake.sql("FROM results LIMIT 0").columns[-3:] == OWN


def test_every_form_shows_them(lake: Lake, tmp_path: Path) -> None:
    result = lake.comparison("own")
    for form in ("csv", "xlsx", "json", "parquet"):
        result.write(tmp_path / form, form, layout="msprobe")
    with only_file(tmp_path / "csv").open(newline="") as lines:
        header, *rows = csv.reader(lines)
    place = header.index("spread")
    assert header[place : place + 4] == [*OWN, "NPU max"]
    shown = {row[0]: row[place : place + 3] for row in rows}
    book = load_workbook(only_file(tmp_path / "xlsx"))
    titles = [cell.value for cell in book["rows"][1]]
    assert titles[place : place + 3] == OWN
    assert [cell.value for cell in book["findings"][1]][4:7] == OWN
    typed = json.loads(only_file(tmp_path / "json").read_text())["rows"]
    stored = duckdb.sql(
        f"SELECT target_name, spread, is_higher, mark FROM '{only_file(tmp_path / 'parquet')}'"
    ).fetchall()
    spreads = [None if row["spread"] is None else float(row["spread"]) for row in typed]  # "NaN" is a text there
    others = [
        (row["target_name"], spread, row["is_higher"], row["mark"]) for row, spread in zip(typed, spreads, strict=True)
    ]
    assert str(others) == str(stored)
    number, higher, mark = shown[stored[0][0]]
    assert (float(number), higher, mark) == (stored[0][1], str(stored[0][2]), stored[0][3])


def test_the_text_tells_them_where_the_runs_part(lake: Lake) -> None:
    assert "; spread 0.9974" in str(lake.comparison("own"))
    assert "spread" not in str(lake.comparison("usual"))


def test_ranks_are_merged_by_them(lake: Lake) -> None:
    [sheet] = lake.merge("own", metrics=["spread"])
    assert sheet.metric == "spread"
    assert len(sheet.rows) == len(lake.comparison("own").rows)
    assert "spread" in {sheet.metric for sheet in lake.merge("own")}
    assert "spread" not in {sheet.metric for sheet in lake.merge("usual")}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("[1.0] AS angles", r"the column angles is DECIMAL\(2,1\)\[\]; it must be a number"),
        ("1 AS verdict", "the name of the column verdict is taken"),
        ("1 AS Result", "the name of the column Result is taken"),
    ],
)
def test_what_cannot_be_one_is_told(lake: Lake, tmp_path: Path, column: str, message: str) -> None:
    rule = tmp_path / "odd.sql"
    rule.write_text(f"CREATE OR REPLACE VIEW metrics AS SELECT *, {column} FROM metrics_default;")
    with pytest.raises(RuleError, match=message):
        lake.compare("target", "golden", name="odd", rule=str(rule))


def test_results_without_a_column_are_read_beside_ours(lake: Lake) -> None:
    lake.compare("target", "golden", name="older")
    folder = layout.comparison_folder(lake.path, "older")
    assert folder is not None
    [file] = folder.glob("step=*/rank=*/results.parquet")
    duckdb.sql(f"COPY (SELECT * EXCLUDE (cosine, first_of_op) FROM '{file}') TO '{file}.new' (FORMAT parquet)")
    Path(f"{file}.new").replace(file)
    described = yaml.safe_load((folder / "comparison.yaml").read_text())
    del described["version"], described["metrics"]
    (folder / "comparison.yaml").write_text(yaml.safe_dump(described))
    with Lake(lake.path) as opened:
        count = "SELECT count(*) FROM results WHERE comparison = '{}'"
        assert opened.sql(count.format("older")).fetchall() == opened.sql(count.format("usual")).fetchall()
        assert opened.comparison("older").verdict == opened.comparison("usual").verdict
        assert opened.comparison("older").write(lake.path.parent / "written")


def test_units_without_a_column_are_read_beside_ours(lake: Lake, tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as opened:
        opened.ingest(DEMO / "target")
        opened.ingest(DEMO / "golden")
        [file] = layout.unit_folder(opened.path, UnitKey("golden", 0, 0)).glob("ops.parquet")
        duckdb.sql(f"COPY (SELECT * EXCLUDE (began), 1 AS later FROM '{file}') TO '{file}.new' (FORMAT parquet)")
        Path(f"{file}.new").replace(file)
        query = "SELECT run, step, rank, count(*) > 0, count(began) > 0 FROM ops GROUP BY ALL ORDER BY ALL"
        assert opened.sql(query).fetchall() == [("golden", 0, 0, True, False), ("target", 0, 0, True, True)]


def test_a_comparison_of_a_newer_release_is_refused(lake: Lake) -> None:
    lake.compare("target", "golden", name="newer")
    path = lake.comparison("newer").stored.folder / "comparison.yaml"
    path.write_text(path.read_text().replace(f"version: {COMPARISON_VERSION}", f"version: {COMPARISON_VERSION + 1}"))
    with pytest.raises(LakeError, match="install a newer lakeprobe"):
        lake.comparison("newer")

"""metrics/tensor for pairs of a search, with made-up metrics in place of the function that reads the files."""

from __future__ import annotations

from pathlib import Path

import tables

from lakeprobe import metrics, resources
from lakeprobe.lake.connection import connect

LEAF = "0 AS row, 't' AS target_content, 'g' AS golden_content, [2] AS target_shape, [2] AS golden_shape"
MEASURED = f"struct_update(NULL::{metrics.struct_type()}, status := 'measured', cosine := 0.5)"


def rows(folder: Path, paired: str) -> int:
    """How many metrics a pair has whose two contents have the cosine 0.5."""
    with connect(threads=1) as connection:
        tables.prepare(connection, "comparison", folder)
        tables.create(connection, "comparison", resources.sql("metrics/tensor"))
        connection.execute(f"CREATE OR REPLACE MACRO tensor_metrics(target, golden) AS {MEASURED}")
        connection.execute(f"INSERT INTO paired BY NAME SELECT {LEAF}, {paired}")
        for side, content in (("target", "t"), ("golden", "g")):
            row = f"'{content}' AS content, {{'dtype': '<f4', 'shape': [2]}} AS reference"
            connection.execute(f"INSERT INTO {side}_contents BY NAME SELECT {row}")
        return len(connection.execute(resources.sql("metrics/tensor")).fetchall())


def test_a_pair_whose_statistics_agree_and_values_do_not_has_another_layout(tmp_path: Path) -> None:
    alike = "1 AS target_max, 1 AS golden_max, 0 AS target_min, 0 AS golden_min, 1 AS target_norm, 1 AS golden_norm"
    assert rows(tmp_path, f"'search' AS matched_by, {alike}") == 0
    assert rows(tmp_path, f"'exact' AS matched_by, {alike}") == 1
    assert rows(tmp_path, f"'search' AS matched_by, {alike.replace('1 AS golden_norm', '2 AS golden_norm')}") == 1


def test_a_pair_without_statistics_keeps_its_metrics(tmp_path: Path) -> None:
    assert rows(tmp_path, "'search' AS matched_by") == 1

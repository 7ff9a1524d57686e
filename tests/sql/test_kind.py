"""compare/kind on the files of two units: by what they can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeprobe import resources, schema
from lakeprobe.lake.connection import connect, set_variable

DUMP = {
    "format": "msprobe dump", "framework": "pytorch", "task": "statistics",
    "digests": 0, "tensor_rows": 3, "complete": True,
}  # fmt: skip


def kind(folder: Path, target: dict[str, Any], golden: dict[str, Any]) -> dict[str, Any]:
    with connect(threads=1) as connection:
        connection.execute(resources.sql("macros/unit_rows"))
        for side, dump in (("target", target), ("golden", golden)):
            (folder / side).mkdir()
            table = pa.Table.from_pylist([DUMP | dump], schema.arrow_schema("dumps"))
            pq.write_table(table, folder / side / "dumps.parquet")
            set_variable(connection, f"{side}_unit", str(folder / side))
        relation = connection.execute(resources.sql("compare/kind"))
        names = [name for name, *_ in relation.description]
        [row] = relation.fetchall()
    return dict(zip(names, row, strict=True))


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        ({}, {}, {"kind": "statistics", "usual_rule": "same_framework", "dumped": "ops", "cross_framework": False}),
        ({"task": "tensor"}, {"task": "tensor", "digests": 1}, {"kind": "tensor"}),
        ({"task": "tensor", "digests": 1}, {"digests": 1}, {"kind": "digest"}),
        ({"task": "tensor", "digests": 1}, {}, {"kind": "statistics"}),
        ({"tensor_rows": 2}, {"tensor_rows": 7}, {"rows": 7}),
        ({"task": "structure"}, {"task": "structure"}, {"is_structure": True}),
        ({"task": "structure"}, {}, {"is_structure": False}),
        (
            {"framework": "mindspore"}, {},
            {"usual_rule": "cross_framework", "cross_framework": True, "other_names": True},
        ),
        ({}, {"framework": "mindspore"}, {"cross_framework": True, "other_names": False}),
        ({"framework": "mindspore"}, {"framework": "mindspore"}, {"cross_framework": False, "other_names": False}),
        ({"format": "ptdbg dump"}, {}, {"usual_rule": "ptdbg"}),
        ({"format": "ptdbg dump"}, {"format": "ptdbg dump"}, {"usual_rule": "same_framework"}),
        ({"format": "preflight"}, {"format": "preflight"}, {"usual_rule": "preflight", "dumped": "settings"}),
        ({"format": "preflight"}, {}, {"usual_rule": "same_framework", "dumped": "ops"}),
        ({"format": "a checkpoint"}, {"format": "b checkpoint"}, {"usual_rule": "checkpoint", "dumped": "parameters"}),
        ({"format": "x kernel dump"}, {"format": "y kernel dump"}, {"usual_rule": "kernel", "dumped": "kernels"}),
        ({"format": "msprobe debug points"}, {"format": "msprobe debug points"}, {"dumped": "saved values"}),
        ({"complete": False}, {}, {"target_complete": False, "golden_complete": True}),
    ],
)  # fmt: skip
def test_kind(tmp_path: Path, target: dict[str, Any], golden: dict[str, Any], expected: dict[str, Any]) -> None:
    found = kind(tmp_path, target, golden)
    assert {name: found[name] for name in expected} == expected

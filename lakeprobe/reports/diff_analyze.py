"""Writes the origin of a difference in the format of msprobe's diff_analyze_{time}.json (26.2)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.errors import LakeError
from lakeprobe.lake import outputs
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.reports import table

if TYPE_CHECKING:
    from lakeprobe.analysis.first_difference import FirstDifference

_STATISTICS = ("NPU max", "NPU min", "NPU mean", "NPU l2norm")
_JSON = {"Nan": "NaN", " inf": "Infinity", " -inf": "-Infinity", "True": "true", "False": "false", "None": '"None"'}


def diff_analyze(comparison: StoredComparison, found: FirstDifference) -> dict[str, list[dict[str, Any]]]:
    """Return the ops at which a difference began in the earliest step that differs, by `rank_N`.

    An op that only golden has is named without inputs and outputs, because the target recorded nothing.
    """
    units = {(unit.step, unit.rank): unit for unit in comparison.units}
    origins = found.origins.project("step, rank, op, target_seq").fetchall()
    first_step = min((step for step, *_ in origins), default=None)
    return {f"rank_{rank}": [_op(units[step, rank], op, seq)] for step, rank, op, seq in origins if step == first_step}


def write(comparison: StoredComparison, found: FirstDifference, place: Path) -> Path:
    """Write the report to the file `place`, or into the folder `place` under msprobe's name.

    Raises UsageError and LakeError.
    """
    path = place if place.suffix == ".json" else place / f"diff_analyze_{time.time_ns()}.json"
    try:
        outputs.folder(path.parent)
        with outputs.draft(path) as hidden:
            content = json.dumps(diff_analyze(comparison, found), indent=2, ensure_ascii=False)
            hidden.write_text(content, encoding="utf-8")
    except OSError as error:
        raise LakeError.from_system(error, path, "the report was not written") from error
    return path


def _op(unit: ComparedUnit, op: str, seq: int | None) -> dict[str, Any]:
    columns = ("NPU MD5",) if unit.kind == "digest" else _STATISTICS
    with table.opened(unit) as connection:
        records = resources.sql("analysis/first_difference/records")
        rows = connection.execute(f"WITH cells AS ({table.cells(connection, unit)}) {records}", {"seq": seq})
        names = [column[0] for column in rows.description]
        cells = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    sides: dict[str, dict[str, Any]] = {"input": {}, "output": {}}
    for row in cells:
        values = {column: row[column] if column == "NPU MD5" else _value(row[column]) for column in columns}
        sides[row["side"]][row["NPU Name"]] = values | {"NPU P2POp peer": row["peer"]}
    return {"op_name": op, "data_info": sides, "stack_info": cells[0]["frames"] if cells else None}


def _value(cell: str) -> Any:
    """Return a cell of msprobe's tables, as a number if it is one."""
    try:
        return json.loads(_JSON.get(cell, cell))
    except ValueError:
        return cell

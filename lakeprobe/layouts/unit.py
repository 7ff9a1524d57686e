"""Writes the whole of a step as a unit of the lake. Its table `layouts` says which ranks' rows each row was made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.unit import UnitWriter, read_dump
from lakeprobe.layouts.contents import merged_contents
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.interleaving import contradictions
from lakeprobe.layouts.names import Named
from lakeprobe.layouts.whole import Whole
from lakeprobe.readers import names
from lakeprobe.schema import arrow_schema
from lakeprobe.version import __version__

FORMAT = "lakeprobe merged"
"""The value of dumps.format for a merged unit."""

_CONTENTS = {
    "leaf": "INTEGER", "content": "VARCHAR", "shape": "BIGINT[]", "max": "DOUBLE", "min": "DOUBLE", "mean": "DOUBLE",
    "norm": "DOUBLE", "layout": "VARCHAR", "problem": "VARCHAR",
}  # fmt: skip

_PARENTS = {
    "op": "VARCHAR", "parent": "VARCHAR", "api": "VARCHAR", "api_type": "VARCHAR", "kind": "VARCHAR",
    "module_class": "VARCHAR", "direction": "VARCHAR", "call": "INTEGER", "stem": "VARCHAR",
}  # fmt: skip


def write(cut: Cut, whole: Whole, named: Sequence[Sequence[Named]], mesh: str, folder: Path) -> int:
    """Write the tables of the merged unit into `folder`; after keep_merged. Returns how many rows it has.

    `mesh`: the axes of the job in words.
    """
    contents = _keep_contents(cut, whole, folder)
    _keep_rows(cut, whole, named)
    with UnitWriter(folder) as writer:
        for table in ("ops", "tensors", "stacks", "layouts"):
            _write_table(cut, writer, table)
        writer.write_rows("undumped", [])
        writer.write_rows("contents", contents)
        [(ops, rows, digests, files)] = cut.rows("counts")
        first = read_dump(layout.unit_place(cut.snapshot, UnitKey(cut.run, cut.step, cut.ranks[0])))
        row = first | {
            "format": FORMAT, "ops": ops, "tensor_rows": rows, "digests": digests, "files": files, "unreadable": 0,
            "contents": len(contents), "content_bytes": sum(one["length"] for one in contents),
            "tensor_storage": "copy", "source": f"{cut.run} ({mesh})", "fingerprint": _fingerprint(cut),
            "notes": [f"merged from {len(cut.ranks)} ranks of {cut.run}: {mesh}"], "reader_version": __version__,
        }  # fmt: skip
        writer.write_rows("dumps", [row])
        writer.close()
    return int(rows)


def _keep_contents(cut: Cut, whole: Whole, folder: Path) -> list[dict[str, Any]]:
    """Write the contents of the whole into `folder`, and keep what they say. Returns the rows of the table contents."""
    contents, made, orders = merged_contents(cut, folder, whole.axes)
    cut.register("made_contents", made, _CONTENTS)
    keys = {leaf.id: key for key, leaf in whole.leaves.items()}
    known = {keys[number]: found for number, found in orders.items()}
    problems = contradictions(whole.leaves, whole.placements, known, whole.axes)
    rows = [(whole.leaves[key].id, problem) for key, problem in problems.items()]
    cut.register("interleaved", rows, {"leaf": "INTEGER", "problem": "VARCHAR"})
    return contents


def _keep_rows(cut: Cut, whole: Whole, named: Sequence[Sequence[Named]]) -> None:
    """Create the tables of the whole's rows, ops and stacks."""
    order = sorted(whole.order.items(), key=lambda item: (item[1], item[0]))
    cut.register("whole_order", order, {"op": "VARCHAR", "place": "DOUBLE"})
    cut.register("whole_parents", _parents(named), _PARENTS)
    cut.keep("whole_rows", "whole_rows")
    ranks = [rank for (rank,) in cut.rows("first_ranks")]
    cut.keep("first_tensors", "first_tensors", cut.run_and_step | cut.golden_unit | {"ranks": ranks})
    cut.keep("whole_ops", "whole_ops", cut.run_and_step | cut.golden_unit)
    cut.keep("whole_stacks", "whole_stacks", cut.run_and_step)


def _write_table(cut: Cut, writer: UnitWriter, name: str) -> None:
    schema = arrow_schema(name)
    found = cut.table(f"unit_{name}", {"run": cut.run} if name == "layouts" else None).cast(schema)
    for batch in found.to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]:
        writer.write(name, batch)


def _parents(named: Sequence[Sequence[Named]]) -> list[tuple[Any, ...]]:
    """What the rows of ops have of each op of the whole that follows from its name."""
    rows: dict[str, tuple[Any, ...]] = {}
    for ops in named:
        whole_of = {op.op: op.whole for op in ops}
        for op in ops:
            if op.whole is not None and op.whole not in rows:
                parsed = names.parse(op.whole)
                parent = whole_of.get(op.parent, op.parent) if op.parent else None
                rows[op.whole] = (
                    op.whole, parent, parsed.api, parsed.api_type, parsed.kind, parsed.module_class, parsed.direction,
                    parsed.call, parsed.stem,
                )  # fmt: skip
    return list(rows.values())


def _fingerprint(cut: Cut) -> str:
    """A hash of the dumps of all ranks."""
    state = xxhash.xxh3_128()
    for rank in cut.ranks:
        row = read_dump(layout.unit_place(cut.snapshot, UnitKey(cut.run, cut.step, rank)))
        state.update(json.dumps([rank, row["fingerprint"]]).encode())
    return state.hexdigest()

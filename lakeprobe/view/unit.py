"""Packs one (step, rank): its tree of ops, their leaves, the dataflow between them, and the call stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakeprobe import resources
from lakeprobe.errors import TensorError
from lakeprobe.view.columns import Column, Texts, floats, integers, packed
from lakeprobe.view.levels import Record, Subject, records
from lakeprobe.view.tree import COLUMNS, Tree, tree_of

if TYPE_CHECKING:
    import duckdb

_NO_LEVEL = -1
_STATISTICS = ("max", "min", "mean", "norm")
_MOST_HISTOGRAMS = 512
_MOST_COUNTED = 1 << 26
"""The leaves of a unit, the worst first, whose contents are read again for a histogram; and the elements of them."""
_LEAF_TEXTS = (
    "slot", "golden_slot", "role", "outcome", "messages", "target_type", "golden_type", "target_shape", "golden_shape",
    "target_value", "golden_value",
)  # fmt: skip


def packed_unit(connection: duckdb.DuckDBPyConnection, subject: Subject, unit: tuple[int, int, int, int]) -> str:
    """Return the packed tables of one unit. `connection` has the tables of `levels.judged`."""
    step, rank, golden_step, golden_rank = unit
    sides = {"target": subject.target, "golden": subject.golden or ""}
    places = {"step": step, "rank": rank, "golden_step": golden_step, "golden_rank": golden_rank}
    ops = connection.sql(resources.sql("view/nodes"), params=sides | places).to_arrow_table()
    stacks = _stacks(connection, subject, unit)
    tree = tree_of(ops.select(COLUMNS).to_pylist(), {row["stack"]: row["own"] for row in stacks["target"]})
    order = np.asarray(tree.order, np.int64)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    texts = Texts()
    nodes = _nodes(ops, tree, texts)
    parents = np.asarray(tree.parents, np.int64)[order]
    nodes["parent"] = integers(np.where(parents < 0, -1, position[parents]))
    by_target, by_golden = (
        _Places(_whole(ops.column(f"{side}_seq")), position[: ops.num_rows]) for side in ("target", "golden")
    )
    leaves = _leaves(connection, subject, unit, by_target, by_golden, texts)
    frames = _frames(stacks, texts)
    head = {
        "nodes": len(order),
        "leaves": len(leaves["leaf_node"]),
        "texts": texts.texts,
        "histogram_bins": len(leaves["histogram_count"]) // max(1, len(leaves["histogram_leaf"])),
    }
    return packed(head, {**nodes, **leaves, **frames})


def _stacks(
    connection: duckdb.DuckDBPyConnection, subject: Subject, unit: tuple[int, int, int, int]
) -> dict[str, list[Record]]:
    found = {}
    for side, run, (step, rank) in (("target", subject.target, unit[:2]), ("golden", subject.golden, unit[2:])):
        found[side] = records(connection, "stacks", {"run": run, "step": step, "rank": rank}) if run else []
    return found


class _Places:
    """Values by non-negative keys, the last of several; negative keys have none."""

    def __init__(self, keys: Column, values: Column) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], values[order]

    def __getitem__(self, keys: Column) -> Column:
        """Return the value of each key, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        at = np.maximum(np.searchsorted(self._keys, keys, "right") - 1, 0)
        return np.where((keys >= 0) & (self._keys[at] == keys), self._values[at], -1)


def _whole(column: Any, missing: int = -1) -> Column:
    """Return the integers or flags of an Arrow column, `missing` where there is none."""
    plain: Column = column.cast("int64").fill_null(missing).to_numpy()
    return plain


def _nodes(ops: Any, tree: Tree, texts: Texts) -> dict[str, Column]:
    """Return the columns of the nodes in the tree's order; groups have a label instead of an op."""
    order = np.asarray(tree.order, np.int64)
    groups = len(tree.labels)

    def placed(column: Column, missing: float) -> Column:
        """Return the column with the groups, which have nothing, in the order of the tree."""
        return np.concatenate((column, np.full(groups, missing, column.dtype)))[order]

    labels = np.concatenate((np.full(ops.num_rows, -1, np.int64), texts.numbers(tree.labels)))[order]
    columns = {"label": integers(labels), "direction": texts.numbers(tree.directions)[order]}
    for name in ("target_op", "golden_op", "kind", "api_type"):
        columns[name] = placed(_numbered(ops.column(name), texts), -1)
    for name in ("target_seq", "golden_seq", "micro_step", "target_stack", "golden_stack"):
        columns[name] = placed(integers(_whole(ops.column(name))), -1)
    columns["is_recompute"] = placed(integers(_whole(ops.column("is_recompute"), 0)), 0)
    columns["level"] = placed(integers(_whole(ops.column("level"), _NO_LEVEL)), _NO_LEVEL)
    for name in ("error_in", "error_out"):
        columns[name] = placed(floats(ops.column(name).to_numpy()), np.nan)
    return columns


def _leaves(
    connection: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    by_target: _Places,
    by_golden: _Places,
    texts: Texts,
) -> dict[str, Any]:
    """Return the columns of the leaves, in the order of their nodes."""
    step, rank = unit[:2]
    asked: Record = {"step": step, "rank": rank}
    if subject.comparison is None:
        file, asked = "run_leaves", asked | {"run": subject.name}
    else:
        file, asked = "leaves", asked | {"comparison": subject.name}
    table = connection.sql(resources.sql(f"view/{file}"), params=asked).to_arrow_table()
    targets, goldens = (_whole(table.column(f"{side}_seq")) for side in ("target", "golden"))
    owners = np.where(targets >= 0, by_target[targets], by_golden[goldens])
    order = np.lexsort((table.column("row").to_numpy(), owners))
    columns: dict[str, Any] = {"leaf_node": integers(owners[order])}
    for name in _LEAF_TEXTS:
        columns[f"leaf_{name}"] = _numbered(table.column(name), texts)[order]
    columns["leaf_level"] = table.column("level").to_numpy()[order]
    columns["leaf_error"] = floats(table.column("error").to_numpy())[order]
    for side in ("target", "golden"):
        for name in _STATISTICS:
            columns[f"leaf_{side}_{name}"] = floats(table.column(f"{side}_{name}").to_numpy(), exact=True)[order]
        columns[f"leaf_{side}_recorded"] = table.column(f"{side}_recorded").to_numpy()[order]
    rows = _whole(table.column("target_row"))[order]
    return columns | _makers(connection, subject, unit, rows, by_target) | _histograms(connection, subject, unit, rows)


def _numbered(column: Any, texts: Texts) -> Column:
    """Return the numbers of the texts of an Arrow column; each distinct text is looked up once."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    numbers: Column = texts.numbers(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
    return numbers


def _makers(
    connection: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    rows: Column,
    by_target: _Places,
) -> dict[str, Any]:
    """Return by leaf the node that made its value; -1 if none is known."""
    asked = {"target": subject.target, "step": unit[0], "rank": unit[1]}
    made = connection.sql(resources.sql("view/makers"), params=asked).to_arrow_table()
    makers = _Places(_whole(made.column("row")), _whole(made.column("maker")))
    return {"leaf_maker": integers(by_target[makers[rows]])}


def _histograms(
    connection: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    rows: Column,
) -> dict[str, Any]:
    """Return the leaves that have a histogram of their differences, and its bins; what cannot be read has none."""
    if subject.comparison is None or subject.comparison.units[0].kind != "tensor":
        return {"histogram_leaf": integers([]), "histogram_count": integers([])}
    from lakeprobe.tensors import TensorReference
    from lakeprobe.tensors.histogram import difference_histogram

    places = dict(zip(("step", "rank", "golden_step", "golden_rank"), unit, strict=True))
    runs = {"comparison": subject.name, "target": subject.target, "golden": subject.golden}
    found = []
    counted = 0
    for row in records(connection, "contents", places | runs | {"most": _MOST_HISTOGRAMS}):
        try:
            sides = [TensorReference.of(row[side]) for side in ("target", "golden")]
            histogram = difference_histogram(*sides)
        except TensorError:  # the table of the op says that it cannot be read
            continue
        found.append((int(np.flatnonzero(rows == row["target_row"])[0]), histogram))
        counted += int(histogram.sum())
        if counted > _MOST_COUNTED:
            break
    return {
        "histogram_leaf": integers([leaf for leaf, _ in found]),
        "histogram_count": integers([count for _, counts in found for count in counts.tolist()]),
    }


def _frames(stacks: dict[str, list[Record]], texts: Texts) -> dict[str, Any]:
    """Return for each stack of both sides its frames, and the user's own line."""
    columns: dict[str, Any] = {}
    for side, rows in stacks.items():
        frames = [texts.number(frame) for row in rows for frame in row["frames"]]
        columns[f"{side}_stack_number"] = integers([row["stack"] for row in rows])
        columns[f"{side}_stack_end"] = integers(np.cumsum([len(row["frames"]) for row in rows]))
        columns[f"{side}_stack_frame"] = integers(frames)
        columns[f"{side}_stack_code"] = texts.numbers([row["code"] for row in rows])
    return columns

"""Packs one (step, rank): its tree of ops, their leaves, the dataflow between them, and the call stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lakeprobe import resources
from lakeprobe.errors import TensorError
from lakeprobe.tensors import TensorReference
from lakeprobe.tensors.histogram import BINS, difference_histogram
from lakeprobe.view.columns import Texts, floats, integers, packed
from lakeprobe.view.levels import Record, Subject, records
from lakeprobe.view.tree import tree_of

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
    rows = records(connection, "nodes", sides | places)
    stacks = _stacks(connection, subject, unit)
    tree = tree_of(rows, {row["stack"]: row["own"] for row in stacks["target"]})
    position = np.empty(len(tree.order), np.int64)
    position[tree.order] = np.arange(len(tree.order))
    texts = Texts()
    nodes = _nodes(rows, tree.labels, tree.directions, tree.order, texts)
    parents = np.asarray(tree.parents, np.int64)[tree.order]
    nodes["parent"] = integers(np.where(parents < 0, -1, position[parents]).tolist())
    by_target = {row["target_seq"]: int(position[node]) for node, row in enumerate(rows)}
    by_golden = {row["golden_seq"]: int(position[node]) for node, row in enumerate(rows)}
    leaves = _leaves(connection, subject, unit, by_target, by_golden, texts)
    frames = _frames(stacks, texts)
    head = {
        "nodes": len(tree.order),
        "leaves": len(leaves["leaf_node"]),
        "texts": texts.texts,
        "histogram_bins": BINS,
    }
    return packed(head, {**nodes, **leaves, **frames})


def _stacks(
    connection: duckdb.DuckDBPyConnection, subject: Subject, unit: tuple[int, int, int, int]
) -> dict[str, list[Record]]:
    found = {}
    for side, run, (step, rank) in (("target", subject.target, unit[:2]), ("golden", subject.golden, unit[2:])):
        found[side] = records(connection, "stacks", {"run": run, "step": step, "rank": rank}) if run else []
    return found


def _nodes(
    rows: Sequence[Record], labels: Sequence[str], directions: Sequence[str], order: Sequence[int], texts: Texts
) -> dict[str, Any]:
    """Return the columns of the nodes in the tree's order; groups have a label instead of an op."""
    groups: list[Record] = [dict.fromkeys(rows[0] if rows else ()) for _ in labels]
    everyone = [*rows, *groups]
    listed = [everyone[node] for node in order]

    def column(name: str, missing: int) -> Any:
        return integers([missing if row.get(name) is None else row[name] for row in listed])

    is_known = [row.get("level") is not None for row in listed]
    return {
        "label": texts.numbers([labels[node - len(rows)] if node >= len(rows) else None for node in order]),
        "target_op": texts.numbers([row.get("target_op") for row in listed]),
        "golden_op": texts.numbers([row.get("golden_op") for row in listed]),
        "kind": texts.numbers([row.get("kind") for row in listed]),
        "direction": texts.numbers([directions[node] for node in order]),
        "api_type": texts.numbers([row.get("api_type") for row in listed]),
        "target_seq": column("target_seq", -1),
        "golden_seq": column("golden_seq", -1),
        "micro_step": column("micro_step", -1),
        "is_recompute": integers([int(bool(row.get("is_recompute"))) for row in listed]),
        "target_stack": column("target_stack", -1),
        "golden_stack": column("golden_stack", -1),
        "level": integers([row["level"] if known else _NO_LEVEL for row, known in zip(listed, is_known, strict=True)]),
        "error_in": floats([row.get("error_in") for row in listed]),
        "error_out": floats([row.get("error_out") for row in listed]),
    }


def _leaves(
    connection: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    by_target: dict[int | None, int],
    by_golden: dict[int | None, int],
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
    targets, goldens = (table.column(f"{side}_seq").to_pylist() for side in ("target", "golden"))
    owners = [
        by_target[target] if target is not None else by_golden.get(golden, -1)
        for target, golden in zip(targets, goldens, strict=True)
    ]
    order = np.lexsort((table.column("row").to_numpy(), np.asarray(owners, np.int64)))
    columns: dict[str, Any] = {"leaf_node": integers(np.asarray(owners, np.int64)[order].tolist())}
    for name in _LEAF_TEXTS:
        columns[f"leaf_{name}"] = _numbered(table.column(name), texts)[order]
    columns["leaf_level"] = table.column("level").to_numpy()[order]
    columns["leaf_error"] = floats(table.column("error").to_numpy())[order]
    for side in ("target", "golden"):
        for name in _STATISTICS:
            columns[f"leaf_{side}_{name}"] = floats(table.column(f"{side}_{name}").to_numpy(), exact=True)[order]
        columns[f"leaf_{side}_recorded"] = _recorded([table.column(f"{side}_{name}") for name in _STATISTICS])[order]
    rows = table.column("target_row").to_numpy()[order].tolist()
    return columns | _makers(connection, subject, unit, rows, by_target) | _histograms(connection, subject, unit, rows)


def _numbered(column: Any, texts: Texts) -> np.ndarray[Any, Any]:
    """Return the numbers of the texts of an Arrow column; each distinct text is looked up once."""
    import pyarrow as pa

    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    known = np.array([*(texts.number(text) for text in coded.dictionary.to_pylist()), -1], np.int64)
    indices = coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
    return integers(known[indices].tolist())


def _recorded(columns: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return for each row a bit per Arrow column, the first the lowest: set where there is a value, be it NaN."""
    recorded = np.zeros(len(columns[0]), np.int8)
    for place, column in enumerate(columns):
        recorded |= column.is_valid().to_numpy().astype(np.int8) << place
    return recorded


def _makers(
    connection: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    rows: Sequence[float],
    by_target: dict[int | None, int],
) -> dict[str, Any]:
    """Return by leaf the node that made its value; -1 if none is known."""
    asked = {"target": subject.target, "step": unit[0], "rank": unit[1]}
    made = {row["row"]: row["maker"] for row in records(connection, "makers", asked)}
    found = [by_target.get(made[row], -1) if row in made else -1 for row in rows]
    return {"leaf_maker": integers(found)}


def _histograms(
    connection: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    rows: Sequence[float],
) -> dict[str, Any]:
    """Return the leaves that have a histogram of their differences, and its bins; what cannot be read has none."""
    if subject.comparison is None or subject.comparison.units[0].kind != "tensor":
        return {"histogram_leaf": integers([]), "histogram_count": integers([])}
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
        found.append((rows.index(row["target_row"]), histogram))
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
        columns[f"{side}_stack_end"] = integers(np.cumsum([len(row["frames"]) for row in rows]).tolist())
        columns[f"{side}_stack_frame"] = integers(frames)
        columns[f"{side}_stack_code"] = texts.numbers([row["code"] for row in rows])
    return columns

"""Writes the SQLite database that tb-graph-ascend 8.3.2, TensorBoard's plug-in for graphs of Ascend, opens.

Schema, indexes and meaning of the columns are those of msprobe 26.2's graph_visualize. What is equal and what is not is
in docs/view.md.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lakeprobe import resources
from lakeprobe.analysis import overflow as overflowing
from lakeprobe.analysis.query import stage_connection
from lakeprobe.analysis.transfers import keep_transfers
from lakeprobe.errors import DumpError
from lakeprobe.lake import outputs
from lakeprobe.lake.comparison import ComparedUnit
from lakeprobe.lake.connection import columns_of, define_macros
from lakeprobe.lake.connection import records as rows_of
from lakeprobe.readers.locate import locate_run
from lakeprobe.reports import table
from lakeprobe.view.graph import COLLECTION, ROOT, Node, graph, in_order
from lakeprobe.view.levels import Record, Subject, judge, records
from lakeprobe.work import Progress

if TYPE_CHECKING:
    import duckdb

_NODE_COLUMNS = (
    "id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL, node_name TEXT NOT NULL, "
    "node_type TEXT NOT NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER, overflow_level TEXT, "
    "micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT, parallel_merge_info TEXT, "
    "matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT, output_data TEXT, data_source TEXT, "
    "dump_data_dir TEXT, step INTEGER NOT NULL, rank INTEGER NOT NULL, is_distributed INTEGER"
)
_CONFIG_COLUMNS = (
    "id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT, tool_tip TEXT, micro_steps INTEGER, "
    "overflow_check INTEGER, node_colors TEXT NOT NULL, rank_list TEXT NOT NULL, step_list TEXT NOT NULL"
)
_STACK_COLUMNS = "id TEXT PRIMARY KEY, stack_info TEXT"
_INDEXES = (
    "step, rank, data_source, up_node, node_order",
    "step, rank, data_source, node_name",
    "step, rank, data_source, node_order",
    "step, rank, node_order",
    "step, rank, micro_step_id, node_order",
    "step, rank, modified, matched_node_link",
    "is_distributed",
)
_NPU, _BENCH = "NPU", "Bench"
_TASKS = {"statistics": "summary", "tensor": "all", "digest": "md5"}
_COLOURS = {
    "#FFFCF3": {"value": [0, 0.3], "description": "Every input and output passes.", "accuracy_level": "pass"},
    "#FFDC7F": {"value": [0.3, 0.6], "description": "An input or output has a warning.", "accuracy_level": "warning"},
    "#FF704D": {"value": [0.6, 1], "description": "An input or output has an error.", "accuracy_level": "error"},
    "#C7C7C7": {"value": [], "description": "The node has no counterpart.", "accuracy_level": "unmatched node"},
}
_TIPS = {
    "Max diff": "Difference of the largest elements.",
    "Min diff": "Difference of the smallest elements.",
    "Mean diff": "Difference of the means.",
    "L2norm diff": "Difference of the L2 norms.",
}
_STATISTICS = ("max", "min", "mean", "norm")
_PYTHON = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan", "true": "True", "false": "False"}
"""Values that msprobe writes as Python does, where the lake has JSON."""
_INDEX = {"pass": 0, "warning": 0.5, "error": 1}
_SIDES = ("NPU ", "Bench ", "BENCH ")
_OF_ROW = {"row", "Data_name", "Part", "NPU_Stack_Info", "Requires_grad Consistent", "Result", "Err_message"}
_ENCODE = msgspec.json.Encoder().encode
"""The data of the nodes is most of what is written, and json took a third of the time."""
Place = tuple[int, int, int]
"""A step, a rank and the place of an op."""


class _Run(Struct, frozen=True):
    """What is found of a run as a whole: partners and levels by place, and by step and rank the tensors' folder."""

    partners: Mapping[Place, Record]
    overflows: Mapping[Place, str]
    folders: Mapping[tuple[int, int], str]


class _Side(Struct, frozen=True):
    """One side of a unit: its nodes and their links by name, and the data of its ops by place.

    `step` and `rank` are those of the target, as which both sides are shown; `own` are those of the run itself.
    """

    source: str
    step: int
    rank: int
    own: tuple[int, int]
    run: _Run
    nodes: Mapping[str, Node]
    links: Mapping[str, Sequence[str]]
    data: Mapping[int, tuple[Record, Record]]
    merged: Mapping[str, Sequence[str]]


def write(
    connection: duckdb.DuckDBPyConnection,
    lake: Path,
    subject: Subject,
    path: Path,
    most: int = 0,
    all_units: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write the database of `subject` to `path`. It has all units: `most` and `all_units` are for pages.

    `connection` has the views of `lake`.

    Raises OSError, and sqlite3.Error if the file cannot be written.
    """
    with (
        outputs.draft(path) as hidden,
        closing(sqlite3.connect(hidden)) as database,
        stage_connection(connection) as stages,
    ):
        judge(stages, subject)
        define_macros(stages, ("is_rank_argument", "cell_dtype"))
        database.execute("PRAGMA synchronous = OFF")  # a draft: nobody reads it before it is whole
        for name, columns in (("nodes", _NODE_COLUMNS), ("config", _CONFIG_COLUMNS), ("stack", _STACK_COLUMNS)):
            database.execute(f"CREATE TABLE tb_{name} ({columns})")
        runs = {run: _run(stages, run, subject) for run in (subject.target, subject.golden) if run}
        micro_steps = 1
        for done, unit in enumerate(subject.units):
            if progress:
                progress(done, len(subject.units))
            micro_steps = max(micro_steps, _write_unit(database, stages, subject, unit, runs))
        _write_config(database, subject, micro_steps)
        for number, columns in enumerate(_INDEXES, 1):
            database.execute(f"CREATE INDEX index{number} ON tb_nodes ({columns})")
        database.commit()


def _write_config(database: sqlite3.Connection, subject: Subject, micro_steps: int) -> None:
    comparison = subject.comparison
    kind = comparison.units[0].kind if comparison else ""
    is_compared = comparison is not None
    row = (
        "1",
        "compare" if is_compared else "build",
        _TASKS.get(kind, ""),
        json.dumps(_TIPS) if is_compared else "{}",
        micro_steps,
        1,
        json.dumps(_COLOURS) if is_compared else "{}",
        json.dumps(sorted({rank for _, rank, *_ in subject.units})),
        json.dumps(sorted({step for step, *_ in subject.units})),
    )
    database.execute("INSERT INTO tb_config VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _write_unit(
    database: sqlite3.Connection,
    stages: duckdb.DuckDBPyConnection,
    subject: Subject,
    unit: tuple[int, int, int, int],
    runs: Mapping[str, _Run],
) -> int:
    """Write the nodes and stacks of both sides of a unit. Returns the number of micro steps."""
    step, rank, golden_step, golden_rank = unit
    target = graph(_rows(stages, "graph_nodes", subject.target, step, rank))
    golden = graph(_rows(stages, "graph_nodes", subject.golden, golden_step, golden_rank)) if subject.golden else {}
    ours, theirs = _links(stages, unit, target, golden)
    has_digests = subject.comparison is not None and subject.comparison.units[0].kind == "digest"
    data = _data(stages, subject.target, step, rank, _judgements(subject, unit), has_digests)
    merged = _merged(stages, subject.target, step, rank)
    own = (step, rank)
    _write_side(database, _Side(_NPU, step, rank, own, runs[subject.target], target, ours, data, merged))
    if subject.golden:
        own = (golden_step, golden_rank)
        data = _data(stages, subject.golden, *own, {}, has_digests)
        merged = _merged(stages, subject.golden, *own)
        _write_side(database, _Side(_BENCH, step, rank, own, runs[subject.golden], golden, theirs, data, merged))
    return 1 + max(node.micro_step for node in target.values())


def _rows(stages: duckdb.DuckDBPyConnection, file: str, run: str | None, step: int, rank: int) -> list[Record]:
    return records(stages, file, {"run": run, "step": step, "rank": rank})


def _merged(stages: duckdb.DuckDBPyConnection, run: str, step: int, rank: int) -> dict[str, Sequence[str]]:
    """Return by op how its leaves lay over the ranks that were merged; nothing for a run that was not merged."""
    return {row["op"]: row["texts"] for row in _rows(stages, "graph_merged", run, step, rank)}


def _links(
    stages: duckdb.DuckDBPyConnection,
    unit: tuple[int, int, int, int],
    target: Mapping[str, Node],
    golden: Mapping[str, Node],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the way to the counterpart of each node, by the name of the node, for both sides.

    Ops are paired as the comparison pairs them; what has no values is paired by its name and the modules around it.
    """
    asked = "SELECT target_seq, golden_seq FROM view_ops WHERE step = $step AND rank = $rank AND golden_seq IS NOT NULL"
    places = {node.seq: node for node in golden.values() if node.seq is not None}
    pairs = dict(stages.execute(f"{asked} AND target_seq IS NOT NULL", {"step": unit[0], "rank": unit[1]}).fetchall())
    ours: dict[str, list[str]] = {}
    theirs: dict[str, list[str]] = {}
    for name, node in target.items():
        if node.seq is not None and node.seq in pairs:
            other = places.get(pairs[node.seq])
        else:
            other = golden.get(name)
            if other is not None and (other.seq is not None or other.way() != node.way()):
                other = None
        if other is not None:
            ours[name] = other.way()
            theirs[other.name] = node.way()
    return ours, theirs


def _judgements(subject: Subject, unit: tuple[int, int, int, int]) -> dict[int, Record]:
    """Return by row of the target what the comparison says of it, in the words of msprobe's tables."""
    if subject.comparison is None:
        return {}
    compared = next(found for found in subject.comparison.units if (found.step, found.rank) == unit[:2])
    return _compared_rows(compared)


def _compared_rows(unit: ComparedUnit) -> dict[int, Record]:
    with table.opened(unit) as connection:
        shown = columns_of(connection, f"(\n{table.msprobe_table(connection, unit)}\n)")
        metrics = [name for name in shown if not name.startswith(_SIDES) and name not in _OF_ROW]
        chosen = ", ".join(resources.quote_identifier(name) for name in metrics)
        chosen = f"{chosen}, " if chosen else ""
        found = connection.sql(
            f"WITH cells AS (\n{table.cells(connection, unit)}\n) "
            f'SELECT target_row, {chosen}"Requires_grad Consistent", "Result", "Err_message" '
            "FROM cells JOIN (SELECT row, target_row FROM results) USING (row) WHERE target_row IS NOT NULL"
        )
        return {row.pop("target_row"): row for row in rows_of(found)}


def _data(
    stages: duckdb.DuckDBPyConnection,
    run: str,
    step: int,
    rank: int,
    judgements: Mapping[int, Record],
    has_digests: bool,
) -> dict[int, tuple[Record, Record]]:
    """Return by op the data of its inputs and of its outputs, each by the name of the leaf.

    `has_digests` is whether values have digests too, as in a comparison of digests.
    """
    data: dict[int, tuple[Record, Record]] = {}
    for leaf in _rows(stages, "graph_leaves", run, step, rank):
        sides = data.setdefault(leaf["seq"], ({}, {}))
        judgement = judgements.get(leaf["row"], {}) if _is_judged(leaf) else {}
        sides[leaf["role"] == "output"][leaf["name"]] = _leaf(leaf, has_digests) | judgement
    return data


def _is_judged(leaf: Record) -> bool:
    return leaf["kind"] in ("tensor", "scalar") or (leaf["kind"] == "object" and leaf["value"] is not None)


def _leaf(leaf: Record, has_digests: bool) -> Record:
    """Return a leaf in the plug-in's words: everything is a text."""
    if leaf["kind"] == "null":
        return {"value": "null"}
    data_name = leaf["data_name"] or "-1"
    if leaf["kind"] == "tensor":
        numbers = {name.capitalize(): _statistic(leaf, name) for name in _STATISTICS}
        is_transfer = leaf["type"] == "torch.distributed.P2POp"
        kind = {"type": "torch.Tensor", "class_type": leaf["type"]} if is_transfer else {"type": leaf["type"]}
        shown = {**kind, "dtype": leaf["dtype"], "shape": _shape(leaf["shape"]), **numbers}
        digest = {"md5": leaf["digest"]} if leaf["digest"] is not None else {}
        return {**shown, "requires_grad": _flag(leaf["requires_grad"]), **digest, "data_name": data_name}
    if not _is_judged(leaf):
        others = {name: str(value) for name, value in json.loads(leaf["extra"] or "{}").items()}
        return {"type": leaf["type"], **others, "data_name": data_name}
    value = _PYTHON.get(leaf["value"], str(leaf["value"]))
    numbers = dict.fromkeys(("Max", "Min", "Mean", "Norm"), value)
    shown = {"type": leaf["type"], "value": value, "data_name": data_name, "requires_grad": "null"}
    digest = {"md5": value if leaf["is_rank_argument"] else table.digest_of_text(value)} if has_digests else {}
    return {**shown, **numbers, "dtype": leaf["shown_dtype"], "shape": "[]", **digest}


def _statistic(leaf: Record, name: str) -> str:
    value, exact = leaf[name], leaf.get(f"{name}_int")
    if value is None:
        return "null"
    is_flag = leaf["stat_types"][_STATISTICS.index(name)] == "b"
    return str(bool(value) if is_flag else value if exact is None else exact)


def _shape(shape: Sequence[int] | None) -> str:
    return str(list(shape)) if shape is not None else "[]"


def _flag(value: bool | None) -> str:
    return "null" if value is None else str(value)


def _run(stages: duckdb.DuckDBPyConnection, run: str, subject: Subject) -> _Run:
    return _Run(_partners(stages, run, subject), _overflows(stages, run), _tensor_folders(stages, run))


def _overflows(stages: duckdb.DuckDBPyConnection, run: str) -> dict[Place, str]:
    """Return the levels of `run` alone: the plug-in shows those of both sides, so golden's must not hide target's."""
    overflowing.keep_levels(stages, run)
    return {(row["step"], row["rank"], row["seq"]): row["level"] for row in records(stages, "overflow_levels")}


def _tensor_folders(stages: duckdb.DuckDBPyConnection, run: str) -> dict[tuple[int, int], str]:
    """Return the folders of the tensor files that `run` was read from, as far as they are still there."""
    folders = {}
    for row in records(stages, "tensor_sources", {"run": run}):
        with suppress(DumpError):
            sources = locate_run(Path(row["source"])).sources
            folders.update({(found.step, found.rank): str(found.tensors) for found in sources if found.tensors})
    return folders


def _partners(stages: duckdb.DuckDBPyConnection, run: str, subject: Subject) -> dict[Place, Record]:
    """Return for each op of `run` that connects ranks what it does, and the ops of other ranks that it meets."""
    keep_transfers(stages, run)
    is_judged = subject.comparison is not None and run == subject.target
    found: dict[Place, Record] = {}
    for row in records(stages, "graph_meetings"):
        place = (row["step"], row["rank"], row["seq"])
        meeting = found.setdefault(place, {"communications_type": row["way"], "nodes_info": {}})
        index = {7: 1, 5: 0.5}.get(row["other_level"], 0) if is_judged else "Nan"
        meeting["nodes_info"][str(row["other_rank"])] = [str(index), row["other_op"]]
    return found


def _write_side(database: sqlite3.Connection, side: _Side) -> None:
    """Write the nodes of one side, children before their parent, and the distinct stacks."""
    graph_id = f"{side.source}_{side.step}_{side.rank}"
    stacks: dict[str, str] = {}
    rows = []
    for order, node in enumerate(in_order(side.nodes[ROOT])):
        frames = json.dumps(list(node.frames))
        stack = stacks.setdefault(frames, f"{graph_id}_{len(stacks)}")
        inputs, outputs = side.data.get(node.seq, ({}, {})) if node.seq is not None else ({}, {})
        place = (*side.own, -1 if node.seq is None else node.seq)
        merged = side.merged.get(node.name)
        rows.append((
            f"{graph_id}_{node.name}", graph_id, order, node.name, str(node.type),
            node.parent.name if node.parent else "",
            json.dumps([child.name for child in node.children]) if node.children else "",
            _index(side, node) if side.source == _NPU else None, side.run.overflows.get(place),
            node.micro_step, json.dumps(side.links.get(node.name, [])), stack,
            json.dumps(merged) if merged else "",
            json.dumps(side.run.partners.get(place, {})), 0, _packed(inputs), _packed(outputs),
            side.source, side.run.folders.get(side.own), side.step, side.rank, int(node.name.startswith("Distributed")),
        ))  # fmt: skip
    database.executemany(f"INSERT INTO tb_nodes VALUES ({', '.join('?' * 22)})", rows)
    database.executemany("INSERT INTO tb_stack VALUES (?, ?)", [(stack, text) for text, stack in stacks.items()])


def _packed(leaves: Record) -> str:
    return _ENCODE(leaves).decode()


def _index(side: _Side, node: Node) -> float | None:
    """Return the worst index of the leaves of `node`, or of the ops gathered in it; None for a node without any."""
    if node.type == COLLECTION:
        found = [_index(side, child) for child in node.children]
    elif node.name not in side.links:
        found = []
    else:
        sides = side.data.get(node.seq, ()) if node.seq is not None else ()
        leaves = (leaf for leaves in sides for leaf in leaves.values())
        found = [_INDEX.get(leaf.get("Result", "pass")) for leaf in leaves]  # a null has no Result
    return max((index for index in found if index is not None), default=None)

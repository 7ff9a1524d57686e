"""Writes ops for the terminal: the tensors and values of several runs side by side, the module, and the call stack."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lakeprobe import output, resources
from lakeprobe.lake.connection import records
from lakeprobe.shown import unbroken
from lakeprobe.table_text import number

if TYPE_CHECKING:
    import duckdb

    Query = Callable[[str, dict[str, Any]], duckdb.DuckDBPyRelation]
    """Runs a query with named parameters on a lake."""

Record = dict[str, Any]

_STATISTICS = ("max", "min", "mean", "norm")
_MOST_NAMES = 10
"""The most ops that are named after those that are shown."""


class Op(Struct):
    """An op of one step and rank, with the runs that have it, in the order in which they are shown."""

    name: str
    step: int
    rank: int
    sides: dict[str, Record] = field(default_factory=dict)


class Asked(Struct, frozen=True):
    """Which ops to show: a pattern (sql/reports/op_heads.sql), and in which runs, steps and ranks; empty means all.

    `counterparts` are golden's names of the target's ops, where a comparison paired other names.
    """

    pattern: str
    runs: Sequence[str] = ()
    steps: Sequence[int] = ()
    ranks: Sequence[int] = ()
    counterparts: Mapping[str, str] = field(default_factory=dict)


def find(sql: Query, asked: Asked) -> list[Op]:
    """Return the ops that are asked for, in the order of the program. An op of several runs is one op."""
    found: dict[tuple[int, int, str], Op] = {}
    targets = {golden: target for target, golden in asked.counterparts.items()}
    for head in _heads(sql, asked):
        is_golden = len(asked.runs) > 1 and head["run"] == asked.runs[1]
        name = str(targets.get(head["op"], head["op"]) if is_golden else head["op"])
        key = (head["step"], head["rank"], name)
        found.setdefault(key, Op(name, head["step"], head["rank"])).sides[head["run"]] = head
    for op in found.values():
        op.sides = {run: op.sides[run] for run in (asked.runs or op.sides) if run in op.sides}
    return list(found.values())


def _heads(sql: Query, asked: Asked) -> list[Record]:
    parameters = {name: list(getattr(asked, name)) for name in ("runs", "steps", "ranks")} | {"pattern": asked.pattern}
    heads = records(sql(resources.sql("reports/op_heads"), parameters))
    # an op of the target whose counterpart has another name: look that up too, and the other way round
    both = {**asked.counterparts, **{theirs: ours for ours, theirs in asked.counterparts.items()}}
    known = {head["op"] for head in heads}
    for other in sorted({both[name] for name in known if name in both} - known):
        heads += records(sql(resources.sql("reports/op_heads"), parameters | {"pattern": other}))
    return heads


def ops_text(
    sql: Query, ops: Sequence[Op], most: int, *, comparison: str | None = None, whole_stack: bool = False
) -> str:
    """Return the first `most` of `ops` in full, and the names of the next ones.

    Leaves of both sides stand beside each other as `comparison` paired them; without one, by their slots.
    """
    parts = [_text(sql, op, comparison, whole_stack) for op in ops[:most]]
    others = list(dict.fromkeys(unbroken(op.name) for op in ops[most:]))
    if others:
        more = [
            f"… and {len(ops) - most} more (--most shows them):",
            *(f"  {name}" for name in others[:_MOST_NAMES]),
        ]
        parts.append("\n".join([*more, *(["  …"] if len(others) > _MOST_NAMES else [])]) + "\n")
    return "\n".join(parts)


def _text(sql: Query, op: Op, comparison: str | None, whole_stack: bool) -> str:
    """Return one op: who has it, where it is in the program, and its leaves, those of several runs side by side."""
    one = next(iter(op.sides.values()))
    lines = [f"{unbroken(op.name)}  (step {op.step}, rank {op.rank})"]
    lines += [f"  in {run} it is {unbroken(side['op'])}" for run, side in op.sides.items() if side["op"] != op.name]
    if one["parent"]:
        lines.append(f"  in {unbroken(one['parent'])}")
    lines += [
        "",
        _leaves_text(_leaves_of_sides(sql, op, comparison)),
        *_stack_lines(one, whole_stack),
    ]
    return output.folded("\n".join(lines)).rstrip() + "\n"


def _stack_lines(head: Record, whole: bool) -> Iterator[str]:
    frames = head["frames"] if whole else head["own_frames"] or []
    for frame in frames:
        yield "  at " + " ".join(frame.split())
    hidden = len(head["frames"]) - len(frames)
    if hidden:
        yield f"  ({hidden} frames of the framework are left out; --stack shows them)"


def _leaves_of_sides(sql: Query, op: Op, comparison: str | None) -> dict[str, dict[str, Record]]:
    """Return by run the leaves by the name of their row, which leaves that belong together share."""
    sides = {run: _leaves(sql, side) for run, side in op.sides.items()}
    if comparison is None or len(sides) != 2:
        return {run: {_slot(leaf): leaf for leaf in leaves} for run, leaves in sides.items()}
    target, golden = op.sides.values()
    place = {"comparison": comparison, "step": op.step, "rank": op.rank}
    asked = place | {"target_seq": target["seq"], "golden_seq": golden["seq"]}
    pairs = sql(resources.sql("reports/row_counterparts"), asked).fetchall()
    ours, theirs = sides.values()
    return dict(zip(sides, _named_alike(ours, theirs, pairs), strict=True))


def _named_alike(
    target: Sequence[Record], golden: Sequence[Record], pairs: Sequence[tuple[int, int]]
) -> tuple[dict[str, Record], dict[str, Record]]:
    """Return the leaves of both sides by slot, with both slots where a pair's differ: `input.1 / input.3`.

    What is in no pair, while the other side has the same slot, has a row of its own.
    """
    ours, theirs = ({leaf["row"]: _slot(leaf) for leaf in leaves} for leaves in (target, golden))
    to_golden = {row: theirs[other] for row, other in pairs if row in ours and other in theirs}
    to_target = {other: ours[row] for row, other in pairs if row in ours and other in theirs}
    taken = set(theirs.values()), set(ours.values())
    return (
        {_row_name(_slot(leaf), to_golden.get(leaf["row"], _absent(leaf, taken[0]))): leaf for leaf in target},
        {_row_name(to_target.get(leaf["row"], _absent(leaf, taken[1])), _slot(leaf)): leaf for leaf in golden},
    )


def _absent(leaf: Record, taken: Collection[str]) -> str:
    return "–" if _slot(leaf) in taken else _slot(leaf)


def _row_name(ours: str, theirs: str) -> str:
    return ours if ours == theirs else f"{ours} / {theirs}"


def _slot(leaf: Record) -> str:
    return leaf["slot"] or "value"


def _leaves(sql: Query, side: Record) -> list[Record]:
    key = {name: side[name] for name in ("run", "step", "rank", "seq")}
    return records(sql(resources.sql("reports/op_leaves"), key))


def _leaves_text(leaves: dict[str, dict[str, Record]]) -> str:
    """Return the leaves of the runs: a row for each number, a column for each run."""
    slots = dict.fromkeys(slot for by_slot in leaves.values() for slot in by_slot)
    rows = [row for slot in slots for row in _slot_rows(slot, [by_slot.get(slot) for by_slot in leaves.values()])]
    is_pair = len(leaves) == 2
    columns = ["", "", *leaves, *(["error"] if is_pair else [])]
    return output.aligned(columns, rows if is_pair else [row[:-1] for row in rows])


def _slot_rows(slot: str, sides: Sequence[Record | None]) -> Iterator[list[str | None]]:
    """Yield the rows of a leaf: what it is, then each number in which the sides differ, or the norm if they agree."""
    kinds = ["–" if side is None else _kind(side) for side in sides]
    values = [None if side is None else _value(side) for side in sides]
    statistics = {name: [None if side is None else side[name] for side in sides] for name in _STATISTICS}
    is_scalar = any(value is not None for value in values)
    if len(set(kinds)) > 1:
        yield [slot, "dtype and shape", *kinds, "differs"]
    elif is_scalar:
        yield [slot, kinds[0], *values, _off(values, None)]
        return
    elif len(sides) > 1 and all(_agree(numbers) for numbers in statistics.values()):
        norms = [None if norm is None else f"norm {number(norm)}" for norm in statistics["norm"]]
        yield [slot, kinds[0], *norms, ""]
        return
    else:
        yield [slot, kinds[0], *("" for _ in sides), ""]
    if is_scalar:
        yield ["", "value", *values, _off(values, None)]
    for name, numbers in statistics.items():
        if any(value is not None for value in numbers):
            shown_numbers = [None if value is None else number(value) for value in numbers]
            yield ["", name, *shown_numbers, _off(numbers, _scale(sides[-1], name))]


def _kind(leaf: Record) -> str:
    shape = "" if leaf["shape"] is None else f" {leaf['shape']}"
    problem = f" ({leaf['problem']})" if leaf["problem"] else ""
    return f"{leaf['type']}{shape}{problem}"


def _value(leaf: Record) -> str | None:
    """Return the value of a scalar, or the digest of a tensor without statistics."""
    value: str | None = leaf["digest"] if leaf["value"] is None else leaf["value"]
    return value


def _agree(values: Sequence[Any]) -> bool:
    first = values[0]
    return all(value == first or _are_nan(value, first) for value in values)


def _are_nan(*values: Any) -> bool:
    return all(isinstance(value, float) and math.isnan(value) for value in values)


def _scale(golden: Record | None, statistic: str) -> float | None:
    """Return what a difference of a statistic is a share of: golden's tensor (docs/rules.md), not the number itself."""
    if golden is None or golden["norm"] is None:
        return None
    if statistic in ("max", "min"):
        return max(abs(float(golden["max"] or 0)), abs(float(golden["min"] or 0)))
    elements = math.prod(golden["shape"] or ())
    norm = float(golden["norm"])
    return norm / math.sqrt(elements) if statistic == "mean" and elements else norm


def _off(values: Sequence[Any], scale: float | None) -> str:
    """Return how far the first of two values is from the second: a share, or the bare difference without a scale."""
    if len(values) != 2 or None in values or _agree(values):
        return ""
    target, golden = values
    if isinstance(target, str):
        return "differs"
    if not math.isfinite(target - golden) or not scale or not math.isfinite(scale):
        return number(target - golden)
    return f"{(target - golden) / scale:.3g}"

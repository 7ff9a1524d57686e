"""Proposes a mapping of one run's names to another's, as YAML for msprobe's mapping options.

It searches one unit of each run (`search`), and writes lines with a confidence and the evidence. It writes nothing to
the lake.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import damage, layout, store
from lakeprobe.lake.connection import connect, reason
from lakeprobe.lake.layout import UnitKey
from lakeprobe.mapping.align import Pair
from lakeprobe.mapping.ops import Op
from lakeprobe.mapping.row_pairs import RowPair
from lakeprobe.mapping.search import search

KINDS = ("data", "cell", "layer")
"""The kinds of mapping files, read by --data-mapping, --cell-mapping and --layer-mapping."""

CLASSES = (
    ("the same name", 1.0),
    ("the same values", 0.95),
    ("the same module, or the same values in a part of the op", 0.9),
    ("the same kind of op in the same order", 0.8),
    ("the same shape beside a paired op", 0.0),
)
"""Classes of confidence: the evidence of each, and its lowest confidence."""


class Unplaced(Struct, frozen=True):
    """An op with unplaced rows: its name and kind, the number of its unplaced tensors, and of all its tensors."""

    op: str
    kind: str
    rows: int
    of: int


class Proposal(Struct, frozen=True):
    """What maps to what between two units: ops, rows of tensors and scalars, and the unplaced ops of both sides."""

    target: UnitKey
    golden: UnitKey
    ops: tuple[Pair, ...]
    rows: tuple[RowPair, ...]
    target_unplaced: tuple[Unplaced, ...]
    golden_unplaced: tuple[Unplaced, ...]
    cells: tuple[str, ...]

    def classes(self) -> list[tuple[str, float, int]]:
        """Return for each class of confidence its evidence, its lowest confidence, and its number of rows."""
        counts: Counter[str] = Counter()
        for row in self.rows:
            counts[next(name for name, least in CLASSES if row.confidence >= least)] += 1
        return [(name, least, counts[name]) for name, least in CLASSES]

    def summary(self) -> list[str]:
        """Return lines that say how many rows were placed with which confidence, and how many were not placed."""
        placed = f"{len(self.ops)} ops, {len(self.rows)} rows; None needs no line"
        lines = [f"mapped {self.target} to {self.golden}: {placed}"]
        lines += [
            f"  {count} rows of confidence {_above(least)}: {name}" for name, least, count in self.classes() if count
        ]
        for run, unplaced in ((self.target.run, self.target_unplaced), (self.golden.run, self.golden_unplaced)):
            rows = sum(op.rows for op in unplaced)
            lines.append(f"  not placed in {run}: {rows} tensor rows of {len(unplaced)} ops")
        return lines

    def yaml(self, kind: str = "data") -> str:
        """Return the mapping file. Raises UsageError if `kind` is not one of KINDS, or if the file would be empty."""
        if kind not in KINDS:
            raise UsageError(f"there is no mapping of kind {kind}; write {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        body = {"data": _data_lines, "cell": _cell_lines, "layer": _layer_lines}[kind](self)
        if not body:
            raise UsageError(self._nothing(kind))
        head = [
            f"# {kind} mapping of {self.target} to {self.golden}, proposed by lakeprobe map",
            *_comment(self.summary()),
        ]
        return "\n".join([*head, *body, *self._left_over(kind)]) + "\n"

    def _nothing(self, kind: str) -> str:
        """Return why there is no mapping of this kind."""
        if kind == "data":
            return f"no row of {self.target} could be placed in {self.golden}: nothing in them is alike"
        if not any(pair.target.kind == "module" for pair in self.ops):
            return f"no cell of {self.target} could be placed in {self.golden}; try --kind data, or dump at level mix"
        return f"all cells that pair have the same names, so compare needs no {kind} mapping file for {self.target}"

    def _left_over(self, kind: str) -> Iterator[str]:
        """Yield comments that list the ops with unplaced rows.

        Cell and layer mappings do not cover calls of functions.
        """
        for run, unplaced in ((self.target.run, self.target_unplaced), (self.golden.run, self.golden_unplaced)):
            listed = [op for op in unplaced if kind == "data" or op.kind != "api"]
            yield f"# not placed in {run}: {sum(op.rows for op in listed)} tensor rows of {len(listed)} ops"
            yield from _comment(f"  {op.op}  {op.rows} of {op.of} tensors" for op in listed)


def propose(
    target: str,
    golden: str,
    *,
    lake: str | os.PathLike[str] | None = None,
    step: int | None = None,
    rank: int | None = None,
) -> Proposal:
    """Map the names of the run `target` to those of `golden`.

    The search uses the given step and rank, or the first common ones of both runs.

    Raises UsageError if a run is not in the lake or the runs lack that step and rank, and LakeError if a file of the
    lake cannot be read.
    """
    import duckdb

    path = store.check(store.choose(lake))
    ours, theirs = choose_units(path, target, golden, step, rank)
    connection = connect()
    try:
        found = search(connection, layout.unit_place(path, ours), layout.unit_place(path, theirs))
    except duckdb.Error as error:
        raise damage.of_query(error) or LakeError(f"{path}: {reason(error)}") from error
    finally:
        connection.close()
    return Proposal(
        ours,
        theirs,
        tuple(found.ops),
        tuple(found.rows),
        _unplaced(found.target, {row.target.row for row in found.rows}),
        _unplaced(found.golden, {row.golden.row for row in found.rows}),
        tuple(dict.fromkeys(_cell(op) for op in found.target if op.kind == "module")),
    )


def choose_units(
    lake: Path, target: str, golden: str, step: int | None = None, rank: int | None = None
) -> tuple[UnitKey, UnitKey]:
    """Return the units of the first matching step and rank that both runs have, or the only unit of each."""
    known = layout.runs(lake)
    for run in (target, golden):
        if run not in known:
            raise layout.unknown_run(lake, run, "ingest it first")
    sides = [
        [key for key in layout.units(lake, run) if step in (None, key.step) and rank in (None, key.rank)]
        for run in (target, golden)
    ]
    places = {(key.step, key.rank): key for key in sides[1]}
    for key in sides[0]:
        if (key.step, key.rank) in places:
            return key, places[key.step, key.rank]
    if step is None and rank is None and len(sides[0]) == len(sides[1]) == 1:
        return sides[0][0], sides[1][0]
    asked = "".join(f" with {name} {number}" for name, number in (("step", step), ("rank", rank)) if number is not None)
    raise UsageError(f"{target} and {golden} have no step and rank in common{asked}; see them with: lakeprobe ls")


def _unplaced(ops: Sequence[Op], placed: set[int]) -> tuple[Unplaced, ...]:
    counted = ((op, sum(leaf.row not in placed for leaf in op.leaves)) for op in ops)
    return tuple(Unplaced(op.name, op.kind, rows, len(op.leaves)) for op, rows in counted if rows)


def _data_lines(proposal: Proposal) -> list[str]:
    return [_line(row.target.name, row.golden.name, row.confidence, row.evidence) for row in proposal.rows]


def _cell_lines(proposal: Proposal) -> list[str]:
    """Return a line per cell whose path or class differs, and per cell whose name a shorter key would change."""
    found: dict[str, tuple[str, float, tuple[str, ...]]] = {}
    confidence = _cell_confidence(proposal)
    for pair in proposal.ops:
        ours, theirs = _cell(pair.target), _cell(pair.golden)
        if pair.target.kind == "module" and pair.target.direction == "forward" and ours not in found:
            found[ours] = (theirs, *confidence[pair.target.name])
    changed = [ours for ours, (theirs, *_) in found.items() if ours != theirs]
    lines = []
    for ours in proposal.cells:
        theirs, sure, evidence = found.get(ours, (ours, 1.0, ()))
        if theirs != ours:
            lines.append(_line(ours, theirs, sure, evidence))
        elif any(key in ours for key in changed):
            lines.append(_line(ours, ours, 1.0, ("unchanged, though a key is a part of it",)))
    return lines


def _cell_confidence(proposal: Proposal) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Return for each target op the mean confidence of its rows, and the evidence of its most confident row."""
    rows: dict[str, list[RowPair]] = defaultdict(list)
    for row in proposal.rows:
        rows[row.target.op.name].append(row)
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    for pair in proposal.ops:
        own = rows.get(pair.target.name, [])
        mean = sum(row.confidence for row in own) / len(own) if own else 0.8
        best = max(own, key=lambda row: row.confidence).evidence if own else (pair.how,)
        found[pair.target.name] = (mean, best)
    return found


def _layer_lines(proposal: Proposal) -> list[str]:
    """Return rules by the class of the enclosing cell: which part of a path has which name on the other side."""
    partner = {pair.target.path: pair.golden.path for pair in proposal.ops if pair.target.kind == "module"}
    classes = {pair.target.path: pair.target.class_name for pair in proposal.ops if pair.target.kind == "module"}
    votes: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for path, other in partner.items():
        above, rest, other_rest = _below_common_ancestor(path, other, partner)
        rest, other_rest = _without_common_end(rest, other_rest)
        if rest and other_rest:
            votes[classes[above] if above else "TopLayer"][".".join(rest)][".".join(other_rest)] += 1
    lines = []
    for cls in sorted(votes, key=lambda cls: (cls != "TopLayer", cls)):
        rules = []
        for source, targets in votes[cls].items():
            chosen, count = targets.most_common(1)[0]
            if source != chosen:
                rules.append("  " + _line(source, chosen, count / targets.total(), (f"{count} cells",)))
        lines += [f"{_quoted(cls)}:", *rules] if rules else []
    return lines


def _below_common_ancestor(path: str, other: str, partner: dict[str, str]) -> tuple[str, list[str], list[str]]:
    """Return the nearest paired module above `path` ('' if there is none), and the rest of both paths below it."""
    parts, other_parts = path.split("."), other.split(".")
    for length in range(len(parts) - 1, 0, -1):
        above = ".".join(parts[:length])
        theirs = partner.get(above)
        if theirs is not None and other.startswith(theirs + "."):
            return above, parts[length:], other_parts[theirs.count(".") + 1 :]
    return "", parts, other_parts


def _without_common_end(ours: list[str], theirs: list[str]) -> tuple[list[str], list[str]]:
    """Return both lists without their common trailing segments. Each keeps at least its first segment."""
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours, theirs = ours[:-1], theirs[:-1]
    return ours, theirs


def _cell(op: Op) -> str:
    return f"{op.path}.{op.class_name}"


def _line(key: str, value: str, confidence: float, evidence: Iterable[str]) -> str:
    return f"{_quoted(key)}: {_quoted(value)}  # {_text(f'{confidence:.2f} ' + ', '.join(evidence))}"


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def _quoted(text: str) -> str:
    """Return `text` as a one-line YAML scalar that reads back as the same text, whatever it contains."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    import yaml

    return yaml.safe_dump(text, default_style='"', width=2**31).rstrip("\n")


def _text(text: str) -> str:
    """Return `text` for a comment: on one line, with characters that YAML accepts."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _comment(lines: Iterable[str]) -> list[str]:
    return [f"# {_text(line)}" for line in lines]


def _above(least: float) -> str:
    return "1.00" if least == 1 else f"{least:.2f} or more" if least else "below 0.80"

"""Writes the text of a blame: the cause in a sentence, the list of suspects, and the path to the loss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from lakeprobe import hints, output
from lakeprobe.analysis.beginnings import Beginning
from lakeprobe.analysis.blame import Blame
from lakeprobe.lake.connection import records
from lakeprobe.reports.parameters_text import beginning_lines
from lakeprobe.reports.verdict_text import verdict_lines
from lakeprobe.shown import unbroken

_MOST_HOPS = 24
_MOST_RANKS = 32
_HARMLESS = {
    "structure": "ops that only one run has, while nothing that both have differs",
    "askew": "ops paired with the wrong call of their API",
    "race": "ops whose record depends on timing",
    "recording": "ops that one run recorded incompletely",
    "noise": "ops that differ as much in the repeat",
}
Record = dict[str, Any]


def blame_text(found: Blame, before: Sequence[Beginning] = ()) -> str:
    """Return the text: what differed before the first op, the cause, the other suspects, the path, and the spread."""
    suspects, counts, verified, path, spread = unbroken(
        [records(part) for part in (found.suspects, found.counts, found.verified, found.path, found.spread)]
    )
    lines = [f"{found.comparison}, step {found.step}", "", *beginning_lines(before)]
    lines += _answer(found, suspects, counts)
    lines += _verified(suspects, verified)
    lines += _others(suspects)
    lines += _path(path)
    lines += _spread(spread)
    lines += _next(found, suspects)
    return output.folded("\n".join(lines).rstrip()) + "\n"


def blame_json(found: Blame) -> str:
    """Return everything as one JSON object. Infinite numbers become texts, because JSON lacks them."""
    parts = {name: records(getattr(found, name)) for name in ("suspects", "path", "spread", "counts", "verified")}
    whole = {"comparison": found.comparison, "step": found.step, "verdict": found.coverage.verdict} | parts
    return json.dumps(output.in_json(whole), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _answer(found: Blame, suspects: list[Record], counts: list[Record]) -> Iterator[str]:
    if suspects and suspects[0]["grade"] == "suspect":
        yield from _cause(suspects[0])
        return
    yield from (*verdict_lines(found.coverage), "")
    if found.coverage.rows["compared"]:
        yield "No op is a suspect."
    for count in counts:
        yield f"{count['events']} {_HARMLESS[count['grade']]}"
    yield ""


def _cause(cause: Record) -> Iterator[str]:
    yield f"{cause['op']} on {_ranks(cause['ranks'])}: {cause['why']}."
    if cause["module"]:
        yield f"  in {cause['module']}"
    if cause["code"]:
        yield "  at " + " ".join(cause["code"].split())
    yield ""


def _verified(suspects: list[Record], verified: list[Record]) -> Iterator[str]:
    """Yield what verifications say of the cause itself."""
    cause = suspects[0]["op"] if suspects and suspects[0]["grade"] == "suspect" else None
    for row in verified:
        if row["op"] != cause:
            continue
        where = f"what {row['run']} recorded" if row["origin"] == "recorded" else f"run again on {row['device']}"
        given = f"the inputs of {row['run']}" if row["inputs"] == "contents" else f"random inputs as in {row['run']}"
        if row["wrong"]:
            yield f"The op itself is wrong: given {given}, {where} is off by up to {_size(row['max_abs_error'])}."
        elif not row["is_deterministic"]:
            yield f"The op does not give the same bits twice: {where}, given {given}."
        else:
            yield f"The op itself is right: given {given}, {where} is within rounding."
    if verified:
        yield ""


def _next(found: Blame, suspects: list[Record]) -> Iterator[str]:
    """Yield what to ask next: the numbers of the first suspect."""
    if suspects:
        named = () if found.is_latest else ("--comparison", quote(found.comparison))
        yield f"Both sides of it in full: {hints.command('show', quote(suspects[0]['op']), *named)}"


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def _others(suspects: list[Record]) -> Iterator[str]:
    others = suspects[1:] if suspects and suspects[0]["grade"] == "suspect" else suspects
    if others:
        rows = [(row["nth"], _ranks(row["ranks"]), row["op"], row["grade"], row["why"]) for row in others]
        yield output.aligned(("", "where", "op", "grade", "why"), rows)


def _path(path: list[Record]) -> Iterator[str]:
    if not path:
        return
    half = _MOST_HOPS // 2
    shown = path if len(path) <= _MOST_HOPS else [*path[:half], *path[-half:]]
    rows = [(hop["rank"], hop["op"], _size(hop["input_error"]), _size(hop["output_error"]), _how(hop)) for hop in shown]
    yield output.aligned(("rank", "from there to the loss", "input error", "output error", "how"), rows)
    if len(shown) < len(path):
        yield from (f"… {len(path) - len(shown)} ops in the middle are not shown; --format json has them", "")


def _size(error: float) -> str:
    return f"{error:.2g}"


def _how(hop: Record) -> str:
    if hop["meeting"]:
        return f"carried from rank {hop['from_rank']} by {hop['meeting']}"
    return "perhaps, through an op that was not compared" if hop["how"] == "order" else ""


def _spread(spread: list[Record]) -> Iterator[str]:
    if not spread:
        return
    rows = [
        (way["rank"], way["from_rank"], way["meeting"], way["op"], _size(way["brought_error"]))
        for way in spread[:_MOST_RANKS]
    ]
    yield output.aligned(("to rank", "from", "first brought by", "op", "error"), rows)
    if len(spread) > _MOST_RANKS:
        yield f"… and {len(spread) - _MOST_RANKS} more ranks; --format json has them"

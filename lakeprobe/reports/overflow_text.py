"""Writes the text on NaN and inf in a run: where they are born, how they spread, and how many ops they affect."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Any

from lakeprobe import hints, output
from lakeprobe.analysis.overflow import Overflow
from lakeprobe.lake.connection import records
from lakeprobe.shown import unbroken

_MOST_LEAVES = 8
_MOST_UNITS = 32
_ORIGINS: dict[str, str] = {
    "born": "is born here",
    "unseen": "is in its input, and no recorded op produced it",
    "earlier step": "is left from an earlier step",
    "carried": "came from an earlier op",
}


def overflow_text(found: Overflow) -> str:
    """Return the text: first the op where NaN or inf is born, then the spread over the ranks, then the counts."""
    counts = records(found.counts)
    against = f" against {found.golden}" if found.golden else ""
    target_of = f", the target of {found.comparison}" if found.comparison else ""
    lines = [f"NaN and inf in {found.run}{against}{target_of}", ""]
    births = unbroken(records(found.births))
    if births:
        lines += _births(births, sum(unit["born"] + unit["unseen"] for unit in counts))
    else:
        lines += [_none(counts), ""]
    lines += _spread(unbroken(records(found.spread)))
    lines += _counts(counts)
    if births:
        asked = hints.command("show", quote(births[0]["op"]), "--run", quote(found.run))
        lines.append(f"Its tensors: {asked}")
    return output.folded("\n".join(lines)) + "\n"


def _none(counts: list[dict[str, Any]]) -> str:
    """Return the sentence for a run without unexpected NaN and inf."""
    if not any(unit["tensor_rows"] for unit in counts):
        return "The dump names its ops and records no values, so overflow cannot be detected."
    seen = ", as far as the dump shows" if any(unit["blind"] for unit in counts) else ""
    return f"No op produces unexpected NaN or inf{seen}."


def _births(births: list[dict[str, Any]], total: int) -> Iterator[str]:
    first, *others = births
    yield f"{_named(first)}: {first['level']}, {_ORIGINS[first['origin']]}"
    if first["module"]:
        yield f"  in {first['module']}"
    if first["code"]:
        yield "  at " + " ".join(first["code"].split())
    yield from _leaves("came in", first["came_in"])
    yield from _leaves("came out", first["came_out"])
    if first["advice"]:
        yield f"  {first['advice']}"
    yield ""
    if others:
        rows = [
            (op["step"], op["rank"], op["op"], op["level"], "after others" if op["is_after_others"] else op["origin"])
            for op in others
        ]
        yield output.aligned(("step", "rank", "also born", "level", ""), rows)
    if total > len(births):
        yield from (f"… and {total - len(births)} more; raise --most to see them", "")


def _named(op: dict[str, Any]) -> str:
    return f"{op['op']} (step {op['step']}, rank {op['rank']})"


def _leaves(word: str, leaves: list[str] | None) -> Iterator[str]:
    shown = (leaves or [])[:_MOST_LEAVES]
    for leaf in shown:
        yield f"  {word}: {leaf}"
    if len(leaves or []) > len(shown):
        yield f"  … and {len(leaves or []) - len(shown)} more that {word}"


def _spread(spread: list[dict[str, Any]]) -> Iterator[str]:
    if len(spread) < 2:
        return
    rows = [(first["step"], first["rank"], first["op"], first["level"], _how(first)) for first in spread[:_MOST_UNITS]]
    yield output.aligned(("step", "rank", "first op with NaN or inf", "level", "how it came"), rows)
    if len(spread) > _MOST_UNITS:
        yield from (f"… and {len(spread) - _MOST_UNITS} more (step, rank); --step shows one step", "")


def _how(first: dict[str, Any]) -> str:
    if first["origin"] != "received":
        return _ORIGINS[first["origin"]]
    ranks = ", ".join(map(str, first["received_from"]))
    through = "" if first["through"] == first["op"] else f" through {first['through']}"
    return f"received from rank {ranks}{through}"


def _counts(counts: list[dict[str, Any]]) -> Iterator[str]:
    shown = counts if len(counts) <= _MOST_UNITS else [_total(counts)]
    columns = ("step", "rank", "ops", "critical", "high", "medium", "expected")
    yield output.aligned(columns, [[unit[column] for column in columns] for unit in shown])
    jumps = sum(unit["jumps"] for unit in counts)
    if jumps:
        yield f"{jumps} of level high have finite values and a norm more than 100 times that of their inputs."
    blind = sum(unit["blind"] for unit in counts)
    if blind:
        yield f"{blind} tensors lack statistics (digests, float8, unreadable): overflow in them cannot be detected."


def _total(counts: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {column: sum(unit[column] for unit in counts) for column in counts[0] if column not in ("step", "rank")}
    return {"step": "all", "rank": "all", **sums}

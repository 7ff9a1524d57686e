"""Views as output of a notebook's cell: plain HTML and SVG, which a code host shows too; the page needs a browser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe.analysis.query import stage_connection
from lakeprobe.view.answer import answer
from lakeprobe.view.levels import LEVELS, RUN_LEVELS, Record, Subject, judge, records
from lakeprobe.view.page import BINS, html
from lakeprobe.view.tree import Tree, tree_of

if TYPE_CHECKING:
    import duckdb

MOST_NODES = 200
"""Nodes that a tree in a cell shows; a page shows all."""
_SIGNS = "·=≈≠∅!?✕"
_COLOURS = ("#9aa5b1", "#8fa6bd", "#3d8fc4", "#d39b14", "#8466bb", "#d2691e", "#47525e", "#c8281c")
_WIDTH, _HEIGHT, _LEFT, _TOP = 900, 220, 60, 12


class Cell(Struct, frozen=True):
    """HTML that a notebook shows."""

    html: str

    def __repr__(self) -> str:
        return "<a view as HTML>"

    def _repr_html_(self) -> str:
        return self.html


def page_cell(connection: duckdb.DuckDBPyConnection, lake: Path, subject: Subject, most: int) -> Cell:
    """Return the page of `subject` in a frame below its answer in plain HTML."""
    with stage_connection(connection, compared=subject.comparison) as stages:
        said = answer(stages, lake, subject)
        page = escape(html(stages, subject, said, most), quote=True)
    frame = f'<iframe sandbox="allow-scripts" style="width:100%;height:900px;border:0" srcdoc="{page}"></iframe>'
    return Cell(_answer(said) + frame)


def tree_cell(connection: duckdb.DuckDBPyConnection, lake: Path, subject: Subject) -> Cell:
    """Return the tree of modules of the unit that matters, open at the cause, with the level of each."""
    with stage_connection(connection, compared=subject.comparison) as stages:
        said = answer(stages, lake, subject)
        judge(stages, subject)
        step, rank, golden_step, golden_rank = _unit(subject, said)
        asked = {"target": subject.target, "golden": subject.golden or "", "step": step, "rank": rank}
        rows = records(stages, "nodes", asked | {"golden_step": golden_step, "golden_rank": golden_rank})
        stacks = records(stages, "stacks", {"run": subject.target, "step": step, "rank": rank})
    tree = tree_of(rows, {row["stack"]: row["own"] for row in stacks})
    cause = said["cause"]["op"] if said["cause"] else None
    return Cell(_answer(said) + "".join(_branches(tree, rows, cause, subject.golden is not None)))


def flow_cell(connection: duckdb.DuckDBPyConnection, lake: Path, subject: Subject) -> Cell:
    """Return the error (of a run: the largest magnitude) along the program of the unit that matters, as SVG."""
    with stage_connection(connection, compared=subject.comparison) as stages:
        said = answer(stages, lake, subject)
        judge(stages, subject)
        step, rank, *_ = _unit(subject, said)
        profile = [
            row for row in records(stages, "profiles", {"bins": BINS}) if (row["step"], row["rank"]) == (step, rank)
        ]
        ops = next((row["ops"] for row in records(stages, "units") if (row["step"], row["rank"]) == (step, rank)), 0)
    cause = said["cause"] or {}
    place = cause["target_seq"] / max(1, ops) if cause.get("target_seq") is not None else None
    return Cell(_answer(said) + _flow(profile, place, str(cause.get("op", ""))))


def _unit(subject: Subject, said: Record) -> tuple[int, int, int, int]:
    cause = said["cause"]
    wanted = (said["step"], cause["ranks"][0]) if cause else None
    return next((unit for unit in subject.units if unit[:2] == wanted), subject.units[0])


def _answer(said: Record) -> str:
    cause = said["cause"]
    if not cause:
        return f"<p><b>{escape(str(said['verdict']))}</b></p>"
    code = f"<br><code>{escape(' '.join(cause['code'].split()))}</code>" if cause.get("code") else ""
    return f"<p><b>{escape(cause['op'])}</b>: {escape(cause['why'])}{code}</p>"


def _branches(tree: Tree, rows: Sequence[Record], cause: str | None, is_compared: bool) -> Iterator[str]:
    names = [row["target_op"] or row["golden_op"] for row in rows] + tree.labels
    levels = [row["level"] or 0 for row in rows] + [0] * len(tree.labels)
    children: dict[int, list[int]] = {}
    for node in tree.order:
        children.setdefault(tree.parents[node], []).append(node)
    for node in reversed(tree.order):
        if tree.parents[node] >= 0:
            levels[tree.parents[node]] = max(levels[tree.parents[node]], levels[node])
    open_nodes: set[int] = set()
    at = names.index(cause) if cause in names else -1
    while at >= 0:
        open_nodes.add(at)
        at = tree.parents[at]
    words = LEVELS if is_compared else RUN_LEVELS
    shown = 0
    waiting: list[int | str] = list(reversed(children.get(-1, [])))
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            continue
        node = item
        shown += 1
        level = levels[node]
        sign = f'<span title="{words[level]}" style="color:{_COLOURS[level]}">{_SIGNS[level]}</span>'
        name = escape(names[node] if len(names[node]) <= 200 else f"{names[node][:200]}…")
        label = f"{sign} <b>{name}</b> ◀ cause" if names[node] == cause else f"{sign} {name}"
        below = children.get(node, []) if shown < MOST_NODES else []
        if below:
            is_open = " open" if node in open_nodes else ""
            yield f'<details{is_open} style="margin-left:1em"><summary>{label}</summary>'
            waiting += ["</details>", *reversed(below)]
        else:
            yield f'<div style="margin-left:2em">{label}</div>'


def _flow(profile: Sequence[Record], cause: float | None, name: str) -> str:
    errors = [row["error"] for row in profile if row["error"] and math.isfinite(row["error"])]
    low = math.floor(math.log10(min(errors, default=1e-6)))
    high = max(low + 1, math.ceil(math.log10(max(errors, default=1.0))))
    bottom = _HEIGHT - 24

    def x(share: float) -> float:
        return _LEFT + share * (_WIDTH - _LEFT - 8)

    def y(error: float | None) -> float:
        if not error:
            return bottom + 12
        return _TOP if math.isinf(error) else bottom - (math.log10(error) - low) / (high - low) * (bottom - _TOP)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img">']
    for power in range(low, high + 1, max(1, (high - low) // 5)):
        line = y(10.0**power)
        parts.append(f'<path d="M{_LEFT} {line:.1f}H{_WIDTH - 8}" stroke="#ccc"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{line + 4:.1f}" text-anchor="end" font-size="11">1e{power}</text>')
    for row in profile:
        share = (row["bin"] + 0.5) / BINS
        parts.append(f'<circle cx="{x(share):.1f}" cy="{y(row["error"]):.1f}" r="3" fill="{_COLOURS[row["level"]]}"/>')
    if cause is not None:
        at, label = x(cause), escape(name if len(name) <= 80 else f"{name[:80]}…")
        parts.append(f'<path d="M{at:.1f} {_TOP}V{bottom + 16}" stroke="#a3123c" stroke-width="2"/>')
        parts.append(f'<text x="{at + 5:.1f}" y="{_TOP + 2}" font-size="12" fill="#a3123c">{label}</text>')
    return "".join([*parts, "</svg>"])

"""Writes the page: one HTML file that holds its program, its style and its data, and asks no network for anything.

A page has the ops of a few units (steps and ranks), and an overview of all. The other units may have pages of their
own, which link to each other.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakeprobe.analysis.query import stage_connection
from lakeprobe.lake import outputs
from lakeprobe.lake.unit import sound
from lakeprobe.version import __version__
from lakeprobe.view.answer import answer, plain
from lakeprobe.view.columns import Texts, floats, integers, packed
from lakeprobe.view.levels import LEVELS, RUN_LEVELS, Record, Subject, judge, records
from lakeprobe.view.unit import packed_unit
from lakeprobe.work import Progress

if TYPE_CHECKING:
    import duckdb

VERSION = 1
"""The version of the data in a page."""
MOST_UNITS = 8
"""Units that a page has in full, if no number is asked for; the others are in its overview."""
BINS = 240
_LEAST_GRAVE = LEVELS.index("different")
_ASSETS = Path(__file__).parent / "assets"


Unit = tuple[int, int, int, int]
"""A step and a rank, and those of golden."""


def write(
    connection: duckdb.DuckDBPyConnection,
    lake: Path,
    subject: Subject,
    path: Path,
    most: int = MOST_UNITS,
    all_units: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the page of `subject` to `path`. The `most` units that matter most are in it with all of their ops.

    With `all_units`, each other unit gets a page in the folder STEM_pages beside it; the page itself is written last.
    `connection` has the views of `lake`. Raises OSError.
    """
    with stage_connection(connection, compared=subject.comparison) as stages:
        said = answer(stages, lake, subject)
        judge(stages, subject)
        chosen = _chosen(subject, said, records(stages, "units"), most)
        overview = _overview(stages, subject, said)
        others = {
            unit: path.with_name(f"{path.stem}_pages") / f"step{unit[0]}_rank{unit[1]}.html"
            for unit in subject.units
            if all_units and unit not in chosen
        }
        places = {**dict.fromkeys(chosen, path), **others}
        for done, (unit, place) in enumerate(others.items()):
            if progress:
                progress(done, len(places))
            outputs.folder(place.parent)
            _write_draft(place, _page(stages, subject, overview, [unit], places, place.parent))
        if progress:
            progress(len(others), len(places))
        _write_draft(path, _page(stages, subject, overview, chosen, places, path.parent))


def html(stages: duckdb.DuckDBPyConnection, subject: Subject, said: Record, most: int = MOST_UNITS) -> str:
    """Return the page of `subject`, whose answer is `said`."""
    judge(stages, subject)
    chosen = _chosen(subject, said, records(stages, "units"), most)
    return _page(stages, subject, _overview(stages, subject, said), chosen, {}, Path())


def _write_draft(path: Path, page: str) -> None:
    with outputs.draft(path) as hidden:
        hidden.write_text(page, encoding="utf-8")


def _page(
    stages: duckdb.DuckDBPyConnection,
    subject: Subject,
    overview: tuple[Record, Record],
    chosen: Sequence[Unit],
    places: Mapping[Unit, Path],
    folder: Path,
) -> str:
    """Return the page in `folder` that has the units `chosen` in full. `places` are the files that have the others."""
    head, columns = overview
    units = [
        row
        | {
            "table": chosen.index(unit) if unit in chosen else None,
            "page": quote(Path(os.path.relpath(places[unit], folder)).as_posix()) if unit in places else None,
        }
        for unit, row in zip(subject.units, head["units"], strict=True)
    ]
    with sound(subject.target):
        full = [packed_unit(stages, subject, unit) for unit in chosen]
    return _document(packed(head | {"units": units}, columns), full)


def _chosen(subject: Subject, said: Record, counts: list[Record], most: int) -> list[Unit]:
    """Return the units to show in full: those of the cause and the path, the others of its step with the worst first,
    and so on with the steps around it: in those before, the difference is not there yet.
    """
    cause = said["cause"]
    ranks = [*(cause["ranks"] if cause else ()), *(hop["rank"] for hop in said["path"])]
    nth = {rank: number for number, rank in reversed(list(enumerate(ranks)))}
    worst = {(row["step"], row["rank"]): row["counts"][::-1] for row in counts}
    none = [0] * len(LEVELS)

    def order(unit: Unit) -> Any:
        step, rank = unit[:2]
        grave = [-count for count in worst.get((step, rank), none)[:-_LEAST_GRAVE]]
        return abs(step - said["step"]), nth.get(rank, len(ranks)), grave, step, rank

    return sorted(subject.units, key=order)[:most]


def _overview(stages: duckdb.DuckDBPyConnection, subject: Subject, said: Record) -> tuple[Record, Record]:
    """Return the head and the columns of what every page has: the answer, and how grave each unit and block is."""
    counts = {(row["step"], row["rank"]): row for row in records(stages, "units")}
    numbers = {unit[:2]: number for number, unit in enumerate(subject.units)}
    nothing = {"ops": 0, "counts": [0] * len(LEVELS)}
    units = [
        {
            "step": unit[0], "rank": unit[1], "golden_step": unit[2], "golden_rank": unit[3],
            "ops": counts.get(unit[:2], nothing)["ops"], "counts": counts.get(unit[:2], nothing)["counts"],
        }
        for unit in subject.units
    ]  # fmt: skip
    blocks = _of_units(records(stages, "blocks", {"target": subject.target}), numbers)
    profiles = _of_units(records(stages, "profiles", {"bins": BINS}), numbers)
    names = Texts()
    head = {
        "version": VERSION,
        "lakeprobe": __version__,
        "kind": "comparison" if subject.comparison else "run",
        "name": subject.name,
        "target": subject.target,
        "golden": subject.golden,
        "rule": subject.comparison.rule if subject.comparison else None,
        "levels": LEVELS if subject.comparison else RUN_LEVELS,
        "bins": BINS,
        "units": units,
        "answer": said,
    }
    columns = {
        "block_unit": integers([numbers[row["step"], row["rank"]] for row in blocks]),
        "block_name": names.numbers([row["block"] for row in blocks]),
        "block_direction": names.numbers([row["direction"] for row in blocks]),
        "block_seq": integers([row["first_seq"] for row in blocks]),
        "block_level": integers([row["level"] for row in blocks]),
        "block_error": floats([row["error"] for row in blocks]),
        "profile_unit": integers([numbers[row["step"], row["rank"]] for row in profiles]),
        "profile_bin": integers([row["bin"] for row in profiles]),
        "profile_level": integers([row["level"] for row in profiles]),
        "profile_error": floats([row["error"] for row in profiles]),
    }
    return plain(head) | {"texts": names.texts}, columns


def _of_units(rows: list[Record], numbers: Container[tuple[int, int]]) -> list[Record]:
    return [row for row in rows if (row["step"], row["rank"]) in numbers]


def _document(overview: str, units: list[str]) -> str:
    """Return the HTML around the packed tables. They are base64, so nothing of a dump is ever parsed as markup."""
    style, program, skeleton = (
        (_ASSETS / name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "page.html")
    )
    tables = "".join(_table(f"unit-{number}", text) for number, text in enumerate(units))
    parts = {
        "POLICY": f"default-src 'none'; script-src {_source(program)}; style-src {_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        "STYLE": style,
        "OVERVIEW": _table("overview", overview),
        "PROGRAM": program,
        "UNITS": tables,
    }
    for name, text in parts.items():
        before, after = skeleton.split(f"<!--{name}-->")
        skeleton = before + text + after
    return skeleton


def _table(name: str, text: str) -> str:
    return f'<script type="text/plain" id="{name}">{text}</script>\n'


def _source(text: str) -> str:
    """Return the source expression of a strict Content-Security-Policy that allows `text` and nothing else."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

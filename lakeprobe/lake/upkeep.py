"""Removes and renames the runs and comparisons of a lake, and keeps notes on them.

What is removed first moves under LAKE/.staging in one rename, so a removal that is interrupted leaves all or nothing:
what lies there is out of every view, and the next ingest or comparison clears it away.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import yaml

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import comparison, layout, staging, tables, views

NOTE_FILE = "note.txt"


@dataclass(frozen=True, slots=True)
class Kept:
    """A run or comparison: what it is, its name, and its folder."""

    what: str
    name: str
    folder: Path


def find(lake: Path, name: str) -> Kept:
    """The run or comparison `name`. Raises UsageError if there is neither."""
    if name in layout.runs(lake):
        return Kept("run", name, layout.run_folder(lake, name))
    if name in layout.comparisons(lake):
        return Kept("comparison", name, layout.comparison_folder(lake, name))
    there = ", ".join([*layout.runs(lake), *layout.comparisons(lake)]) or "nothing"
    raise UsageError(f"{name} is neither a run nor a comparison in {lake} (there: {there})")


def users_of(lake: Path, run: str) -> list[str]:
    """The comparisons in which `run` is a side."""
    return [name for name in layout.comparisons(lake) if run in _sides(lake, name)]


def remove(lake: Path, name: str) -> None:
    """Remove a run or comparison. Comparisons of a run keep their rows. Raises UsageError and LakeError."""
    kept = find(lake, name)
    with staging.unchanged(lake), staging.locked(lake, "units"), staging.staged(lake, "removed") as folder:
        kept.folder.rename(folder / "removed")


def rename(lake: Path, name: str, new: str) -> None:
    """Give a run or comparison another name; comparisons follow their run. Raises UsageError and LakeError."""
    kept = find(lake, name)
    layout.check_name(new, kept.what)
    taken = {"run": layout.runs(lake), "comparison": layout.comparisons(lake)}
    if kept.what == "comparison":
        taken |= {"view": sorted(views.NAMES), "table": tables.names(lake)}
    for what, names in taken.items():
        if new.lower() in {other.lower() for other in names}:
            raise UsageError(f"{new} is the name of a {what} already; choose another")
    users = users_of(lake, name) if kept.what == "run" else []
    with staging.unchanged(lake), staging.locked(lake, "units"):
        kept.folder.rename(kept.folder.with_name(f"{kept.what}={new}"))
        for user in users:
            _change(lake, user, {side: new for side in ("target", "golden") if _described(lake, user)[side] == name})
        if kept.what == "comparison":
            _change(lake, new, {"comparison": new})


def note(lake: Path, name: str) -> str:
    """The note on a run or comparison; empty where there is none. Raises UsageError."""
    path = find(lake, name).folder / NOTE_FILE
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write_note(lake: Path, name: str, text: str) -> None:
    """Put `text` down as the note on a run or comparison; an empty one removes it. Raises UsageError and LakeError."""
    path = find(lake, name).folder / NOTE_FILE
    with staging.unchanged(lake):
        if text:
            _write(path, text)
        else:
            path.unlink(missing_ok=True)


def _sides(lake: Path, name: str) -> tuple[str, str]:
    try:
        stored = comparison.load(lake, name)
    except LakeError:  # a damaged comparison is of nothing
        return "", ""
    return stored.target, stored.golden


def _described(lake: Path, name: str) -> dict[str, object]:
    path = layout.comparison_folder(lake, name) / comparison.DESCRIPTION_FILE
    described: dict[str, object] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return described


def _change(lake: Path, name: str, values: dict[str, str]) -> None:
    """Change what a comparison's description says."""
    text = yaml.safe_dump(_described(lake, name) | values, sort_keys=False, allow_unicode=True)
    _write(layout.comparison_folder(lake, name) / comparison.DESCRIPTION_FILE, text)


def _write(path: Path, text: str) -> None:
    """Write `path` whole or not at all."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)

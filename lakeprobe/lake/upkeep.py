"""Removes and renames the runs and comparisons of a lake, and keeps notes on them.

What is removed first moves under LAKE/.staging in one rename, so a removal that is interrupted leaves all or nothing:
what lies there is out of every view, and the next ingest or comparison clears it away. A comparison is renamed in one
rename, too. A run takes along what names it, so LAKE/.staging first says what it is to be called: who opens the lake
next finishes what was interrupted.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
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
    finish(lake)
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
    with staging.unchanged(lake), staging.locked(lake, "units"):
        if kept.what == "comparison":
            kept.folder.rename(layout.comparison_folder(lake, new))
        else:
            _rename_run(lake, name, new)


def _rename_run(lake: Path, name: str, new: str) -> None:
    renaming = _renaming_file(lake)
    _write(renaming, yaml.safe_dump({"run": name, "new": new}, allow_unicode=True))
    try:
        layout.run_folder(lake, name).rename(layout.run_folder(lake, new))
    except OSError:
        renaming.unlink()
        raise
    _finish(lake)


def finish(lake: Path) -> None:
    """Finish a rename that was interrupted. Where another process is at it, or the lake cannot be written, wait."""
    if _renaming_file(lake).is_file():
        with suppress(LakeError, OSError), staging.locked(lake, "units"):
            _finish(lake)


def _finish(lake: Path) -> None:
    """Give the run its new name, and then what names it: the comparisons in which it is a side, and its noise."""
    renaming = _renaming_file(lake)
    asked = yaml.safe_load(renaming.read_text(encoding="utf-8"))
    name, new = asked["run"], asked["new"]
    if layout.run_folder(lake, name).exists():
        layout.run_folder(lake, name).rename(layout.run_folder(lake, new))
    for user in users_of(lake, name):
        _change(lake, user, {side: new for side in ("target", "golden") if _described(lake, user)[side] == name})
    for noise in layout.noises(lake):
        _rename_golden(layout.noise_file(lake, noise), name, new)
    renaming.unlink()


def _renaming_file(lake: Path) -> Path:
    return layout.staging_folder(lake) / "renaming.yaml"


def _rename_golden(file: Path, name: str, new: str) -> None:
    """Call the run `name` `new` in a noise that was measured of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    place = table.schema.get_field_index("golden")
    if name in table["golden"].unique().to_pylist():
        goldens = [new if golden == name else golden for golden in table["golden"].to_pylist()]
        draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
        pq.write_table(table.set_column(place, "golden", pa.array(goldens, pa.string())), draft)
        draft.replace(file)


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

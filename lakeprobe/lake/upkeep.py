"""Removes and renames the runs and comparisons of a lake, and keeps notes on them.

Each change is one publication (`lakeprobe.lake.log`), so it is visible all at once or not at all. A renamed thing gets
new folders, whose files are links to the old ones. Renaming a run also changes what refers to it: the comparisons in
which it is a side, and the noises that were measured of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakeprobe import resources
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import comparison, layout, log, staging, store, views
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.staging import Session
from lakeprobe.system import files


@dataclass(frozen=True, slots=True)
class Kept:
    """A run or comparison: its kind, its name, and the path of its note."""

    what: str
    name: str
    note: Path


def find(lake: Path, name: str) -> Kept:
    """Return the run or comparison `name`. Raises UsageError if there is neither."""
    snapshot = log.read(lake)
    if name in layout.runs(snapshot) or name in layout.monitored(snapshot):
        return Kept("run", name, layout.note_file(lake, f"run={name}"))
    if name in layout.comparisons(snapshot):
        return Kept("comparison", name, layout.note_file(lake, layout.comparison_name(name)))
    names = ", ".join([*layout.runs(snapshot), *layout.comparisons(snapshot)]) or "nothing"
    raise UsageError(f"{name} is neither a run nor a comparison in {lake} (there: {names})")


def users_of(lake: Path | Snapshot, run: str) -> list[str]:
    """Return the names of the comparisons in which `run` is a side."""
    return [name for name in layout.comparisons(lake) if run in _sides(lake, name)]


def remove(lake: Path, name: str) -> None:
    """Remove a run or comparison. Comparisons of a removed run keep their rows. Raises UsageError and LakeError."""
    kept = find(lake, name)
    with staging.unchanged(lake), staging.staged(lake, "remove") as session:
        staging.publish(session, f"remove {name}", {}, _things(log.read(lake), kept), notes={kept.note: None})


def rename(lake: Path, name: str, new: str) -> None:
    """Rename a run or comparison. Comparisons follow a renamed run. Raises UsageError and LakeError."""
    store.must_be_local(lake, "nothing is renamed")
    kept = find(lake, name)
    layout.check_name(new, kept.what)

    def check(snapshot: Snapshot) -> None:
        runs = [*layout.runs(snapshot), *layout.monitored(snapshot)]
        taken = {"run": runs, "comparison": layout.comparisons(snapshot)}
        if kept.what == "comparison":
            taken |= {"view": sorted(views.NAMES), "table": layout.tables(snapshot)}
        for what, names in taken.items():
            if new.lower() in {other.lower() for other in names}:
                raise UsageError(f"{new} is the name of a {what} already; choose another")

    check(log.read(lake))
    with staging.unchanged(lake), staging.staged(lake, "rename") as session, staging.reading(lake) as snapshot:
        things = list(_things(snapshot, kept))
        put = dict(_renamed(session, snapshot, kept, new))
        note = kept.note.parent.with_name(kept.note.parent.name.replace(f"={name}", f"={new}")) / kept.note.name
        for folder in put.values():
            files.sync_tree(folder)
        staging.publish(session, f"rename {name} {new}", put, things, check, {kept.note: None, note: kept.note})


def _things(snapshot: Snapshot, kept: Kept) -> Iterator[str]:
    """Yield the names in the log of a run's units, or of a comparison."""
    if kept.what == "comparison":
        yield layout.comparison_name(kept.name)
    else:
        yield from layout.unit_things(snapshot, kept.name)
        for rank, parts in layout.series_parts(snapshot, kept.name).items():
            yield from (layout.series_name(kept.name, rank, part) for part in parts)


def _renamed(session: Session, snapshot: Snapshot, kept: Kept, new: str) -> Iterator[tuple[str, Path]]:
    """Yield each thing that a rename changes: its new name, and its new folder in the session."""
    for number, name in enumerate(_things(snapshot, kept)):
        yield name.replace(f"={kept.name}", f"={new}", 1), _linked(snapshot, name, session.folder / f"{number}")
    if kept.what == "comparison":
        return
    for user in users_of(snapshot, kept.name):
        name = layout.comparison_name(user)
        folder = _linked(snapshot, name, session.folder / f"comparison-{user}", but=comparison.DESCRIPTION_FILE)
        described = _described(snapshot, user)
        sides = {side: new for side in ("target", "golden") if described[side] == kept.name}
        comparison.describe(folder, described | sides)
        yield name, folder
    for noise in layout.noises(snapshot):
        folder = session.folder / f"noise-{noise}"
        if _rename_golden(layout.noise_file(snapshot, noise), folder, kept.name, new):
            yield layout.noise_name(noise), folder


def _linked(snapshot: Snapshot, name: str, folder: Path, but: str = "") -> Path:
    """Fill a new `folder` with the files of the thing `name`, except `but`, and return it."""
    place = snapshot.places[name]
    for file in place.files:
        if file not in (but, log.HELD):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            files.link_or_copy(snapshot.lake / place.path / file, folder / file)
    if place.ranks:
        log.write_held(folder, place)
    return folder


def _rename_golden(file: Path | None, folder: Path, name: str, new: str) -> bool:
    """Write a noise measured of the run `name` into `folder` as one of `new`.

    Returns False if it belongs to another run.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file is None or name not in (table := pq.read_table(file, partitioning=None))["golden"].unique().to_pylist():
        return False
    goldens = [new if golden == name else golden for golden in table["golden"].to_pylist()]
    place = table.schema.get_field_index("golden")
    folder.mkdir()
    pq.write_table(table.set_column(place, "golden", pa.array(goldens, pa.string())), folder / file.name)
    return True


def note(lake: Path, name: str) -> str:
    """Return the note on a run or comparison, or an empty text. Raises UsageError."""
    path = find(lake, name).note
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write_note(lake: Path, name: str, text: str) -> None:
    """Write `text` as the note on a run or comparison.

    An empty text removes the note. Raises UsageError and LakeError.
    """
    store.must_be_local(lake, "notes are not written")
    path = find(lake, name).note
    with staging.unchanged(lake):
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)  # a run that was monitored and not dumped has no folder
            _write(path, text)
        else:
            path.unlink(missing_ok=True)


def _sides(lake: Path | Snapshot, name: str) -> tuple[str, str]:
    try:
        stored = comparison.load(lake, name)
    except LakeError:  # a damaged comparison has no sides
        return "", ""
    return stored.target, stored.golden


def _described(snapshot: Snapshot, name: str) -> dict[str, object]:
    path = snapshot.lake / snapshot.places[layout.comparison_name(name)].path / comparison.DESCRIPTION_FILE
    described: dict[str, object] = resources.read_yaml(path)
    return described


def _write(path: Path, text: str) -> None:
    """Write `path` atomically."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        files.sync(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    files.sync(path.parent)

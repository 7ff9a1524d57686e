"""Removes and renames what a lake has under a name, and keeps notes on runs and comparisons.

Each change is one publication (`lakeprobe.lake.log`), so it is visible all at once or not at all. A renamed thing gets
new folders, whose files are links to the old ones. What a run began with (R.preflight, R.weights), its verifications,
its perturbations and the noises that were measured of it share its fate. Renaming a run also changes the comparisons in
which it is a side, and renaming a noise those that used it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from lakeprobe import strict_yaml
from lakeprobe.errors import LakeError, UsageError, unknown
from lakeprobe.lake import comparison, layout, log, staging, store, views
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.staging import Session
from lakeprobe.system import files


class Kept(Struct, frozen=True):
    """A run, comparison, noise, verification or perturbation: its kind, its name, and the path of its note."""

    what: str
    name: str
    note: Path


def find(lake: Path, name: str) -> Kept:
    """Return what has the `name`: a run, or else a comparison, noise, verification or perturbation.

    Raises UsageError.
    """
    snapshot = log.read(lake)
    if name in layout.runs(snapshot) or name in layout.monitored(snapshot):
        return Kept("run", name, layout.note_file(lake, f"run={name}"))
    if name in layout.comparisons(snapshot):
        return Kept("comparison", name, layout.note_file(lake, layout.comparison_name(name)))
    for what, name_of in _OTHERS.items():
        if name_of(name) in snapshot.places:
            return Kept(what, name, layout.note_file(lake, name_of(name)))
    raise unknown(lake, "run or comparison", name, [*layout.runs(snapshot), *layout.comparisons(snapshot)])


_OTHERS = {
    "noise": layout.noise_name,
    "verification": layout.verification_name,
    "perturbation": layout.perturbation_name,
}


def companions_of(lake: Path | Snapshot, run: str) -> list[str]:
    """Return the names of the runs that hold what `run` began with."""
    runs = layout.runs(lake)
    return [f"{run}{ending}" for ending in layout.BEGINNINGS if f"{run}{ending}" in runs]


def checks_of(lake: Path | Snapshot, run: str) -> list[str]:
    """Return the names in the log of the verifications, perturbations and noises of `run`."""
    snapshot = layout.snapshot_of(lake)
    return sorted(name for name in snapshot.places if _is_check(name) and _run_of(snapshot, name) == run)


def users_of(lake: Path | Snapshot, kept: Kept) -> list[str]:
    """Return the names of the comparisons that used it: the run as a side, or the noise."""
    return [name for name in layout.comparisons(lake) if kept.name in _used(lake, name, kept.what)]


def remove(lake: Path, name: str) -> None:
    """Remove what has the `name`. Comparisons of a removed run keep their rows. Raises UsageError and LakeError."""
    kept = find(lake, name)
    with staging.unchanged(lake), staging.staged(lake, "remove") as session:
        snapshot = log.read(lake)
        things = list(_things(snapshot, kept))

        def check(now: Snapshot) -> None:
            _check_unchanged(now, snapshot, kept, things)

        staging.publish(session, f"remove {name}", {}, things, check, {kept.note: None})


def rename(lake: Path, name: str, new: str) -> None:
    """Rename what has the `name`. What refers to a renamed run follows it. Raises UsageError and LakeError."""
    store.must_be_local(lake, "nothing is renamed")
    kept = find(lake, name)
    layout.check_name(new, kept.what)

    def check(snapshot: Snapshot) -> None:
        runs = [*layout.runs(snapshot), *layout.monitored(snapshot)]
        taken = {"run": runs, "comparison": layout.comparisons(snapshot)}
        if kept.what == "comparison":
            taken |= {"view": sorted(views.NAMES), "table": layout.tables(snapshot)}
        if kept.what in _OTHERS:
            taken = {kept.what: [new] if _OTHERS[kept.what](new) in snapshot.places else []}
        for what, names in taken.items():
            if new.lower() in {other.lower() for other in names}:
                raise UsageError(f"{new} is the name of a {what} already; choose another")
        for old in _things(snapshot, kept):
            follower = _new_name(old, kept, new)
            if follower != old and follower in snapshot.places:
                raise UsageError(f"the lake has {follower} already; remove it, or choose another name")

    check(log.read(lake))
    with staging.unchanged(lake), staging.staged(lake, "rename") as session, staging.reading(lake) as snapshot:
        things = list(_things(snapshot, kept))
        put = dict(_renamed(session, snapshot, kept, new))
        note = kept.note.parent.with_name(kept.note.parent.name.replace(f"={name}", f"={new}")) / kept.note.name
        for folder in put.values():
            files.sync_tree(folder)
        gone = [thing for thing in things if thing not in put]

        def check_again(now: Snapshot) -> None:
            check(now)
            _check_unchanged(now, snapshot, kept, [*things, *put])

        staging.publish(session, f"rename {name} {new}", put, gone, check_again, {kept.note: None, note: kept.note})


def _check_unchanged(now: Snapshot, before: Snapshot, kept: Kept, names: Iterable[str]) -> None:
    """Raise LakeError if another process changed what has the name, or something of `names`: its work would be lost."""
    if any(now.places.get(name) != before.places.get(name) for name in (*names, *_things(now, kept))):
        raise LakeError(f"the {kept.what} {kept.name} was changed by another process meanwhile; try again")


def _things(snapshot: Snapshot, kept: Kept) -> Iterator[str]:
    """Yield the names in the log of what is removed or renamed together."""
    if kept.what == "comparison":
        yield layout.comparison_name(kept.name)
        return
    if kept.what in _OTHERS:
        yield _OTHERS[kept.what](kept.name)
        return
    for run in (kept.name, *companions_of(snapshot, kept.name)):
        yield from layout.unit_things(snapshot, run)
    for rank, parts in layout.series_parts(snapshot, kept.name).items():
        yield from (layout.series_name(kept.name, rank, part) for part in parts)
    yield from checks_of(snapshot, kept.name)


def _new_name(thing: str, kept: Kept, new: str) -> str:
    """Return what the log calls a thing after the rename: a check that is not named after its run keeps its name.

    A noise keeps it in any case when its run is renamed: comparisons name the noise that they used.
    """
    if thing.startswith(layout.noise_name("")) and kept.what == "run":
        return thing
    name = kept.name
    return re.sub(rf"={re.escape(name)}(?=$|[/,]|\.preflight/|\.weights/)", lambda _: f"={new}", thing, count=1)


def _renamed(session: Session, snapshot: Snapshot, kept: Kept, new: str) -> Iterator[tuple[str, Path]]:
    """Yield each thing that a rename changes: its new name, and its new folder in the session."""
    for number, name in enumerate(_things(snapshot, kept)):
        folder = session.folder / f"{number}"
        if kept.what == "run" and _is_check(name):
            _rewrite(_only_file(snapshot, name), folder, _owner(name), kept.name, new)
        else:
            _linked(snapshot, name, folder)
        yield _new_name(name, kept, new), folder
    for user in users_of(snapshot, kept):
        name = layout.comparison_name(user)
        folder = _linked(snapshot, name, session.folder / f"comparison-{user}", but=comparison.DESCRIPTION_FILE)
        described = _described(snapshot, user)
        followed = {key: new for key in _USED[kept.what] if described[key] == kept.name}
        comparison.describe(folder, described | followed)
        yield name, folder


def _linked(snapshot: Snapshot, name: str, folder: Path, but: str = "") -> Path:
    """Fill a new `folder` with the files of the thing `name`, except `but`, and return it."""
    place = snapshot.places[name]
    for file in place.files:
        if file not in (but, log.HELD):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            files.link_or_copy(snapshot.lake / place.path / file, folder / file)
    if place.held:
        log.write_held(folder, place)
    return folder


def _rewrite(file: Path, folder: Path, column: str, name: str, new: str) -> None:
    """Write a file of the run `name`, which the `column` says, into the new `folder` as one of `new`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(files.readable(file), partitioning=None)
    runs = [new if run == name else run for run in table[column].to_pylist()]
    place = table.schema.get_field_index(column)
    folder.mkdir()
    pq.write_table(table.set_column(place, column, pa.array(runs, pa.string())), folder / file.name, compression="zstd")


def _is_check(name: str) -> bool:
    """Return whether what the log calls `name` is a noise, verification or perturbation."""
    return name.startswith(tuple(name_of("") for name_of in _OTHERS.values()))


def _owner(name: str) -> str:
    """Return the column that says of which run the noise, verification or perturbation `name` is."""
    return "golden" if name.startswith(layout.noise_name("")) else "run"


def _only_file(snapshot: Snapshot, name: str) -> Path:
    """Return the file of a noise, verification or perturbation."""
    place = snapshot.places[name]
    return (
        snapshot.lake / place.path / next(iter(place.files), layout.VERIFICATION_FILE)
    )  # one without files is damaged


def _run_of(snapshot: Snapshot, name: str) -> str | None:
    """Return the run that a noise, verification or perturbation is of. None if its file is damaged or has no rows.

    Raises LakeError if the system cannot read it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file, column = _only_file(snapshot, name), _owner(name)
    try:
        with pq.ParquetFile(files.readable(file)) as opened:
            runs = opened.read(columns=[column])[column]
    except (OSError, KeyError, pa.ArrowException) as error:
        _refuse_unknown(error, file)
        return None
    return str(runs[0].as_py()) if len(runs) else None


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
    files.refuse_links(lake, [str(path.relative_to(lake))])
    with staging.unchanged(lake):
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)  # a run that was monitored and not dumped has no folder
            _write(path, text)
        else:
            path.unlink(missing_ok=True)


_USED = {"run": ("target", "golden"), "noise": ("noise",)}
"""Where a comparison says what it used."""


def _used(lake: Path | Snapshot, name: str, what: str) -> list[object]:
    """Return the names of what the comparison `name` used of a kind."""
    if what not in _USED:
        return []
    try:
        stored = comparison.load(lake, name)
    except LakeError as error:
        _refuse_unknown(error.__cause__, layout.comparison_folder(lake, name))
        return []  # a damaged comparison does not say
    return [getattr(stored, key) for key in _USED[what]]


def _refuse_unknown(error: BaseException | None, path: Path | None) -> None:
    """Raise LakeError if the system could not read a file that is there: what it refers to would not follow it."""
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, FileNotFoundError):
        raise LakeError.from_system(error, path or Path(), "nothing was changed") from error


def _described(snapshot: Snapshot, name: str) -> dict[str, object]:
    path = snapshot.lake / snapshot.places[layout.comparison_name(name)].path / comparison.DESCRIPTION_FILE
    described: dict[str, object] = strict_yaml.read_record(path)
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

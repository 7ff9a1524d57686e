"""Reads every file of a lake as far as needed to see that it is whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from lakeprobe.errors import LakeError
from lakeprobe.lake import comparison, layout
from lakeprobe.lake.damage import DamagedError
from lakeprobe.lake.log import Snapshot
from lakeprobe.system.files import refuse_special
from lakeprobe.system.storage import RemotePath


def damaged_files(snapshot: Snapshot, gone: Collection[str] = ()) -> Iterator[tuple[str, Path]]:
    """Yield each damaged file, with the name of the thing that it belongs to. Things that are `gone` are left out.

    Of Parquet files only the footers are read. In a lake at an address, where a file is there in full or not at all and
    each costs requests, they are not. Raises LakeError and OSError for a file that may be whole and that the system
    cannot read.
    """
    whole = {name: place for name, place in snapshot.places.items() if name not in gone}
    is_local = not isinstance(snapshot.lake, RemotePath)
    for name, place in whole.items() if is_local else ():
        folder = snapshot.lake / place.path
        for path in (folder / file for file in place.files) if place.files else (folder,):
            if path.suffix == ".parquet" and not _has_footer(path):
                yield name, path
    for name in layout.comparisons(snapshot):
        thing = layout.comparison_name(name)
        if thing in whole and not _has_description(snapshot, name):
            yield thing, snapshot.lake / whole[thing].path / comparison.DESCRIPTION_FILE


def _has_description(snapshot: Snapshot, name: str) -> bool:
    """Return whether the comparison `name` says what it is, or that a newer release made it."""
    try:
        comparison.load(snapshot, name)
    except DamagedError:
        return False
    except LakeError as error:
        if isinstance(error.__cause__, OSError):
            raise
    return True


def _has_footer(path: Path) -> bool:
    """Return whether the Parquet file `path` can be opened."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        refuse_special([path])
        pq.read_metadata(path)
    except pa.ArrowException:
        return False
    except OSError as error:
        if error.errno is not None:  # of the system; pyarrow has none for a footer that it cannot decode
            raise
        return False
    return True

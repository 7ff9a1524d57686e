"""Writes a view of a comparison or run to a file, in one of the forms that `lakeprobe.forms` lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import forms
from lakeprobe.errors import LakeError
from lakeprobe.lake import outputs
from lakeprobe.view.levels import subject
from lakeprobe.view.page import MOST_UNITS
from lakeprobe.work import Progress

if TYPE_CHECKING:
    import duckdb

WRITERS = forms.writers(forms.VIEW)
"""The functions that write a view, by form."""


def write(
    connection: duckdb.DuckDBPyConnection,
    lake: Path,
    name: str,
    path: Path | None = None,
    format: str = "html",
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    most: int = MOST_UNITS,
    all_units: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a view of the comparison or run `name` to `path`, NAME.html if there is none. Returns the path.

    `connection` has the views of `lake`. `steps` and `ranks` limit what is shown. A page has all ops of the `most`
    units that matter most, and an overview of all; with `all_units`, the others get pages of their own, which it links
    to. `progress` receives the number of units that are drawn, and of all.

    Raises UsageError for a name, step or rank that does not exist and for a place that no file may take, and LakeError
    for a file that cannot be written.
    """
    writer = forms.check(format, WRITERS)
    place = path or Path(f"{name}.{format}")
    outputs.file_at(place)
    shown = subject(lake, name, steps, ranks)
    try:
        outputs.folder(place.parent)
        writer(connection, lake, shown, place, most, all_units, progress)
    except OSError as error:
        raise LakeError.from_system(error, place, "the view was not written") from error
    return place

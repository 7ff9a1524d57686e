"""Lists the forms of output: which function writes a comparison, a merge of ranks, or plain rows in each form.

To add a form, write the function and add a line here; commands, their help and their docs follow. Writers are given as
MODULE:FUNCTION, so that openpyxl and pyarrow are imported only when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple

from lakeprobe.errors import UsageError

ROWS, COMPARISON, MERGE, VIEW = "rows", "comparison", "merge", "view"
"""What can be written: rows on stdout, the files of a comparison, the files of a merge, views of either or of a run."""


class Form(NamedTuple):
    """A form: its name, and its writers; None if it does not exist. Its files end in `suffix`, or else in the name."""

    name: str
    rows: str | None = None
    comparison: str | None = None
    merge: str | None = None
    view: str | None = None
    suffix: str | None = None


FORMS = (
    Form("table", rows="lakeprobe.output:write_table"),
    Form(
        "csv",
        "lakeprobe.output:write_csv",
        "lakeprobe.reports.files:write_csv",
        "lakeprobe.reports.merge_files:write_csv",
    ),
    Form("xlsx", None, "lakeprobe.reports.workbook:write", "lakeprobe.reports.merge_files:write_workbook"),
    Form("json", "lakeprobe.output:write_json", "lakeprobe.reports.json_file:write"),
    Form("parquet", None, "lakeprobe.reports.files:write_parquet", "lakeprobe.reports.merge_files:write_parquet"),
    Form("junit", comparison="lakeprobe.reports.junit:write", suffix="xml"),
    Form("markdown", comparison="lakeprobe.reports.markdown:write", suffix="md"),
    Form("html", view="lakeprobe.view.page:write"),
    Form("vis.db", view="lakeprobe.view.vis_db:write"),
)


def writers(what: str) -> dict[str, Callable[..., Any]]:
    """Return the writers of one kind of output, by the name of the form. Each is imported when it is first called."""
    named = {form.name: getattr(form, what) for form in FORMS}
    return {name: _imported_late(writer) for name, writer in named.items() if writer}


def choices(what: str, *others: str) -> type[StrEnum]:
    """Return the forms of one kind of output and `others`, as the options of a command, in the order of FORMS."""
    names = [form.name for form in FORMS if form.name in others or getattr(form, what)]
    return StrEnum("Format", {name.upper(): name for name in names})  # type: ignore[return-value]


def suffix(format: str) -> str:
    """Return what files of `format` end in."""
    return next((form.suffix for form in FORMS if form.name == format and form.suffix), format)


def check(format: str, available: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the writer of `format`. Raises UsageError if there is none."""
    if format not in available:
        raise UsageError(f"--format {format} is unknown; use one of {', '.join(available)}")
    return available[format]


def _imported_late(writer: str) -> Callable[..., Any]:
    module, _, function = writer.partition(":")

    def write(*arguments: Any) -> Any:
        return getattr(import_module(module), function)(*arguments)

    return write

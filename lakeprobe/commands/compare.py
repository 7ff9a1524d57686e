"""lakeprobe compare: two runs held against each other."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeprobe.commands.options import (
    JobsOption,
    LakeOption,
    RanksOption,
    ReplaceOption,
    StepsOption,
    TensorsOption,
    numbers,
)
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    from lakeprobe.mapping.compare_json import OldCompare


class FailOn(StrEnum):
    """The findings that make the command end with 1."""

    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The forms a comparison can be written in."""

    CSV = "csv"
    XLSX = "xlsx"
    JSON = "json"
    PARQUET = "parquet"


def compare(
    target: Annotated[
        str | None, typer.Argument(help="The suspect run: its name in the lake, or a path with dumps.")
    ] = None,
    golden: Annotated[str | None, typer.Argument(help="The trusted run, likewise.")] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", help="The rule: a bundled one or a file.", show_default="by frameworks and mappings"),
    ] = None,
    api_mapping: Annotated[
        str | None, typer.Option("--api-mapping", "-am", metavar="[FILE]", help="msprobe's API mapping.")
    ] = None,
    cell_mapping: Annotated[
        str | None, typer.Option("--cell-mapping", "-cm", metavar="[FILE]", help="msprobe's cell mapping.")
    ] = None,
    data_mapping: Annotated[
        str | None, typer.Option("--data-mapping", "-dm", metavar="FILE", help="msprobe's data mapping.")
    ] = None,
    layer_mapping: Annotated[
        str | None,
        typer.Option("--layer-mapping", "-lm", metavar="[FILE]", help="msprobe's layer mapping; the rule layer."),
    ] = None,
    fuzzy_match: Annotated[
        bool, typer.Option("--fuzzy-match", "-fm", help="Pair ops in order, call numbers apart: the rule fuzzy.")
    ] = False,
    compare_json: Annotated[
        Path | None, typer.Option("--input-json", "-i", help="An old compare.json instead of TARGET and GOLDEN.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for result files.")] = None,
    format: Annotated[Format, typer.Option("--format", help="Form of the result files.")] = Format.CSV,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="End with 1 if there are findings of this weight.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the comparison.", show_default="TARGET_vs_GOLDEN")
    ] = None,
    rank: RanksOption = None,
    step: StepsOption = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Seconds that a rank may take.", show_default="no limit")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory-limit", help="Memory that a rank may take: 4GB, 50%.", show_default="80%")
    ] = None,
    lake: LakeOption = None,
    tensors: TensorsOption = "copy",
    replace: ReplaceOption = False,
    jobs: JobsOption = None,
) -> None:
    """Hold a target run against a golden run and name the first op that differs.

    Sides that are paths are ingested first. The result is kept in the lake: the table results, and a table of the
    comparison's name. A warning is also a row that has no counterpart or cannot be read.

    Example: lakeprobe compare npu_dump gpu_dump -o out --format xlsx
    """
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace as replaced

    from lakeprobe import diagnostics
    from lakeprobe import output as stdout
    from lakeprobe.analysis.summary import summarise
    from lakeprobe.compare.run import compare as run_compare
    from lakeprobe.lake import comparison, store
    from lakeprobe.mapping.files import read as read_mappings
    from lakeprobe.reports import files, terminal
    from lakeprobe.work import default_jobs

    asked = _asked(target, golden, compare_json)
    for note in asked.notes:
        diagnostics.note(note)
    given = {"api": api_mapping, "cell": cell_mapping, "data": data_mapping, "layer": layer_mapping}
    files_given = {kind: Path(file) for kind, file in given.items() if file}
    mappings = read_mappings(**files_given)
    mappings = replaced(mappings, apis=asked.apis + mappings.apis)
    rule = sql or _rule(fuzzy_match, layer_mapping)
    with diagnostics.progress("comparing") as progress:
        report = run_compare(
            str(asked.target), str(asked.golden), lake=lake, rule=rule, mappings=mappings,
            steps=numbers(step) or asked.steps, ranks=numbers(rank) or asked.ranks, name=name, tensors=tensors,
            replace=replace, jobs=jobs or default_jobs(), timeout=timeout, memory=memory, progress=progress,
        )  # fmt: skip
    for ingested in report.ingested:
        for line in terminal.ingest_lines(ingested):
            diagnostics.note(line)
    for note in report.notes[:_MOST_NOTES]:
        diagnostics.note(note)
    if len(report.notes) > _MOST_NOTES:
        diagnostics.note(f"… and {len(report.notes) - _MOST_NOTES} more lines of the mapping files do nothing")
    stored = comparison.load(store.choose(lake), report.name)
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(files.write, stored, output, format.value) if output is not None else None
        summary = summarise(stored)
        stdout.text(terminal.comparison_text(stored, summary))
    for path in writing.result() if writing else ():
        diagnostics.note(f"written: {path}")
    if fail_on is not None and summary.count(*_FAILING[fail_on]):
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)


def _asked(target: str | None, golden: str | None, compare_json: Path | None) -> OldCompare:
    """What is to be compared: TARGET and GOLDEN, or what a compare.json says."""
    from lakeprobe.mapping import compare_json as old

    if compare_json is not None and target is None and golden is None:
        return old.read(compare_json)
    if target is None or golden is None or compare_json is not None:
        raise UsageError("give TARGET and GOLDEN, or -i with a compare.json instead of both")
    return old.OldCompare(Path(target), Path(golden))


def _rule(fuzzy_match: bool, layer_mapping: str | None) -> str | None:
    """The rule that msprobe's switches ask for; None leaves it to the frameworks and the mapping files."""
    if fuzzy_match:
        return "fuzzy"
    return "layer" if layer_mapping is not None else None


_MOST_NOTES = 10
"""How many lines of mapping files that do nothing are told one by one."""

_FAILING = {FailOn.ERROR: ("error",), FailOn.WARNING: ("error", "warning", "unmatched", "unreadable")}

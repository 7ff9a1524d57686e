"""lakeprobe compare: compare two runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lakeprobe import forms
from lakeprobe.commands.complete import rule_names, run_names
from lakeprobe.commands.options import (
    EngineOption,
    JobsOption,
    LakeOption,
    NoiseOption,
    NoSyncOption,
    RanksOption,
    ShardOption,
    StepsOption,
    Tensors,
    numbers,
)
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    from lakeprobe.analysis.verdict import Coverage
    from lakeprobe.compare.run import CompareReport
    from lakeprobe.mapping.files import Mappings

    Format = StrEnum
else:
    Format = forms.choices(forms.COMPARISON)


class Layout(StrEnum):
    """Whose workbook to write."""

    LAKEPROBE = "lakeprobe"
    MSPROBE = "msprobe"


class FailOn(StrEnum):
    """The findings that make the command exit with 1."""

    WARNING = "warning"
    ERROR = "error"


def compare(
    target: Annotated[
        str | None,
        typer.Argument(
            help="The suspect run: its name in the lake, or a path with dumps. run@step1 and run@rank0 select a part.",
            show_default="of two runs in the lake, that of MindSpore, or the newer",
            autocompletion=run_names,
        ),
    ] = None,
    golden: Annotated[
        str | None,
        typer.Argument(
            help="The trusted run: a name or a path.", show_default="the other of the two", autocompletion=run_names
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql",
            help="The rule: a bundled one or a file.",
            show_default="by frameworks and mappings",
            autocompletion=rule_names,
        ),
    ] = None,
    api_mapping: Annotated[
        str | None,
        typer.Option("--api-mapping", "-am", "--api_mapping", metavar="[FILE]", help="msprobe's API mapping."),
    ] = None,
    cell_mapping: Annotated[
        str | None,
        typer.Option("--cell-mapping", "-cm", "--cell_mapping", metavar="[FILE]", help="msprobe's cell mapping."),
    ] = None,
    data_mapping: Annotated[
        str | None,
        typer.Option("--data-mapping", "-dm", "--data_mapping", metavar="FILE", help="msprobe's data mapping."),
    ] = None,
    layer_mapping: Annotated[
        str | None,
        typer.Option(
            "--layer-mapping",
            "-lm",
            "--layer_mapping",
            metavar="[FILE]",
            help="msprobe's layer mapping; uses the rule layer.",
        ),
    ] = None,
    fuzzy_match: Annotated[
        bool,
        typer.Option("--fuzzy-match", "-fm", "--fuzzy_match", help="Pair ops in order, not by call: the rule fuzzy."),
    ] = False,
    compare_json: Annotated[
        Path | None,
        typer.Option("--input-json", "-i", help="A compare.json instead of TARGET and GOLDEN."),
    ] = None,
    target_path: Annotated[
        str | None, typer.Option("--target-path", "-tp", "--target_path", help="TARGET, with msprobe's option.")
    ] = None,
    golden_path: Annotated[
        str | None, typer.Option("--golden-path", "-gp", "--golden_path", help="GOLDEN, with msprobe's option.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", "--output_path", help="Folder for the result files and the summary."),
    ] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="Format of the result files.", show_default="csv")
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option("--layout", help="Layout of xlsx: one workbook with an overview, or msprobe's, a file per rank."),
    ] = Layout.LAKEPROBE,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit with 1 if there are findings this severe.")
    ] = None,
    no_search: Annotated[
        bool, typer.Option("--no-search", help="Pair by name only, and search no mapping (docs/rules.md).")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the comparison.", show_default="TARGET_vs_GOLDEN")
    ] = None,
    noise: NoiseOption = None,
    cuts: Annotated[
        str | None,
        typer.Option("--cuts", metavar="auto|FILE", help="Merge TARGET's ranks first: inferred, or by a layout file."),
    ] = None,
    rank: RanksOption = None,
    step: StepsOption = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Seconds allowed per rank.", show_default="no limit")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory-limit", help="Memory allowed per rank: 4GB, 50%.", show_default="80%")
    ] = None,
    lake: LakeOption = None,
    tensors: Annotated[
        Tensors | None,
        typer.Option(
            "--tensors",
            help="Tensor contents of paths: copy into the lake, link to the dump's files, or none.",
            show_default="as the lake has them, else copy",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Read the dumps again, and replace a comparison of that name.")
    ] = False,
    jobs: JobsOption = None,
    shard: ShardOption = None,
    engine: EngineOption = None,
    no_sync: NoSyncOption = False,
) -> None:
    """Compare a target run with a golden run, and name the first op that differs.

    A path is ingested first, and again if its dump has changed. The lake stores the result in the table results and in
    a table of the comparison's name. The answer begins with a verdict on the whole and with how much was compared;
    --fail-on follows the same counts (docs/answers.md).

    Example: lakeprobe compare npu_dump gpu_dump -o out --format xlsx
    """
    from msgspec import structs

    from lakeprobe import diagnostics
    from lakeprobe.compare.run import compare as run_compare
    from lakeprobe.lake import outputs
    from lakeprobe.reports.terminal import shard_line
    from lakeprobe.system import files
    from lakeprobe.work import default_jobs, use_engine

    if engine:
        use_engine(engine)
    if no_sync:
        files.leave_sync_to_the_system()
    if format is not None and output is None:
        raise UsageError(f"--format {format} writes files; name their folder with -o")
    outputs.check_folder(output)
    if target_path is not None or golden_path is not None:
        if target is not None or golden is not None:
            raise UsageError("give TARGET and GOLDEN, or -tp and -gp, not both")
        target, golden = target_path, golden_path
        if output is None:
            diagnostics.note("the rows are in the lake; add -o ./output to write files, as msprobe does")
    asked = _merged(_asked(target, golden, compare_json, lake), cuts, lake)
    mappings = _mappings(api=api_mapping, cell=cell_mapping, data=data_mapping, layer=layer_mapping)
    mappings = structs.replace(mappings, apis=asked.apis + mappings.apis)
    rule = sql or _rule(fuzzy_match, layer_mapping)
    with diagnostics.progress("comparing") as progress:
        report = run_compare(
            asked.target, asked.golden, lake=lake, rule=rule, mappings=mappings, search=not no_search,
            steps=numbers(step) or asked.steps, ranks=numbers(rank) or asked.ranks, name=name, noise=noise,
            tensors=tensors.value if tensors else None,
            replace=replace, jobs=jobs or default_jobs(), timeout=timeout, memory=memory, shard=shard,
            progress=progress,
        )  # fmt: skip
    _report(report)
    diagnostics.detail(f"comparing: {report.seconds:.2f} s")
    if report.pending:
        diagnostics.note(shard_line(report.pending))
        if not report.pending.is_whole:
            return
    covered = _answer(report, output, format.value if format else "csv", layout.value)
    if fail_on is not None and (covered.has_errors if fail_on is FailOn.ERROR else covered.has_warnings):
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)


def _mappings(**given: str | None) -> Mappings:
    from lakeprobe.mapping.files import read

    return read(**{kind: Path(file) for kind, file in given.items() if file})


def _report(report: CompareReport) -> None:
    """Write to stderr what was read for a comparison, and the remarks about its sides."""
    from lakeprobe import diagnostics
    from lakeprobe.reports import mapping_text
    from lakeprobe.reports.terminal import ingest_lines

    for ingested in report.ingested:
        for line in ingest_lines(ingested):
            diagnostics.note(line)
    for line in mapping_text.search_lines(report.searched, report.name):
        diagnostics.note(line)
    for note in report.notes[:_MOST_NOTES]:
        diagnostics.note(note)
    if len(report.notes) > _MOST_NOTES:
        diagnostics.note(f"… and {len(report.notes) - _MOST_NOTES} more remarks")


def _answer(report: CompareReport, output: Path | None, format: str, layout: str) -> Coverage:
    """Show the answer, and write the files into `output` at the same time, if it is given."""
    from concurrent.futures import ThreadPoolExecutor

    from lakeprobe import diagnostics
    from lakeprobe import output as stdout
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports import files
    from lakeprobe.session import Lake

    with query_errors(), Lake(report.lake) as opened, ThreadPoolExecutor(1) as pool:
        result = opened.comparison(report.name)
        writing = pool.submit(result.write, output, format, layout=layout) if output is not None else None
        thresholds = ", ".join(f"{name} {value:g}" for name, value in result.stored.thresholds.items())
        diagnostics.detail(f"rule {result.stored.rule}, {thresholds}")
        with diagnostics.working("summarising"):
            text = str(result)
        stdout.text(text)
        if output is not None and writing is not None:
            with diagnostics.working(f"writing {format}"):
                written = writing.result()
            for path in (*written, files.write_text(text, output, "advisor")):
                diagnostics.note(f"written: {path}")
        return result.summary().coverage


class _Asked(NamedTuple):
    """What to compare."""

    target: str | Path
    golden: str | Path
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    apis: tuple[tuple[str, str], ...] = ()


def _asked(target: str | None, golden: str | None, compare_json: Path | None, lake: Path | None) -> _Asked:
    """Resolve what to compare: TARGET and GOLDEN, a compare.json, or the two runs of the lake."""
    from lakeprobe import diagnostics

    if target is not None and golden is not None and compare_json is None:
        return _Asked(target, golden)
    if compare_json is not None and (target is not None or golden is not None):
        raise UsageError("give TARGET and GOLDEN, or -i with a compare.json, not both")
    if target is not None:
        raise UsageError(
            f"{target} needs a second run to be compared with: give TARGET and GOLDEN, runs of the lake or dumps"
        )
    if compare_json is not None:
        from lakeprobe.mapping import compare_json as old

        read = old.read(compare_json)
        for note in read.notes:
            diagnostics.note(note)
        return _Asked(read.target, read.golden, read.steps, read.ranks, read.apis)
    from lakeprobe.compare.run import only_pair
    from lakeprobe.lake import store

    chosen_target, chosen_golden, why = only_pair(store.choose(lake))
    diagnostics.note(f"{chosen_target} against {chosen_golden}, the two runs of the lake: {why}")
    return _Asked(chosen_target, chosen_golden)


def _merged(asked: _Asked, cuts: str | None, lake: Path | None) -> _Asked:
    """Merge the ranks of the target if `cuts` says how it was cut, and ask for the merged run instead."""
    if cuts is None:
        return asked
    from lakeprobe import diagnostics
    from lakeprobe.lake import store
    from lakeprobe.layouts.merge import whole_of

    with diagnostics.working("merging the ranks"):
        name, remarks = whole_of(store.check(store.choose(lake)), str(asked.target), str(asked.golden), cuts)
    for remark in remarks:
        diagnostics.note(remark)
    return asked._replace(target=name)


def _rule(fuzzy_match: bool, layer_mapping: str | None) -> str | None:
    """Return the rule that msprobe's switches imply; None leaves it to the frameworks and the mapping files."""
    if fuzzy_match:
        return "fuzzy"
    return "layer" if layer_mapping is not None else None


_MOST_NOTES = 10
"""The most remarks, incomplete units and lines of mapping files without effect that are reported one by one."""

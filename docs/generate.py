"""Writes the reference pages from what they describe.

commands.md comes from the program, lake.md from schemas/*.yaml, answers.md and tour.md from comparisons of the bundled
dumps, and the tables in rules.md from thresholds, metrics and the contract of rules.

python docs/generate.py writes the pages; with --check it writes nothing and exits with 1 if a page is stale. The page
of commands comes from the commands' arguments and docstrings, not from the text of --help, whose layout changes with
every release of typer.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from lakeprobe import resources
from lakeprobe.commands.layout import functions
from lakeprobe.compare.rule import CONTRACT
from lakeprobe.diagnostics import ExitCode
from lakeprobe.lake.connection import connect
from lakeprobe.lake.views import NOISE, PAIRS, PERTURBATIONS, RESULTS, SERIES, SUSPECTS, VERIFICATIONS
from lakeprobe.reports import json_file
from lakeprobe.schema import FORMAT_VERSION, MERGED_TABLES, UNIT_TABLES, Table, metrics, table

FOLDER = Path(__file__).resolve().parent
MADE = "<!-- Made by docs/generate.py: edit {source} and run it again. -->"
EXAMPLE = "Example: "

UNIT_PARTITIONS = (
    ("run", "VARCHAR", "the run's name"),
    ("step", "INTEGER", "the training step"),
    ("rank", "INTEGER", "the rank in the job"),
)
RESULT_PARTITIONS = (
    ("comparison", "VARCHAR", "the comparison's name"),
    ("step", "INTEGER", "the target unit's step"),
    ("rank", "INTEGER", "the target unit's rank"),
)
OTHER_TABLES: dict[str, tuple[tuple[str, str, str], ...]] = {
    **dict.fromkeys((RESULTS, SUSPECTS, PAIRS, NOISE), RESULT_PARTITIONS),
    SERIES: (),
    VERIFICATIONS: (("verification", "VARCHAR", "the verification's name"),),
    PERTURBATIONS: (("perturbation", "VARCHAR", "the perturbation's name"),),
}


_OF_ALL = """\
`lakeprobe` alone shows the steps from two runs to the cause. `--version` shows the version; `--help` or `-h` works on
its own and after every command. After every command, `--quiet` or `-q` leaves only results and errors, `--verbose` or
`-v` adds what was read, by which rule, and how long it took.

`lakeprobe --install-completion` makes bash, zsh or fish complete commands, options, and the names of runs, comparisons,
ops and rules. On a terminal, tables fit its width (`COLUMNS` sets another) and verdicts have colours (`NO_COLOR=1` for
none, `FORCE_COLOR=1` for colours in a pipe). Elsewhere each row is one line.""".splitlines()
"""What is true of all commands."""


def commands_page() -> str:
    """Return the page of every command, argument and option."""
    lines = [
        MADE.format(source="lakeprobe/commands/"),
        "",
        "# Commands",
        "",
        "stdout carries results only; all other messages go to stderr.",
        "",
        "| Exit code | Meaning |",
        "|---|---|",
        *(f"| {code.value} | {meaning} |" for code, meaning in zip(ExitCode, _member_docs(ExitCode), strict=True)),
        "",
        *_OF_ALL,
    ]
    for name, function in functions():
        lines += _command(name, function)
    return "\n".join(lines) + "\n"


def lake_page() -> str:
    """Return the page of every table and column of a lake."""
    lines = [
        MADE.format(source="schemas/"),
        "",
        "# The lake",
        "",
        "A lake is a folder of Parquet files. lakeprobe shows them as the views below; any other reader of Parquet can",
        f"do the same with the files (hive partitions). This page describes format {FORMAT_VERSION}.",
        "",
        "```",
        "LAKE/lake.yaml                                   the format's version",
        "LAKE/log/N.json                                  the N-th publication: the things that came and went",
        "LAKE/run=R/step=S/rank=K/P/TABLE.parquet         a unit: one dump (values: values-0.parquet)",
        "LAKE/run=R/step=S/P/TABLE.parquet                the units of a compacted step, with columns step and rank",
        "LAKE/run=R/step=S/P/held.json                    the ranks of a compacted step",
        "LAKE/run=R/step=S/P/rank=K/values-0.parquet      copied contents of a unit of a compacted step",
        "LAKE/run=R/rank=K/P/TABLE.parquet, held.json     the units of a compacted rank, likewise, and their steps",
        "LAKE/comparisons/comparison=C/P/comparison.yaml  what was compared, and the rule",
        "LAKE/comparisons/comparison=C/P/step=S/rank=K/results.parquet",
        "LAKE/comparisons/comparison=C/P/step=S/rank=K/suspects.parquet  ops that stand out of rounding noise",
        "LAKE/comparisons/comparison=C/P/step=S/rank=K/pairs.parquet     the result of a search for a mapping",
        "LAKE/comparisons/comparison=C/P/step=S/rank=K/stacks.parquet    the target unit's stacks",
        "LAKE/comparisons/comparison=C/P/step=S/rank=K/batch-results.parquet  the rows of up to 64 pairs, of which",
        "                                                         this is the first; likewise suspects and stacks",
        "LAKE/series/run=R/rank=K/part=N/P/series.parquet what lakeprobe.monitor measured (monitor.md)",
        "LAKE/noise/noise=N/P/noise.parquet               differences between repeats of a golden run",
        "LAKE/verifications/verification=V/P/verifications.parquet  results of ops that were run again",
        "LAKE/perturbations/perturbation=V/P/perturbations.parquet  results of ops with changed inputs",
        "LAKE/tables/table=T/P/table.parquet              a result table of another tool",
        "LAKE/run=R/note.txt                              a note on a run; on a comparison likewise",
        "```",
        "",
        "P is the publication that a thing came with, such as `20261122T205225-eb157cd7`: a time and a random number.",
        "A folder with this name is whole and never changes; what replaces it has another name. The log says which",
        "of them counts: under `put` a file of it has the things that came, by name, each with its folder and files,",
        "and under `removed` the names of those that went. A tool that reads `run=*/step=*/rank=*/*/TABLE.parquet`",
        "reads the same, except between a publication and the removal of what it replaced, which waits for readers.",
        "`lakeprobe compact RUN` moves the units of a step into `run=*/step=*/*/TABLE.parquet`, and `--by rank`",
        "those of a rank into `run=*/rank=*/*/TABLE.parquet` (scale.md).",
        "A lake of format 2, which has no log and no P, is read as it is, and gets a log with its first write.",
        "",
        "Every view begins with its partition columns, which are in the path, and in files of several units or pairs",
        f"beside the others. Each comparison is also a view of its own name, with the columns of `{RESULTS}` except",
        "`comparison`, unless its name differs only in case from that of another comparison, or of one of these:",
        "",
        "| View | One row is |",
        "|---|---|",
        *(f"| [{name}](#{name}) | {table(name).grain} |" for name in (*UNIT_TABLES, *MERGED_TABLES, *OTHER_TABLES)),
    ]
    for name in (*UNIT_TABLES, *MERGED_TABLES):
        lines += _table(table(name), UNIT_PARTITIONS)
    for name, partitions in OTHER_TABLES.items():
        lines += _table(table(name), partitions)
    return "\n".join(lines) + "\n"


def answers_page() -> str:
    """Return the page of answers, from comparisons that are made for it."""
    sys.path.insert(0, str(FOLDER))
    import answers

    return str(answers.page())


def tour_page() -> str:
    """Return what a terminal shows on a tour."""
    sys.path.insert(0, str(FOLDER))
    import tour

    return str(tour.page())


def rules_page() -> str:
    """Return the page of rules with new tables of thresholds, views and metrics."""
    text = _read(FOLDER / "rules.md") or ""
    for name, lines in (("thresholds", _thresholds()), ("views", _rule_views()), ("metrics", _metrics())):
        begin, end = f"<!-- {name}: made by docs/generate.py -->", "<!-- end -->"
        before, _, rest = text.partition(begin)
        text = "\n".join((before + begin, *lines, end)) + rest.partition(end)[2]
    return text


def _thresholds() -> Iterator[str]:
    """Yield the table of thresholds from sql/judge/thresholds.sql."""
    yield from ("| Threshold | Default | Between frameworks | Meaning |", "|---|---|---|---|")
    with connect() as connection:
        usual, between = (
            connection.execute(
                f"WITH comparison_kind AS (SELECT {differs} AS cross_framework) "
                f"SELECT name, value, meaning FROM ({resources.sql('judge/thresholds')})"
            ).fetchall()
            for differs in ("false", "true")
        )
    for (name, value, meaning), (_, other, _) in zip(usual, between, strict=True):
        changed = "" if other == value else f"{float(other):g}"
        yield f"| `{name}` | {float(value):g} | {changed} | {_cell(meaning)} |"


def _rule_views() -> Iterator[str]:
    yield from ("| View | Columns |", "|---|---|")
    for view, columns in CONTRACT.items():
        yield f"| `{view}` | {', '.join(f'`{column}`' for column in columns)} |"


def _metrics() -> Iterator[str]:
    yield from ("| Metric | Of | Formula | Meaning | Header in csv and xlsx |", "|---|---|---|---|---|")
    of = {"statistics": "recorded statistics, scalars", "tensor": "saved tensors"}
    for metric in metrics():
        header = metric.header or ("" if metric.kept else "not kept")
        yield f"| `{metric.name}` | {of[metric.of]} | {_cell(metric.formula)} | {_cell(metric.meaning)} | {header} |"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "lake.md": lake_page,
    "rules.md": rules_page,
    "answers.md": answers_page,
    "tour.md": tour_page,
    "results.schema.json": lambda: results_schema(),
}
"""The generated pages."""


def stale() -> list[str]:
    """Return the pages whose files differ from what would be written now."""
    return [name for name, page in PAGES.items() if _read(FOLDER / name) != page()]


def main(arguments: list[str]) -> int:
    """Write or check the pages. Returns the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    if arguments:
        old = stale()
        for name in old:
            print(f"docs/{name} is stale: run python docs/generate.py", file=sys.stderr)
        return 1 if old else 0
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
    return 0


# ---- commands ---------------------------------------------------------------------------------------------


def _command(name: str, function: Callable[..., Any]) -> list[str]:
    text, _, example = (inspect.getdoc(function) or "").partition(EXAMPLE)
    hints = get_type_hints(function, include_extras=True)
    arguments, options = [], []
    usage = [f"lakeprobe {name}", "[OPTIONS]"]
    for parameter_name, parameter in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[parameter_name])
        optional = parameter.default is not inspect.Parameter.empty
        if isinstance(info, ArgumentInfo):
            arguments.append(f"| `{parameter_name.upper()}` | {_cell(info.help)} |")
            usage.append(f"[{parameter_name.upper()}]" if optional else parameter_name.upper())
        elif not info.hidden:
            options.append(_option(parameter_name, kind, info, parameter.default))
    lines = ["", f"## {name}", "", text.strip(), "", "```", " ".join(usage), "```"]
    if example:
        lines += ["", "For example:", "", "```", example.strip(), "```"]
    if arguments:
        lines += ["", "| Argument | |", "|---|---|", *arguments]
    return [*lines, *(["", "| Option | | Default |", "|---|---|---|", *options] if options else [])]


def _option(name: str, kind: Any, info: OptionInfo, default: Any) -> str:
    # inside Annotated, typer keeps the first spelling where the default would be
    given = [part for part in (info.default, *(info.param_decls or ())) if isinstance(part, str)]
    spellings = sorted(given or [f"--{name.replace('_', '-')}"], key=len, reverse=True)
    choices = [member.value for part in (kind, *get_args(kind)) for member in _members(part)]
    value = "" if kind is bool else " " + ("\\|".join(choices) or (info.metavar or name.upper()).replace("|", "\\|"))
    if isinstance(info.show_default, str):
        shown = info.show_default
    elif default is inspect.Parameter.empty:
        shown = "required"
    else:
        shown = "" if default in (None, False) else f"`{default.value if isinstance(default, Enum) else default}`"
    if info.envvar:
        shown = f"`${info.envvar}`, else {shown}"
    text = ", ".join(f"`{spelling}{value}`" for spelling in spellings)
    return f"| {text} | {_cell(info.help)} | {shown} |"


def _members(kind: Any) -> Iterator[Enum]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from kind


def _member_docs(enum: type[Enum]) -> Iterator[str]:
    """Return the docstrings under the members of `enum` in its source."""
    lines = inspect.getsource(enum).split('"""')[3::2]
    return (" ".join(line.split()) for line in lines)


# ---- the schema of JSON -----------------------------------------------------------------------------------


_JSON_TYPES = {"VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "number", "INTEGER": "integer", "BIGINT": "integer"}


def results_schema() -> str:
    """Return the JSON Schema of the files that lakeprobe compare --format json writes."""
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    integers = ("version", "step", "rank", "golden_step", "golden_rank")
    head: dict[str, Any] = {name: {"type": "integer"} for name in integers}
    head["version"] = {"const": json_file.VERSION}
    head |= {"lakeprobe": {"type": "string"}, "compared": {"type": "string"}, "verdicts": counts}
    kinds = {"rows": "INTEGER", "different": "INTEGER", "error": "DOUBLE", "findings": "VARCHAR[]"}
    ops = {name: _property(kinds.get(name, "VARCHAR"), meaning) for name, meaning in json_file.OP_FIELDS.items()}
    rows = {column.name: _property(column.type, column.meaning) for column in table("results").columns}
    rows |= {name: _property(kind, meaning) for name, kind, meaning in RESULT_PARTITIONS}
    described = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A pair of units as lakeprobe compare --format json writes it, version {json_file.VERSION}",
        "type": "object",
        "properties": head | {"ops": _list_of(ops), "rows": _list_of(rows)},
        "required": [*head, "ops", "rows"],
    }
    return json.dumps(described, indent=1) + "\n"


def _list_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": list(properties)}}


def _property(kind: str, meaning: str) -> dict[str, Any]:
    if kind.endswith("[]"):
        return {"type": ["array", "null"], "items": {"type": _JSON_TYPES[kind[:-2]]}, "description": meaning}
    if kind == "DOUBLE":
        return {"anyOf": [{"type": ["number", "null"]}, {"enum": list(json_file.NOT_FINITE)}], "description": meaning}
    return {"type": [_JSON_TYPES[kind], "null"], "description": meaning}


# ---- tables -----------------------------------------------------------------------------------------------


def _table(described: Table, partitions: tuple[tuple[str, str, str], ...]) -> list[str]:
    return [
        "",
        f"## {described.name}",
        "",
        f"One row is {described.grain}.",
        "",
        "| Column | Type | Unit | Meaning |",
        "|---|---|---|---|",
        *(f"| `{name}` | {type_} | | {meaning} (partition) |" for name, type_, meaning in partitions),
        *(f"| `{c.name}` | {c.type} | {c.unit or ''} | {_cell(c.meaning)} |" for c in described.columns),
    ]


def _cell(text: str | None) -> str:
    """Escape `text` for a cell of a table."""
    return (text or "").replace("|", "\\|")


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

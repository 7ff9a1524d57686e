"""Defines the command line: its commands, and how errors become one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.blame import blame
from lakeprobe.commands.check import check
from lakeprobe.commands.comm import comm
from lakeprobe.commands.compact import compact
from lakeprobe.commands.compare import compare
from lakeprobe.commands.doctor import doctor
from lakeprobe.commands.drift import drift
from lakeprobe.commands.export import export
from lakeprobe.commands.first_diff import first_diff
from lakeprobe.commands.ingest import ingest
from lakeprobe.commands.layout import Command, Group
from lakeprobe.commands.ls import ls
from lakeprobe.commands.map import map_
from lakeprobe.commands.merge import merge
from lakeprobe.commands.merge_layout import merge_layout
from lakeprobe.commands.noise import noise
from lakeprobe.commands.note import note
from lakeprobe.commands.overflow import overflow
from lakeprobe.commands.perturb import perturb
from lakeprobe.commands.preflight import app as preflight
from lakeprobe.commands.publish import publish
from lakeprobe.commands.recover import recover
from lakeprobe.commands.rename import rename
from lakeprobe.commands.reproduce import reproduce
from lakeprobe.commands.rm import rm
from lakeprobe.commands.rules import app as rules
from lakeprobe.commands.run import run
from lakeprobe.commands.show import show
from lakeprobe.commands.signs import signs
from lakeprobe.commands.sql import sql
from lakeprobe.commands.unmatched import unmatched
from lakeprobe.commands.verify import verify
from lakeprobe.commands.view import view
from lakeprobe.commands.watch import watch
from lakeprobe.diagnostics import ExitCode, Volume, crash, fail, speak
from lakeprobe.errors import LakeprobeError
from lakeprobe.output import write_any_encoding
from lakeprobe.version import __version__

app = typer.Typer(
    name="lakeprobe",
    help="Read training dumps into a Parquet lake, and compare two runs in SQL.",
    cls=Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    ingest, compare, first_diff, blame, noise, verify, reproduce, perturb, overflow, comm, merge, merge_layout, drift,
    watch, signs, unmatched, map_, sql, ls, show, view, check, export, rm, rename, compact, note, publish, recover,
    doctor, run,
):  # fmt: skip
    app.command(command.__name__.strip("_").replace("_", "-"), cls=Command)(command)
app.add_typer(rules, name="rules")
app.add_typer(preflight, name="preflight")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from lakeprobe.commands import road

        road.show()


_FILE_OR_NOTHING = {
    "-am": "--api-mapping",
    "-cm": "--cell-mapping",
    "-lm": "--layer-mapping",
}


def completed(words: Sequence[str]) -> list[str]:
    """Return `words` with an empty value for each mapping option without a file, as msprobe allows.

    The next word is the option's file if it ends in .yaml or .yml; TARGET and GOLDEN, which may follow, do not.
    """
    complete: list[str] = []
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option = _FILE_OR_NOTHING.get(word) or (word if word in _FILE_OR_NOTHING.values() else None)
        has_file = Path(following).suffix in (".yaml", ".yml")
        complete.append(f"{option}=" if option and not has_file else word)
    return complete


def main() -> None:
    """Run the command line. Exits with a code of `lakeprobe.diagnostics.ExitCode`."""
    write_any_encoding()
    speak(Volume.USUAL)
    try:
        app(args=completed(sys.argv[1:]), prog_name="lakeprobe")
    except LakeprobeError as error:
        sys.exit(fail(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 the last resort: a bug must not exit with the code of findings
        sys.exit(crash(error))

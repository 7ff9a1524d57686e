"""Defines the command line: a command per file of `commands`, and how errors become one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.layout import Group
from lakeprobe.diagnostics import ExitCode, Volume, crash, fail, speak
from lakeprobe.errors import LakeError, LakeprobeError, UsageError
from lakeprobe.lake.interrupting import heeding_ctrl_c
from lakeprobe.output import document, prepare_streams
from lakeprobe.system.files import check_text, has_working_directory
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


def _show_version(wanted: bool) -> None:
    if wanted:
        document(__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from lakeprobe.commands import overview

        overview.show()


_FILE_OR_NOTHING = {
    "-am": "--api-mapping",
    "--api_mapping": "--api-mapping",
    "-cm": "--cell-mapping",
    "--cell_mapping": "--cell-mapping",
    "-lm": "--layer-mapping",
    "--layer_mapping": "--layer-mapping",
}


def completed(words: Sequence[str]) -> list[str]:
    """Return `words` with an empty value for each mapping option of compare without a file, as msprobe allows.

    The next word is the option's file if it ends in .yaml or .yml; TARGET and GOLDEN, which may follow, do not.
    """
    if words[:1] != ["compare"]:
        return list(words)
    complete: list[str] = []
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option = _FILE_OR_NOTHING.get(word) or (word if word in _FILE_OR_NOTHING.values() else None)
        has_file = Path(following).suffix in (".yaml", ".yml")
        complete.append(f"{option}=" if option and not has_file else word)
    return complete


_NOWHERE = UsageError(
    "the working directory was removed; change to another folder, or give every path from / on, that of --lake too"
)

_NO_MEMORY = LakeError(
    "there is not enough memory; end other programs, raise the limit (ulimit -v, or that of the container), or choose "
    "fewer units with --rank and --step"
)
_SIGNS_OF_NO_MEMORY = ("can't start new thread", "failed to map segment from shared object")
"""What Python says where there is no memory for the stack of a thread, and for the code of a library."""


def main() -> None:
    """Run the command line. Exits with a code of `lakeprobe.diagnostics.ExitCode`."""
    prepare_streams()
    speak(Volume.USUAL)
    try:
        with heeding_ctrl_c():
            for word in sys.argv[1:]:
                check_text(word)
            app(args=completed(sys.argv[1:]), prog_name="lakeprobe")
    except LakeprobeError as error:
        sys.exit(fail(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 the last resort: a bug must not exit with the code of findings
        lacking = _lacking(error)
        sys.exit(fail(lacking) if lacking else crash(error))


def _lacking(error: Exception) -> LakeprobeError | None:
    """Return the error for what the system lacks where any statement may meet it; None for a bug."""
    if isinstance(error, FileNotFoundError) and not has_working_directory():
        return _NOWHERE
    is_starved = isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS_OF_NO_MEMORY)
    return _NO_MEMORY if is_starved else None

"""The magics %lake and %%lake: SQL on a lake in a notebook cell. Load them with `%load_ext lakeprobe`.

%lake path/to/lake             opens a lake; without a path $LAKEPROBE_LAKE or ./lake
%%lake [--as FORM] [-o NAME]   runs the cell's SQL; FORM is relation (default), pandas, polars or arrow;
                               NAME is a variable that gets the result
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from lakeprobe.errors import LakeprobeError
from lakeprobe.lake import store
from lakeprobe.lake.connection import query_errors
from lakeprobe.reports import notebook
from lakeprobe.session import Lake

if TYPE_CHECKING:
    import duckdb

FORMS: dict[str, Callable[[duckdb.DuckDBPyRelation], Any]] = {
    "relation": lambda relation: relation,
    "pandas": lambda relation: relation.df(),
    "polars": lambda relation: relation.pl(),
    "arrow": lambda relation: relation.to_arrow_table(),
}
"""The forms of a cell's result."""


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%lake: {message}")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%lake: {error}") from None


def _path(line: str) -> str | None:
    """Return the path given to %lake. Raises UsageError for something else."""
    if line.startswith("-"):
        raise UsageError(__doc__)
    if (
        line.partition(" ")[0].lower() in ("select", "from", "with", "describe", "summarize", "show")
        and not Path(line).exists()
    ):
        raise UsageError(f"%lake opens a lake; to run SQL, begin a cell with %%lake: {line}")
    return line or None


def _parser() -> argparse.ArgumentParser:
    parser = _Arguments(prog="%%lake", add_help=False)
    parser.add_argument("--as", dest="form", choices=sorted(FORMS), default="relation")
    parser.add_argument("-o", "--output", dest="name")
    return parser


@magics_class
class LakeMagics(Magics):  # type: ignore[misc]
    """The open lake of a notebook, and the magics that use it."""

    lake: Lake | None = None

    @line_cell_magic  # type: ignore[untyped-decorator]
    def lake_magic(self, line: str, cell: str | None = None) -> Any:
        """Open a lake (one line), or run a cell's SQL on the open one."""
        try:
            if cell is None:
                return self._open(_path(line.strip()))
            with query_errors():
                return self._run(_parser().parse_args(_words(line)), cell)
        except LakeprobeError as error:
            raise UsageError(str(error)) from None

    def _open(self, path: str | None) -> Lake:
        opened = Lake(store.check(store.choose(path)))
        if self.lake is not None:
            self.lake.close()
        self.lake = opened
        return opened

    def complete(self, shell: Any, event: Any) -> list[str]:
        """Return the words that can follow behind %lake and %%lake: folders with a lake, and options of a cell."""
        if event.line.lstrip().startswith("%%"):
            return ["--as", "--output", *FORMS]
        return [str(path.parent) for path in sorted(Path().glob(f"*/{store.FILE}"))]

    def _run(self, arguments: argparse.Namespace, query: str) -> Any:
        lake = self.lake or self._open(None)
        relation = lake.sql(query)
        result = None if relation is None else FORMS[arguments.form](relation)
        if arguments.name:
            self.shell.user_ns[arguments.name] = result
            return None
        return result


def register(shell: Any) -> None:
    """Add the magics to an IPython shell, with completion of names, and show answers as texts."""
    magics = LakeMagics(shell)
    shell.register_magic_function(magics.lake_magic, "line_cell", "lake")
    shell.set_hook("complete_command", magics.complete, re_key=r"%{1,2}lake")
    notebook.register()

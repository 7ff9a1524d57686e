"""Files of a lake that are not what lakeprobe wrote: what is said about them, and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import hints
from lakeprobe.errors import LakeError

if TYPE_CHECKING:
    import duckdb

_REMEDIES = {
    "run": "read the dump again with --replace",
    "comparison": "compare again",
    "table": "read the table again with --replace",
    "noise": "measure the noise again",
    "verification": "verify again with --replace",
    "perturbation": "perturb again with --replace",
}
_KIND = re.compile(f"/({'|'.join(_REMEDIES)})=")
"""What a file of a lake belongs to: the first of the folders that say so."""
_QUOTED_FILE = re.compile(rf"""['"]([^'"]*{_KIND.pattern}[^'"]*\.parquet)['"]""")


class DamagedError(LakeError):
    """A file of the lake is damaged. The message says how to make it anew."""

    def __init__(self, path: object, problem: str = "") -> None:
        """Say so of the file `path`, and what the `problem` is if it is known."""
        super().__init__(f"{path} is damaged{problem and f' ({problem})'}; {remedy(path)}")


def remedy(path: object) -> str:
    """Return what to do about the damaged file `path` of a lake."""
    kind = _KIND.search(str(path))
    anew = f"{_REMEDIES[kind[1]]}, or " if kind and "/series/" not in str(path) else ""
    return f"{anew}take it out: {hints.command('check', '--repair')}"


def of_query(error: duckdb.Error) -> LakeError | None:
    """Return the error for a file of a lake that DuckDB cannot read. None if `error` is another.

    DuckDB finds most damage where it reads a file, and then names it. What it meets in the footer it raises as an error
    of no kind.
    """
    import duckdb

    reason = str(error).partition("\n")[0]
    named = _QUOTED_FILE.search(reason)
    if named and isinstance(error, duckdb.InvalidInputException):
        return DamagedError(Path(named[1]))
    if type(error) is duckdb.Error:
        return LakeError(f"a file of the lake may be damaged ({reason}); find out which: {hints.command('check')}")
    return None

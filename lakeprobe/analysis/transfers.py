"""Finds what ranks of a run send to each other: calls, arguments, the groups they name, and their meetings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.analysis.query import is_made, keep
from lakeprobe.resources import file_pattern, quote_text

if TYPE_CHECKING:
    import duckdb

_SIGNATURES = "collectives"
"""The CSV file with the positions of the arguments of each API."""

_OF_RUN = ("ways", "parts", "places")
_STAGES = ("ways", "samples", "parts", "arguments", "counts", "groups", "single", "batched", "places")
"""The stages after transfer_calls, and those of them that read the tables of the run."""


def keep_transfers(stages: duckdb.DuckDBPyConnection, run: str) -> None:
    """Create the temporary table transfers: a row per collective call, send and receive of `run`."""
    if is_made(stages, "transfers", run):
        return
    if not _keep_calls(stages, run):
        keep(stages, "transfers", "communication/no_transfers")
        return
    for stage in _STAGES:
        parameters = {"run": run} if stage in _OF_RUN else None
        keep(stages, f"transfer_{stage}", f"communication/transfer_{stage}", parameters)
    keep(stages, "transfers", "communication/transfers")


def keep_compared_transfers(stages: duckdb.DuckDBPyConnection, target: str, golden: str) -> None:
    """Create the temporary tables transfers, of `target`, and compared_transfers, which considers `golden` as well."""
    keep_transfers(stages, target)
    if not is_made(stages, "compared_transfers", (target, golden)):
        keep(stages, "compared_transfers", "communication/compared_transfers", {"golden": golden})


def _keep_calls(stages: duckdb.DuckDBPyConnection, run: str) -> bool:
    """Create transfer_calls, and the table that it reads. Returns whether it has any."""
    source = f"read_csv({quote_text(file_pattern(resources.data(_SIGNATURES)))}, header = true, all_varchar = true)"
    signatures = f"SELECT * REPLACE (is_function::INTEGER AS is_function) FROM {source}"
    stages.execute(f"CREATE OR REPLACE TEMP TABLE transfer_signatures AS {signatures}")
    keep(stages, "transfer_calls", "communication/transfer_calls", {"run": run})
    return bool(stages.table("transfer_calls").limit(1).fetchall())

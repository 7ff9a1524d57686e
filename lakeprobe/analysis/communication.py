"""Finds which ranks communicated in a run, and checks the results of collectives against their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from lakeprobe.analysis.query import answer, check_steps, define_view, keep, keep_leaf_errors, stage_connection
from lakeprobe.analysis.transfers import keep_compared_transfers, keep_transfers

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.lake.comparison import StoredComparison
    from lakeprobe.tensors.reference import TensorReference

_LAWS = (
    "law_reduction", "law_concatenation", "law_shards", "law_broadcast", "law_scatter", "law_exchange",
    "law_delivery",
)  # fmt: skip
"""The laws that say what each result is made of."""
_KEYS = ("step", "meeting", "law", "part", "rank", "seq", "slot")
_BATCH = 1000
"""Results per batch: describing what a result is made of takes far more memory than the answer."""


class Communication(Struct, frozen=True):
    """The communication between the ranks of a run.

    `broken` are the results that break a law, in the order of the ops. `verdicts` counts by law the results for which
    it holds, breaks or cannot be checked, and why; `laws` lists them all, or is None if they were not asked for.
    `changed` are the meetings that carry a difference from golden; None without a comparison.
    """

    summary: duckdb.DuckDBPyRelation
    verdicts: duckdb.DuckDBPyRelation
    broken: duckdb.DuckDBPyRelation
    laws: duckdb.DuckDBPyRelation | None
    changed: duckdb.DuckDBPyRelation | None


def transfers(connection: duckdb.DuckDBPyConnection, run: str) -> duckdb.DuckDBPyRelation:
    """Return every collective call, send and receive of `run`, with its group, partners and tensors."""
    with stage_connection(connection) as stages:
        keep_transfers(stages, run)
        return answer(connection, stages, "communication/transfers_in_order")


def communication(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    comparison: StoredComparison | None = None,
    steps: Sequence[int] = (),
    laws: bool = True,
) -> Communication:
    """Check the collectives, sends and receives of `run` (of `steps`, or all) against the laws of their kinds.

    `comparison` has `run` as its target, and says which meetings carry a difference. Without `laws` results for
    which a law holds are counted, not listed. Tensors are read if their contents were dumped; otherwise digests or
    statistics show what they can (law_*.sql in sql/analysis/communication say what). A tensor that cannot be read is a
    reason, not an error. Raises UsageError for a step that the run lacks.
    """
    with stage_connection(connection, steps, steps) as stages:
        check_steps(stages, run, steps)
        keep_transfers(stages, run)
        _keep_laws(stages, run)
        changed = None if comparison is None else _changed(connection, stages, comparison)
        return Communication(
            summary=answer(connection, stages, "communication/summary"),
            verdicts=answer(connection, stages, "communication/verdicts"),
            broken=answer(connection, stages, "communication/broken"),
            laws=answer(connection, stages, "communication/laws_in_order") if laws else None,
            changed=changed,
        )


def changed_meetings(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison) -> duckdb.DuckDBPyRelation:
    """Return the meetings of the target that carry a difference of `comparison`. No law is checked."""
    with stage_connection(connection) as stages:
        return _changed(connection, stages, comparison)


def _changed(
    connection: duckdb.DuckDBPyConnection, stages: duckdb.DuckDBPyConnection, comparison: StoredComparison
) -> duckdb.DuckDBPyRelation:
    keep_compared_transfers(stages, comparison.target, comparison.golden)
    keep_leaf_errors(stages, comparison.name)
    return answer(connection, stages, "communication/meetings_changed")


def _keep_laws(stages: duckdb.DuckDBPyConnection, run: str) -> None:
    """Create the table laws, and all that it reads."""
    keep(stages, "tensors_moved", "communication/tensors_moved", {"run": run})
    for stage in ("meetings", "shares", "contributors", "law_same_results"):
        keep(stages, stage, f"communication/{stage}")
    for law in _LAWS:
        define_view(stages, law, f"communication/{law}")
    for stage in ("expected", "takings", "parts", "statistics"):
        keep(stages, stage, f"communication/{stage}")
    _measure(stages, run)
    keep(stages, "law_same_arguments", "communication/law_same_arguments")
    keep(stages, "law_order", "communication/law_order", {"run": run})
    keep(stages, "laws", "communication/laws")


def _measure(stages: duckdb.DuckDBPyConnection, run: str) -> None:
    """Create the table readings_measured: what numpy measures of results whose contents were dumped."""
    import pyarrow as pa

    from lakeprobe.tensors.reference import TensorReference

    keep(stages, "places", "communication/places", {"run": run})
    keep(stages, "readings", "communication/readings")
    found = stages.sql("SELECT number, reference FROM places").fetchall()
    places = {number: TensorReference.of(reference) for number, reference in found}
    measured: dict[str, dict[str, Any]] = {}
    rows = []
    for batch in stages.table("readings").to_arrow_table().to_batches(_BATCH):
        for row in batch.to_pylist():
            what = repr((row["results"], row["pieces"], row["reduction"], row["epsilon"]))
            if what not in measured:
                measured[what] = _measured(row, places)
            rows.append({name: row[name] for name in _KEYS} | measured[what])
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in ("step", "meeting", "part", "rank", "seq")),
            *((name, pa.string()) for name in ("law", "slot", "expected", "found", "problem")),
            ("error", pa.float64()),
            ("is_broken", pa.bool_()),
        ]
    )
    stages.register("readings_found", pa.Table.from_pylist(rows, schema))
    stages.execute("CREATE OR REPLACE TEMP TABLE readings_measured AS FROM readings_found")
    stages.unregister("readings_found")


def _measured(row: dict[str, Any], places: dict[int, TensorReference]) -> dict[str, Any]:
    """Return how a result agrees with its expected value, as columns, or the problem that prevents the check."""
    from lakeprobe.errors import TensorError
    from lakeprobe.tensors.collectives import Piece, agreement

    layers: dict[int, list[Piece]] = {}
    try:
        for piece in row["pieces"]:
            whole = places[piece["place"]]
            layers.setdefault(piece["layer"], []).append(Piece.of(whole, piece["first"], piece["elements"]))
        results = [places[number] for number in row["results"]]
        return asdict(agreement(results, list(layers.values()), row["reduction"], row["epsilon"])) | {"problem": None}
    except TensorError as error:
        return {"problem": str(error)}

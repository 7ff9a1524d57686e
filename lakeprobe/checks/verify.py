"""Runs the ops of a run again and keeps what came out in the lake as a verification.

Each call is run once, whatever the number of calls that are equal to it. What is known is published from time to time,
so that a verification which was interrupted goes on where it was.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from lakeprobe import resources
from lakeprobe.checks import LIMIT, SEED, check_seed, pool, standards, stored
from lakeprobe.checks.calls import Answer, Call, Leaf, Outcome, Setup
from lakeprobe.compare.limits import check_seconds
from lakeprobe.errors import UsageError
from lakeprobe.lake import layout, outputs, views
from lakeprobe.lake.comparison import load as load_comparison
from lakeprobe.lake.connection import quiet
from lakeprobe.lake.interrupting import interruptible
from lakeprobe.schema import arrow_schema
from lakeprobe.tensors import TensorReference
from lakeprobe.tensors.measures import Measures
from lakeprobe.work import Progress

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_AT_ONCE = 500
_PUBLISH_EVERY = 60.0
"""Seconds after which what is known is put in the lake while the rest runs."""
_FRAMEWORKS = ("pytorch", "mindspore")
_MEASURES = Measures.__struct_fields__


class Chosen(Struct, frozen=True):
    """Which calls of a run to take. Names are an op's, its API's, or patterns with * and ?; empty for all.

    `of` is a comparison whose target is the run: then only the `most` ops that differ most.
    """

    ops: Sequence[str] = ()
    skip: Sequence[str] = ()
    modules: Sequence[str] = ()
    steps: Sequence[int] = ()
    ranks: Sequence[int] = ()
    of: str | None = None
    most: int = 20


class VerifyReport(Struct, frozen=True):
    """What a verification did: how many calls it has, how many of them were distinct, known before, and run now."""

    name: str
    lake: Path
    calls: int
    distinct: int
    known: int
    seconds: float
    statuses: Mapping[str, int] = field(default_factory=dict)
    """How many results have each status."""


def verify(
    run: str,
    ops: Sequence[str] = (),
    *,
    lake: str | os.PathLike[str] | None = None,
    name: str | None = None,
    device: str = "cpu",
    standard: str = "rounding",
    random: bool = False,
    seed: int = SEED,
    skip: Sequence[str] = (),
    modules: Sequence[str] = (),
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    of: str | None = None,
    most: int = 20,
    imports: Sequence[str] = (),
    limit: float = LIMIT,
    replace: bool = False,
    save_errors: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> VerifyReport:
    """Run the ops of `run` again on `device`, measure them against a reference, and keep the result as `name`.

    Inputs are what was dumped, or random values with the recorded statistics where contents are missing or `random`
    asks for them (`seed`). `ops`, `skip`, `modules`, `steps`, `ranks`, `of` and `most` choose calls (`Chosen`).
    `standard` is one of `standards.STANDARDS`. `imports` are modules that workers import before, such as one that
    registers ops. An op that runs longer than `limit` seconds is given up. Without `replace`, calls that the
    verification has already are not run again. `save_errors` is a folder for inputs and results of failures.

    Raises UsageError and LakeError; whatever an op does is a row.
    """
    start = time.monotonic()
    standards.check_standard(standard)
    check_seconds("limit", limit)
    check_seed(seed)
    if save_errors is not None:
        outputs.check_folder(Path(save_errors))
    name = run if name is None else name
    chosen = Chosen(ops, skip, modules, steps, ranks, of, most)
    with stored.opened(lake, "verification", name) as (path, connection):
        standards.prepare(connection)
        rows, calls, framework = select(connection, path, run, chosen, random=random)
        setup = Setup(framework, device, seed, list(imports))
        known = {} if replace else _known(path, name, run, device)
        work = _Work(connection, path, name, rows, known, calls, device, standard)
        missing = [call for key, call in calls.items() if key not in known]
        try:
            pool.run_all(missing, setup, jobs=jobs, limit=limit, progress=progress, taken=work.take)
        finally:
            judged = work.publish()
        if save_errors is not None:
            _save_errors(judged, calls, setup, Path(save_errors), limit)
    statuses = Counter(judged["status"].to_pylist())
    return VerifyReport(
        name, path, len(rows), len(calls), len(calls) - len(missing), time.monotonic() - start, statuses
    )


# ---- calls ------------------------------------------------------------------------------------------------


def select(
    connection: duckdb.DuckDBPyConnection, lake: Path, run: str, chosen: Chosen, *, random: bool = False
) -> tuple[list[dict[str, Any]], dict[str, Call], str]:
    """The rows of all chosen calls, those that need to run by key, and the run's framework. Raises UsageError."""
    units = layout.units(lake, run)
    if not units:
        raise layout.unknown_run(lake, run)
    framework = _framework(connection, run)
    worst = _worst(connection, lake, run, chosen)
    rows: list[dict[str, Any]] = []
    calls: dict[str, Call] = {}
    ran: dict[str, str] = {}
    for unit in units:
        if (chosen.steps and unit.step not in chosen.steps) or (chosen.ranks and unit.rank not in chosen.ranks):
            continue
        for row in _calls_of(connection, unit.run, unit.step, unit.rank):
            if not _is_chosen(row, chosen) or (worst is not None and not _is_worst(row, unit, worst)):
                continue
            key = row["key"] = f"{row['key']}{'-random' * random}"
            if key not in calls:
                calls[key] = _call(row, random)
                ran[key] = row["op"]
            rows.append({
                "run": unit.run, "step": unit.step, "rank": unit.rank, "seq": row["seq"], "op": row["op"],
                "backward_op": row["backward_op"], "api": row["api"], "key": key, "ran": ran[key],
            })  # fmt: skip
    if not rows:
        raise UsageError(
            f"{run} has none of the API calls asked for; search its ops: lakeprobe show PART_OF_A_NAME --run {run}"
        )
    return rows, calls, framework


def _framework(connection: duckdb.DuckDBPyConnection, run: str) -> str:
    found = connection.execute("SELECT DISTINCT lower(framework) FROM dumps WHERE run = ?", [run]).fetchall()
    names = {name for (name,) in found if name}
    framework = next((name for name in _FRAMEWORKS if any(name in other for other in names)), None)
    if framework is None:
        raise UsageError(f"run {run} is of {', '.join(names) or 'an unknown framework'}; its ops cannot be run")
    return framework


def _calls_of(connection: duckdb.DuckDBPyConnection, run: str, step: int, rank: int) -> Iterator[dict[str, Any]]:
    with interruptible(quiet(connection.cursor())) as cursor:
        views.share(connection, cursor)
        found = cursor.execute(resources.sql("checks/calls"), {"run": run, "step": step, "rank": rank})
        names = [column[0] for column in found.description or ()]
        while rows := found.fetchmany(_AT_ONCE):
            for row in rows:
                yield dict(zip(names, row, strict=True))


def _is_chosen(row: Mapping[str, Any], chosen: Chosen) -> bool:
    names = (row["op"], row["op"].removesuffix(".forward"), row["backward_op"], row["api"])

    def is_named(patterns: Sequence[str]) -> bool:
        return any(name is not None and fnmatchcase(name, pattern) for pattern in patterns for name in names)

    in_module = not chosen.modules or any(module in (row["parent"] or "") for module in chosen.modules)
    return (not chosen.ops or is_named(chosen.ops)) and not is_named(chosen.skip) and in_module


def _worst(
    connection: duckdb.DuckDBPyConnection, lake: Path, run: str, chosen: Chosen
) -> set[tuple[int, int, int]] | None:
    """The ops (step, rank, place) of the worst results of a comparison; None if none is asked for."""
    if chosen.of is None:
        return None
    stored_comparison = load_comparison(lake, chosen.of)
    if stored_comparison.target != run:
        raise UsageError(f"the comparison {chosen.of} is of the target {stored_comparison.target}, not of {run}")
    found = connection.execute(resources.sql("checks/worst"), {"comparison": chosen.of, "most": chosen.most})
    return {(step, rank, seq) for step, rank, seq in found.fetchall()}


def _is_worst(row: Mapping[str, Any], unit: layout.UnitKey, worst: set[tuple[int, int, int]]) -> bool:
    places = (row["seq"], row["backward_seq"])
    return any((unit.step, unit.rank, place) in worst for place in places if place is not None)


def _call(row: Mapping[str, Any], random: bool) -> Call:
    forward, backward = (
        [
            _leaf(leaf, place, random)
            for leaf, place in zip(row[f"{direction}_leaves"], row[f"{direction}_places"], strict=True)
        ]
        for direction in ("forward", "backward")
    )
    return Call(
        row["key"], row["api_type"] or "", row["api"] or "", forward, backward, row["empties"], row["attributes"]
    )  # fmt: skip


def _leaf(leaf: Mapping[str, Any], place: Mapping[str, Any] | None, random: bool) -> Leaf:
    found = Leaf(**leaf, reference=None if place is None else TensorReference.of(place))
    return replace(found, reference=None, content=None, content_problem=None) if random else found


# ---- results ----------------------------------------------------------------------------------------------


def _known(lake: Path, name: str, run: str, device: str) -> dict[str, list[dict[str, Any]]]:
    """What a verification of this name has already, by key. Raises UsageError if it is of something else."""
    rows = stored.read(lake, name)
    if rows is None:
        return {}
    described, wanted = stored.described(rows), {"run": run, "device": device}
    if described and described != wanted:
        of = ", ".join(f"{what} {described[what]}" for what in wanted)
        raise UsageError(f"the verification {name} is of {of}; use another --name, or --replace")
    known: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, tuple[Any, ...]] = {}
    for row in rows.to_pylist():
        call = row["step"], row["rank"], row["seq"]
        if seen.setdefault(row["key"], call) == call:  # others are equal to it
            known.setdefault(row["key"], []).append(row)
    return known


class _Work:
    """What is known of the calls so far, and how it comes into the lake."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, lake: Path, name: str, rows: list[dict[str, Any]],
        known: dict[str, list[dict[str, Any]]], calls: Mapping[str, Call], device: str, standard: str,
    ) -> None:  # fmt: skip
        import pyarrow as pa

        self._connection, self._lake, self._name, self._standard = connection, lake, name, standard
        self._answered, self._distinct, self._device = dict(known), calls, device
        self._calls = pa.Table.from_pylist(rows)
        self._published = time.monotonic()

    def take(self, answer: Answer) -> None:
        """Keep an answer; now and then everything known goes into the lake."""
        tensors = [leaf for leaf in self._distinct[answer.key].of("input") if leaf.kind == "tensor"]
        inputs = "random" if any(leaf.reference is None for leaf in tensors) else "contents"
        shared = {"device": self._device, "inputs": inputs, "seconds": answer.seconds}
        self._answered[answer.key] = [
            _row(outcome) | shared for outcome in answer.outcomes or [Outcome(problem=answer.problem)]
        ]
        if time.monotonic() - self._published > _PUBLISH_EVERY:
            self.publish()
            self._published = time.monotonic()

    def publish(self) -> pa.Table:
        """Judge what is known, and put it in the lake."""
        import pyarrow as pa

        wanted = set(self._calls["key"].to_pylist())
        rows = [
            {"key": key, "number": number} | row
            for key, found in self._answered.items() if key in wanted
            for number, row in enumerate(found)
        ]  # fmt: skip
        answered = pa.Table.from_pylist(rows, schema=_answer_schema())
        for table, content in (("calls", self._calls), ("answered", answered)):
            self._connection.register(table, content)
        measured = self._connection.sql(resources.sql("checks/verifications")).to_arrow_table()
        judged = standards.judge(self._connection, measured, self._standard)
        if len(judged):
            stored.publish(self._lake, views.VERIFICATIONS, layout.verification_name(self._name), judged)
        return judged


def _row(outcome: Outcome) -> dict[str, Any]:
    row = asdict(outcome)
    measures: Measures = row.pop("measures")
    return row | asdict(measures)


def _answer_schema() -> pa.Schema:
    import pyarrow as pa

    names = {*Outcome.__struct_fields__, *_MEASURES, "device", "inputs", "seconds", "key"}
    schema = [column for column in arrow_schema("verifications") if column.name in names]
    return pa.schema([*schema, ("number", pa.int64())])


def _save_errors(judged: pa.Table, calls: Mapping[str, Call], setup: Setup, folder: Path, limit: float) -> None:
    """Run the calls that failed once more, in a worker that keeps inputs and results as .npy files."""
    outputs.folder(folder)
    failed = {row["key"] for row in judged.select(["key", "status"]).to_pylist() if row["status"] == "error"}
    wanted = [call for key, call in calls.items() if key in failed]
    saving = replace(setup, save=str(folder.absolute()))
    pool.run_all(wanted, saving, jobs=1, limit=limit, taken=lambda _: None)

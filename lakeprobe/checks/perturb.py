"""Runs ops with changed inputs and compares the results: which are unstable, and which do not repeat themselves.

msprobe's free benchmark, on what is in the lake instead of in the training. Changes and tolerances are those of its
definitions (docs/ops.md).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict

from lakeprobe import resources
from lakeprobe.changes import MODES, USUAL_MODES
from lakeprobe.checks import LIMIT, SEED, check_seed, pool, stored
from lakeprobe.checks.calls import Answer, Perturbed, Setup
from lakeprobe.checks.verify import Chosen, select
from lakeprobe.compare.limits import check_seconds
from lakeprobe.errors import UsageError
from lakeprobe.lake import layout, views
from lakeprobe.schema import arrow_schema
from lakeprobe.work import Progress

if TYPE_CHECKING:
    import pyarrow as pa


class PerturbReport(Struct, frozen=True):
    """What a perturbation did: calls, those that differ, seconds, and how many results have each status."""

    name: str
    lake: Path
    calls: int
    distinct: int
    seconds: float
    statuses: Mapping[str, int] = field(default_factory=dict)


def perturb(
    run: str,
    ops: Sequence[str] = (),
    *,
    lake: str | os.PathLike[str] | None = None,
    name: str | None = None,
    modes: Sequence[str] = USUAL_MODES,
    device: str = "cpu",
    random: bool = False,
    seed: int = SEED,
    skip: Sequence[str] = (),
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    of: str | None = None,
    most: int = 20,
    imports: Sequence[str] = (),
    limit: float = LIMIT,
    jobs: int = 1,
    progress: Progress | None = None,
) -> PerturbReport:
    """Run the ops of `run` on `device` with inputs changed in each of `modes`, and keep what that did as `name`.

    Options are those of `lakeprobe.checks.verify.verify`. A perturbation of that name is replaced. Raises UsageError
    and LakeError; whatever an op does is a row.
    """
    start = time.monotonic()
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or not modes:
        raise UsageError(f"there is no mode {', '.join(unknown) or 'at all'}; use some of {', '.join(MODES)}")
    check_seconds("limit", limit)
    check_seed(seed)
    name = run if name is None else name
    chosen = Chosen(ops, skip, (), steps, ranks, of, most)
    answers: list[Answer] = []
    with stored.opened(lake, "perturbation", name) as (path, connection):
        rows, calls, framework = select(connection, path, run, chosen, random=random)
        setup = Setup(framework, device, seed, list(imports), modes=list(modes))
        pool.run_all(list(calls.values()), setup, jobs=jobs, limit=limit, progress=progress, taken=answers.append)
        import pyarrow as pa

        connection.register("calls", pa.Table.from_pylist(rows))
        connection.register("answered", _answered(answers))
        found = connection.sql(resources.sql("checks/perturbations"), params={"device": device}).to_arrow_table()
        stored.publish(path, views.PERTURBATIONS, layout.perturbation_name(name), found)
    statuses = Counter(found["status"].to_pylist())
    return PerturbReport(name, path, len(rows), len(calls), time.monotonic() - start, statuses)


def _answered(answers: Sequence[Answer]) -> pa.Table:
    import pyarrow as pa

    rows = [
        asdict(perturbed) | {"key": answer.key, "number": number}
        for answer in answers
        for number, perturbed in enumerate(answer.perturbed or [Perturbed(problem=answer.problem or "no result")])
    ]
    names = set(Perturbed.__struct_fields__)
    columns = [column for column in arrow_schema("perturbations") if column.name in names]
    return pa.Table.from_pylist(rows, schema=pa.schema([*columns, ("key", pa.string()), ("number", pa.int64())]))

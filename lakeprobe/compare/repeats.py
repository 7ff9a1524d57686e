"""Measures how repeats of a golden run differ from it, and stores that in the lake as a noise.

A repeat runs golden's program again with different rounding: on another chip, with another number of threads, or with
parameters perturbed by one rounding (`lakeprobe.collect(…, perturb=1e-7)`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.compare.run import CompareReport, compare
from lakeprobe.errors import LakeError, UsageError, unknown
from lakeprobe.lake import layout, staging, store, views
from lakeprobe.lake.connection import connect
from lakeprobe.resources import quote_text
from lakeprobe.system import files
from lakeprobe.work import Progress


class NoiseReport(Struct, frozen=True):
    """What was measured: the name, the golden run, one comparison per repeat, and the number of tensors."""

    name: str
    golden: str
    comparisons: tuple[str, ...]
    tensors: int


def measure(
    golden: str | os.PathLike[str],
    repeats: Sequence[str | os.PathLike[str]],
    *,
    lake: str | os.PathLike[str] | None = None,
    name: str | None = None,
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    jobs: int = 1,
    progress: Progress | None = None,
) -> NoiseReport:
    """Compare every repeat with `golden`, and store the differences under `name` (by default golden's name).

    The sides are those of `compare.run.compare`; each comparison stays in the lake as NAME_REPEAT. A noise of that name
    is replaced. Raises UsageError, DumpError, RuleError and LakeError.
    """
    if not repeats:
        raise UsageError("name at least one repeat of the golden run")
    path = store.choose(lake)
    if not store.is_writable(path):
        raise UsageError(f"{path} is read-only, and a noise is kept with its golden run; read that into another lake")
    reports: list[CompareReport] = []
    for repeat in repeats:
        label = (
            None if name is None else layout.check_name(f"{name}_{layout.name_after(Path(repeat).name)}", "comparison")
        )
        report = compare(
            repeat, golden, lake=lake, name=label, steps=steps, ranks=ranks, replace=False, jobs=jobs, progress=progress
        )
        if any(pair.target == pair.golden for pair in report.pairs):
            raise UsageError(
                f"{repeat} is the golden run itself, which shows no noise; name another run of its program"
            )
        reports.append(report)
    run = reports[0].pairs[0].golden.run
    name = layout.check_name(run if name is None else name, "noise")
    tensors = _keep(path, name, run, reports)
    return NoiseReport(name, run, tuple(report.name for report in reports), tensors)


def _keep(lake: Path, name: str, golden: str, reports: list[CompareReport]) -> int:
    units: list[dict[str, Any]] = [
        {
            "comparison": report.name,
            "step": pair.target.step,
            "rank": pair.target.rank,
            "golden_step": pair.golden.step,
            "golden_rank": pair.golden.rank,
        }
        for report in reports
        for pair in report.pairs
    ]
    try:
        with staging.locked(lake, f"noise={name}"), staging.staged(lake, "noise") as session, \
                staging.reading(lake) as snapshot, connect() as connection:  # fmt: skip
            views.define(connection, snapshot)
            folder = session.folder / "noise"
            folder.mkdir()
            measured = connection.sql(resources.sql("noise/measure"), params={"golden": golden, "units": units})
            table = measured.to_arrow_table()
            connection.register("measured", table)
            connection.execute(f"COPY measured TO {quote_text(str(folder / layout.NOISE_FILE))} (FORMAT parquet)")
            files.sync_tree(folder)
            staging.publish(session, f"measure the noise {name}", {layout.noise_name(name): folder})
    except OSError as error:
        raise LakeError.from_system(error, lake, "no noise was written") from error
    return int(table.num_rows)


def check(lake: Path, name: str, golden: str) -> Path:
    """Return the file of the noise `name` of the run `golden`. Raises UsageError if the lake has none."""
    file = layout.noise_file(lake, name)
    if file is None:
        raise unknown(lake, "noise", name, layout.noises(lake), f"measure it: lakeprobe noise {golden} …")
    with connect() as connection:
        views.define(connection, lake)
        measured = connection.execute("SELECT any_value(golden) FROM noise WHERE noise = ?", [name]).fetchall()[0][0]
    if measured not in (golden, None):
        raise UsageError(f"the noise {name} was measured for {measured}, not for {golden}")
    return file

"""Merge and compare runs of cuts that are in a lake, and say what was found. The parts of the benchmarks share it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lakeprobe


def missing(folder: Path, cases: Sequence[str]) -> list[str]:
    """Which of `cases` are not in the lake of `folder` yet."""
    with lakeprobe.open(folder / "lake", create=True) as lake:
        return [case for case in dict.fromkeys(cases) if case not in lake.runs]


def ask(
    folder: Path, cases: Sequence[str], golden_of: Callable[[str], str], causes: Callable[[str], Mapping[str, str]]
) -> None:
    """Print a line per case, then how many clean cuts have no finding and how many causes are the first suspect.

    A case is CUT or CUT+DEFECT. `causes` gives the patterns of a case's defects, one of which the op or the module of
    the first suspect has to fit.
    """
    clean, named, total = 0, 0, 0
    with lakeprobe.open(folder / "lake") as lake:
        for case in cases:
            result = lake.compare(case, golden_of(case), cuts="auto", replace=True)
            found = result.blame().suspects.select("op, module, grade, why").fetchall()
            suspects = [row for row in found if row[2] == "suspect"]
            first = f"{suspects[0][0]} in {suspects[0][1]}: {suspects[0][3]}" if suspects else "no finding"
            rows = result.summary().coverage.rows
            share = rows["compared"] / sum(rows.values())
            defect = case.partition("+")[2]
            if not defect:
                clean += not suspects and share >= 0.98
                print(f"{case}: {share:.2%} of the rows compared, {first}", flush=True)
                continue
            pattern = causes(case)[defect]
            is_named = bool(suspects) and bool(re.search(pattern, f"{suspects[0][0]}\n{suspects[0][1]}", re.M))
            total, named = total + 1, named + is_named
            print(f"{case}: {'named' if is_named else 'MISSED'}: {first}", flush=True)
    print(
        f"clean cuts without finding: {clean} of {sum('+' not in case for case in cases)}; causes: {named} of {total}"
    )

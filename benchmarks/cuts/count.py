"""Merge and compare what `train.py` collected, and count how often the planted cause is named first.

    python -m benchmarks.cuts.count FOLDER [CASE ...]

Prints a line per case, and at the end how many clean cuts have no finding and how many causes were named.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lakeprobe
from benchmarks.cuts.defects import DEFECTS
from benchmarks.cuts.model import AXES, CUTS, Cut
from benchmarks.cuts.train import cut_of

CLEAN = tuple(name for name, cut in CUTS.items() if cut.ranks > 1)
"""The cuts that are tried without a defect."""


def cases() -> list[str]:
    """All cases: the golden runs, each cut without a defect, each defect in its cuts."""
    return [*CUTS, *(f"{cut}+{name}" for name, defect in DEFECTS.items() for cut in defect.cuts)]


def golden_of(case: str) -> str:
    """The golden run of a case."""
    return "moe" if CUTS[cut_of(case)].experts else "single"


def ranks_at(cut: Cut, axis: str, coordinate: int) -> set[int]:
    """The ranks at a coordinate of an axis."""
    found = set()
    for rank in range(cut.ranks):
        rest, place = rank, {}
        for name in reversed(AXES):
            rest, place[name] = divmod(rest, getattr(cut, name))
        if place[axis] == coordinate:
            found.add(rank)
    return found


def main(arguments: list[str]) -> int:
    """Count; 0 always."""
    folder, *wanted = arguments
    clean, named, total, ranked = [], 0, 0, 0
    with lakeprobe.open(Path(folder) / "lake") as lake:
        for case in wanted or [case for case in cases() if CUTS[cut_of(case)].ranks > 1]:
            if case not in lake.runs:
                continue
            result = lake.compare(case, golden_of(case), cuts="auto", replace=True)
            found = result.blame().suspects.select("op, module, grade, why").fetchall()
            suspects = [row for row in found if row[2] == "suspect"]
            rows = result.summary().coverage.rows
            share = rows["compared"] / sum(rows.values())
            name = case.partition("+")[2]
            if not name:
                clean.append(not suspects and share >= 0.98)
                print(
                    f"{case}: {'no finding' if not suspects else suspects[0]}, {share:.2%} of the rows compared",
                    flush=True,
                )
                continue
            defect = DEFECTS[name]
            is_named = bool(suspects) and defect.is_named(suspects[0][0], suspects[0][1])
            shards = result.shards(suspects[0][0]) if suspects else None
            ranks = set(shards.ranks) if shards else set()
            wanted_ranks = ranks_at(CUTS[cut_of(case)], *defect.at) if defect.at else None
            is_ranked = is_named and (wanted_ranks is None or (bool(ranks) and ranks <= wanted_ranks))
            total, named, ranked = total + 1, named + is_named, ranked + is_ranked
            mark = "named, rank too" if is_ranked else "named" if is_named else "MISSED"
            print(
                f"{case}: {mark}: {suspects[0][:2] + suspects[0][3:] if suspects else None} ranks {sorted(ranks)}",
                flush=True,
            )
    print(f"clean cuts without finding: {sum(clean)} of {len(clean)}; causes: {named} of {total}, with rank {ranked}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How often a planted defect is named first: python -m benchmarks.truth.pairs.evaluate LAKE PAIR [--noise] [-v].

LAKE has the runs a, b and a_DEFECT, b_DEFECT of a pair (benchmarks/truth/pairs/collect.py), and an, bn, an_DEFECT and
bn_DEFECT with noise (PyTorch). Every defect is planted on either side, and held against the other side without it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

import lakeprobe
from benchmarks.truth.pairs.collect import PAIRS


def defects(module: str) -> dict[str, str]:
    """What can be planted in a side, with the pattern of what counts as its cause; the framework is not imported."""
    import ast
    from pathlib import Path

    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    return next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DEFECTS"
    )


def named(lake: Any, target: str, golden: str) -> dict[str, str | None]:
    """The op that each answer names first, with its module; None where it names none."""
    result = lake.compare(target, golden)
    first = result.summary().beyond_noise
    ranks = result.first_difference().ranks
    rows = [dict(zip(ranks.columns, row, strict=True)) for row in ranks.fetchall()]
    suspects = result.blame().suspects
    causes = [dict(zip(suspects.columns, row, strict=True)) for row in suspects.fetchall()]
    return {
        "compare": f"{first[0].op} {first[0].module}" if first else None,
        "first-diff": f"{rows[0]['op']} {rows[0].get('module')}" if rows and rows[0]["op"] else None,
        "blame": f"{causes[0]['op']} {causes[0].get('module')}" if causes else None,
    }


def main() -> None:
    """Print the counts, and with -v each answer that is wrong."""
    path, pair = sys.argv[1:3]
    noise = "n" if "--noise" in sys.argv else ""
    right: Counter[str] = Counter()
    planted = 0
    with lakeprobe.open(path, create=True) as lake:
        for side, golden in (("a", "b"), ("b", "a")):
            if noise and PAIRS[pair]["ab".index(side)].endswith("_mindspore"):
                continue
            for answer, what in named(lake, f"{side}{noise}", golden).items():
                if what is not None:
                    print(f"  {pair} {side}{noise} is equal to {golden}, but {answer} names {what}")
            for defect, pattern in defects(PAIRS[pair]["ab".index(side)]).items():
                planted += 1
                for answer, what in named(lake, f"{side}{noise}_{defect}", golden).items():
                    is_right = what is not None and re.search(pattern, what) is not None
                    right[answer] += is_right
                    if not is_right and "-v" in sys.argv:
                        print(f"  {pair} {side}{noise}_{defect}: {answer} names {what}")
    print(f"{pair}{' with noise' if noise else ''}: {planted} planted, first: {dict(right)}")


if __name__ == "__main__":
    main()

"""Makes the table of programs in docs/collect.md. Its last column needs msprobe (mindstudio-probe).

PYTHONPATH=tests/collect python tests/collect/programs/table.py [NAME …]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from kinds import PROGRAMS
from peer import held_against_msprobe
from trial import Outcome, tried

LEVELS = ("L0", "L1", "mix")


def row(name: str, outcomes: list[Outcome], as_msprobe: str) -> str:
    def cell(attribute: str) -> str:
        missing = [level for level, found in zip(LEVELS, outcomes, strict=True) if not getattr(found, attribute)]
        return "yes" if not missing else f"not at {', '.join(missing)}"

    ops = " / ".join(str(found.ops) for found in outcomes)
    return f"| {name} | {cell('works')} | {cell('identical')} | {cell('restored')} | {ops} | {as_msprobe} |"


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or PROGRAMS:
        outcomes = [tried(name, level) for level in LEVELS]
        with tempfile.TemporaryDirectory() as folder:
            as_msprobe = held_against_msprobe(name, Path(folder))
        print(row(name, outcomes, as_msprobe), flush=True)
        for level, found in zip(LEVELS, outcomes, strict=True):
            if found.why:
                print(f"{name}, {level}: {found.why[:300]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

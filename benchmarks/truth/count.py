"""Ask lakeprobe which op is the cause, of every run of a lake, and count where in its answers the planted one stands.

    python -m benchmarks.truth.count WORK METHOD MODEL NOISE ...

WORK is where `train.py` put the runs. What was asked before is not asked again; WORK/METHOD/MODEL_NOISE/counts.json has
all cases. An answer is what `compare`, `first-diff` and `blame` give to programs, the rows behind `--format json`, not
their texts.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from benchmarks.truth import planted, runs
from benchmarks.truth.planted import Defect, Model
from lakeprobe.lake import layout, staging, store
from lakeprobe.reports.blame_text import records
from lakeprobe.session import ComparisonResult, Lake

COMMANDS = ("compare", "first-diff", "blame")
MOST = 10
"""How many suspects are asked for."""
REPEAT = "repeat"
"""The run that is golden again, and the noise that is measured with it."""
COUNTS = "counts.json"


@dataclass(frozen=True)
class Named:
    """An op that an answer names."""

    step: int
    rank: int
    op: str
    module: str | None


@dataclass(frozen=True)
class Case:
    """What one command said of one run. `place`: where in `named` the planted cause stands, from 1 on."""

    run: str
    kind: str | None
    command: str
    repeat: bool
    named: tuple[Named, ...]
    place: int | None
    seconds: float

    @property
    def outcome(self) -> str:
        """first, three, wrong or silent; for a run without a defect alarm or quiet."""
        if self.kind is None:
            return "alarm" if self.named else "quiet"
        if not self.named:
            return "silent"
        if self.place is None or self.place > 3:
            return "wrong"
        return "first" if self.place == 1 else "three"


def place_of(defect: Defect, named: Sequence[Named]) -> int | None:
    """Where the planted cause stands in an answer, from 1 on; another step is not the cause."""
    for place, op in enumerate(named, 1):
        if op.step == defect.step and defect.is_named(op.op, op.module, op.rank):
            return place
    return None


def count(folder: Path, model: Model, *, with_repeat: bool) -> list[Case]:
    """Ask about every run in the lake of `folder`, and keep the answers in counts.json."""
    kept = read_cases(folder / COUNTS)
    done = {(case.run, case.repeat) for case in kept}
    names = [run for run in ("equal", *(defect.name for defect in model.defects)) if (folder / f"{run}.json").exists()]
    with Lake(folder / "lake") as lake:
        for run, repeat in product(names, (False, True) if with_repeat else (False,)):
            if (run, repeat) not in done:
                cases = _ask(lake, run, model.defect(run), repeat)
                kept += cases
                _write_cases(folder / COUNTS, kept)
                print(_line(folder.name, cases), flush=True)
    return kept


def forget(folder: Path) -> None:
    """Take away what was asked before, as where lakeprobe has changed; the runs stay."""
    (folder / COUNTS).unlink(missing_ok=True)
    for kept in ("comparisons", "noise"):
        shutil.rmtree(folder / "lake" / kept, ignore_errors=True)
    if store.exists(folder / "lake"):
        staging.repair(folder / "lake")


def _ask(lake: Lake, run: str, defect: Defect | None, repeat: bool) -> list[Case]:
    answers = {"compare": _compare, "first-diff": _first_diff, "blame": _blame}
    cases = []
    for command in COMMANDS:
        started = time.process_time()
        named = tuple(_with_module(lake, run, op) for op in answers[command](lake, run, repeat))
        seconds = round(time.process_time() - started, 2)
        place = place_of(defect, named) if defect else None
        cases.append(Case(run, defect.kind if defect else None, command, repeat, named, place, seconds))
    return cases


def _compare(lake: Lake, run: str, repeat: bool) -> list[Named]:
    """The first op that differs beyond noise in each step and rank, as the summary of the comparison has them."""
    return [Named(op.step, op.rank, op.op, op.module) for op in _comparison(lake, run, repeat).summary().beyond_noise]


def _first_diff(lake: Lake, run: str, repeat: bool) -> list[Named]:
    """Where a difference began, the earliest step first; then what it brought about on other ranks."""
    rows = records(_comparison(lake, run, repeat).first_difference().ranks)
    found = [row for row in rows if row["finding"] is not None]
    found.sort(key=lambda row: (row["step"], row["source"] is None))
    return [Named(row["step"], row["rank"], row["op"] or row["golden_op"], row["module"]) for row in found]


def _blame(lake: Lake, run: str, repeat: bool) -> list[Named]:
    """The suspects; what only might be one is not named."""
    suspects = records(_comparison(lake, run, repeat).blame(most=MOST).suspects)
    return [Named(op["step"], op["rank"], op["op"], op["module"]) for op in suspects if op["grade"] == "suspect"]


def _comparison(lake: Lake, run: str, repeat: bool) -> ComparisonResult:
    """`run` held against golden; with a repeat in another comparison, which knows the noise that it shows."""
    name = f"c_{run}_with_repeat" if repeat else f"c_{run}"
    if name in lake.comparisons:
        return lake.comparison(name)
    return lake.compare(run, "golden", name=name, noise=_noise(lake) if repeat else None)


def _noise(lake: Lake) -> str:
    """The noise that the repeat shows, measured once."""
    if REPEAT not in layout.noises(lake.path):
        lake.measure_noise("golden", REPEAT, name=REPEAT)
    return REPEAT


def _with_module(lake: Lake, run: str, op: Named) -> Named:
    """Fill in the module: for a backward op that of its forward op, since hooks of modules end late backwards."""
    forward = op.op.removesuffix(".backward") + ".forward" if op.op.endswith(".backward") else op.op
    if op.module is not None and forward == op.op:
        return op
    found = lake.sql(
        "SELECT parent FROM ops WHERE op = $op AND step = $step AND rank = $rank AND run IN ($run, 'golden') "
        "ORDER BY run = $run DESC LIMIT 1",
        {"op": forward, "step": op.step, "rank": op.rank, "run": run},
    ).fetchall()
    return replace(op, module=found[0][0] if found and found[0][0] else op.module)


def read_cases(file: Path) -> list[Case]:
    """The cases that were counted before."""
    if not file.exists():
        return []
    return [
        Case(**case | {"named": tuple(Named(**op) for op in case["named"])}) for case in json.loads(file.read_text())
    ]


def _write_cases(file: Path, cases: list[Case]) -> None:
    beside = file.with_suffix(".tmp")
    beside.write_text(json.dumps([asdict(case) for case in cases], indent=1))
    beside.replace(file)


def _line(folder: str, cases: Sequence[Case]) -> str:
    """One line for a run: what each command made of it, and what was named first where that is wrong."""
    parts = [f"{case.command} {case.outcome}" for case in cases]
    for case in cases:
        if case.outcome in ("wrong", "three", "alarm"):
            parts.append(f"({case.command}: {case.named[0].op} in {case.named[0].module}, step {case.named[0].step})")
    return f"{folder} {cases[0].run}{' with repeat' if cases[0].repeat else ''}: {', '.join(parts)}"


def main(arguments: list[str]) -> int:
    """Count a model under some noises."""
    work, method, name, *noises = arguments
    model = planted.load(name)
    for noise in noises:
        folder = runs.folder_of(Path(work), method, name, noise)
        has_repeat = (folder / f"{REPEAT}.json").exists()
        if (folder / "golden.json").exists():
            count(folder, model, with_repeat=has_repeat and method == "statistics" and noise != "clean")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

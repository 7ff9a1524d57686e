"""What is done to a lake while faults strike: each scene has a lake to begin with, and what is done to it.

What is in a lake is told by `state`: the rows of every file, and what comparisons and notes say. It reads footers with
pyarrow alone, so that thousands of cases can be looked at.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing.unit_sink import UnitSink
from lakeprobe.compare import run as comparing
from lakeprobe.compare import unit
from lakeprobe.compare.run import compare
from lakeprobe.compare.unit import PairReport, PairTask, compare_units
from lakeprobe.errors import UsageError
from lakeprobe.ingest import ingest
from lakeprobe.journals import recovery
from lakeprobe.lake import compaction, log, staging, store, upkeep
from lakeprobe.system import files

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """`begin` makes the lake, `act` is what faults strike, and `act_again` what is done when it has failed."""

    name: str
    begin: Callable[[Path], object]
    act: Callable[[Path], object]
    act_again: Callable[[Path], object]
    grows: bool = False
    """Whether more than two states are right: each step that was collected is one of its own."""


def state(lake: Path) -> State:
    """What is in the lake: the rows of every file, what yaml files say, and the notes."""
    found: State = {}
    there = log.read(lake)
    for name, place in there.places.items():
        for file in place.files:
            path = lake / place.path / file
            is_table = path.suffix == ".parquet"
            found[f"{name}/{file}"] = pq.read_metadata(path).num_rows if is_table else path.read_text()
    return found


def dump(folder: Path, ops: int, ranks: int = 2) -> Path:
    """A dump of two ranks, or more."""
    for rank in range(ranks):
        place = folder / "step0" / f"rank{rank}"
        place.mkdir(parents=True, exist_ok=True)
        leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0,
                "Mean": 0.5, "Norm": 1.0, "requires_grad": False}  # fmt: skip
        data = {f"Torch.add.{call}.forward": {"input_args": [leaf], "output": [leaf]} for call in range(ops)}
        head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
        (place / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
        (place / "stack.json").write_text(json.dumps({name: ["a frame"] for name in data}, indent=1))
    return folder


def _tables(folder: Path) -> None:
    headers = "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Cosine,Result,Err_message"
    (folder / "compare_result_20260101000000.csv").write_text(f"{headers}\na,a,f,f,[],[],1,pass,\n")


def scenes(home: Path) -> list[Scene]:  # noqa: C901
    """All scenes; their dumps lie in `home`."""
    old = dump(home / "old" / "npu", 2)
    dump(home / "new" / "npu", 3)
    golden = dump(home / "old" / "gpu", 2)
    _tables(home / "new")

    def runs(lake: Path) -> None:
        for run in (old, golden):
            ingest(run, lake=lake)

    def measure(lake: Path) -> None:
        compare("npu", "gpu", lake=lake, name="c", jobs=1)

    def measure_quickly(lake: Path) -> None:
        quick = partial(_compare_units_once, kept=home / "results")
        with patch.object(comparing, "compare_units", quick), patch.object(unit, "compare_units", quick):
            measure(lake)

    def compared(lake: Path) -> None:
        runs(lake)
        measure_quickly(lake)
        upkeep.write_note(lake, "npu", "kept")

    def outdated(lake: Path) -> None:
        compared(lake)
        ingest(home / "new" / "npu", lake=lake, replace=True)

    def read(lake: Path, again: bool) -> None:
        ingest(home / "new", lake=lake, replace=again, jobs=1)

    def unless_done(act: Callable[[Path], object]) -> Callable[[Path], None]:
        def again(lake: Path) -> None:
            try:
                act(lake)
            except UsageError:  # it was done
                return

        return again

    def collect(lake: Path) -> None:
        sink = UnitSink(lake, "npu", Settings())
        for step in range(2):
            sink.begin(step, 0)
            for call in range(3):
                sink.add(f"Torch.add.{call}.forward", {"input_args": [_leaf(call)]}, parent=None, stack=["a frame"])
                sink.pause()
            sink.end()
            (lake.parent / "ended").write_text(str(step + 1))
        sink.finish()

    def recover(lake: Path) -> None:
        _, errors = recovery.recover(lake, again=True)
        if errors:
            raise errors[0]

    def collected(lake: Path) -> None:
        store.create(lake)
        collect(lake)

    def compacted(lake: Path) -> None:
        runs(lake)
        compaction.compact(lake, "npu")
        ingest(home / "old" / "npu", lake=lake, ranks=[1], replace=True)

    def without_contents(lake: Path) -> None:
        ingest(home / "old", lake=lake, tensors="none")

    by_rank = partial(compaction.compact, run="npu", by="rank")
    compact, split = partial(compaction.compact, run="npu"), partial(compaction.split, run="npu")
    remove, rename = partial(upkeep.remove, name="npu"), partial(upkeep.rename, name="npu", new="cuda")
    return [
        Scene("new lake", lambda lake: None, partial(read, again=False), partial(read, again=False)),
        Scene("ingest", lambda lake: ingest(golden, lake=lake), partial(read, again=False), partial(read, again=False)),
        Scene("replace", lambda lake: ingest(old, lake=lake), partial(read, again=True), partial(read, again=True)),
        Scene("compare", runs, measure, measure_quickly),
        Scene("compare again", outdated, measure, measure_quickly),
        Scene("rm", compared, remove, unless_done(remove)),
        Scene("rename", compared, rename, unless_done(rename)),
        Scene("compact", runs, compact, compact),
        Scene("compact again", compacted, compact, compact),
        Scene("split", compacted, split, split),
        Scene("compact by rank", without_contents, by_rank, by_rank),
        Scene("collect", store.create, collect, recover, grows=True),
        Scene("recover", collected, recover, recover, grows=True),
    ]  # fmt: skip


def _leaf(call: int) -> dict[str, Any]:
    import numpy as np

    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5,
            "Norm": 1.0, "requires_grad": False, "data_name": f"{call}.pt", "tensor": np.full(2, call, np.float32),
            }  # fmt: skip


def _compare_units_once(task: PairTask, kept: Path) -> PairReport:
    """As `compare_units`, but what it wrote is kept and copied from then on: its statements take most of the time."""
    ops = pq.read_metadata(task.target_place.folder / "ops.parquet").num_rows
    folder = kept / f"{task.target} {ops}"
    if not folder.exists():
        report = compare_units(task)
        shutil.copytree(task.staged, folder / "files")
        (folder / "report").write_bytes(pickle.dumps(report))
        return report
    shutil.copytree(folder / "files", task.staged)
    files.sync_tree(task.staged)
    return pickle.loads((folder / "report").read_bytes())  # type: ignore[no-any-return]


def settle(lake: Path) -> None:
    """What the next command does first: recover, and clear away."""
    recovery.recover(lake, again=True)
    staging.sweep(lake)


def copy(lake: Path, to: Path) -> None:
    """A copy of a lake whose files are of its own."""
    if lake.exists():
        shutil.copytree(lake, to)

"""Makes two small dumps and holds them against each other; the rows of the results come back as dicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lakeprobe.compare.run import compare
from lakeprobe.lake import layout

Data = dict[str, Any]
Row = dict[str, Any]


def tensor(statistic: Any = 1.0, **fields: Any) -> dict[str, Any]:
    """A tensor leaf whose four statistics are `statistic`, where `fields` do not say otherwise; ... drops a field."""
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "requires_grad": False}
    leaf |= dict.fromkeys(("Max", "Min", "Mean", "Norm"), statistic)
    return {key: value for key, value in (leaf | fields).items() if value is not ...}


def scalar(value: Any, kind: str | None = None) -> dict[str, Any]:
    return {"type": kind or type(value).__name__, "value": value}


def call(inputs: list[Any], outputs: list[Any] | None = None, **sections: Any) -> dict[str, Any]:
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs or [], **sections}


def write_dump(
    folder: Path,
    data: Data,
    *,
    task: str = "statistics",
    arrays: dict[str, Any] | None = None,
    stack: bool = True,
    framework: str = "pytorch",
) -> Path:
    """A dump with the entries `data`; `arrays` become its tensor files."""
    (folder / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
    head = {"task": task, "level": "mix", "framework": framework, "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    frames = ["File /job/train.py, line 12, in forward, \n x = self.head(x)"]
    (folder / "stack.json").write_text(json.dumps({"0": [list(data), frames]} if stack else {}))
    (folder / "construct.json").write_text("{}")
    for name, array in (arrays or {}).items():
        np.save(folder / "dump_tensor_data" / name, np.asarray(array))
    return folder


def result_file(lake: Path, name: str, step: int = 0, rank: int = 0) -> Path:
    """Where the rows of a comparison stand."""
    folder = layout.comparison_folder(lake, name)
    assert folder is not None
    return folder / f"step={step}" / f"rank={rank}" / "results.parquet"


def results(lake: Path, name: str, step: int = 0, rank: int = 0) -> list[Row]:
    """The rows of a comparison as they stand in its file."""
    path = result_file(lake, name, step, rank)
    return pq.read_table(path, partitioning=None).to_pylist()


def compared(
    folder: Path, target: Data, golden: Data, *, rule: str | None = None, task: str = "statistics"
) -> list[Row]:
    """The results of two dumps with the entries `target` and `golden`."""
    sides = [write_dump(folder / name, data, task=task) for name, data in (("ours", target), ("theirs", golden))]
    compare(*sides, lake=folder / "lake", name="both", rule=rule)
    return results(folder / "lake", "both")


def compared_leaves(folder: Path, cases: dict[str, tuple[Any, Any]]) -> dict[str, Row]:
    """One op per case with the leaf of either side as its argument; the results by case."""
    target, golden = (
        {f"Torch.{name}.0.forward": call([pair[side]]) for name, pair in cases.items()} for side in (0, 1)
    )
    rows = compared(folder, target, golden)
    return dict(zip(cases, rows, strict=True))

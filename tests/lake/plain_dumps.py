"""Dumps and lakes for the tests of atomicity: made and looked at with the standard library and DuckDB only."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import numpy as np

TABLES = ("dumps", "ops", "tensors", "stacks", "contents", "values-0")


def write_run(root: Path, ops: int, steps: int = 2, ranks: int = 2) -> Path:
    """A run whose dumps have `ops` ops each, one tensor file per op."""
    for step in range(steps):
        for rank in range(ranks):
            folder = root / f"step{step}" / f"rank{rank}"
            (folder / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
            data = {}
            for call in range(ops):
                name = f"Torch.add.{call}.forward"
                leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [1000], "data_name": f"{name}.npy"}
                data[name] = {"input_args": [leaf]}
                content = np.full(1000, call + 100 * rank, np.float32)
                np.save(folder / "dump_tensor_data" / f"{name}.npy", content)
            head = {"task": "tensor", "level": "L1", "framework": "mindspore"}
            (folder / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
            (folder / "stack.json").write_text(json.dumps({name: ["a frame"] for name in data}, indent=1))
            (folder / "construct.json").write_text("{}")
    return root


def files(lake: Path) -> dict[str, bytes]:
    """Every file of the lake outside .staging and the log, with its bytes."""
    return {
        str(path.relative_to(lake)): path.read_bytes()
        for path in sorted(lake.rglob("*"))
        if path.is_file() and not {".staging", "log"} & {*path.parts}
    }


def without_publication(lake: Path) -> dict[str, bytes]:
    """The same, with the publication taken out of the paths."""
    return {re.sub(r"/\d{8}T\d{6}-\w+/", "/", path): content for path, content in files(lake).items()}


def leftovers(lake: Path) -> list[str]:
    """What lies in .staging."""
    return sorted(path.name for path in (lake / ".staging").iterdir())


def rows_of_units(lake: Path, run: str = "*") -> dict[str, dict[tuple[str, int, int], int]]:
    """Rows per table and unit, read through the globs that any other tool would use."""
    counts = {}
    with duckdb.connect() as connection:
        for table in TABLES:
            found = connection.execute(
                "SELECT run, step, rank, count(*) FROM read_parquet("
                f"'{lake}/run={run}/step=*/rank=*/*/{table}.parquet', hive_partitioning = true) GROUP BY ALL"
            ).fetchall()
            counts[table] = {(run, step, rank): count for run, step, rank, count in found}
    return counts

"""Makes small dumps with tensor files, and looks at lakes with nothing but the file system and DuckDB."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

OP = "Torch.add.0.forward"


def leaf(data_name: str | None = None, **fields: Any) -> dict[str, Any]:
    """A tensor leaf; with a data_name it refers to a file of dump_tensor_data."""
    tensor = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5,
              "Norm": 1.0, **fields}  # fmt: skip
    return tensor if data_name is None else {**tensor, "data_name": data_name}


def write_dump(
    folder: Path, tensors: dict[str, NDArray[Any]] | None = None, data: dict[str, Any] | None = None
) -> Path:
    """Write a dump whose one op has the saved `tensors` as arguments, or one of the given `data`."""
    folder.mkdir(parents=True, exist_ok=True)
    if data is None:
        data = {
            OP: {"input_args": [leaf(name) for name in tensors or {}], "output": [leaf(Max=float(len(str(folder))))]}
        }
    head = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": "/elsewhere"}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
    (folder / "stack.json").write_text(json.dumps({"0": [[OP], ["File a.py, line 1, in f, \n x"]]}, indent=1))
    (folder / "construct.json").write_text("{}")
    if tensors:
        (folder / "dump_tensor_data").mkdir(exist_ok=True)
        for name, array in tensors.items():
            np.save(folder / "dump_tensor_data" / name, array)
    return folder


def snapshot(lake: Path) -> dict[str, tuple[int, int, bytes]]:
    """Each file of a lake but locks: its inode, time and bytes. Staged leftovers would show."""
    return {
        str(path.relative_to(lake)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(lake.rglob("*"))
        if path.is_file()
    }


def files(lake: Path) -> dict[str, bytes]:
    """Each file of a lake but the log, with its bytes; whatever publication it came with."""
    found = {re.sub(r"/\d{8}T\d{6}-\w+/", "/", path): content for path, (_, _, content) in snapshot(lake).items()}
    return {path: content for path, content in found.items() if not path.startswith("log/")}


def query(sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a query on a bare DuckDB, without any of lakeprobe's views and macros."""
    with duckdb.connect() as connection:
        return connection.execute(sql, parameters or None).fetchall()


def table(lake: Path, name: str) -> str:
    """The SQL that reads a table of all units as any other tool would."""
    return f"read_parquet('{lake}/run=*/step=*/rank=*/*/{name}.parquet', hive_partitioning = true)"

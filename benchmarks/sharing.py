"""What it costs that several writers share a run: python benchmarks/sharing.py [UNITS] [SHARDS] [OPS].

Prints processor seconds per unit and per publication, of this process. The dumps are made here, of statistics only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lakeprobe.compare import run as comparing
from lakeprobe.ingest import ingest
from lakeprobe.ingest import run as reading
from lakeprobe.lake import layout


def write_run(root: Path, ranks: int, ops: int) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "requires_grad": False}
    for rank in range(ranks):
        data = {}
        for call in range(ops):
            numbers = {"Max": 1.0 + rank, "Min": -1.0, "Mean": call / 7, "Norm": 2.0}
            entry = {"input_args": [leaf | numbers], "input_kwargs": {}, "output": [leaf | numbers]}
            data[f"Torch.add.{call}.forward"] = entry
        folder = root / "step0" / f"rank{rank}"
        folder.mkdir(parents=True)
        head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
        (folder / "dump.json").write_text(json.dumps(head | {"data": data}, indent=1))
        (folder / "stack.json").write_text("{}")
        (folder / "construct.json").write_text("{}")
    return root


def timed(what: str, action: Callable[[], Any], units: int) -> None:
    wall, processor = time.monotonic(), time.process_time()
    action()
    spent = time.process_time() - processor
    print(f"{what:42} {spent:7.2f} s CPU, {1000 * spent / units:6.1f} ms a unit, {time.monotonic() - wall:6.1f} s")


def main() -> None:
    units, count, ops = (int(word) for word in (*sys.argv[1:], *("256", "8", "200")[len(sys.argv) - 1 :]))
    os.environ["LAKEPROBE_NO_SYNC"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        dump = write_run(Path(folder, "npu"), units, ops)
        alone, shared = Path(folder, "alone"), Path(folder, "shared")
        timed("ingest, one writer", lambda: ingest(dump, lake=alone), units)
        for index in range(count - 1):
            ingest(dump, lake=shared, shard=f"{index}/{count}")
        timed(f"ingest, last of {count} shards, with publication",
              lambda: ingest(dump, lake=shared, shard=f"{count - 1}/{count}"), units // count)  # fmt: skip
        assert len(layout.units(shared)) == units

        with patch.object(reading, "publish_run", lambda *_: 0):  # so that publication is measured alone
            for index in range(count):
                ingest(dump, lake=shared, run="again", shard=f"{index}/{count}")
        timed("publication alone", lambda: reading.publish_run(shared, "again"), units)
        few = list(range(min(units, 32)))
        timed("compare, one writer (32 pairs at most)",
              lambda: comparing.compare("npu", "again", lake=shared, ranks=few, name="c"), len(few))  # fmt: skip


if __name__ == "__main__":
    main()

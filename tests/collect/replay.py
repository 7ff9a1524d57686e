"""Plays a real dump into a sink, as a capture would hand it over; also a program that is killed while it does so.

python replay.py LAKE RUN RANK OPS [--then-wait] adds OPS ops of a dump and is killed (SIGKILL); with OPS -1 it adds
all, ends the step and closes. A line "ready" on stdout says that the ops are added.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing import unit_sink
from lakeprobe.collect.writing.unit_sink import UnitSink

DUMPS = Path(__file__).parents[1] / "data" / "dumps"
DEMO = DUMPS / "demo" / "golden" / "step0" / "proc17894"


def read_json(path: Path) -> Any:
    return json.loads(path.read_text() or "{}") if path.is_file() else {}


def ops_of(dump: Path) -> list[tuple[str, dict[str, Any]]]:
    """What a capture would say of each op of a dump: its name, and the arguments of `add`."""
    stacks: dict[str, Any] = {}
    for key, value in read_json(dump / "stack.json").items():
        grouped = len(value) == 2 and isinstance(value[0], list)
        stacks |= dict.fromkeys(value[0] if grouped else [key], value[1] if grouped else value)
    parents = read_json(dump / "construct.json")
    return [
        (op, {"body": body, "parent": parents.get(op), "stack": stacks.get(op)})
        for op, body in read_json(dump / "dump.json")["data"].items()
    ]


def add_all(sink: UnitSink, ops: list[tuple[str, dict[str, Any]]]) -> None:
    for op, arguments in ops:
        arguments = dict(arguments)
        sink.add(op, arguments.pop("body"), **arguments)


def main() -> None:
    lake, run, rank, count = sys.argv[1:]
    unit_sink._MOST_UNBUILT = 0  # a process beside builds
    sink = UnitSink(Path(lake), run, Settings(level="mix"))
    sink.begin(0, int(rank))
    ops = ops_of(DEMO)
    if int(count) >= 0:
        add_all(sink, ops[: int(count)])
        os.kill(os.getpid(), signal.SIGKILL)
    add_all(sink, ops)
    sink.end()
    sink.close()


if __name__ == "__main__":
    main()

"""Takes dumps through a lake and out again, and holds what comes out against what went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lakeprobe.export import ExportReport, export
from lakeprobe.ingest import ingest
from lakeprobe.tensors import content_hash, read_tensor

SIDE_FILES = ("stack.json", "construct.json")


def through_lake(dump: Path, folder: Path, tensors: str = "copy") -> ExportReport:
    """Read the run in `dump` into a lake in `folder`, and export it to `folder`/out."""
    run = ingest(dump, lake=folder / "lake", run="run", tensors=tensors).run
    return export(folder / "lake", run, folder / "out")


def exact(value: Any) -> str:
    """JSON text that tells 1, 1.0, true, NaN and null apart, but not the order of keys."""
    return json.dumps(value, sort_keys=True)


def load(path: Path) -> Any:
    """What a file holds; an empty one holds nothing, which is something else than not being there."""
    text = path.read_text()
    return json.loads(text) if text else "no byte"


def assert_same_main_file(original: Path, exported: Path) -> None:
    """The values, the order of the ops, and what the text is like."""
    before, after = load(original), load(exported)
    assert list(after["data"]) == list(before["data"])
    for op, body in before["data"].items():
        assert exact(after["data"][op]) == exact(body), op
    del before["data"], after["data"]
    assert json.dumps(after) == json.dumps(before)
    text = exported.read_text()
    assert text == json.dumps(json.loads(text), indent=1)


def assert_same_side_files(original: Path, exported: Path) -> None:
    for name in SIDE_FILES:
        assert (exported / name).exists() == (original / name).exists()
        if (original / name).exists():
            assert exact(load(exported / name)) == exact(load(original / name)), name


def assert_same_tensors(original: Path, exported: Path, names: set[str]) -> None:
    """Of the files called `names` those that are there: every bit of every element, dtype and shape."""
    there = {name for name in names if (original / "dump_tensor_data" / name).exists()}
    assert {path.name for path in (exported / "dump_tensor_data").glob("*")} == there
    for name in there:
        before, after = (read_tensor(folder / "dump_tensor_data" / name) for folder in (original, exported))
        assert content_hash(after) == content_hash(before), name


def data_names(value: Any) -> set[str]:
    """The tensor files that a dump names."""
    if isinstance(value, dict):
        own = {value["data_name"]} if isinstance(value.get("data_name"), str) else set()
        return own.union(*map(data_names, value.values()))
    return set().union(*map(data_names, value)) if isinstance(value, list) else set()

"""lakeprobe map as the real program: what goes to stdout, to the file and to stderr, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from program import lakeprobe, tensor, write_dump

from lakeprobe.ingest import ingest
from lakeprobe.session import Lake


def dump_text(api: str, cell: str, framework: str) -> str:
    """dump.json with a call and the forward and backward of the module around it."""
    call = {"input_args": [tensor(2.0)], "input_kwargs": {}, "output": [tensor(3.0)]}
    data = {f"{api}.0.forward": call, f"{cell}.forward.0": call, f"{cell}.backward.0": {"input": [tensor(5.0)]}}
    return json.dumps({"task": "statistics", "level": "mix", "framework": framework, "data": data})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a MindSpore run `ours` and a PyTorch run `theirs` of one model."""
    folder = tmp_path_factory.mktemp("map")
    for run, text in (
        ("ours", dump_text("Mint.dense", "Cell.fc.Dense", "mindspore")),
        ("theirs", dump_text("Functional.linear", "Module.fc.Linear", "pytorch")),
    ):
        ingest(write_dump(folder / run, text, side_files=False), lake=folder / "lake", run=run)
    return folder / "lake"


PAIRS = {
    "Mint.dense.0.forward.input.0": "Functional.linear.0.forward.input.0",
    "Mint.dense.0.forward.output.0": "Functional.linear.0.forward.output.0",
    "Cell.fc.Dense.forward.0.input.0": "Module.fc.Linear.forward.0.input.0",
    "Cell.fc.Dense.forward.0.output.0": "Module.fc.Linear.forward.0.output.0",
    "Cell.fc.Dense.backward.0.input.0": "Module.fc.Linear.backward.0.input.0",
}


def test_writes_to_stdout_and_sums_up_on_stderr(lake: Path) -> None:
    ended = lakeprobe("map", "ours", "theirs", "--lake", lake)
    assert ended.code == 0
    assert yaml.safe_load(ended.out) == PAIRS
    assert ended.err.splitlines() == [
        "mapped run ours step 0 rank 0 to run theirs step 0 rank 0: 3 ops, 5 rows; None needs no line",
        "  5 rows of confidence 0.95 or more: the same values",
        "  not placed in ours: 0 tensor rows of 0 ops",
        "  not placed in theirs: 0 tensor rows of 0 ops",
    ]


def test_writes_a_file_and_never_over_one(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.yaml"
    written = lakeprobe("map", "ours", "theirs", "--kind", "cell", "-o", path, LAKEPROBE_LAKE=lake)
    assert (written.code, written.out) == (0, "")
    use = f"lakeprobe compare ours theirs --cell-mapping {path}"
    assert written.err.endswith(f"written: {path}; read it, then use it: {use}\n")
    assert yaml.safe_load(path.read_text()) == {"fc.Dense": "fc.Linear"}
    before = path.read_text()
    again = lakeprobe("map", "ours", "theirs", "-o", path, "--lake", lake)
    assert again.code == 2
    assert again.line == f"lakeprobe: {path} exists already; name another file, or remove it first"
    assert path.read_text() == before


def test_compare_takes_the_proposal_as_it_is(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.yaml"
    assert lakeprobe("map", "ours", "theirs", "-o", path, "--lake", lake).code == 0
    assert lakeprobe("compare", "ours", "theirs", "-dm", path, "--name", "mapped", "--lake", lake).code == 0
    with Lake(lake) as opened:
        pairs = opened.sql("SELECT target_name, golden_name FROM mapped WHERE target_row IS NOT NULL").fetchall()
    assert dict(pairs) == PAIRS


NO_STEP = "ours and theirs have no step and rank in common with step 3; see them with: lakeprobe ls"
SAME_CELLS = (
    "all cells that pair have the same names, so compare needs no layer mapping file for run ours step 0 rank 0"
)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nobody", "theirs"), 2, "{lake} has no run nobody; it has ours, theirs; ingest it first"),
        (("ours", "theirs", "--step", "3"), 2, NO_STEP),
        (("ours", "theirs", "--kind", "layer"), 2, SAME_CELLS),
        (("ours", "theirs", "-o", "/nowhere/x.yaml"), 3, "/nowhere/x.yaml: No such file or directory; "),
    ],
)
def test_refusals(lake: Path, words: tuple[str, ...], code: int, message: str) -> None:
    ended = lakeprobe("map", *words, "--lake", lake)
    assert ended.code == code
    assert ended.line.startswith(f"lakeprobe: {message.format(lake=lake)}")


def test_a_kind_that_does_not_exist(lake: Path) -> None:
    ended = lakeprobe("map", "ours", "theirs", "--kind", "rows", "--lake", lake)
    assert (ended.code, ended.out) == (2, "")
    assert "rows" in ended.err

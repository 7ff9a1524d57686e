"""Each audit finds the violation that it is there for, and nothing in a good lake; staging is cleared of the dead."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from plain_dumps import leftovers, write_run

import lakeprobe
from lakeprobe.lake import audits, layout, log, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.system import owner

UNIT = "run=target/step=0/rank=0/*"
RESULTS = "comparisons/comparison=both/*/step=0/rank=0"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audits")
    with lakeprobe.open(folder / "lake", create=True) as lake:
        for run, ops in (("target", 5), ("golden", 4)):
            lake.ingest(write_run(folder / run, ops=ops, steps=1))
        lake.compare("target", "golden", name="both")
    return folder / "lake"


def found(lake: Path) -> dict[str, int]:
    with lakeprobe.open(lake, create=True) as opened:
        return {audit.name: len(rows) for audit, _, rows in audits.run(opened.sql)}


def test_a_good_lake(good: Path) -> None:
    assert found(good) == {}


def test_an_empty_lake(tmp_path: Path) -> None:
    assert found(store.create(tmp_path / "lake")) == {}


def without_first(rows: Rows) -> Rows:
    return rows[1:]


def change(**values: Any) -> Callable[[Rows], Rows]:
    """The first row with other values."""
    return lambda rows: [rows[0] | values, *rows[1:]]


PLANTED: dict[str, tuple[str, Callable[[Rows], Rows], dict[str, int]]] = {
    "tensor of no op": (f"{UNIT}/tensors", change(seq=99), {"tensor_without_op": 1}),
    "tensor of another op": (f"{UNIT}/tensors", change(op="Torch.mul.0.forward"), {"tensor_without_op": 1}),
    "tensor lost": (f"{UNIT}/tensors", without_first, {"counts": 1, "row_places": 1}),
    "tensor twice": (f"{UNIT}/tensors", lambda rows: [*rows, rows[0]], {"counts": 1, "row_places": 1}),
    "last tensor lost": (f"{UNIT}/tensors", lambda rows: rows[:-1], {"counts": 1}),
    "all tensors lost": (f"{UNIT}/tensors", lambda rows: [], {"counts": 1}),
    "place": (f"{UNIT}/tensors", change(row=7), {"row_places": 1}),
    "op lost": (f"{UNIT}/ops", without_first, {"counts": 1, "row_places": 1, "tensor_without_op": 1}),
    "op place": (f"{UNIT}/ops", change(seq=7), {"row_places": 1, "tensor_without_op": 1}),
    "count of ops": (f"{UNIT}/dumps", change(ops=6), {"counts": 1}),
    "count of contents": (f"{UNIT}/dumps", change(contents=6), {"counts": 1}),
    "content lost": (f"{UNIT}/contents", without_first, {"counts": 1, "missing_content": 1}),
    "content unknown": (f"{UNIT}/tensors", change(content="0" * 32), {"missing_content": 1}),
    "value lost": (f"{UNIT}/values-0", without_first, {"copied_content": 1}),
    "value cut": (f"{UNIT}/values-0", change(data=b"abc"), {"copied_content": 1}),
    "length": (f"{UNIT}/contents", change(length=3), {"copied_content": 1}),
    "outcome": (f"{RESULTS}/results", change(outcome="forgotten"), {"outcomes": 1}),
    "no outcome": (f"{RESULTS}/results", change(outcome=None), {"outcomes": 1}),
    "verdict": (f"{RESULTS}/results", change(verdict="fine"), {"outcomes": 1}),
    "no verdict": (f"{RESULTS}/results", change(verdict=None), {"outcomes": 1}),
    "pair without difference": (f"{RESULTS}/results", change(difference=None), {"outcomes": 1}),
    "target row twice": (f"{RESULTS}/results", change(target_row=1), {"rows_once": 1}),
    "golden row twice": (f"{RESULTS}/results", change(golden_row=1), {"rows_once": 1}),
    "result lost": (f"{RESULTS}/results", without_first, {"rows_once": 2}),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation(tmp_path: Path, good: Path, name: str) -> None:
    file, planted, expected = PLANTED[name]
    lake = Path(shutil.copytree(good, tmp_path / "lake"))
    [path] = lake.glob(f"{file}.parquet")
    table = pq.read_table(path, partitioning=None)
    pq.write_table(type(table).from_pylist(planted(table.to_pylist()), schema=table.schema), path)
    assert found(lake) == expected


def test_every_audit_has_a_violation_here() -> None:
    assert {audit for _, _, expected in PLANTED.values() for audit in expected} == set(audits.names())


def test_what_an_audit_tells(tmp_path: Path, good: Path) -> None:
    lake = Path(shutil.copytree(good, tmp_path / "lake"))
    target, golden = (layout.unit_folder(lake, UnitKey(run, 0, 0)) / "tensors.parquet" for run in ("target", "golden"))
    target.write_bytes(golden.read_bytes())
    with lakeprobe.open(lake, create=True) as opened:
        [(audit, columns, [row])] = audits.run(opened.sql)
    assert (audit.name, audit.promise) == (
        "counts", "a unit holds as many ops, tensor rows and contents as were read from its dump.",
    )  # fmt: skip
    told = dict(zip(columns, row, strict=True))
    assert (told["run"], told["tensor_rows_read"], told["tensor_rows"]) == ("target", 5, 4)


# ---- staging ----------------------------------------------------------------------------------------------


DEAD = "00000000-1-1"
"""Nobody: a process of another machine, of which nothing was heard for long."""


def test_what_ended_processes_left_is_removed_and_live_ones_stay(tmp_path: Path) -> None:
    store.create(tmp_path)
    place = tmp_path / ".staging"
    ended = subprocess.run([sys.executable, "-c", "from lakeprobe.system import owner; print(owner.me())"],
                           capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    for name in (f"ingest.a.{ended}", f"ingest.b.{DEAD}", f"ingest.c.{owner.me()}", "of-an-older-release"):
        (place / name / "below").mkdir(parents=True)
        (place / name / "below" / "file").write_text("")
    for name in (f"reader-1.a.{ended}", f"reader-1.b.{owner.me()}", "free.lock", f"lake.yaml.c.{ended}"):
        (place / name).touch()
    (tmp_path / "log" / f".draft-a.{ended}").touch()
    for name in (f"ingest.b.{DEAD}", "of-an-older-release"):
        os.utime(place / name, (0, 0))
    with (place / "held.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with staging.staged(tmp_path, "mine") as session, staging.staged(tmp_path, "mine") as other:
            (session.folder / "file").write_text("")
            alive = [f"ingest.c.{owner.me()}", f"reader-1.b.{owner.me()}", "held.lock"]
            assert leftovers(tmp_path) == sorted([*alive, session.folder.name, other.folder.name])
    assert leftovers(tmp_path) == sorted(alive)
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["0000000001.json"]


def test_what_is_replaced_goes_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    store.create(tmp_path)
    name = layout.unit_name(UnitKey("a", 0, 0))

    def put(text: str) -> Path:
        with staging.staged(tmp_path, "mine") as session:
            (session.folder / "unit").mkdir()
            (session.folder / "unit" / "file").write_text(text)
            staging.publish(session, "test", {name: session.folder / "unit"})
        return layout.unit_folder(tmp_path, UnitKey("a", 0, 0))

    first = put("first")
    second = put("second")
    assert not first.exists()
    with staging.reading(tmp_path) as there:
        third = put("third")
        assert there.folder(name) == second
        assert (second / "file").read_text() == "second"
    assert (third / "file").read_text() == "third"
    with staging.reading(tmp_path):  # who reads what came in its place does not need it
        staging.sweep(tmp_path)
        assert not second.exists()
    assert leftovers(tmp_path) == []


def test_a_failure_leaves_nothing_staged(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), staging.staged(tmp_path, "mine") as session:
        session.folder.write_text("a folder is not a file")
    assert list((tmp_path / ".staging").iterdir()) == []


def test_no_place_outside_the_lake_is_removed_or_read(tmp_path: Path) -> None:
    """A lake may come from anybody: what its staging and its log name is held to lie in it."""
    lake = store.create(tmp_path / "lake")
    (tmp_path / "mine").mkdir()
    session = lake / ".staging" / f"ingest.a.{DEAD}"
    session.mkdir()
    outside = ["../mine", str(tmp_path / "mine"), "run=a/step=0/rank=0/../../../../mine", "log", ".", "", 7]
    (session / "places.json").write_text(json.dumps(outside))
    os.utime(session, (0, 0))
    staging.sweep(lake)
    assert (tmp_path / "mine").is_dir()
    assert (lake / "log").is_dir()
    put = {name: [name, ["ops.parquet"]] for name in outside if isinstance(name, str)}
    put |= {"run=a/step=0/rank=0": ["run=a/step=0/rank=0", ["../../../../mine/ops.parquet"]]}
    (lake / "log" / "0000000002.json").write_text(json.dumps({"put": put}))
    assert log.read(lake).places == {}

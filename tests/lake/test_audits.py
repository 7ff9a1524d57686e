"""Each audit finds the violation that it is there for, and nothing in a good lake; staging is cleared of the dead."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from plain_dumps import leftovers, write_run

import lakeprobe
from lakeprobe.lake import audits, staging, store

UNIT = "run=target/step=0/rank=0"
RESULTS = "comparisons/comparison=both/step=0/rank=0"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audits")
    with lakeprobe.open(folder / "lake") as lake:
        for run, ops in (("target", 5), ("golden", 4)):
            lake.ingest(write_run(folder / run, ops=ops, steps=1))
        lake.compare("target", "golden", name="both")
    return folder / "lake"


def found(lake: Path) -> dict[str, int]:
    with lakeprobe.open(lake) as opened:
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


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation(tmp_path: Path, good: Path, name: str) -> None:
    file, planted, expected = PLANTED[name]
    lake = Path(shutil.copytree(good, tmp_path / "lake"))
    path = lake / f"{file}.parquet"
    table = pq.read_table(path, partitioning=None)
    pq.write_table(type(table).from_pylist(planted(table.to_pylist()), schema=table.schema), path)
    assert found(lake) == expected


def test_every_audit_has_a_violation_here() -> None:
    assert {audit for _, _, expected in PLANTED.values() for audit in expected} == set(audits.names())


def test_what_an_audit_tells(tmp_path: Path, good: Path) -> None:
    lake = Path(shutil.copytree(good, tmp_path / "lake"))
    (lake / UNIT / "tensors.parquet").write_bytes((lake / "run=golden/step=0/rank=0/tensors.parquet").read_bytes())
    with lakeprobe.open(lake) as opened:
        [(audit, columns, [row])] = audits.run(opened.sql)
    assert (audit.name, audit.promise) == (
        "counts", "a unit holds as many ops, tensor rows and contents as were read from its dump.",
    )  # fmt: skip
    told = dict(zip(columns, row, strict=True))
    assert (told["run"], told["tensor_rows_read"], told["tensor_rows"]) == ("target", 5, 4)


# ---- staging ----------------------------------------------------------------------------------------------


def test_abandoned_folders_are_removed_and_live_ones_stay(tmp_path: Path) -> None:
    place = tmp_path / ".staging"
    for name in ("dead", "dead-without-lock", "live"):
        (place / name / "below").mkdir(parents=True)
        (place / name / "below" / "file").write_text("")
    (place / "dead.lock").write_text("")
    with (place / "live.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with staging.staged(tmp_path, "mine") as folder, staging.staged(tmp_path, "mine") as other:
            assert leftovers(tmp_path) == sorted(["live", folder.name, other.name])
            (folder / "file").write_text("")
        assert leftovers(tmp_path) == ["live"]
    assert (place / "live" / "below" / "file").exists()
    assert [path.name for path in place.glob("*.lock")] == ["live.lock"]
    with staging.staged(tmp_path, "mine"):
        pass
    assert list(place.iterdir()) == []


def test_a_folder_that_was_put_in_place_stays_there(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with staging.staged(tmp_path, "mine") as folder:
            (folder / "file").write_text(text)
            staging.put_in_place(folder, tmp_path / "a" / "b")
        assert (tmp_path / "a" / "b" / "file").read_text() == text
        assert leftovers(tmp_path) == []


def test_a_failure_leaves_nothing_staged(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), staging.staged(tmp_path, "mine") as folder:
        folder.write_text("a folder is no file")
    assert list((tmp_path / ".staging").iterdir()) == []

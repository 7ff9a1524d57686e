"""Which rows are held against which, and that every row of both sides is there exactly once."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_dumps import Data, Row, call, compared, results, scalar, tensor, write_dump
from sampling import examples

import lakeprobe
from lakeprobe import resources
from lakeprobe.compare import run as run_module
from lakeprobe.compare.run import compare
from lakeprobe.lake import audits


def pairs(rows: list[Row]) -> list[tuple[str | None, str | None]]:
    return [(row["target_name"], row["golden_name"]) for row in rows]


def test_backward_calls_pair_in_order_of_appearance(tmp_path: Path) -> None:
    ours = {f"Torch.bw.{call_number}.backward": {"input": [tensor()], "output": []} for call_number in (3, 1, 7)}
    theirs = {f"Torch.bw.{call_number}.backward": {"input": [tensor()], "output": []} for call_number in (0, 1, 2)}
    assert pairs(compared(tmp_path, ours, theirs)) == [
        ("Torch.bw.3.backward.input.0", "Torch.bw.0.backward.input.0"),
        ("Torch.bw.1.backward.input.0", "Torch.bw.1.backward.input.0"),
        ("Torch.bw.7.backward.input.0", "Torch.bw.2.backward.input.0"),
    ]


def test_forward_calls_pair_by_number(tmp_path: Path) -> None:
    ours, theirs = (
        {f"Torch.fw.{number}.forward": call([tensor()]) for number in numbers} for numbers in ((3, 1), (0, 1))
    )
    assert pairs(compared(tmp_path, ours, theirs)) == [
        ("Torch.fw.3.forward.input.0", None),
        ("Torch.fw.1.forward.input.0", "Torch.fw.1.forward.input.0"),
        (None, "Torch.fw.0.forward.input.0"),
    ]


def test_modules_pair_by_path_class_and_call(tmp_path: Path) -> None:
    ours, theirs = (
        {
            f"Module.layer.0.Linear.forward.{number}": call([tensor()]),
            f"Module.layer.1.{kind}.forward.0": call([tensor()]),
            f"Module.layer.0.Linear.backward.{number + 4}": {"input": [tensor()], "output": []},
        }
        for number, kind in ((0, "Linear"), (0, "LayerNorm"))
    )
    assert pairs(compared(tmp_path, ours, theirs)) == [
        ("Module.layer.0.Linear.forward.0.input.0", "Module.layer.0.Linear.forward.0.input.0"),
        ("Module.layer.1.Linear.forward.0.input.0", None),
        ("Module.layer.0.Linear.backward.4.input.0", "Module.layer.0.Linear.backward.4.input.0"),
        (None, "Module.layer.1.LayerNorm.forward.0.input.0"),
    ]


def test_results_that_a_join_disordered_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that spills to the disk may give its rows in another order."""
    bundled = resources.sql

    def disordered(name: str) -> str:
        return f"FROM ({bundled(name)}) ORDER BY row DESC" if name == "compare/results" else bundled(name)

    monkeypatch.setattr(resources, "sql", disordered)
    data = {f"Torch.fw.{number}.forward": call([tensor()]) for number in range(3)}
    rows = compared(tmp_path, data, data)
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert [row["target_op"] for row in rows] == list(data)


@pytest.mark.parametrize(("suffix", "other"), [("", ""), ("", ".0"), (".0", ""), (".2", ".2")])
def test_parameter_gradients_with_and_without_number(tmp_path: Path, suffix: str, other: str) -> None:
    """26.x numbers them, earlier releases do not."""
    stem = "Module.fc.Linear.parameters_grad"
    ours, theirs = ({stem + end: {"weight": [tensor()], "bias": [tensor()]}} for end in (suffix, other))
    assert pairs(compared(tmp_path, ours, theirs)) == [
        (f"{stem}{suffix}.weight", f"{stem}{other}.weight"), (f"{stem}{suffix}.bias", f"{stem}{other}.bias"),
    ]  # fmt: skip


def test_keys_with_dots_whose_slots_meet(tmp_path: Path) -> None:
    """`a.b` as one key and as two give the same row name; they pair in order and never cross."""
    meeting = {"input_args": [{"a.b": tensor(1.0), "a": {"b": tensor(2.0)}}], "input_kwargs": {}, "output": []}
    rows = compared(tmp_path, {"Torch.f.0.forward": meeting}, {"Torch.f.0.forward": meeting})
    assert pairs(rows) == [("Torch.f.0.forward.input.0.a.b",) * 2] * 2
    assert [(row["target_row"], row["golden_row"], row["difference"]) for row in rows] == [
        (0, 0, "equal"), (1, 1, "equal")
    ]  # fmt: skip


def test_keyword_arguments_and_positions(tmp_path: Path) -> None:
    ours = {"Torch.f.0.forward": {"input_args": [tensor()], "input_kwargs": {"dim": scalar(1)}, "output": [tensor()]}}
    theirs = {"Torch.f.0.forward": {"input_args": [tensor(), scalar(1)], "input_kwargs": {}, "output": [tensor()]}}
    name = "Torch.f.0.forward"
    assert pairs(compared(tmp_path, ours, theirs)) == [
        (f"{name}.input.0", f"{name}.input.0"), (f"{name}.input.dim", None),
        (f"{name}.output.0", f"{name}.output.0"), (None, f"{name}.input.1"),
    ]  # fmt: skip


def test_rows_of_golden_only_stand_at_the_end_in_their_order(tmp_path: Path) -> None:
    ours = {f"Torch.{name}.0.forward": call([tensor()]) for name in "dbx"}
    theirs = {f"Torch.{name}.0.forward": call([tensor()]) for name in "ybdza"}
    assert [(row["row"], row["target_row"], row["golden_row"]) for row in compared(tmp_path, ours, theirs)] == [
        (0, 0, 2), (1, 1, 1), (2, 2, None), (3, None, 0), (4, None, 3), (5, None, 4),
    ]  # fmt: skip


def test_an_op_without_rows_and_an_empty_dump(tmp_path: Path) -> None:
    rows = compared(tmp_path, {"Torch.f.0.forward": call([])}, {"Torch.f.0.forward": call([tensor()])})
    assert pairs(rows) == [(None, "Torch.f.0.forward.input.0")]
    assert compared(tmp_path / "none", {}, {}) == []


# ---- laws over random dumps -------------------------------------------------------------------------------

LEAVES = st.sampled_from([
    tensor(1.0), tensor(1.0000001), tensor(2.0), tensor(float("nan")), tensor(None), tensor(1, dtype="torch.int64"),
    tensor(shape=[2, 2]), tensor(requires_grad=True), scalar(1), scalar("a"), None,
    {"type": "slice", "value": [0, 1, None]}, {"a.b": scalar(1), "a": {"b": scalar(2)}}, [tensor(), [scalar(2.0)]], [],
])  # fmt: skip
NAMES = st.sampled_from([
    "Torch.f.0.forward", "Torch.f.1.forward", "Torch.empty.0.forward", "Torch.f.0.backward", "Torch.f.5.backward",
    "Module.m.0.M.forward.0", "Module.m.0.M.backward.1", "Distributed.recv.0.forward", "odd",
])  # fmt: skip
CALLS = st.builds(call, st.lists(LEAVES, max_size=3), st.lists(LEAVES, max_size=2))
GRADIENTS = st.dictionaries(
    st.sampled_from(["Module.m.0.M.parameters_grad", "Module.m.0.M.parameters_grad.0"]),
    st.just({"weight": [tensor()]}), max_size=1,
)  # fmt: skip
DUMPS = st.builds(lambda ops, gradients: ops | gradients, st.dictionaries(NAMES, CALLS, max_size=7), GRADIENTS)


@given(DUMPS, DUMPS)
@settings(max_examples=examples(8), deadline=None)
def test_every_row_of_both_sides_ends_once(target: Data, golden: Data) -> None:
    with tempfile.TemporaryDirectory() as name, lakeprobe.open(Path(name) / "lake", create=True) as lake:
        folders = write_dump(Path(name) / "ours", target), write_dump(Path(name) / "theirs", golden)
        result = lake.compare(*folders)
        rows = results(lake.path, result.name)
        sizes = dict(lake.sql("SELECT run, tensor_rows FROM dumps").fetchall())
        assert [row["row"] for row in rows] == list(range(len(rows)))
        for side, run in (("target", "ours"), ("golden", "theirs")):
            taken = [row[f"{side}_row"] for row in rows if row[f"{side}_row"] is not None]
            assert sorted(taken) == list(range(sizes[run]))
            assert taken == sorted(taken) or side == "golden"
        outcomes = result.summary().outcomes
        assert sum(outcome.target_rows for outcome in outcomes) == sizes["ours"]
        assert sum(outcome.golden_rows for outcome in outcomes) == sizes["theirs"]
        by_verdict = Counter(row["verdict"] for row in rows)
        assert {verdict: result.summary().count(verdict) for verdict in by_verdict} == by_verdict
        assert audits.run(lake.sql) == []


@given(DUMPS)
@settings(max_examples=examples(5), deadline=None)
def test_a_dump_differs_in_nothing_from_itself(data: Data) -> None:
    with tempfile.TemporaryDirectory() as name:
        rows = compared(Path(name), data, data)
    assert {row["difference"] for row in rows} <= {"equal", None}  # None: nothing was recorded of a tensor's values
    assert {row["verdict"] for row in rows} <= {"pass", "skipped"}


def test_the_same_for_any_number_of_processes_and_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def data(rank: int, side: int) -> dict[str, Any]:
        return {
            f"Torch.f{(number * 7919) % 3000}.0.forward": call([tensor(1.0 + number * side)], [tensor(rank)])
            for number in range(3000 - 100 * side)
        }

    for side, run in enumerate(("ours", "theirs")):
        for rank in (0, 1):
            write_dump(tmp_path / run / f"rank{rank}", data(rank, side))
    found = []
    monkeypatch.setattr("lakeprobe.lake.connection._ROWS_PER_THREAD", 1000)
    for number, (jobs, threads) in enumerate(((1, 1), (1, 4), (2, 4))):
        monkeypatch.setattr(run_module, "default_jobs", lambda threads=threads: threads)
        compare(tmp_path / "ours", tmp_path / "theirs", lake=tmp_path / "lake", name=f"c{number}", jobs=jobs)
        found.append([results(tmp_path / "lake", f"c{number}", rank=rank) for rank in (0, 1)])
    assert found[0] == found[1] == found[2]
    for rows in found[0]:
        assert [row["row"] for row in rows] == list(range(len(rows)))
        assert len(rows) == 6000

"""What is collected becomes units of the lake: the same rows as from a dump, whoever is killed when."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import ml_dtypes
import numpy as np
import pytest
import real_dumps
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from replay import DEMO, DUMPS, add_all, ops_of
from sampling import examples

import lakeprobe
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing import unit_sink
from lakeprobe.collect.writing.unit_sink import OPS_PER_BATCH, UnitSink
from lakeprobe.errors import DumpError, LakeError
from lakeprobe.journals import journal, recovery
from lakeprobe.journals.settle import settle
from lakeprobe.lake import audits, compaction, layout, log
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.unit import UnitWriter
from lakeprobe.lake.values import ValuesWriter
from lakeprobe.tensors import content_hash, read_tensor

REAL = [
    DEMO,  # mix
    DUMPS / "cross" / "pt_L1_stat" / "golden" / "step0" / "proc4121",
    DUMPS / "odd_keys_xor" / "step0" / "proc7125",
    DUMPS / "p2p" / "step0" / "rank1",
    DUMPS / "old_1.0.4" / "step0" / "rank",
    DUMPS / "ranks" / "golden" / "step0" / "rank2",
]


def rows(lake: Path, table: str, run: str, step: int = 0, rank: int = 0) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        path = lake / f"run={run}/step={step}/rank={rank}/*/{table}.parquet"
        # stack.json has its own order; the lake numbers stacks as they come
        columns = "* EXCLUDE (began, stack)" if table == "ops" else "*"
        return connection.execute(f"SELECT {columns} FROM read_parquet('{path}', hive_partitioning = false)").fetchall()


def notes(lake: Path, run: str, rank: int = 0, step: int = 0) -> list[str]:
    with duckdb.connect() as connection:
        path = lake / f"run={run}/step={step}/rank={rank}/*/dumps.parquet"
        found: list[tuple[list[str]]] = connection.execute(f"SELECT notes FROM '{path}'").fetchall()
        return found[0][0]


def violations(lake: Path) -> list[Any]:
    with lakeprobe.open(lake, create=True) as opened:
        return audits.run(opened.sql)


def leaf(tensor: NDArray[Any] | None, name: str) -> dict[str, Any]:
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "data_name": name, "tensor": tensor}


def add(sink: UnitSink, op: str, body: Any) -> None:
    sink.add(op, body, parent=None, stack=None)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def sink(lake: Path) -> Iterator[UnitSink]:
    sink = UnitSink(lake, "npu", Settings())
    yield sink
    sink.close()


# ---- rows -------------------------------------------------------------------------------------------------


def test_ops_of_real_dumps_give_the_rows_that_reading_the_dumps_gives(lake: Path, sink: UnitSink) -> None:
    for step, dump in enumerate(REAL):
        sink.begin(step, None)
        add_all(sink, ops_of(dump))
        sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        for step, dump in enumerate(REAL):
            opened.ingest(dump, run=f"dump{step}")
            (key,) = layout.units(lake, f"dump{step}")
            read_step, rank = key.step, key.rank
            for table in ("ops", "tensors"):
                collected, read = rows(lake, table, "npu", step), rows(lake, table, f"dump{step}", read_step, rank)
                assert collected == read, (dump, table)
            frames = (
                "SELECT seq, frames FROM ops LEFT JOIN stacks USING (run, step, rank, stack) "
                "WHERE run = ? AND step = ? ORDER BY seq"
            )
            collected = opened.sql(frames, ["npu", step]).fetchall()
            assert collected == opened.sql(frames, [f"dump{step}", read_step]).fetchall()
    assert violations(lake) == []


def test_a_unit_says_what_it_is(lake: Path) -> None:
    sink = UnitSink(lake, "npu", Settings(level="mix", task="structure", list=("linear",)), framework="mindspore")
    sink.begin(3, 2)
    add(sink, "Torch.add.0.forward", {"output": []})
    sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        row = opened.sql("FROM dumps").to_arrow_table().to_pylist()[0]
    assert (row["run"], row["step"], row["rank"], row["format"]) == ("npu", 3, 2, "lakeprobe")
    assert (row["framework"], row["task"], row["level"], row["ops"]) == ("mindspore", "structure", "mix", 1)
    assert row["notes"] == []
    assert json.loads(row["head"])["settings"]["list"] == ["linear"]


def test_a_step_of_a_long_run_is_in_the_lake_when_it_is_over_not_when_all_are(
    lake: Path, sink: UnitSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_sink, "_MOST_UNBUILT", 0)
    sink.begin(0, 0)
    add_all(sink, ops_of(DEMO))
    sink.end()
    assert not list(lake.glob("run=*"))
    sink.finish()
    deadline = time.monotonic() + 30
    while not layout.has_unit(lake, UnitKey("npu", 0, 0)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(rows(lake, "ops", "npu")) == len(ops_of(DEMO))


def test_a_step_that_begins_again_goes_on(lake: Path, sink: UnitSink) -> None:
    ops = ops_of(DEMO)
    for part in (ops[:10], ops[10:300], ops[300:]):
        sink.begin(0, 0)
        add_all(sink, part)
        sink.end()
    sink.close()
    assert [row[2] for row in rows(lake, "ops", "npu")] == [op for op, _ in ops]
    assert notes(lake, "npu") == []


def test_without_a_rank_the_environment_says_it(lake: Path, monkeypatch: pytest.MonkeyPatch, sink: UnitSink) -> None:
    monkeypatch.setenv("RANK", "5")
    sink.begin(0, None)
    add(sink, "Torch.add.0.forward", {"output": []})
    sink.end()
    sink.close()
    assert layout.has_unit(lake, UnitKey("npu", 0, 5))


def test_a_step_without_ops_is_no_unit(lake: Path, sink: UnitSink) -> None:
    sink.begin(0, 0)
    sink.end()
    sink.close()
    assert not list(lake.glob("run=*"))
    assert not list((lake / ".collecting").iterdir())


def test_values_that_msgpack_cannot_hold_arrive(lake: Path, sink: UnitSink) -> None:
    values = [2**70, -(2**200), float("nan"), float("-inf"), "\ud800", "é", 2**63, True, 1.5]
    sink.begin(0, 0)
    add(sink, "Torch.add.0.forward", {"input_args": [{"type": type(v).__name__, "value": v} for v in values]})
    sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        found = opened.sql("SELECT value FROM tensors ORDER BY row").fetchall()
    expected = [str(2**70), str(-(2**200)), "NaN", "-Infinity", "?", "é", str(2**63), "true", "1.5"]
    assert [value for (value,) in found] == expected


def test_names_and_frames_that_are_not_unicode_arrive_with_question_marks(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/train\udcff.py"])
    sink = UnitSink(lake, "npu", Settings())
    sink.begin(0, 0)
    parent, stack = "Module.a\ud800.Linear.forward.0", ("File /train\udcff.py, line 1, in f, \n x",)
    sink.add("Functional.linear.0.forward", {"output": []}, parent=parent, stack=stack)
    sink.add(parent, {"output": [{"type": "int", "value": 1}]}, parent=None, stack=stack)
    sink.note("of \ud800")
    sink.end()
    sink.close()
    with lakeprobe.open(lake) as opened:
        ops = opened.sql("SELECT op, parent, frames FROM ops JOIN stacks USING (stack) ORDER BY seq").fetchall()
        [(source, said)] = opened.sql("SELECT source, notes FROM dumps").fetchall()
    assert [op[:2] for op in ops] == [
        ("Functional.linear.0.forward", "Module.a?.Linear.forward.0"),
        ("Module.a?.Linear.forward.0", None),
    ]
    assert "/train?.py" in str(ops[0][2])
    assert source.startswith("/train?.py (process ")
    assert said == ["of ?"]


def test_wide_statistics_become_columns_and_arguments_of_such_names_stay_arguments(lake: Path, sink: UnitSink) -> None:
    measured = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "wide": (0.5, 1.0, 0, 1, 2, 3)}
    number = {"type": "int", "value": 3}
    sink.begin(0, None)
    add(sink, "Torch.add.0.forward", {"input_args": [measured], "input_kwargs": {"wide": [number], "dtype": number}})
    sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        columns = "slot, wide_mean, wide_norm, nan_count, posinf_count, neginf_count, zero_count, value"
        assert opened.sql(f"SELECT {columns} FROM tensors ORDER BY row").fetchall() == [
            ("input.0", 0.5, 1.0, 0, 1, 2, 3, None),
            ("input.wide.0", None, None, None, None, None, None, "3"),
            ("input.dtype", None, None, None, None, None, None, "3"),
        ]


def test_an_op_that_cannot_become_rows_is_left_out_and_named(lake: Path, sink: UnitSink) -> None:
    sink.begin(0, 0)
    add(sink, "Torch.add.0.forward", {"output": []})
    add(sink, "Torch.mul.0.forward", {"output": [{"type": "torch.Tensor", "dtype": "torch.int8", "shape": "none"}]})
    add(sink, "Torch.add.0.forward", {"output": []})
    add(sink, "Torch.sub.0.forward", {"output": []})
    sink.end()
    sink.close()
    assert [row[2] for row in rows(lake, "ops", "npu")] == ["Torch.add.0.forward", "Torch.sub.0.forward"]
    assert ["Torch.mul" in note or "Torch.add" in note for note in notes(lake, "npu")] == [True, True]


def test_saved_values_are_debug_points(lake: Path, sink: UnitSink) -> None:
    sink.begin(0, 0)
    add(sink, "loss.0.debug", {"type": "float", "value": 2.5})
    add(sink, "nested.1.debug", [{"a": {"type": "int", "value": 1}}])
    sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        found = opened.sql(
            "SELECT o.kind, o.api, name, value FROM tensors JOIN ops o USING (seq) ORDER BY row"
        ).fetchall()
    assert found == [
        ("debug", "loss", "loss.0.debug", "2.5"),
        ("debug", "nested", "nested.1.debug.0.a", "1"),
    ]


# ---- tensors ----------------------------------------------------------------------------------------------

TENSORS: dict[str, NDArray[Any]] = {
    "floats": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100),
    "same": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100),
    "other_shape": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(100, 10),
    "strided": np.arange(24, dtype=np.int16).reshape(4, 6)[::2, 1::2],
    "fortran": np.asfortranarray(np.arange(12, dtype=np.float64).reshape(3, 4)),
    "big_endian": np.arange(5, dtype=">f4"),
    "scalar": np.array(7, np.int64),
    "empty": np.empty((0, 3), np.float16),
    "bools": np.array([True, False, True]),
    "complex": np.array([1 + 2j, np.nan]),
    "bfloat16": np.arange(6, dtype=np.float32).astype(ml_dtypes.bfloat16),
    "large": np.arange(3_000_000, dtype=np.float32),
}


def test_tensors_are_kept_once_each_under_the_hash_that_ingest_gives(
    lake: Path, sink: UnitSink, tmp_path: Path
) -> None:
    sink.begin(0, 0)
    for number, (name, tensor) in enumerate(TENSORS.items()):
        add(sink, f"Torch.{name}.0.forward", {"input_args": [leaf(tensor, f"{name}.pt")]})
        if number == 4:
            sink.end()  # so that there are several files of values
    sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        found = dict(opened.sql("SELECT data_name, content FROM tensors").fetchall())
        kept = dict(opened.sql("SELECT content, data FROM values").fetchall())
        fields = opened.sql("SELECT DISTINCT fields FROM tensors").fetchall()
    assert fields == [("type dtype shape data_name",)]
    for name, tensor in TENSORS.items():
        if name == "bfloat16":
            assert kept[found["bfloat16.pt"]] == tensor.tobytes()
        else:
            np.save(tmp_path / f"{name}.npy", tensor)
            assert found[f"{name}.pt"] == content_hash(read_tensor(tmp_path / f"{name}.npy")), name
            assert kept[found[f"{name}.pt"]] == tensor.astype(tensor.dtype.newbyteorder("<")).tobytes(), name
    assert found["floats.pt"] == found["same.pt"]
    assert len(kept) == len(TENSORS) - 1
    assert len(list(lake.glob("run=npu/step=0/rank=0/*/values-*.parquet"))) == 3  # the first op has its own
    assert violations(lake) == []


def test_a_tensor_that_is_too_large_is_a_row_without_content(
    lake: Path, sink: UnitSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeprobe.collect.writing.unit_sink.LARGEST_VALUE", 1000)
    sink.begin(0, 0)
    add(sink, "Torch.add.0.forward", {"output": [leaf(np.zeros(1001, np.uint8), "a.pt"), leaf(np.zeros(2), "b.pt")]})
    sink.end()
    sink.close()
    with lakeprobe.open(lake, create=True) as opened:
        found = opened.sql("SELECT content IS NULL, content_problem IS NULL FROM tensors ORDER BY row").fetchall()
    assert found == [(True, False), (False, True)]
    assert len(notes(lake, "npu")) == 1
    assert violations(lake) == []


# ---- what is there already --------------------------------------------------------------------------------


def collected(lake: Path, op: str, step: int = 0, **options: Any) -> None:
    sink = UnitSink(lake, "npu", Settings(), **options)
    sink.claim(step, 0)
    sink.begin(step, 0)
    add(sink, op, {"output": []})
    sink.end()
    sink.close()


def test_a_unit_is_replaced_on_request_only(lake: Path) -> None:
    collected(lake, "Torch.add.0.forward")
    with pytest.raises(LakeError, match=r"has run npu step 0 rank 0 already"):
        collected(lake, "Torch.mul.0.forward")
    collected(lake, "Torch.mul.0.forward", replace=True)
    assert [row[2] for row in rows(lake, "ops", "npu")] == ["Torch.mul.0.forward"]
    assert not list((lake / ".collecting").iterdir())


def test_a_run_goes_on_where_it_stopped_and_not_before(lake: Path) -> None:
    collected(lake, "Torch.add.0.forward", step=3)
    with pytest.raises(LakeError, match=r"has run npu step 3 rank 0 already"):
        collected(lake, "Torch.add.0.forward", step=2)
    collected(lake, "Torch.add.0.forward", step=4)


def test_two_processes_cannot_collect_the_same_unit(lake: Path, sink: UnitSink) -> None:
    sink.begin(0, 0)
    other = UnitSink(lake, "npu", Settings())
    with pytest.raises(LakeError, match=r"another process collects run npu step 0 rank 0"):
        other.begin(0, 0)
    other.begin(0, 1)
    other.close()
    sink.end()


def test_a_full_disk_is_said_once_and_what_was_written_stays(
    lake: Path, sink: UnitSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = ops_of(DEMO)
    sink.begin(0, 0)
    add_all(sink, ops[:OPS_PER_BATCH])
    assert sink._writer is not None
    sink._writer.wait()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.Journal, "write", full)
    with pytest.raises(LakeError, match="No space left"):
        add_all(sink, ops[OPS_PER_BATCH:])
    monkeypatch.undo()
    add_all(sink, ops[2 * OPS_PER_BATCH :])
    sink.end()
    sink.close()
    assert [row[2] for row in rows(lake, "ops", "npu")] == [op for op, _ in ops[:OPS_PER_BATCH]]
    assert notes(lake, "npu")[0].startswith("incomplete")


def test_a_disk_that_is_full_at_the_end_of_a_step_is_said_then_and_closing_still_closes(
    lake: Path, sink: UnitSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    sink.begin(0, 0)
    add(sink, "Torch.add.0.forward", {"output": []})
    add(sink, "Torch.add.1.forward", {"output": [leaf(np.ones(4), "a.pt")]})
    monkeypatch.setattr(ValuesWriter, "close", full)
    with pytest.raises(LakeError, match="No space left"):
        sink.end()
    monkeypatch.undo()
    sink.begin(1, 0)
    add(sink, "Torch.add.0.forward", {"output": [leaf(np.ones(4), "a.pt")]})
    sink.end()
    sink.close()
    assert [len(rows(lake, "ops", "npu", step)) for step in (0, 1)] == [1, 1]
    assert notes(lake, "npu")[0].startswith("incomplete")
    assert notes(lake, "npu", step=1) == []
    assert not list((lake / ".collecting").iterdir())


# ---- killed -----------------------------------------------------------------------------------------------


def replay(lake: Path, run: str, rank: int, ops: int) -> subprocess.Popen[bytes]:
    program = Path(__file__).parent / "replay.py"
    return subprocess.Popen([sys.executable, str(program), str(lake), run, str(rank), str(ops)])


def wait_for_unit(lake: Path, run: str, rank: int, step: int = 0) -> None:
    deadline = time.monotonic() + 60
    while not layout.has_unit(lake, UnitKey(run, step, rank)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_of_four_ranks_one_is_killed_and_loses_less_than_two_batches(lake: Path) -> None:
    ops = ops_of(DEMO)
    killed_after = 4 * OPS_PER_BATCH + 44
    processes = [replay(lake, "npu", rank, killed_after if rank == 2 else -1) for rank in range(4)]
    assert [process.wait() for process in processes] == [0, 0, -signal.SIGKILL, 0]
    wait_for_unit(lake, "npu", 2)  # its builder outlives it
    for rank in (0, 1, 3):
        assert len(rows(lake, "ops", "npu", rank=rank)) == len(ops)
        assert notes(lake, "npu", rank) == []
    left = [row[2] for row in rows(lake, "ops", "npu", rank=2)]
    assert left == [op for op, _ in ops[: len(left)]]
    assert len(left) in (3 * OPS_PER_BATCH, 4 * OPS_PER_BATCH)
    assert notes(lake, "npu", 2)[0].startswith("incomplete")
    assert violations(lake) == []


def test_what_a_killed_process_and_its_builder_leave_is_recovered_later(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_sink, "_MOST_UNBUILT", 0)
    key = UnitKey("npu", 0, 0)
    sink = UnitSink(lake, "npu", Settings())
    sink.begin(0, 0)
    add_all(sink, ops_of(DEMO)[: OPS_PER_BATCH + 5])
    assert sink._builder is not None
    assert sink._writer is not None
    sink._writer.wait()
    torn = ValuesWriter(sink._writer.folder / "unit" / "values-0.parquet")  # it gets no end
    torn.add(4, [memoryview(bytes(4))], lambda: "0" * 32)
    sink._builder.kill()
    sink._builder.communicate()
    assert recovery.recover(lake) == ([], [])  # while it is held nobody touches it
    sink._writer._journal.close()  # as the system does when the process dies
    assert recovery.recover(lake) == ([recovery.Recovered(key, complete=False, ops=OPS_PER_BATCH)], [])
    assert recovery.recover(lake) == ([], [])
    assert not list((lake / ".collecting").iterdir())
    assert [path.name for path in layout.unit_folder(lake, key).glob("values*")] == []
    assert violations(lake) == []
    torn.abandon()


def abandoned(lake: Path, ops: int) -> Path:
    """The folder of a journal whose processes are gone."""
    sink = UnitSink(lake, "npu", Settings())
    sink.begin(0, 0)
    for number in range(ops):
        add(sink, f"Torch.add.{number}.forward", {"output": [leaf(np.full(3, number), f"{number}.pt")]})
        sink.pause()
    sink.give_up()
    return journal.folder_of(lake, UnitKey("npu", 0, 0))


def test_a_builder_that_is_killed_anywhere_is_followed_by_another(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = abandoned(lake, ops=3)
    for target in ("lakeprobe.journals.recovery._link_values", "lakeprobe.lake.staging.publish",
                   "shutil.rmtree"):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(target, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                recovery.build(lake, folder)
    recovery.build(lake, folder)
    assert not folder.exists()
    assert len(rows(lake, "ops", "npu")) == len(rows(lake, "contents", "npu")) == 3
    assert violations(lake) == []


@hypothesis_settings(max_examples=examples(60))
@given(data=st.data())
def test_a_journal_that_ends_anywhere_gives_its_whole_batches(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lake = tmp_path_factory.mktemp("cut") / "lake"
    path = abandoned(lake, ops=4) / "journal"
    content = path.read_bytes()
    whole = list(journal.batches(path))
    ends = [len(content) - length for length in _tail_lengths(content)]
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    found = list(journal.batches(path))
    assert found == whole[: len(found)]
    assert len(found) == max(0, sum(end <= cut for end in ends) - 1)
    made, errors = recovery.recover(lake)
    assert errors == []
    assert [unit.ops for unit in made] == ([len(found)] if found else [])
    assert not list((lake / ".collecting").iterdir())


def _tail_lengths(content: bytes) -> list[int]:
    """How many bytes follow each record."""
    tails, place = [], 0
    while place < len(content):
        place += 8 + int.from_bytes(content[place : place + 8], "little")
        tails.append(len(content) - place)
    return tails


def test_a_command_says_what_it_found_left_behind(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = abandoned(lake, ops=2)
    settle(lake)
    said = capfd.readouterr().err
    assert said.startswith("run npu step 0 rank 0 was left by a process that has ended; it is in the lake now: ")
    assert said.endswith(": incomplete, its first 2 ops\n")
    folder.mkdir()
    (folder / "journal").write_bytes((3).to_bytes(8, "little") + b"\x93\x01\x02")
    settle(lake)
    assert "was written by another release of lakeprobe" in capfd.readouterr().err
    settle(lake / "none")
    assert capfd.readouterr().err == ""


def test_the_unit_of_an_abandoned_step_is_made_before_the_step_is_collected_again(lake: Path) -> None:
    abandoned(lake, ops=2)
    with pytest.raises(LakeError, match="already"):
        collected(lake, "Torch.mul.0.forward")
    assert len(rows(lake, "ops", "npu")) == 2


def test_a_journal_of_another_release_is_left_alone_and_named(lake: Path) -> None:
    folder = abandoned(lake, ops=1)
    (folder / "journal").write_bytes((3).to_bytes(8, "little") + b"\x93\x01\x02")
    made, errors = recovery.recover(lake)
    assert made == []
    assert "another release" in str(errors[0])
    assert (folder / "journal").exists()


def test_an_unwritable_table_fails_that_unit_and_no_other(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = abandoned(lake, ops=1)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(UnitWriter, "write", fail)
    made, errors = recovery.recover(lake)
    assert made == []
    assert "No space left" in str(errors[0])
    monkeypatch.undo()
    assert [unit.ops for unit in recovery.recover(lake)[0]] == [1]
    assert not folder.exists()


# ---- size -------------------------------------------------------------------------------------------------


@real_dumps.needs_dumps
def test_a_step_of_functions_takes_a_twelfth_of_msprobes_bytes(lake: Path, sink: UnitSink) -> None:
    dump = next((real_dumps.DUMPS / "A_pt_lm" / "L1_stat" / "golden" / "step0").iterdir())
    sink.begin(0, 0)
    add_all(sink, ops_of(dump))
    sink.end()
    sink.close()
    msprobe = sum((dump / name).stat().st_size for name in ("dump.json", "stack.json", "construct.json"))
    ours = sum(file.stat().st_size for file in layout.unit_folder(lake, UnitKey("npu", 0, 0)).iterdir())
    assert ours * 12 <= msprobe, msprobe / ours


@pytest.mark.parametrize("steps", [compaction.MANY_UNITS - 1, compaction.MANY_UNITS])
def test_many_small_steps_share_files_once_collecting_has_ended(tmp_path: Path, steps: int) -> None:
    sink = UnitSink(tmp_path / "lake", "many", Settings())
    for step in range(steps):
        sink.begin(step, 0)
        sink.add("Torch.add.0.forward", {"input_args": [{"type": "int", "value": step}]}, parent=None, stack=None)
        sink.end()
    sink.close()
    is_many = steps == compaction.MANY_UNITS
    things = ["run=many/rank=0"] if is_many else [f"run=many/step={step}/rank=0" for step in range(steps)]
    assert sorted(log.read(tmp_path / "lake").places) == sorted(things)
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.sql("SELECT step, rank FROM ops ORDER BY step").fetchall() == [(step, 0) for step in range(steps)]
        assert lake.check() == []


def journaled(lake: Path, steps: range, body: Any = None) -> list[Path]:
    """Journals of complete steps, of which no unit has been made."""
    sink = UnitSink(lake, "many", Settings())
    for step in steps:
        sink.begin(step, 0)
        add(sink, "Torch.add.0.forward", {"input_args": [{"type": "int", "value": step}]})
        add(sink, "Torch.mul.0.forward", {"output": [] if body is None else [body]})
        sink.end()
        sink.finish()
    return [journal.folder_of(lake, UnitKey("many", step, 0)) for step in steps]


def read_values(lake: Path) -> list[tuple[int, str]]:
    with lakeprobe.open(lake) as opened:
        assert opened.check() == []
        return opened.sql("SELECT step, value FROM tensors WHERE value IS NOT NULL ORDER BY step").fetchall()


def test_steps_that_wait_are_made_at_once_and_say_the_same_as_one_by_one(lake: Path, tmp_path: Path) -> None:
    steps = range(compaction.MANY_UNITS)
    folders = journaled(lake, steps)
    made = recovery.build_together(lake, folders)
    assert [(unit.key.step, unit.complete, unit.ops) for unit in made] == [(step, True, 2) for step in steps]
    assert list(log.read(lake).places) == ["run=many/rank=0"]
    assert not list((lake / ".collecting").iterdir())
    alone = tmp_path / "alone"
    for folder in journaled(alone, steps):
        recovery.build(alone, folder)
    queries = [f"SELECT * FROM {table} ORDER BY ALL" for table in ("ops", "tensors", "stacks")]
    queries.append("SELECT * EXCLUDE (source, fingerprint, dump_bytes) FROM dumps ORDER BY step")
    with lakeprobe.open(lake) as together, lakeprobe.open(alone) as apart:
        assert together.check() == []
        for query in queries:
            assert together.sql(query).fetchall() == apart.sql(query).fetchall()
    later = journaled(lake, range(len(steps), 2 * len(steps)))
    assert len(recovery.build_together(lake, later)) == len(steps)
    assert len(log.read(lake).places) == 1 + len(steps)  # the rank is compacted already
    assert read_values(lake) == [(step, str(step)) for step in range(2 * len(steps))]


def test_a_few_steps_that_wait_come_in_one_publication(lake: Path) -> None:
    folders = journaled(lake, range(3))
    assert len(recovery.build_together(lake, folders)) == 3
    assert sorted(log.read(lake).places) == [f"run=many/step={step}/rank=0" for step in range(3)]
    assert len(list((lake / "log").iterdir())) == 2  # one of them made the lake
    assert read_values(lake) == [(step, str(step)) for step in range(3)]


def test_steps_that_a_killed_builder_left_come_together_by_rank_and_one_that_is_held_stays(lake: Path) -> None:
    folders = journaled(lake, range(4))
    other = UnitSink(lake, "many", Settings())
    for step in range(2):
        other.begin(step, 1)
        add(other, "Torch.add.0.forward", {"output": []})
        other.end()
        other.finish()
    with journal.taken(folders[3], wait=False) as held:
        assert held is not None
        made, errors = recovery.recover(lake)
    assert errors == []
    assert [(unit.key.step, unit.key.rank) for unit in made] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
    said = [json.loads(path.read_text())["what"] for path in sorted((lake / "log").iterdir())]
    assert said[1:] == ["collect 3 steps of run=many/rank=0", "collect 2 steps of run=many/rank=1"]
    assert [path.name for path in (lake / ".collecting").iterdir()] == [folders[3].name]


@pytest.mark.parametrize(
    ("odd", "together"), [("contents", []), ("known", []), ("other rank", []), ("without ops", [0, 1, 2])]
)
def test_steps_that_are_not_alike_are_made_one_by_one(lake: Path, odd: str, together: list[int]) -> None:
    body = leaf(np.ones(3, np.float32), "a.pt") if odd == "contents" else None
    folders = journaled(lake, range(3), body)
    sink = UnitSink(lake, "many", Settings())
    if odd == "known":
        recovery.build(lake, folders[0])
        journaled(lake / "other", range(1))
        (lake / "other" / ".collecting" / folders[0].name).rename(folders[0])
    if odd in ("other rank", "without ops"):
        key = UnitKey("many", 7, int(odd == "other rank"))
        sink.begin(key.step, key.rank)
        if odd == "other rank":
            add(sink, "Torch.add.0.forward", {"output": []})
        sink.end()
        sink.finish()
        folders.append(journal.folder_of(lake, key))
    assert [unit.key.step for unit in recovery.build_together(lake, folders)] == together
    assert [folder.exists() for folder in folders] == [not together] * len(folders)
    recovery.recover(lake)
    assert len(layout.units(lake)) == 3 + (odd == "other rank")
    assert not list((lake / ".collecting").iterdir())


def test_a_damaged_journal_fails_alone(lake: Path) -> None:
    folders = journaled(lake, range(4))
    (folders[2] / "journal").write_bytes((3).to_bytes(8, "little") + b"\x93\x01\x02")
    with pytest.raises(DumpError, match="another release"):
        recovery.build_together(lake, folders)
    program = [sys.executable, "-m", recovery.__name__, str(lake)]
    built = subprocess.run(program, input="".join(f"{path}\n" for path in folders), capture_output=True, text=True)
    assert built.stderr.count("another release") == 1
    assert built.returncode != 0
    assert read_values(lake) == [(0, "0"), (1, "1"), (3, "3")]
    assert folders[2].exists()


def test_a_step_of_a_process_that_goes_on_is_not_called_left_behind(
    lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    journaled(lake, range(2))
    settle(lake)
    assert capfd.readouterr().err == ""
    assert len(layout.units(lake)) == 2


def test_the_first_step_is_due_at_once_and_the_rest_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_MOST_WAITING", 3)
    lines: recovery.SimpleQueue[str] = recovery.SimpleQueue()
    for line in [*"abcdefg", ""]:
        lines.put(line)
    assert [[path.name for path in due] for due in recovery._due(lines)] == [["a"], ["b", "c", "d"], ["e", "f", "g"]]
    monkeypatch.setattr(recovery, "LONGEST_WAIT", 0.0)
    lines.put("a")
    lines.put("b")
    due = recovery._due(lines)
    assert [[path.name for path in next(due)] for _ in "ab"] == [["a"], ["b"]]  # b may be running: it is waited for
    lines.put("")
    assert list(due) == []


def collect_steps(sink: UnitSink, steps: range) -> None:
    for step in steps:
        sink.begin(step, 0)
        add(sink, "Torch.add.0.forward", {"input_args": [{"type": "int", "value": step}]})
        sink.end()


def test_a_short_run_is_built_when_it_ends_without_a_process_of_its_own(lake: Path) -> None:
    with patch.object(subprocess, "Popen", side_effect=AssertionError("a process was started")):
        sink = UnitSink(lake, "many", Settings())
        collect_steps(sink, range(3))
        assert layout.units(lake) == []
        sink.close()
    assert read_values(lake) == [(0, "0"), (1, "1"), (2, "2")]
    assert violations(lake) == []


def test_a_command_builds_the_steps_that_have_ended_while_a_short_run_goes_on(lake: Path) -> None:
    sink = UnitSink(lake, "many", Settings())
    collect_steps(sink, range(2))
    assert read_values(lake) == [(0, "0")]
    collect_steps(sink, range(2, 4))
    sink.close()
    assert read_values(lake) == [(step, str(step)) for step in range(4)]
    assert violations(lake) == []


@pytest.mark.parametrize(
    ("limit", "value", "started"),
    [
        ("_MOST_UNBUILT", 2, [False, False, True, True]),
        ("LARGEST_PORTION", 1, [False, True, True, True]),
        ("LONGEST_WAIT", 0.0, [True] * 4),
    ],
)
def test_a_process_beside_builds_a_long_run(
    lake: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, started: list[bool]
) -> None:
    monkeypatch.setattr(unit_sink, limit, value)
    sink = UnitSink(lake, "many", Settings())
    found = []
    for step in range(4):
        collect_steps(sink, range(step, step + 1))
        found.append(sink._builder is not None)
    assert found == started
    wait_for_unit(lake, "many", 0)
    sink.close()
    assert read_values(lake) == [(step, str(step)) for step in range(4)]
    assert violations(lake) == []


def test_a_large_step_is_built_by_a_process_beside(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sink, "LARGEST_PORTION", 1)
    sink = UnitSink(lake, "many", Settings())
    collect_steps(sink, range(1))
    assert sink._builder is None
    with patch.object(recovery, "build_all", side_effect=AssertionError("built here")):
        sink.close()
    assert read_values(lake) == [(0, "0")]


def test_where_no_process_can_be_started_the_units_are_built_at_the_end(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_sink, "_MOST_UNBUILT", 0)
    sink = UnitSink(lake, "many", Settings())
    with patch.object(subprocess, "Popen", side_effect=OSError("no more processes")):
        collect_steps(sink, range(2))
        sink.close()
    assert read_values(lake) == [(0, "0"), (1, "1")]


def test_a_step_that_cannot_be_built_keeps_no_other_away(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = UnitSink(lake, "many", Settings())
    collect_steps(sink, range(3))
    damaged = journal.folder_of(lake, UnitKey("many", 1, 0)) / "journal"
    damaged.write_bytes(damaged.read_bytes()[:8] + b"\xc1" * (damaged.stat().st_size - 8))
    sink.close()
    assert [unit.step for unit in layout.units(lake)] == [0, 2]
    assert str(damaged) in capsys.readouterr().err
    assert damaged.exists()


CONTINUED = """
import atexit, sys
from pathlib import Path
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing.unit_sink import UnitSink

lake, first, last = sys.argv[1:]
sink = UnitSink(Path(lake), "many", Settings())
atexit.register(lambda: print(*(module for module in ("pandas", "duckdb") if module in sys.modules)))
atexit.register(sink.close)
for step in range(int(first), int(last)):
    sink.begin(step, 0)
    sink.add("Torch.add.0.forward", {"input_args": [{"type": "int", "value": step}]}, parent=None, stack=None)
    sink.end()
"""


def test_a_program_that_only_ends_has_its_units_and_puts_many_together(lake: Path) -> None:
    """Python calls close when its threads have ended, and modules that start some cannot be imported any more.

    A training does not wait for pandas and DuckDB to be imported, unless files are put together.
    """
    many = compaction.MANY_UNITS
    for first, last in ((0, many), (many, 2 * many)):
        arguments = map(str, (lake, first, last))
        ended = subprocess.run([sys.executable, "-c", CONTINUED, *arguments], capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout == "\n" or first > 0
    assert read_values(lake) == [(step, str(step)) for step in range(2 * many)]
    assert list(log.read(lake).places) == ["run=many/rank=0"]

"""Journals that are read by skeletons have the rows of those that are read op by op."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay import DEMO, add_all, ops_of

import lakeprobe
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing.unit_sink import UnitSink
from lakeprobe.journals import journal, recovery, repeats
from lakeprobe.journals.ops import Skeletons, split
from lakeprobe.journals.repeats import _MOST_MISSES, Repeats, UnitTables, _Places

NUMBERS = (0.5, -2.0, 3, None, True, math.nan, -math.inf, 2**53, -(2**40), 200, 70000, -3, 1e-320)


def tensor(step: int, *, wide: Any = None, md5: str | None = None, shape: tuple[int, ...] = (2, 3)) -> dict[str, Any]:
    """The leaf of a tensor, whose statistics and wide statistics are others in each step."""
    statistics = (NUMBERS[(step + place) % len(NUMBERS)] for place in range(4))
    leaf: dict[str, Any] = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape)}
    leaf |= dict(zip(("Max", "Min", "Mean", "Norm"), statistics, strict=True)) | {"requires_grad": False}
    return leaf | ({} if md5 is None else {"md5": md5}) | ({} if wide is None else {"wide": wide})


def scalar(value: Any) -> dict[str, Any]:
    return {"type": type(value).__name__, "value": value}


def written(lake: Path, steps: int, *bodies: Any, op: str = "Torch.add.{}.forward") -> list[Path]:
    """The journals of steps. A body is a function of the step."""
    sink = UnitSink(lake, "run", Settings())
    folders = []
    for step in range(steps):
        sink.begin(step, 0)
        for number, body in enumerate(bodies):
            stack = (f"File a.py, line {number}, in f, \n g()",)
            sink.add(op.format(number), body(step), parent="Module.a.A.forward.0", began=number, stack=stack)
        sink.end()
        assert sink._writer is not None
        folders.append(sink._writer.folder)
        sink.finish()
    return folders


def read(folders: list[Path], skeletons: Skeletons | None) -> list[Any]:
    """The rows of the tables of each journal, and its row of dumps."""
    found = []
    for folder in folders:
        head = journal.head(folder / "journal")
        assert head is not None
        row, tables = recovery._tables_of(folder / "journal", head, skeletons)
        found.append((row, contents(tables)))
    return found


def contents(tables: UnitTables) -> dict[str, str]:
    """The rows of each table as text, because NaN is not equal to itself."""
    return {name: repr([row for batch in tables[name] for row in batch.to_pylist()]) for name in sorted(tables)}


def taken(folders: list[Path]) -> list[bool]:
    """Whether each batch of ops was taken by skeletons. All rows are as without them."""
    asked: list[bool] = []
    take = Skeletons.take

    def noting(*args: Any) -> bool:
        asked.append(take(*args))
        return asked[-1]

    skeletons = Skeletons()
    with patch.object(Skeletons, "take", noting):
        by_skeletons = read(folders, skeletons)
    assert by_skeletons == read(folders, None)
    return asked


BODIES = {
    "statistics of every kind": lambda step: {"input_args": [tensor(step), tensor(step + 1)], "output": [tensor(3)]},
    "wide statistics": lambda step: {
        "output": [tensor(step, wide=(None, 1.5 * step, 0, step, 300 * step, None)), tensor(step)]
    },
    "a scalar that changes": lambda step: {"input_args": [scalar(0.1 * step), scalar(step), scalar("0.5")]},
    "a digest": lambda step: {"output": [tensor(step, md5=f"{step:08x}")]},
    "empty containers and null": lambda step: {"input_args": [[], None, {"a": []}], "output": [tensor(step)]},
    "a point-to-point operation": lambda step: {
        "input_args": [{"class_type": "torch.distributed.P2POp", "tensor": tensor(step), "op": "isend", "peer": step}]
    },
    "shapes like marks": lambda step: {"output": [tensor(step, shape=(193, 111, 112, 193))]},
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", BODIES)
def test_ops_of_every_kind_are_taken_with_the_same_rows(tmp_path: Path, kind: str) -> None:
    assert all(taken(written(tmp_path, len(NUMBERS), BODIES[kind], lambda step: {"output": [tensor(step)]})))


def test_gradients_of_parameters_are_taken_with_the_same_rows(tmp_path: Path) -> None:
    op = "Module.a.A.parameters_grad.{}"
    assert all(taken(written(tmp_path, 3, lambda step: {"weight": [tensor(step)], "b.c": [tensor(1)]}, op=op)))


def test_text_that_looks_like_numbers_or_marks_is_text(tmp_path: Path) -> None:
    odd = "£Max\0£Min\0¤Mean\0¤Norm\0 ¥value\0 ¤wide"
    assert not any(taken(written(tmp_path, 2, lambda _: {"input_args": [scalar(odd), scalar("0.015625"), scalar(1)]})))


@pytest.mark.parametrize(
    "body",
    [
        lambda step: {"output": [scalar(2**70 + step)]},
        lambda step: {"output": [tensor(step) | {"Max": 2**53 + 1}]},
    ],
)
def test_what_is_unusual_is_read_op_by_op(tmp_path: Path, body: Any) -> None:
    assert not any(taken(written(tmp_path, 2, body)))


def repeated(folders: list[Path]) -> list[bool]:
    """Whether each step was read as one that repeats an earlier one. All rows are as when each is read by itself."""
    found: list[bool] = []
    of = Repeats.of

    def noting(*args: Any) -> Any:
        result = of(*args)
        found.append(result is not None)
        return result

    journals = [(folder / "journal", journal.head(folder / "journal")) for folder in folders]
    with patch.object(Repeats, "of", noting):
        together = [(row, contents(tables)) for _, _, row, tables in recovery._read_alike(journals, Repeats())]  # type: ignore[arg-type]
    assert together == read(folders, None)
    return found


def test_steps_that_differ_in_their_numbers_only_are_not_read_by_ops(tmp_path: Path) -> None:
    folders = written(
        tmp_path,
        4,
        lambda step: {
            "input_args": [tensor(step) | {"Max": 0.5 * step, "Min": 7.0, "Mean": None, "Norm": -0.0}],
            "output": [tensor(0) | {"Max": step, "Min": -300 * step, "Mean": None, "Norm": None}, scalar(step)],
        },
        lambda step: {
            "input_args": [scalar(0.1 * step), scalar("0.5"), scalar(True)],
            "output": [tensor(0, wide=(None, 1.5 * step, 0, step, 300 * step, None if step else 1))],
        },
    )
    assert repeated(folders) == [False, True, True, True]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda step: {"output": [tensor(0) | {"Max": 1 if step == 2 else 1.0}]}, [False, True, False, False]),
        (lambda step: {"output": [tensor(0) | {"Max": True}]}, [False] * 4),
        (lambda step: {"output": [tensor(0) | {"Max": math.nan}]}, [False] * 4),
        (lambda step: {"output": [tensor(0, shape=(1 + step // 2,))]}, [False, True, False, True]),
        (lambda step: {"output": [tensor(0)] * (1 + step // 2)}, [False, True, False, True]),
        (lambda step: {"output": [tensor(0, md5=f"{step // 2:08x}")]}, [False, True, False, True]),
    ],
)
def test_steps_that_differ_in_more_are_read_by_ops(tmp_path: Path, body: Any, expected: list[bool]) -> None:
    assert (
        repeated(written(tmp_path, 4, lambda step: {"input_args": [tensor(0) | {"Min": 0.5 * step}]}, body)) == expected
    )


def splits(folders: list[Path]) -> int:
    """How many journals are split to find their numbers. All rows are as when each is read by itself."""
    with patch.object(repeats, "split", wraps=split) as splitting:
        repeated(folders)
    return splitting.call_count


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (lambda step: 1.5**step, 1),
        (lambda step: math.nan if step % 2 else -0.0, 1),
        (lambda step: 128 + step, 1),
        (lambda step: 7 * step, 1),
        (lambda step: -200 - step, 1),
        (lambda step: -(2**40) - step, 1),
        (lambda step: 120 + 4 * step, 2),
        (lambda step: step % 2 * 1000, 9),
        (lambda step: step / 2 if step < 2 else step, 2),
    ],
)
def test_numbers_of_the_same_type_are_read_by_their_places(tmp_path: Path, number: Any, expected: int) -> None:
    folders = written(
        tmp_path,
        9,
        lambda step: {"input_args": [scalar("Max"), scalar(number(step))]},
        lambda step: {"output": [tensor(0, wide=(None, number(step), 0, 200 + step, 300, None))]},
    )
    assert splits(folders) == expected


def test_places_are_given_up_where_they_change_all_the_time(tmp_path: Path) -> None:
    folders = written(tmp_path, 9, lambda step: {"output": [scalar(1000 * (step % 2))]})
    with patch.object(repeats, "_Places", wraps=_Places) as made:
        repeated(folders)
    assert made.call_count == _MOST_MISSES


ANY_NUMBER = st.one_of(
    st.floats(), st.integers(-(2**63), 2**64 - 1), st.integers(-130, 260), st.booleans(), st.none(), st.just(127)
)


@given(st.lists(st.tuples(ANY_NUMBER, ANY_NUMBER), min_size=1, max_size=12))
def test_places_give_the_numbers_of_a_split_or_nothing(numbers: list[tuple[Any, Any]]) -> None:
    first, second = (
        b"\xc1".join(
            [
                msgspec.msgpack.encode({"value": one[side], "Max": one[side]} | tensor(0, wide=(one[side],) * 6))
                for one in numbers
            ]
        )
        for side in (0, 1)
    )
    found = _Places(first, *split(first)).read(second)
    assert found is None or repr(found) == repr(split(second))
    is_alike = all(len({*map(_width, pair)}) == 1 for pair in numbers)
    assert (found is not None) is is_alike


def _width(number: Any) -> Any:
    """What msgpack says of a number besides its own bytes. What has none of its own is told from all others."""
    encoded = msgspec.msgpack.encode(number)
    return "small" if encoded[0] < 0x80 else encoded[0]


def test_steps_whose_ops_came_again_are_read_by_ops(tmp_path: Path) -> None:
    sink = UnitSink(tmp_path, "run", Settings())
    folders = []
    for step in range(3):
        sink.begin(step, 0)
        for number, again in ((1.0, False), (2.0, True)):
            leaves = {"input": [tensor(0) | {"Max": number * step}]}
            sink.add("Torch.tanh.0.backward", leaves, parent=None, began=0, stack=None, again=again)
        sink.end()
        assert sink._writer is not None
        folders.append(sink._writer.folder)
        sink.finish()
    assert repeated(folders) == [False] * 3


def test_a_saved_value_has_its_rows(tmp_path: Path) -> None:
    taken(written(tmp_path, 3, lambda step: {"a": tensor(step), "b": [scalar(0.5)]}, op="loss.{}.debug"))


def test_a_recorded_step_has_its_rows(tmp_path: Path) -> None:
    sink = UnitSink(tmp_path, "run", Settings())
    folders = []
    for step in range(2):
        sink.begin(step, 0)
        add_all(sink, ops_of(DEMO))
        sink.end()
        assert sink._writer is not None
        folders.append(sink._writer.folder)
        sink.finish()
    assert all(taken(folders))


def test_units_share_no_numbers_of_places_whose_names_are_alike(tmp_path: Path) -> None:
    """Which of two places with one name comes first differs from step to step, and so does its number."""
    nested, dotted = {"a": {"b": tensor(1)}}, {"a.b": tensor(1)}
    folders = written(tmp_path, 2, lambda step: {"input_kwargs": [nested, dotted][step]})
    assert len(recovery.build_together(tmp_path, folders)) == 2
    with lakeprobe.open(tmp_path) as opened:
        assert opened.sql("SELECT DISTINCT repeat FROM tensors").fetchall() == [(0,)]


def test_an_op_that_came_again_is_where_its_last_numbers_came(tmp_path: Path) -> None:
    """Backward went through the ops again. The second record is in the same batch or not."""
    sink = UnitSink(tmp_path, "run", Settings())
    sink.begin(0, 0)

    def add(op: str, number: float, *, again: bool = False, began: int | None = None) -> None:
        sink.add(op, {"input": [scalar(number)]}, parent=None, began=began, stack=None, again=again)

    add("Torch.tanh.0.backward", 1.0, began=0)
    add("Module.a.A.backward.0", 2.0, began=1)
    add("Torch.sin.0.backward", 3.0, began=2)
    add("Torch.sin.0.backward", 4.0, again=True, began=3)
    sink.pause()
    add("Module.a.A.backward.0", 5.0, again=True, began=4)
    add("Torch.tanh.0.backward", 6.0, again=True, began=5)
    add("Torch.tanh.0.backward", 7.0, again=True, began=6)
    add("Torch.cos.0.backward", 8.0, began=7)
    sink.end()
    sink.close()
    with lakeprobe.open(tmp_path) as opened:
        found = opened.sql(
            "SELECT op, value, began FROM ops JOIN tensors USING (run, step, rank, seq, op) ORDER BY seq"
        ).fetchall()
        complete = opened.sql("SELECT complete, notes FROM dumps").fetchall()
    assert found == [
        ("Torch.sin.0.backward", "4.0", 3),
        ("Module.a.A.backward.0", "5.0", 4),
        ("Torch.tanh.0.backward", "7.0", 6),
        ("Torch.cos.0.backward", "8.0", 7),
    ]
    assert complete == [(True, [])]

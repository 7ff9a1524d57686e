"""A dump that is read by skeletons has the rows, or the error, of one that is read entry by entry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from dump_oracle import read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import damaged, damages
from real_dumps import DUMPS

from lakeprobe.errors import DumpError
from lakeprobe.readers import dump, members, skeletons
from lakeprobe.readers.skeletons import Skeletons

BUNDLED = Path(__file__).parent.parent / "data" / "dumps"
PATTERNS = (
    "A_variants/*/step0/rank0", "A_pt_lm/*/golden/step0/*", "B_pt_dist/*/golden/step0/rank1", "C_cross/*/*/step0/rank*",
    "E_overflow/*/*/golden/step0/rank0", "G_old_versions/*/*/golden/step0/rank*", "resnet_gpu/step0/rank0",
)  # fmt: skip
FOLDERS = sorted({
    *(path.parent for pattern in PATTERNS for path in DUMPS.glob(f"{pattern}/dump.json")),
    *(path.parent for path in BUNDLED.rglob("dump.json")),
})  # fmt: skip
TAKE = Skeletons.take


def rows(folder: Path) -> str:
    """All that is read of `folder`, or the message; as a text, in which NaN is equal to NaN, and -0.0 is not 0.0."""

    def content_of(file: Any) -> tuple[str | None, str | None]:
        return (f"content of {file}", None) if "input" in str(file) else (None, "missing")

    try:
        return repr(read(folder, content_of))
    except DumpError as error:
        return str(error)


@contextmanager
def no_skeletons() -> Iterator[None]:
    with patch.object(Skeletons, "take", lambda self, text: False):
        yield


@contextmanager
def small_blocks(size: int) -> Iterator[list[int]]:
    """Blocks of so many bytes; the list gets the entries of each block that is taken."""
    taken: list[int] = []

    def take(self: Skeletons, text: bytes) -> bool:
        is_taken = TAKE(self, text)
        taken.extend([text.count(skeletons.SEPARATOR) + 1] * is_taken)
        return is_taken

    sizes = patch.multiple(members, _BLOCK=size, _LARGE_BLOCK=size)
    with sizes, patch.object(skeletons, "_LONGEST_PAUSE", 0), patch.object(Skeletons, "take", take):
        yield taken


@pytest.mark.sampled
@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_dumps(folder: Path) -> None:
    by_skeletons = rows(folder)
    with no_skeletons():
        assert by_skeletons == rows(folder)


# ---- made dumps -------------------------------------------------------------------------------------------

NUMBERS = (0.5, -1.25, 0.0, -0.0, 1e300, 1e-300, 3.0517578125e-05, 1e16, float("nan"), float("inf"), float("-inf"))
STATISTIC = st.sampled_from((*NUMBERS, *NUMBERS, *NUMBERS, 0, 7, -3, 2**53, 2**53 + 1, 2**70, None, True, "0.5", "nan"))
FLOATS = st.floats(-1e6, 1e6)


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, Any]:
    statistic = STATISTIC if draw(st.integers(0, 9)) == 0 else FLOATS
    leaf = {"type": "torch.Tensor", "dtype": draw(st.sampled_from(("torch.float32", "torch.int64"))), "shape": [2, 3]}
    leaf |= {key: draw(statistic) for key in ("Max", "Min", "Mean", "Norm")} | {"requires_grad": True}
    if draw(st.booleans()):
        leaf["md5"] = draw(st.sampled_from(("0a1b2c3d", "ffffffff", "", "lakeprobe-0", "\u00e4")))
    if draw(st.integers(0, 3)) == 0:
        leaf["data_name"] = draw(st.sampled_from(("x.input.0.pt", "y.output.0.npy", "lakeprobe-0", "..", "a/b", 'q"')))
    return leaf


@st.composite
def entries(draw: st.DrawFn) -> Any:
    leaf, other = draw(tensors()), draw(tensors())
    scalar = {"type": "int", "value": 3, "Max": 0.5, "Min": 0.25, "Mean": 0.125, "Norm": 0.0625}
    return draw(st.sampled_from((
        {"input_args": [leaf, other], "input_kwargs": {"dim": {"type": "int", "value": -1}}, "output": [leaf]},
        {"output": [leaf], "input_args": [other, None, [], scalar], "is_recompute": True},
        {"input": [leaf], "output": [{"class_type": "torch.distributed.P2POp", "tensor": other, "peer": 1}]},
        {"input_args": [leaf], "input_kwargs": {"a.b": leaf, "a": {"b": [other, 0.5]}}, "else": {"Max": 0.5}},
        {"weight": [leaf], "bias": [other]},
        [leaf],
    )))  # fmt: skip


NAME = st.sampled_from((
    "Torch.add.{}.forward", "Module.layers.{}.Linear.forward.0", "Module.layers.{}.Linear.parameters_grad", "odd {}",
    "Torch.\u00e4.{}.backward", 'Torch."{}', "Torch.add.{}.forward",
))  # fmt: skip


@st.composite
def dumps(draw: st.DrawFn) -> bytes:
    kinds = draw(st.lists(st.tuples(NAME, entries()), min_size=1, max_size=4))
    data: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 30))):
        name, entry = draw(st.sampled_from(kinds))
        data[name.format(number)] = json.loads(json.dumps(entry))
    head = {"task": "statistics", "level": "mix", "framework": "pytorch"}
    tail = {"more": {"Torch.add.0.forward": {}, "b": 1}} if draw(st.booleans()) else {}
    return json.dumps({**head, "data": data, **tail}, indent=1, ensure_ascii=draw(st.booleans())).encode()


@given(dumps(), st.one_of(st.just([]), damages(4000)), st.sampled_from((700, 3000, 1 << 16)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_made_dumps(tmp_path: Path, whole: bytes, spans: list[Any], size: int) -> None:
    (tmp_path / dump.DUMP_FILE).write_bytes(damaged(whole, spans))
    with small_blocks(size):
        by_skeletons = rows(tmp_path)
    with no_skeletons():
        assert by_skeletons == rows(tmp_path)


def leaf(maximum: Any, **others: Any) -> dict[str, Any]:
    statistics = {"Max": maximum, "Min": -1.5, "Mean": 0.5, "Norm": 2.5}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]} | statistics | others


def written(folder: Path, data: dict[str, Any]) -> Path:
    head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    (folder / dump.DUMP_FILE).write_text(json.dumps({**head, "data": data}, indent=1))
    return folder


def test_blocks_are_taken_as_a_whole(tmp_path: Path) -> None:
    data = {f"Torch.add.{n}.forward": {"input_args": [leaf(n / 3, md5=f"{n:x}")]} for n in range(200)}
    with small_blocks(4000) as taken:
        result = read(written(tmp_path, data))
    assert sum(taken) > 150
    assert [row["max"] for row in result.tensors] == [n / 3 for n in range(200)]
    assert [row["digest"] for row in result.tensors] == [f"{n:x}" for n in range(200)]
    assert [op["first_row"] for op in result.ops] == list(range(200))


@pytest.mark.parametrize("odd", [{"md5": "lakeprobe-0"}, {"tag": 1, "Max": 0.5, "Min": 0.25, "Mean": 0.125}])
def test_what_looks_like_a_placeholder_is_none(tmp_path: Path, odd: dict[str, Any]) -> None:
    pair = [leaf(1.0) | odd | {"Norm": 0.0625}, leaf(2.0, md5="ab")]
    written(tmp_path, {f"Torch.add.{n}.forward": {"input_args": pair[:: 1 - 2 * (n % 2)]} for n in range(40)})
    with small_blocks(3000):
        by_skeletons = rows(tmp_path)
    with no_skeletons():
        assert by_skeletons == rows(tmp_path)


def test_a_file_with_an_escaped_name_is_looked_at(tmp_path: Path) -> None:
    data = {
        f"Torch.add.{n}.forward": {"input_args": [leaf(1.0, data_name=f"sch\u00f6n.{n % 3}.input.pt")]}
        for n in range(40)
    }
    written(tmp_path, data)
    asked: list[Any] = []

    def content_of(file: Any) -> tuple[str | None, str | None]:
        asked.append(file)
        return None, "missing"

    with small_blocks(3000):
        found = read(tmp_path, content_of)
    assert asked == [f"sch\u00f6n.{n % 3}.input.pt" for n in range(40)]
    assert [row["content_problem"] for row in found.tensors] == ["missing"] * 40
    assert found.summary.unreadable == 40


def test_a_dump_without_skeletons_is_left_alone_soon(tmp_path: Path) -> None:
    data = {f"Torch.add.{n}.forward": {"input_args": [leaf(1.0), {"type": "int", "value": n}]} for n in range(3000)}
    written(tmp_path, data)
    tried = []

    def take(self: Skeletons, block: bytes) -> bool:
        tried.append(len(block))
        return REAL(self, block)

    with patch.object(Skeletons, "_take", take), patch.multiple(members, _BLOCK=1 << 12, _LARGE_BLOCK=1 << 12):
        assert len(read(tmp_path).ops) == 3000
    assert sum(tried) < (tmp_path / dump.DUMP_FILE).stat().st_size / 8


REAL = Skeletons._take


@pytest.mark.parametrize("bound", ["_MOST_SKELETONS", "_LARGEST_SKELETONS", "_MOST_LEAVES"])
def test_what_is_kept_is_bounded(tmp_path: Path, bound: str) -> None:
    data = {f"Torch.add.{n}.forward": {"input_args": [leaf(1.0)], str(n % 20): n} for n in range(400)}
    written(tmp_path, data)
    with small_blocks(3000) as unbounded:
        expected = rows(tmp_path)
    with patch.object(skeletons, bound, 5), small_blocks(3000) as taken:
        assert rows(tmp_path) == expected
    assert sum(taken) < sum(unbounded) / 2

"""Tensor files of a dump: copied, linked or left out, stored once each, and recorded where they cannot be read."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling import examples
from tensor_dumps import OP, files, leaf, query, table, write_dump

from lakeprobe.errors import TensorError
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout, values
from lakeprobe.lake.layout import UnitKey

TENSORS: dict[str, NDArray[Any]] = {
    "floats.npy": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100),
    "same.npy": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100),
    "other_shape.npy": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(100, 10),
    "doubles.npy": np.array([np.nan, np.inf, -0.0]),
    "fortran.npy": np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)),
    "big_endian.npy": np.arange(5, dtype=">f4"),
    "scalar.npy": np.array(7, np.int64),
    "empty.npy": np.empty((0, 3), np.float16),
    "bools.npy": np.array([True, False, True]),
    "large.npy": np.arange(3_000_000, dtype=np.float32),
}


def content_of(array: NDArray[Any]) -> str:
    """The content hash as its definition has it."""
    little = array.astype(array.dtype.newbyteorder("<"))
    head = f"{little.dtype.name}\0{','.join(map(str, array.shape))}\0".encode()
    return xxhash.xxh3_128_hexdigest(head + little.tobytes())


def contents(lake: Path) -> dict[str, dict[str, Any]]:
    return {row["content"]: row for (row,) in query(f"SELECT c FROM {table(lake, 'contents')} c")}


def array_at(path: Path, row: dict[str, Any]) -> NDArray[Any]:
    """The tensor that a row of contents describes, from nothing but the bytes of the file."""
    raw = path.read_bytes()[row["offset"] : row["offset"] + row["length"]]
    strides = None if row["strides"] is None else tuple(row["strides"])
    return np.ndarray(tuple(row["shape"]), row["dtype"], raw, strides=strides)


def test_every_row_has_the_hash_of_its_file(tmp_path: Path) -> None:
    write_dump(tmp_path / "dump", TENSORS)
    for storage in ("copy", "link", "none"):
        lake = tmp_path / storage
        report = ingest(tmp_path / "dump", lake=lake, tensors=storage)
        rows = query(
            f"SELECT data_name, content, content_problem FROM {table(lake, 'tensors')} WHERE data_name IS NOT NULL"
        )
        expected = {name: None if storage == "none" else content_of(array) for name, array in TENSORS.items()}
        assert {name: content for name, content, _ in rows} == expected
        assert {problem for *_, problem in rows} == {None}
        assert set(contents(lake)) == {content for content in expected.values() if content}
        assert report.units[0].contents == len(contents(lake))


def test_copied_bytes_are_mapped_where_contents_say(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ingest(write_dump(tmp_path / "dump", TENSORS), lake=lake)
    unit = layout.unit_folder(lake, UnitKey("dump", 0, 0))
    stored = dict(query(f"SELECT content, data FROM read_parquet('{unit}/values-*.parquet')"))
    rows = contents(lake)
    assert len(stored) == len(rows) == len(TENSORS) - 1  # floats and same are one
    for array in TENSORS.values():
        row = rows[content_of(array)]
        found = array_at(unit / row["file"], row)
        assert (row["file"], row["strides"], row["length"]) == ("values-0.parquet", None, array.nbytes)
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        assert found.tobytes() == array.tobytes() == stored[row["content"]]


def test_links_point_to_the_files(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    folder = write_dump(tmp_path / "dump", TENSORS) / "dump_tensor_data"
    ingest(tmp_path / "dump", lake=lake, tensors="link")
    rows = contents(lake)
    for name, array in TENSORS.items():
        row = rows[content_of(array)]
        assert row["file"] == str(folder / ("floats.npy" if name == "same.npy" else name))
        np.testing.assert_array_equal(array_at(Path(row["file"]), row), array)
    assert not list(lake.rglob("values-*"))


def test_left_out(tmp_path: Path) -> None:
    report = ingest(write_dump(tmp_path / "dump", TENSORS), lake=tmp_path / "lake", tensors="none")
    assert report.notes == [f"run dump step 0 rank 0: {len(TENSORS)} tensor files were left out (--tensors none)"]
    assert contents(tmp_path / "lake") == {}


def test_a_content_is_stored_once_however_often_it_is_dumped(tmp_path: Path) -> None:
    array = np.arange(100_000, dtype=np.float32)
    tensors = {f"{number}.npy": array for number in range(20)}
    report = ingest(write_dump(tmp_path / "dump", tensors), lake=tmp_path / "lake")
    assert (report.units[0].contents, report.units[0].content_bytes) == (1, array.nbytes)
    assert sum(map(len, files(tmp_path / "lake").values())) < array.nbytes + 50_000


def test_a_tensor_too_large_to_copy_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeprobe.ingest.contents.LARGEST_VALUE", 1000)
    tensors = {"small.npy": np.zeros(250, np.float32), "large.npy": np.ones(251, np.float32)}
    report = ingest(write_dump(tmp_path / "dump", tensors), lake=tmp_path / "lake")
    assert report.notes == [
        "run dump step 0 rank 0: 1 tensors are too large to be copied and stay in the dump's folder"
    ]
    rows = contents(tmp_path / "lake")
    assert rows[content_of(tensors["small.npy"])]["file"] == "values-0.parquet"
    large = rows[content_of(tensors["large.npy"])]
    assert array_at(Path(large["file"]), large).tobytes() == tensors["large.npy"].tobytes()


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3000), max_size=30), st.integers(1, 5000), st.integers(0, 3000))
def test_offsets_hold_for_any_sizes_groups_and_blocks(tmp_path: Path, sizes: list[int], group: int, block: int) -> None:
    path = tmp_path / "values-0.parquet"
    arrays = [np.random.default_rng(number).integers(0, 256, size, np.uint8) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_GROUP", group)
        writer = values.ValuesWriter(path)
        offsets = [
            writer.add(array.nbytes, [array[:block].data, array[block:].data], f"{number:032x}".__str__)
            for number, array in enumerate(arrays)
        ]
        writer.close()
    raw = path.read_bytes()
    whole = [array.tobytes() for array in arrays]
    assert [raw[offset:][: len(value)] for offset, value in zip(offsets, whole, strict=True)] == whole
    rows = [(f"{number:032x}", value) for number, value in enumerate(whole)]
    assert query(f"SELECT content, data FROM '{path}'") == rows
    assert [tuple(row.values()) for row in pq.read_table(path).to_pylist()] == rows


def test_a_value_that_cannot_be_read_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "values-0.parquet"
    writer = values.ValuesWriter(path)

    def broken() -> Iterator[memoryview]:
        yield memoryview(bytes(100_000))
        raise TensorError("became shorter")

    first = writer.add(3, [memoryview(b"abc")], lambda: "first")
    with pytest.raises(TensorError):
        writer.add(200_000, broken(), lambda: "broken")
    second = writer.add(3, [memoryview(b"def")], lambda: "second")
    writer.close()
    raw = path.read_bytes()
    assert (raw[first:][:3], raw[second:][:3]) == (b"abc", b"def")
    assert len(raw) < 1000
    assert query(f"SELECT content, data FROM '{path}'") == [("first", b"abc"), ("second", b"def")]


def test_tensors_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    """They have more than a block, so their hash is not known when they begin to be written."""
    long = np.zeros(500_000, np.float32)
    other = long.copy()
    other[-1] = 1
    tensors = {"a.npy": long, "b.npy": other, "c.npy": long, "d.npy": other}
    lake = tmp_path / "lake"
    ingest(write_dump(tmp_path / "dump", tensors), lake=lake)
    unit = layout.unit_folder(lake, UnitKey("dump", 0, 0))
    stored = query(f"SELECT content, data FROM '{unit}/values-0.parquet'")
    assert stored == [(content_of(array), array.tobytes()) for array in (long, other)]
    for row, array in zip(contents(lake).values(), (long, other), strict=True):
        assert array_at(unit / row["file"], row).tobytes() == array.tobytes()


# ---- files that cannot be read ----------------------------------------------------------------------------


class Code:
    """Unpickling it writes a file: what must never happen."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_unreadable_files_are_recorded(tmp_path: Path) -> None:
    good = np.arange(4, dtype=np.float32)
    folder = write_dump(tmp_path / "dump", {"good.npy": good}) / "dump_tensor_data"
    mark = tmp_path / "code ran"
    whole = (folder / "good.npy").read_bytes()
    (folder / "truncated.npy").write_bytes(whole[:-1])
    (folder / "header_only.npy").write_bytes(whole[:40])
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.npy").write_text("not a tensor")
    (folder / "wrong.bin").write_bytes(whole)
    (folder / "folder.npy").mkdir()
    np.save(folder / "objects.npy", np.array([Code(mark)], dtype=object), allow_pickle=True)
    (folder / "pickle.pt").write_bytes(pickle.dumps(Code(mark)))
    (folder / "pickle.npy").write_bytes(pickle.dumps(Code(mark)))
    (folder / "loop.npy").symlink_to(folder / "loop.npy")
    bad = [*sorted({path.name for path in folder.iterdir()} - {"good.npy"}), "missing.npy", "missing.pt"]
    write_dump(tmp_path / "dump", data={OP: {"input_args": [leaf(name) for name in [*bad, "good.npy", bad[0]]]}})
    report = ingest(tmp_path / "dump", lake=tmp_path / "lake")
    assert not mark.exists()
    rows = query(f"SELECT data_name, content, content_problem FROM {table(tmp_path / 'lake', 'tensors')} ORDER BY row")
    assert [row[0] for row in rows] == [*bad, "good.npy", bad[0]]
    for name, content, problem in rows:
        if name == "good.npy":
            assert (content, problem) == (content_of(good), None)
        else:
            assert content is None
            assert str(folder / name) in problem
            assert "\n" not in problem
    assert report.units[0].unreadable == len(bad) + 1
    assert report.notes == [
        f"run dump step 0 rank 0: {len(bad) + 1} tensor rows name a file that is missing or cannot be read"
    ]
    assert query(f"SELECT unreadable, files, contents FROM {table(tmp_path / 'lake', 'dumps')}") == [
        (len(bad) + 1, len(bad) + 2, 1)
    ]


def test_without_a_folder_of_tensors(tmp_path: Path) -> None:
    write_dump(tmp_path / "dump", data={OP: {"input_args": [leaf("a.npy")]}})
    assert ingest(tmp_path / "dump", lake=tmp_path / "lake").units[0].unreadable == 1


def test_files_are_looked_up_beside_the_dump_whatever_it_says(tmp_path: Path) -> None:
    array = np.arange(3.0)
    write_dump(tmp_path / "dump", {"a.npy": array})
    path = tmp_path / "dump" / "dump.json"
    dump = json.loads(path.read_text())
    path.write_text(json.dumps({**dump, "dump_data_dir": "/nowhere/dump_tensor_data"}))
    ingest(tmp_path / "dump", lake=tmp_path / "lake")
    assert set(contents(tmp_path / "lake")) == {content_of(array)}

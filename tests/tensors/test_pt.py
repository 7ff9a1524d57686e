"""The .pt reader against what torch wrote, and proof that a hostile file runs nothing."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import calls_of

from lakeprobe.errors import TensorError
from lakeprobe.tensors import open_tensor, read_tensor

FIXTURES = Path(__file__).parent.parent / "data" / "tensors"
READABLE = sorted(path.stem for path in FIXTURES.glob("*.pt") if not path.stem.startswith("bad_"))


@pytest.mark.parametrize("name", READABLE)
def test_reads_what_torch_wrote(name: str) -> None:
    reference = read_tensor(FIXTURES / f"{name}.pt")
    expected = np.load(FIXTURES / f"{name}.npy")
    found = open_tensor(reference)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.astype(expected.dtype), expected)
    if name.startswith("dtype_"):
        assert reference.dtype == name.removeprefix("dtype_")


def test_keeps_strides_and_offset() -> None:
    assert read_tensor(FIXTURES / "expanded.pt").strides == (4, 0)
    assert read_tensor(FIXTURES / "transposed.pt").strides == (4, 24, 120)
    assert read_tensor(FIXTURES / "dtype_float32.pt").strides is None
    assert read_tensor(FIXTURES / "dtype_float32.pt").length == 48


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("conj", "conj bit"),
        ("neg", "neg bit"),
        ("dict", "holds a dict"),
        ("state_dict", "holds a dict"),
        ("list", "holds a list"),
        ("number", "holds a float"),
        ("sparse", "_rebuild_sparse_tensor"),
        ("quantized", "_rebuild_qtensor"),
        ("nested", "_rebuild_nested_tensor"),
        ("complex32", "complex32|ComplexHalf"),
        ("module", "state of its own"),
        ("legacy", "before torch 1.6"),
    ],
)
def test_refuses_what_is_not_one_plain_tensor(name: str, message: str) -> None:
    with pytest.raises(TensorError, match=message) as caught:
        read_tensor(FIXTURES / f"bad_{name}.pt")
    assert f"bad_{name}.pt" in str(caught.value)
    assert "\n" not in str(caught.value)


class Global:
    """Pickles as a name, or as that name called with arguments, whatever it is."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.module, self.name, self.arguments = module, name, arguments


class Storage:
    """Pickles as a persistent id."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class Pickler(pickle._Pickler):
    """Writes names without importing what they name."""

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        if isinstance(value, Global) and not value.arguments:
            self.write(f"c{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Global):
            self.save(Global(value.module, value.name))
            self.save(value.arguments)
            self.write(b"R")
        else:
            super().save(value, save_persistent_id)

    def persistent_id(self, value: Any) -> Any:
        return ("storage", *value.parts) if isinstance(value, Storage) else None


def pickled(value: Any) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    Pickler(buffer, 2).dump(value)
    return buffer.getvalue()


def floats(count: int) -> Storage:
    """The storage of six numbers, which says that it has `count`."""
    return Storage(Global("torch", "FloatStorage"), "0", "cpu", count)


FLOATS = floats(6)


def tensor(
    storage: Any = FLOATS, offset: Any = 0, shape: Any = (2, 3), strides: Any = (3, 1), metadata: Any = None
) -> Global:
    more = () if metadata is None else (metadata,)
    return Global("torch._utils", "_rebuild_tensor_v2", storage, offset, shape, strides, False, OrderedDict(), *more)


def archive(path: Path, pickle_bytes: bytes, compression: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("x/data.pkl", pickle_bytes)
        for name, content in {"data/0": np.arange(6, dtype="<f4").tobytes(), **members}.items():
            file.writestr(f"x/{name}", content)
    return path


def test_the_forger_can_also_write_a_sound_file(tmp_path: Path) -> None:
    found = open_tensor(read_tensor(archive(tmp_path / "x.pt", pickled(tensor()))))
    np.testing.assert_array_equal(found, np.arange(6, dtype=np.float32).reshape(2, 3))


def test_metadata_of_a_device_does_not_matter(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.pt", pickled(tensor(metadata={"npu_format_/ND": True, "conj": False})))
    assert read_tensor(path).shape == (2, 3)


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("os", "system", ("touch {}",)),
        ("builtins", "eval", ("__import__('os').system('touch {}')",)),
        ("builtins", "exec", ("open('{}', 'w')",)),
        ("builtins", "open", ("{}", "w")),
        ("torch", "load", ("{}",)),
        ("torch.storage", "_load_from_bytes", (b"",)),
        ("lakeprobe.tensors.pt", "_Tensor", ()),
        ("torch._utils", "os.system", ("touch {}",)),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_runs_nothing(tmp_path: Path, module: str, name: str, arguments: tuple[Any, ...], nested: bool) -> None:
    victim = tmp_path / "victim"
    filled = [part.format(victim) if isinstance(part, str) else part for part in arguments]
    bomb = Global(module, name, *filled)
    path = archive(tmp_path / "x.pt", pickled(tensor(metadata={"x": bomb}) if nested else bomb))
    with pytest.raises(TensorError, match=f"refused global {module}.{name}"):
        read_tensor(path)
    assert not victim.exists()


def test_runs_nothing_of_a_plain_pickle_bomb(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'victim'}",)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path = archive(tmp_path / "x.pt", pickle.dumps(Bomb(), protocol))
        with pytest.raises(TensorError, match="refused global"):
            read_tensor(path)
    assert not (tmp_path / "victim").exists()


REBUILD = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (REBUILD + b"(NX\x0c\x00\x00\x00__defaults__N\x85d\x86b.", "state of its own|unreadable"),
        (REBUILD + b"}b.", "state of its own"),
        (b"\x80\x02ctorch\nTensor\n)\x81.", "state of its own"),
        (b"(ios\nsystem\n.", "state of its own"),
        (b"\x80\x02\x82\x01.", "state of its own"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "forged memo"),
        (b"N" + b"p2147483647\n.", "forged memo"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**50) + b"x.", "unreadable"),
        (b"\x80\x02", "unreadable"),
        (b"", "unreadable"),
        (b"garbage", "unreadable"),
        (b"\x80\x02NR.", "unreadable"),
        (b"\x80\x02Q.", "unreadable"),
        (b"\x80\x02NQ.", "refused persistent id"),
        (b"(" * 60000 + b".", "unreadable|too large"),
        (b"\x80\x02N0.", "unreadable"),
    ],
)
def test_refuses_forged_pickles(tmp_path: Path, code: bytes, message: str) -> None:
    with pytest.raises(TensorError, match=message):
        read_tensor(archive(tmp_path / "x.pt", code))
    assert read_tensor(FIXTURES / "dtype_float32.pt").shape == (3, 4)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (tensor(offset=1), "leaves its storage"),
        (tensor(offset=-1), "forged tensor"),
        (tensor(offset=2**70), "leaves its storage"),
        (tensor(shape=(3, 3)), "truncated"),
        (tensor(shape=(-2, 3)), "forged tensor"),
        (tensor(shape=(2.0, 3)), "forged tensor"),
        (tensor(shape=(2**62, 2**62)), "impossible shape"),
        (tensor(shape="ab"), "forged tensor"),
        (tensor(shape=None), "unreadable"),
        (tensor(strides=(-3, 1)), "forged tensor"),
        (tensor(strides=(3,)), "different length"),
        (tensor(strides=(2**62, 1)), "truncated"),
        (tensor(storage=None), "unreadable"),
        (tensor(storage=Storage(Global("torch", "FloatStorage"), "1", "cpu", 6)), "no 'data/1'"),
        (tensor(storage=Storage(Global("torch", "FloatStorage"), "1\n2", "cpu", 6)), r"^no 'data/1\\n2' in [^\n]*$"),
        (tensor(storage=Storage(Global("torch", "FloatStorage"), "../../x", "cpu", 6)), r"no 'data/\.\./"),
        (tensor(storage=floats(100_000_000_000)), "should have 100000000000 elements and has 24 bytes in "),
        (tensor(storage=floats(7)), "should have 7 elements and has 24 bytes in "),
        (tensor(storage=floats(-5)), "should have -5 elements and has 24 bytes in "),
        (tensor(storage=floats(2)), "truncated"),
        (tensor(storage=floats(2), shape=(1, 1), offset=2), "leaves its storage"),
        (tensor(storage=Storage("FloatStorage", "0", "cpu", 6)), "refused persistent id"),
        (tensor(storage=Storage(Global("torch", "QInt8Storage"), "0", "cpu", 6)), "QInt8Storage"),
        (Global("torch._utils", "_rebuild_tensor_v2", 1), "unreadable"),
        (
            Global("torch._tensor", "_rebuild_from_type_v2", print.__name__, None, (), {}),
            "refused tensor subclass",
        ),
        ((tensor(), tensor()), "holds a tuple"),
        (Global("torch", "FloatStorage"), "holds a ElementType"),
    ],
)
def test_refuses_forged_tensors(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(TensorError, match=message) as caught:
        read_tensor(archive(tmp_path / "x.pt", pickled(value)))
    assert "x.pt" in str(caught.value)


def test_byte_order(tmp_path: Path) -> None:
    values = np.arange(6, dtype=">f4")
    path = archive(tmp_path / "x.pt", pickled(tensor()), **{"data/0": values.tobytes(), "byteorder": b"big"})
    reference = read_tensor(path)
    assert reference.dtype == ">f4"
    np.testing.assert_array_equal(open_tensor(reference), values.reshape(2, 3))
    small = Storage(Global("torch", "BFloat16Storage"), "0", "cpu", 6)
    with pytest.raises(TensorError, match="big-endian"):
        read_tensor(archive(path, pickled(tensor(small)), byteorder=b"big"))


def test_refuses_compressed_members(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="compressed"):
        read_tensor(archive(tmp_path / "x.pt", pickled(tensor()), zipfile.ZIP_DEFLATED))


def test_refuses_large_pickles(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="too large"):
        read_tensor(archive(tmp_path / "x.pt", pickled([0.5] * 10_000)))


def test_refuses_other_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as file:
        file.writestr("x/readme", b"")
    with pytest.raises(TensorError, match=r"no 'data\.pkl'"):
        read_tensor(tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as file:
        file.writestr("x/data.pkl", pickled(tensor()))
        file.writestr("y/data.pkl", b"")
    with pytest.raises(TensorError, match="names that"):
        read_tensor(tmp_path / "x.pt")
    for content in (b"", b"PK\x03\x04", b"not a zip" * 100):
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(TensorError, match="not a sound"):
            read_tensor(tmp_path / "x.pt")


CENTRAL = b"PK\x01\x02"


@pytest.mark.parametrize("field", ["size", "offset", "name", "local length"])
def test_refuses_forged_zip_directories(tmp_path: Path, field: str) -> None:
    """Each forgery would make another span of the file, or none, the storage."""
    content = bytearray(archive(tmp_path / "x.pt", pickled(tensor())).read_bytes())
    entry = content.index(CENTRAL, content.index(CENTRAL) + 4)
    local = content.index(b"PK\x03\x04", 4)
    if field == "size":
        content[entry + 20 : entry + 28] = struct.pack("<II", 4000, 4000)
    elif field == "offset":
        content[entry + 42 : entry + 46] = struct.pack("<I", local + 2)
    elif field == "name":
        content[local + 30 : local + 31] = b"z"
    else:
        content[local + 28 : local + 30] = struct.pack("<H", 20)
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(TensorError, match=r"x\.pt"):
        read_tensor(tmp_path / "x.pt")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    content = (FIXTURES / "dtype_float16.pt").read_bytes()
    for length in range(0, len(content), 17):
        (tmp_path / "x.pt").write_bytes(content[:length])
        with pytest.raises(TensorError):
            read_tensor(tmp_path / "x.pt")


def test_any_damaged_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    """Nothing but TensorError comes out of a damaged file, and no reference that leaves it."""
    content = (FIXTURES / "dtype_float32.pt").read_bytes()
    for position in range(len(content)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[position] ^= flip
            (tmp_path / "x.pt").write_bytes(damaged)
            try:
                reference = read_tensor(tmp_path / "x.pt")
            except TensorError:
                continue
            assert reference.offset + reference.length <= len(content)
            open_tensor(reference)


def test_a_small_file_is_little_work() -> None:
    assert calls_of(lambda: read_tensor(FIXTURES / "dtype_float32.pt")) < 1000

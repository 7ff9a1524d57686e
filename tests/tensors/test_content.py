"""The content hash: what it is made of, and what it must not depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sampling import examples
from tensor_oracle import store

from lakeprobe.errors import TensorError
from lakeprobe.tensors import content_hash, read_tensor

FIXTURES = Path(__file__).parent.parent / "data" / "tensors"


def hashed(path: Path, array: NDArray[Any], lead: int = 0) -> str:
    return content_hash(store(path, array, lead))


def test_is_made_of_name_shape_and_bytes(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert hashed(tmp_path / "x", array) == xxhash.xxh3_128_hexdigest(b"float32\x002,3\x00" + array.tobytes())
    assert hashed(tmp_path / "x", np.float32(1)) == xxhash.xxh3_128_hexdigest(b"float32\0\0\0\0\x80\x3f")
    text = np.array(["ab"])
    assert hashed(tmp_path / "x", text) == xxhash.xxh3_128_hexdigest(b"<U2\x001\x00" + text.tobytes())


def test_names_and_shapes_and_signs_of_zero_count(tmp_path: Path) -> None:
    array = np.zeros((2, 3), np.float32)
    others = [array, array.astype(np.int32), array.reshape(3, 2), -array, np.zeros((0,), np.float32)]
    assert len({hashed(tmp_path / "x", other) for other in others}) == len(others)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(
    array=hnp.arrays(st.sampled_from(["<f4", "<i2", "<c8", "|u1", "<U3"]), hnp.array_shapes(max_dims=4)),
    data=st.data(),
)
def test_layout_does_not_matter(tmp_path: Path, array: NDArray[Any], data: st.DataObject) -> None:
    expected = hashed(tmp_path / "x", array)
    axes = data.draw(st.permutations(range(array.ndim)))
    turned = np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))
    assert hashed(tmp_path / "x", turned, lead=data.draw(st.integers(0, 9))) == expected
    assert hashed(tmp_path / "x", np.repeat(array, 2, axis=-1)[..., ::2]) == expected
    assert hashed(tmp_path / "x", array.astype(array.dtype.newbyteorder(">"))) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakeprobe.tensors.content.BLOCK_BYTES", 24)
        patch.setattr("lakeprobe.tensors.blocks.GATHER_SPAN", 24)
        patch.setattr("lakeprobe.tensors.blocks.PIECE_BYTES", 48)
        assert hashed(tmp_path / "x", turned) == expected


@pytest.mark.parametrize("name", ["dtype_float32", "dtype_complex64", "transposed", "offset", "expanded", "empty"])
def test_file_kind_does_not_matter(name: str) -> None:
    assert content_hash(read_tensor(FIXTURES / f"{name}.pt")) == content_hash(read_tensor(FIXTURES / f"{name}.npy"))


def test_missing_file(tmp_path: Path) -> None:
    reference = store(tmp_path / "x", np.ones(3))
    (tmp_path / "x").unlink()
    with pytest.raises(TensorError, match="No such file"):
        content_hash(reference)

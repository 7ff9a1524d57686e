"""Both roads to the sums of a block, in C and in numpy, beside each other; test_exact.py has exact arithmetic."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakeprobe.tensors import kernel
from lakeprobe.tensors.kernel import BLOCK, Partial, measure_block, merge, new_scratch

pytestmark = pytest.mark.skipif(None in kernel._COMPILED.values(), reason="the functions in C are not there")

SUMS = ("target_squares", "difference_squares", "golden_squares", "product")
DTYPES = [np.dtype(each) for each in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_)]
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 1e-3, 5e-3, 1e-45, -1e-45, 1e-40, 5e-324, 1.2e-38, 1e19, 1e30, 3e38, -3e38, 1e160, -1e308,
]  # fmt: skip
NOT_FINITE = [math.nan, math.inf, -math.inf]
LANES, CHUNK = 16, 2048
SIZES = [
    1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + LANES, 3 * CHUNK + 5, BLOCK - 1,
    BLOCK,
]  # fmt: skip


@contextmanager
def numpy_alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_COMPILED", {})
        yield


def by_both(target: NDArray[Any], golden: NDArray[Any]) -> tuple[Partial, Partial]:
    with np.errstate(all="ignore"):
        scratch = new_scratch(target.dtype, golden.dtype)
        assert scratch.compiled is not None
        compiled = measure_block(scratch, target, golden)
        with numpy_alone():
            return compiled, measure_block(new_scratch(target.dtype, golden.dtype), target, golden)


def assert_alike(compiled: Partial, reference: Partial) -> None:
    """All numbers are the same but for the last bits of sums, which are of up to BLOCK rounded additions."""
    for name, found, expected in zip(Partial._fields, compiled, reference, strict=True):
        if name not in SUMS:
            assert found == expected, name
    norms = math.sqrt(reference.target_squares) * math.sqrt(reference.golden_squares)
    for name in SUMS:
        found, expected = getattr(compiled, name), getattr(reference, name)
        if name == "product" and not math.isfinite(norms):
            continue  # there is no cosine then
        near = 1e-13 * (norms if name == "product" else expected)
        assert found == expected or abs(found - expected) <= near, name


def pairs(specials: list[float]) -> st.SearchStrategy[tuple[NDArray[Any], NDArray[Any]]]:
    """Two blocks of any dtypes in one of the sizes that matter, some elements equal, some special on either side."""

    def made(
        dtypes: tuple[np.dtype[Any], np.dtype[Any]], size: int, seed: int, power: int, among: list[float], both: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        chance = np.random.default_rng(seed)
        golden = chance.standard_normal(size) * 10.0**power
        target = golden * chance.choice([1, 1, 1.0001, 1.003, 0.5, -1], size)
        for side in (target, golden):
            places = np.random.default_rng(seed if both else chance.integers(2**32)).integers(size, size=len(among))
            side[places] = among
        with np.errstate(all="ignore"):
            return target.astype(dtypes[0]), golden.astype(dtypes[1])

    kinds = st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES))
    sizes = st.one_of(st.integers(1, 100), st.sampled_from(SIZES))
    few = st.lists(st.sampled_from(specials), max_size=20)
    return st.builds(made, kinds, sizes, st.integers(0, 2**32 - 1), st.integers(-44, 37), few, st.booleans())


@given(st.one_of(pairs(SPECIAL), pairs(SPECIAL + NOT_FINITE)))
def test_both_roads_agree(blocks: tuple[NDArray[Any], NDArray[Any]]) -> None:
    assert_alike(*by_both(*blocks))


@given(pairs(SPECIAL))
def test_results_depend_on_no_order_of_blocks(blocks: tuple[NDArray[Any], NDArray[Any]]) -> None:
    target, golden = blocks
    cuts = [slice(start, start + 1000) for start in range(0, target.size, 1000)]
    with np.errstate(all="ignore"):
        scratch = new_scratch(target.dtype, golden.dtype)
        parts = [measure_block(scratch, target[cut], golden[cut]) for cut in cuts]
    whole = merge(parts)
    random.Random(1).shuffle(parts)
    assert repr(merge(parts)) == repr(whole)  # NaN is not equal to itself


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_memory_need_not_be_aligned(dtype: type, size: int) -> None:
    values = np.random.default_rng(size).standard_normal((2, size)).astype(dtype)
    values[1, ::3] = values[0, ::3]
    values[1, size // 2] = 0
    compiled = kernel._COMPILED[values.dtype.name]
    assert compiled is not None
    odd = np.zeros(values.nbytes + 1, np.uint8)[1:].view(dtype).reshape(values.shape)
    odd[:] = values
    assert not odd.flags.aligned
    assert kernel._measure_compiled(compiled, odd) == kernel._measure_compiled(compiled, values)
    assert kernel._measure_compiled(compiled, odd).elements == size

"""Wide statistics against numpy in float64, for every dtype and layout that a training can have."""

import math
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sampling import examples

import lakeprobe
import lakeprobe.collect

torch = pytest.importorskip("torch")

from lakeprobe.collect.pytorch import tensors as measuring  # noqa: E402
from lakeprobe.collect.pytorch.tensors import Tensors, statistics, wide  # noqa: E402
from lakeprobe.collect.watching import values  # noqa: E402
from lakeprobe.monitoring.pytorch import tensors as monitored  # noqa: E402
from lakeprobe.monitoring.settings import Settings  # noqa: E402
from lakeprobe.tensors import summary  # noqa: E402

WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**6), 10**6) | st.integers(-3, 3)
SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e-30, 1e30, 3e38, math.nan, math.inf, -math.inf]
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool", "complex64"]
LAYOUTS = ["plain", "transposed", "strided", "negative", "expanded", "zero_dim"]


def expected(tensor: Any) -> tuple[Any, ...]:
    """In plain numpy."""
    plain = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        plain = plain.double()
    array = plain.numpy()
    if array.dtype.kind == "c":
        wide_array = array.astype(np.complex128)
        values = np.where(np.isnan(wide_array), np.nan, np.abs(wide_array))
    else:
        values = array.astype(np.float64)
    with np.errstate(all="ignore"):
        mean, norm = values.mean(), np.sqrt(np.sum(values * values))
    counts = (np.isnan(values), np.isposinf(values), np.isneginf(values), values == 0)
    return mean, norm, *(int(count.sum()) for count in counts)


def laid_out(flat: Any, layout: str) -> Any:
    match layout:
        case "transposed":
            return flat[: flat.numel() // 2 * 2].reshape(2, -1).t()
        case "strided":
            return flat[::3]
        case "negative":
            return torch._neg_view(flat) if flat.dtype.is_floating_point or flat.dtype.is_complex else flat
        case "expanded":
            return flat.expand(3, -1)
        case "zero_dim":
            return flat[0]
    return flat


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")  # in what msprobe computes too
@hypothesis_settings(max_examples=examples(200), deadline=None)
@given(
    numbers=st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(-1e4, 1e4, width=32)), min_size=2, max_size=20),
    repeat=st.sampled_from([1, 7, 400]),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(LAYOUTS),
    exact=st.booleans(),
)
def test_wide_statistics_are_those_of_numpy_in_float64(
    numbers: list[float], repeat: int, dtype: str, layout: str, exact: bool
) -> None:
    kind = getattr(torch, dtype)
    values = np.nan_to_num(np.array(numbers), posinf=3, neginf=-3).clip(0, 100)
    flat = torch.tensor(values if not (kind.is_floating_point or kind.is_complex) else numbers).to(kind).repeat(repeat)
    tensor = laid_out(flat, layout)
    found = wide(tensor, statistics(tensor), exact=exact)
    assert found is not None
    mean, norm, *counts = expected(tensor)
    counted = found
    assert list(found[2:]) == counts
    uncounted = wide(tensor, statistics(tensor), exact=exact, zeros=False)
    assert uncounted is not None
    assert uncounted[5] in (counts[3], None)
    assert repr(uncounted[:5]) == repr(counted[:5])
    own = statistics(tensor)
    found = tuple(own[place + 2] if found[place] is None else found[place] for place in (0, 1)) + found[2:]
    near = 3e-6 if dtype == "float32" and not exact else 1e-12
    assert found[1] == pytest.approx(norm, rel=near, nan_ok=True)
    size = norm / math.sqrt(tensor.numel()) if math.isfinite(norm) else 0
    assert found[0] == pytest.approx(mean, rel=near, abs=near * size, nan_ok=True)


@pytest.mark.parametrize("strides", [(0,), (5, 0), (1, 7)])
def test_one_element_has_its_bytes_whatever_its_strides(strides: tuple[int, ...]) -> None:
    """torch calls it contiguous, and refuses to view it as bytes."""
    tensor = torch.as_strided(torch.tensor([1.5, 2.5]), (1,) * len(strides), strides)
    assert measuring._bytes(tensor).tobytes() == np.float32(1.5).tobytes()
    of_both = [
        monitored.measured(each, frozenset(["digest"]), Settings(), 1.0) for each in (tensor, torch.tensor([1.5]))
    ]
    assert of_both[0].texts == of_both[1].texts


@pytest.mark.parametrize("number", [10**5, 3 * 10**6])
def test_float32_is_wide_enough_for_large_tensors(number: int) -> None:
    tensor = torch.rand(number, generator=torch.Generator().manual_seed(1)) + 100
    assert wide(tensor, statistics(tensor), exact=False) == (None, None, 0, 0, 0, 0)
    found = statistics(tensor)[2:]
    exact = tensor.numpy().astype(np.float64)
    assert found[0] == pytest.approx(exact.mean(), rel=1e-6)
    assert found[1] == pytest.approx(np.linalg.norm(exact), rel=3e-3)
    assert wide(tensor, statistics(tensor), exact=True)[1] == pytest.approx(np.linalg.norm(exact), rel=1e-12)


def test_half_precision_does_not_overflow() -> None:
    tensor = torch.full((1000, 1000), 100.0, dtype=torch.float16)
    assert statistics(tensor)[3] == math.inf
    found = wide(tensor, statistics(tensor), exact=False)
    assert found is not None
    assert found[:2] == pytest.approx((100, 1e5), rel=1e-6)


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(0, 3), torch.ones(2, device="meta")],
    ids=["empty", "meta"],
)
def test_what_has_no_numbers_has_none(tensor: Any) -> None:
    assert wide(tensor, statistics(tensor), exact=False) is None


def test_arrays_of_numpy() -> None:
    assert values.wide(np.array([3, 0, -4])) == (-1 / 3, 5.0, 0, 0, 0, 1)
    assert values.wide(np.array([3 + 4j, math.nan * 1j, -0.0]))[2:] == (1, 0, 0, 1)  # type: ignore[index]
    assert values.wide(np.array(["text"])) is None
    assert values.wide(np.array([])) is None


def test_they_come_into_the_lake_beside_dumps_that_have_none(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "data" / "dumps" / "ranks" / "golden"
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(old, run="ingested")
    with lakeprobe.collect(run="ours", lake=tmp_path / "lake", task="tensor") as collector:  # type: ignore[operator]
        torch.relu(torch.tensor([-1.0, math.nan, math.inf, 0.5]))
        collector.step()
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        columns = "wide_mean, wide_norm, nan_count, posinf_count, neginf_count, zero_count, fields, extra"
        rows = lake.sql(f"SELECT {columns} FROM tensors WHERE run = 'ours' ORDER BY row").fetchall()
        assert [row[2:6] for row in rows] == [(1, 1, 0, 0), (1, 1, 0, 1)]
        assert all(math.isnan(row[0]) and math.isnan(row[1]) and "wide" not in row[6] and not row[7] for row in rows)
        [others] = lake.sql("SELECT count(*), count(wide_mean) FROM tensors WHERE run = 'ingested'").fetchall()
        assert others[0] > 0
        assert others[1] == 0
        assert lake.compare("ours", "ingested") is not None


@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(
    size=st.integers(2, 300_000),
    layout=st.sampled_from([layout for layout in LAYOUTS if layout != "zero_dim"]),
    scale=st.sampled_from([1e-40, 1e-20, 1.0, 1e30, 3e38, math.inf]),
    seed=st.integers(0, 99),
)
def test_float32_tensors_have_the_range_of_torch_and_mean_and_norm_rounded_once(
    size: int, layout: str, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    tensor = laid_out(torch.randn(size) * scale, layout)
    plain = tensor.resolve_neg()
    numbers = plain.double().flatten().tolist()
    both = [measured_by(road, tensor) for road in ROADS]
    assert len({repr(measured) for measured in both}) == 1
    (high, low, mean, norm), of_all = both[0]
    assert [repr(high), repr(low)] == [repr(plain.max().item()), repr(plain.min().item())]
    if not np.isfinite(numbers).all():
        assert repr((mean, norm)) == repr((plain.mean().item(), plain.norm().item()))
        return
    exact_mean, exact_norm = math.fsum(numbers) / len(numbers), math.hypot(*numbers)
    last_bit = np.spacing(np.float32(abs(exact_mean))).item()
    assert abs(mean - exact_mean) <= last_bit / 2 + 1e-12 * exact_norm
    assert mean == pytest.approx(plain.mean().item(), rel=1e-5, abs=1e-5 * exact_norm / len(numbers) ** 0.5)
    if exact_norm >= measuring._TOO_HIGH:
        assert norm == math.inf
    else:
        assert abs(norm - exact_norm) <= 0.5001 * np.spacing(np.float32(exact_norm)).item()
    narrow = not 2.0**-126 <= exact_norm < measuring._TOO_HIGH
    assert (of_all[:2] != (None, None)) == narrow
    if narrow:
        assert of_all[:2] == pytest.approx((exact_mean, exact_norm), rel=1e-9)


ROADS = [True, False] if summary.is_native else [False]


def measured_by(road: bool, tensor: Any, **options: bool) -> Any:
    """What is recorded with the functions in C, or without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "is_native", road)
        return Tensors(**options).measure(tensor)


@hypothesis_settings(max_examples=examples(200), deadline=None)
@given(
    numbers=st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(width=32)), min_size=2, max_size=20),
    repeat=st.sampled_from([1, 7, 400]),
    layout=st.sampled_from([*LAYOUTS, "misaligned"]),
    exact=st.booleans(),
    zeros=st.booleans(),
)
def test_whether_there_is_a_compiler_changes_no_bit(
    numbers: list[float], repeat: int, layout: str, exact: bool, zeros: bool
) -> None:
    flat = torch.tensor(numbers, dtype=torch.float32).repeat(repeat)
    if layout == "misaligned":
        flat = torch.from_numpy(np.frombuffer(bytearray(b"x" + flat.numpy().tobytes()), np.float32, offset=1))
    tensor = laid_out(flat, layout)
    results = [measured_by(road, tensor, exact=exact, zeros=zeros) for road in ROADS]
    assert len(set(map(repr, results))) == 1
    known, of_all = results[0]
    plain = tensor.resolve_neg()
    low, high = torch.aminmax(plain)
    assert repr(known[:2]) == repr((high.item(), low.item()))
    assert of_all[2:5] == expected(tensor)[2:5]
    assert of_all[5] == expected(tensor)[5] or (of_all[5] is None and not zeros)
    if exact and plain.dim():
        mean, norm = (plain.double().mean().item(), plain.double().norm().item())
        assert of_all[:2] == (
            pytest.approx(mean, rel=1e-12, abs=1e-12 * norm, nan_ok=True),
            pytest.approx(norm, rel=1e-12, nan_ok=True),
        )


def test_memory_that_was_freed_is_not_read() -> None:
    tensor = torch.ones(5000)
    tensor.untyped_storage().resize_(0)
    assert tensor.data_ptr() == 0
    zeros = torch._efficientzerotensor((5000,))
    assert Tensors().measure(zeros)[0] == (0.0, 0.0, 0.0, 0.0)


def test_a_tensor_that_changes_behind_torchs_back_is_measured_anew() -> None:
    tensors, tensor = Tensors(), torch.ones(5000)
    assert tensors.measure(tensor)[0][:2] == (1.0, 1.0)
    version = tensor._version
    tensor.data[7] = -1.0
    assert tensor._version == version
    assert tensors.measure(tensor)[0][:2] == (1.0, -1.0)


@pytest.mark.skipif(not summary.is_native, reason="there are no functions in C")
@pytest.mark.parametrize("number", [1, 100, 5000])
def test_all_statistics_of_a_tensor_take_one_pass(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[int, int]] = []
    at = summary.at
    monkeypatch.setattr(summary, "at", lambda *memory: (passes.append(memory), at(*memory))[1])
    for name in ("_aminmax", "_mean", "_norm", "_count_nonzero"):
        monkeypatch.setattr(measuring, name, lambda *_: pytest.fail("read once more"))
    tensor = torch.arange(float(number), requires_grad=True) + 1
    assert Tensors().measure(tensor)[0][:3] == (number, 1.0, (number + 1) / 2)
    assert passes == [(tensor.data_ptr(), number)]


@pytest.mark.parametrize("shape", [(40, 50), (7, 1, 300), (3, 4, 5, 60)])
def test_a_view_of_all_elements_has_the_same_statistics_to_the_last_bit(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    views = [tensor.view(-1), tensor.transpose(0, -1), tensor.permute(*reversed(range(len(shape)))).unsqueeze(1)]
    assert len({repr(measured_by(road, view)) for road in ROADS for view in [tensor, *views]}) == 1


def test_a_view_of_some_elements_is_measured_for_itself() -> None:
    tensors, tensor = Tensors(), torch.arange(2000.0).reshape(40, 50)
    tensors.measure(tensor)
    part, spread = tensor[:, :25], tensor[:1].expand(40, 50)
    assert [tensors.measure(each)[0] for each in (part, spread)] == [
        Tensors().measure(each.clone(memory_format=torch.contiguous_format))[0] for each in (part, spread)
    ]


def test_tensors_of_inference_mode_are_measured_and_kept() -> None:
    tensors = Tensors()
    with torch.inference_mode():
        tensor = torch.arange(2000.0)
        first = tensors.measure(tensor)
        tensor[0] = 5000.0
        second, contents = tensors.measure(tensor), tensors.copy(tensor)
        assert [first, second] == [Tensors().measure(each) for each in (torch.arange(2000.0), tensor.clone())]
    assert contents is not None
    assert contents[0] == 5000.0


def test_a_view_keeps_contents_of_its_own_shape() -> None:
    tensors, tensor = Tensors(), torch.arange(2000.0)
    whole, view = tensors.copy(tensor), tensors.copy(tensor.reshape(40, 50))
    assert whole is not None
    assert view is not None
    assert (whole.shape, view.shape) == ((2000,), (40, 50))
    assert np.array_equal(whole, view.reshape(-1))


def test_few_contents_are_held_on_to() -> None:
    tensors = Tensors()
    seen = [torch.full((100,), float(number)) for number in range(100)]
    kept = [ref(tensors.copy(tensor)) for tensor in seen]
    assert [array() is not None for array in kept] == [False] * 36 + [True] * 64


def test_float8_has_wide_statistics_though_it_has_none_of_its_own() -> None:
    tensor = torch.tensor([0.0, 3.0, -4.0]).to(torch.float8_e4m3fn)
    assert statistics(tensor) == (None, None, None, None)
    assert wide(tensor, statistics(tensor), exact=False) == (pytest.approx(-1 / 3), 5.0, 0, 0, 0, 1)


@pytest.mark.skipif(not summary.knows_integers, reason="needs the functions in C")
@given(st.lists(WHOLE, min_size=1, max_size=300), st.booleans(), st.booleans())
def test_integers_have_the_numbers_that_torch_gives_them(numbers: list[int], exact: bool, zeros: bool) -> None:
    tensor = torch.tensor(numbers)
    known = statistics(tensor)
    of_torch = known, wide(tensor, known, exact=exact, zeros=zeros)
    assert Tensors(exact=exact, zeros=zeros).measure(tensor) == of_torch


@pytest.mark.skipif(not summary.knows_integers, reason="needs the functions in C")
def test_integers_are_read_once_where_their_sums_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.arange(1, 129)[None]
    expected = (128, 1, None, None), (64.5, math.sqrt(128 * 129 * 257 / 6), 0, 0, 0, 0)
    assert Tensors().measure(ids) == expected
    monkeypatch.setattr(measuring, "statistics", None)
    assert Tensors().measure(ids) == expected
    for other in (ids * 2**40, ids[:, ::2], torch.tensor(3), ids[:, :0]):
        with pytest.raises(TypeError):
            Tensors().measure(other)

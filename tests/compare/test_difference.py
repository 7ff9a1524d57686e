"""Whether two leaves are equal, differ by float noise, or differ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pair_dumps import Row, call, compared, compared_leaves, results, scalar, tensor, write_dump

from lakeprobe.compare.run import compare

NAN, INF = math.nan, math.inf
NORMAL = {"Max": 2.5, "Min": -2.4, "Mean": 1e-9, "Norm": 30.0, "shape": [900]}
"""A tensor after LayerNorm: its mean is nothing but rounding."""
F32, BF16, F16 = 2.0**-23, 2.0**-7, 2.0**-10


def normal(**fields: Any) -> dict[str, Any]:
    return tensor(0.0, **(NORMAL | fields))


def of(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


CASES: dict[str, tuple[Any, Any, str]] = {
    "same": (tensor(1.5), tensor(1.5), "equal"),
    "negative_zero": (tensor(-0.0), tensor(0.0), "equal"),
    "both_nan": (tensor(NAN), tensor(NAN), "equal"),
    "both_inf": (tensor(INF), tensor(INF), "equal"),
    "nan_target": (tensor(NAN), tensor(1.0), "different"),
    "nan_golden": (tensor(1.0), tensor(NAN), "different"),
    "inf_target": (tensor(INF), tensor(1.0), "different"),
    "inf_golden": (tensor(1.0), tensor(-INF), "different"),
    "inf_signs": (tensor(INF), tensor(-INF), "different"),
    "nan_inf": (tensor(NAN), tensor(INF), "different"),
    **{
        f"{value}_{name}".replace("-", "m"): (normal(**{name: value}), normal(), "different")
        for name in ("Max", "Min", "Mean", "Norm") for value in (NAN, INF, -INF)
    },
    "nan_and_noise": (normal(Mean=NAN, Norm=NAN), normal(Mean=NAN, Norm=NAN, Max=2.5 * (1 + F32)), "noise"),
    "nan_and_more": (normal(Mean=NAN, Norm=NAN), normal(Mean=NAN, Norm=NAN, Max=2.6), "different"),
    # noise is 16 spacings of the dtype
    "noise": (tensor(1 + 15 * F32), tensor(1.0, shape=[]), "different"),
    "within": (tensor(1 + 15 * F32, shape=[]), tensor(1.0, shape=[]), "noise"),
    "beyond": (tensor(1 + 18 * F32, shape=[]), tensor(1.0, shape=[]), "different"),
    "mean_of_layer_norm": (normal(Mean=-2e-9), normal(), "noise"),
    "mean_within": (normal(Mean=15 * F32), normal(Mean=0.0), "noise"),
    "mean_beyond": (normal(Mean=17 * F32), normal(Mean=0.0), "different"),
    "mean_of_one_side": (normal(Mean=None), normal(), "different"),
    "norm_of_one_side": (normal(), normal(Norm=None), "different"),
    "mean_of_neither": (normal(Mean=None), normal(Mean=None, Max=2.5 * (1 + F32)), "noise"),
    "min_scaled_by_max": (normal(Min=2 * F32), normal(Min=0.0), "noise"),
    "norm_within": (normal(Norm=30 * (1 + 15 * F32)), normal(), "noise"),
    "norm_beyond": (normal(Norm=30 * (1 + 17 * F32)), normal(), "different"),
    "bf16_within": (
        tensor(1 + 15 * BF16, dtype="torch.bfloat16", shape=[]), tensor(1.0, dtype="torch.bfloat16", shape=[]),
        "noise"),
    "bf16_beyond": (
        tensor(1 + 20 * BF16, dtype="torch.bfloat16", shape=[]), tensor(1.0, dtype="torch.bfloat16", shape=[]),
        "different"),
    "f16_within": (
        tensor(1 + 15 * F16, dtype="torch.float16", shape=[]), tensor(1.0, dtype="torch.float16", shape=[]), "noise"),
    "f64_beyond": (
        tensor(1 + F32, dtype="torch.float64", shape=[]), tensor(1.0, dtype="torch.float64", shape=[]), "different"),
    "integers": (tensor(10**9 + 1, dtype="torch.int64"), tensor(10**9, dtype="torch.int64"), "different"),
    "large_integers": (tensor(2**60 + 1, dtype="torch.int64"), tensor(2**60, dtype="torch.int64"), "different"),
    "equal_integers": (tensor(2**60, dtype="torch.int64"), tensor(2**60, dtype="torch.int64"), "equal"),
    "bools": (tensor(True, dtype="torch.bool"), tensor(False, dtype="torch.bool"), "different"),
    "equal_bools": (tensor(True, dtype="torch.bool"), tensor(True, dtype="torch.bool"), "equal"),
    "no_statistics": (tensor(None), tensor(None), None),
    "empty_without_statistics": (tensor(None, shape=[0]), tensor(None, shape=[0]), "equal"),
    "dtype": (tensor(1.0), tensor(1.0, dtype="torch.float16"), "different"),
    "shape": (tensor(1.0, shape=[2, 3]), tensor(1.0, shape=[3, 2]), "different"),
    # what one side only records
    "requires_grad": (tensor(1.0, requires_grad=True), tensor(1.0), "equal"),
    "no_requires_grad": (tensor(1.0, requires_grad=...), tensor(1.0), "equal"),
    "digest_of_one": (tensor(1.0, md5="0badcafe"), tensor(1.0), "equal"),
    "digests": (tensor(1.0, md5="0badcafe"), tensor(1.0, md5="0badcaff"), "different"),
    "equal_digests": (tensor(1.0, md5="0badcafe"), tensor(1.0, md5="0badcafe"), "equal"),
    "max_of_one": (tensor(1.0), tensor(1.0, Max=None), "different"),
    # values
    "scalars": (scalar(3), scalar(3), "equal"),
    "other_scalars": (scalar(3), scalar(4), "different"),
    "large_scalars": (scalar(2**53 + 1), scalar(2**53), "different"),
    "close_scalars": (scalar(1.0), scalar(1 + 1e-12), "different"),
    "zeros": (scalar(0.0), scalar(-0.0), "equal"),
    "nan_scalars": (scalar(NAN), scalar(NAN), "equal"),
    "nan_scalar": (scalar(NAN), scalar(1.0), "different"),
    "inf_scalars": (scalar(INF), scalar(-INF), "different"),
    "int_float": (scalar(1), scalar(1.0), "different"),
    "bool_int": (scalar(True), scalar(1), "different"),
    "bool_scalars": (scalar(True), scalar(False), "different"),
    "texts": (scalar("a"), scalar("b"), "different"),
    "numbers_as_text": (scalar("1"), scalar("1.0"), "different"),
    "nulls": (None, None, "equal"),
    "null_and_scalar": (None, scalar(0), "different"),
    "tensor_and_scalar": (tensor(1.0), scalar(1.0), "different"),
    "devices": (of("torch.device", value="npu:0"), of("torch.device", value="cuda:0"), "equal"),
    "device_texts": (scalar("npu:0"), scalar("cuda"), "equal"),
    "slices": (of("slice", value=[0, None, 2]), of("slice", value=[0, 5, 2]), "different"),
    "equal_slices": (of("slice", value=[0, None, 2]), of("slice", value=[0, None, 2]), "equal"),
    "sizes": (of("torch.Size", value=[2, 3]), of("torch.Size", value=[3, 2]), "different"),
    "equal_sizes": (of("torch.Size", value=[2, 3]), of("torch.Size", value=[2, 3]), "equal"),
    "dtypes": (of("torch.dtype", value="torch.float16"), of("torch.dtype", value="torch.float32"), "different"),
    "formats": (
        of("torch.memory_format", format="torch.channels_last"), of("torch.memory_format", format="torch.strided"),
        "different"),
    "equal_formats": (
        of("torch.memory_format", format="torch.channels_last"),
        of("torch.memory_format", format="torch.channels_last"), "equal"),
    "groups": (
        of("torch.ProcessGroup", group_ranks=[0, 1]), of("torch.ProcessGroup", group_ranks=[0, 2]), "different"),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    cases = {name: (target, golden) for name, (target, golden, _) in CASES.items()}
    return compared_leaves(tmp_path_factory.mktemp("difference"), cases)


@pytest.mark.parametrize("name", CASES)
def test_difference(rows: dict[str, Row], name: str) -> None:
    assert rows[name]["difference"] == CASES[name][2]


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    cases = {name: (golden, target) for name, (target, golden, _) in CASES.items()}
    return compared_leaves(tmp_path_factory.mktemp("swapped"), cases)


def test_the_word_is_the_same_from_both_sides(swapped: dict[str, Row]) -> None:
    assert {name: row["difference"] for name, row in swapped.items()} == {name: case[2] for name, case in CASES.items()}


def test_the_noise_factor_of_a_rule(tmp_path: Path) -> None:
    rule = tmp_path / "wide.sql"
    rule.write_text("SET VARIABLE noise_factor = 32;")
    ours = {"Torch.a.0.forward": call([tensor(1 + 20 * F32, shape=[]), tensor(1 + 40 * F32, shape=[])])}
    theirs = {"Torch.a.0.forward": call([tensor(1.0, shape=[]), tensor(1.0, shape=[])])}
    assert [row["difference"] for row in compared(tmp_path, ours, theirs)] == ["different", "different"]
    rows = compared(tmp_path / "with", ours, theirs, rule=str(rule))
    assert [row["difference"] for row in rows] == ["noise", "different"]


def test_saved_tensors_decide_over_their_statistics(tmp_path: Path) -> None:
    """Equal statistics hide a difference of the elements; ones rounded otherwise make none of equal elements.

    Statistics that are far apart are of other elements than the files have. A tensor whose file was lost is not equal,
    but may be different.
    """
    arrays = {
        "equal": ([1.0, 2.0, -0.0, NAN], [1.0, 2.0, 0.0, NAN]),
        "of_two_runs": ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]),
        "noise": ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0 + 2**-21, 3.0, 4.0]),
        "swapped": ([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 3.0, 4.0]),
        "nan_moved": ([NAN, 1.0, 1.0, 1.0], [1.0, NAN, 1.0, 1.0]),
    }
    lost = {"lost": (tensor(1.0), tensor(1.0)), "lost_and_away": (tensor(1.0), tensor(1.0, shape=[5]))}
    sides = []
    for side, folder in enumerate((tmp_path / "ours", tmp_path / "theirs")):
        data = {f"Torch.{name}.0.forward": call([tensor(1.0, data_name=f"{name}.npy")]) for name in arrays}
        data["Torch.equal.0.forward"] = call([tensor(1.0 + side / 1000, data_name="equal.npy")])
        data["Torch.of_two_runs.0.forward"] = call([tensor(1.0 + side, data_name="of_two_runs.npy")])
        for name, pair in lost.items():
            data[f"Torch.{name}.0.forward"] = call([pair[side] | {"data_name": f"{name}.npy"}])
        files = {f"{name}.npy": np.array(pair[side], np.float32) for name, pair in arrays.items()}
        sides.append(write_dump(folder, data, task="tensor", arrays=files))
    compare(*sides, lake=tmp_path / "lake", name="both")
    found = {row["target_op"].split(".")[1]: row["difference"] for row in results(tmp_path / "lake", "both")}
    assert found == {
        "equal": "equal", "of_two_runs": "different", "noise": "noise", "swapped": "different",
        "nan_moved": "different", "lost": None, "lost_and_away": "different",
    }  # fmt: skip

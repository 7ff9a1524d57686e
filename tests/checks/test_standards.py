"""Measures and verdicts against msprobe 26.2's own code on generated pairs (`make_expected.py` wrote what it says)."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import asdict
from pairs import APIS, COUNT, DTYPES, pairs

import lakeprobe
from lakeprobe import resources
from lakeprobe.checks import standards
from lakeprobe.lake.connection import connect
from lakeprobe.tensors.measures import measure

FIELDS = {
    "small_value_err_ratio": "small_value_error_share",
    "rmse": "rmse",
    "eb": "error_balance",
    "max_rel_error": "max_relative_error",
    "mean_rel_error": "mean_relative_error",
    "inf_nan_error_ratio": "nonfinite_error_share",
    "rel_err_ratio": "relative_error_share",
    "abs_err_ratio": "absolute_error_share",
    "max_ulp_error": "max_ulp",
    "mean_ulp_error": "mean_ulp",
    "ulp_error_proportion": "ulp_share",
    "rel_err_thousandth": "one_thousandth_ratio",
    "error_rate": "binary_error_share",
    "accumulative_inf_nan_error_ratio": "accumulative_nonfinite_share",
    "accumulative_rel_err_ratio": "accumulative_relative_share",
    "accumulative_abs_err_ratio": "accumulative_absolute_share",
    "cosine": "cosine",
    "max_abs_err": "max_abs_error",
}
STATUSES = {
    "status_binary_consistency": "binary",
    "status_absolute_threshold": "absolute",
    "status_thousandth_threshold": "thousandth",
    "status_ulp_compare": "ulp",
    "status_accumulative": "accumulative",
}


@pytest.fixture(scope="module")
def expected():
    rows = pq.read_table(Path(__file__).parent / "data" / "expected.parquet").to_pylist()
    return {(row["dtype"], row["number"]): row for row in rows}


@pytest.fixture(scope="module")
def measured():
    """The measures of (reference, device) and (reference, peer) of every pair."""
    return {
        (dtype, number): (measure(reference, device), measure(reference, peer))
        for dtype in DTYPES
        for number, (reference, device, peer) in enumerate(pairs(dtype))
    }


@pytest.fixture
def connection():
    with connect(threads=1) as made:
        standards.prepare(made)
        yield made


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_measure_is_msprobes(dtype, expected, measured):
    compared = 0
    for number in range(COUNT):
        ours, theirs = asdict(measured[dtype, number][0]), expected[dtype, number]
        for field, name in FIELDS.items():
            if theirs[field] is not None:
                compared += 1
                assert ours[name] == pytest.approx(theirs[field], rel=1e-6, abs=1e-300, nan_ok=True), (number, field)
    assert compared >= COUNT


def rows_of(measured, dtype, side, api="gelu", **more):
    return [
        asdict(measured[dtype, number][side])
        | {"place": number, "api": api, "dtype": dtype, "direction": "forward",
           "has_float8": False, "is_deterministic": True, "problem": None}
        | more
        for number in range(COUNT)
    ]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_pre_check_is_msprobes(dtype, expected, measured, connection):
    table = pa.Table.from_pylist(rows_of(measured, dtype, 0), schema=schema())
    statuses = standards.judge(connection, table, "pre_check")["status"].to_pylist()
    theirs = [expected[dtype, number]["pre_check"] for number in range(COUNT)]
    assert statuses == theirs
    assert {"pass", "error"} <= set(theirs)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [name for name in DTYPES if name not in ("int32", "bool", "float64")])
@pytest.mark.parametrize("standard", ["binary", "absolute", "thousandth", "ulp", "accumulative", "benchmark"])
def test_the_verdict_on_two_devices_is_msprobes(dtype, standard, expected, measured, connection):
    for api in APIS if standard == "benchmark" else ("gelu",):
        both = [
            row | {"verification": name, "origin": "device", "run": "r", "step": 0, "rank": 0, "seq": row["place"],
                   "op": f"Torch.{api}.{row['place']}", "slot": "output.0", "shape": [3]}
            for side, name in enumerate(("device", "peer"))
            for row in rows_of(measured, dtype, side, api)
        ]  # fmt: skip
        connection.register("verifications", pa.Table.from_pylist(both, schema=schema()))
        parameters = {"standard": standard, "device": "device", "peer": "peer"}
        found = connection.sql(resources.sql("checks/against"), params=parameters).to_arrow_table()
        field = (
            f"status_benchmark_{api}"
            if standard == "benchmark"
            else next(k for k, v in STATUSES.items() if v == standard)
        )
        theirs = [expected[dtype, number][field] for number in range(COUNT)]
        assert found.sort_by("seq")["status"].to_pylist() == theirs
        assert len(set(theirs)) == 2


def schema():
    numbers = {name: pa.float64() for name in asdict(measure(np.zeros(2), np.zeros(2)))}
    texts = {
        name: pa.string()
        for name in (
            "api",
            "dtype",
            "direction",
            "problem",
            "cosine_note",
            "verification",
            "origin",
            "run",
            "op",
            "slot",
        )
    }
    others = {name: pa.int32() for name in ("place", "step", "rank", "seq")} | {
        "has_float8": pa.bool_(),
        "is_deterministic": pa.bool_(),
        "shape": pa.list_(pa.int64()),
    }
    return pa.schema(list((numbers | texts | others).items()))


def test_a_small_float_that_numpy_lacks_is_measured():
    reference = np.array([1.0, 2.0, 300.0], np.float32)
    found = measure(reference, reference.astype(ml_dtypes.bfloat16))
    assert found.max_ulp == 0.0
    assert found.max_abs_error == 0.0


def test_an_empty_result_has_no_measures():
    assert measure(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).max_abs_error is None


def test_what_rounded_inputs_do_is_no_error():
    reference = np.array([1.0, 1e-7])  # a difference of two large numbers
    device = np.array([1.0, 3e-7], np.float32)
    assert measure(reference, device).largest_error > 1
    assert measure(reference, device, np.array([0.0, 1e-6])).largest_error < 1


def test_a_rule_of_compare_uses_the_standards(tmp_path):
    from lakeprobe.metrics import standard_columns

    random = np.random.default_rng(0)
    golden = random.standard_normal((4, 8)).astype(np.float32)
    target = golden * np.float32(1 + 1e-4)
    for name, array in (("npu", target), ("gpu", golden)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", array)
        np.save(tmp_path / name / "same.npy", golden)
    rule = tmp_path / "ulp.sql"
    rule.write_text(
        """CREATE OR REPLACE VIEW metrics AS
        SELECT m.*, measures.mean_ulp AS mean_ulp, standard_status(measures, 'ulp') AS by_ulp,
            standard_status(measures, 'pre_check') AS by_pre_check
        FROM metrics_default AS m
        LEFT JOIN (
            SELECT row, standard_measures(t.reference, g.reference) AS measures
            FROM paired
            JOIN target_contents AS t ON t.content = target_content
            JOIN golden_contents AS g ON g.content = golden_content
        ) AS measured USING (row)"""
    )
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.compare(tmp_path / "npu", tmp_path / "gpu", rule=str(rule), name="c")
        found = lake.sql("SELECT target_op, mean_ulp, by_ulp, by_pre_check FROM c ORDER BY ALL").fetchall()
        sql = "SELECT standard_measures(r.reference, r.reference).mean_ulp FROM tensor_references AS r"
        assert set(lake.sql(sql).fetchall()) == {(0.0,)}
    expected = measure(golden, target)
    (same, zero, *passes), (x, mean_ulp, *statuses) = found
    assert ("same" in same, zero, passes) == (True, 0.0, ["pass", "pass"])
    assert ("x" in x, mean_ulp, statuses) == (True, pytest.approx(expected.mean_ulp), ["error", "pass"])
    assert list(standard_columns())[2:] == list(asdict(expected))

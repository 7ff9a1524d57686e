"""Every finding of sql/judge/verdicts.sql: a case where it is made, and one just on the other side of its threshold."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pair_dumps import Data, Row, call, compared, results, scalar, tensor, write_dump

from lakeprobe import resources
from lakeprobe.compare.run import compare

NAN, INF = math.nan, math.inf

A = "error: NaN or inf in the target where the golden run has none"
B = "error: NaN or inf at different places, or inf of different sign"
C = "error: the norm of this output is off while the inputs agree"
D = "error: too few elements of the outputs are within one thousandth while the inputs agree"
E = "error: requires_grad differs"
F = "error: the kinds of the values differ"
G = "error: the types of the values differ"
H = "error: the values differ"
I = "error: the dtypes differ"  # noqa: E741 the findings' own letters
J = "error: the shapes differ"
K = "error: the digests differ"
GROWS = "warning: the norm error grows from the inputs to the outputs"
FALLS = "warning: the cosine falls from the inputs to the outputs"
ONE_DIGEST = "warning: only one side has a digest"
NEVER_WRITTEN = "skipped: this memory was never written"


def judged(rows: list[Row], name: str) -> list[list[str]]:
    return [row["messages"] for row in rows if f".{name}.0." in row["target_op"]]


def verdict_of(messages: list[str]) -> str:
    if not messages:
        return "pass"
    return "error" if any(message.startswith("error") for message in messages) else "warning"


# ---- statistics: one op per case, as (arguments, outputs) of both sides, and the findings of each row -----


def norms(*values: float) -> list[Any]:
    return [tensor(1.0, Norm=value) for value in values]


STATISTICS: dict[str, tuple[tuple[list[Any], list[Any]], tuple[list[Any], list[Any]], list[list[str]]]] = {
    "same": ((norms(1), norms(1)), (norms(1), norms(1)), [[], []]),
    "a_nan": (([], [tensor(NAN)]), ([], [tensor(1.0)]), [[A]]),
    "a_inf_max": (([], [tensor(1.0, Max=INF)]), ([], [tensor(1.0)]), [[A]]),
    "a_inf_min": (([tensor(1.0, Min=-INF)], []), ([tensor(1.0)], []), [[A]]),
    "a_golden_too": (([], [tensor(NAN)]), ([], [tensor(NAN)]), [[]]),
    "a_golden_only": (([], [tensor(1.0)]), ([], [tensor(NAN)]), [[]]),
    "a_mean_only": (([], [tensor(1.0, Mean=NAN)]), ([], [tensor(1.0)]), [[]]),
    "a_scalar": (([scalar(INF)], []), ([scalar(1.0)], []), [[A, H]]),
    "a_word": (([scalar("inf")], []), ([scalar("inf")], []), [[]]),
    "a_words": (([scalar("inf")], []), ([scalar("fro")], []), [[H]]),
    "b_signs": (([], [tensor(1.0, Max=INF)]), ([], [tensor(1.0, Max=-INF)]), [[B]]),
    "b_min": (([], [tensor(1.0, Min=INF)]), ([], [tensor(1.0, Min=NAN)]), [[B]]),
    "b_same_inf": (([], [tensor(1.0, Min=-INF)]), ([], [tensor(1.0, Min=-INF)]), [[]]),
    # the inputs agree below 0.1, an output is off above 0.5
    "c_fires": ((norms(109), norms(151, 100)), (norms(100), norms(100, 100)), [[], [C], []]),
    "c_at_output": ((norms(109), norms(150)), (norms(100), norms(100)), [[], []]),
    "c_at_input": ((norms(11), norms(151)), (norms(10), norms(100)), [[], []]),
    "c_smaller": ((norms(1), norms(49)), (norms(1), norms(100)), [[], [C, GROWS]]),
    "c_from_zero": ((norms(109), norms(1)), (norms(100), norms(0)), [[], [C]]),
    "c_every_output": ((norms(109), norms(200, 200)), (norms(100), norms(100, 100)), [[], [C, GROWS], [C]]),
    "c_parameters": ((norms(1, 20), norms(151)), (norms(1, 10), norms(100)), [[], [], []]),
    "c_no_norm": ((norms(1), [tensor(1.0, Norm=None)]), (norms(1), [tensor(1.0, Norm=0.0)]), [[], []]),
    # from inputs that agree by more than 0.1; from others by more than ten times
    "grows_from_zero": ((norms(1), norms(111)), (norms(1), norms(100)), [[], [GROWS]]),
    "grows_from_zero_at": ((norms(1), norms(11)), (norms(1), norms(10)), [[], []]),
    "grows": ((norms(101), norms(111)), (norms(100), norms(100)), [[], [GROWS]]),
    "grows_at": ((norms(101), norms(11)), (norms(100), norms(10)), [[], []]),
    "grows_second": ((norms(101), norms(100, 111)), (norms(100), norms(100, 100)), [[], [], [GROWS]]),
    "grows_both": ((norms(101), norms(100.5, 111)), (norms(100), norms(100, 100)), [[], [GROWS], []]),
    "grows_null": ((norms(101), [None, *norms(111)]), (norms(100), [None, *norms(100)]), [[], [], [GROWS]]),
    "grows_nothing_in": (([], norms(111)), ([], norms(100)), [[GROWS]]),
    "e_fires": (([tensor(requires_grad=True)], []), ([tensor(requires_grad=False)], []), [[E]]),
    "e_absent": (([tensor(requires_grad=True)], []), ([tensor(requires_grad=...)], []), [[]]),
    "f_kinds": (([tensor(1.0), None], []), ([scalar(1.0), scalar(1.0)], []), [[F], [F]]),
    "f_same_kind": (([None], []), ([None], []), [[]]),
    "g_types": (([scalar(1)], []), ([scalar(1.0)], []), [[G]]),
    "g_objects": (([{"type": "slice", "value": [1]}], []), ([{"type": "torch.Size", "value": [1]}], []), [[G]]),
    "h_values": (([scalar(3), scalar("a"), scalar(2)], []), ([scalar(4), scalar("b"), scalar(2)], []), [[H], [H], []]),
    "h_devices": (([scalar("npu:0")], []), ([scalar("cuda:0")], []), [[]]),
    "i_dtypes": (([tensor(dtype="torch.float16")], []), ([tensor()], []), [[I]]),
    "j_shapes": (([tensor(shape=[2, 2])], []), ([tensor()], []), [[J]]),
    "i_and_j": (([tensor(dtype="torch.int8", shape=[1])], []), ([tensor()], []), [[I, J]]),
    "k_not_judged": (([tensor(md5="00000001")], []), ([tensor(md5=...)], []), [[]]),
}


def sides(cases: Any) -> tuple[Data, Data]:
    return (
        {f"Torch.{name}.0.forward": call(*case[0]) for name, case in cases.items()},
        {f"Torch.{name}.0.forward": call(*case[1]) for name, case in cases.items()},
    )


@pytest.fixture(scope="module")
def statistics(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return compared(tmp_path_factory.mktemp("verdicts"), *sides(STATISTICS))


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics(statistics: list[Row], name: str) -> None:
    assert judged(statistics, name) == STATISTICS[name][2]


def test_a_verdict_is_the_worst_finding(statistics: list[Row]) -> None:
    assert [row["verdict"] for row in statistics] == [verdict_of(row["messages"]) for row in statistics]
    assert {row["outcome"] for row in statistics} == {"compared"}


def test_digests(tmp_path: Path) -> None:
    one, other = tensor(md5="0badcafe"), tensor(md5="0badcaff")
    cases = {
        "equal": (([one], [one]), ([one], [one]), [[], []]),
        "k_fires": (([one], [other]), ([one], [one]), [[], [K]]),
        "only_one": (([one], [tensor()]), ([tensor()], [tensor()]), [[ONE_DIGEST], []]),
        "scalars": (([scalar(1)], []), ([scalar(1)], []), [[]]),
        "k_shape": (([tensor(md5="0badcafe", shape=[2, 2])], []), ([one], []), [[J]]),
    }
    rows = compared(tmp_path, *sides(cases))
    assert {name: judged(rows, name) for name in cases} == {name: case[2] for name, case in cases.items()}


def test_the_xor_mode_has_the_values_of_single_numbers(tmp_path: Path) -> None:
    def made(value: Any) -> tuple[list[Any], list[Any]]:
        return [tensor(..., md5="0x0123456789abcdef")], [tensor(..., md5=value, shape=[])]

    cases = {
        "equal": (made(9.5), made(9.5), [[], []]),
        "longer": (made(9.5), made(10.25), [[], [H]]),
        "rounded": (made(1.0), made(1.0000001), [[], [H]]),
        "born": (made(NAN), made(-0.0), [[], [A, H]]),
        "nan": (made(NAN), made(NAN), [[], []]),
        "integers": (made(3), made(4), [[], [H, GROWS]]),
        "bools": (made(True), made(False), [[], [C, H]]),
    }
    rows = compared(tmp_path, *sides(cases))
    assert {name: judged(rows, name) for name in cases} == {name: case[2] for name, case in cases.items()}
    found = {row["target_op"].split(".")[1]: row["difference"] for row in rows if row["role"] == "output"}
    assert found == {"equal": "equal", "longer": "different", "rounded": "noise", "born": "different", "nan": "equal",
                     "integers": "different", "bools": "different"}  # fmt: skip


# ---- saved tensors ----------------------------------------------------------------------------------------

ONES = [1.0] * 10


def off(elements: int) -> list[float]:
    return [1.01] * elements + [1.0] * (10 - elements)


def turned(cosine: float) -> list[float]:
    return [cosine, math.sqrt(1 - cosine**2)] + [0.0] * 8


UNIT = turned(1.0)
INVERSE = [1e-3] * 9 + [-1e-3]
TENSORS: dict[str, tuple[tuple[Any, Any], tuple[Any, Any], list[list[str]]]] = {
    "same": ((ONES, ONES), (ONES, ONES), [[], []]),
    "d_fires": ((ONES, off(5)), (ONES, ONES), [[], [D]]),
    "d_at_output": ((ONES, off(4)), (ONES, ONES), [[], []]),
    "d_at_input": ((off(1), off(5)), (ONES, ONES), [[], []]),
    "falls": ((UNIT, turned(0.85)), (UNIT, UNIT), [[], [FALLS]]),
    "falls_less": ((UNIT, turned(0.91)), (UNIT, UNIT), [[], []]),
    "falls_at_input": ((turned(0.89), turned(0.5)), (UNIT, UNIT), [[], []]),
    "falls_to_nothing": ((ONES, INVERSE), (ONES, ONES), [[], [D, FALLS]]),
    "b_places": (
        ([NAN, *ONES[1:]], [1.0, INF, *ONES[2:]]),
        ([1.0, NAN, *ONES[2:]], [1.0, -INF, *ONES[2:]]),
        [[B], [B]],
    ),
    "b_same_places": (([NAN, *ONES[1:]], ONES), ([NAN, *ONES[1:]], ONES), [[], []]),
}


def write_tensors(folder: Path, side: int) -> Path:
    data = {
        f"Torch.{name}.0.forward": call(
            [tensor(1.0, data_name=f"{name}.0.npy")], [tensor(1.0, data_name=f"{name}.1.npy")]
        )
        for name in TENSORS
    }
    arrays = {
        f"{name}.{slot}.npy": np.array(case[side][slot], np.float64)
        for name, case in TENSORS.items()
        for slot in (0, 1)
    }
    return write_dump(folder, data, task="tensor", arrays=arrays)


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("tensors")
    compare(write_tensors(folder / "ours", 0), write_tensors(folder / "theirs", 1), lake=folder / "lake", name="both")
    return results(folder / "lake", "both")


@pytest.mark.parametrize("name", TENSORS)
def test_saved_tensors(tensors: list[Row], name: str) -> None:
    assert judged(tensors, name) == TENSORS[name][2]


def test_equal_contents_are_not_read(tensors: list[Row]) -> None:
    for row in tensors:
        name, slot = row["target_op"].split(".")[1], 1 if row["role"] == "output" else 0
        ours, theirs = TENSORS[name][0][slot], TENSORS[name][1][slot]
        same = np.array_equal(ours, theirs, equal_nan=True)
        assert row["outcome"] == ("equal" if same else "compared")
        assert row["values_equal"] is same


# ---- thresholds of a rule ---------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("threshold", "value", "case", "expected"),
    [
        ("norm_error_output", 0.4, "c_at_output", [[], [C]]),
        ("norm_error_output", 0.6, "c_fires", [[], [], []]),
        ("norm_error_input", 0.11, "c_at_input", [[], [C]]),
        ("norm_error_input", 0.05, "c_fires", [[], [], []]),
        ("norm_growth", 9, "grows_at", [[], [GROWS]]),
        ("norm_growth", 12, "grows", [[], []]),
        ("norm_growth_from_zero", 0.05, "grows_from_zero_at", [[], [GROWS]]),
        ("norm_growth_from_zero", 0.2, "grows_from_zero", [[], []]),
    ],
)
def test_thresholds_of_statistics(tmp_path: Path, threshold: str, value: float, case: str, expected: Any) -> None:
    rule = tmp_path / "rule.sql"
    rule.write_text(f"SET VARIABLE {threshold} = {value};")
    rows = compared(tmp_path, *sides({case: STATISTICS[case]}), rule=str(rule))
    assert judged(rows, case) == expected


def test_thresholds_of_tensors(tmp_path: Path) -> None:
    rule = tmp_path / "rule.sql"
    rule.write_text(
        "SET VARIABLE thousandth_input = 0.8; SET VARIABLE thousandth_output = 0.65;"
        "SET VARIABLE cosine_input = 0.8; SET VARIABLE cosine_drop = 0.05;"
    )
    folders = write_tensors(tmp_path / "ours", 0), write_tensors(tmp_path / "theirs", 1)
    compare(*folders, lake=tmp_path / "lake", name="both", rule=str(rule))
    rows = results(tmp_path / "lake", "both")
    found = {name: judged(rows, name)[1] for name in TENSORS}
    assert found["d_at_output"] == found["d_at_input"] == [D]
    assert found["falls_less"] == found["falls_at_input"] == [FALLS]
    assert found["same"] == []


def test_rows_without_counterpart_can_be_expected(tmp_path: Path) -> None:
    rule = tmp_path / "rule.sql"
    rule.write_text("SET VARIABLE unmatched_is_finding = 0;")
    data = {"Torch.f.0.forward": call([tensor()])}, {"Torch.g.0.forward": call([tensor()])}
    assert [row["verdict"] for row in compared(tmp_path / "found", *data)] == ["unmatched", "unmatched"]
    rows = compared(tmp_path / "expected", *data, rule=str(rule))
    assert [(row["outcome"], row["verdict"]) for row in rows] == [("unmatched", "skipped")] * 2


def test_between_frameworks_a_class_of_dtypes_is_enough(tmp_path: Path) -> None:
    rule = tmp_path / "rule.sql"
    rule.write_text("SET VARIABLE cross_framework = 1;")
    data = (
        {"Torch.f.0.forward": call([tensor(dtype="Float32"), tensor(2, dtype="Int32", requires_grad=None)])},
        {
            "Torch.f.0.forward": call(
                [tensor(dtype="torch.float64"), tensor(2, dtype="torch.int64", Mean=None, Norm=None)]
            )
        },
    )
    assert [row["verdict"] for row in compared(tmp_path / "strictly", *data)] == ["error", "error"]
    rows = compared(tmp_path / "freely", *data, rule=str(rule))
    assert [(row["verdict"], row["difference"]) for row in rows] == [("pass", "equal"), ("pass", "equal")]


def test_every_threshold_has_a_case_here() -> None:
    names = {
        line.split("'")[1] for line in resources.sql("judge/thresholds").splitlines() if line.startswith("        ('")
    }
    assert names == {
        "noise_factor", "norm_error_input", "norm_error_output", "norm_growth", "norm_growth_from_zero",
        "thousandth_input", "thousandth_output", "cosine_input", "cosine_drop",
        "cross_framework", "unmatched_is_finding",
    } | {
        "made_growth", "carried_share", "same_norm", "overflow_jump",  # tests/analysis/test_thresholds.py
        "repeat_factor",
        "outstanding_score", "certain_score", "coarsest_matmul", "coarsest_other", "coarsest_low",  # tests/noise
        "floor_factor", "outright_factor", "outright_error", "repeat_growth",
    }  # fmt: skip


# ---- rows that are not judged -----------------------------------------------------------------------------


def test_memory_that_was_never_written_is_skipped(tmp_path: Path) -> None:
    ours, theirs = tensor(NAN), tensor(1.0)
    names = (
        "Torch.empty.0.forward",
        "Distributed.recv.0.forward",
        "Distributed.send.0.forward",
        "Torch.empty.0.backward",
    )
    data = [
        {name: call([leaf, leaf], [leaf]) for name in names} | {"Torch.empty_like.0.forward": call([], [leaf] * side)}
        for side, leaf in ((2, ours), (1, theirs))
    ]
    found = {row["target_name"]: (row["outcome"], row["verdict"], row["messages"]) for row in compared(tmp_path, *data)}
    skipped, bad = ("skipped", "skipped", [NEVER_WRITTEN]), ("compared", "error", [A])
    assert found == {
        **{f"{name}.{slot}": bad for name in names for slot in ("input.0", "input.1", "output.0")},
        "Torch.empty.0.forward.output.0": skipped,
        "Distributed.recv.0.forward.input.0": skipped,
        "Torch.empty_like.0.forward.output.0": skipped,
        "Torch.empty_like.0.forward.output.1": ("unmatched", "skipped", [NEVER_WRITTEN]),
    }


def test_what_the_batch_norm_of_mindspore_does_not_write_is_skipped(tmp_path: Path) -> None:
    data = [
        {"Primitive.bn_train.BatchNorm.0.forward": call([tensor(1.0)], [tensor(1.0), leaf, leaf, tensor(2.0)])}
        for leaf in (tensor(NAN), tensor(1.0))
    ]
    found = {row["target_name"].rpartition("forward.")[2]: row["verdict"] for row in compared(tmp_path, *data)}
    skipped = {"output.1": "skipped", "output.2": "skipped"}
    assert found == dict.fromkeys(("input.0", "output.0", "output.3"), "pass") | skipped


def test_what_is_skipped_does_not_count_for_its_op(tmp_path: Path) -> None:
    """A receive buffer that differs neither hides nor makes a finding of the output."""
    data = [{"Distributed.recv.0.forward": call(norms(before), norms(after))} for before, after in ((9, 3), (1, 1))]
    assert [row["messages"] for row in compared(tmp_path, *data)] == [[NEVER_WRITTEN], [C, GROWS]]


def test_a_buffer_of_a_batch_is_skipped_only_where_it_receives(tmp_path: Path) -> None:
    """Inside batch_isend_irecv what is sent is judged, and what is received too, once it is there."""

    def batch(value: float) -> Any:
        pairs = ("isend", value), ("irecv", value)
        ops = [
            {"class_type": "torch.distributed.P2POp", "tensor": tensor(number), "op": op, "peer": 1}
            for op, number in pairs
        ]
        return {"Distributed.batch_isend_irecv.0.forward": call([ops], [ops])}

    found = {
        row["target_name"].split("forward.")[1]: row["outcome"] for row in compared(tmp_path, batch(1.0), batch(2.0))
    }
    assert found == {
        "input.0.0": "compared",
        "input.0.1": "skipped",
        "output.0.0": "compared",
        "output.0.1": "compared",
    }


def test_rows_without_counterpart(tmp_path: Path) -> None:
    ours = {"Torch.a.0.forward": call([tensor(), tensor(NAN)]), "Torch.mine.0.forward": call([tensor()])}
    theirs = {"Torch.theirs.0.forward": call([tensor(NAN)]), "Torch.a.0.forward": call([tensor()])}
    rows = compared(tmp_path, ours, theirs)
    keys = ("target_name", "golden_name", "outcome", "verdict", "difference", "messages", "matched_by")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("Torch.a.0.forward.input.0", "Torch.a.0.forward.input.0", "compared", "pass", "equal", [], "exact"),
        ("Torch.a.0.forward.input.1", None, "unmatched", "unmatched", None, [], None),
        ("Torch.mine.0.forward.input.0", None, "unmatched", "unmatched", None, [], None),
        (None, "Torch.theirs.0.forward.input.0", "unmatched", "unmatched", None, [], None),
    ]


def test_tensor_files_that_cannot_be_read(tmp_path: Path) -> None:
    names = ("whole.npy", "damaged.npy", "missing.npy")
    data = {"Torch.a.0.forward": call([tensor(1.0, data_name=name) for name in names])}
    folders = []
    for side in (0, 1):
        arrays = {name: np.ones(4) + side for name in names}
        folders.append(write_dump(tmp_path / str(side) / "dump", data, task="tensor", arrays=arrays))
    (folders[0] / "dump_tensor_data" / "damaged.npy").write_bytes(b"\x93NUMPY\x01")
    (folders[1] / "dump_tensor_data" / "missing.npy").unlink()
    compare(*folders, lake=tmp_path / "lake", name="both")
    whole, damaged, missing = results(tmp_path / "lake", "both")
    assert (whole["outcome"], whole["verdict"], whole["max_abs_error"]) == ("compared", "pass", 1.0)
    for row, name, folder in ((damaged, "damaged.npy", folders[0]), (missing, "missing.npy", folders[1])):
        assert (row["outcome"], row["verdict"], row["measurement"]) == ("unreadable", "unreadable", "unreadable")
        [message] = row["messages"]
        assert message.startswith("unreadable: ")
        assert str(folder / "dump_tensor_data" / name) in message

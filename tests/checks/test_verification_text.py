"""What `lakeprobe verify` says: what is wrong first, then what could not run, and the counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakeprobe.checks.verify import VerifyReport
from lakeprobe.reports.verification_text import finding_words, verification_text

WRONG = {
    "op": "Torch.exp.0.forward", "slot": "output.0", "origin": "device", "device": "npu:0", "dtype": "torch.float32",
    "standard": "rounding", "status": "error", "is_deterministic": True, "nonfinite_mismatches": 0,
    "largest_ulp": 4096.0, "max_abs_error": 0.25, "signed_zeros": 0, "binary_error_share": None, "problem": None,
}  # fmt: skip


def report(**statuses: int) -> VerifyReport:
    return cast(VerifyReport, SimpleNamespace(name="npu", calls=9, distinct=5, known=2, statuses=statuses))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "off by up to 4.1e+03 ULP, 0.25"),
        ({"largest_ulp": 2.5, "max_abs_error": 1e-07}, "off by up to 2.5 ULP, 1e-07"),
        ({"signed_zeros": 3, "largest_ulp": 0.0}, "3 zeros have the wrong sign"),
        ({"signed_zeros": 3}, "off by up to 4.1e+03 ULP, 0.25"),
        ({"largest_ulp": None, "binary_error_share": 0.125}, "12.5 % of the elements differ"),
        ({"largest_ulp": None}, "0 % of the elements differ"),
        ({"nonfinite_mismatches": 2}, "2 elements are NaN or infinite on one side only"),
        ({"is_deterministic": False, "nonfinite_mismatches": 2}, "it does not give the same bits each time"),
    ],
)
def test_what_is_wrong_in_words(changed: dict[str, Any], words: str) -> None:
    assert finding_words(WRONG | changed) == words


def test_wrong_ops_come_before_those_that_did_not_run() -> None:
    skipped = {"op": "Torch.mine.0.forward", "status": "skip", "problem": "torch has no such op"}
    recorded = WRONG | {"origin": "recorded", "status": "warning"}
    lines = verification_text(report(error=1, warning=1, skip=1), [WRONG, recorded, skipped]).splitlines()
    assert lines[:4] == [
        "npu: 9 calls of ops, 5 distinct, 2 known before", "results: 1 error, 1 warning, 1 skip", "",
        "Wrong, by its own reference:",
    ]  # fmt: skip
    head, _, first, second = (line.split() for line in lines[4:8])
    assert head == ["op", "result", "where", "dtype", "standard", "status", "what"]
    assert first[:8] == ["Torch.exp.0.forward", "output.0", "on", "npu:0", "torch.float32", "rounding", "error", "off"]
    assert second[:5] == ["Torch.exp.0.forward", "output.0", "in", "the", "dump"]
    assert lines[-1].split() == ["Torch.mine.0.forward", "torch", "has", "no", "such", "op"]


def test_of_many_findings_twenty_are_shown() -> None:
    text = verification_text(report(error=23), [WRONG] * 23)
    assert text.count("Torch.exp.0.forward") == 20
    assert text.endswith("and 3 more: lakeprobe sql \"FROM verifications WHERE status <> 'pass'\"\n")


def test_right_ops_are_said_to_be_right() -> None:
    counts = "npu: 9 calls of ops, 5 distinct, 2 known before\n"
    said = "Every op that ran is right: its error is what rounding explains.\n"
    assert verification_text(report(**{"pass": 9}), []) == f"{counts}results: 9 pass\n\n{said}"
    assert verification_text(report(), []) == f"{counts}results: none\n"

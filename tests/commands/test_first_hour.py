"""A stranger's first hour: five commands from two dumps to the planted op, each proposed by the one before."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from program import lakeprobe

DEMO = Path(__file__).resolve().parents[1] / "data" / "dumps" / "demo"
PLANTED = "Functional.layer_norm.3.forward"


def proposed(text: str, command: str) -> list[str]:
    """The words of `command` as the program itself proposes them."""
    (proposal,) = re.findall(rf"lakeprobe ({command}\b.*)$", text, re.MULTILINE)
    return shlex.split(proposal)


def test_from_nothing_to_the_planted_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    overview = lakeprobe()
    assert proposed(overview.out, "ingest") == ["ingest", "PATH"]
    first = lakeprobe("ingest", DEMO / "target")
    assert proposed(first.err, "ingest") == ["ingest", "PATH"]
    second = lakeprobe("ingest", DEMO / "golden")
    compared = lakeprobe(*proposed(second.err, "compare"))
    assert f"The first op that differs: {PLANTED}" in compared.out
    assert "input.4: 0.01 against 1e-05" in compared.out
    began = lakeprobe(*proposed(compared.out, "first-diff"))
    assert f"First difference: {PLANTED} (step 0)" in began.out
    cause = lakeprobe(*proposed(began.out, "blame"))
    assert f"{PLANTED} on rank 0: its argument input.4 is 0.01 against 1e-05" in cause.out
    numbers = lakeprobe(*proposed(cause.out, "show"))
    assert ["input.4", "float", "0.01", "1e-05", "differs"] in [line.split() for line in numbers.out.splitlines()]
    for done in (overview, first, second, compared, began, cause, numbers):
        assert done.code == 0

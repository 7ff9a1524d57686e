"""A stranger's first hour: five commands to the planted op and its cause, each proposed by the one before."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from program import lakeprobe

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
    examples = lakeprobe(*proposed(overview.out, "examples"))
    compared = lakeprobe(*proposed(examples.err, "compare"))
    assert f"The first op that differs: {PLANTED}" in compared.out
    assert "input.4: 0.01 against 1e-05" in compared.out
    began = lakeprobe(*proposed(compared.out, "first-diff"))
    assert f"First difference: {PLANTED} (step 0)" in began.out
    cause = lakeprobe(*proposed(began.out, "blame"))
    assert f"{PLANTED} on rank 0: its argument input.4 is 0.01 against 1e-05" in cause.out
    numbers = lakeprobe(*proposed(cause.out, "show"))
    assert ["input.4", "float", "0.01", "1e-05", "differs"] in [line.split() for line in numbers.out.splitlines()]
    for done in (overview, examples, compared, began, cause, numbers):
        assert done.code == 0

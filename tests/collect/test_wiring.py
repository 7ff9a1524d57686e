"""What is collected, seen from the rest: commands bring in what was left behind, compare says what is incomplete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_unit_sink import abandoned, replay, wait_for_unit

import lakeprobe
from lakeprobe.collect import session
from lakeprobe.collect.debugger import PrecisionDebugger


def test_compare_says_that_a_rank_is_incomplete(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for run, ops in (("golden", -1), ("npu", 600)):
        replay(lake, run, 0, ops).wait()
        wait_for_unit(lake, run, 0)
    with lakeprobe.open(lake, create=True) as opened:
        complete = opened.sql("SELECT run, complete FROM dumps ORDER BY run").fetchall()
        assert complete == [("golden", True), ("npu", False)]
        report = opened.compare("npu", "golden").report
    assert report is not None
    assert [note for note in report.notes if "run npu step 0 rank 0 is incomplete" in note]


def test_a_command_brings_in_what_was_left_behind(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    abandoned(lake, ops=2)
    program = [sys.executable, "-m", "lakeprobe", "ls", "--lake", str(lake)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert "npu" in done.stdout
    assert "incomplete, its first 2 ops" in done.stderr


def test_collect_and_the_debugger_are_found_in_lakeprobe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "collect", lambda *arguments, **options: (arguments, options))
    assert lakeprobe.collect("model", run="npu") == (("model",), {"run": "npu"})
    assert lakeprobe.PrecisionDebugger is PrecisionDebugger


@pytest.mark.parametrize("api", ["npu_ciou", "npu_ciou_backward", "npu_diou", "npu_diou_backward"])
def test_apis_of_the_device_are_listed(api: str) -> None:
    from lakeprobe.collect.pytorch import apis

    assert any(api in names for names in vars(apis).values() if isinstance(names, (frozenset, tuple)))

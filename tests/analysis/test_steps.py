"""An analysis of one step reads no other step, and says what the analysis of all steps says of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from program import lakeprobe

import lakeprobe as package
from lakeprobe.analysis import blame, query
from lakeprobe.analysis.query import stage_connection
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.session import Lake

DUMPS = Path(__file__).resolve().parents[1] / "data" / "dumps" / "ranks"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with a comparison of two steps of two ranks, of which the second step is compacted on one side."""
    folder = tmp_path_factory.mktemp("steps")
    for run in ("golden", "gelu_tanh"):
        for step in range(2):
            shutil.copytree(DUMPS / run / "step0", folder / run / f"step{step}")
    opened = package.open(folder / "lake", create=True)
    opened.compare(folder / "gelu_tanh", folder / "golden", name="c", ranks=[0, 1])
    opened.compact("golden")
    return opened


def test_first_difference(lake: Lake) -> None:
    whole = lake.comparison("c").first_difference().ranks.filter("step = 1").order("ALL").fetchall()
    of_step = lake.comparison("c").first_difference(steps=[1])
    assert len(whole) == 2
    assert of_step.ranks.order("ALL").fetchall() == whole


def test_communication(lake: Lake) -> None:
    whole = lake.communication("c").summary.filter("step = 1").order("ALL").fetchall()
    assert whole != []
    assert lake.communication("c", steps=[1]).summary.order("ALL").fetchall() == whole


def test_blame(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> dict[str, list[tuple[Any, ...]]]:
        found = lake.comparison("c").blame(step=1)
        return {name: getattr(found, name).fetchall() for name in ("suspects", "path", "spread", "counts")}

    of_step = answers()
    assert of_step["suspects"]
    assert of_step["path"]
    monkeypatch.setattr(blame, "stage_connection", lambda connection, *_, **of: stage_connection(connection, **of))
    assert answers() == of_step


@pytest.mark.parametrize("step", [None, 1])
def test_rows_in_memory_answer_as_files_do(lake: Lake, monkeypatch: pytest.MonkeyPatch, step: int | None) -> None:
    def answers() -> list[list[tuple[Any, ...]]]:
        comparison = lake.comparison("c")
        found = comparison.first_difference(steps=() if step is None else [step])
        blamed = comparison.blame(step=step)
        relations = (found.ranks, found.leaves, blamed.suspects, blamed.path, blamed.spread, blamed.counts)
        return [relation.fetchall() for relation in relations]

    held = answers()
    assert held[0]
    assert held[2]
    monkeypatch.setattr(query, "_FEW_ROWS", 0)
    monkeypatch.setattr(query, "_hold", lambda *_: pytest.fail("rows were held"))
    assert answers() == held


def test_every_command_takes_a_list_of_steps(lake: Lake) -> None:
    merge = ("merge", "c", "--api", "Functional.gelu.1", "--metric", "Max diff")
    for words in (("show", "gelu.1"), ("overflow", "golden"), ("comm", "golden"), merge):
        one, both = (lakeprobe(*words, "--step", steps, "--lake", lake.path) for steps in ("1", "0,1"))
        assert (one.code, both.code) == (0, 0)
        assert one.out != both.out == lakeprobe(*words, "--lake", lake.path).out, words


def test_a_step_that_is_not_there_is_named(lake: Lake) -> None:
    assert "no step 7; it has 0, 1" in lakeprobe("comm", "c", "--step", "0,7", "--lake", lake.path).line
    assert "no op of step 7 has gelu" in lakeprobe("show", "gelu", "--step", "7", "--lake", lake.path).line
    assert "no unit has the step 7" in lakeprobe("merge", "c", "--step", "7", "--lake", lake.path).line


def test_no_other_step_is_read(lake: Lake) -> None:
    """The files of the other step are damaged, and nobody notices."""
    for run in ("golden", "gelu_tanh"):
        folder = layout.unit_folder(lake.path, UnitKey(run, 0, 0))
        for table in ("ops", "tensors"):
            (folder / f"{table}.parquet").write_bytes(b"damaged")
    assert lake.comparison("c").first_difference(steps=[1]).ranks.fetchall() != []
    assert lake.communication("gelu_tanh", steps=[1]).summary.fetchall() != []
    assert lake.comparison("c").blame(step=1).suspects.fetchall() != []

"""Analyses use a separate connection, so that names of their stages and names of the user's tables never collide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeprobe
from lakeprobe.analysis import transfers
from lakeprobe.analysis.blame import blame
from lakeprobe.analysis.communication import changed_meetings
from lakeprobe.analysis.first_difference import first_difference
from lakeprobe.analysis.query import is_made, stage_connection
from lakeprobe.reports.blame_text import blame_text
from lakeprobe.reports.communication_text import communication_text
from lakeprobe.reports.first_difference_text import first_difference_text
from lakeprobe.reports.overflow_text import overflow_text
from lakeprobe.session import ComparisonResult, Lake

RANKS = Path(__file__).parents[1] / "data" / "dumps" / "ranks"
NAMES = ("transfers", "firsts", "merge_cells", "gifts")
"""Names of stages, which comparisons and tables of a user may have."""

ANALYSES: dict[str, Callable[[Lake, ComparisonResult], Any]] = {
    "first difference": lambda lake, result: first_difference_text(result.first_difference()),
    "blame": lambda lake, result: blame_text(result.blame()),
    "communication": lambda lake, result: communication_text(lake.communication(result.name)),
    "transfers": lambda lake, result: lake.transfers("gelu_tanh").fetchall(),
    "overflow": lambda lake, result: overflow_text(lake.overflow("gelu_tanh")),
    "drift": lambda lake, result: lake.drift("golden", "gelu_tanh").rows.fetchall(),
    "merge": lambda lake, result: [
        sheet.rows.fetchall() for sheet in lake.merge(result.name, metrics=["Max diff"], apis=["Distributed"])
    ],
    "text": lambda lake, result: str(result),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path_factory.mktemp("stages") / "lake", create=True) as opened:
        for run in ("gelu_tanh", "golden"):
            opened.ingest(RANKS / run, run=run)
        opened.compare("gelu_tanh", "golden", name="transfers")
        opened.compare("gelu_tanh", "golden", name="firsts")
        yield opened


def read(lake: Lake) -> dict[str, list[Any]]:
    return {name: lake.sql(f"SELECT count(*), min(columns(*)::VARCHAR) FROM {name}").fetchall() for name in NAMES}


@pytest.mark.sampled
@pytest.mark.parametrize("analysis", ANALYSES)
def test_nothing_is_hidden_on_either_side(lake: Lake, analysis: str) -> None:
    ask = ANALYSES[analysis]
    with lakeprobe.open(lake.path, create=True) as untouched:
        expected = ask(untouched, untouched.comparison("transfers"))
    for name in ("merge_cells", "gifts"):
        lake.sql(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT '{name} is mine' AS text")
    lake.sql("CREATE OR REPLACE TEMP VIEW ops AS SELECT 'mine as well' AS text")
    lake.sql("CREATE OR REPLACE TEMP MACRO cell_text(text) AS 'mine'")
    before = read(lake)
    assert ask(lake, lake.comparison("transfers")) == expected
    assert read(lake) == before
    assert lake.sql("SELECT * FROM ops").fetchall() == [("mine as well",)]
    assert lake.sql("SELECT cell_text('')").fetchall() == [("mine",)]


def test_analyses_on_one_connection_make_what_they_share_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    keep_calls = transfers._keep_calls

    def counted(stages: Any, run: str) -> bool:
        made.append(run)
        return keep_calls(stages, run)

    monkeypatch.setattr(transfers, "_keep_calls", counted)
    stored = lake.comparison("firsts").stored

    def answers(connection: Any) -> list[list[Any]]:
        return [
            blame(connection, lake.path, "firsts").suspects.fetchall(),
            first_difference(connection, stored).ranks.fetchall(),
            changed_meetings(connection, stored).fetchall(),
        ]

    alone = answers(lake._connection)
    assert (made, [bool(rows) for rows in alone]) == (["gelu_tanh"] * 3, [True] * 3)
    with stage_connection(lake._connection) as stages:
        assert answers(stages) == alone
    assert made == ["gelu_tanh"] * 4


def test_a_stage_is_made_again_of_something_else_or_elsewhere(lake: Lake) -> None:
    with stage_connection(lake._connection) as stages:
        assert [is_made(stages, "stage", of) for of in ("a", "a", "b", "a")] == [False, True, False, False]
        with stage_connection(stages) as same, stage_connection(stages, ranks=[0]) as limited:
            assert same is stages
            assert not is_made(limited, "stage", "a")
            assert limited.execute("SELECT DISTINCT rank FROM ops").fetchall() == [(0,)]
    assert [is_made(lake._connection, "stage", "a") for _ in range(2)] == [False, False]

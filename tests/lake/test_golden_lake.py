"""Lakes of earlier releases are read as they are: tests/data/golden_lake.py made them, each with its own release."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakeprobe
from lakeprobe import resources
from lakeprobe.lake import audits
from lakeprobe.session import Lake

DATA = Path(__file__).resolve().parents[1] / "data"
RELEASES = sorted(path.name for path in (DATA / "golden_lake").iterdir() if path.is_dir())


@pytest.fixture(params=RELEASES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "golden_lake" / request.param, tmp_path / "lake"))


def test_what_was_read_then_is_there(lake: Path) -> None:
    with lakeprobe.open(lake, create=True) as opened:
        assert opened.runs == ["golden", "golden_saved", "target", "target_saved"]
        rows = opened.sql("SELECT run, count(*), count(content) FROM tensors GROUP BY run ORDER BY run").fetchall()
        assert rows == [("golden", 2438, 0), ("golden_saved", 5, 2), ("target", 2438, 0), ("target_saved", 5, 2)]
        assert opened.sql("SELECT count(*), sum(seq) FROM ops WHERE run = 'target'").fetchall() == [(718, 257403)]
        assert opened.tensor("target_saved", "Torch.f.0.forward", "output.0").tolist() == [0, 1.5, 3, 4.5, 6, 7.5]
        assert not list(audits.run(opened.sql))


def test_what_was_compared_then_is_there(lake: Path) -> None:
    with lakeprobe.open(lake, create=True) as opened:
        assert opened.comparisons == ["saved", "statistics"]
        counts = "SELECT verdict, count(*) FROM results WHERE comparison = $name GROUP BY verdict ORDER BY verdict"
        rows = opened.sql(counts, {"name": "statistics"}).fetchall()
        assert rows == [("error", 1), ("pass", 2427), ("warning", 10)]
        assert [opened.comparison(name).verdict.value for name in opened.comparisons] == ["different", "different"]
        assert "Verdict: different" in str(opened.comparison("statistics"))


def test_what_is_compared_now_stands_beside_it(lake: Path) -> None:
    """And says the same, row by row: of columns that came later the older one has NULL."""
    with lakeprobe.open(lake, create=True) as opened:
        for name in ("statistics", "saved"):
            target, golden = ("target", "golden") if name == "statistics" else ("target_saved", "golden_saved")
            opened.compare(target, golden, name=f"{name} again")
            chosen = "SELECT row, target_name, golden_name, outcome, verdict, difference FROM results"
            then, now = (
                opened.sql(f"{chosen} WHERE comparison = $name ORDER BY row", {"name": each}).fetchall()
                for each in (name, f"{name} again")
            )
            assert then == now


ROWS = {
    "dumps": 4, "ops": 47, "tensors": 125, "stacks": 15, "undumped": 0, "contents": 51, "values": 52, "results": 106,
    "suspects": 2, "pairs": 38, "noise": 30, "series": 10, "verifications": 17, "perturbations": 32, "layouts": 28,
    "compare_result_20261123000000": 34,
}  # fmt: skip
"""The tables of the whole lake of release 0.2. Another table makes another lake."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    made = shutil.copytree(DATA / "whole_lake" / "0.2", tmp_path_factory.mktemp("whole") / "lake")
    with lakeprobe.open(made) as opened:
        yield opened


def test_every_table_is_read(whole: Lake) -> None:
    assert ROWS.keys() >= {file.stem for file in resources.folder("schemas").glob("*.yaml")}
    assert {table: len(whole.sql(f"FROM {table}").fetchall()) for table in ROWS} == ROWS
    assert whole.check() == []


def test_every_table_says_what_it_said(whole: Lake) -> None:
    [(mean,)] = whole.sql("SELECT avg(value) FROM series").fetchall()
    assert mean == pytest.approx(0.9233606703933752)
    for table, column, said in (
        ("verifications", "status", {"pass": 17}),
        ("perturbations", "status", {"stable": 28, "skip": 4}),
        ("results", "verdict", {"error": 5, "pass": 93, "skipped": 8}),
    ):
        assert dict(whole.sql(f"SELECT {column}, count(*) FROM {table} GROUP BY ALL").fetchall()) == said
    assert whole["apart"].summary().verdict.value == "different"
    assert whole.tensor("whole", "Functional.linear.0.forward", "input.1").shape == (3, 4)

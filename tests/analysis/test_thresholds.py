"""One number, one place: analyses go by the thresholds of judge/thresholds.sql, as a rule left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeprobe.analysis.query import keep, set_thresholds, stage_connection
from lakeprobe.lake import comparison
from lakeprobe.lake.connection import connect
from lakeprobe.session import Lake

DEMO = Path(__file__).parents[1] / "data" / "dumps" / "demo"
ANALYSES = ("made_growth", "carried_share", "same_norm", "overflow_jump")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("thresholds")
    (folder / "rule.sql").write_text("SET VARIABLE overflow_jump = 1; SET VARIABLE carried_share = 2;")
    opened = Lake(folder / "lake")
    opened.ingest(DEMO / "target")
    opened.ingest(DEMO / "golden")
    opened.compare("target", "golden", name="usual")
    opened.compare("target", "golden", name="changed", rule=str(folder / "rule.sql"))
    return opened


@pytest.mark.parametrize(("across", "factor"), [(False, 16.0), (True, 64.0)])
def test_defaults_depend_on_the_frameworks(across: bool, factor: float) -> None:
    with connect() as connection:
        set_thresholds(connection, {"same_norm": 0.5}, across=across)
        query = "SELECT getvariable('noise_factor'), getvariable('same_norm'), getvariable('overflow_jump')"
        assert connection.execute(query).fetchall() == [(factor, 0.5, 100.0)]


def test_a_comparison_keeps_what_its_rule_left(lake: Lake) -> None:
    usual, changed = (comparison.load(lake.path, name).thresholds for name in ("usual", "changed"))
    assert {name: usual[name] for name in ANALYSES} == {
        "made_growth": 10, "carried_share": 0.01, "same_norm": 1e-4, "overflow_jump": 100,
    }  # fmt: skip
    assert {name for name in usual if usual[name] != changed[name]} == {"overflow_jump", "carried_share"}


def test_overflow_goes_by_the_jump_of_the_rule(lake: Lake) -> None:
    counts = []
    for name in ("usual", "changed"):
        with stage_connection(lake._connection) as stages:
            set_thresholds(stages, comparison.load(lake.path, name).thresholds)
            keep(stages, "jumps", "overflow/jumps", {"run": "target"})
            counts += stages.execute("SELECT count(*), min(jump) FROM jumps").fetchall()
    (usual, least), (changed, least_changed) = counts
    assert 0 < usual < changed
    assert least > 100 > least_changed > 1


def test_blame_goes_by_the_share_of_the_rule(lake: Lake) -> None:
    """No input has twice the largest error of its op, so none carries the error on and the path is cut."""
    usual, changed = (lake.comparison(name).blame() for name in ("usual", "changed"))
    assert len(changed.path) < len(usual.path)

"""Steps that follow one in which two runs were equal to the last bit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeprobe
from lakeprobe.compare.earlier import pairs_after_equal_steps
from lakeprobe.compare.plan import Pair
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout, staging
from lakeprobe.lake.layout import UnitKey

DUMP = Path(__file__).parents[1] / "data" / "dumps" / "ranks" / "golden" / "step0"
PAIRS = [(UnitKey("target", step, rank), UnitKey("golden", step, rank)) for step in (0, 1, 2) for rank in (0, 1)]


def off_by_one_bit(dump: Path) -> None:
    """The last digit of one norm of float32."""
    content = json.loads((dump / "dump.json").read_text())
    leaf = next(iter(content["data"].values()))["input_args"][0]
    leaf["Norm"] *= 1 + 2**-23
    (dump / "dump.json").write_text(json.dumps(content))


def made(home: Path, change: Callable[[Path], None] = lambda target: None) -> Path:
    """A lake with two runs of three equal steps, two ranks each, after a change of the target's dump."""
    for side in ("target", "golden"):
        for step in (0, 1, 2):
            for rank in (0, 1):
                shutil.copytree(DUMP / f"rank{rank}", home / side / f"step{step}" / f"rank{rank}")
    change(home / "target")
    for side in ("target", "golden"):
        ingest(home / side, lake=home / "lake", run=side)
    return home / "lake"


def found(lake: Path, pairs: list[Pair] = PAIRS) -> set[tuple[int, int]]:
    """The steps and ranks of the target that follow equal ones."""
    with staging.reading(lake) as snapshot:
        return {(target.step, target.rank) for target, _ in pairs_after_equal_steps(snapshot, pairs)}


def test_all_but_the_first_step_of_equal_runs(tmp_path: Path) -> None:
    lake = made(tmp_path)
    assert found(lake) == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert found(lake, PAIRS[-1:]) == {(2, 1)}
    with lakeprobe.open(lake) as opened:
        opened.compact("target")
    assert found(lake) == {(1, 0), (1, 1), (2, 0), (2, 1)}


@pytest.mark.parametrize(
    "change",
    [
        lambda target: off_by_one_bit(target / "step0" / "rank1"),
        lambda target: shutil.rmtree(target / "step0" / "rank1"),
    ],
    ids=["a bit of another rank", "a rank less"],
)
def test_a_step_counts_with_all_of_its_ranks(tmp_path: Path, change: Callable[[Path], None]) -> None:
    assert found(made(tmp_path, change)) == {(2, 0), (2, 1)}


def test_steps_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    lake = made(tmp_path, lambda target: shutil.rmtree(target / "step1"))
    assert found(lake) == {(2, 0), (2, 1)} | {(1, 0), (1, 1)}
    assert found(lake, PAIRS[:2]) == set()


def test_what_cannot_be_read_counts_as_different(tmp_path: Path) -> None:
    lake = made(tmp_path)
    (layout.unit_folder(lake, UnitKey("golden", 1, 0)) / "tensors.parquet").write_bytes(b"no table")
    assert found(lake) == {(1, 0), (1, 1)}

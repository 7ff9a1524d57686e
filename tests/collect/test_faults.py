"""Whatever befalls the collector or its process: the losses are the same, the lake can be read, and units tell.

The table of faults in docs/collect.md is what is asserted here.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from forks import Forks
from test_unit_sink import violations, wait_for_unit

import lakeprobe

pytest.importorskip("torch")

import faults

PAGE = (Path(__file__).parents[2] / "docs" / "collect.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(scope="module")
def unwatched(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("unwatched")
    done = forks.run(folder, faults.__file__, "unwatched", str(folder / "lake"))
    assert (done.code, done.said) == (0, "")
    return done.lines


class Outcome(NamedTuple):
    """What is expected after a fault in step 1 of three."""

    code: int
    """The program's exit code."""
    lines: int
    """How many of the four lines of its output it gets to write."""
    units: dict[int, bool]
    """Whether each step that is in the lake is complete."""
    said: str
    """What stderr says, and nothing else; a pattern."""


OUTCOMES = {
    "none": Outcome(0, 4, {0: True, 1: True, 2: True}, ""),
    "kill": Outcome(-signal.SIGKILL, 1, {0: True, 1: False}, ""),
    "terminate": Outcome(0, 1, {0: True, 1: False}, ""),
    "fill": Outcome(
        0, 4, {0: True, 1: False},
        r"lakeprobe: .*: No space left on device; .*; collecting of run npu ends here, the training goes on\n",
    ),
    "remove": Outcome(
        0, 4, {},
        r"lakeprobe: .* was removed while it was collected; collecting of run npu ends here, the training goes on\n",
    ),
    "kill_builder": Outcome(0, 4, {0: True, 1: True, 2: True}, ""),
    "odd_values": Outcome(0, 4, {0: True, 1: True, 2: True}, r"lakeprobe: 1 value could not be recorded, .*\n"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "builder"),
    [
        *((fault, "beside") for fault in OUTCOMES),
        *((fault, "none") for fault in OUTCOMES if fault != "kill_builder"),
    ],
)
def test_the_training_does_not_notice_and_the_lake_tells(
    fault: str, builder: str, tmp_path: Path, unwatched: list[str], forks: Forks
) -> None:
    lake = tmp_path / "lake"
    expected = OUTCOMES[fault]
    done = forks.run(tmp_path, faults.__file__, fault, str(lake), builder)
    assert done.code == expected.code, done.said
    assert done.lines == unwatched[: expected.lines]
    assert re.fullmatch(expected.said, done.said), done.said
    if not expected.units:
        assert not lake.exists()
        return
    for step in expected.units if builder == "beside" else ():
        wait_for_unit(lake, faults.RUN, 0, step)  # the process beside outlives one that is killed
    with lakeprobe.open(lake, create=True) as opened:
        assert dict(opened.sql("SELECT step, complete FROM dumps ORDER BY step").fetchall()) == expected.units
        marked = opened.sql("SELECT step FROM dumps WHERE list_any_value(notes) LIKE 'incomplete%'").fetchall()
        assert [step for (step,) in marked] == [step for step, complete in expected.units.items() if not complete]
    assert violations(lake) == []
    assert not list((lake / ".collecting").iterdir())


def test_odd_values_cost_no_op_and_are_there_by_class(tmp_path: Path, forks: Forks) -> None:
    assert forks.run(tmp_path, faults.__file__, "odd_values", str(tmp_path / "lake")).code == 0
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        found = lake.sql(
            "SELECT op, type, value FROM tensors "
            "WHERE step = 1 AND op LIKE 'Torch.add%' AND slot = 'input.1' AND type IS NOT NULL ORDER BY row"
        ).fetchall()
        ops = lake.sql("SELECT count(*) FROM ops WHERE step = 1 AND op LIKE 'Torch.add.%forward'").fetchall()
        (note,) = lake.sql("SELECT unnest(notes) FROM dumps WHERE step = 1").fetchall()
    assert ops == [(7,)]
    assert found == [
        ("Torch.add.0.forward", "bytes_", "b'a\\xff'"),
        ("Torch.add.1.forward", "complex64", "1j"),
        ("Torch.add.2.forward", "longdouble", "2.0"),
        ("Torch.add.3.forward", "datetime64", "2026-01-01"),
        ("Torch.add.5.forward", "complex", "1j"),
        ("Torch.add.6.forward", "builtins.dict", None),
    ]
    assert note == ("1 value could not be recorded, the first: a dict: ValueError: no text",)


def test_the_page_has_these_faults() -> None:
    section = PAGE.split("### Faults")[1].split("\n## ")[0]
    named = re.findall(r"^\| .*? \(`(\w+)`\) \|", section, re.MULTILINE)
    assert named == list(faults.FAULTS)

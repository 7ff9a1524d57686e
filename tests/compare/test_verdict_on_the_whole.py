"""What is said of a comparison as a whole: equal only of what was compared, and in text and files alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pair_dumps import call, tensor, write_dump

import lakeprobe
from lakeprobe.analysis.verdict import Verdict
from lakeprobe.reports.blame_text import blame_text
from lakeprobe.reports.first_difference_text import against, first_difference_text
from lakeprobe.reports.overflow_text import overflow_text
from lakeprobe.session import ComparisonResult

ONE, NEAR, TWO = ({"Torch.f.0.forward": call([tensor(value)])} for value in (1.0, 1.0 + 1e-7, 2.0))
BARE = {"Torch.f.0.forward": call([tensor(None)])}
DIGEST = {"Torch.f.0.forward": call([tensor(..., md5="12345678")])}
NAMES_ONLY = {"Torch.f.0.forward": {}, "Torch.g.0.forward": {}}

NO_VALUES = ["compared: 0 of 1 rows of the target, 0 of 1 of golden", "1 row without values on both sides"]


def compared(folder: Path, target: Path, golden: Path, **options: Any) -> ComparisonResult:
    with lakeprobe.open(folder / "lake", create=True) as lake:
        result = lake.compare(target, golden, **options)
        result.summary()
    return result


def dumps(folder: Path, target: dict[str, Any], golden: dict[str, Any], **options: Any) -> tuple[Path, Path]:
    return write_dump(folder / "npu", target, **options), write_dump(folder / "gpu", golden, **options)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("target", "golden", "verdict", "lines", "fails"),
    [
        (ONE, ONE, Verdict.EQUAL, ["compared: all 1 rows of both sides; none differs"], (False, False)),
        (
            NEAR, ONE, Verdict.EQUAL_WITHIN_NOISE,
            ["compared: all 1 rows of both sides; within float noise: 1, beyond it: none"], (False, False),
        ),
        (TWO, ONE, Verdict.DIFFERENT, ["compared: all 1 rows of both sides; beyond float noise: 1"], (False, True)),
        (
            ONE, {"Torch.g.0.forward": call([tensor()])}, Verdict.NOTHING_COMPARED,
            ["compared: 0 of 1 rows of the target, 0 of 1 of golden", "2 rows without counterpart"], (True, True),
        ),
        (
            ONE | {"Torch.g.0.forward": call([tensor()])}, ONE, Verdict.PARTLY_COMPARED,
            ["compared: 1 of 2 rows of the target, 1 of 1 of golden; none differs", "1 row without counterpart"],
            (False, True),
        ),
        (
            BARE, BARE, Verdict.NOTHING_COMPARED,
            NO_VALUES, (True, True),
        ),
        (
            DIGEST, ONE, Verdict.NOTHING_COMPARED,
            NO_VALUES, (True, True),
        ),
    ],
)  # fmt: skip
def test_verdicts(
    tmp_path: Path, target: Any, golden: Any, verdict: Verdict, lines: list[str], fails: tuple[bool, bool]
) -> None:
    result = compared(tmp_path, *dumps(tmp_path, target, golden))
    covered = result.summary().coverage
    assert result.verdict is covered.verdict is verdict
    assert (covered.has_errors, covered.has_warnings) == fails
    assert str(result).splitlines()[2 : 3 + len(lines)] == [f"Verdict: {verdict}", *(f"  {line}" for line in lines)]


def test_structure_dumps_are_never_equal(tmp_path: Path) -> None:
    result = compared(tmp_path, *dumps(tmp_path, NAMES_ONLY, NAMES_ONLY, task="structure"))
    assert result.verdict is Verdict.STRUCTURE_ONLY
    assert str(result).splitlines()[2:4] == [
        "Verdict: structure only",
        "  both dumps name their ops and record no values, so nothing was compared",
    ]
    assert "Rows: 0 of the target and 0 of golden" in str(result).splitlines()
    assert str(result).splitlines()[-1].startswith("Ops that only one side names: lakeprobe unmatched npu_vs_gpu")
    golden = write_dump(tmp_path / "golden", ONE)
    against_values = compared(tmp_path, tmp_path / "npu", golden)
    assert against_values.verdict is Verdict.NOTHING_COMPARED


def test_ops_that_one_structure_dump_alone_names_are_listed(tmp_path: Path) -> None:
    other = {"Torch.f.0.forward": {}, "Torch.h.0.forward": {}}
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(*dumps(tmp_path, NAMES_ONLY, other, task="structure"))
        listed = result.unmatched().project("side, op").fetchall()
    assert listed == [("target", "Torch.g.0.forward"), ("golden", "Torch.h.0.forward")]


def test_what_cannot_be_read_is_said_first(tmp_path: Path) -> None:
    sides = [tmp_path / name for name in ("npu", "gpu")]
    for side in sides:
        side.mkdir()
        np.save(side / "whole.npy", np.ones(4))
        (side / "damaged.npy").write_bytes(b"\x93NUMPY garbage")
    result = compared(tmp_path, *sides)
    assert result.verdict is Verdict.UNREADABLE
    assert str(result).splitlines()[2:5] == [
        "Verdict: unreadable",
        "  1 row cannot be read",
        "  compared: 1 of 2 rows of the target, 1 of 2 of golden; none differs",
    ]
    assert (result.summary().coverage.has_errors, result.summary().coverage.equal) == (True, 1)
    for side in sides:
        (side / "whole.npy").unlink()
    nothing = compared(tmp_path, *sides, replace=True)
    assert nothing.verdict is Verdict.NOTHING_COMPARED
    assert str(nothing).splitlines()[3] == "  1 row cannot be read"


@pytest.mark.sampled
@pytest.mark.parametrize("damaged", [("npu",), ("gpu",), ("npu", "gpu")])
@pytest.mark.parametrize(
    ("statistic", "difference", "verdict"), [(1.0, None, Verdict.UNREADABLE), (2.0, "different", Verdict.DIFFERENT)]
)
def test_of_a_tensor_that_cannot_be_read_the_statistics_tell_only_that_it_differs(
    tmp_path: Path, damaged: tuple[str, ...], statistic: float, difference: str | None, verdict: Verdict
) -> None:
    for side, value in (("npu", statistic), ("gpu", 1.0)):
        leaves = [tensor(1.0, data_name="whole.npy"), tensor(value, data_name="cut.npy")]
        data = {"Torch.f.0.forward": call(leaves)}
        arrays = {"whole.npy": np.ones(4, np.float32), "cut.npy": np.ones(4, np.float32)}
        write_dump(tmp_path / side, data, task="tensor", arrays=arrays)
        if side in damaged:
            file = tmp_path / side / "dump_tensor_data" / "cut.npy"
            file.write_bytes(file.read_bytes()[:-3])
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "npu", tmp_path / "gpu")
        rows = lake.sql("SELECT outcome, difference, verdict FROM results ORDER BY row").fetchall()
        assert rows[1] == ("unreadable", difference, "unreadable")
        found = result.first_difference()
        assert (found.differs, found.is_equal) == (difference is not None, False)
        assert first_difference_text(found).splitlines()[:2] == [f"Verdict: {verdict}", "  1 row cannot be read"]
        assert found.ranks.project("verdict").fetchall() == [(verdict,)]
    assert result.verdict is verdict
    assert "  1 row cannot be read" in str(result).splitlines()


def test_a_first_difference_never_says_more_than_was_compared(tmp_path: Path) -> None:
    for side, values in (("npu", (1.0, 2.0)), ("gpu", (1.0, 1.0))):
        for step, value in enumerate(values):
            write_dump(tmp_path / side / f"step{step}" / "rank0", {"Torch.f.0.forward": call([tensor(value)])})
    write_dump(tmp_path / "npu" / "step2" / "rank0", ONE)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "npu", tmp_path / "gpu")
        asked = {
            "all": result.first_difference(),
            "step 0": result.first_difference(steps=[0]),
            "step 1, above 1": result.first_difference(steps=[1], threshold=1.0),
            "above 1": result.first_difference(threshold=1.0),
        }
        assert {name: (found.coverage.verdict, found.differs, found.is_equal) for name, found in asked.items()} == {
            "all": (Verdict.DIFFERENT, True, False),
            "step 0": (Verdict.EQUAL, False, True),
            "step 1, above 1": (Verdict.DIFFERENT, False, True),
            "above 1": (Verdict.DIFFERENT, False, False),  # step 2 has no counterpart
        }
        assert first_difference_text(asked["above 1"]).splitlines() == [
            "Verdict: different",
            "  compared: all 2 rows of both sides; beyond float noise: 1",
            "  steps and ranks without counterpart: 1",
            "",
            "No leaf is off by more than 1 in what was compared.",
        ]


def test_a_line_shows_the_statistic_that_differs(tmp_path: Path) -> None:
    same = {"Norm": 2.0, "Max": 1.0, "Min": -1.0, "Mean": 0.125}
    changes = {"max": {"Max": 1.5}, "min": {"Min": -1.25}, "mean": {"Mean": -0.125}, "norm": {"Norm": 2.0004}}
    said = {"max": "max 1.5 against 1", "min": "min -1.25 against -1", "mean": "mean -0.125 against 0.125"}
    said["norm"] = "norm 2.0004 against 2"
    ours = {f"Torch.{name}.0.forward": call([tensor(**same | change)]) for name, change in changes.items()}
    golden = {f"Torch.{name}.0.forward": call([tensor(**same)]) for name in changes}
    result = compared(tmp_path, *dumps(tmp_path, ours, golden))
    told = {op.op.split(".")[1]: op.leaves[0] for op in result.summary().worst}
    assert {name: against(leaf.target, leaf.golden) for name, leaf in told.items()} == {
        name: f"torch.float32 [4] {text}" for name, text in said.items()
    }


def test_units_that_are_missing_or_cut_off_are_no_equality(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_dump(tmp_path / "npu" / "step0" / f"rank{rank}", ONE)
    write_dump(tmp_path / "gpu" / "step0" / "rank0", ONE)
    result = compared(tmp_path, tmp_path / "npu", tmp_path / "gpu")
    assert result.verdict is Verdict.PARTLY_COMPARED
    assert "  steps and ranks without counterpart: 1" in str(result).splitlines()
    assert (result.summary().coverage.has_errors, result.summary().coverage.has_warnings) == (False, True)


def test_records_of_data_that_had_not_arrived_are_no_findings(tmp_path: Path) -> None:
    received = [tensor(0.5), tensor(1.0)]
    ours, theirs = (
        {
            "Distributed.irecv.0.forward": call([{"type": "int", "value": 1}], [value]),
            "Distributed.all_reduce.0.forward": call([tensor(), None, None, {"type": "bool", "value": True}], [value]),
        }
        for value in received
    )
    result = compared(tmp_path, *dumps(tmp_path, ours, theirs))
    covered = result.summary().coverage
    # both outputs, and what irecv is to fill
    assert (covered.rows["set_aside"], covered.findings["error"], covered.different) == (3, 0, 0)
    assert result.summary().first == ()
    waited = {"Distributed.all_reduce.0.forward": call([tensor()], [tensor(0.5)])}
    golden = {"Distributed.all_reduce.0.forward": call([tensor()], [tensor(1.0)])}
    judged = compared(tmp_path / "waited", *dumps(tmp_path / "waited", waited, golden))
    assert judged.verdict is Verdict.DIFFERENT


def test_a_checkpoint_runs_its_ops_twice_and_that_is_no_error(tmp_path: Path) -> None:
    def run(*calls: tuple[int, bool]) -> dict[str, Any]:
        return {f"Torch.f.{number}.forward": call([tensor(requires_grad=grad)]) for number, grad in calls}

    sides = dumps(tmp_path, run((0, False), (1, True)), run((0, True)))
    result = compared(tmp_path, *sides, rule="fuzzy")
    assert result.summary().coverage.findings | {"pass": 1} == {
        "error": 0, "warning": 0, "unmatched": 1, "unreadable": 0, "skipped": 0, "pass": 1,
    }  # fmt: skip
    frozen = compared(tmp_path / "frozen", *dumps(tmp_path / "frozen", run((0, False)), run((0, True))))
    assert frozen.summary().coverage.findings["error"] == 1


def test_a_reader_sees_the_origin_over_all_ranks_first(tmp_path: Path) -> None:
    bundled = Path(__file__).parents[1] / "data" / "dumps" / "ranks"
    result = compared(tmp_path, bundled / "gelu_tanh", bundled / "golden")
    lines = str(result).splitlines()
    assert lines[2] == "Verdict: different"
    first = next(line for line in lines if line.startswith(("First difference", "The first op")))
    assert first == "First difference: rank 1, Functional.gelu.1.forward (step 0)"
    assert not any("batch_isend_irecv" in line and line.endswith("%") for line in lines)
    assert "The cause and its path to the loss: lakeprobe blame gelu_tanh_vs_golden" in lines


@pytest.mark.parametrize(
    ("data", "task", "says"),
    [
        (NAMES_ONLY, "structure", "The dump names its ops and records no values, so overflow cannot be detected."),
        (BARE, "statistics", "No op produces unexpected NaN or inf, as far as the dump shows."),
        (ONE, "statistics", "No op produces unexpected NaN or inf."),
    ],
)
def test_overflow_says_what_it_cannot_see(tmp_path: Path, data: Any, task: str, says: str) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(write_dump(tmp_path / "npu", data, task=task))
        assert overflow_text(lake.overflow("npu")).splitlines()[2] == says


def test_blame_names_nothing_where_nothing_was_compared(tmp_path: Path) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        sides = dumps(tmp_path, BARE, BARE)
        assert blame_text(lake.compare(*sides).blame()).splitlines()[2:] == [
            "Verdict: nothing compared", *(f"  {line}" for line in NO_VALUES),
        ]  # fmt: skip


def test_gradients_that_are_written_ahead_of_the_forward_pass_come_behind_it(tmp_path: Path) -> None:
    """As msprobe 1.2.2 does: the gradient's entry is the first of the dump."""

    def run(value: float) -> dict[str, Any]:
        return {
            "Module.fc.Linear.parameters_grad.0": {"weight": [tensor(value)]},
            "Torch.f.0.forward": call([tensor()], [tensor(value)]),
            "Torch.f.0.backward": {"input": [tensor(value)], "output": [tensor(value)]},
        }

    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(*dumps(tmp_path, run(2.0), run(1.0)))
        assert [op.op for op in result.summary().first] == ["Torch.f.0.forward"]
        assert result.first_difference().origins.project("op").fetchall() == [("Torch.f.0.forward",)]
        behind = run(1.0) | {"Module.fc.Linear.parameters_grad.0": {"weight": [tensor(2.0)]}}
        alone = lake.compare(write_dump(tmp_path / "alone", behind), "gpu")
        assert [op.op for op in alone.summary().first] == ["Module.fc.Linear.parameters_grad.0"]

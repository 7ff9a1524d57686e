"""The commands about many ranks, as the real program on the bundled ranks: words, files and exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from openpyxl import load_workbook
from program import lakeprobe

DUMPS = Path(__file__).resolve().parents[1] / "data" / "dumps" / "ranks"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the runs golden, gelu_tanh and log0, and two comparisons."""
    path = tmp_path_factory.mktemp("ranks") / "lake"
    for name in ("gelu_tanh", "log0"):
        done = lakeprobe(
            "compare", DUMPS / name, DUMPS / "golden", "--lake", path, "--name", f"{name.split('_')[0]}_pair"
        )
        assert done.code == 0, done.err
    assert lakeprobe("compare", "golden", "golden", "--lake", path, "--name", "same").code == 0
    return path


def test_first_diff_as_json_and_its_exit_code(lake: Path) -> None:
    done = lakeprobe("first-diff", "gelu_pair", "--format", "json", "--fail-on", "difference", "--lake", lake)
    assert done.code == 1
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert next((row["rank"], row["op"]) for row in rows) == (1, "Functional.gelu.1.forward")
    assert [(row["rank"], row["source"]) for row in rows if row["source"]] == [(1, rows[0]["source"])]
    assert sorted(row["rank"] for row in rows) == [0, 1, 2, 3]


def test_first_diff_of_equal_runs(lake: Path) -> None:
    done = lakeprobe("first-diff", "same", "--fail", "--lake", lake)
    assert done.code == 0
    assert "no difference" in done.out.lower()


def test_first_diff_writes_msprobes_json(lake: Path, tmp_path: Path) -> None:
    done = lakeprobe("first-diff", "gelu_pair", "--diff-analyze", tmp_path / "out", "--lake", lake)
    (written,) = (tmp_path / "out").iterdir()
    assert done.code == 0
    assert str(written) in done.err
    assert json.loads(written.read_text())["rank_1"][0]["op_name"] == "Functional.gelu.1.forward"


def test_blame_as_csv_and_json(lake: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(lakeprobe("blame", "gelu_pair", "--format", "csv", "--lake", lake).out)))
    assert (rows[0]["rank"], rows[0]["op"], rows[0]["grade"]) == ("1", "Functional.gelu.1.forward", "suspect")
    told = json.loads(lakeprobe("blame", "gelu_pair", "--format", "json", "--lake", lake).out)
    assert told["path"][0]["op"] == "Functional.gelu.1.forward"
    assert told["path"][-1]["op"] == "Functional.mse_loss.0.forward"


def test_overflow_ends_with_1_only_where_asked_and_found(lake: Path) -> None:
    words = ("--format", "csv", "--level", "critical", "--lake", lake)
    bad = lakeprobe("overflow", "log0", "--fail-on", "critical", *words)
    assert bad.code == 1
    assert next(csv.DictReader(io.StringIO(bad.out)))["op"] == "Torch.log.1.forward"
    assert lakeprobe("overflow", "golden", "--fail-on", "critical", *words).code == 0


def test_comm_as_json(lake: Path) -> None:
    done = lakeprobe("comm", "gelu_pair", "--format", "json", "--fail-on", "broken", "--lake", lake)
    assert done.code == 0
    first = json.loads(done.out.splitlines()[0])
    assert (first["meeting"], first["effect"]) == ("all_reduce [0, 1] #1", "spreads")
    assert (first["put_in"], first["taken"]) == ([1], [0, 1])


def test_merge_writes_a_workbook(lake: Path, tmp_path: Path) -> None:
    chosen = ("--api", "Distributed.all_reduce.1", "--metric", "L2norm diff")
    done = lakeprobe("merge", "gelu_pair", *chosen, "-o", tmp_path / "out", "--lake", lake)
    (written,) = (tmp_path / "out").iterdir()
    assert done.code == 0
    sheet = load_workbook(written, read_only=True)["L2norm diff"]
    rows = list(sheet.iter_rows(values_only=True))
    assert rows[0] == ("NPU Name", "rank0", "rank1", "rank2", "rank3")
    assert rows[1][0] == "Distributed.all_reduce.1.forward.input.0"
    assert [value != 0 for value in rows[1][1:]] == [False, True, False, False]


def test_drift_as_json_and_as_a_picture(lake: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "drift.png"
    words = ("drift", "golden", "gelu_tanh", "log0", "--op", "layers.1.act", "-o", picture, "--table", "runs")
    done = lakeprobe(*words, "--format", "json", "--lake", lake)
    assert done.code == 0, done.err
    runs = {row["run"]: row for row in map(json.loads, done.out.splitlines())}
    assert set(runs) == {"gelu_tanh", "log0"}
    assert runs["log0"]["leaves_at"] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("first-diff", "nothing"), "has no comparison nothing"),
        (("blame", "nothing"), "has no comparison nothing"),
        (("overflow", "nothing"), "has no run or comparison nothing"),
        (("comm", "nothing"), "has no run or comparison nothing"),
        (("merge", "nothing"), "has no comparison nothing"),
        (("drift", "golden", "nothing"), "nothing"),
        (("overflow", "log0", "--step", "7"), "run log0 has no step 7"),
        (("merge", "gelu_pair", "--metric", "Max"), "Max"),
        (("drift", "golden", "log0", "--op", "layers.7"), "layers.7"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(words: tuple[str, ...], said: str, lake: Path) -> None:
    done = lakeprobe(*words, "--lake", lake)
    assert done.code == 2
    assert said in done.line

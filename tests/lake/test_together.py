"""Several at once in one lake: writers of many runs, readers, comparisons, on file systems of several kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import untraced
from plain_dumps import leftovers, write_run

import lakeprobe
from lakeprobe.compare import run as comparing
from lakeprobe.errors import LakeError
from lakeprobe.ingest import ingest
from lakeprobe.lake import audits, layout, staging

WRITE = """
import fcntl, os, sys
from lakeprobe.errors import LakeError
from lakeprobe.ingest import ingest

def refuse(*_, **__):
    raise OSError(95, "Operation not supported")

if sys.argv[3] == "no locks":
    fcntl.flock = refuse
if sys.argv[3] == "no links":
    os.link = refuse
sys.stdin.readline()
for dump in sys.argv[4:]:
    ingest(dump, lake=sys.argv[1], run=sys.argv[2] or None, tensors="none")
"""


@pytest.mark.parametrize("mount", ["ordinary", "no locks", "no links"])
def test_writers_of_different_runs_lose_nothing(tmp_path: Path, mount: str) -> None:
    dumps = [str(write_run(tmp_path / f"run{number}", ops=2, steps=1, ranks=1)) for number in range(10)]
    lake = tmp_path / "lake"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, lake, "", mount, *dumps[first::3]], stdin=subprocess.PIPE,
                         stderr=subprocess.PIPE)
        for first in range(3)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors.decode()
    assert layout.runs(lake) == sorted(f"run{number}" for number in range(10))
    with lakeprobe.open(lake, create=True) as opened:
        assert opened.sql("SELECT DISTINCT count(*) FROM ops GROUP BY run, step, rank").fetchall() == [(2,)]
    assert leftovers(lake) == []


def test_a_comparison_reads_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is made, its units are replaced and one side is removed."""
    lake = tmp_path / "lake"
    for run in ("npu", "gpu"):
        ingest(write_run(tmp_path / run, ops=3, steps=1), lake=lake)
    other = write_run(tmp_path / "other", ops=9, steps=1)
    usual = comparing.run_all

    def disturbed(function: object, tasks: list[object], *rest: object, **how: object) -> object:
        assert len(tasks) == 2
        first = usual(function, tasks[:1], *rest, **how)  # type: ignore[arg-type]
        ingest(other, lake=lake, run="npu", replace=True)
        with lakeprobe.open(lake, create=True) as opened:
            opened.rm("gpu")
        return first + usual(function, tasks[1:], *rest, **how)  # type: ignore[arg-type]

    one_by_one = lambda tasks, jobs: [(task,) for task in tasks]  # noqa: E731  a batch reads all of its units first
    monkeypatch.setattr(comparing, "batches", one_by_one)
    monkeypatch.setattr(comparing, "run_all", disturbed)
    with lakeprobe.open(lake, create=True) as opened:
        report = comparing.compare("npu", "gpu", lake=lake, name="c", jobs=1)
        assert [pair.rows for pair in report.pairs] == [3, 3]
        assert opened.runs == ["npu"]
        assert opened.sql("SELECT count(*) FROM c GROUP BY rank").fetchall() == [(3,), (3,)]
        assert opened.sql("SELECT count(*) FROM ops GROUP BY rank").fetchall() == [(9,), (9,)]
        assert audits.run(opened.sql) == []
    staging.sweep(lake)
    assert leftovers(lake) == []
    assert staging.orphans(lake) == []
    assert not (lake / "run=gpu").exists()


def test_two_comparisons_of_one_name(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for run in ("npu", "gpu"):
        ingest(write_run(tmp_path / run, ops=1, steps=1, ranks=1), lake=lake)
    with (
        staging.locked(lake, "comparison=c"),
        pytest.raises(LakeError, match="another process is writing comparison=c"),
    ):
        comparing.compare("npu", "gpu", lake=lake, name="c")


READ = """
import os, sys, lakeprobe
for user in (0, 65534):  # what is to be imported may lie where only root can read
    os.setuid(user)
    with lakeprobe.open(sys.argv[1], create=True) as lake:
        print(lake.runs, lake.sql("SELECT count(*) FROM ops").fetchall())
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_reads_what_he_cannot_write(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ingest(write_run(tmp_path / "gpu", ops=2, steps=1, ranks=1), lake=lake)
    for folder in (*tmp_path.parents, tmp_path):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    command = [sys.executable, "-c", READ, lake]
    done = subprocess.run(command, capture_output=True, text=True, env=untraced.environment())
    assert (done.stdout, done.stderr) == ("['gpu'] [(2,)]\n" * 2, "")


@pytest.mark.parametrize("above", ["run=x", "step=7", "comparison=y/rank=3"])
def test_a_lake_below_a_folder_that_looks_like_a_partition(tmp_path: Path, above: str) -> None:
    lake = tmp_path / above / "lake"
    for run in ("npu", "__HIVE_DEFAULT_PARTITION__"):
        ingest(write_run(tmp_path / "dump", ops=2, steps=1, ranks=1), lake=lake, run=run)
    with lakeprobe.open(lake, create=True) as opened:
        assert opened.sql("SELECT run, step, rank, count(*) FROM ops GROUP BY ALL ORDER BY ALL").fetchall() == [
            ("__HIVE_DEFAULT_PARTITION__", 0, 0, 2), ("npu", 0, 0, 2),
        ]  # fmt: skip
        result = opened.compare("npu", "__HIVE_DEFAULT_PARTITION__", name="c")
        assert opened.sql("SELECT DISTINCT comparison, step, rank FROM results").fetchall() == [("c", 0, 0)]
        assert result.verdict == "equal"
        assert result.first_difference().is_equal

"""A job of four ranks that collects into one lake, of which one is killed. Run as a program, it is one of the ranks.

python test_killed_rank.py RANK PORT LAKE RUN WHAT, where WHAT is golden, or what happens to rank 2 in its second step:
killed (others go on) or awaited (others wait for it in a collective).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import jobs
import pytest
from test_unit_sink import notes, rows

import lakeprobe
from lakeprobe.collect.writing.unit_sink import OPS_PER_BATCH
from lakeprobe.journals import recovery

torch = pytest.importorskip("torch")

from torch import Tensor, distributed, nn  # noqa: E402

RANKS = 4
KILLED = 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.gelu(self.linear(self.norm(x)))


def train(lake: str, run: str, rank: int, what: str) -> None:
    """Two steps. Rank 2 does not live to see the end of the second, unless it is the golden run."""
    torch.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(20)])
    batch = torch.randn(2, 8)
    with lakeprobe.collect(model, run=run, lake=lake, level="mix") as collector:
        for step in range(2):
            loss = model(batch).sum()
            loss.backward()
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
            model(batch)
            if step == 1 and what != "golden":
                if rank == KILLED:
                    os.kill(os.getpid(), signal.SIGKILL)
                if what == "awaited":
                    distributed.all_reduce(loss)
            model(batch)
            collector.step()


def main(rank: str, port: str, lake: str, run: str, what: str) -> None:
    jobs.join(rank, port, RANKS)
    train(lake, run, int(rank), what)
    os._exit(0)  # leaving the group needs all of its ranks


def ended(lake: Path, run: str, what: str) -> list[int]:
    """Run all ranks of a job. Returns their exit codes."""
    return [code for code, _ in jobs.start(__file__, RANKS, str(lake), run, what)]


def program(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lakeprobe", *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake with the run `golden`, and the run `cut` whose rank 2 is killed."""
    lake = tmp_path_factory.mktemp("job") / "lake"
    assert ended(lake, "golden", "golden") == [0] * RANKS
    assert ended(lake, "cut", "killed") == [0, 0, -signal.SIGKILL, 0]
    recovery.recover(lake)
    return lake


def test_all_units_are_there_and_one_is_incomplete(lake: Path) -> None:
    with lakeprobe.open(lake, create=True) as opened:
        found = opened.sql("SELECT step, rank, complete FROM dumps WHERE run = 'cut' ORDER BY ALL").fetchall()
    assert found == [(step, rank, (step, rank) != (1, KILLED)) for step in range(2) for rank in range(RANKS)]
    for step, rank, is_complete in found:
        noted = notes(lake, "cut", rank, step)
        assert not noted if is_complete else noted[0].startswith("incomplete")


def test_whole_units_are_as_those_of_a_job_that_nobody_killed(lake: Path) -> None:
    for step in range(2):
        for rank in range(RANKS):
            if (step, rank) != (1, KILLED):
                for table in ("ops", "tensors"):
                    assert rows(lake, table, "cut", step, rank) == rows(lake, table, "golden", step, rank)


def test_the_killed_rank_lost_less_than_two_batches(lake: Path) -> None:
    left, all_of_them = rows(lake, "ops", "cut", 1, KILLED), rows(lake, "ops", "golden", 1, KILLED)
    last_before = [row[2] for row in all_of_them].index("Functional.gelu.39.forward")
    assert left == all_of_them[: len(left)]
    assert last_before - 2 * OPS_PER_BATCH < len(left) <= last_before + 4
    assert len(left) % OPS_PER_BATCH == 0


def test_compare_names_what_is_incomplete_and_finds_no_difference_in_the_rest(lake: Path) -> None:
    done = program("compare", "cut", "golden", "--lake", str(lake))
    assert "run cut step 1 rank 2 is incomplete" in done.stderr
    assert done.stderr.count("is incomplete") == 1
    assert "Traceback" not in done.stderr
    with lakeprobe.open(lake, create=True) as opened:
        judged = opened.sql("SELECT DISTINCT verdict FROM results WHERE verdict NOT IN ('pass', 'skipped')").fetchall()
        alone = opened.sql(
            "SELECT DISTINCT step, rank, verdict, messages FROM results WHERE outcome = 'unmatched'"
        ).fetchall()
    assert judged == []
    assert alone == [(1, KILLED, "skipped", ["skipped: the other side was cut off before"])]


def test_ls_and_check_have_nothing_against_the_lake(lake: Path) -> None:
    listed = program("ls", "--lake", str(lake))
    assert listed.returncode == 0
    assert listed.stderr == ""
    assert "cut" in listed.stdout
    checked = program("check", "--lake", str(lake))
    assert (checked.returncode, checked.stdout) == (0, "")


def test_ranks_that_wait_for_the_killed_one_fail_and_leave_what_they_had(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert ended(lake, "npu", "awaited") == [1, 1, -signal.SIGKILL, 1]
    recovery.recover(lake)
    with lakeprobe.open(lake, create=True) as opened:
        complete = opened.sql("SELECT rank FROM dumps WHERE step = 0 AND complete ORDER BY rank").fetchall()
        cut_off = opened.sql("SELECT rank FROM dumps WHERE step = 1 AND NOT complete ORDER BY rank").fetchall()
        failed = opened.sql("SELECT rank, max_by(op, seq) FROM ops WHERE step = 1 GROUP BY rank ORDER BY rank")
        last = dict(failed.fetchall())
    assert complete == cut_off == [(rank,) for rank in range(RANKS)]
    del last[KILLED]
    assert set(last.values()) == {"Distributed.all_reduce.80.forward"}


if __name__ == "__main__":
    main(*sys.argv[1:])

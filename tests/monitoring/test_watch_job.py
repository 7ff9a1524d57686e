"""`lakeprobe watch` beside a running job of four ranks: an anomaly, and a rank that is killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

import lakeprobe
from lakeprobe.analysis import watch as watching
from lakeprobe.cli import app

RANKS = 4
Job = tuple[Path, list[subprocess.Popen[bytes]]]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A lake, and the processes of a job that writes into it."""
    lake = tmp_path_factory.mktemp("job") / "lake"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = Path(__file__).with_name("job.py")
    root = str(program.parents[2])
    environment = os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, program, str(rank), port, lake, str(RANKS)], env=environment)
        for rank in range(RANKS)
    ]
    try:
        deadline = time.monotonic() + 120
        while not lake.exists() or len(watching.ranks(lake, "job").running) < RANKS:
            assert time.monotonic() < deadline
            assert all(process.poll() is None for process in processes)
            time.sleep(0.2)
        yield lake, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _wait_for_step(lake: Path, step: int) -> None:
    """Wait until every rank has published this step, and so all before it."""
    deadline = time.monotonic() + 120
    published = 0
    while published < RANKS:
        assert time.monotonic() < deadline
        with lakeprobe.open(lake) as opened:
            ((published,),) = opened.sql(
                "SELECT count(DISTINCT rank) FROM series WHERE step >= $step", {"step": step}
            ).fetchall()


def test_a_healthy_job_is_quiet_and_its_laws_hold(job: Job) -> None:
    lake, _ = job
    said = CliRunner().invoke(app, ["watch", "job", "--lake", str(lake)])
    assert (said.exit_code, said.stdout) == (0, "")
    assert "job: nothing found; the training runs" in said.stderr


def test_what_a_rank_sends_is_measured(job: Job) -> None:
    lake, _ = job
    _wait_for_step(lake, 2)
    with lakeprobe.open(lake) as opened:
        sent = opened.sql(
            "SELECT name, point, metric, coalesce(text, value::VARCHAR) FROM series "
            "WHERE point IN ('sent', 'received', 'communication') AND rank = 1 AND step = 1 ORDER BY ALL"
        ).fetchall()
        losses = opened.sql(
            "SELECT sum(value) FILTER (WHERE name = 'loss'), any_value(value) FILTER (WHERE point = 'received') "
            "FROM series WHERE step = 1 AND (name = 'loss' OR (point = 'received' AND rank = 1))"
        ).fetchall()
    program = Path(__file__).with_name("job.py")
    line = next(number for number, text in enumerate(program.read_text().splitlines(), 1) if "all_reduce(" in text)
    assert [row[:3] for row in sent] == [
        ("all_reduce", "communication", "bytes"),
        ("all_reduce", "communication", "line"),
        ("all_reduce", "received", "norm"),
        ("all_reduce", "sent", "norm"),
    ]
    assert (float(sent[0][3]), sent[1][3]) == (4.0, f"{program}:{line}")
    assert losses[0][0] == pytest.approx(losses[0][1], rel=1e-6)


def test_an_anomaly_is_seen_while_the_job_runs(job: Job) -> None:
    lake, processes = job
    there = ["--lake", str(lake)]
    Path(f"{lake}.plant").touch()
    said = CliRunner().invoke(
        app, ["watch", "job", "--follow", "--every", "0.2", "--rule", "nan", "--format", "json", *there]
    )
    assert said.exit_code == 1
    assert all(process.poll() is None for process in processes)
    found = [json.loads(line) for line in said.stdout.splitlines()]
    first = min(row["step"] for row in found)
    assert {row["rank"] for row in found if row["step"] == first and row["point"] == "gradient_unreduced"} <= {2}
    assert {row["rank"] for row in found if row["step"] == first and row["name"] == "loss"} <= {2}


def test_a_rank_that_is_killed_is_told(job: Job) -> None:
    lake, processes = job
    processes[3].kill()
    processes[3].wait()
    said = CliRunner().invoke(app, ["watch", "job", "--follow", "--rule", "silent", "--lake", str(lake)])
    assert said.exit_code == 1
    assert "the process of rank 3 died before its series had ended" in said.stderr

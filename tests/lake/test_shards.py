"""A run or comparison that several processes make together: each its shard, published at one moment or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from plain_dumps import files, leftovers, without_publication, write_run
from test_together import WRITE

import lakeprobe
from lakeprobe.commands.publish import publish as publish_command
from lakeprobe.compare import run as comparing
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.ingest import run as reading
from lakeprobe.lake import layout, log, shards, staging
from lakeprobe.lake.shards import Shard
from lakeprobe.system import owner

ELSEWHERE = "0123abcd-1-1"
"""The owner name of a process of another machine."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("dumps")
    for run, ops in (("npu", 2), ("gpu", 3)):
        write_run(top / run, ops=ops, steps=1, ranks=5)
    return top


@pytest.fixture(scope="module")
def whole(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake made by one process."""
    lake = tmp_path_factory.mktemp("lakes") / "whole"
    for run in ("npu", "gpu"):
        ingest(dumps / run, lake=lake)
    comparing.compare("npu", "gpu", lake=lake)
    return lake


def content(lake: Path) -> dict[str, bytes]:
    return {path: data for path, data in without_publication(lake).items() if not path.startswith(".shards/")}


@pytest.mark.parametrize("text", ["", "3", "3/3", "-1/3", "1/0", "a/b", "1/2/3", "0/9999999", "1 / 2"])
def test_what_is_not_a_shard(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shard; write it as i/n with i from 0 to n - 1"):
        Shard.of(text)


def test_every_item_is_in_one_shard() -> None:
    shares = [Shard.of(f"{index}/3").share(range(8)) for index in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_shards_make_the_same_lake(dumps: Path, whole: Path, tmp_path: Path) -> None:
    """Byte for byte, in any order, and nobody sees anything before the last has finished."""
    lake = tmp_path / "lake"
    for run in ("npu", "gpu"):
        for shard in ("2/3", "0/3", "1/3"):
            assert run not in layout.runs(lake)
            report = ingest(dumps / run, lake=lake, shard=shard)
            assert [unit.key.rank for unit in report.units] == list(range(5))[int(shard[0]) :: 3]
        assert layout.units(lake, run) == layout.units(whole, run)
    for index in (3, 0, 6, 5, 2, 4, 1):  # two of them have nothing to compare
        assert layout.comparisons(lake) == []
        report = comparing.compare("npu", "gpu", lake=lake, shard=f"{index}/7")
        assert [pair.target.rank for pair in report.pairs] == ([index] if index < 5 else [])
    assert layout.comparisons(lake) == ["npu_vs_gpu"]
    assert content(lake) == content(whole)
    assert log.read(lake).number == log.read(whole).number  # one publication for each run and comparison
    assert not (lake / ".shards").exists()
    assert leftovers(lake) == []


@pytest.mark.parametrize("mount", ["no locks", "no links"])
def test_shards_at_the_same_time(dumps: Path, whole: Path, tmp_path: Path, mount: str) -> None:
    """Where flock does nothing, as on NFS without its lock daemon, and where there are no hard links."""
    lake = tmp_path / "lake"
    program = WRITE.replace("run=sys.argv[2] or None", "shard=sys.argv[2]").replace('"none"', '"copy"')
    writers = [
        subprocess.Popen([sys.executable, "-c", program, lake, f"{index}/3", mount, dumps / "npu"],
                         stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for index in range(3)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        assert (writer.communicate()[1], writer.returncode) == ("", 0)
    of_run = {path: data for path, data in content(whole).items() if path.startswith("run=npu/")}
    assert {path: data for path, data in content(lake).items() if path != "lake.yaml"} == of_run
    assert leftovers(lake) == []


KILLED = """
import os, signal, sys
from lakeprobe.ingest import ingest
from lakeprobe.ingest import run as reading
from lakeprobe.lake import log, shards

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[3] == "at work":
    shards.keep = kill
else:
    log.append = kill
ingest(sys.argv[1], lake=sys.argv[2], shard="1/2")
"""


@pytest.mark.parametrize("when", ["at work", "publishing"])
def test_a_killed_shard(dumps: Path, whole: Path, tmp_path: Path, when: str) -> None:
    """Its work is done again if it was at work. If it was publishing, nothing has to be read again."""
    lake = tmp_path / "lake"
    ingest(dumps / "npu", lake=lake, shard="0/2")
    done = subprocess.run([sys.executable, "-c", KILLED, dumps / "npu", lake, when], check=False)
    assert done.returncode == -signal.SIGKILL
    assert layout.runs(lake) == []
    if when == "at work":
        with pytest.raises(LakeError, match=r"^run npu: 1 of 2 shards have finished; to be run, or run again: 1; noth"):
            reading.publish_run(lake, "npu")
        ingest(dumps / "npu", lake=lake, shard="1/2")
    else:
        assert str(shards.whole(lake, "npu")) == "run npu: 2 of 2 shards have finished"
        assert reading.publish_run(lake, "npu") == 5
    of_run = {path: data for path, data in content(whole).items() if path.startswith("run=npu/")}
    assert {path: data for path, data in content(lake).items() if path != "lake.yaml"} == of_run
    assert leftovers(lake) == []


def test_a_shard_on_another_machine_is_abandoned_after_a_day(dumps: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ingest(dumps / "npu", lake=lake, shard="0/2")
    with staging.staged(lake, "ingest") as session:
        shards.begin(session, "run", "npu", Shard.of("1/2"))
        other = session.folder.with_name(session.folder.name.replace(owner.me(), ELSEWHERE))
        session.folder.rename(other)
    os.utime(other, (time.time() - 300,) * 2)
    [pending] = shards.pending(lake)
    assert 300 <= pending.working[1] < 360
    assert pending.absent == []
    assert "at work: 1 (last sign of life 30" in str(pending)
    ingest(dumps / "gpu", lake=lake)  # sweeps
    assert other.exists()
    os.utime(other, (time.time() - 90_000,) * 2)
    assert shards.pending(lake)[0].absent == [1]
    ingest(dumps / "gpu", lake=lake)
    assert not other.exists()
    assert len(shards.pending(lake)[0].finished) == 1  # what has finished stays


def test_a_sign_of_life_with_every_unit(dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signs = []
    utime = os.utime
    monkeypatch.setattr(os, "utime", lambda path, *rest: (signs.append(Path(path).parent.name), utime(path, *rest)))
    ingest(dumps / "npu", lake=tmp_path / "lake")
    assert signs.count(".staging") == 6  # at the beginning, and after each of five


def test_two_publishers(dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds everything published, though the first has not cleared away, and publishes nothing."""
    lake = tmp_path / "lake"
    ingest(dumps / "npu", lake=lake, shard="0/2")
    with monkeypatch.context() as patch:
        patch.setattr(shards, "discard", lambda *_: 0)
        ingest(dumps / "npu", lake=lake, shard="1/2")
    before, number = files(lake), log.read(lake).number
    assert reading.publish_run(lake, "npu") == 5
    assert log.read(lake).number == number
    assert files(lake) == {path: data for path, data in before.items() if not path.startswith(".shards/")}


def test_a_shard_again_replaces_what_it_left(dumps: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for _ in range(2):
        ingest(dumps / "npu", lake=lake, shard="0/2")
    assert len(shards.pending(lake)[0].finished) == 1
    ingest(dumps / "npu", lake=lake, shard="1/2")
    assert len(layout.units(lake, "npu")) == 5


def test_shards_that_were_asked_different_things(tmp_path: Path) -> None:
    """A dump that grew between two shards, or a run that was replaced, makes no run of two halves."""
    dump, lake = write_run(tmp_path / "npu", ops=2, steps=1, ranks=2), tmp_path / "lake"
    ingest(dump, lake=lake, shard="0/2")
    write_run(dump, ops=2, steps=1, ranks=4)
    with pytest.raises(LakeError, match="shards 0/2 and 1/2 were given different options"):
        ingest(dump, lake=lake, shard="1/2")
    assert layout.runs(lake) == []
    ingest(dump, lake=lake, shard="0/2")
    assert len(layout.units(lake)) == 4
    comparing.compare("npu", "npu", lake=lake, shard="0/2")
    ingest(dump, lake=lake, replace=True)
    with pytest.raises(LakeError, match="given different options, or the dumps, the runs or lakeprobe changed"):
        comparing.compare("npu", "npu", lake=lake, shard="1/2")
    assert layout.comparisons(lake) == []


def test_a_unit_that_came_from_elsewhere_is_kept(dumps: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ingest(dumps / "npu", lake=lake, shard="0/2")
    ingest(dumps / "gpu", lake=lake, run="npu")
    before = content(lake)
    shards_folder = files(lake)
    with pytest.raises(LakeError, match=r"is in .* already, from another dump"):
        ingest(dumps / "npu", lake=lake, shard="1/2")
    assert content(lake) == before
    assert files(lake) == shards_folder
    assert shards.discard(lake, "npu") == 1
    assert not (lake / ".shards").exists()


def test_shards_from_python(dumps: Path, whole: Path, tmp_path: Path) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        for run in ("npu", "gpu"):
            lake.ingest(dumps / run)
        first = lake.compare_shard("npu", "gpu", "1/2")
        assert (first.is_whole, first.absent) == (False, [0])
        assert lake.comparisons == []
        assert lake.compare_shard("npu", "gpu", "0/2").is_whole
        assert len(lake.comparison("npu_vs_gpu").rows) == 15
        with pytest.raises(UsageError, match="read it first"):
            lake.compare_shard(str(dumps / "npu"), "gpu", "0/2")
    assert content(tmp_path / "lake") == content(whole)


def test_what_shards_cannot_do(dumps: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds 2 runs, and shards read one together"):
        ingest(dumps, lake=tmp_path / "lake", shard="0/2")
    with pytest.raises(UsageError, match=r"shards compare runs of the lake, and .*/npu is a path; read it first"):
        comparing.compare(dumps / "npu", "gpu", lake=whole, shard="0/2")
    with pytest.raises(UsageError, match=r"no shard of npu waits in .* \(waiting: nothing\)"):
        shards.whole(whole, "npu")


def test_the_command(dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    ingest(dumps / "npu", lake=lake, shard="2/4")
    publish_command(lake=lake)
    assert capsys.readouterr().out == "run npu: 1 of 4 shards have finished; to be run, or run again: 0-1, 3\n"
    with pytest.raises(LakeError, match="nothing was published"):
        publish_command("npu", lake=lake)
    publish_command("npu", discard=True, lake=lake)
    assert "the work of 1 shard was discarded" in capsys.readouterr().err
    publish_command(lake=lake)
    assert capsys.readouterr().out == "no shards wait to be published\n"


def test_a_damaged_shard_counts_as_not_finished(dumps: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ingest(dumps / "npu", lake=lake, shard="0/2")
    (lake / ".shards/run=npu/of=2/shard=0/shard.json").write_text('{"plan"')
    assert shards.pending(lake) == []
    ingest(dumps / "npu", lake=lake, shard="0/2")
    ingest(dumps / "npu", lake=lake, shard="1/2")
    assert len(layout.units(lake)) == 5

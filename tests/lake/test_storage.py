"""Dumps and lakes on object storage: the same rows as from a folder, whatever the network does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("moto")

import object_store
import s3fs
from object_store import Store
from plain_dumps import leftovers, without_publication, write_run

import lakeprobe
from lakeprobe.compare import run as comparing
from lakeprobe.errors import DumpError, LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.ingest.survey import survey
from lakeprobe.lake import layout, staging
from lakeprobe.system import storage
from lakeprobe.system.files import absolute


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store.running() as running, patch.dict(os.environ, running.environment):
        s3fs.S3FileSystem.clear_instance_cache()
        yield running


@pytest.fixture(autouse=True)
def calm(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)  # lakeprobe asks again too
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    store.faults.strike("", "", 0)
    store.faults.requests.clear()


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("dumps") / "npu", ops=3, steps=2, ranks=2)


@pytest.fixture(scope="module")
def address(store: Store, dump: Path) -> str:
    return store.upload(dump, "jobs/npu")


def units(lake: Path) -> dict[str, bytes]:
    """The files of the units without dumps.parquet, which says where the dump is and when its files changed."""
    return {
        path: data
        for path, data in without_publication(lake).items()
        if path.startswith("run=") and not path.endswith("dumps.parquet")
    }


@pytest.fixture(scope="module")
def here(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The units of the same dump in a folder."""
    lake = tmp_path_factory.mktemp("lakes") / "here"
    ingest(dump, lake=lake)
    return units(lake)


def test_paths(store: Store, address: str) -> None:
    path = absolute(address) / "step0"
    assert str(path) == "s3://bucket/jobs/npu/step0"
    assert str(absolute(Path(address))) == address  # pathlib drops a slash
    assert (path.name, str(path.parent), path.absolute(), path.resolve()) == ("step0", address, path, path)
    assert sorted(child.name for child in path.iterdir()) == ["rank0", "rank1"]
    assert (path.exists(), path.is_dir(), path.is_file()) == (True, True, False)
    file = path / "rank0/construct.json"
    assert (file.exists(), file.is_dir(), file.is_file()) == (True, False, True)
    assert (file.read_bytes(), file.read_text(), file.stat().st_size) == (b"{}", "{}", 2)
    assert file.stat().st_mtime > 1e9
    assert not (path / "rank7").exists()
    with pytest.raises(FileNotFoundError, match=r"rank7/dump\.json"):
        (path / "rank7/dump.json").open()
    with pytest.raises(OSError, match="not written in place"):
        file.open("wb")


def test_a_dump_gives_the_same_units(store: Store, address: str, tmp_path: Path, here: dict[str, bytes]) -> None:
    lake = tmp_path / "lake"
    report = ingest(address, lake=lake)
    assert report.runs == ("npu",)
    assert units(lake) == here
    assert leftovers(lake) == []
    with lakeprobe.open(lake) as opened:
        assert opened.sql("SELECT DISTINCT source FROM dumps").fetchall() == [(address,)]
    assert ingest(address, lake=lake).read == ()  # the same dump


def test_only_what_is_asked_for_is_read(store: Store, address: str, tmp_path: Path) -> None:
    ingest(address, lake=tmp_path / "lake", ranks=[1], steps=[0], tensors="none")
    read = {request for request in store.faults.requests if request.startswith("GET /bucket/jobs")}
    assert read == {f"GET /bucket/jobs/npu/step0/rank1/{name}.json" for name in ("dump", "stack", "construct")}


def test_each_file_is_fetched_once(store: Store, address: str, tmp_path: Path) -> None:
    ingest(address, lake=tmp_path / "lake", ranks=[1], steps=[0])
    fetched = [request for request in store.faults.requests if request.startswith("GET /bucket/jobs")]
    assert len(fetched) == len(set(fetched)) == 6


def test_other_processes(address: str, tmp_path: Path, here: dict[str, bytes]) -> None:
    with patch("lakeprobe.ingest.run._SECONDS_TO_START", 0.0):
        ingest(address, lake=tmp_path / "lake", jobs=2)
    assert units(tmp_path / "lake") == here


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["busy", "cut", "slow"])
@pytest.mark.parametrize("key", ["step0/rank0/dump.json", ".npy"])
def test_faults_that_pass(
    store: Store, address: str, tmp_path: Path, here: dict[str, bytes], kind: str, key: str
) -> None:
    times = 1 if kind == "slow" else 3
    store.faults.strike(kind, key, times)
    ingest(address, lake=tmp_path / "lake")
    assert store.faults.struck == times
    assert units(tmp_path / "lake") == here


@pytest.mark.parametrize("kind", ["busy", "cut"])
def test_faults_that_stay(store: Store, address: str, tmp_path: Path, kind: str) -> None:
    store.faults.strike(kind, "rank1/dump.json", times=10**6)
    with pytest.raises((LakeError, DumpError), match=r"s3://bucket/jobs/npu/step0/rank1/dump\.json.*5 attempts"):
        ingest(address, lake=tmp_path / "lake", steps=[0])
    assert layout.units(tmp_path / "lake") == []
    assert leftovers(tmp_path / "lake") == []


def test_a_server_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(DumpError, match=r"^s3://elsewhere/npu cannot be read: .*127\.0\.0\.1:9"):
        ingest("s3://elsewhere/npu", lake=tmp_path / "lake")
    s3fs.S3FileSystem.clear_instance_cache()


def test_what_is_not_there(address: str, tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=r"s3://bucket/jobs/none does not exist; give a dump"):
        ingest("s3://bucket/jobs/none", lake=tmp_path / "lake")
    with pytest.raises(UsageError, match="tensors on remote storage cannot be linked to; use --tensors copy or none"):
        ingest(address, lake=tmp_path / "lake", tensors="link")
    with pytest.raises(UsageError, match=r"nosuch://bucket/npu.*Protocol not known: nosuch"):
        ingest("nosuch://bucket/npu", lake=tmp_path / "lake")
    with pytest.raises(UsageError, match=r"gs://bucket/npu cannot be reached: .*; install it with: pip install gcsfs"):
        ingest("gs://bucket/npu", lake=tmp_path / "lake")


def test_an_archive(store: Store, dump: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "npu.tar", "w") as packed:
        packed.add(dump, "npu")
    store.client.put_object(Bucket="bucket", Key="npu.tar", Body=(tmp_path / "npu.tar").read_bytes())
    with pytest.raises(UsageError, match="is an archive on remote storage; copy it to this machine"):
        ingest("s3://bucket/npu.tar", lake=tmp_path / "lake")


def test_what_would_be_read(address: str) -> None:
    assert [(item.step, item.rank, str(item.path)) for item in survey(Path(address))] == [
        (step, rank, f"{address}/step{step}/rank{rank}") for step in (0, 1) for rank in (0, 1)
    ]


def test_comparing_addresses(store: Store, dump: Path, address: str, tmp_path: Path) -> None:
    report = comparing.compare(address, dump, lake=tmp_path / "lake", name="c", steps=[0], ranks=[1])
    assert [pair.rows for pair in report.pairs] == [3]
    again = comparing.compare(address, dump, lake=tmp_path / "lake", name="c", steps=[0], ranks=[1])
    assert all(not ingested.read for ingested in again.ingested)


# ---- lakes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in a folder, with a comparison."""
    top = tmp_path_factory.mktemp("lakes") / "lake"
    other = write_run(tmp_path_factory.mktemp("dumps") / "gpu", ops=4, steps=1, ranks=2)
    with lakeprobe.open(top, create=True) as opened:
        opened.ingest(dump)
        opened.ingest(other)
        opened.compare("npu", "gpu", steps=[0], name="pairing")
        opened.note("npu", "from the farm")
    return top


@pytest.fixture(scope="module")
def there(store: Store, lake: Path) -> str:
    """The same lake at an address."""
    return store.upload(lake, "lakes/one")


@pytest.fixture(scope="module")
def both(lake: Path, there: str) -> Iterator[tuple[lakeprobe.Lake, lakeprobe.Lake]]:
    """The lake in the folder and the one at the address, open."""
    with lakeprobe.open(lake) as local, lakeprobe.open(there) as remote:
        yield local, remote


@pytest.mark.parametrize(
    "question",
    [
        "SELECT run, step, rank, count(*) FROM tensors GROUP BY ALL ORDER BY ALL",
        "SELECT run, step, rank, op FROM ops WHERE rank = 1 ORDER BY ALL",
        "FROM pairing ORDER BY ALL",
        "FROM results ORDER BY ALL",
        "SELECT content, octet_length(data) FROM values ORDER BY ALL",
    ],
)
def test_a_query_has_the_same_rows(both: tuple[lakeprobe.Lake, lakeprobe.Lake], question: str) -> None:
    local, remote = both
    assert remote.sql(question).fetchall() == local.sql(question).fetchall() != []


def test_contents_are_read_in_ranges(store: Store, both: tuple[lakeprobe.Lake, lakeprobe.Lake]) -> None:
    question = """
        SELECT content, tensor_metrics(reference, reference).max_abs_error FROM tensor_references
        WHERE run = 'gpu' AND rank = 1 ORDER BY ALL
    """
    local, remote = both
    rows = local.sql(question).fetchall()
    store.faults.requests.clear()
    assert remote.sql(question).fetchall() == rows
    assert [value for _, value in rows] == [0.0] * 4
    fetched = [request for request in store.faults.requests if "values-0" in request and request.startswith("GET")]
    assert 4 <= len(fetched) <= 8  # no more than once for each side of each pair


def test_answers_are_the_same(store: Store, both: tuple[lakeprobe.Lake, lakeprobe.Lake]) -> None:
    local, remote = both
    assert (remote.runs, remote.comparisons) == (["gpu", "npu"], ["pairing"])
    for answer in (str, lambda result: str(result.first_difference()), lambda result: str(result.blame())):
        assert answer(remote.comparison("pairing")) == answer(local.comparison("pairing")) != ""
    op = ("npu", "Torch.add.1.forward")
    assert remote.tensor(*op, "input.0").tolist() == local.tensor(*op, "input.0").tolist() == [1.0] * 1000
    assert remote.check() == []
    heads = [request for request in store.faults.requests if request.startswith("HEAD") and "parquet" in request]
    assert len(heads) <= 2 * len(store.keys("lakes/one"))  # not at every query
    assert remote.note("npu") == "from the farm"
    assert str(remote.ls()) == str(local.ls()).replace(str(local.path), str(remote.path))


def downloaded(store: Store, address: str, folder: Path) -> Path:
    """The objects of a lake as files."""
    key = address.removeprefix("s3://bucket/")
    for each in store.keys(key):
        path = folder / each.removeprefix(f"{key}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.client.get_object(Bucket="bucket", Key=each)["Body"].read())
    return folder


def test_a_lake_is_written_there(store: Store, dump: Path, lake: Path, tmp_path: Path) -> None:
    """Ingest and compare make the same objects as they make files, and each is one entry of the log."""
    address = "s3://bucket/lakes/written"
    ingest(dump, lake=address)
    other = write_run(tmp_path / "gpu", ops=4, steps=1, ranks=2)
    ingest(other, lake=address)
    comparing.compare("npu", "gpu", lake=address, steps=[0], name="pairing")
    here = downloaded(store, address, tmp_path / "copy")
    mine, local = without_publication(here), without_publication(lake)
    local.pop("run=npu/note.txt")
    assert mine.keys() == local.keys()
    times = {path for path in local if path.endswith("dumps.parquet")}  # say where the dump is
    assert {path for path in local if mine[path] != local[path]} <= times
    assert len(list((here / "log").iterdir())) == 4
    with lakeprobe.open(address) as opened:
        assert opened.check() == []
        opened.rm("gpu")
        assert opened.runs == ["npu"]


def test_two_writers_of_one_unit(store: Store, dump: Path, tmp_path: Path) -> None:
    """The second finds its number taken, looks, and gives up: nothing is replaced."""
    address = "s3://bucket/lakes/race"
    ingest(dump, lake=address, run="a", steps=[0])
    usual = staging.publish

    def overtaken(*arguments: Any, **options: Any) -> None:
        with patch.object(staging, "publish", usual):
            ingest(dump, lake=address, run="b", steps=[0])
        usual(*arguments, **options)

    other = write_run(tmp_path / "other", ops=5, steps=1)
    with patch.object(staging, "publish", overtaken), pytest.raises(LakeError, match="was written by another process"):
        ingest(other, lake=address, run="b")
    with lakeprobe.open(address) as opened:
        assert opened.sql("SELECT run, count(*) FROM ops GROUP BY run ORDER BY run").fetchall() == [("a", 6), ("b", 6)]


@pytest.mark.parametrize(("kind", "key"), [("busy", "tensors.parquet"), ("busy", "/log/"), ("lost", "/log/")])
def test_faults_while_writing(store: Store, dump: Path, kind: str, key: str) -> None:
    """A lost reply to the put that publishes is not taken for another writer's."""
    address = f"s3://bucket/lakes/faults-{kind}-{len(key)}"
    store.faults.strike(kind, key, times=2, method="PUT")
    ingest(dump, lake=address, steps=[0], tensors="none")
    assert store.faults.struck == 2
    assert len(layout.units(absolute(address), "npu")) == 2
    assert len([name for name in store.keys(address.removeprefix("s3://bucket/")) if "/log/" in name]) == 2


def test_a_writer_that_fails_leaves_nothing_to_see(store: Store, dump: Path) -> None:
    address = "s3://bucket/lakes/failed"
    ingest(dump, lake=address, run="first", steps=[0], tensors="none")
    store.faults.strike("busy", "rank=1", times=10**6, method="PUT")
    with pytest.raises(LakeError, match=r"5 attempts.*s3://bucket/lakes/failed is as it was before"):
        ingest(dump, lake=address, run="second", steps=[0], tensors="none")
    store.faults.strike("", "", 0)
    assert layout.runs(absolute(address)) == ["first"]
    ingest(dump, lake=address, run="second", steps=[0], tensors="none")
    assert layout.runs(absolute(address)) == ["first", "second"]


def test_what_a_lake_at_an_address_cannot(there: str, dump: Path) -> None:
    with lakeprobe.open(there) as remote:
        with pytest.raises(UsageError, match="is on remote storage, where nothing is renamed; do it in a lake"):
            remote.rename("npu", "other")
        with pytest.raises(UsageError, match="notes are not written"):
            remote.note("npu", "other")
        with pytest.raises(UsageError, match="shards cannot meet"):
            remote.ingest(dump, run="new", shard="0/2")
    assert not Path("s3:").exists()


def test_what_is_published_later_is_seen(store: Store, lake: Path, dump: Path, tmp_path: Path) -> None:
    """An open lake asks for the next publication by its name, whatever was listed before."""
    grown = tmp_path / "grown"
    ingest(dump, lake=grown, run="first", steps=[0])
    address = store.upload(grown, "lakes/grown")
    with lakeprobe.open(address) as remote:
        assert remote.runs == ["first"]
        ingest(dump, lake=grown, run="second", steps=[1])
        store.upload(grown, "lakes/grown")
        assert remote.runs == ["first", "second"]
        assert remote.sql("SELECT DISTINCT run FROM ops ORDER BY run").fetchall() == [("first",), ("second",)]


def test_no_lake_at_an_address() -> None:
    with pytest.raises(LakeError, match="there is no lake at s3://bucket/nothing"):
        lakeprobe.open("s3://bucket/nothing")

"""A lake from a stranger: whatever lies in it, nothing outside is written or removed, and no command waits or breaks.

Each attack forges a copy of a sound lake. Then commands that read and write are run on it: some in CI, all under
`make fuzz`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from program import Ended, dump_text, lakeprobe, write_dump
from sampling import some
from test_corpus import bounded

import lakeprobe as library
from lakeprobe.lake import log

DEAD = "00000000-1-1"
"""Nobody: a process of another machine, of which nothing was heard for long."""
UNIT = "run=target/step=0/rank=0"
COMMANDS = {
    "ls": ("ls",),
    "sql": ("sql", "SELECT count(*) FROM tensors"),
    "check": ("check",),
    "replace": ("ingest", "{dump}", "--run", "target", "--replace"),
    "compare": ("compare", "target", "golden", "--name", "both", "--replace"),
    "rename": ("rename", "target", "other", "--yes"),
    "compact": ("compact", "golden"),
    "note": ("note", "golden", "a note", "--yes"),
    "recover": ("recover",),
    "publish": ("publish", "mine"),
    "rm": ("rm", "golden", "--yes"),
    "rm comparison": ("rm", "both", "--yes"),
    "repair": ("check", "--repair"),
}  # fmt: skip

WRITING = ("replace", "compare", "rename", "compact", "note", "recover", "publish", "rm", "rm comparison", "repair")
FEW = ("sql", "check", "replace", "compare", "publish", "rm", "repair")
"""Those of them that read all kinds of records."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound lake of two runs, and the dump that is read into it again."""
    folder = tmp_path_factory.mktemp("lakes")
    write_dump(folder / "dump", dump_text(add=1, mul=1))  # as golden: what is equal is compared in half the time
    write_dump(folder / "dumps" / "target", dump_text(add=1, mul=2))  # no name of a run is a path beside the lake
    write_dump(folder / "dumps" / "golden", dump_text(add=1, mul=1))
    with library.open(folder / "lake", create=True) as lake:
        for run in ("target", "golden"):
            lake.ingest(folder / "dumps" / run)
            lake.note(run, "as it was")
        lake.compare("target", "golden", name="both")
    return folder


@pytest.fixture
def home(tmp_path: Path, sound: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sound folder, with something of ours beside the lake."""
    copy = Path(shutil.copytree(sound, tmp_path / "home"))
    ours = copy / "ours"
    for place in (f"{UNIT}/P", "run=target/step=0/P", "comparison=both/P", "deep/rank=0/P"):
        (ours / place).mkdir(parents=True)
        (ours / place / "precious").write_text("the only copy")
    (ours / "precious").write_text("the only copy")
    for path in (ours, *ours.rglob("*")):
        old(path)
    monkeypatch.chdir(copy)
    return copy


def listed(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder; None for what is not a file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def command(name: str, home: Path) -> Ended:
    words = (word.replace("{dump}", str(home / "dump")) for word in COMMANDS[name])
    return lakeprobe(*words, LAKEPROBE_LAKE=str(home / "lake"))


def replaced(path: Path, target: str | Path) -> None:
    """A link to `target` instead of what is at `path`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def moved(path: Path, target: Path) -> None:
    """What is at `path` lies at `target` now, and a link leads there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    path.symlink_to(target)


def old(path: Path) -> None:
    os.utime(path, (0, 0), follow_symlinks=False)


def publication(lake: Path, put: object, removed: object = (), number: int | str = 9) -> None:
    text = json.dumps({"put": put, "removed": removed})
    (lake / "log" / (f"{number:010d}.json" if isinstance(number, int) else number)).write_text(text)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def session(lake: Path, noted: object) -> None:
    """What a process that has ended left, which says what it wanted to put and remove."""
    folder = lake / ".staging" / f"ingest.a.{DEAD}"
    folder.mkdir(parents=True)
    (folder / "places.json").write_text(json.dumps(noted))
    old(folder)


def place(lake: Path, name: str) -> Path:
    return lake / log.read(lake).places[name].path


def shard(lake: Path, put: dict[str, str], run: str = "mine") -> Path:
    folder = lake / ".shards" / f"run={run}" / "of=1" / "shard=0"
    (folder / "unit").mkdir(parents=True)
    (folder / "unit" / "precious").write_text("a stranger's")
    described = {"identity": "a", "plan": "b", "put": put, "described": {}}
    (folder / "shard.json").write_text(json.dumps(described))
    return folder


def no_journal(lake: Path) -> Path:
    """The folder of a journal of which no unit can be made."""
    folder = lake / ".collecting" / "run=a,step=0,rank=0"
    (folder / "unit").mkdir(parents=True)
    (folder / "journal").write_bytes(b"\x08" + bytes(7) + b"12345678")
    return folder


def test_every_command_does_its_work_where_nothing_is_forged(home: Path) -> None:
    """Else a refusal for another reason would pass for the answer to a forged lake."""
    shard(home / "lake", {"run=mine/step=0/rank=0": "unit"})
    for name in COMMANDS:
        assert command(name, home).code == (3 if name == "publish" else 0), name


LOCKS = ("run=target,step=0,rank=0", "comparison=both")
"""Labels of the locks that our commands take."""

LINKS: dict[str, Callable[[Path, Path], object]] = {
    "a run is a link": lambda lake, ours: moved(lake / "run=target", ours / "moved"),
    "a step is a link": lambda lake, ours: moved(lake / "run=target/step=0", ours / "moved"),
    "a rank is a link": lambda lake, ours: moved(lake / UNIT, ours / "moved"),
    "a publication is a link": lambda lake, ours: moved(place(lake, UNIT), ours / "moved"),
    "golden is a link": lambda lake, ours: moved(lake / "run=golden", ours / "moved"),
    "golden's rank is a link": lambda lake, ours: moved(lake / "run=golden/step=0/rank=0", ours / "moved"),
    "all comparisons are a link": lambda lake, ours: moved(lake / "comparisons", ours / "moved"),
    "a comparison is a link": lambda lake, ours: moved(lake / "comparisons/comparison=both", ours / "moved"),
    "a run is a link to other folders": lambda lake, ours: replaced(lake / "run=target", ours / "run=target"),
    "an unknown run is a link": lambda lake, ours: replaced(lake / "run=new", ours / "run=target"),
    "an unknown rank is a link": lambda lake, ours: replaced(lake / "run=new/step=0/rank=0", ours / "deep/rank=0"),
    "the staging folder is a link": lambda lake, ours: replaced(lake / ".staging", ours),
    "the staging folder is a dangling link": lambda lake, ours: replaced(lake / ".staging", ours / "made"),
    "the log is a link": lambda lake, ours: moved(lake / "log", ours / "moved"),
    "the journals are a link": lambda lake, ours: replaced(lake / ".collecting", ours),
    "a journal is a link": lambda lake, ours: replaced(lake / ".collecting/run=a,step=0,rank=0", ours),
    "the shards are a link": lambda lake, ours: replaced(lake / ".shards", ours),
    "lake.yaml is a link": lambda lake, ours: moved(lake / "lake.yaml", ours / "moved"),
    "a reason is a link": lambda lake, ours: replaced(
        no_journal(lake) / "set_aside", ours / "precious"),
    "a reason is a dangling link": lambda lake, ours: replaced(no_journal(lake) / "set_aside", ours / "made"),
    "a lock is a link": lambda lake, ours: [
        replaced(lake / ".staging" / f"{label}.lock", ours / "precious") for label in LOCKS],
    "a lock is a dangling link": lambda lake, ours: [
        replaced(lake / ".staging" / f"{label}.lock", ours / f"made-{number}") for number, label in enumerate(LOCKS)],
    "a session is a link": lambda lake, ours: replaced(lake / ".staging" / f"ingest.a.{DEAD}", ours),
    "a shard's run is a link": lambda lake, ours: moved(shard(lake, {UNIT: "unit"}).parents[1], ours / "moved"),
    "a shard is a link": lambda lake, ours: moved(shard(lake, {UNIT: "unit"}), ours / "moved"),
    "a publication of the log is a link": lambda lake, ours: replaced(lake / "log/0000000009.json", ours / "precious"),
    "a note is a link": lambda lake, ours: moved(lake / "run=golden/note.txt", ours / "moved"),
    "a note is a dangling link": lambda lake, ours: replaced(lake / "run=golden/note.txt", ours / "made"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("attack", LINKS)
def test_no_link_leads_out(home: Path, attack: str) -> None:
    lake, ours = home / "lake", home / "ours"
    LINKS[attack](lake, ours)
    before = listed(ours)
    for name in some(4, WRITING, attack, LINKS):
        with bounded():
            ended = command(name, home)
        assert listed(ours) == before, (name, ended)


PIPES: dict[str, Callable[[Path], Path]] = {
    "lake.yaml": lambda lake: lake / "lake.yaml",
    "an entry of the log": lambda lake: lake / "log/0000000009.json",
    "a state of the log": lambda lake: lake / "log/0000000001.state.json",
    "comparison.yaml": lambda lake: place(lake, "comparisons/comparison=both") / "comparison.yaml",
    "results": lambda lake: place(lake, "comparisons/comparison=both") / "step=0/rank=0/results.parquet",
    "dumps": lambda lake: place(lake, UNIT) / "dumps.parquet",
    "tensors": lambda lake: place(lake, UNIT) / "tensors.parquet",
    "stacks": lambda lake: place(lake, "run=golden/step=0/rank=0") / "stacks.parquet",
    "a note": lambda lake: lake / "run=golden/note.txt",
    "a lock": lambda lake: lake / ".staging" / f"{LOCKS[1]}.lock",
    "a session": lambda lake: lake / ".staging" / f"ingest.a.{DEAD}",
    "what a session noted": lambda lake: lake / ".staging" / f"ingest.a.{DEAD}" / "places.json",
    "what a reader noted": lambda lake: lake / ".staging" / f"reader-1.a.{DEAD}",
    "a journal": lambda lake: no_journal(lake) / "journal",
    "why there is no journal": lambda lake: no_journal(lake) / "set_aside",
    "a shard": lambda lake: shard(lake, {UNIT: "unit"}) / "shard.json",
    "a file of a shard": lambda lake: shard(lake, {"run=mine/step=0/rank=0": "unit"}) / "unit/ops.parquet",
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("kind", PIPES)
def test_no_pipe_is_waited_for(home: Path, kind: str) -> None:
    path = PIPES[kind](home / "lake")
    pipe(path)
    for name in some(3, FEW, kind, PIPES):
        with bounded():
            ended = command(name, home)
        assert ended.code in (0, 1, 2, 3), (name, ended)


YAML = "comparisons/comparison=both"
DOUBLING = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [*{old}, *{old}]}}\n"
    for old, new in zip("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz", strict=True)
)
"""Each line has twice the pairs of the line before."""


def sparse(path: Path) -> None:
    """A file of a terabyte, of which nothing is on the disk."""
    with path.open("r+b") as file:
        file.truncate(1 << 40)


def changed(path: Path, **values: object) -> None:
    """The YAML file with other values."""
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))


def entry(lake: Path, name: str, path: str, *files: str, **more: object) -> None:
    publication(lake, {name: [path, files or ["ops.parquet", "dumps.parquet"], *more.values()]})


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)


OTHER = "run=golden/step=0/rank=0"
RECORDS: dict[str, Callable[[Path, Path], object]] = {
    "lake.yaml is a terabyte": lambda lake, ours: sparse(lake / "lake.yaml"),
    "lake.yaml is deep": lambda lake, ours: (lake / "lake.yaml").write_text("format: " + "[" * 100_000),
    "lake.yaml is deep in blocks": lambda lake, ours: (lake / "lake.yaml").write_text("- " * 100_000),
    "lake.yaml doubles": lambda lake, ours: (lake / "lake.yaml").write_text(DOUBLING),
    "lake.yaml is a list": lambda lake, ours: (lake / "lake.yaml").write_text("format: [1, 2]"),
    "lake.yaml is in itself": lambda lake, ours: (lake / "lake.yaml").write_text("format: &a [*a]"),
    "lake.yaml has no such date": lambda lake, ours: (lake / "lake.yaml").write_text("format: 2001-99-99"),
    "lake.yaml has an object": lambda lake, ours: (lake / "lake.yaml").write_text(
        "format: !!python/object/apply:os.system [touch owned]"),
    "lake.yaml has lines": lambda lake, ours: (lake / "lake.yaml").write_text('format: "a\\nb"'),
    "the log names ..": lambda lake, ours: entry(lake, "run=a/step=0/rank=0", "run=a/step=0/rank=0/../../../../ours"),
    "the log names our folder": lambda lake, ours: entry(lake, "run=a/step=0/rank=0", str(ours)),
    "the log names a file of ours": lambda lake, ours: entry(
        lake, UNIT, place_text(lake, UNIT), str(ours / "precious")),
    "the log names another run's folder": lambda lake, ours: entry(lake, UNIT, place_text(lake, OTHER)),
    "the log names a folder twice": lambda lake, ours: entry(
        lake, "run=other/step=0/rank=0", place_text(lake, OTHER), "ops.parquet", "dumps.parquet", "tensors.parquet"),
    "the log names a file twice": lambda lake, ours: entry(lake, UNIT, place_text(lake, UNIT), *["ops.parquet"] * 2),
    "the log names NUL": lambda lake, ours: entry(lake, "run=a\0/step=0/rank=0", "run=a\0/step=0/rank=0/P"),
    "the log names half a character": lambda lake, ours: entry(
        lake, "run=a\ud800/step=0/rank=0", "run=a\ud800/step=0/rank=0/P"),
    "the log names a line break": lambda lake, ours: entry(lake, "run=a\nb/step=0/rank=0", "run=a\nb/step=0/rank=0/P"),
    "the log names %2F": lambda lake, ours: entry(lake, "run=a%2Fb/step=0/rank=0", "run=a%2Fb/step=0/rank=0/P"),
    "the log names a long name": lambda lake, ours: entry(
        lake, f"run={'a' * 300}/step=0/rank=0", f"run={'a' * 300}/step=0/rank=0/P"),
    "the log names a step beyond all": lambda lake, ours: entry(
        lake, f"run=a/step={10**30}/rank=0", f"run=a/step={10**30}/rank=0/P"),
    "the log holds infinitely many ranks": lambda lake, ours: entry(
        lake, "run=a/step=0", "run=a/step=0/P", held=[float("inf")]),
    "the log holds a rank beyond all": lambda lake, ours: entry(lake, "run=a/step=0", "run=a/step=0/P", held=[10**30]),
    "the log is a terabyte": lambda lake, ours: [publication(lake, {}), sparse(lake / "log/0000000009.json")],
    "the log is deep": lambda lake, ours: (lake / "log/0000000009.json").write_text("[" * 100_000),
    "the log has a long number": lambda lake, ours: (lake / "log/0000000009.json").write_text("9" * 10_000),
    "the log has digits of another script": lambda lake, ours: publication(
        lake, {}, number="\u0660" * 9 + "\u0669.json"),
    "the log is at its end": lambda lake, ours: publication(lake, {}, number=9_999_999_999),
    "the log has a dangling link": lambda lake, ours: replaced(lake / "log/0000000009.json", ours / "made"),
    "the log has a folder": lambda lake, ours: (lake / "log/0000000009.json").mkdir(),
    "the log has a state of nothing": lambda lake, ours: publication(lake, {}, number="9999999999.state.json"),
    "the log has a state that is a dangling link": lambda lake, ours: replaced(
        lake / "log/0000000003.state.json", ours / "made"),
    "a session noted our folder": lambda lake, ours: session(lake, [str(ours), "../ours", "run=a\0/note.txt"]),
    "a session noted a run": lambda lake, ours: session(lake, ["run=target/note.txt", place_text(lake, UNIT)]),
    "a session noted depth": lambda lake, ours: [
        session(lake, []), (lake / f".staging/ingest.a.{DEAD}/places.json").write_text("[" * 100_000)],
    "a shard goes out": lambda lake, ours: shard(lake, {"../../ours/made": "unit"}),
    "a shard is put at our folder": lambda lake, ours: shard(lake, {str(ours / "made"): "unit"}),
    "a shard brings our folder": lambda lake, ours: shard(lake, {"run=mine/step=0/rank=0": str(ours)}),
    "a shard brings another run": lambda lake, ours: shard(lake, {UNIT: "unit"}),
    "comparison.yaml doubles": lambda lake, ours: (place(lake, YAML) / "comparison.yaml").write_text(DOUBLING),
    "comparison.yaml is a terabyte": lambda lake, ours: sparse(place(lake, YAML) / "comparison.yaml"),
    "comparison.yaml is deep": lambda lake, ours: (place(lake, YAML) / "comparison.yaml").write_text("[" * 100_000),
    "comparison.yaml has no pairs": lambda lake, ours: changed(place(lake, YAML) / "comparison.yaml", pairs=7),
    "comparison.yaml has a pair elsewhere": lambda lake, ours: changed(
        place(lake, YAML) / "comparison.yaml", pairs=[{"step": "../../../../ours", "rank": str(ours)}]),
    "comparison.yaml has folders": lambda lake, ours: changed(
        place(lake, YAML) / "comparison.yaml",
        pairs=[{"step": 0, "rank": 0, "golden_step": 0, "golden_rank": 0, "kind": "tensor", "rows": 1, "folder": "/"}]),
    "comparison.yaml has sides that are lists": lambda lake, ours: changed(
        place(lake, YAML) / "comparison.yaml", target=["a"], golden={"b": 1}),
    "comparison.yaml has a version that is a text": lambda lake, ours: changed(
        place(lake, YAML) / "comparison.yaml", version="one"),
    "comparison.yaml has thresholds that are texts": lambda lake, ours: changed(
        place(lake, YAML) / "comparison.yaml", thresholds={"a": "'; DROP TABLE x"}),
}  # fmt: skip


def place_text(lake: Path, name: str) -> str:
    return log.read(lake).places[name].path


@pytest.mark.sampled
@pytest.mark.parametrize("attack", RECORDS)
def test_records_that_lie(home: Path, attack: str) -> None:
    ours = home / "ours"
    RECORDS[attack](home / "lake", ours)
    before = listed(ours)
    for name in some(3, FEW, attack, RECORDS):
        with bounded():
            ended = command(name, home)
        assert ended.code in (0, 1, 2, 3), (name, ended)
        assert ended.code in (0, 1) or ended.err.count("\n") == 1, (name, ended)
        assert listed(ours) == before, (name, ended)
    assert not (home / "owned").exists()


QUESTIONS = {
    "show": ("show", "Torch.add.0.forward"),
    "sql": ("sql", "SELECT * FROM tensors JOIN ops USING (run, step, rank, seq)"),
    "first-diff": ("first-diff", "both"),
    "csv": ("compare", "target", "golden", "--name", "other", "-o", "reports", "--format", "csv"),
    "export": ("export", "target", "exported"),
    "view": ("view", "both", "-o", "page.html"),
    "compact": ("compact", "target"),
}  # fmt: skip


def column(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    """The column `name` holds nothing but `value`."""

    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        values = pa.array([value] * len(table))
        return table.append_column(name, values) if place < 0 else table.set_column(place, name, values)

    return change


def nulls(*names: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        for name in names:
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), name, pa.nulls(len(table), field.type))
        return table

    return change


def twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table])


def filled(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def swollen(path: Path) -> None:
    """A footer that promises 2**60 rows: the number of rows of the file, as Thrift has it, is made large."""
    data = path.read_bytes()
    rows = pq.ParquetFile(path).metadata.num_rows
    at = data.rindex(bytes([0x16, rows * 2]), 0, len(data) - 8)
    path.write_bytes(data[:at] + bytes([0x16, 0x7E]) + data[at + 2 :])


TABLE_LIES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "nothing": ("tensors", lambda path: filled(path, b"")),
    "a text": ("ops", lambda path: filled(path, b"PAR1 is all it has PAR1")),
    "another schema": ("tensors", lambda path: pq.write_table(pa.table({"a": [1, 2]}), path)),
    "no rows": ("dumps", lambda path: rewritten(path, lambda table: table.slice(0, 0))),
    "no number of rows": ("dumps", lambda path: rewritten(path, nulls("tensor_rows"))),
    "two dumps": ("dumps", lambda path: rewritten(path, twice)),
    "no format": ("dumps", lambda path: rewritten(path, nulls("format", "task", "level", "framework", "head"))),
    "a head that is not JSON": ("dumps", lambda path: rewritten(path, column("head", "{{{"))),
    "a layout that is not JSON": ("dumps", lambda path: rewritten(path, column("layout", "[" * 100_000))),
    "a version that is a number": ("dumps", lambda path: rewritten(path, column("reader_version", 7))),
    "another run": ("tensors", lambda path: rewritten(path, column("run", "golden"))),
    "another step": ("tensors", lambda path: rewritten(path, column("step", 99))),
    "NULL keys": ("tensors", lambda path: rewritten(path, nulls("seq", "row"))),
    "NULL ops": ("ops", lambda path: rewritten(path, nulls("seq", "op"))),
    "rows twice": ("tensors", lambda path: rewritten(path, twice)),
    "ops twice": ("ops", lambda path: rewritten(path, twice)),
    "ops that are numbers": ("ops", lambda path: rewritten(path, column("op", 7))),
    "seq beyond all": ("ops", lambda path: rewritten(path, column("seq", 2**62))),
    "seq that is a text": ("tensors", lambda path: rewritten(path, column("seq", "one"))),
    "a negative row": ("tensors", lambda path: rewritten(path, column("row", -1))),
    "a shape that is a text": ("tensors", lambda path: rewritten(path, column("shape", "[2"))),
    "a path that is not JSON": ("tensors", lambda path: rewritten(path, column("path", "[["))),
    "stacks that are not there": ("ops", lambda path: rewritten(path, column("stack", 10**6))),
    "a parent of itself": ("ops", lambda path: rewritten(path, column("parent", "Torch.add.0.forward"))),
    "a slot with lines": ("tensors", lambda path: rewritten(path, column("slot", "a\nb\x1b[2J"))),
    "more rows than there are": ("tensors", swollen),
    "half of it": ("ops", lambda path: filled(path, path.read_bytes()[: path.stat().st_size // 2])),
    "results of nothing": ("results", lambda path: pq.write_table(pa.table({"a": [1]}), path)),
    "results of another comparison": ("results", lambda path: rewritten(path, column("comparison", "other"))),
    "results with NULL keys": ("results", lambda path: rewritten(path, nulls("row", "verdict", "outcome"))),
    "results twice": ("results", lambda path: rewritten(path, twice)),
    "a verdict beyond all": ("results", lambda path: rewritten(path, column("verdict", "=1+1"))),
    "results with our names": ("results", lambda path: rewritten(path, column("filename", "/etc/passwd"))),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("lie", TABLE_LIES)
def test_tables_that_lie(home: Path, lie: str) -> None:
    file, forge = TABLE_LIES[lie]
    folder = place(home / "lake", YAML) / "step=0/rank=0" if file == "results" else place(home / "lake", UNIT)
    forge(folder / f"{file}.parquet")
    for name in some(3, QUESTIONS, lie, TABLE_LIES):
        with bounded():
            ended = lakeprobe(*QUESTIONS[name], LAKEPROBE_LAKE=home / "lake")
        assert ended.code in (0, 1, 2, 3), (name, ended)
        assert not {"\x1b", "\x07"} & {*ended.out, *ended.err}, (name, ended)


HEAD = {
    "run": "mine", "step": 0, "rank": 0, "framework": "pytorch", "task": "statistics", "level": "L1", "source": "x",
    "head": {}, "replace": True, "version": "1",
}  # fmt: skip
BATCH = {"ops": [["Torch.add.0.forward", {}, None, None]], "ended": True}


def packed(value: object) -> bytes:
    """A value as a journal has it; "DEEP" stands for lists in lists."""
    return msgspec.msgpack.encode(value).replace(msgspec.msgpack.encode("DEEP"), b"\x91" * 100_000 + b"\xc0")


JOURNALS: dict[str, tuple[object, object]] = {
    "leads out": (HEAD | {"run": "../../ours/made"}, BATCH),
    "is far out": (HEAD | {"run": "a/../../ours/made"}, BATCH),
    "has NUL": (HEAD | {"run": "a\0"}, BATCH),
    "is of a step beyond all": (HEAD | {"step": 2**40}, BATCH),
    "is of no step": (HEAD | {"step": -1}, BATCH),
    "is deep": (HEAD | {"head": {"a": "DEEP"}}, BATCH),
    "has a deep op": (HEAD, {"ops": [["Torch.add.0.forward", {"input_args": "DEEP"}, None, None]]}),
    "has a deep batch": (HEAD, {"ops": "DEEP"}),
    "is a text": ("text", BATCH),
    "has a text": (HEAD, "text"),
    "has numbers for ops": (HEAD, {"ops": [7], "ended": True}),
    "has stacks that are not there": (HEAD, {"ops": [["Torch.add.0.forward", {}, None, 10**9]]}),
    "has contents elsewhere": (HEAD, BATCH | {"contents": [{"content": "a", "file": "../../../ours/precious"}]}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("lie", JOURNALS)
def test_journals_that_lie(home: Path, lie: str) -> None:
    for step in (0, 1):  # two of a rank are built together
        folder = home / "lake" / ".collecting" / f"run=mine,step={step},rank=0"
        (folder / "unit").mkdir(parents=True)
        records = (packed(record) for record in JOURNALS[lie])
        (folder / "journal").write_bytes(b"".join(len(each).to_bytes(8, "little") + each for each in records))
    before = listed(home / "ours")
    for name in ("ls", "recover", "check"):
        with bounded():
            ended = command(name, home)
        assert ended.code in (0, 1, 2, 3), (name, ended)
        assert listed(home / "ours") == before, (name, ended)


def test_no_process_is_at_work_in_the_future(home: Path) -> None:
    """A stranger's clock may be wrong, or what he packed may say so: nothing stays for that."""
    staging = home / "lake" / ".staging"
    left = [staging / f"{name}.{DEAD}" for name in ("ingest.a", "reader-1.a")]
    left[0].mkdir()
    left[1].touch()
    for path in left:
        os.utime(path, (4e9, 4e9))
    assert command("check", home).code == 1
    assert command("repair", home).code == 0
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("files", [[], ["verifications.parquet", "noise.parquet"], ["nothing.parquet"]])
def test_checks_and_noise_that_lie(home: Path, files: list[str]) -> None:
    """What else refers to a run is looked at where it is removed or renamed."""
    lake = home / "lake"
    places = ("verifications/verification=v", "perturbations/perturbation=p", "noise/noise=n")
    for name in places:
        (lake / name / "P").mkdir(parents=True)
        for file in files:
            if file != "nothing.parquet":
                pq.write_table(pa.table({"a": [1]}), lake / name / "P" / file)
    publication(lake, {name: [f"{name}/P", files] for name in places}, number=5)
    for name in ("rename", "rm", "rm comparison", "check", "repair"):
        ended = command(name, home)
        assert ended.code in (0, 1, 2, 3), (name, ended)
    assert command("check", home).code == 0

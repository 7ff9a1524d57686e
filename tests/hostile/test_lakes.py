"""A lake from a stranger: whatever lies in it, nothing outside is written or removed, and no command waits or breaks.

Each attack forges a copy of a sound lake. Then commands that read and write are run on it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended, dump_text, lakeprobe, write_dump
from test_corpus import bounded

import lakeprobe as library
from lakeprobe.lake import log

DEAD = "00000000-1-1"
"""Nobody: a process of another machine, of which nothing was heard for long."""
UNIT = "run=target/step=0/rank=0"
COMMANDS = {
    "ls": ("ls",),
    "sql": ("sql", "SELECT count(*) FROM tensors"),
    "show": ("show", "Torch.add.0.forward"),
    "check": ("check",),
    "replace": ("ingest", "{dump}", "--run", "target", "--replace"),
    "compare": ("compare", "target", "golden", "--name", "both", "--replace"),
    "rename": ("rename", "target", "other"),
    "compact": ("compact", "golden"),
    "note": ("note", "golden", "a note"),
    "recover": ("recover",),
    "publish": ("publish", "mine"),
    "rm": ("rm", "golden", "--yes"),
    "rm comparison": ("rm", "both", "--yes"),
    "repair": ("check", "--repair"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound lake of two runs, and the dump that is read into it again."""
    folder = tmp_path_factory.mktemp("lakes")
    write_dump(folder / "dump", dump_text(add=2, mul=3))
    write_dump(folder / "target", dump_text(add=1, mul=2))
    write_dump(folder / "golden", dump_text(add=1, mul=1))
    with library.open(folder / "lake", create=True) as lake:
        for run in ("target", "golden"):
            lake.ingest(folder / run)
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
    """All that lies in a folder; None for what is no file."""
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


@pytest.mark.parametrize("attack", LINKS)
def test_no_link_leads_out(home: Path, attack: str) -> None:
    lake, ours = home / "lake", home / "ours"
    LINKS[attack](lake, ours)
    before = listed(ours)
    for name in COMMANDS:
        with bounded():
            ended = command(name, home)
        assert listed(ours) == before, (name, ended)

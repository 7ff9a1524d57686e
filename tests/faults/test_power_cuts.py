"""What is on the disk after a power cut: what was synced, and by chance some of what was not.

Recorded is what every fsync makes sure of: of a file its bytes, of a folder the names in it. What the disk has at that
moment is built anew from that, and opened as a lake. Strictly: nothing that was not synced is there. By chance: of the
names that were not synced some are there, and of the bytes that were not synced of each file the first few.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scenes import Scene, scenes, settle, state

from lakeprobe.lake import log, staging

Tree = dict[str, "Tree | int"]


@dataclass
class Disk:
    """What is sure to be on the disk: the bytes of files and the names in folders, by inode."""

    top: Path
    files: dict[int, bytes] = field(default_factory=dict)
    folders: dict[int, dict[str, int]] = field(default_factory=dict)
    held: ExitStack = field(default_factory=ExitStack)
    """Keeps everything noted open, so that the system gives its inode to nothing else."""

    def sync(self, path: Path) -> None:
        """Take note of what a sync of `path` makes sure of."""
        about = path.stat()
        if about.st_ino not in self.folders.keys() | self.files.keys():
            self.held.callback(os.close, os.open(path, os.O_RDONLY))
        if stat.S_ISDIR(about.st_mode):
            self.folders[about.st_ino] = {child.name: child.stat().st_ino for child in path.iterdir()}
        else:
            self.files[about.st_ino] = path.read_bytes()

    def write(self, to: Path, now: Path, chance: random.Random | None) -> None:
        """Write to `to` what is there after a cut now; by `chance` with some of what is not sure."""
        self._folder(to, self.top.stat().st_ino, now, chance)

    def _folder(self, to: Path, inode: int, now: Path | None, chance: random.Random | None) -> None:
        to.mkdir()
        sure = self.folders.get(inode, {})
        there = {child.name: child for child in now.iterdir()} if now is not None and now.is_dir() else {}
        names = dict(sure)
        for name, child in there.items() if chance else ():
            if sure.get(name) != child.stat().st_ino and chance.random() < 0.5:  # type: ignore[union-attr]
                names[name] = child.stat().st_ino
        for name in [name for name in sure if chance and name not in there and chance.random() < 0.5]:
            del names[name]  # its removal came through
        for name, child_inode in names.items():
            child = there.get(name)
            child = child if child is not None and child.stat().st_ino == child_inode else None
            if child_inode in self.folders or (child is not None and child.is_dir()):
                self._folder(to / name, child_inode, child, chance)
            else:
                data = self.files.get(child_inode, b"")
                if chance and child_inode not in self.files and child is not None:
                    data = child.read_bytes()[: chance.randrange(child.stat().st_size + 1)]
                (to / name).write_bytes(data)


def cut(scene: Scene, home: Path, look: Callable[[Path, bool], None]) -> int:
    """Act, and let `look` see the disk as it would be after a cut at every sync. Returns how many that were."""
    lake = home / "lake"
    scene.begin(lake)
    disk = Disk(home)
    for path in sorted(home.rglob("*")):
        disk.sync(path)
    disk.sync(home)
    chance, count, usual = random.Random(7), 0, os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal count
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_relative_to(home):
            for by_chance in (None, chance):
                count += 1
                disk.write(home.with_name(f"{home.name}-cut{count}"), home, by_chance)
            disk.sync(path)

    with disk.held, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        scene.act(lake)
        disk.write(home.with_name(f"{home.name}-end"), home, None)
    assert os.fsync is usual
    for number in range(1, count + 1):
        look(home.with_name(f"{home.name}-cut{number}") / "lake", False)
    look(home.with_name(f"{home.name}-end") / "lake", True)
    return count + 1


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["new lake", "ingest", "replace", "compare again", "rm", "rename"])
def test_a_power_cut_leaves_the_old_or_the_new(tmp_path: Path, name: str) -> None:
    [scene] = (scene for scene in scenes(tmp_path / "dumps") if scene.name == name)
    (tmp_path / "before").mkdir()
    scene.begin(tmp_path / "before" / "lake")
    old = state(tmp_path / "before" / "lake") if (tmp_path / "before" / "lake" / "lake.yaml").exists() else {}
    scene.act(tmp_path / "before" / "lake")
    new = state(tmp_path / "before" / "lake")
    assert old != new

    def look(lake: Path, is_done: bool) -> None:
        log._known.clear()
        if not (lake / "lake.yaml").exists():
            assert not old
            assert not is_done
            return
        found = state(lake)
        assert found == new if is_done else found in (old, new), lake
        assert log.missing(log.read(lake)) == []
        scene.act_again(lake)
        settle(lake)
        assert state(lake) == new
        staging.repair(lake)
        assert state(lake) == new
        assert staging.orphans(lake) == staging.left_over(lake) == []

    (tmp_path / "disk").mkdir()
    assert cut(scene, tmp_path / "disk", look) > 10

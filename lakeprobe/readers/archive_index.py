"""Keeps the places of an archive's members, by folder, and refuses archives that cannot be packed dumps."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from lakeprobe.errors import DumpError

MOST_ENTRIES = 2_000_000
"""Files and folders. Each takes about 400 bytes of memory; a step of a rank has some 100 000 tensor files."""
LONGEST_NAME = 4096
"""Characters: what Linux allows for a path."""
MOST_NAME_CHARACTERS = 1 << 29
"""The maximum number of bytes of all names together, as they are kept in memory."""
DEEPEST = 32
"""The maximum depth of folders. Dumps are looked for in the first 16."""
DAMAGED = "it is truncated or damaged; copy or pack it again"
UNPACK = "if you trust it, unpack it and give the folder"
"""The advice of every refusal."""
_MOST_HOPS = 8
_SHOWN = 3


class Member(NamedTuple):
    """The place of a file's bytes: the number of the index's file (or `LEFT_OUT`) and the offset; modified in ns."""

    file: int
    offset: int
    length: int
    modified: int


ARCHIVE, SPOOL, LEFT_OUT = 0, 1, -1
"""The file with a member's bytes: the archive itself, the file it was unpacked to, or none."""

Folders = dict[str, dict[str, Member | None]]
"""The path of each folder from the archive's top ("" for the top itself) and the names in it; a folder's is None."""


class Index(msgspec.Struct):
    """All members of the archive `files[ARCHIVE]`, and what of it is not there."""

    files: tuple[str, str]
    folders: Folders
    notes: list[str]


class Members:
    """Takes in the members of an archive one by one. Every method raises DumpError for what it refuses."""

    def __init__(self, archive: Path) -> None:
        """Messages name `archive`."""
        self._archive = archive
        self._folders: Folders = {"": {}}
        self._links: dict[str, str] = {}
        self._lost: list[str] = []
        self._entries = 0
        self._characters = 0

    def folder(self, name: str) -> None:
        """Add the folder `name`, if it is new."""
        self._names_in("/".join(self._parts(name)))

    def file(self, name: str, member: Member) -> None:
        """Take in the file `name`."""
        folder, base = self._split(name)
        names = self._names_in(folder)
        if base in names:
            raise self._refused(name, "occurs twice")
        self._count(base)
        names[base] = member

    def link(self, name: str, target: str) -> None:
        """Take in a second name for the file `target`, which counts from the archive's top and may come later."""
        path = "/".join(filter(None, self._split(name)))
        if path in self._links:
            raise self._refused(name, "occurs twice")
        self._count(path + target)
        self._links[path] = target

    def symbolic_link(self, name: str, target: str) -> None:
        """Take in a link whose target counts from its own folder. One that leads out of the archive is left out."""
        parts = self._split(name)[0].split("/")
        for part in target.split("/"):
            if part == "..":
                if not any(parts):
                    return self.left_out(name)
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        if target.startswith("/"):
            return self.left_out(name)
        return self.link(name, "/".join(filter(None, parts)))

    def left_out(self, name: str) -> None:
        """Note that `name` is neither file nor folder."""
        path = "/".join(self._parts(name))
        self._count(path)
        self._lost.append(path)

    def index(self, archive: str, spool: str) -> Index:
        """The index of all that was taken in, links followed."""
        for name, target in self._links.items():
            member = self._target(target)
            if member is None:
                self.left_out(name)
            else:
                self.file(name, member)
        notes = []
        if self._lost:
            shown = ", ".join(path[:80] for path in self._lost[:_SHOWN]) + (", …" if len(self._lost) > _SHOWN else "")
            notes.append(
                f"left out of {self._archive.name}: {len(self._lost)} links to no file in it, or devices ({shown})"
            )
        return Index((archive, spool), self._folders, notes)

    def _target(self, name: str) -> Member | None:
        for _ in range(_MOST_HOPS):
            folder, _, base = name.strip("/").removeprefix("./").rpartition("/")
            member = self._folders.get(folder, {}).get(base)
            if member is not None or name not in self._links:
                return member
            name = self._links[name]
        return None

    def _split(self, name: str) -> tuple[str, str]:
        """Folder and name of a file."""
        parts = self._parts(name)
        if not parts:
            raise self._refused(name, "has no name")
        return "/".join(parts[:-1]), parts[-1]

    def _parts(self, name: str) -> list[str]:
        if len(name) > LONGEST_NAME:
            raise self._refused(name, f"has a name of more than {LONGEST_NAME} characters")
        if name.startswith("/"):
            raise self._refused(name, "has an absolute name")
        if not name.isprintable() and any(character < " " or character == "\x7f" for character in name):
            raise self._refused(name, "has a name with control characters")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self._refused(name, "leads out of the archive")
        if len(parts) > DEEPEST:
            raise self._refused(name, f"lies more than {DEEPEST} folders deep")
        return parts

    def _names_in(self, folder: str) -> dict[str, Member | None]:
        """Return the names in a folder. Creates it and its parents if they are new."""
        names = self._folders.get(folder)
        if names is None:
            parent, _, base = folder.rpartition("/")
            around = self._names_in(parent)
            if base in around:
                raise self._refused(folder, "is a file and a folder")
            self._count(folder + base)
            around[base] = None
            names = self._folders[folder] = {}
        return names

    def _count(self, kept: str) -> None:
        self._entries += 1
        self._characters += len(kept)
        if self._entries > MOST_ENTRIES:
            raise DumpError(f"{self._archive} has more than {MOST_ENTRIES} files and folders; {UNPACK}")
        if self._characters > MOST_NAME_CHARACTERS:
            raise DumpError(f"{self._archive} has more than {MOST_NAME_CHARACTERS >> 20} MiB of names; {UNPACK}")

    def _refused(self, name: str, what: str) -> DumpError:
        return DumpError(f"{self._archive}: the entry {name[:80]!r} {what}; {UNPACK}")

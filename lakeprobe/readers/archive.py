"""Lets readers work in an archive (tar, zip) as in a folder, through paths like DUMP.tar/step0/rank0/dump.json.

While an archive is `opened`, an index of it says where each member's bytes lie. What is not compressed is read where
it is, so references to tensors point into the archive. What is compressed is unpacked, once, one member behind the
other into one file in the folder for temporary files (TMPDIR), which goes when the archive is closed. Another process
that gets such a path reads the index from beside that file. There is no os.scandir, glob or walk in an archive.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath, PurePosixPath
from tarfile import TarInfo
from typing import IO, Any, BinaryIO, Self, cast

import msgspec
from msgspec import Struct, field

from lakeprobe.errors import DumpError, UsageError
from lakeprobe.readers import archive_tar, archive_zip
from lakeprobe.readers.archive_index import ARCHIVE, DAMAGED, LEFT_OUT, SPOOL, UNPACK, Index, Member, Members
from lakeprobe.readers.dump import TENSOR_FOLDER
from lakeprobe.system.files import absolute, kind_of, leads_out, open_regular
from lakeprobe.system.part_of_file import PartOfFile
from lakeprobe.system.storage import RemotePath, is_copy
from lakeprobe.system.window import PathInFile, Window

MOST_UNPACKED_RATIO = 200
"""The maximum number of unpacked bytes per byte of the archive. Text packs to a tenth, only zeros to a thousandth."""
ALWAYS_UNPACKED = 1 << 30
"""Bytes that may be unpacked at any ratio, because they do no harm."""
_NO_TENSORS = frozenset({".json", ".csv", ".pkl", ".txt", ".log", ".yaml", ".yml", ".xlsx", ".md"})
"""Suffixes of members that may be unpacked even if tensors stay in place."""
_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tbz2", ".txz", ".tar", ".zip")
_INDEX_FILE, _SPOOL_FILE = "index", "members"
_STEP = 1 << 20


def is_archive(path: Path) -> bool:
    """Return whether the file at `path` is a tar or zip, by its first bytes. A document or tensor in a zip is not.

    Raises DumpError if it cannot be read.
    """
    try:
        with open_regular(path) as file:
            start = file.read(archive_tar.BLOCK)
            if start.startswith(archive_zip.MAGIC):
                return not _is_document(path)
    except OSError as error:
        raise DumpError(f"{path} cannot be read: {error.strerror}") from error
    if archive_tar.is_header(start):
        return True
    unpacker = _unpacker(start)
    if unpacker is None:
        return False
    with unpacker(path) as unpacked:
        try:
            return archive_tar.is_header(_Unpacked(unpacked, path, _STEP).read(archive_tar.BLOCK))
        except DumpError:
            return path.name.lower().endswith(_SUFFIXES)


def stem(name: str) -> str:
    """Return the name of an archive without .tar.gz, .zip and the like. Other names are unchanged."""
    suffix = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)] or name


@contextmanager
def opened(path: Path, tensors: str = "copy") -> Iterator[Path]:
    """The top folder of the archive at `path`, which can be read until the context ends.

    `tensors` is what becomes of tensors: with `none`, msprobe's tensor files are not unpacked and cannot be opened;
    with `link`, no tensor file may be compressed (UsageError). Raises DumpError for an archive that is damaged or
    refused.
    """
    from tempfile import TemporaryDirectory

    archive = absolute(path)
    with TemporaryDirectory(prefix="lakeprobe-") as folder:
        try:
            index = _indexed(archive, Path(folder) / _SPOOL_FILE, tensors)
            (Path(folder) / _INDEX_FILE).write_bytes(msgspec.msgpack.encode(index))
        except OSError as error:
            raise DumpError(
                f"{archive} cannot be read or unpacked into {folder}: {error.strerror or error}; "
                "TMPDIR may name another folder to unpack into"
            ) from error
        before = _mounts.get(str(archive))
        mounted = _mount(str(archive), folder)
        try:
            yield ArchivePath(archive)
        finally:
            _mounts.pop(str(archive))
            if before is not None:
                _mounts[str(archive)] = before
            mounted.close()


def notes(path: Path) -> tuple[str, ...]:
    """Return notes on the members that the archive of `path` lacks. Empty if `path` is in no archive."""
    mounted = path.mounted() if isinstance(path, ArchivePath) else None
    return tuple(mounted.index.notes) if mounted else ()


def is_temporary(file: str) -> bool:
    """Return whether `file`, of a reference to a tensor, is removed when its archive is closed or its unit was read."""
    return is_copy(file) or any(file == mounted.index.files[SPOOL] for mounted in _mounts.values())


class Names(Struct, frozen=True):
    """Return the content of a folder: files, folders, which folders are links, and why others are left out."""

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    linked: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)


def names_in(folder: Path, root: Path) -> Names:
    """The names in `folder`, in an archive or not. Links may lead anywhere in the folder `root`. Raises OSError."""
    names = Names()
    if isinstance(folder, ArchivePath):
        for name, member in folder.names().items():
            (names.folders if member is None else names.files).append(name)
        return names
    if isinstance(folder, RemotePath):
        for name, is_folder in folder.names().items():
            (names.folders if is_folder else names.files).append(name)
        return names
    with os.scandir(folder) as entries:
        for entry in entries:
            _sort_in(entry, names, root)
    return names


def _sort_in(entry: os.DirEntry[str], names: Names, root: Path) -> None:
    """Add `entry` to the files or folders in `names`. A dangling link counts as a file: opening it raises an error."""
    is_link = entry.is_symlink()
    if is_link and leads_out(entry.path, root):
        names.left_out[entry.name] = f"it is a link that leads out of {root}"
    elif entry.is_dir():
        names.folders.append(entry.name)
        if is_link:
            names.linked.add(entry.name)
    elif entry.is_file() or (is_link and not Path(entry.path).exists()):
        names.files.append(entry.name)
    else:
        names.left_out[entry.name] = f"it is {kind_of(entry.stat().st_mode)}, not a regular file"


# ---- paths ------------------------------------------------------------------------------------------------


class _Mounted(Struct, frozen=True):
    """An archive that can be read: its index, the folder of the index, and descriptors of the index's files."""

    index: Index
    folder: str
    descriptors: tuple[int, ...]

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


_mounts: dict[str, _Mounted] = {}
"""The archives that are open in this process, by path. Paths find theirs here, since pathlib makes them of texts."""


def _mount(archive: str, folder: str) -> _Mounted:
    """Open the archive whose index is in `folder`, unless this process has opened it."""
    mounted = _mounts.get(archive)
    if mounted is None or mounted.folder != folder:
        index = msgspec.msgpack.decode((Path(folder) / _INDEX_FILE).read_bytes(), type=Index)
        descriptors = [os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)) for file in index.files]
        mounted = _mounts[archive] = _Mounted(index, folder, tuple(descriptors))
    return mounted


def _unpickled(path: str, archive: str, folder: str) -> ArchivePath:
    _mount(archive, folder)
    return ArchivePath(path)


class ArchivePath(PosixPath, PathInFile):
    """A path in an open archive. Paths in other archives do not exist."""

    __slots__ = ()

    def mounted(self) -> _Mounted | None:
        """Return the archive that contains the path."""
        archive = self._archive()
        return None if archive is None else _mounts[archive]

    def _archive(self) -> str | None:
        text = str(self)
        for archive in _mounts:
            if text.startswith(archive) and text[len(archive) : len(archive) + 1] in ("", os.sep):
                return archive
        return None

    def _entry(self) -> tuple[_Mounted, str, Member | None]:
        """The archive, the path in it, and the file that is there or None for a folder. Raises FileNotFoundError."""
        archive = self._archive()
        if archive is not None:
            name = str(self)[len(archive) + 1 :].replace(os.sep, "/")
            folders = _mounts[archive].index.folders
            if name in folders:
                return _mounts[archive], name, None
            parent, _, base = name.rpartition("/")
            member = folders.get(parent, {}).get(base)
            if member is not None:
                return _mounts[archive], name, member
        raise self._error(FileNotFoundError, errno.ENOENT)

    def _error(self, kind: type[OSError], number: int) -> OSError:
        return kind(number, os.strerror(number), str(self))

    def names(self) -> dict[str, Member | None]:
        """Return the members of the folder by name; None for a folder."""
        mounted, name, member = self._entry()
        if member is not None:
            raise self._error(NotADirectoryError, errno.ENOTDIR)
        return mounted.index.folders[name]

    def _place(self) -> tuple[_Mounted, Member]:
        mounted, _, member = self._entry()
        if member is None:
            raise self._error(IsADirectoryError, errno.EISDIR)
        if member.file == LEFT_OUT:
            raise FileNotFoundError(errno.ENOENT, "it was not unpacked, since no tensors are wanted", str(self))
        return mounted, member

    def window(self) -> Window:
        """Return the place of the file's bytes. Raises OSError."""
        mounted, member = self._place()
        return Window(mounted.index.files[member.file], member.offset, member.length)

    def open(  # type: ignore[override]  # pathlib has an overload for each kind of file
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """The file, to read from."""
        if mode not in ("r", "rt", "rb"):
            raise self._error(OSError, errno.EROFS)
        mounted, member = self._place()
        raw = PartOfFile(mounted.descriptors[member.file], member.offset, member.length, str(self))
        if mode == "rb":
            return cast(BinaryIO, raw if buffering == 0 else io.BufferedReader(raw))
        return io.TextIOWrapper(io.BufferedReader(raw), encoding, errors, newline)

    def iterdir(self) -> Generator[Self, None, None]:
        """The paths in the folder."""
        for name in self.names():
            yield self / name

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file or folder."""
        return self._is(lambda member: True)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file."""
        return self._is(lambda member: member is not None)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a folder."""
        return self._is(lambda member: member is None)

    def _is(self, kind: Callable[[Member | None], bool]) -> bool:
        try:
            return kind(self._entry()[2])
        except FileNotFoundError:
            return False

    def is_symlink(self) -> bool:
        """Links were followed when the archive was opened."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return kind, length and time of change. All other fields are 0."""
        _, _, member = self._entry()
        if member is None:
            return os.stat_result((stat.S_IFDIR | 0o500, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        seconds = member.modified // 10**9
        exact = {"st_mtime": member.modified / 1e9, "st_mtime_ns": member.modified}
        return os.stat_result((stat.S_IFREG | 0o400, 0, 0, 1, 0, 0, member.length, 0, seconds, 0), exact)

    def lstat(self) -> os.stat_result:
        """The same as `stat`."""
        return self.stat()

    def __reduce__(self) -> tuple[Any, ...]:
        archive = self._archive()
        if archive is None:
            return ArchivePath, (str(self),)
        return _unpickled, (str(self), archive, _mounts[archive].folder)


# ---- reading archives -------------------------------------------------------------------------------------


def _indexed(archive: Path, spool: Path, tensors: str) -> Index:
    """Return the index of an archive. Compressed members have been unpacked into the file `spool`."""
    members = Members(archive)
    with open_regular(archive) as file, spool.open("wb") as unpacked:
        start = file.read(archive_tar.BLOCK)
        if start.startswith(archive_zip.MAGIC):
            _take_zip(members, _Spool(unpacked, archive, tensors))
        elif unpacker := _unpacker(start):
            _take_packed_tar(unpacker, members, _Spool(unpacked, archive, tensors))
        else:
            file.seek(0)
            _take_tar(file, archive, members, _where_it_is)
    return members.index(str(archive), str(spool))


class _Spool:
    """The file that members are unpacked into, one behind the other, and what may be unpacked."""

    def __init__(self, file: IO[bytes], archive: Path, tensors: str) -> None:
        self._file = file
        self._tensors = tensors
        self._end = 0
        self.archive = archive
        self.limit = max(ALWAYS_UNPACKED, MOST_UNPACKED_RATIO * archive.stat().st_size)

    def take(self, name: str, size: int, modified: int, blocks: Iterator[bytes]) -> Member:
        """Unpack a member, whose bytes are `blocks`, unless it is left out.

        msprobe's folder of tensor files has nothing else, so it is left out if tensors are not wanted.
        """
        path = PurePosixPath(name)
        if self._tensors == "none" and path.parent.name == TENSOR_FOLDER:
            return Member(LEFT_OUT, 0, size, modified)
        if self._tensors == "link" and path.suffix not in _NO_TENSORS:
            raise UsageError(
                f"{self.archive}: {name[:80]!r} is compressed, so it cannot be linked to; "
                "unpack the archive and give the folder, or use --tensors copy"
            )
        self._file.writelines(blocks)
        member = Member(SPOOL, self._end, size, modified)
        self._end += size
        return member


def _take_tar(stream: archive_tar.Stream, archive: Path, members: Members, place: Callable[[TarInfo], Member]) -> None:
    for entry in archive_tar.entries(stream, archive):
        if entry.isreg():
            members.file(entry.name, place(entry))
        elif entry.isdir():
            members.folder(entry.name)
        elif entry.islnk():
            members.link(entry.name, entry.linkname)
        elif entry.issym():
            members.symbolic_link(entry.name, entry.linkname)
        else:
            members.left_out(entry.name)


def _where_it_is(entry: TarInfo) -> Member:
    return Member(ARCHIVE, entry.offset_data, entry.size, archive_tar.modified(entry))


def _take_packed_tar(unpacker: Callable[[Path], IO[bytes]], members: Members, spool: _Spool) -> None:
    with unpacker(spool.archive) as file:
        stream = _Unpacked(file, spool.archive, spool.limit)

        def unpacked(entry: TarInfo) -> Member:
            return spool.take(entry.name, entry.size, archive_tar.modified(entry), stream.blocks(entry.size))

        _take_tar(stream, spool.archive, members, unpacked)


def _take_zip(members: Members, spool: _Spool) -> None:
    with archive_zip.opened(spool.archive) as packed:
        if sum(info.file_size for info in packed.infolist() if info.compress_type) > spool.limit:
            raise _too_large(spool.archive, spool.limit)
        for entry in archive_zip.entries(packed, spool.archive):
            size, modified = entry.info.file_size, archive_zip.modified(entry.info)
            if entry.name.endswith("/"):
                members.folder(entry.name)
            elif archive_zip.is_link(entry.info):
                members.left_out(entry.name)
            elif entry.info.compress_type:
                blocks = archive_zip.unpacked(packed, entry, spool.archive)
                members.file(entry.name, spool.take(entry.name, size, modified, blocks))
            else:
                members.file(entry.name, Member(ARCHIVE, entry.offset, size, modified))


class _Unpacked:
    """The unpacked bytes of a compressed file, read forwards only, up to a limit."""

    def __init__(self, file: IO[bytes], archive: Path, limit: int) -> None:
        self._file, self._archive, self._limit = file, archive, limit
        self._position = 0

    def read(self, size: int, /) -> bytes:
        from lzma import LZMAError

        try:
            data = self._file.read(size)
        except (EOFError, LZMAError, MemoryError, OSError, zlib.error) as error:
            raise DumpError(f"{self._archive} cannot be unpacked ({error}); {DAMAGED}") from error
        self._position += len(data)
        if self._position > self._limit:
            raise _too_large(self._archive, self._limit)
        return data

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, /) -> None:
        for _ in self.blocks(position - self._position):
            pass

    def blocks(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes. Raises DumpError if there are fewer."""
        end = self._position + size
        while self._position < end:
            block = self.read(min(_STEP, end - self._position))
            if not block:
                raise DumpError(f"{self._archive} ends inside a file in it; {DAMAGED}")
            yield block


def _too_large(archive: Path, limit: int) -> DumpError:
    return DumpError(
        f"{archive} unpacks to more than {limit >> 30} GiB, {MOST_UNPACKED_RATIO} times its own size or more; {UNPACK}"
    )


def _unpacker(start: bytes) -> Callable[[Path], IO[bytes]] | None:
    """Return the function that opens a compressed file that begins with `start`."""
    import bz2
    import gzip
    import lzma

    unpackers: dict[bytes, Callable[[Path], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
    return next((unpacker for magic, unpacker in unpackers.items() if start.startswith(magic)), None)


def _is_document(path: Path) -> bool:
    """Return whether a zip is one file of another program: an Office document, or a tensor as torch.save writes it."""
    try:
        with archive_zip.opened(path) as packed:
            names = packed.namelist()
    except DumpError:
        return False
    top = next(iter(names), "").partition("/")[0]
    return "[Content_Types].xml" in names or {f"{top}/data.pkl", f"{top}/version"} <= set(names)

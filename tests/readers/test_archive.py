"""Archives against the folders that were packed, and whatever a damaged or hostile archive could do."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import multiprocessing
import os
import pickle
import shutil
import struct
import subprocess
import tarfile
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import calls_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from lakeprobe.errors import DumpError, LakeprobeError, TensorError, UsageError
from lakeprobe.readers import archive, archive_index, archive_tar, dump
from lakeprobe.readers.source import Listing, Source
from lakeprobe.tensors import TensorReference, content_hash, open_tensor, read_tensor

DATA = Path(__file__).resolve().parents[1] / "data"
DUMPS = DATA / "dumps"
STEP = "run/step0/rank0"


# ---- packing ----------------------------------------------------------------------------------------------


def tar(folder: Path, file: Path, mode: str = "w", format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(file, mode, format=format) as packed:  # type: ignore[call-overload]
        packed.add(folder, folder.name)
    return file


def zipped(folder: Path, file: Path, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file, "w", method) as packed:
        for path in sorted(folder.rglob("*")):
            packed.write(path, path.relative_to(folder.parent))
    return file


PACKERS: dict[str, Callable[[Path, Path], Path]] = {
    "pax.tar": tar,
    "gnu.tar": lambda folder, file: tar(folder, file, format=tarfile.GNU_FORMAT),
    "ustar.tar": lambda folder, file: tar(folder, file, format=tarfile.USTAR_FORMAT),
    "x.tar.gz": lambda folder, file: tar(folder, file, "w:gz"),
    "x.tar.bz2": lambda folder, file: tar(folder, file, "w:bz2"),
    "x.tar.xz": lambda folder, file: tar(folder, file, "w:xz"),
    "stored.zip": zipped,
    "deflated.zip": lambda folder, file: zipped(folder, file, zipfile.ZIP_DEFLATED),
}
ADDRESSED = ["pax.tar", "gnu.tar", "ustar.tar", "stored.zip"]
each_kind = pytest.mark.parametrize("kind", PACKERS)


def pack(kind: str, folder: Path, into: Path) -> Path:
    return PACKERS[kind](folder, into / kind)


def tar_of(file: Path, *members: tuple[tarfile.TarInfo, bytes], format: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(file, "w", format=format) as packed:
        for info, data in members:
            info.size = info.size or len(data)
            packed.addfile(info, io.BytesIO(data))
    return file


def member(name: str, data: bytes = b"", type: bytes = tarfile.REGTYPE, target: str = "") -> Any:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = type, target
    return info, data


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder `run` with a dump and the tensor files of tests/data/tensors."""
    folder = tmp_path / "packed" / "run"
    shutil.copytree(DUMPS / "odd_keys_xor" / "step0" / "proc7125", folder / "step0" / "rank0")
    shutil.copytree(DATA / "tensors", folder / "step0" / "rank0" / dump.TENSOR_FOLDER)
    return folder


def paths_under(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        yield path
        if path.is_dir():
            yield from paths_under(path)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every folder with None."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in paths_under(folder)
    }


def sources(top: Path) -> list[Source]:
    found = []
    for folder in [top, *paths_under(top)]:
        if folder.is_dir():
            names = archive.names_in(folder, folder)
            files, folders = names.files, names.folders
            found += dump.find(Listing(folder, sorted(files), sorted(folders), top))
    return sorted(found, key=lambda source: source.folder)


def rows(source: Source) -> list[tuple[str, Any]]:
    """All tables of a source, and what it said of itself."""
    found: list[tuple[str, Any]] = []
    summary = dump.read(
        source, lambda name: (None, None), lambda table, batch: found.append((table, batch.to_pylist()))
    )
    return [*found, ("summary", [getattr(summary, slot) for slot in summary.__slots__])]


def refused(file: Path, message: str, kind: type[Exception] = DumpError, tensors: str = "copy") -> None:
    with pytest.raises(kind, match=message) as caught, archive.opened(file, tensors):
        pass
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not left_behind()


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for temporary files of each test's own, so that what is left behind is its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def left_behind() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("lakeprobe-")]


# ---- the same as the folder -------------------------------------------------------------------------------


@each_kind
def test_every_file_is_there_with_its_bytes(tmp_path: Path, run: Path, kind: str) -> None:
    (run / "empty").mkdir()
    (run / "ends at a block").write_bytes(b"x" * 1024)
    (run / "nothing.json").touch()
    file = pack(kind, run, tmp_path)
    assert archive.is_archive(file)
    with archive.opened(file) as top:
        assert contents(top) == contents(run.parent)
        assert str(top) == str(file)
        for path in paths_under(run.parent):
            inside = top / path.relative_to(run.parent)
            assert (inside.is_file(), inside.is_dir(), inside.exists()) == (path.is_file(), path.is_dir(), True)
            if path.is_file():
                assert inside.stat().st_size == path.stat().st_size
                assert abs(inside.stat().st_mtime - path.stat().st_mtime) < 2
    assert not left_behind()


@pytest.mark.sampled
@each_kind
@pytest.mark.parametrize("dumps", ["odd_keys_xor", "old_1.0.4", "p2p", "cross"])
def test_dumps_give_the_same_tables(tmp_path: Path, kind: str, dumps: str) -> None:
    plain = sources(DUMPS / dumps)
    with archive.opened(pack(kind, DUMPS / dumps, tmp_path)) as top:
        packed = sources(top)
        assert len(packed) == len(plain) > 0
        for one, other in zip(plain, packed, strict=True):
            assert other.folder.relative_to(top) == one.folder.relative_to(DUMPS)
            assert (one.step, one.rank, one.process) == (other.step, other.rank, other.process)
            assert rows(one) == rows(other)


def tensor(path: Path) -> TensorReference | str:
    """The tensor in a file, or what is wrong with it."""
    try:
        return read_tensor(path)
    except TensorError as error:
        return str(error)


@each_kind
def test_tensors_are_the_same(tmp_path: Path, run: Path, kind: str) -> None:
    with archive.opened(pack(kind, run, tmp_path)) as top:
        for path in sorted((run.parent / STEP / dump.TENSOR_FOLDER).glob("*.[np][pt]*")):
            inside = top / path.relative_to(run.parent)
            reference, found = tensor(path), tensor(inside)
            if isinstance(reference, str) or isinstance(found, str):
                assert found == str(reference).replace(str(path), str(inside))
                continue
            assert content_hash(found) == content_hash(reference)
            assert open_tensor(found).tobytes() == open_tensor(reference).tobytes()
            assert (found.file == str(top)) == (kind in ADDRESSED) == (not archive.is_temporary(found.file))


@pytest.mark.parametrize("kind", ADDRESSED)
def test_links_into_a_plain_archive_outlive_it(tmp_path: Path, run: Path, kind: str) -> None:
    file = pack(kind, run, tmp_path)
    names = ["dtype_float32.npy", "dtype_float32.pt", "offset.pt", "transposed.npy"]
    with archive.opened(file, "link") as top:
        references = [read_tensor(top / STEP / dump.TENSOR_FOLDER / name) for name in names]
        (spool,) = Path(tempfile.gettempdir()).glob("lakeprobe-*/members")
        assert spool.stat().st_size == 0
    for name, reference in zip(names, references, strict=True):
        assert reference.file == str(file)
        expected = open_tensor(read_tensor(run / "step0" / "rank0" / dump.TENSOR_FOLDER / name))
        np.testing.assert_array_equal(open_tensor(reference), expected)


@pytest.mark.parametrize("kind", [kind for kind in PACKERS if kind not in ADDRESSED])
def test_compressed_tensors_cannot_be_linked_to(tmp_path: Path, run: Path, kind: str) -> None:
    refused(pack(kind, run, tmp_path), "compressed.*--tensors copy", UsageError, "link")
    shutil.rmtree(run / "step0" / "rank0" / dump.TENSOR_FOLDER)
    with archive.opened(pack(kind, run, tmp_path), "link") as top:
        assert contents(top) == contents(run.parent)


@pytest.mark.parametrize("kind", [kind for kind in PACKERS if kind not in ADDRESSED])
def test_tensors_that_nobody_wants_are_not_unpacked(tmp_path: Path, run: Path, kind: str) -> None:
    with archive.opened(pack(kind, run, tmp_path), "none") as top:
        (spool,) = Path(tempfile.gettempdir()).glob("lakeprobe-*/members")
        kept = [path for path in paths_under(run) if path.is_file() and path.parent.name != dump.TENSOR_FOLDER]
        assert spool.stat().st_size == sum(path.stat().st_size for path in kept)
        tensor = top / STEP / dump.TENSOR_FOLDER / "dtype_float32.npy"
        assert tensor.is_file()
        assert tensor.stat().st_size == (run.parent / tensor.relative_to(top)).stat().st_size
        with pytest.raises(TensorError, match="not unpacked"):
            read_tensor(tensor)
        assert rows(sources(top)[0]) == rows(sources(run.parent)[0])


def test_a_cut_tensor_does_not_read_its_neighbour(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, np.zeros(8, np.float32))
    cut = whole.getvalue()[:-4]
    file = tar_of(tmp_path / "x.tar", member("a.npy", cut), member("b.npy", whole.getvalue()))
    with archive.opened(file) as top:
        with pytest.raises(TensorError, match="truncated"):
            read_tensor(top / "a.npy")
        assert open_tensor(read_tensor(top / "b.npy")).sum() == 0
    for name in ("dtype_float64.pt", "dtype_float64.npy"):
        data = (DATA / "tensors" / name).read_bytes()
        for length in range(0, len(data), 16):
            file = tar_of(tmp_path / "x.tar", member(name, data[:length]), member("b", data))
            with archive.opened(file) as top, pytest.raises(TensorError):
                read_tensor(top / name)


# ---- paths ------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """The top of an open archive with the files a.json and f/g/b.json."""
    file = tar_of(tmp_path / "small.tar", member("./a.json", b"{}\n"), member("./f//g/b.json", b"0123456789"))
    with archive.opened(file) as top:
        yield top


def test_a_path_is_a_path(small: Path) -> None:
    path = small / "f" / "g" / "b.json"
    assert path.parent.parent.parent == small == Path(str(small))
    assert [part.name for part in sorted(small.iterdir())] == ["a.json", "f"]
    assert path.relative_to(small).parts == ("f", "g", "b.json")
    assert path.absolute() == path
    assert path.is_relative_to(small)
    assert (path.name, path.stem, path.suffix, path.with_name("a").exists()) == ("b.json", "b", ".json", False)
    assert {path, Path(path)} == {path}
    assert path.with_suffix(".x").parent.is_dir()
    inside, around = archive.names_in(small, small), archive.names_in(Path(small.parent), Path(small.parent))
    assert (inside.files, inside.folders) == (["a.json"], ["f"])
    assert (around.files, around.folders) == (["small.tar"], [])


def test_a_file_is_a_file(small: Path) -> None:
    path = small / "f" / "g" / "b.json"
    assert (path.read_bytes(), path.read_text(), (small / "a.json").read_text()) == (
        b"0123456789",
        "0123456789",
        "{}\n",
    )
    with path.open("rb") as file:
        assert (file.read(3), file.tell(), file.seek(-2, 2), file.read(), file.read()) == (b"012", 3, 8, b"89", b"")
        assert (file.seek(40), file.read(1), file.seek(0), file.readline()) == (40, b"", 0, b"0123456789")
    with path.open("rb", buffering=0) as file:
        assert (file.read(4), file.seek(2, 1), file.read(), file.read(5)) == (b"0123", 6, b"6789", b"")
    with path.open(newline="") as file:
        assert list(file) == ["0123456789"]


def test_what_is_not_there(small: Path) -> None:
    for path in (small / "x", small / "a.json" / "x", small.parent / "other", small / "f" / ".." / "a.json",
                 small / "/etc/passwd", small.with_name("small.tarx")):  # fmt: skip
        assert (path.exists(), path.is_file(), path.is_dir(), path.is_symlink()) == (False,) * 4
        for use in (path.open, path.read_bytes, path.stat, path.lstat, lambda path=path: list(path.iterdir())):
            with pytest.raises(FileNotFoundError) as caught:
                use()
            assert caught.value.filename == str(path)
    with pytest.raises(IsADirectoryError):
        (small / "f").open()
    with pytest.raises(NotADirectoryError):
        list((small / "a.json").iterdir())
    with pytest.raises(OSError, match="Read-only"):
        (small / "a.json").open("w")
    with pytest.raises(NotADirectoryError):
        os.stat(small / "a.json")


def test_nothing_is_there_once_it_is_closed(tmp_path: Path) -> None:
    file = tar_of(tmp_path / "x.tar", member("a", b"1"))
    with archive.opened(file) as top:
        assert (top / "a").read_bytes() == b"1"
        assert Path("/proc/self/fd").exists()
        descriptors = len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) == descriptors - 2
    assert not (top / "a").exists()


def read_there(path: Path) -> tuple[bytes, str]:
    return path.read_bytes(), type(path).__name__


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["gnu.tar", "x.tar.gz"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_another_process_can_read(tmp_path: Path, run: Path, kind: str, method: str) -> None:
    file = pack(kind, run, tmp_path)
    with archive.opened(file) as top, multiprocessing.get_context(method).Pool(1) as pool:
        path = top / STEP / "dump.json"
        assert pickle.loads(pickle.dumps(path)) == path
        expected = (run.parent / STEP / "dump.json").read_bytes()
        assert pool.map(read_there, [path, path]) == [(expected, "ArchivePath")] * 2


def test_two_archives_at_once(tmp_path: Path) -> None:
    one = tar_of(tmp_path / "x.tar", member("a", b"1"))
    other = tar_of(tmp_path / "x.tar2", member("a", b"2"))
    with archive.opened(one) as here, archive.opened(other) as there:
        assert ((here / "a").read_bytes(), (there / "a").read_bytes()) == (b"1", b"2")


def test_an_archive_that_is_open_twice(tmp_path: Path) -> None:
    file = tar_of(tmp_path / "x.tar", member("a", b"1"))
    with archive.opened(file) as one:
        with archive.opened(file) as other:
            assert (one / "a").read_bytes() == (other / "a").read_bytes() == b"1"
        assert (one / "a").read_bytes() == b"1"
    assert not (one / "a").exists()


def test_stem() -> None:
    names = ["a.tar", "a.tar.gz", "a.TGZ", "a.b.zip", "a.tar.xz", "step0", ".tar", "a.json"]
    assert [archive.stem(name) for name in names] == ["a", "a", "a", "a.b", "a", "step0", ".tar", "a.json"]


# ---- what is an archive -----------------------------------------------------------------------------------


def test_what_is_no_archive(tmp_path: Path) -> None:
    files = {
        "dump.json": b'{"data": {}}',
        "empty": b"",
        "zeros.bin": bytes(4096),
        "text.gz": gzip.compress(b"text" * 400),
        "x.npy": (DATA / "tensors" / "dtype_int8.npy").read_bytes(),
        "gzip.bin": b"\x1f\x8b" + bytes(600),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert not archive.is_archive(tmp_path / name), name
    assert not any(archive.is_archive(path) for path in (DATA / "tensors").iterdir())
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(tmp_path / "x.xlsx")
    assert not archive.is_archive(tmp_path / "x.xlsx")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for use in (archive.is_archive, lambda path: archive.opened(path).__enter__()):
        with pytest.raises(DumpError, match=r"x\.tar cannot be read"):
            use(tmp_path / "x.tar")


@each_kind
def test_suffixes_do_not_matter(tmp_path: Path, run: Path, kind: str) -> None:
    file = pack(kind, run, tmp_path).rename(tmp_path / "dump")
    assert archive.is_archive(file)
    with archive.opened(file) as top:
        assert contents(top) == contents(run.parent)


# ---- what tar has -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_links(tmp_path: Path, format: int) -> None:
    long = "/".join(["folder" * 8] * 5) + "/" + "x" * 200 + "ü.npy"
    file = tar_of(
        tmp_path / "x.tar",
        member(long, b"long"),
        member("hard", type=tarfile.LNKTYPE, target=long),
        member("f/soft", type=tarfile.SYMTYPE, target="../later"),
        member("twice", type=tarfile.SYMTYPE, target="f/soft"),
        member("later", b"later"),
        format=format,
    )
    with archive.opened(file) as top:
        assert (top / long).read_bytes() == (top / "hard").read_bytes() == b"long"
        assert (top / "f" / "soft").read_bytes() == (top / "twice").read_bytes() == b"later"
        assert archive.notes(top) == ()


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    file = tar_of(
        tmp_path / "x.tar",
        member("a", b"1"),
        member("absolute", type=tarfile.SYMTYPE, target=str(tmp_path / "secret")),
        member("f/outside", type=tarfile.SYMTYPE, target="../../secret"),
        member("nowhere", type=tarfile.LNKTYPE, target="missing"),
        member("one", type=tarfile.SYMTYPE, target="other"),
        member("other", type=tarfile.SYMTYPE, target="one"),
        member("folder", type=tarfile.SYMTYPE, target="f"),
        member("pipe", type=tarfile.FIFOTYPE),
        member("f/b", b"2"),
    )
    with archive.opened(file) as top:
        assert contents(top) == {"a": b"1", "f": None, "f/b": b"2"}
        (note,) = archive.notes(top)
        assert "7 links to no file in it, or devices" in note
        assert archive.notes(top / "f") == archive.notes(top)
    assert archive.notes(top) == archive.notes(tmp_path) == ()


def test_a_time_of_pax_is_exact(tmp_path: Path) -> None:
    info, data = member("a", b"1")
    info.mtime = 1700000000.25
    with archive.opened(tar_of(tmp_path / "x.tar", (info, data), format=tarfile.PAX_FORMAT)) as top:
        assert (top / "a").stat().st_mtime_ns == 1700000000250000000


@pytest.mark.skipif(shutil.which("tar") is None, reason="no tar command")
@pytest.mark.parametrize("format", ["gnu", "posix", "ustar", "oldgnu", "v7"])
def test_what_the_tar_command_writes(tmp_path: Path, run: Path, format: str) -> None:
    tar_command(run, tmp_path / "x.tar", f"--format={format}")
    with archive.opened(tmp_path / "x.tar") as top:
        assert contents(top) == contents(run.parent)


@pytest.mark.skipif(shutil.which("tar") is None, reason="no tar command")
@pytest.mark.parametrize("format", ["gnu", "posix"])
def test_sparse_files_are_refused(tmp_path: Path, run: Path, format: str) -> None:
    with (run / "holes.npy").open("wb") as file:
        file.write(b"x" * 4096)
        file.seek(1 << 20)
        file.write(b"x" * 4096)
    tar_command(run, tmp_path / "x.tar", f"--format={format}", "--sparse")
    with tarfile.open(tmp_path / "x.tar") as packed:
        if not packed.getmember("run/holes.npy").issparse():
            pytest.skip("the file system keeps no holes")
    refused(tmp_path / "x.tar", "sparse file")


@pytest.mark.skipif(shutil.which("tar") is None, reason="no tar command")
def test_incremental_backups_are_refused(tmp_path: Path, run: Path) -> None:
    """tarfile would take the times of their entries for a folder."""
    file = tmp_path / "x.tar"
    tar_command(run, file, f"--listed-incremental={tmp_path / 'snapshot'}")
    refused(file, "incremental")
    subprocess.run(["tar", "-cf", file, "--incremental", "-C", run / "step0" / "rank0", "dump.json"], check=True)
    with tarfile.open(file) as packed:
        assert packed.getnames() != ["dump.json"]
    refused(file, "incremental")


def tar_command(folder: Path, file: Path, *options: str) -> None:
    subprocess.run(["tar", "-cf", file, *options, "-C", folder.parent, folder.name], check=True)


def test_sizes_beyond_octal(tmp_path: Path) -> None:
    header = tarfile.TarInfo("big")
    header.size = 9 << 30
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with (tmp_path / "x.tar").open("wb") as file:
            file.write(header.tobuf(format))
            file.seek(header.size, 1)
            file.write(b"\0" * 1024)
        with archive.opened(tmp_path / "x.tar") as top:
            assert (top / "big").stat().st_size == 9 << 30


# ---- what zip has -----------------------------------------------------------------------------------------


def zip_of(file: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file, "w", method) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return file


def test_zip64_comments_and_links(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        with packed.open("a.json", "w", force_zip64=True) as file:
            file.write(b"{}")
        link = zipfile.ZipInfo("link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
        packed.comment = b"a comment"
    with archive.opened(tmp_path / "x.zip") as top:
        assert contents(top) == {"a.json": b"{}"}
        assert "links" in archive.notes(top)[0]


def test_a_zip_with_a_comment_that_looks_like_an_end_is_refused(tmp_path: Path) -> None:
    for comment in (b"PK\x05\x06 is no end", b"PK\x05\x06" + bytes(18)):
        with zipfile.ZipFile(zip_of(tmp_path / "x.zip", {"a": b"1"}), "a") as packed:
            packed.comment = comment
        refused(tmp_path / "x.zip", "damaged")


def test_a_zip64_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    members = {"a": b"0123456789ab", "f/b": b"x" * 100, "ü": b""}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = zip_of(tmp_path / "x.zip", members, method)
        assert b"PK\x06\x06" in file.read_bytes()
        with archive.opened(file) as top:
            assert contents(top) == {**members, "f": None}


def test_a_stream_of_a_zip(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise io.UnsupportedOperation

        tell = seek

    pipe = Pipe()
    zip_of(pipe, {"a": b"1", "b": b"22"}, zipfile.ZIP_DEFLATED)  # type: ignore[arg-type]
    (tmp_path / "x.zip").write_bytes(pipe.getvalue())
    with archive.opened(tmp_path / "x.zip") as top:
        assert contents(top) == {"a": b"1", "b": b"22"}


def test_zips_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    refused(zip_of(file, {"a": b"1" * 100}, zipfile.ZIP_BZIP2), "method 12")
    file.write_bytes(zip_of(file, {"a": b"1", "b": b"2"}).read_bytes().replace(b"b", b"a"))
    refused(file, "'a' occurs twice")
    data = bytearray(zip_of(file, {"a": b"1"}).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(data)
    refused(file, "encrypted")
    data = bytearray(zip_of(file, {"a": b"1"}).read_bytes())
    data[data.index(b"PK\x05\x06") + 4] = 1
    file.write_bytes(data)
    refused(file, "split")
    data = bytearray(zip_of(file, {"a": b"1" * 400}, zipfile.ZIP_DEFLATED).read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, 9)
    file.write_bytes(data)
    refused(file, "not what the directory says")
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, 400)
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 16, 9)
    file.write_bytes(data)
    refused(file, "not what the directory says")


def test_overlapping_zip_members_are_refused(tmp_path: Path) -> None:
    """As in a bomb whose members share one run of packed bytes."""
    file = zip_of(tmp_path / "x.zip", {"a": b"1" * 100, "b": b"2" * 100})
    data = bytearray(file.read_bytes())
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    struct.pack_into("<L", data, second + 42, 0)
    file.write_bytes(data)
    refused(file, "disagree|overlaps")


def test_a_zip_of_which_only_a_part_is_in_a_directory_is_refused(tmp_path: Path) -> None:
    """zipfile takes the last directory in the file, though it be that of a zip that was packed as a member."""
    file = tmp_path / "x.zip"
    inner = zip_of(file, {"inner": b"1"}).read_bytes()
    data = zip_of(file, {"a.pt": inner, "b": b"2"}).read_bytes()
    with archive.opened(file) as top:
        assert contents(top) == {"a.pt": inner, "b": b"2"}
    end = data.index(inner) + len(inner)
    for place in (end, end + 1):
        file.write_bytes(data[:place])
        assert zipfile.ZipFile(file).namelist() == ["inner"]
        refused(file, "damaged")
    for follows in (inner, data, b"\0"):
        file.write_bytes(data + follows)
        refused(file, "damaged")


def test_a_zip_whose_directory_hides_a_member_is_refused(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "x.zip", {"a": b"1", "b": b"2", "c": b"3"})
    data = bytearray(file.read_bytes())
    places = [place for place in range(len(data)) if data[place : place + 4] == b"PK\x01\x02"]
    struct.pack_into("<H", data, places[1] + 32, places[2] - places[1])  # the second's comment is the third
    struct.pack_into("<H", data, places[0] + 32, 0)
    file.write_bytes(data)
    assert zipfile.ZipFile(file).namelist() == ["a", "b"]
    refused(file, "longer or shorter")


# ---- limits -----------------------------------------------------------------------------------------------

HOSTILE = {
    "/etc/passwd": "absolute",
    "../x": "leads out",
    "a/../../x": "leads out",
    "a/../b": "leads out",
    "/".join("x" * 33): "32 folders deep",
    "x" * 4097: "4096 characters",
    "a\nb": "control characters",
    "./.": "has no name",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(tmp_path: Path, name: str) -> None:
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        refused(tar_of(tmp_path / "x.tar", member(name, b"1"), format=format), HOSTILE[name])
    for type in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        if type != tarfile.FIFOTYPE or name != "./.":
            refused(tar_of(tmp_path / "x.tar", member(name, type=type, target="y")), HOSTILE[name])
    refused(zip_of(tmp_path / "x.zip", {name: b"1"}), HOSTILE[name])


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff.json")
    refused(tar_of(tmp_path / "x.tar", member(name, b"1")), "not UTF-8")


def test_doubles_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    refused(tar_of(file, member("a", b"1"), member("./a", b"2")), "occurs twice")
    refused(tar_of(file, member("a", b"1"), member("a/b", b"2")), "a file and a folder")
    refused(tar_of(file, member("a/b", b"1"), member("a", b"2")), "occurs twice")
    link = member("a", type=tarfile.LNKTYPE, target="b")
    refused(tar_of(file, link, link, member("b", b"2")), "occurs twice")
    refused(tar_of(file, link, member("a", b"1"), member("b", b"2")), "occurs twice")
    with archive.opened(tar_of(file, *[member("a", type=tarfile.DIRTYPE)] * 2, member("a/b", b"2"))) as top:
        assert contents(top) == {"a": None, "a/b": b"2"}


def test_unknown_entries_are_refused(tmp_path: Path) -> None:
    refused(tar_of(tmp_path / "x.tar", member("a", b"1", type=b"M")), "unknown type")


@each_kind
def test_the_number_of_entries(tmp_path: Path, run: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pack(kind, run, tmp_path)
    entries = len(list(paths_under(run.parent)))
    for module in (archive_index, archive.archive_zip):
        monkeypatch.setattr(module, "MOST_ENTRIES", entries)
    with archive.opened(file):
        pass
    for module in (archive_index, archive.archive_zip):
        monkeypatch.setattr(module, "MOST_ENTRIES", entries - 1)
    refused(file, f"more than {entries - 1}")


def test_a_directory_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = zip_of(tmp_path / "x.zip", {"a" * 3000: b"1"})
    monkeypatch.setattr(archive.archive_zip, "LARGEST_DIRECTORY", 3000)
    refused(file, "directory of 3046 bytes")


def test_folders_that_only_names_mention_are_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_index, "MOST_ENTRIES", 100)
    file = tar_of(tmp_path / "x.tar", *(member(f"{i}/" * 30 + "x", b"") for i in range(5)))
    refused(file, "more than 100")


def test_the_length_of_all_names(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_index, "MOST_NAME_CHARACTERS", 500)
    refused(pack("gnu.tar", run, tmp_path), "of names")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_bombs(tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ALWAYS_UNPACKED", 4 << 20)
    zeros = bytes(8 << 20)
    plain = tar_of(tmp_path / "x.tar", member("zeros.npy", zeros)).read_bytes()
    (tmp_path / "x.tar.gz").write_bytes(pack(plain))
    for tensors in ("copy", "none"):
        refused(tmp_path / "x.tar.gz", "unpacks to more than", tensors=tensors)
    (tmp_path / "x.tar.gz").write_bytes(pack(plain[:1024] + bytes(8 << 20)))
    refused(tmp_path / "x.tar.gz", "unpacks to more than")
    with archive.opened(tmp_path / "x.tar") as top:
        assert (top / "zeros.npy").stat().st_size == len(zeros)


def test_zip_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ALWAYS_UNPACKED", 4 << 20)
    file = zip_of(tmp_path / "x.zip", {"zeros.npy": bytes(8 << 20)}, zipfile.ZIP_DEFLATED)
    refused(file, "unpacks to more than")
    data = bytearray(file.read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, 1000)  # a size that is a lie
    file.write_bytes(data)
    refused(file, "not what the directory says")


def test_forged_lengths_cost_no_memory(tmp_path: Path) -> None:
    forged = []
    for type in (b"x", b"g", b"L", b"K", b"0"):
        info = tarfile.TarInfo("a")
        info.type, info.size = type, 1 << 40
        forged.append(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    tracemalloc.start()
    try:
        for data in forged:
            for name, content in (("x.tar", data), ("x.tar.gz", gzip.compress(data))):
                (tmp_path / name).write_bytes(content)
                refused(tmp_path / name, "more than|ends|no sound header")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def pax(type: bytes, data: bytes) -> bytes:
    """A header that says `data` of the next entry, or of all entries."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = type, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data.ljust(-(-len(data) // 512) * 512, b"\0")


def test_headers_of_an_entry_are_limited(tmp_path: Path) -> None:
    """In length, in number, and in the work that they make: tarfile reads any, one inside the other."""
    entry = tar_of(tmp_path / "x.tar", member("a", b"1")).read_bytes()
    for headers in (
        pax(b"x", b"x" * (1 << 17)),
        pax(b"x", b"") * 2000,
        pax(b"x", b"12 comment=\n") * 500,
        pax(b"g", b"1" * 60000),
    ):
        (tmp_path / "x.tar").write_bytes(headers + entry)
        assert calls_of(lambda: refused(tmp_path / "x.tar", "bytes of header|digits")) < 30_000
    (tmp_path / "x.tar").write_bytes(pax(b"x", b"12 comment=\n") + entry)
    with archive.opened(tmp_path / "x.tar") as top:
        assert contents(top) == {"a": b"1"}


@pytest.mark.parametrize("record", [b"10 path=b\n", b"14 linkpath=b\n", b"10 size=0\n"])
def test_what_no_archive_says_of_all_entries(tmp_path: Path, record: bytes) -> None:
    entry = tar_of(tmp_path / "x.tar", member("a", b"1"), member("b", b"2")).read_bytes()
    (tmp_path / "x.tar").write_bytes(pax(b"g", record) + entry)
    refused(tmp_path / "x.tar", "all entries")
    (tmp_path / "x.tar").write_bytes(pax(b"g", b"15 comment=abc\n") + entry)
    with archive.opened(tmp_path / "x.tar") as top:
        assert contents(top) == {"a": b"1", "b": b"2"}


def test_sizes_that_are_none(tmp_path: Path) -> None:
    for size in (-512, -1, 1 << 62, 1 << 80):
        info = tarfile.TarInfo("a")
        info.size = size
        for data in (info.tobuf(tarfile.GNU_FORMAT), info.tobuf(tarfile.PAX_FORMAT)):
            for name, content in (("x.tar", data + bytes(4096)), ("x.tar.gz", gzip.compress(data + bytes(4096)))):
                (tmp_path / name).write_bytes(content)
                refused(tmp_path / name, "damaged")
    entry = tar_of(tmp_path / "x.tar", member("a", b"1")).read_bytes()
    (tmp_path / "x.tar").write_bytes(pax(b"x", b"11 size=ab\n") + entry)
    refused(tmp_path / "x.tar", "size that no file has")


def test_a_full_disk(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_SPOOL_FILE", "missing/members")
    refused(pack("x.tar.gz", run, tmp_path), "TMPDIR")


# ---- damage -----------------------------------------------------------------------------------------------


def small_archive(kind: str, into: Path) -> bytes:
    """An archive with a dump of one op with two tensors, packed without times, so that it is always the same."""
    folder = into / "run"
    tensors = folder / "rank0" / dump.TENSOR_FOLDER
    tensors.mkdir(parents=True, exist_ok=True)
    (folder / "rank0" / "dump.json").write_text('{\n "data": {\n  "Torch.add.0.forward": {}\n }\n}')
    np.save(tensors / "a.npy", np.arange(8, dtype=np.float32))
    shutil.copy(DATA / "tensors" / "dtype_int8.pt", tensors / "b.pt")
    return pack(kind, folder, into).read_bytes()


def read_all(file: Path) -> dict[str, Any]:
    """All that can be read from an archive: bytes of files, hashes of tensors or why there are none."""
    found: dict[str, Any] = {}
    with archive.opened(file) as top:
        for path in paths_under(top):
            if path.is_file():
                found[path.relative_to(top).as_posix()] = path.read_bytes()
            if path.suffix in (".npy", ".pt") and path.is_file():
                try:
                    found[str(path)] = content_hash(read_tensor(path))
                except TensorError as error:
                    found[str(path)] = type(error)
    return found


@each_kind
def test_an_archive_that_is_cut_short_is_refused(tmp_path: Path, kind: str) -> None:
    data = small_archive(kind, tmp_path)
    file = tmp_path / "cut"
    places = {*range(0, len(data) - 1, 512), *range(1, len(data) - 1, 331), *range(max(0, len(data) - 64), len(data))}
    end = len(data)
    if kind.endswith(".tar"):
        end = len(data.rstrip(b"\0"))  # what follows the last member is padding, of which a block is enough
        end = -(-end // 512) * 512 + 512
    for place in sorted(places):
        file.write_bytes(data[:place])
        if place < end:
            refused(file, "damaged")
        else:
            read_all(file)


def test_concatenated_archives_are_refused(tmp_path: Path) -> None:
    file = tar_of(tmp_path / "x.tar", member("a", b"1"))
    file.write_bytes(file.read_bytes() * 2)
    refused(file, "goes on after its end")


ARCHIVES = {}


def mutable(kind: str) -> tuple[Path, bytes]:
    if kind not in ARCHIVES:
        folder = Path(tempfile.mkdtemp(prefix="archives-"))
        ARCHIVES[kind] = folder / "mutated", small_archive(kind, folder)
    return ARCHIVES[kind]


@pytest.fixture(scope="module", autouse=True)
def _remove_mutated() -> Iterator[None]:
    yield
    for file, _ in ARCHIVES.values():
        shutil.rmtree(file.parent)


MUTATION = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "move", "number"]),
    st.integers(0, 1 << 16),
    st.integers(0, 1 << 16),
    st.binary(min_size=1, max_size=8),
)


def mutated(data: bytes, mutations: list[tuple[str, int, int, bytes]]) -> bytes:
    for what, at, length, extra in mutations:
        if not data:
            break
        at %= len(data)
        if what == "flip":
            data = data[:at] + extra + data[at + len(extra) :]
        elif what == "cut":
            data = data[:at] + data[at + length % 600 :]
        elif what == "insert":
            data = data[:at] + extra * (length % 100) + data[at:]
        elif what == "move":
            data = data[:at] + data[length % len(data) :][:512] + data[at:]
        else:
            fixed = bytearray(data)
            block = at // 512 * 512
            if len(fixed) >= block + 512:  # a field of a header that is sound again
                field, width = ((0, 100), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155))[length % 6]
                fixed[block + field : block + field + width] = extra.ljust(width, b"\0")[:width]
                fixed[block + 148 : block + 156] = b" " * 8
                fixed[block + 148 : block + 156] = b"%06o\0 " % sum(fixed[block : block + 512])
            data = bytes(fixed)
    return data


def outcome(file: Path) -> dict[str, Any] | str:
    """All that can be read from an archive, or why it is refused."""
    try:
        return read_all(file)
    except LakeprobeError as error:
        return str(error)


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(sorted(PACKERS)), st.lists(MUTATION, min_size=1, max_size=4))
def test_mutated_archives_give_rows_or_our_errors(kind: str, mutations: list[tuple[str, int, int, bytes]]) -> None:
    file, data = mutable(kind)
    changed = mutated(data, mutations)
    file.write_bytes(changed)
    assert calls_of(lambda: (archive.is_archive(file), outcome(file))) < 30_000
    found = outcome(file)
    if isinstance(found, str):
        assert str(file) in found
        assert "\n" not in found
    else:
        assert sum(len(value) for value in found.values() if isinstance(value, bytes)) <= 400 * len(changed)


NAMES = st.dictionaries(st.text("abü./", min_size=1, max_size=12), st.binary(max_size=600), max_size=8)


@settings(max_examples=examples(200), deadline=None)
@given(NAMES)
def test_any_names_are_found_as_packed(members: dict[str, bytes]) -> None:
    """The same members in all kinds of archive: the same files, or the same refusal."""
    folder = mutable("gnu.tar")[0].parent
    packed = {name: data for name, data in members.items() if not name.endswith("/")}
    found = outcome(tar_of(folder / "x", *(member(name, data) for name, data in packed.items())))
    pax = tar_of(folder / "x", *(member(name, data) for name, data in packed.items()), format=tarfile.PAX_FORMAT)
    assert found == outcome(pax) == outcome(zip_of(folder / "x", packed))
    parts = {name: [part for part in name.split("/") if part not in ("", ".")] for name in packed}
    paths = {"/".join(parts[name]): data for name, data in packed.items()}
    folders = {"/".join(of_name[:depth]) for of_name in parts.values() for depth in range(len(of_name))}
    outside = any(name.startswith("/") or ".." in parts[name] or not parts[name] for name in packed)
    if outside or len(paths) < len(packed) or folders & paths.keys():
        assert isinstance(found, str)
    else:
        assert found == paths


def test_a_header_with_a_byte_changed_is_refused(tmp_path: Path) -> None:
    block = tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT)
    assert archive_tar.is_header(block)
    entry = tar_of(tmp_path / "x.tar", member("b", b"1")).read_bytes()[:1024]
    for place in range(0, 512, 3):
        changed = block[:place] + bytes([block[place] ^ 0x11]) + block[place + 1 :]
        for before in (b"", entry):
            (tmp_path / "x.tar").write_bytes(before + changed + bytes(1024))
            refused(tmp_path / "x.tar", "damaged")

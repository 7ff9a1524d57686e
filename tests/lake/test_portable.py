"""What stands in where a system lacks what Linux has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeprobe.errors import LakeError
from lakeprobe.system import files


def test_folders_are_replaced_by_renames_where_there_is_no_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.sys, "platform", "darwin")
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "which").write_text(name)
    files.put_in_place(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old" / "which").read_text() == "new"


def test_bytes_are_read_at_an_offset_without_preadv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "preadv")
    (tmp_path / "file").write_bytes(b"0123456789")
    buffer = bytearray(4)
    with (tmp_path / "file").open("rb") as file:
        assert files.read_at(file.fileno(), memoryview(buffer), 3) == 4
        assert bytes(buffer) == b"3456"
        assert files.read_at(file.fileno(), memoryview(buffer), 8) == 2
        assert files.read_at(file.fileno(), memoryview(buffer), 10) == 0


def test_a_system_without_file_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    with (tmp_path / "lock").open("w") as file, pytest.raises(LakeError, match="run lakeprobe in WSL"):
        files.lock(file)


def test_the_address_of_a_file_is_a_path_of_this_machine(tmp_path: Path) -> None:
    for address in (f"file://{tmp_path}/lake", Path(f"file://{tmp_path}/lake"), f"file:{tmp_path}/lake"):
        assert files.absolute(address) == tmp_path / "lake"
    assert files.absolute("files/lake") == Path.cwd() / "files" / "lake"
    assert str(files.absolute("s3://bucket/lake")) == "s3://bucket/lake"

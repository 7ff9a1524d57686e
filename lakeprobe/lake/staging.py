"""Puts finished folders into the lake in one step, so that a reader sees all of a unit or nothing of it.

A folder is written in full under LAKE/.staging and then renamed into place. Where one stands there already, the two
change places in a single system call where Linux offers it, so there is no moment without either.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakeprobe.errors import LakeError
from lakeprobe.lake import layout
from lakeprobe.system import files


@contextmanager
def unchanged(lake: Path) -> Iterator[None]:
    """Turn an error of the file system (full disk, no permission) into a LakeError: what fails here changes nothing."""
    try:
        yield
    except OSError as error:
        raise LakeError.from_system(error, lake, f"{lake} is as it was before") from error


@contextmanager
def staged(lake: Path, label: str) -> Iterator[Path]:
    """A new folder under LAKE/.staging; it is removed at the end if it was not put in place.

    Folders of processes that were killed are removed first: nobody holds their locks any more.
    """
    staging = layout.staging_folder(lake)
    name = f"{label}-{uuid.uuid4().hex}"
    with locked(lake, name):
        for other in staging.iterdir():
            if other.is_dir():
                _remove_if_abandoned(lake, other)
        folder = staging / name
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _lock_file(lake, name).unlink(missing_ok=True)


def _remove_if_abandoned(lake: Path, folder: Path) -> None:
    with suppress(LakeError), locked(lake, folder.name):
        shutil.rmtree(folder, ignore_errors=True)
        _lock_file(lake, folder.name).unlink(missing_ok=True)


def _lock_file(lake: Path, label: str) -> Path:
    return layout.staging_folder(lake) / f"{label}.lock"


@contextmanager
def locked(lake: Path, label: str) -> Iterator[None]:
    """Hold the lock `label` of the lake. Raises LakeError at once if another process holds it.

    The lock goes with its process, however that ends.
    """
    path = _lock_file(lake, label)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        if not files.lock(file):
            raise LakeError(f"{lake}: another process is writing {label}; wait for it to end")
        yield


def put_in_place(staged_folder: Path, target: Path) -> None:
    """Move `staged_folder` to `target`; a folder that stands there is replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        staged_folder.rename(target)
    elif not files.exchange(staged_folder, target):
        old = staged_folder.with_name(staged_folder.name + ".old")
        target.rename(old)
        staged_folder.rename(target)
        old.unlink() if old.is_symlink() else shutil.rmtree(old)

"""Opens a lake: checks its format version, and makes a new one where there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import yaml

from lakeprobe.errors import LakeError
from lakeprobe.schema import FORMAT_VERSION
from lakeprobe.system.files import absolute

ENVIRONMENT_VARIABLE = "LAKEPROBE_LAKE"
DEFAULT = "lake"
_FILE = "lake.yaml"


def choose(path: str | os.PathLike[str] | None) -> Path:
    """The lake that is meant: `path`, else $LAKEPROBE_LAKE, else ./lake; absolute."""
    return absolute(path or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT)


def exists(path: Path) -> bool:
    """Whether there is a lake at `path`, of whatever format."""
    return (path / _FILE).is_file()


def is_writable(path: Path) -> bool:
    """Whether the lake at `path` can be written to; one that is not there yet can."""
    return not exists(path) or os.access(path, os.W_OK)


def shadow(lake: Path) -> Path:
    """A new lake in the folder for temporary files that has the units, tables and noises of `lake`, as links.

    Each unit is a link of its own, so that one whose dump has changed can be read again here.
    """
    path = create(Path(tempfile.mkdtemp(prefix="lakeprobe-")))
    for there in (
        *lake.glob("run=*/step=*/rank=*"),
        *lake.glob("run=*/note.txt"),
        *lake.glob("tables"),
        *lake.glob("noise/noise=*"),
    ):
        here = path / there.relative_to(lake)
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(there, target_is_directory=there.is_dir())
    return path


def check_place(path: Path) -> Path:
    """`path`, if there is a lake or could be one. Raises LakeError."""
    if exists(path):
        return check(path)
    if "\\" in str(path):
        raise LakeError(f"{path} cannot be a lake: DuckDB takes a backslash for a slash; choose another folder")
    try:
        if path.exists() and not all(child.name in (".staging", _FILE) or _is_draft(child) for child in path.iterdir()):
            raise LakeError(f"{path} is not a lake and not empty; choose another folder with --lake")
    except OSError as error:
        raise LakeError(f"{path} cannot be made a lake: {error.strerror}") from error
    return path


def create(path: Path) -> Path:
    """The lake at `path`, made if there is none. Raises LakeError."""
    if exists(check_place(path)):
        return path
    try:
        path.mkdir(parents=True, exist_ok=True)
        draft = path / f".{_FILE}.{os.getpid()}"
        draft.write_text(yaml.safe_dump({"format": FORMAT_VERSION}), encoding="utf-8")
        draft.replace(path / _FILE)
    except OSError as error:
        raise LakeError(f"{path} cannot be made a lake: {error.strerror}") from error
    return path


def _is_draft(path: Path) -> bool:
    return path.name.startswith(f".{_FILE}.")


def check(path: Path) -> Path:
    """The lake at `path`. Raises LakeError if there is none, or if another release of lakeprobe wrote it."""
    try:
        described = yaml.safe_load((path / _FILE).read_text(encoding="utf-8"))
        version = described["format"]
    except FileNotFoundError:
        raise LakeError(
            f"{path} is not a lake; name one with --lake or ${ENVIRONMENT_VARIABLE}, or ingest a dump first"
        ) from None
    except OSError as error:
        raise LakeError(f"{path / _FILE} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        raise LakeError(f"{path / _FILE} is damaged; it should read 'format: {FORMAT_VERSION}'") from None
    if version != FORMAT_VERSION:
        advice = "ingest the dumps into a new one" if version in range(FORMAT_VERSION) else "install a newer lakeprobe"
        raise LakeError(f"the lake {path} has the format {version}, this lakeprobe {FORMAT_VERSION}; {advice}")
    return path

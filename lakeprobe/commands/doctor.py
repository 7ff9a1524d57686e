"""lakeprobe doctor: what is installed, what the lake holds, and how fast its disk is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakeprobe import hints
from lakeprobe.commands.options import LakeOption

Fact = tuple[str, str]


def doctor(lake: LakeOption = None) -> None:
    """Say which versions and extras are installed, what is in the lake and left over in it, and how fast its disk is.

    Put its output into a report of a problem.

    Example: lakeprobe doctor
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store

    path = store.choose(lake)
    facts = [*_program(), *_extras(), *_terminal(), ("lake", str(path))]
    with diagnostics.working("looking at the lake and its disk"):
        facts += _lake(path) if store.exists(path) else [("", "does not exist yet; lakeprobe ingest creates it")]
    output.text(output.aligned(("what", "is"), facts))


def _program() -> Iterator[Fact]:
    import platform
    import sys
    from importlib.metadata import version

    from lakeprobe.system import native
    from lakeprobe.version import __version__
    from lakeprobe.work import default_jobs

    yield "lakeprobe", f"{__version__}, {Path(__file__).resolve().parents[1]}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}, {default_jobs()} cores"
    for package in ("duckdb", "pyarrow", "numpy", "typer"):
        yield package, version(package)
    yield "functions in C", native.state()


_EXTRAS = {"torch": "torch", "mindspore": "mindspore", "jupyter": "ipython", "plot": "matplotlib"}
"""The extras of pyproject.toml, and the package by which to know each."""


def _extras() -> Iterator[Fact]:
    from importlib.metadata import PackageNotFoundError, version

    for extra, package in _EXTRAS.items():
        try:
            yield f"extra {extra}", f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"extra {extra}", f"not installed: pip install 'lakeprobe[{extra}]'"


def _terminal() -> Iterator[Fact]:
    import sys

    from lakeprobe import colours
    from lakeprobe.table_text import UNBOUND, terminal_width

    width = terminal_width()
    where = "no terminal" if width == UNBOUND else f"{width} columns"
    yield "stdout", f"{where}, {sys.stdout.encoding}, {'colours' if colours.wanted(sys.stdout) else 'no colours'}"


def _lake(path: Path) -> Iterator[Fact]:
    from lakeprobe.errors import LakeError
    from lakeprobe.journals import journal
    from lakeprobe.lake import layout, log, staging, store

    try:
        snapshot = log.read(store.check(path))
    except LakeError as error:
        yield "", str(error)
        return
    files = [file for file in path.rglob("*") if file.is_file()]
    yield "runs", f"{len(layout.runs(snapshot))}, of {len(layout.units(snapshot))} units"
    yield "comparisons", str(len(layout.comparisons(snapshot)))
    yield "files", f"{len(files)}, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB"
    collecting = [folder for folder in journal.folders(path) if journal.set_aside(folder) is None]
    yield "collecting", ", ".join(folder.name for folder in collecting) or "nothing"
    aside = [folder for folder in journal.folders(path) if journal.set_aside(folder) is not None]
    if aside:
        yield "set aside", f"{', '.join(folder.name for folder in aside)}: {hints.command('recover')}"
    left = [*map(str, staging.left_over(path)), *staging.orphans(path)]
    yield "left over", f"{len(left)} files: {hints.command('check', '--repair')}" if left else "nothing"
    yield "disk", _speed(path) if store.is_writable(path) else "the lake is read-only"


_PROBE = 32 * 2**20
"""The bytes that are written to measure the disk."""


def _speed(lake: Path) -> str:
    """Return how fast bytes reach the disk of the lake, and how many files a second."""
    import tempfile
    import time

    from lakeprobe.lake import layout
    from lakeprobe.system import files

    try:
        with tempfile.TemporaryDirectory(dir=layout.staging_folder(lake)) as folder:
            probe = Path(folder) / "probe"
            begun = time.perf_counter()
            probe.write_bytes(bytes(_PROBE))
            files.sync(probe)
            whole = time.perf_counter() - begun
            begun = time.perf_counter()
            probe.write_bytes(b"x")
            files.sync(probe)
            small = 1000 * (time.perf_counter() - begun)
            return f"writes {_PROBE / whole / 1e6:.0f} MB/s; a small file takes {small:.1f} ms"
    except OSError as error:
        return f"cannot be written to: {error.strerror}"

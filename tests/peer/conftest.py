"""What tests on the real pairs begin with: a pair is read and compared once, whichever tests and workers ask of it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest
from peer_pairs import Compared

import lakeprobe
from lakeprobe.compare.run import compare
from lakeprobe.session import ComparisonResult, Lake

PAIR = "pair"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the workers of this session have in common."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "pairs"


@pytest.fixture
def compared(pairs: Path) -> Iterator[Compared]:
    """Gives the lake and the comparison of a target and a golden path, by default options. The lake is not changed."""
    with ExitStack() as opened:

        def compared(target: Path, golden: Path) -> tuple[Lake, ComparisonResult]:
            folder = pairs / sha256(f"{target} {golden}".encode()).hexdigest()[:16]
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not (folder / "done").exists():
                    compare(target, golden, lake=folder / "lake", name=PAIR)
                    (folder / "done").touch()
            lake = opened.enter_context(lakeprobe.open(folder / "lake", create=True))
            return lake, lake.comparison(PAIR)

        yield compared

"""Configurations and rules that a user names: what is none is told in one line, whatever it is, and not waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from test_corpus import bounded

from lakeprobe.analysis import watch
from lakeprobe.checks.reproduce import reproduce_config
from lakeprobe.collect import config
from lakeprobe.errors import UsageError
from lakeprobe.monitoring import configuration


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a terabyte": sparse,
    "depth": lambda path: path.write_text('{"a":' * 100_000),
    "digits": lambda path: path.write_text("9" * 5000),
    "no UTF-8": lambda path: path.write_bytes(b"{\xff}"),
}
READERS: dict[str, Callable[[Path], object]] = {
    "collect": config.load,
    "monitor": configuration._content,
    "reproduce": lambda path: reproduce_config(path, path.parent / "out"),
    "watch": lambda path: watch.load(str(path)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", FILES)
def test_what_is_no_configuration(tmp_path: Path, kind: str, reader: str) -> None:
    path = tmp_path / "it.sql"
    FILES[kind](path)
    if reader == "watch" and kind in ("depth", "digits"):
        pytest.skip("such a rule is a text as any other")
    with bounded(), pytest.raises(UsageError) as caught:
        READERS[reader](path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)

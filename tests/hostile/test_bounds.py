"""Every bound is told in docs/reliability_input.md, with its number, and is kept somewhere."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest

from lakeprobe import bounds
from lakeprobe.system import files

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r'^# ---- (?P<section>.*?) -+$|^(?P<name>[A-Z_]+) = [^\n]*\n"""(?P<text>[^"]*)"""', re.MULTILINE)


def rows() -> list[str]:
    """The rows of the table, as the module's texts give them."""
    section, lines = "", []
    for found in ENTRY.finditer((ROOT / "lakeprobe" / "bounds.py").read_text(encoding="utf-8")):
        section = found["section"] or section
        if found["name"]:
            number = getattr(bounds, found["name"])
            is_mib = number % bounds.MIB == 0 and not found["text"].startswith("The number")
            shown = f"{number >> 20} MiB" if is_mib else f"{number:,}".replace(",", " ")
            lines.append(f"| {section} | {shown} | {' '.join(found['text'].split()).rstrip('.')} |")
    return lines


def test_the_page_has_every_bound() -> None:
    page = (ROOT / "docs" / "reliability_input.md").read_text(encoding="utf-8").splitlines()
    assert len(rows()) > 25
    assert [row for row in rows() if row not in page] == []


def test_every_bound_is_kept() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lakeprobe").rglob("*.py"))
    names = [found["name"] for found in ENTRY.finditer((ROOT / "lakeprobe" / "bounds.py").read_text()) if found["name"]]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", code)) < 3] == []


def test_a_bounded_file_takes_memory_for_its_bytes_and_not_for_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(bytes(3 * bounds.MIB))
    tracemalloc.start()
    assert files.read_bounded(path, bounds.LARGEST_RECORD) == path.read_bytes()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 * bounds.MIB


@pytest.mark.parametrize("bound", [0, 9, bounds.MIB, 3 * bounds.MIB])
def test_a_file_of_more_bytes_than_its_bound(tmp_path: Path, bound: int) -> None:
    path = tmp_path / "record"
    path.write_bytes(bytes(bound))
    assert files.read_bounded(path, bound) == bytes(bound)
    path.write_bytes(bytes(bound + 1))
    with pytest.raises(ValueError, match=f"it has more than {bound} bytes"):
        files.read_bounded(path, bound)

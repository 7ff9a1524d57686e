"""Every bound is told in docs/reliability_input.md, with its number, and is kept somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from lakeprobe import bounds

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

"""The pages on reliability name tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/reliability.md", "docs/reliability_input.md", "SECURITY.md")
NAMED = re.compile(r"tests/(?P<path>[\w./]+)(::(?P<test>\w+)|: (?P<case>\w+))?")


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = list(NAMED.finditer((ROOT / page).read_text(encoding="utf-8")))
    assert named
    for found in named:
        path = ROOT / "tests" / found["path"].rstrip(".")
        assert path.exists(), found[0]
        if found["test"]:
            assert f"\ndef {found['test']}(" in path.read_text(encoding="utf-8"), found[0]
        if found["case"]:
            assert found["case"] in yaml.safe_load(path.read_text(encoding="utf-8")), found[0]


def test_every_line_of_what_broke_it_names_a_test() -> None:
    page = (ROOT / PAGES[0]).read_text(encoding="utf-8")
    _, _, after = page.partition("## What broke it once")
    rows = [line for line in after.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for row in rows:
        cell = row.rstrip("| ").rpartition("| ")[2]
        assert re.fullmatch(r"`tests/[\w./]+(::|: )\w+`", cell), row

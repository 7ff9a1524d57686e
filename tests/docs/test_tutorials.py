"""Every command of the tutorials runs, in its order; the site has every page."""

from __future__ import annotations

import html
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
sys.path.insert(0, str(CHECKOUT / "tests" / "commands"))

from program import lakeprobe  # noqa: E402 it lies beside the tests of commands

COMMANDS = {
    path.stem: re.findall(r"^\$ lakeprobe (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    for path in sorted(DOCS.glob("tutorial_*.md"))
}


@pytest.mark.sampled
@pytest.mark.parametrize("tutorial", COMMANDS)
def test_the_commands_of_a_tutorial_run(tutorial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    assert COMMANDS[tutorial]
    written = ""
    for command in COMMANDS[tutorial]:
        done = lakeprobe(*shlex.split(command))
        assert done.code == 0, f"{command}\n{done.err}"
        written += done.out
    if tutorial != "tutorial_ptdbg":
        assert "Functional.layer_norm.3.forward" in written


def test_the_site_has_every_page() -> None:
    site = yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = re.findall(r"([\w]+\.md)", str(site["nav"]))
    assert sorted(named) == sorted(path.name for path in DOCS.glob("*.md"))


def test_the_pictures_are_those_of_the_tour() -> None:
    text = (DOCS / "tour.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\w+)": "', text.partition("PICTURES = {")[2], re.MULTILINE)
    assert sorted(names) == sorted(path.stem for path in (DOCS / "pictures").glob("*.svg"))
    for name in ("workbook", "notebook"):
        assert (DOCS / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    shown = set(re.findall(r"pictures/(\w+)\.svg", "".join(path.read_text() for path in DOCS.glob("*.md"))))
    assert shown <= set(names)


@pytest.mark.parametrize("name", ["compare", "blame", "show", "help"])
def test_a_picture_of_a_terminal_is_current(name: str) -> None:
    """python docs/tour.py makes them; another test holds tour.md against the program."""
    picture = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    written = "".join(html.unescape(part) for part in re.findall(r"<text[^>]*>(.*?)</text>", picture))
    tour = (DOCS / "tour.md").read_text(encoding="utf-8")
    (shown,) = re.findall(rf"^\$ (lakeprobe {name} .*?)^```$", tour, re.M | re.S)[:1] or [lakeprobe("--help").out]
    assert "".join(shown.split()) in "".join(written.split())


def test_the_site_shows_every_block_as_a_block() -> None:
    """A second word at a fence, such as ```sql rule, made text of the block and swallowed the headings below it."""
    module = runpy.run_path(str(DOCS / "site.py"))
    for path in DOCS.glob("*.md"):
        shown = module["on_page_markdown"](path.read_text(encoding="utf-8"))
        assert not re.search(r"^```\w+ ", shown, re.MULTILINE), path.name
        assert "](../" not in shown, path.name

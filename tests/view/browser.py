"""A real browser for tests: Debian's chromium, driven by Playwright; where either is missing, its tests are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass
class Visit:
    """An open page: what it wrote to the console, and what it asked the network for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def until(self, expression: str) -> None:
        """Wait for an expression; Playwright's own wait would need an eval, which the page forbids."""
        for _ in range(200):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"never true: {expression}")

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())


@contextmanager
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (the extra dev)")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on PATH (apt-get install chromium)")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@contextmanager
def visit(opened: Any, file: Path, place: str = "", width: int = 1280, height: int = 900) -> Iterator[Visit]:
    """Open a file at a deep link, and wait until it says that it is ready."""
    context = opened.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    seen = Visit(page)
    page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(file.as_uri() + place)
    page.wait_for_selector("html[data-ready]", timeout=30_000)
    yield seen
    context.close()

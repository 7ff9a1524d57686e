"""The table of docs/answers.md: each case has its verdict, and text, Python, files and exit codes agree on it."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

from lakeprobe.analysis.verdict import Verdict
from lakeprobe.cli import app
from lakeprobe.reports.blame_text import blame_json
from lakeprobe.reports.first_difference_text import first_difference_text, with_leaves
from lakeprobe.session import Lake

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXPECTED = {
    "equal": (Verdict.EQUAL, (0, 0, 0)),
    "equal within noise": (Verdict.EQUAL_WITHIN_NOISE, (0, 0, 0)),
    "different": (Verdict.DIFFERENT, (1, 1, 1)),
    "nothing compared": (Verdict.NOTHING_COMPARED, (1, 1, 1)),
    "partly compared": (Verdict.PARTLY_COMPARED, (0, 0, 1)),
    "unreadable": (Verdict.UNREADABLE, (1, 1, 1)),
    "incomplete": (Verdict.INCOMPLETE, (0, 1, 1)),
    "structure only": (Verdict.STRUCTURE_ONLY, (1, 1, 1)),
    "another dump than last time": (Verdict.DIFFERENT, (1, 1, 1)),
}

BOOKS = ("equal within noise", "nothing compared", "unreadable")
"""The cases whose workbook is written too: its summary has the lines that the text has, whatever they say."""


def _answers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("answers", DOCS / "answers.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["answers"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is said of each case, and the files that it is written to."""
    answers, found = _answers(), {}
    folder = tmp_path_factory.mktemp("answers")
    for case, lake, sides in answers.cases(folder):
        said = answers.said(case, lake, sides)
        with Lake(lake) as opened:
            result = opened.comparison("_vs_".join(Path(side).name for side in sides))
            forms = ("csv", "json", *(["xlsx"] if case in BOOKS else []))
            files = {form: result.write(folder / case, form, layout="msprobe") for form in forms}
            first = result.first_difference()
            texts = (first_difference_text(first), str(result))
            columns, leaves = with_leaves(first)
            rows = [dict(zip(columns, row, strict=True)) for row in leaves]
            blame = json.loads(blame_json(result.blame()))
            found[case] = (said, result.verdict, files, first.is_equal, texts, rows, blame)
    return found


@pytest.mark.parametrize("case", EXPECTED)
def test_the_verdict_and_the_exit_codes(told: dict[str, Any], case: str) -> None:
    said, verdict, *_ = told[case]
    expected, codes = EXPECTED[case]
    assert verdict is said.coverage.verdict is expected
    assert said.lines[0] == f"Verdict: {expected}"
    assert (said.on_error, said.on_warning, said.first_diff) == codes
    assert bool(said.remarks) == (case == "another dump than last time")


@pytest.mark.parametrize("case", ["different", "incomplete"])
def test_compare_exits_as_the_page_says(told: dict[str, Any], case: str) -> None:
    said, *_ = told[case]
    sides = {"different": ("target@step0", "golden@step0"), "incomplete": ("killed@step0", "golden@step0")}[case]
    words = ["compare", *sides, "--lake", str(said.lake), "--fail-on"]
    codes = [CliRunner().invoke(app, [*words, weight]).exit_code for weight in ("error", "warning")]
    assert codes == [said.on_error, said.on_warning]


@pytest.mark.parametrize("case", EXPECTED)
def test_the_files_agree_with_the_verdict(told: dict[str, Any], case: str) -> None:
    said, verdict, files, *_ = told[case]
    covered = said.coverage
    [table], [rows_file] = files["csv"], files["json"]
    rows = json.loads(rows_file.read_text())["rows"]
    judged = [row for row in rows if row["outcome"] in ("compared", "equal") and row["verdict"] != "skipped"]
    assert [sum(row["difference"] == word for row in judged) for word in ("equal", "noise", "different")] == [
        covered.equal, covered.noise, covered.different,
    ]  # fmt: skip
    assert len(judged) == covered.rows["compared"]
    assert sum(row["outcome"] == "unreadable" for row in rows) == covered.rows["unreadable"]
    with table.open(newline="", encoding="utf-8") as file:
        results = [row["Result"] for row in csv.DictReader(file)]
    assert results == [row["verdict"] for row in rows]
    assert {name: results.count(name) for name in covered.findings} == covered.findings
    for book in files.get("xlsx", ()):
        summary = load_workbook(book, read_only=True)["summary"].iter_rows(max_row=8, values_only=True)
        assert ("Verdict", verdict) in [row[:2] for row in summary]


@pytest.mark.parametrize("case", EXPECTED)
def test_the_first_difference_agrees_with_the_verdict(told: dict[str, Any], case: str) -> None:
    said, verdict, _, is_equal, texts, rows, blame = told[case]
    assert is_equal == (said.first_diff == 0)
    assert [row["verdict"] for row in rows] == [blame["verdict"]] == [verdict]
    if verdict is not Verdict.NOTHING_COMPARED:  # there it is rows without counterpart
        assert any(row["finding"] for row in rows) == bool(said.coverage.different)
    for text in texts:
        assert f"Verdict: {verdict}" in text.splitlines()
        assert ("No difference" in text or "No op stands out" in text) <= bool(said.coverage.rows["compared"])


def test_the_page_is_up_to_date(told: dict[str, Any]) -> None:
    page = _answers().page([said for said, *_ in told.values()])
    assert (DOCS / "answers.md").read_text(encoding="utf-8") == page, "run python docs/generate.py"


def test_every_verdict_has_a_case() -> None:
    assert {verdict for verdict, _ in EXPECTED.values()} == set(Verdict)

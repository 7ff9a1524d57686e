"""The magics of a notebook, in an IPython shell without a notebook."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("IPython")

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython

from lakeprobe.ingest import ingest
from lakeprobe.reports import notebook
from lakeprobe.session import Lake
from lakeprobe.table_text import aligned

QUERY = "SELECT op, tensor_rows FROM ops JOIN dumps USING (run)"


@pytest.fixture(scope="module")
def shell() -> InteractiveShell:
    return start_ipython() or InteractiveShell.instance()


@pytest.fixture
def magic(shell: InteractiveShell, tmp_path: Path) -> Iterator[Any]:
    """A shell with the magics and a lake of one run."""
    data = {"Torch.add.0.forward": {"input_args": [{"type": "int", "value": 1}], "output": []}}
    head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    (tmp_path / "npu").mkdir()
    (tmp_path / "npu" / "dump.json").write_text(json.dumps({**head, "data": data}))
    ingest(tmp_path / "npu", lake=tmp_path / "lake")
    shell.run_line_magic("load_ext" if "lakeprobe" not in shell.extension_manager.loaded else "reload_ext", "lakeprobe")
    opened = shell.run_line_magic("lake", str(tmp_path / "lake"))
    assert isinstance(opened, Lake)
    yield shell
    opened.close()


def test_forms(magic: Any) -> None:
    import pandas
    import polars
    import pyarrow

    row = {"op": "Torch.add.0.forward", "tensor_rows": 1}
    assert magic.run_cell_magic("lake", "", QUERY).fetchall() == [tuple(row.values())]
    assert magic.run_cell_magic("lake", "--as relation", QUERY).columns == list(row)
    frame = magic.run_cell_magic("lake", "--as pandas", QUERY)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == [row]
    frame = magic.run_cell_magic("lake", "--as polars", QUERY)
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_dicts() == [row]
    table = magic.run_cell_magic("lake", "--as arrow", QUERY)
    assert isinstance(table, pyarrow.Table)
    assert table.to_pylist() == [row]


def test_a_name_for_the_result(magic: Any) -> None:
    assert magic.run_cell_magic("lake", "--as arrow -o found", QUERY) is None
    assert magic.user_ns["found"].num_rows == 1


@pytest.mark.parametrize(
    ("line", "cell", "says"),
    [
        ("--as excel", QUERY, "%%lake: argument --as: invalid choice: 'excel'"),
        ("--to x", QUERY, "%%lake: unrecognized arguments: --to x"),
        ("", "SELECT nothing FROM ops", "nothing"),
        ("", "SELEKT", "syntax error"),
        ("--as pandas", "SELECT error('while running')", "while running"),
        ("-o 'open", QUERY, "No closing quotation"),
    ],
)
def test_errors_are_told_without_a_traceback(magic: Any, line: str, cell: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        magic.run_cell_magic("lake", line, cell)
    assert says in str(caught.value)


def test_a_path_that_is_no_lake(magic: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a lake; name one"):
        magic.run_line_magic("lake", str(tmp_path))
    assert magic.run_cell_magic("lake", "", QUERY).fetchall() != []  # the lake that was open still is


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nolake", "nolake is not a lake; name one"),
        ("--help", "%lake path/to/lake             opens a lake"),
        ("select * from ops", "%lake opens a lake; to run SQL, begin a cell with %%lake: select * from ops"),
    ],
)
def test_a_typo_opens_and_makes_nothing(
    magic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError) as caught:
        magic.run_line_magic("lake", line)
    assert says in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_lake_completes_lakes_and_forms(magic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def completed(line: str) -> list[str]:
        return magic.complete("", line, len(line))[1]

    with warnings.catch_warnings():  # IPython's own, in its own completer
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        assert "lake" in completed("%lake ")
        assert {"--as", "pandas"} <= set(completed("%%lake "))


def test_answers_are_shown_as_html(magic: Any, tmp_path: Path) -> None:
    found = magic.run_line_magic("lake", str(tmp_path / "lake")).overflow("npu")
    html, plain = (magic.display_formatter.formatters[kind] for kind in ("text/html", "text/plain"))
    assert html.lookup(found)(found).startswith("<pre")
    assert "NaN and inf in npu" in html.lookup(found)(found)
    assert plain(found).startswith("NaN and inf in npu")


class Cells(HTMLParser):
    """The cells of every table, and the text outside of tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.outside, self._is_in_table = "", False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self._is_in_table = self._is_in_table or tag == "table"
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_in_table = self._is_in_table and tag != "table"

    def handle_data(self, data: str) -> None:
        if self._is_in_table:
            self.tables[-1][-1][-1] += data
        else:
            self.outside += data


def test_tables_of_answers_are_tables_and_hostile_text_stays_text(magic: Any) -> None:
    hostile = "a</td><script>x</script>\x1b[31m"
    found = Cells(
        notebook.page(
            lambda: f"Verdict: different\n\n{aligned(('op', 'norm'), [(hostile, 0.5), ('b', 2.0)])}\n{hostile}"
        )
    )
    assert found.tables == [[["op", "norm"], [r"a</td><script>x</script>\u001b[31m", "0.5"], ["b", "2"]]]
    assert found.outside == "Verdict: different" + r"a</td><script>x</script>\u001b[31m"


def test_a_comparison_and_its_answers_have_tables(magic: Any, tmp_path: Path) -> None:
    dumps = Path(__file__).parent / "data" / "dumps" / "demo"
    lake = magic.run_line_magic("lake", str(tmp_path / "lake"))
    comparison = lake.compare(dumps / "target", dumps / "golden", name="demo")
    html = magic.display_formatter.formatters["text/html"]
    shown = Cells(comparison._repr_html_())
    assert shown.tables[0][0] == ["the worst ops", "verdict", "norm error", "reason"]
    assert shown.tables[0][1][:2] == ["Functional.layer_norm.3.forward", "error"]
    assert shown.outside.startswith("target against golden")
    blame = comparison.blame()
    heads = [table[0] for table in Cells(html.lookup(blame)(blame)).tables]
    assert ["rank", "from there to the loss", "input error", "output error", "how"] in heads
    first = comparison.first_difference()
    assert "First difference: Functional.layer_norm.3.forward (step 0)" in Cells(html.lookup(first)(first)).outside
    assert Cells(lake._repr_html_()).tables[1][1][:2] == ["demo", "different"]

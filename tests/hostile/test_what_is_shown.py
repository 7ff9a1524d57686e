"""What a dump says is shown: it steers no terminal, turns no line around, and is not a formula in a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pair_dumps import call, tensor, write_dump
from program import lakeprobe

from lakeprobe.analysis.signs import Signs
from lakeprobe.export.series import export_series
from lakeprobe.lake import views
from lakeprobe.lake.connection import define_macros
from lakeprobe.reports import signs, verification_files
from lakeprobe.shown import csv_cell, shown

STEERING = "\x1b]0;owned\x07\x1b[2J\x00\x9b31m\u202egnp.exe\u2066\u200b\r"
SHOWN = r"\u001b]0;owned\u0007\u001b[2J\u0000\u009b31m\u202egnp.exe\u2066\u200b"
FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1", "\n=1", "＝1+1", "-cmd|' /C calc'!A0")
ESCAPED = {str(csv_cell(text)) for text in FORMULAS}
NUMBERS = ("-1", "+1.5e-05", "-.5", "-12.5%", "-inf", "nan", "-5.", "1", "N/A", "a=b", "")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("shown")
    for run, norm in (("ours", 1.0), ("theirs", 5.0)):
        leaf = tensor() | {"Norm": norm}
        texts = [{"type": "str", "value": text} for text in (*FORMULAS, *NUMBERS, STEERING)]
        data = {f"Torch.{STEERING}.0.forward": call([leaf], [leaf]), "Torch.f.0.forward": call(texts, [leaf])}
        write_dump(home / run, data)
        assert lakeprobe("ingest", home / run, "--lake", home / "lake").code == 0
    assert lakeprobe("compare", "ours", "theirs", "--lake", home / "lake", "--name", "it").code == 0
    return home / "lake"


COMMANDS = (
    ("show", "Torch"),
    ("compare", "ours", "theirs", "--name", "it"),
    ("first-diff", "it"),
    ("blame", "it"),
    ("unmatched", "it"),
    ("overflow", "ours"),
    ("sql", "select op from ops", "--format", "table"),
    ("sql", "select op from ops", "--format", "csv"),
    ("sql", "select op from ops", "--format", "json"),
    ("sql", f"select '{STEERING[:9]}' as a, nothing from ops"),
    ("show", STEERING.replace("\0", "")),
    ("ingest", "/no/" + STEERING.replace("\0", "")),
)


@pytest.mark.sampled
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:1]))
def test_nothing_steers_the_terminal(lake: Path, words: tuple[str, ...]) -> None:
    done = lakeprobe(*words, "--lake", lake)
    said = done.out + done.err
    assert said
    assert not [sign for sign in said if sign in STEERING and not sign.isascii()]
    assert not [sign for sign in said if ord(sign) < 32 and sign != "\n"], repr(said)
    if words[0] == "show" and words[1] == "Torch":
        assert SHOWN in said


FORGED = "Verdict: equal"


ANSWERS = (("compare", "b", "a"), ("first-diff", "b_vs_a"), ("blame", "b_vs_a"), ("show", "Torch"))


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_no_name_or_value_forges_a_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    name = f"Torch.f\n{FORGED}\n.0.forward"
    for run, text in (("a", "x"), ("b", f"y\n{FORGED}\n")):
        leaf = tensor() | {"Norm": 1.0 if run == "a" else 5.0}
        given = [leaf, {"type": "str", "value": text}]
        write_dump(tmp_path / run, {name: call(given, [leaf]), f"Torch.g\n{FORGED}.0.forward": call([leaf], [leaf])})
        assert lakeprobe("ingest", tmp_path / run, "--lake", tmp_path / "lake").code == 0
    if words[0] != "compare":
        assert lakeprobe("compare", "b", "a", "--lake", tmp_path / "lake").code == 0
    done = lakeprobe(*words, "--lake", tmp_path / "lake")
    assert done.code == 0
    assert FORGED in done.out
    assert not [line for line in done.out.splitlines() if line.strip().startswith(FORGED)]


def test_json_keeps_every_sign(lake: Path) -> None:
    done = lakeprobe("sql", "select op from ops order by seq limit 1", "--format", "json", "--lake", lake)
    assert json.loads(done.out) == {"op": f"Torch.{STEERING}.0.forward"}


def test_no_cell_of_csv_is_a_formula(lake: Path, tmp_path: Path) -> None:
    done = lakeprobe("compare", "ours", "theirs", "--name", "it", "-o", tmp_path, "--format", "csv", "--lake", lake)
    assert done.code == 0, done
    (file,) = tmp_path.glob("*.csv")
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    cells = [row["NPU max"] for row in rows if row["NPU Name"].startswith("Torch.f.0.forward.input")]
    assert cells[: len(FORMULAS)] == ["'" + text for text in FORMULAS]
    assert cells[len(FORMULAS) : -1] == list(NUMBERS)
    for row in rows:
        assert not [cell for cell in row.values() if cell[:1] in ("=", "@", "\t", "\r", "\n")]
    assert list(rows[0])[:2] == ["NPU Name", "Bench Name"]


def test_no_cell_of_a_merge_is_a_formula(tmp_path: Path) -> None:
    from lakeprobe.analysis.merge import Sheet
    from lakeprobe.reports.merge_files import write_csv

    with duckdb.connect() as connection:
        rows = connection.sql("SELECT '=a' AS \"NPU Name\", '-1.5' AS rank0, '-1+1' AS rank1, NULL::VARCHAR AS rank2")
        (file,) = write_csv(connection, iter([Sheet(None, "Result", rows, 1, ())]), tmp_path)
    assert file.read_text() == "NPU Name,rank0,rank1,rank2\n'=a,-1.5,'-1+1,\n"


def test_csv_that_python_writes_and_csv_that_duckdb_writes_escape_alike() -> None:
    with duckdb.connect() as connection:
        define_macros(connection, ("csv_cell",))
        texts = [*FORMULAS, *NUMBERS, "＋1", "@", "-", "=", "text", "1e5%", "-1e", "\ta", "'=1"]
        for text in texts:
            assert connection.execute("SELECT csv_cell($1)", [shown(text)]).fetchall() == [(csv_cell(text),)]
    assert {
        "'=1+1",
        "'+1+1",
        "'-1+1",
        "'@SUM(A1)",
        "'\t=1+1",
        r"\r=1",
        "'\n=1",
        "'＝1+1",
        "'-cmd|' /C calc'!A0",
    } == ESCAPED
    assert [csv_cell(value) for value in (*NUMBERS, -1.5, None)] == [*NUMBERS, -1.5, None]


def cells_of(folder: Path) -> list[str]:
    """The cells of all csv files below, but for the header of the share of zeros, which msprobe calls =0."""
    found = []
    for file in sorted(folder.rglob("*.csv")):
        with file.open(newline="", encoding="utf-8-sig") as lines:
            found += [cell for row in csv.reader(lines) for cell in row if cell != "=0"]
    return found


@pytest.fixture
def series(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A lake's views, with the series of two runs whose parameters are called as formulas are."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE series AS {views.empty('series')}")
        for run in ("ours", "theirs"):
            for name in FORMULAS:
                for metric, value, text, signs in (
                    ("norm", -1.5, None, None),
                    ("md5", None, "=md5", None),
                    ("shape", None, "[4]", None),
                    ("signs", None, None, b"\xf0"),
                    ("=0", 0.5, None, None),
                    ("(-inf, 0]", 0.5, None, None),
                ):
                    connection.execute(
                        "INSERT INTO series BY NAME SELECT $run AS run, 0 AS step, 0 AS rank, $name AS name, "
                        "'gradient' AS point, $metric AS metric, $value AS value, $text AS text, $signs AS signs",
                        {"run": run, "name": name, "metric": metric, "value": value, "text": text, "signs": signs},
                    )
        yield connection


@pytest.mark.parametrize("form", ["monitor", "grad_probe"])
def test_no_cell_of_exported_series_is_a_formula(series: duckdb.DuckDBPyConnection, tmp_path: Path, form: str) -> None:
    export_series(series, "ours", tmp_path / "out", form)
    cells = cells_of(tmp_path / "out")
    assert {*cells} >= ESCAPED
    assert [csv_cell(cell) for cell in cells] == cells


def test_no_cell_of_signs_is_a_formula(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        rows = connection.sql(
            "SELECT 0 AS rank, 0 AS step, unnest($1) AS name, false AS is_summary, -0.5 AS similarity",
            params=[list(FORMULAS)],
        )
        signs.write(Signs("a", "b", rows, ()), tmp_path / "out")
    cells = cells_of(tmp_path / "out")
    assert {*cells} >= ESCAPED
    assert [csv_cell(cell) for cell in cells] == cells


def test_no_cell_of_checks_is_a_formula(tmp_path: Path) -> None:
    def row(text: str) -> dict[str, Any]:
        return {
            "rank": 0, "mode": "improve_precision", "direction": "forward", "step": 0, "op": text, "max_relative": -0.5,
            "dtype": text, "shape": text, "slot": text, "is_consistent": False, "file_path": text,
            "code_stack": f"{text}\n{text}", "scope_name": text,
        }  # fmt: skip

    rows = [row(text) for text in (*FORMULAS, "＝1")]
    verification_files.write_free_benchmark(rows, tmp_path / "free_benchmark.csv")
    verification_files.write_code_mapping(rows, tmp_path / "code_mapping.csv")
    cells = cells_of(tmp_path)
    assert "'＝1" in cells
    assert [csv_cell(cell) for cell in cells] == cells

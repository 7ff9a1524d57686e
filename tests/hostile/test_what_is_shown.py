"""What a dump says is shown: it steers no terminal, turns no line around, and is no formula in a spreadsheet."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from pair_dumps import call, tensor, write_dump
from program import lakeprobe

STEERING = "\x1b]0;owned\x07\x1b[2J\x00\x9b31m\u202egnp.exe\u2066\u200b\r"
SHOWN = r"\u001b]0;owned\u0007\u001b[2J\u0000\u009b31m\u202egnp.exe\u2066\u200b"
FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1", "\n=1", "＝1+1", "-cmd|' /C calc'!A0")
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


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:1]))
def test_nothing_steers_the_terminal(lake: Path, words: tuple[str, ...]) -> None:
    done = lakeprobe(*words, "--lake", lake)
    said = done.out + done.err
    assert said
    assert not [sign for sign in said if sign in STEERING and not sign.isascii()]
    assert not [sign for sign in said if ord(sign) < 32 and sign != "\n"], repr(said)
    if words[0] == "show" and words[1] == "Torch":
        assert SHOWN in said


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
    import duckdb

    from lakeprobe.analysis.merge import Sheet
    from lakeprobe.reports.merge_files import write_csv

    with duckdb.connect() as connection:
        rows = connection.sql("SELECT '=a' AS \"NPU Name\", '-1.5' AS rank0, '-1+1' AS rank1, NULL::VARCHAR AS rank2")
        (file,) = write_csv(connection, iter([Sheet(None, "Result", rows, ())]), tmp_path)
    assert file.read_text() == "NPU Name,rank0,rank1,rank2\n'=a,-1.5,'-1+1,\n"

"""Tables fit the terminal that they are written for, and lose nothing."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeprobe import colours
from lakeprobe.table_text import UNBOUND, aligned, columns_wide, fold, terminal_width

NAME = "Module.layers.1.attn.k_proj.Linear.parameters_grad.0"


def lines(columns: tuple[str, ...], rows: list[tuple[Any, ...]], width: int, **options: bool) -> list[str]:
    return aligned(columns, rows, width, **options).splitlines()


def test_a_table_that_fits() -> None:
    assert lines(("op", "rows", "error"), [("add", 7, 0.123456789), ("mul", 12, None)], 80) == [
        "op   rows    error",
        "───  ────  ───────",
        "add     7  0.12346",
        "mul    12",
    ]


def test_columns_without_a_value_go_first() -> None:
    rows = [(NAME, None, 1)]
    assert lines(("op", "an empty column of some width", "n"), rows, 60) == [
        f"{'op':<52}  n",
        f"{'─' * 52}  ─",
        f"{NAME}  1",
    ]
    told = lines(("op", "an empty column of some width", "n"), rows, 60, name_empty=True)
    assert told[-1] == "without any value: an empty column of some width"


def test_sentences_are_folded_before_names() -> None:
    assert lines(("op", "why"), [(NAME, "its inputs agree, its output does not")], 78) == [
        f"{'op':<52}  why",
        f"{'─' * 52}  {'─' * 24}",
        f"{NAME}  its inputs agree, its",
        f"{'':<52}  output does not",
    ]


def test_a_name_is_folded_at_its_joints_and_a_number_never() -> None:
    shown = lines(("op", "error"), [(NAME, -1.2346e-05)], 40)
    assert shown[2:] == [
        "Module.layers.1.attn.k_      -1.2346e-05",
        "proj.Linear.parameters_",
        "grad.0",
    ]


def test_a_table_that_cannot_fit_becomes_blocks() -> None:
    columns = tuple(f"column{number}" for number in range(12))
    assert lines(columns, [tuple(range(12))], 40)[:3] == ["── 1 ──", "column0   0", "column1   1"]


def test_wide_letters_take_two_columns() -> None:
    assert columns_wide("层norm") == 6
    assert columns_wide("é") == columns_wide("e\u0301") == 1
    assert lines(("a", "b"), [("层", "x"), ("ab", "y")], 80)[2:] == ["层  x", "ab  y"]


def test_control_characters_do_not_break_the_columns() -> None:
    assert lines(("a", "b"), [("\x1b[31m", "x"), ("two\nlines", "y")], 80)[2:] == ["\\u001b[31m  x", "two\\nlines  y"]


cells = st.one_of(st.none(), st.integers(-9999, 9999), st.text("ab_./ ,é层", max_size=60))


@given(st.lists(st.tuples(cells, cells, cells), max_size=4), st.integers(40, 120))
def test_nothing_is_lost_and_everything_fits(rows: list[tuple[Any, ...]], width: int) -> None:
    text = aligned(("one", "two", "three_words_here"), rows, width)
    shown = re.sub(r"\s", "", text)
    for row in rows:
        for cell in row:
            for piece in re.split(r"[./,_ ]", str("" if cell is None else cell)):
                assert piece in shown
    longest = max((len(piece) for row in rows for cell in row for piece in re.split("[./,_ ]", str(cell))), default=0)
    if longest <= 8:  # single long words may stand out
        assert all(columns_wide(line) <= width for line in text.splitlines())


def test_folding() -> None:
    assert fold("one two three", 8) == ["one two", "    three"]
    assert fold("onetwothree", 8) == ["onetwothree"]


def test_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert terminal_width() == 120
    monkeypatch.setenv("COLUMNS", "3")
    assert terminal_width() == 40
    monkeypatch.setenv("COLUMNS", "")
    assert terminal_width() == UNBOUND  # pytest's stdout is not a terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "expected"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
    ],
)
def test_when_there_are_colours(
    stream: io.StringIO, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert colours.wanted(stream) is expected


def test_verdicts_are_coloured_and_the_head_of_a_table_is_not() -> None:
    text = "Verdict: different\n\nop   error  verdict\n───  ─────  ───────\nadd  error  pass\nsub  2      warning\n"
    shown = colours.coloured(text)
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == text
    assert "Verdict: \x1b[1;31mdifferent\x1b[0m\n" in shown
    assert "\nop   error  verdict\n" in shown
    assert "add  \x1b[31merror\x1b[0m  \x1b[32mpass\x1b[0m\n" in shown
    assert "\x1b[33mwarning\x1b[0m\n" in shown

"""How answers look at 80 columns: what was once seen to be wrong with them.

What a first look at the product found, what is so today, and the test that holds it, here if no file is named:

| Found | Today | Test |
|---|---|---|
| no answer fits 80 columns | tables fold; no line is longer | test_every_answer_fits_80_columns |
| norms that print the same on both sides | the value that differs | test_what_differs_is_what_is_printed |
| the worst ops list passes, percents of arguments, blanks | errors and warnings, a reason each | \
test_compare_fits_and_the_worst_ops_have_reasons_and_are_no_passes |
| a block per rank, the origin late, no next step | one table, the origin first, two commands at the end | \
test_many_ranks_begin_with_the_origin_and_end_with_what_to_ask |
| names that SQL must quote | `ls` shows them quoted | test_a_name_that_sql_must_quote_is_shown_quoted |
| `ls` shows a process's folder as the source | the path that was given | test_commands.py: \
test_ls_of_a_run_with_several_steps_and_a_name_that_needs_quotes |
| `show` finds beginnings of names only | parts, globs, modules | test_commands.py: \
test_show_finds_an_op_by_its_name_its_beginning_a_glob_or_a_part, test_show_finds_the_ops_of_a_module |
| `show`: backward first, sides apart, frames of torch | forward first, sides beside each other, own frames | \
test_show_puts_the_forward_first_and_both_sides_beside_each_other |
| `drift` prints blank columns | no empty field | test_equal_runs_that_do_not_drift_have_no_blank_columns |
| curves without names | a legend of golden and every run | test_picture.py: test_a_panel_has_golden_and_every_run |
| no `-h`, cut sentences, hidden choices, two spellings | mended | test_help_names_the_choices_and_cuts_no_sentence |
| help without groups | groups | test_at_home.py: test_the_help_has_groups_and_whole_sentences, \
test_the_help_of_every_command_is_whole_and_ends_with_an_example |
| no completion | bash, zsh, fish complete names | test_shells.py: test_names_are_completed |
| workbook: a file per rank, no overview | one file; the overview names the origin | test_book.py: \
test_the_overview_names_the_origin, test_all_rows_of_all_ranks_are_on_one_sheet |
| workbook: percents as texts, lists as messages, no colours | numbers, sentences, colours | test_book.py: \
test_findings_are_coloured_sentences_with_percent_formats |
| workbook: 313 pages of 515 rows, nothing frozen | landscape, as wide as can be read, frozen | test_book.py: \
test_it_is_made_to_be_read_and_printed |
| merge in the order of texts | the order of the run | test_merge.py: test_rows_stand_in_the_order_of_the_run, \
test_the_workbook_has_a_sheet_per_metric_in_the_order_of_the_run |
| Python: `**options: Any` | real signatures | test_session.py: \
test_methods_have_real_signatures_and_say_what_they_do |
| Python: commands without a method | a method each | test_session.py: test_every_command_has_a_method |
| `dir(lakeprobe)` lists what is imported | what is public | test_session.py: test_the_module_shows_what_is_public |
| no HTML, no names to complete in a notebook | both | test_session.py: test_an_answer_in_html; \
test_jupyter.py: test_lake_completes_lakes_and_forms, test_a_comparison_and_its_answers_have_tables |
| a typing error in a magic makes a lake | it makes nothing | test_jupyter.py: test_a_typo_opens_and_makes_nothing |
| no progress of what takes long | the seconds, rate and time left | test_at_home.py: \
test_progress_appears_after_a_second_on_a_terminal_only, test_the_pace_of_parts, \
test_a_long_query_says_how_long_it_runs_and_ctrl_c_ends_it |
| no `rm`, no `rename` | both | test_upkeep.py: test_removing, test_renaming_a_run_takes_its_comparisons_along |
| steps of one run cannot be compared | `run@step1` is a side | test_commands.py: \
test_ls_of_a_run_with_several_steps_and_a_name_that_needs_quotes |
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program import lakeprobe

from lakeprobe.table_text import columns_wide

DUMPS = Path(__file__).parents[1] / "data" / "dumps"
ODD = "peer.compare-1"
ANSWERS = (
    ("ls",),
    ("show", "layer_norm.3", "--comparison", ODD),
    ("first-diff", "ranks"),
    ("blame", ODD),
    ("overflow", "ranks"),
    ("comm", "ranks"),
    ("unmatched", "ranks"),
    ("merge", "ranks", "--metric", "L2norm diff", "--most", "2"),
    ("drift", "golden", "target"),
    ("sql", "from results where comparison = 'ranks' order by step, rank, row limit 2", "--format", "table"),
    ("doctor",),
    ("check",),
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("looks") / "lake"


@pytest.fixture(scope="module")
def compared(lake: Path) -> dict[str, str]:
    """What compare says of one rank and of four, by comparison, at 80 columns."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COLUMNS", "80")
        sides = {ODD: ("demo/target", "demo/golden"), "ranks": ("ranks/gelu_tanh", "ranks/golden")}
        return {
            name: lakeprobe("compare", DUMPS / target, DUMPS / golden, "--name", name, "--lake", lake).out
            for name, (target, golden) in sides.items()
        }


@pytest.fixture
def narrow(compared: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("COLUMNS", "80")
    return compared


def too_long(text: str) -> list[str]:
    """The lines of more than 80 columns that a blank could have broken, commands to copy aside."""
    lines = [line for line in text.splitlines() if columns_wide(line) > 80 and "lakeprobe " not in line]
    return [line for line in lines if " " in line.strip()]


@pytest.mark.sampled
@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_every_answer_fits_80_columns(narrow: dict[str, str], lake: Path, words: tuple[str, ...]) -> None:
    done = lakeprobe(*words, "--lake", lake)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) > 0 or words[0] == "check"
    assert too_long(done.out) == []


def test_compare_fits_and_the_worst_ops_have_reasons_and_are_no_passes(narrow: dict[str, str]) -> None:
    for text in narrow.values():
        assert too_long(text) == []
    heads = re.compile(r"the worst ops +verdict +norm error +reason\n[─ ]+\n((?:.+\n)+)")
    [table] = heads.findall(narrow[ODD])
    rows = [line for line in table.splitlines() if re.search(r"  (error|warning|pass)  ", line)]
    assert len(rows) == 5
    assert not any("  pass  " in row or "%" in row for row in rows)
    assert all(re.search(r"(error|warning) +[\d.e-]+ +\S", row) for row in rows)


def test_what_differs_is_what_is_printed(narrow: dict[str, str], lake: Path) -> None:
    """Two norms that print the same say nothing."""
    said = [*narrow.values(), *(lakeprobe(*words, ODD, "--lake", lake).out for words in (("first-diff",), ("blame",)))]
    pairs = [pair for text in said for pair in re.findall(r"(\S+)\s+against\s+([^\s,;.]\S*?)[,;]?(?=\s|$)", text)]
    assert len(pairs) > 6
    assert [pair for pair in pairs if pair[0] == pair[1]] == []


def test_many_ranks_begin_with_the_origin_and_end_with_what_to_ask(narrow: dict[str, str], lake: Path) -> None:
    text = narrow["ranks"]
    assert text.index("First difference: rank 1, Functional.gelu.1.forward") < text.index("the worst ops")
    assert text.count("the worst ops") == text.count("Verdict: ") == 1
    assert f"lakeprobe first-diff ranks --lake {lake}\n" in text
    assert f"lakeprobe blame ranks --lake {lake}\n" in text


def test_a_name_that_sql_must_quote_is_shown_quoted(narrow: dict[str, str], lake: Path) -> None:
    done = lakeprobe("ls", "--lake", lake)
    assert f"""lakeprobe sql 'from "{ODD}"'""" in done.out
    assert lakeprobe("sql", f'select count(*) from "{ODD}"', "--lake", lake).out.split() == ["count_star()", "2438"]


def test_show_puts_the_forward_first_and_both_sides_beside_each_other(narrow: dict[str, str], lake: Path) -> None:
    text = lakeprobe("show", "layer_norm.3", "--comparison", ODD, "--lake", lake).out
    assert text.index("Functional.layer_norm.3.forward") < text.index("Functional.layer_norm.3.backward")
    assert re.search(r"^input\.4 +float +0\.01 +1e-05 +differs$", text, re.MULTILINE)
    assert "torch/nn/modules" not in text


def test_equal_runs_that_do_not_drift_have_no_blank_columns(narrow: dict[str, str], lake: Path) -> None:
    assert lakeprobe("ingest", DUMPS / "demo" / "golden", "--run", "again", "--lake", lake).code == 0
    text = lakeprobe("drift", "golden", "again", "--lake", lake).out
    blank = [line for line in text.splitlines() if re.fullmatch(r"[a-z_]+ *", line)]
    assert text.startswith("again does not leave golden: 55 rows, at worst 0\n")
    assert blank == []


def test_runs_of_one_step_are_tables_and_no_blocks(narrow: dict[str, str], lake: Path) -> None:
    """What is the same in all rows stands above, so that the rest fits; numbers stand on the right."""
    drift = lakeprobe("drift", "golden", "target", "--lake", lake).out
    assert "\nrun target, rank 0, worst_at 0, steps 1:\nname  " in drift
    assert "── 1 ──" not in drift
    assert drift.startswith(
        "target leaves golden in step 0 on rank 0:\n    Module.layers.1.mlp.fc1.Linear.parameters_grad.0.weight\n"
        "  off by 0.003416, at worst 0.003416; 3 of 55 rows leave\n\nrun target, "
    )
    assert re.search(r" +0 +0\.003416 +0\.003416 +1$", drift, re.MULTILINE)
    comm = lakeprobe("comm", "ranks", "--lake", lake).out
    assert "── 1 ──" not in comm
    assert "step 0:\nkind            members       meetings  overwritten  elements  bytes  undecided\n" in comm
    assert comm.endswith(f"\nWhich rank it came from: lakeprobe first-diff ranks --lake {lake}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_choices_and_cuts_no_sentence(narrow: dict[str, str], flag: str) -> None:
    top = lakeprobe(flag).out
    assert "..." not in top.replace("[ARGS]...", "")
    assert max(map(columns_wide, top.splitlines())) <= 80
    # typer writes choices in [] or <>, by its release
    assert re.search(r"--tensors [<\[]copy\|link\|none[>\]]", lakeprobe("compare", flag).out)
    assert re.search(r"--fail-on [<\[]difference[>\]]", lakeprobe("first-diff", flag).out)
    assert "--fail " not in lakeprobe("first-diff", flag).out  # still understood, one spelling shown


def test_every_test_named_above_is_there() -> None:
    assert __doc__ is not None
    here = Path(__file__).name
    tests = Path(__file__).parents[1]
    for row in __doc__.splitlines()[6:]:
        where, named = here, re.findall(r"test_\w+\.py|test_\w+", row.rpartition(" | ")[2])
        assert named, row
        for name in named:
            if name.endswith(".py"):
                where = name
            else:
                (file,) = (path for path in tests.rglob(where) if path.parent.name != "peer")
                assert f"def {name}(" in file.read_text(encoding="utf-8"), name

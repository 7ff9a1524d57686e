"""The command line: what it says where, and the code that it ends with. A few tests run it as the real program."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program import dump_text, lakeprobe, listing, real_program, tensor, write_dump
from typer.testing import CliRunner

from lakeprobe import hints
from lakeprobe.cli import app
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout, upkeep
from lakeprobe.lake.layout import UnitKey
from lakeprobe.version import __version__

COMMANDS = ("ingest", "compare", "unmatched", "sql", "ls", "show", "check")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three dumps, and a lake that has two of them: `good` and `same` are equal, `bad` is off."""
    folder = tmp_path_factory.mktemp("commands")
    for name, norm in (("good", 1.0), ("same", 1.0), ("bad", 3.0), ("near", 1.2)):
        write_dump(folder / name, dump_text(add=1.0, mul=norm))
        ingest(folder / name, lake=folder / "lake")
    return folder


# ---- help -------------------------------------------------------------------------------------------------


def test_version_and_help() -> None:
    version = real_program("--version")
    assert (version.code, version.out, version.err) == (0, f"{__version__}\n", "")
    listed = real_program("--help")
    assert (listed.code, listed.err) == (0, "")
    assert all(re.search(rf"^  {command} ", listed.out, re.MULTILINE) for command in COMMANDS)


HELP = """
import contextlib, io, sys
from lakeprobe.cli import app
for command in {commands}:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        app([*command, "--help"], standalone_mode=False)
    example = f"Example: lakeprobe {{command[0]}}" if command else "Usage"
    assert example in text.getvalue(), text.getvalue()
heavy = {{"duckdb", "numpy", "pyarrow", "openpyxl", "pandas", "msgspec", "yaml"}} & set(sys.modules)
print(sorted(heavy))
"""


def test_help_has_examples_and_imports_nothing_heavy() -> None:
    commands = [[], *([command] for command in COMMANDS)]
    done = subprocess.run([sys.executable, "-c", HELP.format(commands=commands)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


ONE_COMMAND = """
import sys
from lakeprobe.cli import main
sys.argv = ["lakeprobe", "ls", "--help"]
try:
    main()
finally:
    print(sorted({"lakeprobe.commands.compare", "lakeprobe.commands.rules"} & set(sys.modules)), file=sys.stderr)
"""


def test_a_command_is_made_without_the_others() -> None:
    done = subprocess.run([sys.executable, "-c", ONE_COMMAND], capture_output=True, text=True)
    assert (done.stdout[:20], done.stderr) == ("Usage: lakeprobe ls ", "[]\n")


def test_the_program_ends_with_all_of_its_output_and_its_exit_functions() -> None:
    program = (
        "import atexit, sys; from lakeprobe.system import own_process;"
        "atexit.register(print, 'after', file=sys.stderr);"
        "own_process.end(lambda: (print('x' * 100_000, end=''), sys.exit(3)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "x" * 100_000, "after\n")


@pytest.mark.parametrize(
    "words",
    [("compare", "--nothing"), ("ingest", "a", "b"), ("nothing",), ("ls", "--nothing"), ("ingest", "a", "--jobs", "0")],
)
def test_wrong_usage(words: tuple[str, ...]) -> None:
    done = lakeprobe(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: ")


COMPARE = """
import sys
from lakeprobe.cli import main
sys.argv = ["lakeprobe", "compare", "bad", "good", "--lake", {lake!r}, "--output", {out!r}]
try:
    main()
finally:
    print(sorted({{"numpy", "pyarrow", "torch"}} & set(sys.modules)), file=sys.stderr)
"""


def test_comparing_statistics_in_the_lake_starts_without_what_only_reading_needs(folder: Path, tmp_path: Path) -> None:
    program = COMPARE.format(lake=str(folder / "lake"), out=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "The first op that differs: Torch.mul.0.forward" in done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


INGEST = """
import sys
from lakeprobe.system import own_process
own_process.prepare()
from lakeprobe.cli import main
sys.argv = ["lakeprobe", "ingest", {dump!r}, "--lake", {lake!r}]
try:
    main()
finally:
    unused = {{"pandas", "pydantic", "torch", "numpy.ma", "pyarrow.compute", "lakeprobe.tensors"}}
    print(sorted(unused & set(sys.modules)), file=sys.stderr)
"""


def test_reading_statistics_starts_without_what_only_looks_at_them(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")  # it is there, and pyarrow would import it
    program = INGEST.format(dump=str(folder / "good"), lake=str(tmp_path / "lake"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[0].startswith("run good (msprobe dump): 1 unit, 2 ops")
    assert done.stderr.splitlines()[-1] == "[]"


# ---- compare ----------------------------------------------------------------------------------------------


def test_comparing_equal_runs(folder: Path) -> None:
    done = real_program("compare", "same", "good", "--fail-on", "warning", "--lake", folder / "lake")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "same against good, by the rule same_framework"
    assert lines[2:4] == ["Verdict: equal", "  compared: all 4 rows of both sides; none differs"]
    assert "Differences: 4 equal, 0 noise, 0 different" in lines
    assert "Verdicts: 0 error, 0 warning, 4 pass" in lines


def test_comparing_runs_that_differ(folder: Path) -> None:
    lake = folder / "lake"
    done = lakeprobe("compare", "bad", "good", "--lake", lake)
    assert (done.code, done.err) == (0, "")
    assert "The first op that differs: Torch.mul.0.forward" in done.out
    assert "    output.0: error 2, torch.float32 [4] norm 3 against 1" in done.out
    assert lakeprobe("compare", "bad", "good", "--lake", lake, "--fail-on", "error").code == 1
    near = lakeprobe("compare", "near", "good", "--lake", lake, "--fail-on", "error")
    assert (near.code, "0 error, 1 warning" in near.out) == (0, True)
    assert lakeprobe("compare", "near", "good", "--lake", lake, "--fail-on", "warning").code == 1


def test_comparing_paths_with_files_to_write(folder: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    done = lakeprobe("compare", folder / "bad", folder / "good", "-o", tmp_path / "out", LAKEPROBE_LAKE=lake)
    assert done.code == 0
    first, second, written, advice = done.err.splitlines()
    assert first.startswith("run bad (msprobe dump): 1 unit, 2 ops, 4 tensor rows, ")
    assert second.startswith("run good (msprobe dump): 1 unit, 2 ops, 4 tensor rows, ")
    [path], [text] = (list((tmp_path / "out").glob(f"*.{form}")) for form in ("csv", "txt"))
    assert (written, advice) == (f"written: {path}", f"written: {text}")
    assert text.read_text() == done.out
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["Result"] for row in rows] == ["pass", "pass", "pass", "error"]
    again = lakeprobe("compare", folder / "bad", folder / "good", "--lake", lake)
    assert again.out.replace(f" --lake {lake}", "") == done.out
    assert again.err.splitlines() == [
        f"run {run}: nothing to do, the lake has 1 unit from the same dump" for run in ("bad", "good")
    ]


def test_what_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    lake = folder / "lake"
    before = listing(lake)
    nowhere = lakeprobe("compare", tmp_path / "nowhere", "good", "--lake", lake)
    assert nowhere.code == 2
    assert nowhere.line.startswith(f"lakeprobe: {lake} has no run {tmp_path}/nowhere; ")
    (tmp_path / "sly.sql").write_text("DROP VIEW pairs")
    rule = lakeprobe("compare", "bad", "good", "--sql", tmp_path / "sly.sql", "--name", "sly", "--lake", lake)
    assert rule.code == 2
    assert f"{tmp_path}/sly.sql: a rule may SELECT" in rule.line
    none = lakeprobe("compare", "bad", "good", "--lake", tmp_path / "none")
    assert none.code == 2 or none.code == 3
    assert str(tmp_path / "none") in none.line
    assert listing(lake) == before


# ---- ingest -----------------------------------------------------------------------------------------------


def test_ingest_again_and_replace(folder: Path, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "run", dump_text(add=1.0))
    lake = tmp_path / "lake"
    first = lakeprobe("ingest", dump, "--run", "npu", "--lake", lake)
    assert (first.code, first.out) == (0, "")
    read, hint = first.err.splitlines()
    assert re.fullmatch(r"run npu \(msprobe dump\): 1 unit, 1 op, 2 tensor rows, \d+ B read in \d+\.\d s", read)
    assert hint == f"next, read the run to compare it with: lakeprobe ingest PATH --lake {tmp_path / 'lake'}"
    before = listing(lake)
    again = lakeprobe("ingest", dump, "--run", "npu", LAKEPROBE_LAKE=lake)
    assert (again.code, again.out) == (0, "")
    assert again.err == "run npu: nothing to do, the lake has 1 unit from the same dump\n"
    assert listing(lake) == before
    write_dump(dump, dump_text(add=2.0))
    other = lakeprobe("ingest", dump, "--run", "npu", "--lake", lake)
    assert other.code == 3
    assert "run npu step 0 rank 0 is in" in other.line
    assert "--replace" in other.line
    assert listing(lake) == before
    assert lakeprobe("ingest", dump, "--run", "npu", "--lake", lake, "--replace").code == 0
    value = lakeprobe("sql", "select norm from tensors where role = 'output'", "--lake", lake)
    assert (value.code, value.out, value.err) == (0, "norm\n2.0\n", "")


def test_missing_side_files_are_noted(tmp_path: Path) -> None:
    done = lakeprobe(
        "ingest", write_dump(tmp_path / "run", dump_text(add=1.0), side_files=False), "--lake", tmp_path / "lake"
    )
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[1:-1] == ["  stack.json is missing", "  construct.json is missing"]


LEAVES = dump_text(add=1.0)
DAMAGED = {
    "truncated": LEAVES[:-20],
    "empty": "",
    "blank": "  \n",
    "not_utf8": LEAVES.encode().replace(b"add", b"\xff\xfe\xfd"),
    "utf16": LEAVES.encode("utf-16"),
    "wrong_data": '{"task": "statistics", "data": [1, 2]}',
    "no_data": '{"task": "statistics"}',
    "a_list": "[]",
    "wrong_entry": '{"data": {"Torch.add.0.forward": 3}}',
    "wrong_shape": LEAVES.replace("[4]", '"four"'),
    "wrong_statistic": LEAVES.replace('"Max": 1.0', '"Max": [1.0]'),
    "wrong_task": LEAVES.replace('"statistics"', "[1]"),
    "deep": '{"data": {"Torch.add.0.forward": {"input_args": ' + "[" * 100_000 + "]" * 100_000 + "}}}",
    "leaves_folder": LEAVES.replace('"shape"', '"data_name": "../../secret.npy", "shape"'),
    "twice": LEAVES.replace('"data": {', '"data": {"Torch.add.0.forward": {}, '),
}


def test_a_lake_stays_as_it_was_when_a_dump_is_damaged(folder: Path, tmp_path: Path) -> None:
    """Two kinds of damage as the real program; all of them below."""
    lake = folder / "lake"
    before = listing(lake)
    for name, run in (
        ("truncated", real_program),
        ("empty", lakeprobe),
        ("not_utf8", lakeprobe),
        ("deep", real_program),
    ):
        dump = write_dump(tmp_path / name, DAMAGED[name])
        done = run("ingest", dump, "--lake", lake)
        assert done.code == 2, (name, done)
        assert str(dump / "dump.json") in done.line, name
        assert listing(lake) == before, name


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_told_in_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeprobe.cli import main

    dump = write_dump(tmp_path / name, DAMAGED[name])
    monkeypatch.setattr(sys, "argv", ["lakeprobe", "ingest", str(dump), "--lake", str(tmp_path / "lake")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("lakeprobe: ")
    assert str(dump / "dump.json") in said.err
    assert list(listing(tmp_path / "lake")) == ["lake.yaml", "log/0000000001.json"]


# ---- lakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("ls",), ("check",), ("sql", "select 1"), ("show", "Torch")])
def test_no_lake(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = lakeprobe(*words, "--lake", tmp_path / "none")
    assert done.code == 3
    assert f"{tmp_path}/none is not a lake" in done.line
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("format", "advice"), [(1, "ingest the dumps into a new one"), (99, "install a newer lakeprobe")]
)
def test_a_lake_of_another_format(tmp_path: Path, format: int, advice: str) -> None:
    (tmp_path / "lake.yaml").write_text(f"format: {format}\n")
    done = lakeprobe("ls", LAKEPROBE_LAKE=tmp_path)
    assert done.code == 3
    assert f"has the format {format}, this lakeprobe 3; {advice}" in done.line


def test_check(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for name, text in (("a", dump_text(add=1.0)), ("b", dump_text(add=1.0, mul=2.0))):
        ingest(write_dump(tmp_path / name, text), lake=lake)
    good = lakeprobe("check", "--lake", lake)
    assert (good.code, good.out) == (0, "")
    assert re.fullmatch(r"\d+ audits, 0 with violations\n", good.err)
    other = layout.unit_folder(lake, UnitKey("b", 0, 0)) / "tensors.parquet"
    other.replace(layout.unit_folder(lake, UnitKey("a", 0, 0)) / "tensors.parquet")
    upkeep.remove(lake, "b")
    bad = lakeprobe("check", "--lake", lake)
    assert bad.code == 1
    assert "tensor_without_op: every tensor row belongs to an op of its unit." in bad.out
    assert "Torch.mul.0.forward" in bad.out
    assert "counts: a unit holds as many ops" in bad.out
    assert re.fullmatch(r"\d+ audits, 2 with violations\n", bad.err)


def test_check_tells_what_is_gone_and_mends_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for run in ("npu", "gpu"):
        assert lakeprobe("ingest", write_dump(tmp_path / run, dump_text(add=1.0)), "--lake", lake).code == 0
    [unit] = lake.glob("run=npu/step=0/rank=0/*")
    (unit / "ops.parquet").unlink()
    (lake / "run=gpu" / "step=0" / "rank=0" / "0-other").mkdir()
    bad = lakeprobe("check", "--lake", lake)
    assert bad.code == 1
    assert bad.out.splitlines() == [
        "a file is gone: run=npu/step=0/rank=0",
        f"left over: {lake}/run=gpu/step=0/rank=0/0-other",
    ]
    assert "2 things at odds with the log; mend it: lakeprobe check --repair" in bad.err
    mended = lakeprobe("check", "--repair", "--lake", lake)
    assert mended.code == 0, mended
    assert "removed, since nothing names it: run=gpu/step=0/rank=0/0-other" in mended.err
    assert lakeprobe("check", "--lake", lake).code == 0
    assert "gpu" in lakeprobe("ls", "--lake", lake).out
    assert "npu" not in lakeprobe("ls", "--lake", lake).out


def test_an_empty_text_is_no_path_and_no_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "good")
    lake = tmp_path / "lake"
    assert lakeprobe("ingest", "", "--lake", lake).line.endswith(
        "the path is empty; give one, or . for the current folder"
    )
    for words, what in (
        (("ingest", ".", "--run=", "--lake", lake), "run"),
        (("ingest", ".", "--run=", "--dry-run"), "run"),
        (("compare", "bad", "good", "--name", "", "--lake", folder / "lake"), "comparison"),
    ):
        done = lakeprobe(*words)
        assert done.code == 2
        assert done.line.startswith(f"lakeprobe: '' cannot name a {what}: use letters")
    assert not lake.exists()


def test_comparisons_whose_names_differ_by_case_only(tmp_path: Path) -> None:
    """SQL does not tell them apart, so the second is announced as what it is, and results has both."""
    lake = ("--lake", tmp_path / "lake")
    for run in ("a", "b"):
        ingest(write_dump(tmp_path / run, dump_text(add=1.0)), lake=tmp_path / "lake")
    first = lakeprobe("compare", "b", "a", "--name", "Pair", *lake)
    assert (first.code, first.err) == (0, "")
    second = lakeprobe("compare", "a", "b", "--name", "PAIR", *lake)
    assert (second.code, second.err) == (
        0,
        "PAIR and Pair differ by case only, so neither is a table in SQL; give one another name, or ask results\n",
    )
    rows = lakeprobe(
        "sql", "SELECT comparison, count(*) FROM results GROUP BY ALL ORDER BY 1", "--format", "csv", *lake
    )
    assert rows.out.splitlines()[1:] == ["PAIR,2", "Pair,2"]


def test_names_that_are_too_long_together(tmp_path: Path) -> None:
    lake = ("--lake", tmp_path / "lake")
    target, golden = "t" * 200, "g" * 200
    for run in (target, golden):
        ingest(write_dump(tmp_path / run[0], dump_text(add=1.0)), lake=tmp_path / "lake", run=run)
    done = lakeprobe("compare", target, golden, *lake)
    assert done.code == 2
    assert done.line.endswith("cannot name a comparison: it has 404 characters, and a name has 200 at most; "
                              "give it another with --name")  # fmt: skip
    assert lakeprobe("compare", target, golden, "--name", "short", *lake).code == 0


_COMPARED = "comparisons/comparison=npu_vs_gpu"


@pytest.mark.parametrize(
    ("file", "content", "command", "anew"),
    [
        ("run=npu/*/*/*/stacks.parquet", b"garbage" * 30, ("sql", "from stacks"), "read the dump again with --replace"),
        ("run=npu/*/*/*/stacks.parquet", b"garbage" * 30, ("compact", "npu"), "read the dump again with --replace"),
        ("run=npu/*/*/*/ops.parquet", b"", ("compare", "npu", "gpu"), "read the dump again with --replace"),
        ("run=npu/*/*/*/undumped.parquet", b"", ("view", "npu"), "read the dump again with --replace"),
        (f"{_COMPARED}/*/*/*/stacks.parquet", b"PAR1", None, "compare again"),
        (f"{_COMPARED}/*/*/*/results.parquet", b"PAR1", ("ls",), "compare again"),
        (f"{_COMPARED}/*/comparison.yaml", b"version: [", ("blame", "npu_vs_gpu"), "compare again"),
        (f"{_COMPARED}/*/comparison.yaml", b"", ("first-diff", "npu_vs_gpu"), "compare again"),
        (f"{_COMPARED}/*/comparison.yaml", b"version: 1", ("show", "Torch.add.0"), "compare again"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_by_who_reads_it_and_by_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    content: bytes,
    command: tuple[str, ...] | None,
    anew: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = tmp_path / "lake"
    for run in ("npu", "gpu"):
        ingest(write_dump(tmp_path / run, dump_text(add=1.0)), lake=lake)
    assert lakeprobe("compare", "npu", "gpu", "--lake", lake).code == 0
    [damaged] = lake.glob(file)
    damaged.write_bytes(content)
    advice = f"{anew}, or take it out: lakeprobe check --repair --lake {lake}"
    if command:
        met = lakeprobe(*command, "--lake", lake, *(("--name", "again") if command[0] == "compare" else ()))
        assert met.code == 3
        assert met.line.startswith(f"lakeprobe: {damaged} is damaged")
        assert met.line.endswith(f"; {advice}")
        assert "NoneType" not in met.line
    found = lakeprobe("check", "--lake", lake)
    assert (found.code, found.out) == (1, f"damaged: {damaged}; {advice}\n")
    thing = f"{_COMPARED}" if file.startswith("comparisons") else "run=npu/step=0/rank=0"
    mended = lakeprobe("check", "--repair", "--lake", lake)
    assert mended.code == 0
    assert f"taken out, since {damaged} is damaged: {thing}\n" in mended.err
    assert not damaged.exists()
    assert lakeprobe("check", "--lake", lake).code == 0
    assert "gpu" in lakeprobe("ls", "--lake", lake).out


def test_a_comparison_of_a_newer_release_is_not_damaged(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for run in ("npu", "gpu"):
        ingest(write_dump(tmp_path / run, dump_text(add=1.0)), lake=lake)
    assert lakeprobe("compare", "npu", "gpu", "--lake", lake).code == 0
    [file] = lake.glob(f"{_COMPARED}/*/comparison.yaml")
    file.write_text(re.sub("version: [0-9]+", "version: 999", file.read_text()))
    assert "install a newer lakeprobe" in lakeprobe("blame", "npu_vs_gpu", "--lake", lake).line
    assert lakeprobe("check", "--repair", "--lake", lake).code == 0
    assert file.exists()


def test_ls(folder: Path, tmp_path: Path) -> None:
    done = lakeprobe("ls", "--lake", folder / "lake")
    assert (done.code, done.err) == (0, "")
    words = [line.split() for line in done.out.splitlines()]
    assert words[0] == ["run", "dump", "steps", "ranks", "ops", "rows", "source"]
    assert [line[:9] for line in words if line and line[0] in ("bad", "good", "near", "same")] == [
        [run, "msprobe", "pytorch", "statistics", "L1", "1", "1", "2", "4"] for run in ("bad", "good", "near", "same")
    ]


def test_ls_of_a_run_with_several_steps_and_a_name_that_needs_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a path near the current folder is shown from there
    for step in (0, 1):
        write_dump(tmp_path / "t1.npu" / f"step{step}" / "rank0", dump_text(add=1.0))
    lake = ("--lake", tmp_path / "lake")
    assert lakeprobe("ingest", tmp_path / "t1.npu", *lake).code == 0
    assert lakeprobe("compare", "t1.npu@step0", "t1.npu@step1", "--name", "the.steps", *lake).code == 0
    done = lakeprobe("ls", *lake)
    assert "  t1.npu\n" in done.out  # the run's folder, not that of its first step
    assert """In SQL, put such names in double quotes: lakeprobe sql 'from "the.steps"' --lake """ in done.out
    assert done.out.endswith(
        f"Where the first difference is: lakeprobe first-diff the.steps --lake {tmp_path / 'lake'}\n"
    )


def test_show_of_a_run_that_is_not_there(folder: Path) -> None:
    done = lakeprobe("show", "Torch.add", "--run", "none", "--lake", folder / "lake")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"lakeprobe: {folder / 'lake'} has no run none; it has bad, good, near, same\n"


def test_show(folder: Path) -> None:
    lake = folder / "lake"
    done = lakeprobe("show", "Torch.add", "--run", "bad", "--lake", lake)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == ["Torch.add.0.forward  (step 0, rank 0)", "  in Module.model.Net.forward.0"]
    assert [line.split() for line in lines[3:7]] == [
        ["bad"], ["────────", "─────────────────", "───"], ["input.0", "torch.float32", "[4]"], ["max", "1"],
    ]  # fmt: skip
    assert lines[-1] == "  at File /job/train.py, line 12, in forward, x = self.head(x)"
    unknown = lakeprobe("show", "Torch.sub", "--lake", lake)
    assert unknown.code == 2
    assert "no op or module has Torch.sub in its name" in unknown.line
    assert lakeprobe("show", "mull", "--lake", lake).line.endswith("has mull in its name; did you mean mul?")


@pytest.mark.parametrize("pattern", ["Torch.mul.0.forward", "Torch.mul", "*mul*", "MUL", "ul.0"])
def test_show_finds_an_op_by_its_name_its_beginning_a_glob_or_a_part(folder: Path, pattern: str) -> None:
    done = lakeprobe("show", pattern, "--run", "bad", "--lake", folder / "lake")
    assert re.findall(r"^Torch\.\w+", done.out, re.MULTILINE) == ["Torch.mul"]


def test_show_finds_the_ops_of_a_module(folder: Path) -> None:
    done = lakeprobe("show", "model.net", "--run", "bad", "--lake", folder / "lake")
    assert re.findall(r"^Torch\.\w+", done.out, re.MULTILINE) == ["Torch.add"]


def test_show_puts_both_sides_of_a_comparison_beside_each_other(folder: Path) -> None:
    lake = ("--lake", folder / "lake")
    lakeprobe("compare", "bad", "good", "--name", "for_show", *lake)
    done = lakeprobe("show", "mul", *lake)
    rows = [line.split() for line in done.out.splitlines()]
    assert ["bad", "good", "error"] in rows
    assert ["input.0", "torch.float32", "[4]", "norm", "1", "norm", "1"] in rows
    assert ["norm", "3", "1", "2"] in rows
    assert done.out == lakeprobe("show", "mul", "--comparison", "for_show", *lake).out
    assert done.out == lakeprobe("show", "mul", "--run", "bad", "--run", "good", *lake).out


def test_show_puts_leaves_beside_each_other_as_the_comparison_pairs_them(tmp_path: Path) -> None:
    lake = ("--lake", tmp_path / "lake")
    for name, arguments in (("npu", [tensor(1.0), tensor(2.0), None]), ("gpu", [tensor(3.0), tensor(1.0)])):
        entry = {"input_args": arguments, "input_kwargs": {}, "output": [tensor()]}
        head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
        write_dump(tmp_path / name, json.dumps(head | {"data": {"Torch.mul.0.forward": entry}}))
    rows = tmp_path / "rows.yaml"
    rows.write_text("Torch.mul.0.forward.input.0: Torch.mul.0.forward.input.1\n")
    lakeprobe("compare", tmp_path / "npu", tmp_path / "gpu", "-dm", rows, "--name", "mapped", "--no-search", *lake)
    shown = [line.split()[:4] for line in lakeprobe("show", "mul", *lake).out.splitlines() if "put." in line]
    assert ["input.0", "/", "input.1", "torch.float32"] in shown
    alone = [" ".join(words).partition(" dtype")[0] for words in shown if "dtype" in words]
    assert alone == ["input.1 / –", "input.2", "– / input.0"]
    by_slot = lakeprobe("show", "mul", "--run", "npu", "--run", "gpu", *lake).out
    assert "/" not in by_slot.partition("  at ")[0]


def test_show_names_what_it_does_not_show(folder: Path) -> None:
    done = lakeprobe("show", "Torch", "--run", "bad", "--most", 1, "--lake", folder / "lake")
    assert done.out.splitlines()[-2:] == ["… and 1 more (--most shows them):", "  Torch.mul.0.forward"]


# ---- sql --------------------------------------------------------------------------------------------------

QUERY = "select 1 as a, 'x, \"y\"' as b, null as c, [1, 2] as d"


def test_forms_of_rows(folder: Path, tmp_path: Path) -> None:
    lake = folder / "lake"
    (tmp_path / "query.sql").write_text(QUERY)
    table = lakeprobe("sql", QUERY, "--format", "table", "--lake", lake)
    assert table.out.splitlines() == ["a  b       c  d", "─  ──────  ─  ──────", '1  x, "y"     [1, 2]']
    piped = lakeprobe("sql", "--lake", lake, stdin=QUERY)
    of_file = lakeprobe("sql", "--file", tmp_path / "query.sql", "--format", "csv", "--lake", lake)
    assert piped.out == of_file.out == 'a,b,c,d\n1,"x, ""y""",,"[1, 2]"\n'
    lines = lakeprobe("sql", QUERY, "--format", "json", LAKEPROBE_LAKE=lake)
    assert json.loads(lines.out) == {"a": 1, "b": 'x, "y"', "c": None, "d": [1, 2]}
    assert [(done.code, done.err) for done in (table, piped, of_file, lines)] == [(0, "")] * 4


def test_wrong_queries(folder: Path, tmp_path: Path) -> None:
    lake = folder / "lake"
    wrong = lakeprobe("sql", "select nothing from ops", "--lake", lake)
    assert wrong.code == 2
    assert 'column "nothing" not found' in wrong.line
    fails = lakeprobe("sql", "select error('while running')", "--lake", lake)
    assert fails.code == 2
    assert "while running" in fails.line
    both = lakeprobe("sql", "select 1", "--file", tmp_path / "x.sql", "--lake", lake)
    assert (both.code, both.line) == (2, "lakeprobe: give a query or --file, not both")
    none = lakeprobe("sql", "--lake", lake)
    assert none.code == 2
    assert "the query is empty" in none.line
    missing = lakeprobe("sql", "--file", tmp_path / "missing.sql", "--lake", lake)
    assert missing.code == 2
    assert f"{tmp_path}/missing.sql cannot be read as a query" in missing.line


def test_a_reader_that_goes_away(folder: Path) -> None:
    command = f"{sys.executable} -m lakeprobe sql 'from range(200000)' --lake {folder / 'lake'} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "range\n", "")


def test_odd_values(folder: Path) -> None:
    query = "select 'nan'::double as a, 'line\nbreak' as b, date '2026-01-02' as c, {'k': 1} as d, 'é' as e"
    lake = folder / "lake"
    lines = real_program("sql", query, "--format", "json", "--lake", lake, PYTHONIOENCODING="utf-8")
    row = json.loads(lines.out)
    assert (row["b"], row["c"], row["d"], row["e"]) == ("line\nbreak", "2026-01-02", {"k": 1}, "é")
    assert row["a"] == "NaN"
    assert real_program("sql", "select 'line\nbreak' as b", "--lake", lake).out == "b\nline\\nbreak\n"


def test_json_has_no_number_that_json_lacks(folder: Path) -> None:
    """A text stands for each, in depth, as in the files of results; and every key is a text."""
    query = (
        "select 'inf'::double as a, [1, '-inf'::float] as b, {'x': ['nan'::double]} as c, "
        "map {date '2026-01-02': 'nan'::float} as d, map {true: 1.5::decimal(3, 1)} as e, 'NaN' as f"
    )
    line = lakeprobe("sql", query, "--format", "json", "--lake", folder / "lake").out
    assert json.loads(line, parse_constant=pytest.fail) == {
        "a": "Infinity", "b": [1.0, "-Infinity"], "c": {"x": ["NaN"]}, "d": {"2026-01-02": "NaN"}, "e": {"true": "1.5"},
        "f": "NaN",
    }  # fmt: skip


def test_json_drops_no_column(folder: Path) -> None:
    query = "select 1 as a, 2 as b, 3 as a"
    refused = lakeprobe("sql", query, "--format", "json", "--lake", folder / "lake")
    assert refused.code == 2
    assert refused.line == (
        "lakeprobe: a is the name of more than one column, and JSON would keep one; rename it with AS"
    )
    assert lakeprobe("sql", query, "--format", "csv", "--lake", folder / "lake").out == "a,b,a\n1,2,3\n"


def test_a_statement_without_rows(folder: Path) -> None:
    done = lakeprobe("sql", "create temp table t as select 1", "--lake", folder / "lake")
    assert (done.code, done.err) == (0, "")


def test_tensor_files(tmp_path: Path) -> None:
    """A file that is missing is noted, and comparing says that the row is unreadable."""
    data = {"Torch.add.0.forward": {"input_args": [tensor(data_name="gone.npy")], "output": []}}
    text = json.dumps({"task": "tensor", "level": "L1", "framework": "pytorch", "data": data})
    for name in ("a", "b"):
        write_dump(tmp_path / name, text)
    done = lakeprobe("compare", tmp_path / "a", tmp_path / "b", "--lake", tmp_path / "lake", "--fail-on", "warning")
    assert done.code == 1
    assert done.err.count("  1 tensor rows name a file that is missing or cannot be read") == 2
    assert "1 unreadable" in done.out


def test_it_works_as_any_user_calls_it(folder: Path) -> None:
    program = Path(sys.executable).with_name("lakeprobe")
    if not os.access(program, os.X_OK):
        pytest.skip("lakeprobe is not installed beside this Python")
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert done.stdout == f"{__version__}\n"


@pytest.mark.parametrize("wrong", [["--no-such-option"], ["--format", "no"], ["--rank", "0"]])
def test_a_line_names_its_lake_in_its_own_hints_alone(tmp_path: Path, wrong: list[str]) -> None:
    assert lakeprobe("first-diff", "none", "--lake", tmp_path, *wrong).code > 1
    assert hints.command("ls") == "lakeprobe ls"


def test_so_does_a_line_that_python_runs(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["ls", "--lake", str(tmp_path)]).exit_code
    assert hints.command("ls") == "lakeprobe ls"

"""The program in odd places: other encodings, lakes that cannot be written or have odd names, and errors of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from program import dump_text, lakeprobe, real_program, write_dump

import lakeprobe as package
from lakeprobe.compare.run import compare
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout, store
from lakeprobe.session import Lake


def files(lake: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in lake.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name, norm in (("npu", 3.0), ("gpu", 1.0)):
        ingest(write_dump(tmp_path / name, dump_text(add=1.0, mul=norm)), lake=tmp_path / "lake")
    return tmp_path / "lake"


SIGNS = {"latin-1": "\\u0436-", "ascii": "\\u0436-", "cp437": "\\u0436─", "utf-8": "ж─"}
"""What is shown of ж─ in each encoding."""
SAID = (("compare", "npu", "gpu"), ("ls",), ("sql", "select 'ж─' as sign", "--format", "csv"))


@pytest.mark.sampled
@pytest.mark.parametrize("encoding", SIGNS)
def test_any_encoding_of_stdout(lake: Path, encoding: str) -> None:
    for words in SAID:
        done = lakeprobe(*words, "--lake", lake, encoding=encoding)
        assert (done.code, done.err) == (0, "")
    assert done.out == f"sign\n{SIGNS[encoding]}\n"


def test_the_encoding_of_a_real_stdout(lake: Path) -> None:
    for words in SAID:
        command = [sys.executable, "-m", "lakeprobe", *words, "--lake", str(lake)]
        done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("ascii") == f"sign\n{SIGNS['ascii']}\n"


def test_our_own_signs_have_a_form_in_ascii(lake: Path) -> None:
    command = [sys.executable, "-m", "lakeprobe"]
    ascii_only = {"PYTHONIOENCODING": "ascii", "LAKEPROBE_LAKE": str(lake)}
    done = subprocess.run(command, capture_output=True, env={**os.environ, **ascii_only})
    assert b"* Collect two runs,    lakeprobe run --config" in done.stdout
    assert b"\\u" not in done.stdout


CRASH = """
import sys
from lakeprobe import cli, output
def broken(*_): raise RuntimeError("unforeseen")
output.text = broken
sys.argv = ["lakeprobe", "rules", "list"]
cli.main()
"""


def test_an_error_of_its_own_is_no_finding() -> None:
    done = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.splitlines()[-1] == (
        "lakeprobe: unexpected RuntimeError; this is a bug of lakeprobe, please report it"
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("libarrow.so: failed to map segment from shared object"),
    ],
)
def test_too_little_memory_is_no_bug(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(store, "choose", refuse)
    done = lakeprobe("ls")
    assert done.code == 3
    assert done.line == (
        "lakeprobe: there is not enough memory; end other programs, raise the limit (ulimit -v, or that of the "
        "container), or choose fewer units with --rank and --step"
    )


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a folder that was removed."""
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()


@pytest.mark.usefixtures("nowhere")
def test_in_a_folder_that_was_removed_whole_paths_do(lake: Path, tmp_path: Path) -> None:
    dumps = [write_dump(tmp_path / name, dump_text(add=1.0, mul=norm)) for name, norm in (("npu", 3.0), ("gpu", 1.0))]
    assert "Verdict: different" in lakeprobe("compare", *dumps, "--lake", lake).out
    assert str(tmp_path / "npu") in lakeprobe("ls", "--lake", lake).out
    assert lakeprobe("sql", "select count(*) as n from dumps", "--lake", lake).out == "n\n2\n"


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("words", [(), ("ls",), ("compare", "/none", "/none"), ("ingest", ".")])
def test_in_a_folder_that_was_removed_others_are_told(lake: Path, words: tuple[str, ...]) -> None:
    done = lakeprobe(*words, **({"LAKEPROBE_LAKE": lake} if words == ("ingest", ".") else {}))
    assert done.code == 2
    assert done.line == (
        "lakeprobe: the working directory was removed; change to another folder, or give every path from / on, that of "
        "--lake too"
    )


def test_times_with_a_zone(lake: Path) -> None:
    done = real_program("sql", "select timestamptz '2026-01-02 03:04:05+00' as moment", "--lake", lake, TZ="UTC")
    assert (done.code, done.out) == (0, "moment\n2026-01-02 03:04:05+00:00\n")


def test_a_lake_that_cannot_be_written_is_compared_all_the_same(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path for path in lake.rglob("*") if path.suffix != ".lock")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(store, "is_writable", lambda path: path != lake)
    with package.open(lake) as opened:
        result = opened.compare("npu", "gpu")
        assert result.verdict == "different"
        assert result.rows.fetchall() != []
        assert result.lake.path != lake
        assert result.report.remarks == (
            f"{lake} is read-only; the comparison is in the lake {result.lake.path}, with its runs",
        )
        dump = write_dump(tmp_path / "new", dump_text(add=1.0, mul=3.0))
        assert opened.compare(dump, "npu").verdict == "equal"
    assert sorted(path for path in lake.rglob("*") if path.suffix != ".lock") == before


def test_a_noise_is_not_measured_where_it_cannot_be_kept(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "is_writable", lambda path: path != lake)
    with package.open(lake) as opened, pytest.raises(UsageError, match=f"^{lake} is read-only, and a noise is kept"):
        opened.measure_noise("gpu", "npu")


@pytest.mark.parametrize("again", ["gpu", "./gpu"])
def test_a_run_is_no_repeat_of_itself(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = lakeprobe("noise", "gpu", "npu", again, "--lake", lake)
    assert (done.code, done.line) == (
        2, f"lakeprobe: {again} is the golden run itself, which shows no noise; name another run of its program"
    )  # fmt: skip
    assert layout.noises(lake) == []


def test_a_changed_dump_and_a_lake_that_cannot_be_written(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(lake)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(store, "is_writable", lambda path: path != lake)
    assert compare("npu", "gpu", lake=lake, jobs=1).lake != lake
    write_dump(tmp_path / "npu", dump_text(add=1.0, mul=1.0))
    with package.open(lake) as opened:
        result = opened.compare("npu", "gpu")
    assert result.verdict == "equal"
    [npu] = [unit for report in result.report.ingested for unit in report.units if unit.key.run == "npu"]
    assert npu.has_changed
    assert result.report.remarks[-1].startswith(f"{lake} is read-only; the comparison is in the lake ")
    assert files(lake) == before


def test_reading_into_a_lake_that_cannot_be_written(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(LakeError, match=r"Permission denied; .*/lake is as it was before"):
        ingest(tmp_path / "npu", lake=lake, run="again")


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["a[b", "a[bc]", "[*]", "lk?", "l*", "{x}"])
def test_signs_of_patterns_in_the_path_of_a_lake(tmp_path: Path, name: str) -> None:
    neighbour = "lka" if name.startswith("l") else "ab"
    for folder, norm in ((neighbour, 5.0), (name, 1.0)):
        ingest(write_dump(tmp_path / "npu", dump_text(add=norm)), lake=tmp_path / folder)
    with package.open(tmp_path / name) as opened:
        assert opened.sql("SELECT norm FROM tensors WHERE role = 'output'").fetchall() == [(1.0,)]
        result = opened.compare("npu", "npu")
        assert (result.verdict, len(result.rows.fetchall())) == ("equal", 2)
        assert result.first_difference().is_equal
        [written] = result.write(tmp_path / "out")
        assert len(written.read_text().splitlines()) == 3


def test_a_backslash_in_the_path_of_a_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"cannot be a lake: DuckDB takes a backslash for a slash"):
        ingest(write_dump(tmp_path / "npu", dump_text(add=1.0)), lake=tmp_path / "a\\b")


def test_a_typo_makes_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"there is no lake at .*typo"):
        package.open(tmp_path / "typo")
    opened = Lake(tmp_path / "typo")
    with pytest.raises(LakeError, match="typo is not a lake"):
        opened.sql("SELECT 1")
    with pytest.raises(LakeError, match="is not a lake"):
        opened.sql("FROM dumps")
    assert not (tmp_path / "typo").exists()
    opened.ingest(write_dump(tmp_path / "npu", dump_text(add=1.0)))
    assert opened.sql("SELECT run FROM dumps").fetchall() == [("npu",)]


def test_two_runs_of_a_lake_need_no_names(lake: Path, tmp_path: Path) -> None:
    done = lakeprobe("compare", "--sql", "rules/same_framework.sql", "--lake", lake)
    assert (done.code, done.err) == (0, "gpu against npu, the two runs of the lake: the newer against the older\n")
    cross = tmp_path / "cross"
    bundled = Path(__file__).parents[1] / "data" / "dumps" / "cross"
    ingest(bundled / "ms_mix_stat" / "golden", lake=cross, run="ms")
    ingest(bundled / "pt_mix_stat" / "golden", lake=cross, run="pt")
    done = lakeprobe("compare", "--sql", "rules/cross_framework.sql", "--lake", cross)
    assert done.err.splitlines()[0] == "ms against pt, the two runs of the lake: MindSpore against PyTorch"
    assert done.out.splitlines()[0] == "ms against pt, by the rule cross_framework"
    ingest(bundled / "pt_mix_stat" / "golden", lake=cross, run="third")
    assert layout.runs(cross) == ["ms", "pt", "third"]
    done = lakeprobe("compare", "--lake", cross)
    assert (done.code, done.line) == (
        2, f"lakeprobe: give TARGET and GOLDEN; the lake {cross} has 3 runs: ms, pt, third",
    )  # fmt: skip


def test_tensors_in_sql_and_python(tmp_path: Path) -> None:
    import numpy as np

    sides = []
    for name, value in (("npu", 3.0), ("gpu", 1.0)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", np.full((2, 3), value))
        sides.append(tmp_path / name)
    compare(*sides, lake=tmp_path / "lake")
    measured = """
        select tensor_metrics(t.reference, g.reference).max_abs_error as error
        from tensor_references as t join tensor_references as g on t.run = 'npu' and g.run = 'gpu'
    """
    with package.open(tmp_path / "lake") as opened:
        assert opened.sql(measured).fetchall() == [(2.0,)]
        ((op, slot),) = opened.sql("SELECT op, slot FROM tensors WHERE run = 'npu'").fetchall()
        array = opened.tensor("npu", op, slot)
        assert (array.shape, array.dtype, array.tolist()) == ((2, 3), np.float64, [[3.0] * 3] * 2)
        with pytest.raises(package.errors.UsageError, match="has no tensor nothing"):
            opened.tensor("npu", "nothing", slot)
    done = lakeprobe("sql", measured, "--lake", tmp_path / "lake")
    assert (done.code, done.out) == (0, "error\n2.0\n")


@pytest.mark.parametrize(("words", "named"), [
    (("ingest", "p\udcff", "--lake", "other"), "p\\udcff"),
    (("ls", "--lake", "L\udcff"), "L\\udcff"),
    (("view", "npu", "-o", "v\udcff.html"), "v\\udcff.html"),
    (("note", "npu", "\udcff"), "\\udcff"),
    (("sql", "select '\udcff'"), "select '\\udcff'"),
    (("sql", "select 1 as a", "--write", "e\udcff.csv"), "e\\udcff.csv"),
    (("compare", "npu", "gpu", "-o", "o\udcff"), "o\\udcff"),
])  # fmt: skip
def test_words_that_are_not_utf8(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    done = lakeprobe(*words)
    assert (done.code, done.line) == (2, f"lakeprobe: {named} is not UTF-8 text; rename it, or write it in UTF-8")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_places_that_are_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment, the working directory, and the library name them, without words on the command line."""
    says = "\\udcff/lake is not UTF-8 text; rename it, or write it in UTF-8"
    assert lakeprobe("ls", LAKEPROBE_LAKE="L\udcff/lake").line.endswith(f"L{says}")
    with pytest.raises(UsageError) as raised:
        package.open("L\udcff/lake", create=True)
    assert str(raised.value).endswith(f"L{says}")
    here = tmp_path / "here\udcff"
    here.mkdir()
    monkeypatch.chdir(here)
    assert lakeprobe("ls").line == f"lakeprobe: {tmp_path}/here{says}"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_query_on_stdin_that_is_not_utf8(lake: Path, locale: str) -> None:
    command = [sys.executable, "-m", "lakeprobe", "sql", "--lake", str(lake)]
    variables = {**os.environ, "LC_ALL": locale, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, input=b"select '\xff'", capture_output=True, env=variables)
    says = b"lakeprobe: select '\\udcff' is not UTF-8 text; rename it, or write it in UTF-8\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", says)


@pytest.mark.parametrize("folder", ["a", "a\udcff"])
def test_a_dump_with_names_that_are_not_utf8(tmp_path: Path, folder: str) -> None:
    place = tmp_path / "npy" / folder
    place.mkdir(parents=True)
    name = "bad\udcff.npy" if folder == "a" else "good.npy"
    np.save(place / name, np.ones(3))
    done = lakeprobe("ingest", tmp_path / "npy", "--lake", tmp_path / "lake", "--run", "x")
    wrong = "a/bad\\udcff.npy" if folder == "a" else "a\\udcff"
    says = f"lakeprobe: {tmp_path}/npy/{wrong} has a name that is not UTF-8 text; rename it"
    assert (done.code, done.line) == (2, says)
    assert package.open(tmp_path / "lake", create=True).runs == []


def test_a_link_whose_name_is_not_utf8_is_left_out(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "npu", dump_text(add=1.0))
    (dump / "way\udcff").symlink_to(tmp_path)
    done = lakeprobe("ingest", dump, "--lake", tmp_path / "lake")
    assert done.code == 0
    assert f"left out: {dump}/way\\udcff; it is a link that leads out of {dump}" in done.err


@pytest.mark.parametrize(("words", "code"), [
    (("rules", "list"), 0),
    (("compare", "npu", "gpu", "--fail-on", "error", "--lake", "{lake}"), 1),
    (("ls", "--nothing"), 2),
    (("sql", "select", "--lake", "{lake}"), 2),
    (("rm", "npu", "--lake", "{lake}"), 2),
    (("ls", "--lake", "{lake}.none"), 3),
])  # fmt: skip
def test_a_stderr_that_takes_nothing(lake: Path, words: tuple[str, ...], code: int) -> None:
    """As on a full disk: the messages are lost, and the exit code says what happened all the same."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "lakeprobe", *(word.format(lake=lake) for word in words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    assert done.returncode == code

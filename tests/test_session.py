"""A lake in Python: queries as rows and frames, and views that follow what comes into the lake."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import lakeprobe
from lakeprobe import colours, schema
from lakeprobe.commands.layout import functions
from lakeprobe.errors import LakeError, LakeprobeError, RuleError, UsageError
from lakeprobe.lake import store
from lakeprobe.reports import notebook
from lakeprobe.schema import UNIT_TABLES
from lakeprobe.session import ComparisonResult, Lake


def write_dump(folder: Path, norm: float = 1.0) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5}
    data = {"Torch.add.0.forward": {"input_args": [leaf | {"Norm": 1.0}], "output": [leaf | {"Norm": norm}]}}
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    return folder


@pytest.fixture
def lake(tmp_path: Path):
    write_dump(tmp_path / "npu", 2.0)
    write_dump(tmp_path / "gpu", 1.0)
    with lakeprobe.open(store.create(tmp_path / "lake")) as opened:
        yield opened


def test_an_empty_lake_has_all_views_with_their_columns(lake: Lake) -> None:
    assert (lake.runs, lake.comparisons) == ([], [])
    for name in (*UNIT_TABLES, "results"):
        relation = lake.sql(f"FROM {name}")
        key = "comparison" if name == "results" else "run"
        assert relation.columns == [key, "step", "rank", *(column.name for column in schema.table(name).columns)]
        assert relation.fetchall() == []


def test_views_have_the_same_types_when_they_are_empty(lake: Lake, tmp_path: Path) -> None:
    def types() -> dict[str, list[tuple[str, str]]]:
        return {
            name: [row[:2] for row in lake.sql(f"DESCRIBE {name}").fetchall()]
            for name in ("dumps", "ops", "tensors", "stacks", "contents", "results")
        }

    empty = types()
    lake.compare(tmp_path / "npu", tmp_path / "gpu")
    assert types() == empty


def test_views_follow_what_comes_in(lake: Lake, tmp_path: Path) -> None:
    report = lake.ingest(tmp_path / "npu")
    assert (report.run, lake.runs) == ("npu", ["npu"])
    assert lake.sql("SELECT run, ops FROM dumps").fetchall() == [("npu", 1)]
    result = lake.compare("npu", tmp_path / "gpu", name="ünder test - 1")
    assert lake.runs == ["gpu", "npu"]
    assert lake.comparisons == ["ünder test - 1"] == [result.name]


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["plain", "two words", "a-b+c.d", "SELECT", "ünïcode", "1", "x.results"])
def test_a_comparison_is_a_view_under_its_name(lake: Lake, tmp_path: Path, name: str) -> None:
    lake.compare(tmp_path / "npu", tmp_path / "gpu", name=name)
    rows = lake.sql(f'SELECT row, difference FROM "{name}" ORDER BY row').fetchall()
    assert rows == [(0, "equal"), (1, "different")]
    assert lake.sql(f'FROM "{name}"').columns == lake.sql("FROM results").columns[1:]
    with lakeprobe.open(lake.path) as again:
        assert again.sql(f'SELECT count(*) FROM "{name}"').fetchall() == [(2,)]


def test_rows(lake: Lake, tmp_path: Path) -> None:
    lake.ingest(tmp_path / "npu")
    query = "SELECT row, norm FROM tensors ORDER BY row"
    assert lake.sql(query).fetchall() == [(0, 1.0), (1, 2.0)]
    assert lake.sql(query).to_arrow_table().to_pylist() == [{"row": 0, "norm": 1.0}, {"row": 1, "norm": 2.0}]
    assert lake.sql("SELECT norm FROM tensors WHERE row = ?", [1]).fetchall() == [(2.0,)]
    assert lake.sql("SELECT norm FROM tensors WHERE row = $row", {"row": 0}).fetchall() == [(1.0,)]


def test_frames(lake: Lake, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    lake.ingest(tmp_path / "npu")
    query = "SELECT row, norm FROM tensors ORDER BY row"
    assert lake.sql(query).df().to_dict("list") == {"row": [0, 1], "norm": [1.0, 2.0]}
    assert lake.sql(query).pl().rows() == [(0, 1.0), (1, 2.0)]


def test_a_result(lake: Lake, tmp_path: Path) -> None:
    result = lake.compare(tmp_path / "npu", tmp_path / "gpu")
    assert repr(result) == "<comparison npu_vs_gpu of npu with gpu>"
    assert str(result).startswith("npu against gpu, by the rule same_framework\n")
    assert [first.op for first in result.summary().first] == ["Torch.add.0.forward"]
    assert [row[4] for row in result.rows.select("comparison, step, rank, row, norm_diff").fetchall()] == [0.0, 1.0]
    assert [path.suffix for path in result.write(tmp_path / "out", "json")] == [".json"]
    again = lake.comparison("npu_vs_gpu")
    assert (again.report, again.summary()) == (None, result.summary())
    with pytest.raises(UsageError, match="has no comparison other; it has npu_vs_gpu"):
        lake.comparison("other")
    with pytest.raises(UsageError, match="--format doc is unknown; use one of csv, xlsx, json, parquet"):
        result.write(tmp_path, "doc")


def test_wrong_queries(lake: Lake) -> None:
    for query, says in (("SELEKT 1", "syntax error"), ("FROM nothing", "nothing"), ("SELECT ? + 1", "parameter")):
        with pytest.raises(RuleError, match=says):
            lake.sql(query)
    assert issubclass(RuleError, LakeprobeError)
    assert lake.sql("SELECT 1").fetchall() == [(1,)]


def test_a_comparison_that_is_damaged(lake: Lake, tmp_path: Path) -> None:
    lake.compare(tmp_path / "npu", tmp_path / "gpu")
    path = lake.comparison("npu_vs_gpu").stored.folder / "comparison.yaml"
    for text in (b"comparison: [", b"comparison: x", b"pairs: 3", b"\xff"):
        path.write_bytes(text)
        with pytest.raises(LakeError, match=r"comparison\.yaml is damaged (?s:.*); compare again"):
            lake.comparison("npu_vs_gpu")


def test_closing(tmp_path: Path) -> None:
    lake = lakeprobe.open(store.create(tmp_path / "lake"))
    assert repr(lake) == f"Lake('{tmp_path / 'lake'}')"
    lake.close()
    lake.close()
    with pytest.raises(RuleError, match="closed"):
        lake.sql("SELECT 1")
    with pytest.raises(KeyError), lakeprobe.open(tmp_path / "lake", create=True) as other:
        raise KeyError
    with pytest.raises(RuleError, match="closed"):
        other.sql("SELECT 1")


def test_a_forgotten_lake_closes_itself(tmp_path: Path) -> None:
    lake = lakeprobe.open(tmp_path / "lake", create=True)
    connection = lake._connection
    del lake
    gc.collect()
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("SELECT 1")


def test_a_lake_stays_open_for_a_relation(tmp_path: Path) -> None:
    path = store.create(tmp_path / "lake")
    assert lakeprobe.open(path).sql("SELECT 1").fetchall() == [(1,)]
    lake = lakeprobe.open(path)
    lake.sql("SET threads = 1")  # has no rows
    rows, closes = lake.sql("SELECT 1"), lake._finalizer
    del lake
    gc.collect()
    assert closes.alive
    del rows
    gc.collect()
    assert not closes.alive


def test_where_the_lake_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEPROBE_LAKE", str(tmp_path / "named"))
    with lakeprobe.open(create=True) as lake:
        assert lake.path == tmp_path / "named"
    monkeypatch.delenv("LAKEPROBE_LAKE")
    with lakeprobe.open(create=True) as lake:
        assert lake.path == tmp_path / "lake"
    with pytest.raises(LakeError, match=r"there is no lake at .*/lake; .*create=True"):
        lakeprobe.open()
    assert not (tmp_path / "lake").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(LakeError, match="is not a lake and not empty"):
        lakeprobe.open(tmp_path / "other", create=True)


SCRIPT = """
import sys
import lakeprobe
lake = lakeprobe.open(sys.argv[1], create=True)
result = lake.compare(sys.argv[2], sys.argv[3])
kept = lake.sql("FROM tensors")
relation = result.rows
print(len(kept.fetchall()))
"""


def test_a_script_that_never_closes_the_lake_says_nothing(tmp_path: Path) -> None:
    npu, gpu = write_dump(tmp_path / "npu"), write_dump(tmp_path / "gpu")
    command = [sys.executable, "-W", "error", "-c", SCRIPT, tmp_path / "lake", npu, gpu]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_tables_of_names_can_be_joined(tmp_path: Path) -> None:
    with lakeprobe.open(store.create(tmp_path / "lake")) as lake:
        renamed = "SELECT golden_api FROM api_table WHERE target_api = 'Functional.dense'"
        assert lake.sql(renamed).fetchall() == [("Functional.linear",)]
        assert lake.sql("SELECT golden_class FROM class_table WHERE target_class = 'Dense'").fetchall() == [("Linear",)]
        gamma = "target_api = 'Cell.LayerNorm' AND target_slot = 'parameters.gamma'"
        slots = lake.sql(f"SELECT golden_slot FROM slot_table WHERE {gamma}")
        assert slots.fetchall() == [("parameters.weight",)]


def test_the_module_shows_what_is_public() -> None:
    assert dir(lakeprobe) == [
        "PrecisionDebugger", "__version__", "callbacks", "collect", "load_ipython_extension", "monitor", "open",
        "preflight",
    ]  # fmt: skip
    for name in dir(lakeprobe):
        getattr(lakeprobe, name)


@pytest.mark.parametrize("owner", [Lake, ComparisonResult])
def test_methods_have_real_signatures_and_say_what_they_do(owner: type) -> None:
    for name, method in inspect.getmembers(owner, inspect.isfunction):
        if name.startswith("_"):
            continue
        assert method.__doc__, name
        signature = inspect.signature(method)
        assert not any(part.kind is part.VAR_KEYWORD for part in signature.parameters.values()), name
        assert signature.return_annotation is not inspect.Signature.empty, name
        for part in list(signature.parameters.values())[1:]:
            assert part.annotation not in (inspect.Parameter.empty, "Any"), (name, part.name)


def test_every_command_has_a_method() -> None:
    methods = {name for owner in (Lake, ComparisonResult) for name in dir(owner)}
    named = {"first-diff": "first_difference", "comm": "communication", "noise": "measure_noise"}
    of_the_program = {"run", "doctor", "examples"}  # about programs, the machine, and files of this package
    commands = {name for name, _ in functions() if " " not in name} - of_the_program
    assert {named.get(name, name.replace("-", "_")) for name in commands} <= methods


def test_an_answer_in_html(lake: Lake, tmp_path: Path) -> None:
    lake.compare(tmp_path / "npu", tmp_path / "gpu")
    result = lake["npu_vs_gpu"]
    page = result._repr_html_()
    assert '<span style="font-weight:bold;color:#d1242f">different</span>' in page
    assert lake._ipython_key_completions_() == ["npu_vs_gpu"]
    assert colours.html_cell("lakeprobe pytorch statistics") == "lakeprobe pytorch statistics"  # no command to copy
    assert colours.html_cell("error") == '<span style="color:#d1242f">error</span>'
    assert notebook.page(lambda: "<b>&\x1b").endswith(">&lt;b&gt;&amp;\\u001b</pre>")
    assert "npu" in lake._repr_html_()


def test_show_check_and_ls(lake: Lake, tmp_path: Path) -> None:
    lake.compare(tmp_path / "npu", tmp_path / "gpu")
    assert lake.show("add").splitlines()[0] == "Torch.add.0.forward  (step 0, rank 0)"
    assert lake.check() == []
    assert lake.ls().startswith("run  dump")
    for path in lake.path.glob("run=npu/**/ops.parquet"):
        path.unlink()
    assert [line.partition(":")[0] for line in lake.check()] == ["a file is gone"]


def test_comparisons_whose_names_differ_in_case_only_share_no_view(lake: Lake, tmp_path: Path) -> None:
    """DuckDB takes one for the other: from "Same" had the rows of "same"."""
    lake.compare(tmp_path / "npu", tmp_path / "gpu", name="same")
    assert len(lake.sql("FROM same").fetchall()) == 2
    lake.compare(tmp_path / "gpu", tmp_path / "npu", name="Same")
    for name in ("same", "Same"):
        with pytest.raises(RuleError, match=r"(?i)same does not exist"):
            lake.sql(f'FROM "{name}"')
    assert lake.sql("SELECT comparison, count(*) FROM results GROUP BY ALL ORDER BY ALL").fetchall() == [
        ("Same", 2),
        ("same", 2),
    ]
    lake.rm("Same")
    assert len(lake.sql("FROM same").fetchall()) == 2

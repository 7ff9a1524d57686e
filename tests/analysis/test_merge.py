"""A merge has every row and rank once, with msprobe's cells, whatever it is made from and written to.

The oracle is a merge in plain Python of the csv files that `compare` writes in msprobe's layout.
"""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

import lakeprobe
from lakeprobe.analysis import merge as merging
from lakeprobe.analysis.merge import Merge, Sheet
from lakeprobe.errors import DumpError, UsageError
from lakeprobe.lake import comparison
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.connection import connect
from lakeprobe.lake.views import define
from lakeprobe.readers import merge_config
from lakeprobe.reports import files, merge_files

NAN, INF = float("nan"), float("inf")
DIFFERENCES = ("Max diff", "Min diff", "Mean diff", "L2norm diff")
ERRORS = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
STATISTICS = (*DIFFERENCES, *ERRORS, "Requires_grad Consistent")
Cells = dict[str, dict[str, str | None]]
"""Row names with their cells by rank."""


def tensor(value: float, digest: str | None = None) -> dict[str, Any]:
    statistics = {"Max": value, "Min": -value, "Mean": value / 7, "Norm": value * 3}
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], **statistics, "requires_grad": True}
    return leaf | ({"md5": digest} if digest else {})


def call(value: float, *others: Any, digest: str | None = None) -> dict[str, Any]:
    return {"input_args": [tensor(value, digest), *others], "input_kwargs": {}, "output": [tensor(value * 2, digest)]}


GROUP = {"type": "torch.ProcessGroup", "group_ranks": [0, 2, 10], "group_id": "x"}
RANKS = {
    0: {
        "Distributed.all_reduce.0.forward": call(1.5, GROUP),
        "Distributed.all_reduce.2.forward": call(NAN),
        "Distributed.all_reduce.10.forward": call(0.3),
        "Distributed.all_reduce_coalesced.0.forward": call(4),
        "Module.Distributed.all_reduce.Net.forward.0": call(5),
        "Tensor.a.0.forward": call(INF),
    },
    2: {
        "Distributed.all_reduce.0.forward": call(1.25),
        "Torch.only_here.0.forward": call(1),
    },
    10: {
        "Distributed.all_reduce.0.forward": call(3e-7, {"type": "str", "value": "NPU:7.0  x"}),
        "Distributed.all_reduce.10.forward": call(1),
        "Tensor.a.0.forward": call(1),
    },
}
GOLDEN = {
    0: RANKS[0] | {"Distributed.all_reduce.10.forward": call(0.1), "Distributed.all_reduce.2.forward": call(1)},
    2: {"Distributed.all_reduce.0.forward": call(1.0), "Distributed.all_reduce.2.forward": call(8)},
    10: RANKS[10] | {"Distributed.all_reduce.10.forward": call(0)},
}


def write_dumps(folder: Path, steps: Iterable[int], ranks: dict[int, dict[str, Any]], task: str = "statistics") -> Path:
    for step in steps:
        for rank, data in ranks.items():
            place = folder / f"step{step}" / f"rank{rank}"
            place.mkdir(parents=True)
            head = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None}
            (place / "dump.json").write_text(json.dumps({**head, "data": data}))
            (place / "stack.json").write_text("{}")
            (place / "construct.json").write_text("{}")
    return folder


def compared(folder: Path, name: str, target: Path, golden: Path) -> StoredComparison:
    with lakeprobe.open(folder / "lake", create=True) as lake:
        lake.compare(target, golden, name=name)
    return comparison.load(folder / "lake", name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the comparisons one (a step), two (two steps) and md5, and result files of one: csv, xlsx."""
    folder = tmp_path_factory.mktemp("made")
    for name, steps in (("one", [0]), ("two", [3, 4])):
        sides = write_dumps(folder / f"{name}_t", steps, RANKS), write_dumps(folder / f"{name}_g", steps, GOLDEN)
        stored = compared(folder, name, *sides)
        for format in ("csv", "xlsx"):
            files.write(stored, folder / name / format, format)
    same, other = "0badf00d", "12345678"
    target, golden = (
        {rank: {"Torch.mul.0.forward": call(1, digest=digest)} for rank, digest in enumerate(digests)}
        for digests in ((same, same), (same, other))
    )
    compared(
        folder, "md5", write_dumps(folder / "m_t", [0], target, "md5"), write_dumps(folder / "m_g", [0], golden, "md5")
    )
    return folder


def merged(made: Path, *sources: str, **options: Any) -> tuple[Merge, list[tuple[Sheet, Cells]]]:
    """The merge of sources (comparisons, or paths below `made`), and its sheets with their cells."""
    named = [str(made / source) if (made / source).exists() and source not in NAMES else source for source in sources]
    comparisons, paths = merging.sources(made / "lake", named)
    plan = merging.plan(comparisons, paths, **options)
    with connect() as connection:
        if comparisons:  # as the command, which opens no lake to merge files
            define(connection, made / "lake")
        return plan, [(sheet, cells(sheet)) for sheet in merging.sheets(connection, plan)]


NAMES = ("one", "two", "md5")


def cells(sheet: Sheet) -> Cells:
    rows = sheet.rows.fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: dict(zip(sheet.rows.columns[1:], row[1:], strict=True)) for row in rows}


def oracle(folder: Path, metric: str, begins: str = "") -> Cells:
    """What a merge of msprobe's csv files below `folder` shows, in plain Python."""
    merge: Cells = {}
    paths = {int(re.findall(r"rank(\d+)_", path.name)[0]): path for path in folder.glob("*.csv")}
    for rank, path in sorted(paths.items()):
        with path.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                name = row["NPU Name"] if row["NPU Name"] != "N/A" else row["Bench Name"]
                if not name.startswith(begins):
                    continue
                cell = whole(row[metric])
                if cell in ("N/A", "unsupported", "Nan"):
                    cell = f"NPU:{whole(row['NPU max'])}  Bench:{whole(row['Bench max'])}"
                merge.setdefault(name, dict.fromkeys(f"rank{other}" for other in sorted(paths)))[f"rank{rank}"] = cell
    return merge


def whole(text: str) -> str:
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["one", "one/csv", "one/xlsx"])
def test_every_cell_of_every_metric(made: Path, source: str) -> None:
    plan, sheets = merged(made, source)
    assert plan.metrics == STATISTICS
    assert plan.ranks == (0, 2, 10)
    assert [sheet.metric for sheet, _ in sheets] == list(STATISTICS)
    for sheet, found in sheets:
        expected = oracle(made / "one" / "csv", sheet.metric)
        assert all(list(row) == ["rank0", "rank2", "rank10"] for row in found.values())
        assert found.keys() == expected.keys()
        for name, row in expected.items():
            assert all(agree(found[name][rank], cell) for rank, cell in row.items()), (sheet.metric, name)


def agree(first: str | None, second: str | None) -> bool:
    """The same text; a workbook that openpyxl wrote may differ in the last of 17 digits."""
    if first == second or first is None or second is None:
        return first == second
    try:
        return math.isclose(float(first), float(second), rel_tol=1e-15)
    except ValueError:
        return False


def test_cells_that_can_be_checked_by_eye(made: Path) -> None:
    _, [(_, found)] = merged(made, "one", metrics=["Max diff"])
    assert found["Distributed.all_reduce.0.forward.input.0"] == {"rank0": "0", "rank2": "0.25", "rank10": "0"}
    assert found["Distributed.all_reduce.10.forward.input.0"] == {
        "rank0": str(0.3 - 0.1),
        "rank2": None,
        "rank10": "1",
    }
    assert found["Distributed.all_reduce.2.forward.input.0"] == {
        "rank0": "NPU:Nan  Bench:1",  # no difference to NaN
        "rank2": "NPU:N/A  Bench:8",  # only golden has it
        "rank10": None,
    }
    assert found["Torch.only_here.0.forward.output.0"] == {"rank0": None, "rank2": "NPU:2  Bench:N/A", "rank10": None}
    assert found["Tensor.a.0.forward.input.0"] == {"rank0": "0", "rank2": None, "rank10": "0"}


def test_rows_stand_in_the_order_of_the_run(made: Path) -> None:
    """The call 10 is before 2 in the order of texts."""
    _, [(_, found)] = merged(made, "one", metrics=["Max diff"], apis=["Distributed.all_reduce"])
    all_reduces = [name for name in found if name.startswith("Distributed.all_reduce.")]
    assert [name.split(".")[2] for name in all_reduces if name.endswith("output.0")] == ["0", "2", "10"]


APIS = {
    ("Distributed.all_reduce",): ["Distributed.all_reduce."],
    ("Distributed.all_reduce", "Tensor.a"): ["Distributed.all_reduce.", "Tensor.a."],
    ("Distributed.all_reduce.10",): ["Distributed.all_reduce.10."],
    ("Distributed.all_reduce.0.forward.output.0",): ["Distributed.all_reduce.0.forward.output.0"],
    ("Distributed",): ["Distributed."],
    ("Distributed.all_reduce", "Nothing.such"): ["Distributed.all_reduce."],
}


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["one", "one/csv"])
@pytest.mark.parametrize("apis", APIS)
def test_an_api_is_the_beginning_of_a_name_up_to_a_dot(made: Path, source: str, apis: tuple[str, ...]) -> None:
    _, [(sheet, found)] = merged(made, source, apis=apis, metrics=["Max diff"])
    expected: Cells = {}
    for begins in APIS[apis]:
        expected |= oracle(made / "one" / "csv", "Max diff", begins)
    assert found == expected
    assert sheet.absent == tuple(api for api in apis if api == "Nothing.such")


@pytest.mark.parametrize(
    "api", ["Distributed.all_reduc", ".*", "all_reduce", "Distributed,all_reduce", "a|Tensor", "("]
)
def test_an_api_is_no_pattern(made: Path, api: str) -> None:
    with pytest.raises(UsageError, match="no row belongs to "):
        merged(made, "one", apis=[api])


def test_a_rank_without_any_of_the_rows_keeps_its_column(made: Path) -> None:
    _, [(_, found)] = merged(made, "one", apis=["Torch.only_here"], metrics=["Max diff"])
    assert found == {
        f"Torch.only_here.0.forward.{slot}": {"rank0": None, "rank2": f"NPU:{value}  Bench:N/A", "rank10": None}
        for slot, value in (("input.0", 1), ("output.0", 2))
    }


def test_metrics_come_as_asked(made: Path) -> None:
    plan, sheets = merged(made, "one", metrics=["NormRelativeErr", "Result", "Max diff", "Result"])
    assert plan.metrics == ("NormRelativeErr", "Result", "Max diff")
    assert sheets[1][1] == oracle(made / "one" / "csv", "Result")


def test_every_step_has_its_sheets(made: Path) -> None:
    plan, sheets = merged(made, "two", metrics=["Max diff", "Min diff"])
    assert plan.steps == (3, 4)
    assert [(sheet.step, sheet.metric) for sheet, _ in sheets] == [
        (step, metric) for step in (3, 4) for metric in ("Max diff", "Min diff")
    ]
    for sheet, found in sheets:
        assert found == oracle(made / "two" / "csv" / f"step{sheet.step}", sheet.metric)
    plan, sheets = merged(made, "two", metrics=["Max diff"], steps=[4])
    assert [sheet.step for sheet, _ in sheets] == [4]


@pytest.mark.parametrize("source", ["one", "one/csv"])
def test_ranks_are_columns(made: Path, source: str) -> None:
    plan, [(_, found)] = merged(made, source, metrics=["Max diff"], ranks=[10, 0])
    everything = oracle(made / "one" / "csv", "Max diff")
    chosen = {name: {rank: row[rank] for rank in ("rank0", "rank10")} for name, row in everything.items()}
    assert plan.ranks == (0, 10)
    assert found == {name: row for name, row in chosen.items() if any(row.values())}


def test_a_rank_that_no_source_has(made: Path) -> None:
    with pytest.raises(UsageError, match="no source has the rank 7"):
        merged(made, "one", "two", ranks=[7])


def test_a_step_without_any_of_the_rows_is_empty(tmp_path: Path) -> None:
    data = {0: RANKS[0]}, {0: RANKS[10]}
    for step, ranks in enumerate(data):
        for side in ("target", "golden"):
            write_dumps(tmp_path / side, [step], ranks)
    stored = compared(tmp_path, "both", tmp_path / "target", tmp_path / "golden")
    plan = merging.plan([stored], apis=["Distributed.all_reduce_coalesced"], metrics=["Max diff"])
    with connect() as connection:
        define(connection, tmp_path / "lake")
        first, second = list(merging.sheets(connection, plan))
        assert (len(first.rows), len(second.rows)) == (2, 0)
    assert (first.absent, second.absent) == ((), ("Distributed.all_reduce_coalesced",))


def test_old_results_join_a_comparison(made: Path, tmp_path: Path) -> None:
    for path in (made / "one" / "csv").glob("*rank0_*"):
        shutil.copy(path, tmp_path / path.name.replace("rank0_", "rank7_"))
    plan, [(sheet, found)] = merged(made, "two", str(tmp_path), metrics=["Max diff"], steps=[3])
    assert plan.ranks == (0, 2, 7, 10)
    expected = oracle(made / "two" / "csv" / "step3", "Max diff")
    for name, row in expected.items():
        assert {rank: cell for rank, cell in found[name].items() if rank != "rank7"} == row
        assert found[name]["rank7"] == row["rank0"]
    assert found.keys() == expected.keys()
    assert sheet.step == 3


def test_a_metric_that_only_old_results_have_is_blank_elsewhere(made: Path, tmp_path: Path) -> None:
    for path in (made / "one" / "csv").glob("*rank0_*"):
        header, row, *_ = path.read_text(encoding="utf-8").splitlines(keepends=True)
        cells = next(csv.reader([row]))
        cells.insert(8, "0.125")
        with (tmp_path / path.name.replace("rank0_", "rank7_")).open("w", newline="", encoding="utf-8") as file:
            file.write(header.replace("Max diff", "My error,Max diff"))
            csv.writer(file, lineterminator="\n").writerow(cells)
    plan, sheets = merged(made, "one", str(tmp_path))
    assert plan.metrics == (*DIFFERENCES, *ERRORS, "My error", "Requires_grad Consistent")
    name = "Distributed.all_reduce.0.forward.input.0"
    found = {sheet.metric: row[name] for sheet, row in sheets}
    assert found["My error"] == {"rank0": None, "rank2": None, "rank7": "0.125", "rank10": None}
    assert found["Max diff"] == {"rank0": "0", "rank2": "0.25", "rank7": "0", "rank10": "0"}


def test_rows_of_one_name_are_all_there(made: Path, tmp_path: Path) -> None:
    for path in (made / "one" / "csv").glob("*rank0_*"):
        shutil.copy(path, tmp_path)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        twice = [*lines, lines[1].replace(",0,", ",0.5,"), lines[1].replace(",0,", ",0.75,")]
        (tmp_path / path.name.replace("rank0_", "rank1_")).write_text("".join(twice), encoding="utf-8")
    _, [(_, found)] = merged(made, str(tmp_path), metrics=["Max diff"])
    name = "Distributed.all_reduce.0.forward.input.0"
    assert found[name] == {"rank0": "0", "rank1": "0"}
    assert found[f"{name} (2)"] == {"rank0": None, "rank1": "0.5"}
    assert found[f"{name} (3)"] == {"rank0": None, "rank1": "0.75"}
    assert len(found) == len(oracle(made / "one" / "csv", "Max diff", "")) - 2 + 2  # less rank2's own, and two more


def test_rows_named_after_tensor_files_are_the_same_rows(made: Path, tmp_path: Path) -> None:
    for path in (made / "one" / "csv").glob("*rank0_*"):
        text = path.read_text(encoding="utf-8")
        shutil.copy(path, tmp_path)
        kwargs = text.replace("forward.input.0", "forward.kwargs.0")
        (tmp_path / path.name.replace("rank0_", "rank1_")).write_text(kwargs, encoding="utf-8")
    _, [(_, found)] = merged(made, str(tmp_path), metrics=["Max diff"])
    assert all(row["rank0"] == row["rank1"] for row in found.values())


def test_a_result_in_parts_is_merged_as_a_whole(made: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    for path in (made / "one" / "csv").glob("*.csv"):
        header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for part, piece in enumerate((lines[:5], lines[5:]), start=1):
            (parts / f"{path.stem}_part_{part}.csv").write_text("".join([header, *piece]), encoding="utf-8")
    assert len(list(parts.iterdir())) == 6
    _, whole = merged(made, "one/csv")
    _, found = merged(made, str(parts))
    assert [(sheet.metric, list(cells.items())) for sheet, cells in found] == [
        (sheet.metric, list(cells.items())) for sheet, cells in whole
    ]


def test_digests_stand_side_by_side(made: Path) -> None:
    plan, sheets = merged(made, "md5")
    assert plan.metrics == ("Result", "MD5", "Requires_grad Consistent")
    name = "Torch.mul.0.forward.input.0"
    assert [found[name] for _, found in sheets] == [
        {"rank0": "pass", "rank1": "skipped"},  # only an input's digest differs: it was taken late
        {"rank0": "0badf00d", "rank1": "NPU:0badf00d  Bench:12345678"},
        {"rank0": "True", "rank1": "True"},
    ]


def test_a_second_merge_on_the_same_connection(made: Path) -> None:
    stored = comparison.load(made / "lake", "one")
    with connect() as connection:
        define(connection, made / "lake")
        first = list(merging.sheets(connection, merging.plan([stored], metrics=["Max diff"])))
        second = list(merging.sheets(connection, merging.plan([stored], metrics=["Min diff"], apis=["Tensor.a"])))
        assert cells(first[0]) == oracle(made / "one" / "csv", "Max diff")
        assert cells(second[0]) == oracle(made / "one" / "csv", "Min diff", "Tensor.a.")


# ---- files -------------------------------------------------------------------------------------------------


def written(made: Path, folder: Path, format: str, *sources: str, **options: Any) -> list[Path]:
    comparisons, paths = merging.sources(made / "lake", sources)
    plan = merging.plan(comparisons, paths, **options)
    with connect() as connection:
        define(connection, made / "lake")
        return merge_files.write(connection, plan, merging.sheets(connection, plan), folder, format)


def test_the_workbook_has_a_sheet_per_metric_in_the_order_of_the_run(made: Path, tmp_path: Path) -> None:
    (path,) = written(made, tmp_path, "xlsx", "one")
    assert re.fullmatch(r"multi_ranks_compare_merge_\d{14}\.xlsx", path.name)
    book = load_workbook(path)
    assert book.sheetnames == list(STATISTICS)
    order = {sheet.metric: list(found) for sheet, found in merged(made, "one")[1]}
    for metric in STATISTICS:
        header, *rows = book[metric].iter_rows(values_only=True)
        assert header == ("NPU Name", "rank0", "rank2", "rank10")
        expected = oracle(made / "one" / "csv", metric)
        assert [row[0] for row in rows] == order[metric] != sorted(expected)
        assert (book[metric].print_title_rows, book[metric].page_setup.orientation) == ("$1:$1", "landscape")
        for name, *found in rows:
            assert all(
                agree(None if cell is None else whole(str(cell)), text)
                for cell, text in zip(found, expected[name].values(), strict=True)
            ), (metric, name)


def test_csv_has_a_file_per_metric(made: Path, tmp_path: Path) -> None:
    paths = written(made, tmp_path, "csv", "one", metrics=["Max diff", "MeanRelativeErr"])
    stems = [re.sub(r"_\d{14}", "", path.name) for path in paths]
    assert stems == ["multi_ranks_compare_merge_Max_diff.csv", "multi_ranks_compare_merge_MeanRelativeErr.csv"]
    for path, metric in zip(paths, ("Max diff", "MeanRelativeErr"), strict=True):
        with path.open(newline="", encoding="utf-8") as lines:
            found = {
                row.pop("NPU Name"): {rank: cell or None for rank, cell in row.items()} for row in csv.DictReader(lines)
            }
        assert found == oracle(made / "one" / "csv", metric)


def test_parquet_has_the_numbers(made: Path, tmp_path: Path) -> None:
    paths = written(
        made, tmp_path, "parquet", "two", metrics=["Max diff", "MaxRelativeErr", "Requires_grad Consistent"]
    )
    assert [path.parent.name for path in paths] == ["step3", "step4"]
    with connect() as connection:
        rows = connection.sql("FROM read_parquet($paths)", params={"paths": [str(path) for path in paths]})
        types = ["INTEGER", "INTEGER", "VARCHAR", "VARCHAR", "DOUBLE", "VARCHAR"]
        assert rows.columns == ["step", "rank", "name", "metric", "value", "text"]
        assert [str(kind) for kind in rows.types] == types
        found = {(step, rank, name, metric): (value, text) for step, rank, name, metric, value, text in rows.fetchall()}
    expected = {
        (step, int(rank.removeprefix("rank")), name, metric): text
        for step in (3, 4)
        for metric in ("Max diff", "MaxRelativeErr", "Requires_grad Consistent")
        for name, row in oracle(made / "two" / "csv" / f"step{step}", metric).items()
        for rank, text in row.items()
        if text is not None
    }
    assert {key: text for key, (_, text) in found.items()} == expected
    for key, (value, text) in found.items():
        assert value == number(text), key


def number(text: str) -> float | None:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    try:
        return float(text)
    except ValueError:
        return None


def test_nothing_is_left_of_a_file_that_could_not_be_written(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no row belongs to Nothing"):
        written(made, tmp_path, "xlsx", "one", apis=["Nothing"])
    assert list(tmp_path.iterdir()) == []


# ---- the command -------------------------------------------------------------------------------------------


def run(made: Path, *arguments: str) -> str:
    from typer import Typer

    from lakeprobe.commands.merge import merge

    app = Typer()
    app.command()(merge)
    ended = CliRunner().invoke(app, [*arguments, "--lake", str(made / "lake")])
    if ended.exception and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_the_terminal_says_how_much_more_there_is(made: Path) -> None:
    text = run(made, "one", "--metric", "Max diff", "--most", "2")
    lines = text.splitlines()
    assert lines[0] == "Max diff, step 0"
    assert lines[1].split() == ["NPU", "Name", "rank0", "rank2", "rank10"]
    assert lines[3].startswith("Distributed.all_reduce.0.forward.input.0")
    count = len(oracle(made / "one" / "csv", "Max diff"))
    assert lines[5] == f"… and {count - 2} more rows: --most {count}, or files with -o"


def test_csv_on_stdout_is_whole(made: Path) -> None:
    rows = list(csv.DictReader(run(made, "two", "--format", "csv").splitlines()))
    assert len(rows) == 2 * sum(len(oracle(made / "two" / "csv" / "step3", metric)) for metric in STATISTICS)
    assert list(rows[0]) == ["step", "metric", "NPU Name", "rank0", "rank2", "rank10"]


def test_msprobes_config_is_taken_as_it_is(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("api:\n- Distributed.all_reduce\n- Tensor.a\ncompare_index:\n- Max diff\n- NormRelativeErr\n")
    rows = list(csv.DictReader(run(made, "one", "--format", "csv", "--config", str(config)).splitlines()))
    assert {row["metric"] for row in rows} == {"Max diff", "NormRelativeErr"}
    assert {row["NPU Name"].split(".")[1] for row in rows} == {"all_reduce", "a"}


def test_files_need_no_lake(made: Path, tmp_path: Path) -> None:
    from_files = run(tmp_path, str(made / "one" / "csv"), "--format", "csv").replace("\n,", "\n0,")
    assert from_files == run(made, "one", "--format", "csv")


# ---- bad input ---------------------------------------------------------------------------------------------


def test_a_source_that_is_neither(made: Path) -> None:
    with pytest.raises(UsageError, match="has no comparison three; it has md5, one, two; there is no such path either"):
        merging.sources(made / "lake", ["one", "three"])


def test_nothing_to_merge() -> None:
    with pytest.raises(UsageError, match="no sources to merge"):
        merging.plan()


@pytest.mark.parametrize("metric", ["max diff", "Cosine", "", "NPU max", "Max diff; DROP TABLE results"])
def test_an_unknown_metric(made: Path, metric: str) -> None:
    with pytest.raises(UsageError, match=r" is not a metric of statistics; use Max diff, Min diff, .*, Result$"):
        merged(made, "one", metrics=[metric])


def test_a_rank_in_two_sources(made: Path) -> None:
    for sources in (["one", "one/csv"], ["one", "one"]):
        with pytest.raises(UsageError, match="two of the sources have rank 0 of step 0"):
            merged(made, *sources)


def test_sources_of_different_layouts(made: Path) -> None:
    with pytest.raises(UsageError, match="compare digest and statistics, which have different metrics"):
        merged(made, "md5", "one/csv")


def test_files_with_a_comparison_of_several_steps(made: Path) -> None:
    with pytest.raises(UsageError, match="the result files have no step, the comparison has 2; choose one with --step"):
        merged(made, "two", "one/csv")


def test_a_step_that_is_not_there(made: Path) -> None:
    with pytest.raises(UsageError, match="two: no unit has the step 7"):
        merged(made, "two", steps=[7])


def test_an_empty_folder(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no result file of msprobe"):
        merged(made, str(tmp_path))


def test_a_truncated_workbook(made: Path, tmp_path: Path) -> None:
    for path in (made / "one" / "xlsx").iterdir():
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data[: len(data) // 2])
    with pytest.raises(DumpError, match=r"rank0_\d+\.xlsx cannot be read as a table"):
        merged(made, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no APIs"),
        ("- Distributed.all_reduce", "names no APIs"),
        ("api:\n", "line 1: api is missing or empty"),
        ("api: []\n", "line 1: api is missing or empty"),
        ("compare_index:\n- Max diff\n", "line 1: api is missing or empty"),
        ("api: Distributed.all_reduce\n", "line 1: api is not a list"),
        ("api:\n- [a]\n", "line 1: an element of api is not a name"),
        ("api:\n- ''\n", "line 1: an element of api is not a name"),
        ("api:\n- a\ncompare_index: Max diff\n", "line 3: compare_index is not a list"),
        ("api:\n- a\nindex:\n- Max diff\n", "line 3: the key 'index' is unknown; write api or compare_index"),
        ("api: [a\n", "it is not YAML"),
        ("api: !!python/object:os.system [a]\n", "the tag"),
    ],
)
def test_a_bad_config(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(problem)) as raised:
        merge_config.read_config(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "text", ["api:\n- a.b\n- c\n", "api: [a.b, c]\ncompare_index:\n", "api: [a.b, c]\ncompare_index: []\n"]
)
def test_a_config_without_metrics(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert merge_config.read_config(path) == (("a.b", "c"), ())


def test_formats_and_places_that_do_not_go_together(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--format xlsx writes files; name their folder with -o"):
        run(made, "one", "--format", "xlsx")
    with pytest.raises(UsageError, match="--format table is for the terminal"):
        run(made, "one", "--format", "table", "-o", str(tmp_path))
    with pytest.raises(UsageError, match="--format json is unknown; use one of csv, xlsx, parquet"):
        written(made, tmp_path, "json", "one")

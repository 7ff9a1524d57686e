"""Transfers: who takes part in each collective, send and receive, against what the dump.json files say."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_dumps import WORLD, Call, Group, job, write
from hypothesis import given, settings
from hypothesis import strategies as st
from real_dumps import DUMPS, needs_dumps
from sampling import examples
from typer.testing import CliRunner

from lakeprobe import resources
from lakeprobe.analysis.communication import communication
from lakeprobe.cli import app
from lakeprobe.session import Lake
from lakeprobe.tensors.collectives import BLOCK, Piece, agreement
from lakeprobe.tensors.reference import TensorReference

RUN = DUMPS / "B_pt_dist" / "L1_stat" / "golden"
Rows = list[dict[str, Any]]
Ops = dict[str, tuple[list[Any], dict[str, Any], list[Any]]]


def transfers_of(folder: Path, dump: Path) -> Rows:
    """The transfers of a dump; given and taken as the slots of their rows."""
    with Lake(folder / "lake") as lake:
        lake.ingest(dump, run="run", jobs=1)
        found = lake.transfers("run")
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        slots = {tuple(key): slot for *key, slot in lake.sql("SELECT step, rank, row, slot FROM tensors").fetchall()}
    for row in rows:
        for side in ("given", "taken"):
            row[side] = row[side] and [slots[row["step"], row["rank"], place] for place in row[side]]
    return rows


def by_op(rows: Rows, rank: int) -> dict[str, dict[str, Any]]:
    return {row["op"].split(".", 1)[1].removesuffix(".forward"): row for row in rows if row["rank"] == rank}


def test_a_run_without_calls_has_no_rows_of_the_same_columns(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.ingest(write(tmp_path / "dump", job(), "statistics"), run="job", jobs=1)
        lake.ingest(resources.examples()["demo"] / "golden", run="alone", jobs=1)
        some, none = lake.transfers("job"), lake.transfers("alone")
        assert (none.columns, none.types, none.fetchall()) == (some.columns, some.types, [])


def test_every_call_of_the_job_has_its_group_partners_and_tensors(tmp_path: Path) -> None:
    rows = transfers_of(tmp_path, write(tmp_path / "dump", job(), "statistics"))
    one = by_op(rows, 1)
    world, others = [0, 1, 2, 3], [0, 2, 3]
    expected = {
        "broadcast.0": ("broadcast", None, world, 1, 0, ["input.0"], ["output.0"], others),
        "all_reduce.0": ("all_reduce", "sum", world, None, 0, ["input.0"], ["output.0"], others),
        "all_reduce.3": ("all_reduce", "max", world, None, 3, ["input.0"], ["output.0"], others),
        "all_reduce.4": ("all_reduce", "avg", [3, 1], None, 0, ["input.0"], ["output.0"], [3]),
        "all_reduce.5": ("all_reduce", "sum", world, None, 4, ["input.0"], ["output.0"], others),
        "reduce.0": ("reduce", "sum", world, 2, 0, ["input.0"], None, others),
        "all_gather.0": ("all_gather", None, world, None, 0, ["input.1"], [f"output.0.{r}" for r in world], others),
        "gather.0": ("gather", None, world, 3, 0, ["input.0"], None, others),
        "scatter.0": ("scatter", None, world, 0, 0, None, ["output.0"], others),
        "reduce_scatter.0": (
            "reduce_scatter", "sum", world, None, 0, [f"input.1.{r}" for r in world], ["output.0"], others,
        ),
        "reduce_scatter_tensor.0": ("reduce_scatter", "sum", world, None, 1, ["input.1"], ["output.0"], others),
        "all_to_all_single.0": ("all_to_all", None, world, None, 0, ["input.1"], ["output.0"], others),
        "all_to_all_single.1": ("all_to_all", None, world, None, 1, ["input.1"], ["output.0"], others),
        "recv.0": ("recv", None, world, 0, 0, None, ["output.0"], [0]),
    }  # fmt: skip
    columns = ("kind", "reduction", "members", "peer", "turn", "given", "taken", "partners")
    assert {op: tuple(one[op][column] for column in columns) for op in expected} == expected
    three = by_op(rows, 3)
    assert three["gather.0"]["taken"] == [f"output.1.{r}" for r in world]
    assert by_op(rows, 0)["scatter.0"]["given"] == [f"input.1.{r}" for r in world]
    assert by_op(rows, 2)["all_gather_into_tensor.0"]["members"] == [2, 0]
    assert by_op(rows, 2)["broadcast.0"]["given"] is None
    batch = {(row["rank"], row["slot"]): row for row in rows if row["slot"]}
    assert {(key, row["kind"], row["peer"]) for key, row in batch.items()} == {
        *(((r, "input.0.0"), "send", (r + 1) % WORLD) for r in range(WORLD)),
        *(((r, "input.0.1"), "recv", (r - 1) % WORLD) for r in range(WORLD)),
    }
    assert batch[1, "input.0.1"]["taken"] == ["output.0.1"]
    assert batch[1, "input.0.0"]["given"] == ["input.0.0"]
    # the plain send of 0 to 1 came before that of the batch
    assert batch[1, "input.0.1"]["meeting"] == batch[0, "input.0.0"]["meeting"] == "send 0 → 1 #1"
    assert not any(row["overwritten"] or row["absent"] for row in rows)


def leaf(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(value), "Max": 1.0, "Min": 0.0,
                "Mean": 0.5, "Norm": 1.0}  # fmt: skip
    if isinstance(value, list):
        return [leaf(item) for item in value]
    return None if value is None else {"type": type(value).__name__, "value": value}


def write_ops(folder: Path, ranks: dict[int, Ops], frame: str) -> Path:
    """A dump of ops given as positional arguments, keywords and outputs; a tuple is a tensor of that shape."""
    for rank, ops in ranks.items():
        data = {
            op: {
                "input_args": leaf(args),
                "input_kwargs": {name: leaf(value) for name, value in keywords.items()},
                "output": leaf(outputs),
            }
            for op, (args, keywords, outputs) in ops.items()
        }
        place = folder / "step0" / f"rank{rank}"
        place.mkdir(parents=True)
        (place / "dump.json").write_text(
            json.dumps({"task": "statistics", "level": "L1", "framework": frame, "data": data})
        )
        (place / "stack.json").write_text("{}")
        (place / "construct.json").write_text("{}")
    return folder


def test_functions_of_mindspore_return_what_the_rank_takes(tmp_path: Path) -> None:
    name = "tp-0-1"
    ops: dict[int, Ops] = {
        rank: {
            "Distributed.all_reduce.0.forward": ([(2,)], {"group": name}, [(2,), None]),
            "Distributed.all_gather_into_tensor.0.forward": ([(2,), name], {}, [(4,), None]),
            "Distributed.broadcast.0.forward": ([(2,)], {"src": 1, "group": "hccl_world_group"}, [(2,)]),
            "Distributed.scatter_tensor.0.forward": ([(4,)], {}, [(2,)]),
            "Distributed.all_to_all_with_output_shape.0.forward": ([[(1,), (2,)], [(1,), (2,)]], {}, [(1,), (2,)]),
            "Distributed.send.0.forward": ([(2,), 1 - rank], {}, []),
            "Distributed.recv.0.forward": ([(2,)], {"src": 1 - rank}, [(2,)]),
        }
        for rank in (0, 1)
    }
    rows = transfers_of(tmp_path, write_ops(tmp_path / "dump", ops, "mindspore"))
    found = {
        op: (row["kind"], row["members"], row["peer"], row["given"], row["taken"], row["partners"])
        for op, row in by_op(rows, 1).items()
    }
    assert found == {
        "all_reduce.0": ("all_reduce", [0, 1], None, ["input.0"], ["output.0"], [0]),
        "all_gather_into_tensor.0": ("all_gather", [0, 1], None, ["input.0"], ["output.0"], [0]),
        "broadcast.0": ("broadcast", [0, 1], 1, ["input.0"], ["output.0"], [0]),
        "scatter_tensor.0": ("scatter", [0, 1], 0, None, ["output.0"], [0]),
        "all_to_all_with_output_shape.0": (
            "all_to_all", [0, 1], None, ["input.1.0", "input.1.1"], ["output.0", "output.1"], [0],
        ),
        "send.0": ("send", [0, 1], 0, ["input.0"], None, [0]),
        "recv.0": ("recv", [0, 1], 0, None, ["output.0"], [0]),
    }  # fmt: skip
    assert not any(row["overwritten"] for row in rows)


def test_keywords_group_roots_and_rank_lists(tmp_path: Path) -> None:
    ops: dict[int, Ops] = {
        rank: {
            "Distributed.all_gather_into_tensor.0.forward": (
                [], {"group": "[4, 2]", "input_tensor": (2,), "output_tensor": None}, ["x", (2,), (4,)],
            ),
            "Distributed._reduce_scatter_base.0.forward": (
                [None, (4,)], {"op": "RedOpType.MIN", "group": "[4, 2]"}, [(2,), (4,), "RedOpType.MIN", "[4, 2]"],
            ),
            "Distributed.broadcast.0.forward": (
                [(2,)], {"group": "[4, 2]", "group_src": 0}, [(2,), "[4, 2]", 0],
            ),
            "Distributed.recv.0.forward": ([None], {"tag": 3, "src": 6 - rank}, [(2,), 3, 6 - rank]),
            "Distributed.recv.1.forward": ([None], {"src": 6 - rank}, [(2,), 6 - rank]),
        }
        for rank in (2, 4)
    }  # fmt: skip
    rows = transfers_of(tmp_path, write_ops(tmp_path / "dump", ops, "pytorch"))
    four, two = by_op(rows, 4), by_op(rows, 2)
    assert all(four[op]["members"] == [4, 2] for op in four if not op.startswith("recv"))
    assert (four["all_gather_into_tensor.0"]["given"], four["all_gather_into_tensor.0"]["taken"]) == (
        ["input.input_tensor"], ["output.2"],
    )  # fmt: skip
    assert four["_reduce_scatter_base.0"]["reduction"] == "min"
    assert four["broadcast.0"]["peer"] == 4
    assert four["broadcast.0"]["given"] == ["input.0"]
    assert two["broadcast.0"]["given"] is None
    assert two["recv.0"]["meeting"] == "send 4 → 2 tag 3 #0"
    assert two["recv.1"]["meeting"] == "send 4 → 2 #0"
    assert two["recv.0"]["absent"] == [4]


def test_a_nested_call_that_has_no_inputs_is_none_of_its_own(tmp_path: Path) -> None:
    ops: Ops = {"Distributed.recv.0.forward": ([None, 1], {}, [(2,), 1])}
    dump = write_ops(tmp_path / "dump", {0: ops}, "pytorch")
    file = dump / "step0" / "rank0" / "dump.json"
    found = json.loads(file.read_text())
    found["data"]["Distributed.irecv.0.forward"] = {"output": leaf([(2,), 1, None, 0, None])}
    file.write_text(json.dumps(found))
    assert [row["op"] for row in transfers_of(tmp_path, dump)] == ["Distributed.recv.0.forward"]


@settings(max_examples=examples(6), database=None)
@given(data=st.data())
def test_turns_and_partners_of_any_calls(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any sequence of calls of any groups, each made by all its members."""
    folder = tmp_path_factory.mktemp("any")
    kinds = st.sampled_from(["all_reduce", "broadcast", "barrier"])
    groups = st.permutations(range(WORLD)).flatmap(lambda p: st.integers(1, WORLD).map(lambda n: tuple(p[:n])))
    plan = data.draw(st.lists(st.tuples(kinds, groups), min_size=1, max_size=12))
    dumped = data.draw(st.sets(st.sampled_from(range(WORLD)), min_size=1)) | {WORLD - 1}
    calls = {}
    for number, (api, ranks) in enumerate(plan):
        tensor = [] if api == "barrier" else [np.zeros(2, np.float32)]
        keywords: dict[int, dict[str, Any]] = {
            r: {"group": Group(ranks)} | ({"src": ranks[0]} if api == "broadcast" else {}) for r in ranks
        }
        calls[str(number)] = Call(api, dict.fromkeys(ranks, tensor), dict.fromkeys(ranks, tensor), keywords)
    rows = transfers_of(folder, write(folder / "dump", calls, "statistics", dumped))
    turns: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    expected = set()
    for api, ranks in plan:
        here = set(ranks) & dumped
        for rank in here:
            partners, absent = sorted(here - {rank}), [r for r in ranks if r not in dumped]
            expected.add((api, ranks, turns[api, ranks], rank, tuple(partners), tuple(absent)))
        turns[api, ranks] += 1
    assert len(rows) == len(expected)
    assert {
        (row["kind"], tuple(row["members"]), row["turn"], row["rank"], tuple(row["partners"]), tuple(row["absent"]))
        for row in rows
    } == expected


@needs_dumps
def test_transfers_of_a_real_run_are_those_of_its_dump(tmp_path: Path) -> None:
    rows = transfers_of(tmp_path, RUN)
    groups = {0: ([0, 1], [0, 2]), 1: ([0, 1], [1, 3]), 2: ([2, 3], [0, 2]), 3: ([2, 3], [1, 3])}
    for step in range(2):
        for file in sorted((RUN / f"step{step}").glob("*/dump.json")):
            data = json.loads(file.read_text())["data"]
            ops = {op: entry for op, entry in data.items() if op.startswith("Distributed.")}
            sends = next(iter(ops["Distributed.batch_isend_irecv.0.forward"]["input_args"]))
            rank = (sends[0]["peer"] + 1) % WORLD  # it sends to the rank before
            mine = [row for row in rows if (row["step"], row["rank"]) == (step, rank)]
            assert len(mine) == len(ops) + 1  # the batch has two
            assert [row["op"] for row in mine if not row["slot"]] == [op for op in ops if "batch" not in op]
            for row in mine:
                group = ops[row["op"]]["input_kwargs"].get("group")
                if group is not None:
                    assert row["members"] == group["group_ranks"]
                    assert row["members"] in groups[rank]
                elif row["kind"] not in ("send", "recv"):
                    assert row["members"] == list(range(WORLD))
                peers = {row["peer"]} if row["kind"] in ("send", "recv") else {*row["members"]} - {rank}
                assert set(row["partners"]) == peers
                assert row["absent"] == []
    assert {row["op"] for row in rows if row["overwritten"]} == {
        "Distributed.isend.0.forward", "Distributed.irecv.0.forward",
    }  # fmt: skip
    meetings = defaultdict(set)
    for row in rows:
        meetings[row["step"], row["meeting"]].add(row["rank"])
    assert all({row["rank"], *row["partners"]} == meetings[row["step"], row["meeting"]] for row in rows)


@needs_dumps
def test_a_run_of_some_ranks_knows_who_is_absent(tmp_path: Path) -> None:
    rows = transfers_of(tmp_path, DUMPS / "B_pt_dist" / "L1_stat_ranks01" / "golden")
    assert {row["rank"] for row in rows} == {0, 1}
    assert {tuple(row["absent"]) for row in rows if row["kind"] == "all_gather"} == {(), (2, 3)}
    assert {(row["rank"], *row["absent"]) for row in rows if row["members"] in ([0, 2], [1, 3])} == {(0, 2), (1, 3)}


@needs_dumps
def test_a_comparison_tells_where_a_difference_came_in(tmp_path: Path) -> None:
    """The defect is on rank 1 before the second row-parallel all_reduce of its tensor-parallel group."""
    with Lake(tmp_path / "lake") as lake:
        for name in ("golden", "gelu_tanh"):
            lake.ingest(RUN.parent / name, run=name, jobs=1)
        comparison = lake.compare("gelu_tanh", "golden", jobs=1).stored
        found = communication(lake._connection, "gelu_tanh", comparison, steps=[0])
        assert found.changed is not None
        first = dict(zip(found.changed.columns, found.changed.fetchall()[0], strict=True))
        assert len(found.broken) == 0
    assert (first["meeting"], first["effect"]) == ("all_reduce [0, 1] #1", "spreads")
    assert (first["put_in"], first["taken"]) == ([1], [0, 1])


def test_the_summary_counts_meetings_and_bytes(tmp_path: Path) -> None:
    calls = job()
    calls["all_reduce"].after[2][0][0, 0] += 3
    with Lake(tmp_path / "lake") as lake:
        lake.ingest(write(tmp_path / "dump", calls, "statistics", (0, 1, 2)), run="run", jobs=1)
        found = communication(lake._connection, "run").summary
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    reduced = next(row for row in rows if row["kind"] == "all_reduce" and row["members"] == [0, 1, 2, 3])
    # 40 elements of 4, 2 and 2 bytes, 6 of 4 and 7 of 8, on three ranks
    assert (reduced["meetings"], reduced["complete"], reduced["bytes"]) == (5, 0, 3 * (40 * 8 + 24 + 56))
    assert (reduced["broken"], reduced["broken_laws"]) == (1, "same results")
    assert reduced["undecided"] == 5


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake with a sound job and one whose scatter brought rank 2 something else."""
    calls = job()
    with Lake(tmp_path / "lake") as lake:
        lake.ingest(write(tmp_path / "sound", calls, "statistics"), run="sound", jobs=1)
        calls["scatter"].after[2][0][0] += 3
        lake.ingest(write(tmp_path / "bad", calls, "statistics"), run="bad", jobs=1)
    monkeypatch.setenv("LAKEPROBE_LAKE", str(tmp_path / "lake"))


@pytest.mark.usefixtures("jobs")
def test_the_command_names_the_broken_law_and_fails_if_asked() -> None:
    sound = CliRunner().invoke(app, ["comm", "sound", "--fail-on", "broken"])
    assert sound.exit_code == 0
    assert "No law of communication is broken, as far as the dump shows." in sound.stdout
    bad = CliRunner().invoke(app, ["comm", "bad", "--fail-on", "broken"])
    assert bad.exit_code == 1
    assert "MintDistributed.scatter.0.forward" in bad.stdout
    assert bad.stdout.startswith("1 result breaks a law of communication:")
    told = CliRunner().invoke(app, ["comm", "bad", "--laws", "--format", "json", "--step", "0"])
    laws = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(law["law"], law["rank"]) for law in laws if law["verdict"] == "broken"] == [("scatter", 2)]
    assert CliRunner().invoke(app, ["comm", "bad", "--laws", "--format", "json", "--step", "1"]).stdout == ""


# numpy's part


def saved(folder: Path, name: str, values: Any) -> TensorReference:
    file = folder / name
    file.write_bytes(np.ascontiguousarray(values).tobytes())
    return TensorReference(str(file), 0, values.nbytes, values.dtype.name, values.shape, None)


def test_agreement_over_blocks_finds_the_one_element(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    size = 2 * BLOCK + 17
    inputs = [random.normal(size=size + 5).astype(np.float32) for _ in range(3)]
    total = np.sum([values[3 : 3 + size].astype(np.float64) for values in inputs], axis=0).astype(np.float32)
    place = BLOCK + 4
    layers = []
    for number, values in enumerate(inputs):
        left, right = saved(tmp_path, f"l{number}", values[:100]), saved(tmp_path, f"r{number}", values[100:])
        layers.append([Piece.of(left, 3, 97), Piece.of(right, 0, size - 97)])
    found = agreement([saved(tmp_path, "sum", total)], layers, "sum", 2.0**-23)
    assert not found.is_broken
    assert 0 < found.error < 1e-6
    assert found.expected is None
    total[place] += 1e-3
    found = agreement([saved(tmp_path, "sum", total)], layers, "sum", 2.0**-23)
    assert found.is_broken
    assert found.found == f"element {place}: {total[place].item()}"
    scale = np.sum([np.abs(values[3 : 3 + size]) for values in inputs], axis=0).max()
    assert found.error == pytest.approx(1e-3 / scale, rel=1e-2)


@pytest.mark.parametrize(("reduction", "expected"), [("max", 5), ("min", -7), ("sum", -2), ("product", -35), (None, 5)])
def test_each_reduction_of_integers_is_exact(tmp_path: Path, reduction: str | None, expected: int) -> None:
    big = 2**62
    inputs = [np.array([5, big]), np.array([-7, big])][: 2 if reduction else 1]
    layers = [[Piece.of(saved(tmp_path, str(number), values))] for number, values in enumerate(inputs)]
    wrapped = {"sum": -(2**63), "product": 0}.get(str(reduction), big)
    right, wrong = np.array([expected, wrapped]), np.array([expected, wrapped + 1])
    assert not agreement([saved(tmp_path, "right", right)], layers, reduction, 0.0).is_broken
    assert agreement([saved(tmp_path, "wrong", wrong)], layers, reduction, 0.0).is_broken


def test_other_sizes_are_broken_and_unknown_reductions_an_error(tmp_path: Path) -> None:
    from lakeprobe.errors import TensorError

    reference = saved(tmp_path, "x", np.arange(4.0))
    found = agreement([reference], [[Piece.of(reference, 0, 3)]], None, 0.0)
    assert (found.is_broken, found.expected, found.found) == (True, "3 elements", "4 elements")
    with pytest.raises(TensorError, match="premul_sum"):
        agreement([reference], [[Piece.of(reference)]], "premul_sum", 0.0)
    with pytest.raises(TensorError, match="too few"):
        Piece.of(reference, 2, 3)


def test_every_query_has_its_head_and_its_law() -> None:
    folder = resources.folder("sql") / "analysis" / "communication"
    expected = (folder / "expected.sql").read_text()
    for file in folder.glob("*.sql"):
        head = file.read_text().splitlines()
        assert head[0].startswith(f"-- {file.stem}: "), file
        assert head[1].startswith("-- grain: "), file
        assert all(len(line) <= 120 for line in head), file
        if file.stem.startswith("law_") and file.stem not in ("law_order", "law_same_arguments"):
            assert f"FROM {file.stem}\n" in expected

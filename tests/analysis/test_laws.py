"""The laws of communication: they hold where numpy worked the results out, and name what a test has altered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from collective_dumps import WORLD, Call, Group, ReduceOp, job, write
from real_dumps import DUMPS, needs_dumps

from lakeprobe.analysis.communication import communication
from lakeprobe.session import Lake

MODES = ("tensor", "statistics", "xor", "md5")
LAWS = {
    "broadcast", "concatenation", "delivery", "exchange", "reduction", "same arguments", "same order", "same results",
    "scatter", "shards",
}  # fmt: skip

Calls = dict[str, Call]
Rows = list[dict[str, Any]]


class Broken(NamedTuple):
    """What a law says is broken, without where in the dump it is."""

    law: str
    rank: int | None
    api: str | None
    slot: str | None


def judge(folder: Path, calls: Calls, mode: str, ranks: Iterable[int] = range(WORLD)) -> Rows:
    return laws_of(folder / "lake", write(folder / "dump", calls, mode, ranks))


def laws_of(lake_folder: Path, dump: Path) -> Rows:
    with Lake(lake_folder) as lake:
        lake.ingest(dump, run="run", jobs=1)
        return rows(lake)


def rows(lake: Lake) -> Rows:
    laws = communication(lake._connection, "run").laws
    return [dict(zip(laws.columns, row, strict=True)) for row in laws.fetchall()]


def broken(found: Rows) -> set[Broken]:
    return {
        Broken(row["law"], row["rank"], row["op"] and row["op"].split(".")[1], row["slot"])
        for row in found
        if row["verdict"] == "broken"
    }


@pytest.mark.sampled
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(2))
def test_all_laws_hold_where_nothing_is_broken(tmp_path: Path, mode: str, seed: int) -> None:
    found = judge(tmp_path, job(seed), mode)
    assert broken(found) == set()
    told = {row["law"] for row in found if row["verdict"] == "holds"}
    assert told == LAWS - ({"reduction", "exchange", "shards"} if mode == "xor" else set())
    if mode != "xor":
        assert {row["verdict"] for row in found} == {"holds"}
    seen = {"tensor": {"tensors"}, "statistics": {"statistics"}, "xor": {"digests"}, "md5": {"digests", "statistics"}}
    assert {row["seen_by"] for row in found if row["verdict"] == "holds"} == seen[mode] | {"arguments"}


def add(name: str, rank: int, *place: int) -> Callable[[Calls], None]:
    """Alter an element of what a rank has after a call."""

    def alter(calls: Calls) -> None:
        tensor: Any = calls[name].after[rank]
        for index in place:
            tensor = tensor[index]
        tensor.reshape(-1)[-1] += 3

    return alter


def swap(name: str) -> Callable[[Calls], None]:
    """Let the two halves of what a rank takes change places."""

    def alter(calls: Calls) -> None:
        after = calls[name].after[0]
        after[0] = np.roll(after[0], len(after[0]) // 2, axis=0)

    return alter


def swap_ranks(name: str) -> Callable[[Calls], None]:
    """Let ranks 0 and 1 have each other's result."""

    def alter(calls: Calls) -> None:
        after = calls[name].after
        after[0][0], after[1][0] = after[1][0], after[0][0]

    return alter


def swap_list(name: str) -> Callable[[Calls], None]:
    """Let the second and third tensor of a list that rank 0 takes change places."""

    def alter(calls: Calls) -> None:
        after = calls[name].after[0]
        after[0][1], after[0][2] = after[0][2], after[0][1]

    return alter


ALTERED = {
    "all_reduce": (add("all_reduce", 2, 0), {("reduction", 2, None), ("same results", 2, None)}),
    "all_reduce_half": (add("all_reduce_half", 1, 0), {("reduction", 1, None), ("same results", 1, None)}),
    "all_reduce_bf": (add("all_reduce_bf", 1, 0), {("reduction", 1, None), ("same results", 1, None)}),
    "all_reduce_max": (add("all_reduce_max", 3, 0), {("reduction", 3, None), ("same results", 3, None)}),
    # of two that differ, the law of equal results cannot tell which is wrong
    "all_reduce_pair": (add("all_reduce_pair", 3, 0), {("reduction", 3, None), ("same results", None, None)}),
    "reduce": (add("reduce", 2, 0), {("reduction", 2, None)}),
    "reduce_elsewhere": (add("reduce", 1, 0), set()),
    "all_gather": (add("all_gather", 3, 0, 1), {("concatenation", 3, "part 1")}),
    "all_gather_into_tensor": (
        add("all_gather_into_tensor", 2, 0), {("concatenation", 2, None), ("same results", None, None)},
    ),
    "gather": (add("gather", 3, 1, 2), {("concatenation", 3, "part 2")}),
    "scatter": (add("scatter", 2, 0), {("scatter", 2, None)}),
    "broadcast": (add("broadcast", 3, 0), {("broadcast", 3, None)}),
    "reduce_scatter": (add("reduce_scatter", 1, 0), {("shards", 1, None)}),
    "all_to_all": (add("all_to_all", 1, 0, 2), {("exchange", 1, None)}),
    "recv": (add("recv", 1, 0), {("delivery", 1, None)}),
    "swapped list": (swap_list("all_gather"), {("concatenation", 0, "part 1"), ("concatenation", 0, "part 2")}),
    "swapped shards of lists": (swap_ranks("reduce_scatter"), {("shards", 0, None), ("shards", 1, None)}),
    "swapped scatter": (swap_ranks("scatter"), {("scatter", 0, None), ("scatter", 1, None)}),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["tensor", "statistics"])
@pytest.mark.parametrize("name", ALTERED)
def test_what_is_altered_is_named(tmp_path: Path, name: str, mode: str) -> None:
    alter, expected = ALTERED[name]
    calls = job()
    alter(calls)
    found = broken(judge(tmp_path, calls, mode))
    if (name, mode) == ("all_reduce_bf", "statistics"):  # four roundings to 8 bits hide what 1 of 40 elements adds
        expected = {("same results", 1, None)}
    assert {(law, rank, slot) for law, rank, _, slot in found} == expected


CUT = {
    "reduce_scatter_tensor": (add("reduce_scatter_tensor", 1, 0), "shards", {1}, True),
    "all_to_all_single": (add("all_to_all_single", 3, 0), "exchange", {3}, True),
    "all_to_all_uneven": (add("all_to_all_uneven", 2, 0), "exchange", {2}, True),
    "swapped shards": (swap_ranks("reduce_scatter_tensor"), "shards", {0, 1}, False),
    "swapped pieces": (swap("all_to_all_single"), "exchange", {0}, False),
    "pieces at the wrong ranks": (swap_ranks("all_to_all_single"), "exchange", {0, 1}, False),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CUT)
def test_statistics_see_cut_tensors_only_together_and_not_their_order(tmp_path: Path, name: str) -> None:
    alter, law, ranks, is_seen = CUT[name]
    calls = job()
    alter(calls)
    by_tensors = broken(judge(tmp_path / "tensor", calls, "tensor"))
    assert {(found.law, found.rank) for found in by_tensors} == {(law, rank) for rank in ranks}
    by_statistics = broken(judge(tmp_path / "statistics", calls, "statistics"))
    assert {(found.law, found.rank) for found in by_statistics} == ({(law, None)} if is_seen else set())


def test_a_swapped_shard_of_one_tensor_is_seen_by_tensors_and_digests_alone(tmp_path: Path) -> None:
    calls = job()
    swap("all_gather_into_tensor")(calls)
    assert {(found.law, found.rank) for found in broken(judge(tmp_path / "tensor", calls, "tensor"))} == {
        ("concatenation", 0), ("same results", None),
    }  # fmt: skip
    assert broken(judge(tmp_path / "statistics", calls, "statistics")) == set()
    by_digests = broken(judge(tmp_path / "xor", calls, "xor"))
    assert {(found.law, found.rank) for found in by_digests} == {("same results", None)}


def test_digests_name_the_one_result_that_is_not_the_others(tmp_path: Path) -> None:
    calls = job()
    add("all_reduce", 2, 0)(calls)
    add("recv", 1, 0)(calls)
    assert {(found.law, found.rank) for found in broken(judge(tmp_path, calls, "xor"))} == {
        ("same results", 2), ("delivery", 1),
    }  # fmt: skip


def test_a_digest_that_differs_where_the_statistics_do_not_is_no_proof(tmp_path: Path) -> None:
    calls = job()
    calls["all_reduce"].after[2][0] = calls["all_reduce"].after[2][0][::-1].copy()  # the same elements, elsewhere
    found = judge(tmp_path, calls, "md5")
    assert broken(found) == set()
    undecided = [row for row in found if row["verdict"] == "cannot tell"]
    assert [(row["law"], row["rank"]) for row in undecided] == [("same results", 2)]
    assert "digest" in undecided[0]["reason"]


def test_a_batch_tells_of_each_p2pop_by_tensors_but_not_where_it_may_not_have_arrived(tmp_path: Path) -> None:
    calls = job()
    calls["batch"].after[3][0][1].tensor[:] = 0
    found = [row for row in judge(tmp_path, calls, "tensor") if row["verdict"] != "holds"]
    assert [(row["law"], row["verdict"], row["rank"], row["slot"]) for row in found] == [
        ("delivery", "cannot tell", 3, "input.0.1")
    ]
    assert found[0]["reason"].startswith("asynchronous")


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_an_asynchronous_result_that_was_not_there_yet_is_not_held_to_be_broken(tmp_path: Path, mode: str) -> None:
    calls = job()
    call = calls["all_reduce"]
    call.keywords = {rank: {"async_op": True} for rank in range(WORLD)}
    call.after[1][0] = call.before[1][0].copy()
    found = judge(tmp_path, calls, mode)
    assert broken(found) == set()
    undecided = {(row["law"], row["rank"]) for row in found if row["verdict"] == "cannot tell"}
    assert ("reduction", 1) in undecided
    assert ("reduction", 0) not in undecided


def test_an_overwritten_record_is_not_judged(tmp_path: Path) -> None:
    calls = job()
    calls["recv"].after[1] = [np.full(5, 9, np.float32), None, 0, 0]
    found = judge(tmp_path, calls, "tensor")
    undecided = [row for row in found if row["verdict"] == "cannot tell"]
    assert [(row["law"], row["rank"], row["error"]) for row in undecided] == [("delivery", 1, None)]
    assert "overwritten" in undecided[0]["reason"]
    assert broken(found) == set()


def test_what_a_missing_rank_put_in_cannot_be_told(tmp_path: Path) -> None:
    calls = job()
    add("all_reduce", 2, 0)(calls)  # still the odd one of three
    found = judge(tmp_path, calls, "tensor", ranks=(0, 1, 2))
    assert {(row.law, row.rank) for row in broken(found)} == {("same results", 2)}
    undecided = [row for row in found if row["verdict"] == "cannot tell"]
    assert {row["law"] for row in undecided} == {"reduction", "concatenation", "shards", "exchange", "delivery"}
    assert {row["reason"] for row in undecided} == {"rank 3 has no record of it in the lake"}
    assert {row["rank"] for row in undecided if row["law"] == "delivery"} == {0}


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_nan_that_is_put_in_must_come_out(tmp_path: Path, mode: str) -> None:
    calls = job()
    calls["all_reduce"].before[0][0][0, 0] = np.nan
    assert {(row.law, row.rank) for row in broken(judge(tmp_path / "lost", calls, mode))} == {
        ("reduction", rank) for rank in range(WORLD)
    }
    for rank in range(WORLD):
        calls["all_reduce"].after[rank][0][0, 0] = np.nan
    assert broken(judge(tmp_path / "kept", calls, mode)) == set()
    calls = job()
    calls["all_reduce"].after[1][0][0, 0] = np.nan
    assert {(row.law, row.rank) for row in broken(judge(tmp_path / "made", calls, mode))} == {
        ("reduction", 1), ("same results", 1),
    }  # fmt: skip


def test_overflow_of_a_sum_is_no_broken_law(tmp_path: Path) -> None:
    calls = job()
    for rank in range(WORLD):
        calls["all_reduce_half"].before[rank][0][0, 0] = 30000
        calls["all_reduce_half"].after[rank][0][0, 0] = np.inf
    for mode in ("tensor", "statistics"):
        assert broken(judge(tmp_path / mode, calls, mode)) == set()


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_sums_in_any_order_and_dtype_are_no_broken_law(tmp_path: Path, mode: str) -> None:
    calls = {}
    for dtype, size, seed in product(["float32", "float16", ml_dtypes.bfloat16], [1, 30, 3000], range(4)):
        random = np.random.default_rng(seed)
        put = [(random.normal(size=size) * 10.0 ** random.integers(-2, 3)).astype(dtype) for _ in range(WORLD)]
        total = put[seed]
        for rank in set(range(WORLD)) - {seed}:
            total = (total + put[rank]).astype(dtype)
        call = Call("all_reduce", {r: [put[r]] for r in range(WORLD)}, {r: [total] for r in range(WORLD)})
        calls[f"{dtype} {size} {seed}"] = call
    found = judge(tmp_path, calls, mode)
    assert broken(found) == set()
    assert sum(row["law"] == "reduction" and row["verdict"] == "holds" for row in found) == len(calls) * WORLD


def test_another_root_reduction_dtype_or_size_is_named(tmp_path: Path) -> None:
    calls = job()
    calls["broadcast"].keywords[3] = {"src": 0}
    calls["all_reduce_max"].keywords[2] = {"op": ReduceOp("MIN")}
    calls["reduce"].before[0][0] = calls["reduce"].before[0][0].astype(np.float16)
    calls["recv"].after[1][0] = np.zeros(6, np.float32)
    found = [row for row in judge(tmp_path, calls, "statistics") if row["law"] == "same arguments"]
    named = {(row["kind"], row["rank"], row["expected"], row["found"]) for row in found if row["verdict"] == "broken"}
    delivery = {told for told in named if told[0] in ("send", "recv")}
    assert named - delivery == {
        ("broadcast", 3, "root 1", "root 0"),
        ("all_reduce", 2, "reduction max", "reduction min"),
        ("reduce", 0, "dtype Float32", "dtype Float16"),
    }
    ((_, rank, *sizes),) = delivery
    assert rank is None
    assert set(sizes) == {"elements 5", "elements 6"}


def test_a_call_too_few_and_another_order_are_named(tmp_path: Path) -> None:
    few = job()
    for state in (few["reduce"].before, few["reduce"].after, few["reduce"].keywords):
        del state[3]
    found = [row for row in judge(tmp_path / "few", few, "statistics") if row["law"] == "same order"]
    wrong = [row for row in found if row["verdict"] == "broken"]
    assert [(row["rank"], row["expected"], row["found"]) for row in wrong] == [
        (3, "call 7 of the group: reduce", "call 7 of the group: all_gather")
    ]
    lost = job()
    lost["send"].before[0][1] = lost["send"].after[0][1] = 2  # to rank 2, which expects nothing
    found = [row for row in judge(tmp_path / "lost", lost, "statistics") if row["law"] == "same order"]
    assert {(row["meeting"], row["expected"], row["found"]) for row in found if row["verdict"] == "broken"} == {
        ("all of send 0 → 2", "1 sent", "0 received"), ("all of send 0 → 1", "1 sent", "2 received"),
    }  # fmt: skip


def test_an_unreadable_tensor_is_a_reason_not_an_error(tmp_path: Path) -> None:
    dump = write(tmp_path / "dump", job(), "tensor")
    with Lake(tmp_path / "lake") as lake:
        lake.ingest(dump, run="run", jobs=1, tensors="link")
        file = dump / "step0" / "rank1" / "dump_tensor_data" / "MintDistributed.scatter.0.forward.output.0.npy"
        linked = dump / "step0" / "rank0" / "dump_tensor_data" / "MintDistributed.all_reduce.0.forward.input.0.npy"
        assert file.exists()
        linked.unlink()
        found = rows(lake)
    undecided = [row for row in found if row["verdict"] == "cannot tell"]
    assert {(row["law"], row["op"]) for row in undecided} == {("reduction", "MintDistributed.all_reduce.0.forward")}
    assert len(undecided) == WORLD
    assert all("cannot open" in row["reason"] for row in undecided)


@pytest.mark.sampled
@needs_dumps
@pytest.mark.parametrize(
    "run", ["L1_stat/golden", "L1_stat/gelu_tanh", "L1_stat/log0", "L1_tensor/golden", "mix_stat/golden"]
)
def test_laws_hold_on_real_runs_whose_collectives_work(tmp_path: Path, run: str) -> None:
    folder = DUMPS / "B_pt_dist" / run
    found = laws_of(tmp_path / "lake", folder)
    assert broken(found) == set()
    held = {row["law"] for row in found if row["verdict"] == "holds"}
    assert held == LAWS
    # msprobe's nested calls, results that were asynchronous, and sums of NaN
    reasons = {row["reason"].split(":")[0] for row in found if row["verdict"] == "cannot tell"}
    nan = {"the statistics say nothing of it"} if run.endswith("log0") else set()
    assert reasons <= {"its record was overwritten by a nested call", "asynchronous"} | nan


def test_groups_keep_their_own_order(tmp_path: Path) -> None:
    x = {rank: np.arange(2, dtype=np.float32) + rank for rank in range(WORLD)}
    group = Group((2, 1, 0))
    gathered = np.concatenate([x[2], x[1], x[0]])
    calls = {
        "gathered": Call(
            "all_gather_into_tensor",
            {r: [None, x[r], group] for r in (0, 1, 2)},
            {r: [gathered, x[r], group] for r in (0, 1, 2)},
        )
    }
    assert broken(judge(tmp_path / "right", calls, "tensor")) == set()
    for rank in (0, 1, 2):
        calls["gathered"].after[rank][0] = np.concatenate([x[0], x[1], x[2]])
    assert {(row.law, row.rank) for row in broken(judge(tmp_path / "wrong", calls, "tensor"))} == {
        ("concatenation", rank) for rank in (0, 1, 2)
    }

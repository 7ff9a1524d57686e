"""Overflow: where NaN and inf are born, what is not a finding, and how it spreads; on small dumps written here."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from made_dumps import Data, Op, back, call, write

import lakeprobe
from lakeprobe import resources
from lakeprobe.analysis.overflow import LEVELS, Overflow, overflow
from lakeprobe.errors import UsageError
from lakeprobe.lake import store
from lakeprobe.reports.overflow_text import overflow_text
from lakeprobe.session import Lake


def tensor(low: float | None, high: float | None, mean: float | None = 0.0, **fields: Any) -> Op:
    """A tensor leaf with these statistics; its norm is that of a tensor of its largest element."""
    norm = None if low is None or high is None else fields.pop("norm", max(abs(low), abs(high)))
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 4]}
    return leaf | {"Max": high, "Min": low, "Mean": mean, "Norm": norm, "requires_grad": False} | fields


def number(value: float) -> Op:
    return {"type": "float", "value": value}


FINE = tensor(-1.0, 1.0)
NAN = tensor(nan, nan, nan)
MINUS = tensor(-inf, 1.0, -inf)
BIG = tensor(-1.0, inf, inf)
RANKS = Path(__file__).parents[1] / "data" / "dumps" / "ranks"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakeprobe.open(store.create(tmp_path / "lake")) as opened:
        yield opened


def found(
    lake: Lake, tmp_path: Path, ranks: dict[int, Data], golden: dict[int, Data] | None = None, **how: Any
) -> Overflow:
    """The answer for a run with these ops, against a golden run with those."""
    lake.ingest(write(tmp_path / "npu", ranks, **how), run="npu")
    if golden is not None:
        lake.ingest(write(tmp_path / "gpu", golden), run="gpu")
    return overflow(lake._connection, "npu", golden=None if golden is None else "gpu")


def births(answer: Overflow) -> list[tuple[int, str, str]]:
    """Rank, op and level of the ops where NaN or inf is born."""
    return [(row["rank"], row["op"], row["level"]) for row in rows(answer, "births")]


def levels(answer: Overflow) -> dict[str, str]:
    return {row["op"]: row["level"] for row in rows(answer, "ops")}


def origins(answer: Overflow) -> dict[tuple[int, str], str]:
    return {(row["rank"], row["op"]): row["origin"] for row in rows(answer, "ops")}


def rows(answer: Overflow, name: str) -> list[dict[str, Any]]:
    relation = getattr(answer, name)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


# ---- levels -----------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("inputs", "outputs", "level"),
    [
        ([FINE], [NAN], "critical"),
        ([FINE], [BIG], "critical"),
        ([FINE], [FINE, [FINE, {"k": NAN}]], "critical"),
        ([FINE], [tensor(-1.0, 1.0, nan)], "critical"),
        ([FINE], [number(nan)], "critical"),
        ([NAN], [NAN], "high"),
        ([[FINE, [NAN]]], [NAN], "high"),
        ([FINE], [tensor(-101.0, 1.0)], None),
        ([NAN], [FINE], "medium"),
        ([FINE], [tensor(-99.0, 1.0)], None),
        ([FINE], [FINE], None),
        ([FINE], [tensor(None, None, None)], None),
        ([tensor(0, 7, None, dtype="torch.int64")], [tensor(False, True, None, dtype="torch.bool", norm=None)], None),
        ([tensor(0.0, 9.0, None, dtype="torch.complex64", norm=None)], [FINE], None),
        ([{"type": "str", "value": "NaN"}], [{"type": "str", "value": "Infinity"}], None),
    ],
)
def test_levels(lake: Lake, tmp_path: Path, inputs: list[Any], outputs: list[Any], level: str | None) -> None:
    answer = found(lake, tmp_path, {0: {"Torch.foo.0.forward": call(inputs, outputs)}})
    assert levels(answer).get("Torch.foo.0.forward") == level
    assert answer.count("medium") == (level is not None)
    assert answer.count("critical") == (level == "critical")


@pytest.mark.parametrize("sick", [False, True])
def test_a_norm_that_jumps_counts_only_where_something_is_not_finite(lake: Lake, tmp_path: Path, sick: bool) -> None:
    ops = {
        "Torch.jump.0.forward": call([FINE], [tensor(-101.0, 1.0)]),
        "Torch.grow.0.forward": call([tensor(0.0, 0.0)], [tensor(-101.0, 1.0)]),
        "Torch.less.0.forward": call([FINE], [tensor(-99.0, 1.0)]),
        "Torch.foo.0.forward": call([FINE], [NAN if sick else FINE]),
    }
    jumps = {"Torch.jump.0.forward": "high", "Torch.grow.0.forward": "high", "Torch.foo.0.forward": "critical"}
    assert levels(found(lake, tmp_path, {0: ops})) == (jumps if sick else {})


def test_a_norm_that_overflowed_in_float16_is_no_jump(lake: Lake, tmp_path: Path) -> None:
    narrow = tensor(-50.0, 50.0, norm=inf, dtype="torch.float16")
    answer = found(lake, tmp_path, {0: {"Torch.foo.0.forward": call([FINE], [narrow])}})
    assert levels(answer) == {}


# ---- what is not a finding -----------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fill",
    [
        {"Tensor.masked_fill.0.forward": call([FINE, FINE, number(-inf)], [MINUS])},
        {"Tensor.masked_fill_.0.forward": call([FINE, FINE, number(-inf)], [MINUS])},
        {"Torch.where.0.forward": call([FINE, FINE, number(-inf)], [MINUS])},
        {"Torch.masked_fill.0.forward": call([FINE, FINE], [MINUS], value=number(-inf))},
        {"Primitive.masked_fill.MaskedFill.0.forward": call([FINE, FINE, number(-inf)], [MINUS])},
        {"Mint.where.0.forward": call([FINE, FINE, tensor(-inf, -inf, -inf, shape=[])], [MINUS])},
        {"Tensor.__setitem__.0.forward": call([tensor(-2.0, 1.0), number(3), number(-inf)], [])},
    ],
    ids=lambda fill: next(iter(fill)),
)
def test_a_mask_is_asked_for_and_followed(lake: Lake, tmp_path: Path, fill: Data) -> None:
    """Through a sum, a change of shape and of sign, as far as softmax."""
    turned = tensor(-1.0, inf, inf)
    data = fill | {
        "Tensor.__add__.0.forward": call([FINE, MINUS], [tensor(-inf, 1.5, -inf)]),
        "Tensor.view.0.forward": call([tensor(-inf, 1.5, -inf)], [tensor(-inf, 1.5, -inf, shape=[16])]),
        "Functional.softmax.0.forward": call([tensor(-inf, 1.5, -inf, shape=[16])], [FINE]),
        "Tensor.__neg__.0.forward": call([MINUS], [turned]),
        "Torch.exp.0.forward": call([MINUS], [FINE]),
    }
    assert levels(found(lake, tmp_path, {0: data})) == {}


def test_a_mask_that_no_op_made(lake: Lake, tmp_path: Path) -> None:
    mask = tensor(-inf, 0.0, -inf, shape=[1, 4])
    data = {
        "Tensor.__add__.0.forward": call([FINE, mask], [MINUS]),
        "Functional.softmax.0.forward": call([MINUS], [FINE]),
        "Functional.scaled_dot_product_attention.0.forward": call([FINE, FINE, FINE], [FINE], attn_mask=mask),
    }
    assert levels(found(lake, tmp_path, {0: data})) == {}


def test_what_a_mask_does_not_excuse(lake: Lake, tmp_path: Path) -> None:
    """NaN of a row that is masked entirely, inf beside the -inf, and a logarithm that looks like a mask."""
    like_a_mask = tensor(-inf, 0.0, -inf, shape=[3])
    data = {
        "Tensor.masked_fill.0.forward": call([FINE, FINE, number(-inf)], [MINUS]),
        "Functional.softmax.0.forward": call([MINUS], [NAN]),
        "Tensor.masked_fill.1.forward": call([FINE, FINE, number(-inf)], [tensor(-inf, inf, nan)]),
        "Torch.log.0.forward": call([tensor(0.0, 1.0)], [like_a_mask]),
        "Tensor.__add__.0.forward": call([like_a_mask, FINE], [tensor(-inf, 0.5, -inf)]),
    }
    assert levels(found(lake, tmp_path, {0: data})) == {
        "Functional.softmax.0.forward": "critical",
        "Tensor.masked_fill.1.forward": "critical",
        "Torch.log.0.forward": "critical",
        "Tensor.__add__.0.forward": "high",
    }


def test_numbers_in_a_call_that_no_output_may_hold(lake: Lake, tmp_path: Path) -> None:
    """An order of a norm is not an excuse for inf, and NaN times a tensor is an accident."""
    data = {
        "Torch.norm.0.forward": call([FINE, number(inf)], [tensor(inf, inf, inf, shape=[])]),
        "Tensor.__mul__.0.forward": call([FINE, number(nan)], [NAN]),
        "Torch.full_like.0.forward": call([FINE, number(nan)], [tensor(nan, nan, nan, shape=[5])]),
    }
    assert levels(found(lake, tmp_path, {0: data})) == {
        "Torch.norm.0.forward": "critical",
        "Tensor.__mul__.0.forward": "high",
    }


IGNORED = [
    ("Torch.empty.0.forward", call([number(4)], [NAN])),
    ("Torch.empty_like.0.forward", call([FINE], [NAN])),
    ("Torch.empty_strided.0.forward", call([FINE], [BIG])),
    ("Tensor.new_empty.0.forward", call([FINE], [NAN])),
    ("Tensor.masked_fill_.0.forward", call([NAN, FINE, number(0.0)], [FINE])),
    ("Distributed.all_gather_into_tensor.0.forward", call([NAN, FINE], [FINE, FINE])),
    ("Distributed.all_gather.0.forward", call([[NAN, NAN], FINE], [[FINE, FINE], FINE])),
    ("Distributed.reduce_scatter_tensor.0.forward", call([NAN, FINE], [FINE, FINE])),
    ("Distributed._reduce_scatter_base.0.forward", call([NAN, FINE], [FINE, FINE])),
    ("Distributed.reduce_scatter.0.forward", call([NAN, [FINE, FINE]], [FINE, [FINE, FINE]])),
    ("Distributed.recv.0.forward", call([NAN, {"type": "int", "value": 1}], [FINE])),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "entry"), IGNORED, ids=[op for op, _ in IGNORED])
def test_memory_that_nobody_wrote_is_ignored(lake: Lake, tmp_path: Path, op: str, entry: Op) -> None:
    assert levels(found(lake, tmp_path, {0: {op: entry}})) == {}


def test_only_the_slots_of_the_table_are_ignored(lake: Lake, tmp_path: Path) -> None:
    data = {
        "Torch.scatter.0.forward": call([NAN, FINE], [NAN]),
        "Distributed.all_gather_into_tensor.0.forward": call([FINE, NAN], [NAN, NAN]),
        "Tensor.masked_fill_.0.forward": call([NAN, FINE, number(0.0)], [NAN]),
        "Torch.full.0.forward": call([FINE], [NAN]),
    }
    assert levels(found(lake, tmp_path, {0: data})) == dict.fromkeys(data, "high") | {
        "Torch.full.0.forward": "critical"
    }


# ---- golden -----------------------------------------------------------------------------------------------


def test_what_golden_has_too_is_expected(lake: Lake, tmp_path: Path) -> None:
    golden = {
        "Torch.log.0.forward": call([FINE], [MINUS]),
        "Torch.exp.0.forward": call([FINE], [BIG]),
        "Torch.div.0.forward": call([FINE], [FINE]),
    }
    data = {
        "Torch.log.0.forward": call([FINE], [tensor(-inf, 0.5, -inf)]),
        "Torch.exp.0.forward": call([FINE], [NAN]),
        "Torch.div.0.forward": call([FINE], [tensor(-2.0, inf, inf)]),
        "Torch.sqrt.0.forward": call([FINE], [tensor(nan, nan, nan, shape=[2])]),
    }
    answer = found(lake, tmp_path, {0: data}, {0: golden})
    assert births(answer) == [(0, f"Torch.{name}.0.forward", "critical") for name in ("exp", "div", "sqrt")]
    assert births(overflow(lake._connection, "npu"))[0] == (0, "Torch.log.0.forward", "critical")
    assert births(overflow(lake._connection, "gpu")) == [
        (0, "Torch.log.0.forward", "critical"),
        (0, "Torch.exp.0.forward", "critical"),
    ]


def test_no_likeness_to_a_mask_helps_what_is_finite_in_golden(lake: Lake, tmp_path: Path) -> None:
    mask = tensor(-inf, 0.0, -inf)
    data = {"Tensor.__add__.0.forward": call([FINE, mask], [MINUS])}
    golden = {"Tensor.__add__.0.forward": call([FINE, FINE], [FINE])}
    answer = found(lake, tmp_path, {0: data}, {0: golden})
    assert levels(answer) == {"Tensor.__add__.0.forward": "high"}
    assert rows(answer, "births")[0]["origin"] == "unseen"


def test_a_comparison_knows_the_place_in_golden(lake: Lake, tmp_path: Path) -> None:
    """A call more in the target: the pairs of the comparison count, not the names."""
    moved = {"Torch.log.0.forward": call([FINE], [FINE]), "Torch.log.1.forward": call([FINE], [MINUS])}
    golden = {"Torch.log.0.forward": call([FINE], [FINE]), "Torch.log.2.forward": call([FINE], [MINUS])}
    target, trusted = write(tmp_path / "npu", {0: moved}), write(tmp_path / "gpu", {0: golden})
    result = lake.compare(target, trusted, rule="fuzzy", name="pair")
    stored = result.stored
    assert births(overflow(lake._connection, stored.target, golden=stored.golden)) == [
        (0, "Torch.log.1.forward", "critical")
    ]
    assert births(overflow(lake._connection, stored.target, comparison="pair")) == []


# ---- where it comes from ----------------------------------------------------------------------------------


def test_backward_is_born_only_where_forward_was_finite(lake: Lake, tmp_path: Path) -> None:
    data = {
        "Torch.sqrt.0.forward": call([tensor(0.0, 1.0)], [tensor(0.0, 1.0)]),
        "Torch.log.0.forward": call([tensor(0.0, 1.0)], [MINUS]),
        "Torch.log.0.backward": back([FINE], [tensor(-3.0, inf, inf)]),
        "Torch.sqrt.0.backward": back([tensor(-2.0, 2.0)], [tensor(-inf, inf, nan)]),
    }
    answer = found(lake, tmp_path, {0: data})
    assert births(answer) == [(0, "Torch.log.0.forward", "critical"), (0, "Torch.sqrt.0.backward", "critical")]
    assert origins(answer)[0, "Torch.log.0.backward"] == "forward pass"
    by_op = {row["op"]: row for row in rows(answer, "births")}
    assert "root" in by_op["Torch.sqrt.0.backward"]["advice"]
    assert "Torch.sqrt.0.forward" in by_op["Torch.sqrt.0.backward"]["code"]


def test_a_module_is_named_only_where_no_op_inside_it_is(lake: Lake, tmp_path: Path) -> None:
    data = {
        "Torch.log.0.forward": call([FINE], [MINUS]),
        "Module.layer.Inner.forward.0": call([FINE], [MINUS]),
        "Module.model.Outer.forward.0": call([FINE], [MINUS]),
    }
    parents = {
        "Torch.log.0.forward": "Module.layer.Inner.forward.0",
        "Module.layer.Inner.forward.0": "Module.model.Outer.forward.0",
    }
    answer = found(lake, tmp_path, {0: data}, parents=parents)
    assert births(answer) == [(0, "Torch.log.0.forward", "critical")]
    assert rows(answer, "births")[0]["module"] == "Module.layer.Inner.forward.0"
    assert origins(answer)[0, "Module.model.Outer.forward.0"] == "inside"


def test_made_between_modules(lake: Lake, tmp_path: Path) -> None:
    """Only modules are recorded: a module gets NaN that no recorded op put out, so the one around it made it."""
    data = {
        "Cell.attn.proj.Dense.forward.0": call([NAN], [NAN]),
        "Cell.attn.Attention.forward.0": call([FINE], [NAN]),
        "Cell.model.Net.forward.0": call([FINE], [NAN]),
    }
    parents = {
        "Cell.attn.proj.Dense.forward.0": "Cell.attn.Attention.forward.0",
        "Cell.attn.Attention.forward.0": "Cell.model.Net.forward.0",
    }
    answer = found(lake, tmp_path, {0: data}, framework="mindspore", parents=parents)
    assert births(answer) == [(0, "Cell.attn.Attention.forward.0", "critical")]
    [first] = rows(answer, "spread")
    assert first["op"] == "Cell.attn.Attention.forward.0"


def test_weights_that_are_nan_are_made_in_no_module(lake: Lake, tmp_path: Path) -> None:
    linear = call([FINE], [NAN]) | {"parameters": {"weight": NAN}}
    data = {
        "Functional.linear.0.forward": call([FINE, NAN], [NAN]),
        "Module.fc.Linear.forward.0": linear,
        "Module.model.Net.forward.0": call([FINE], [NAN]),
    }
    parents = {
        "Functional.linear.0.forward": "Module.fc.Linear.forward.0",
        "Module.fc.Linear.forward.0": "Module.model.Net.forward.0",
    }
    answer = found(lake, tmp_path, {0: data}, parents=parents)
    assert [(row["op"], row["origin"]) for row in rows(answer, "births")] == [("Functional.linear.0.forward", "unseen")]


def test_gradients_of_parameters(lake: Lake, tmp_path: Path) -> None:
    data = {
        "Module.a.Linear.backward.0": back([FINE], [FINE]),
        "Module.a.Linear.parameters_grad.0": {"weight": [NAN]},
        "Module.b.Linear.parameters_grad.0": {"weight": [NAN]},
    }
    answer = found(lake, tmp_path, {0: data})
    assert births(answer) == [(0, "Module.a.Linear.parameters_grad.0", "critical")]
    assert origins(answer)[0, "Module.b.Linear.parameters_grad.0"] == "carried"
    assert levels(answer)["Module.b.Linear.parameters_grad.0"] == "high"


# ---- ranks ------------------------------------------------------------------------------------------------

WORLD = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "a"}
OTHERS = {"type": "torch.ProcessGroup", "group_ranks": [2, 3], "group_id": "b"}


def reduced(given: Op, taken: Op, group: Op = WORLD) -> Data:
    entry = call([given], [taken, group], group=group)
    return {"Distributed.all_reduce.0.forward": entry}


def test_independent_origins_and_their_ways(lake: Lake, tmp_path: Path) -> None:
    """Two groups, an origin in each: msprobe names one of them only."""
    born = {"Torch.log.0.forward": call([FINE], [MINUS])}
    late = {"Torch.abs.0.forward": call([FINE], [FINE]), "Torch.exp.0.forward": call([FINE], [BIG])}
    after = {"Tensor.mul.0.forward": call([NAN], [NAN])}
    ranks = {
        0: reduced(FINE, NAN) | after,
        1: born | reduced(MINUS, NAN) | after,
        2: late | reduced(BIG, BIG, OTHERS),
        3: reduced(FINE, BIG, OTHERS),
    }
    answer = found(lake, tmp_path, ranks)
    assert births(answer) == [(1, "Torch.log.0.forward", "critical"), (2, "Torch.exp.0.forward", "critical")]
    spread = {row["rank"]: (row["origin"], row["received_from"], row["op"]) for row in rows(answer, "spread")}
    reduce = "Distributed.all_reduce.0.forward"
    assert spread == {
        0: ("received", [1], reduce),
        1: ("born", None, "Torch.log.0.forward"),
        2: ("born", None, "Torch.exp.0.forward"),
        3: ("received", [2], reduce),
    }
    text = overflow_text(answer)
    assert text.splitlines()[2] == "Torch.log.0.forward (step 0, rank 1): critical, is born here"
    assert "received from rank 2" in text


def test_a_sum_that_overflows_is_born_in_the_collective(lake: Lake, tmp_path: Path) -> None:
    answer = found(lake, tmp_path, {rank: reduced(FINE, BIG) for rank in (0, 1)})
    assert births(answer) == [(rank, "Distributed.all_reduce.0.forward", "critical") for rank in (0, 1)]
    assert "sum" in rows(answer, "births")[0]["advice"]


def test_received_from_a_rank_that_the_lake_has_not(lake: Lake, tmp_path: Path) -> None:
    answer = found(lake, tmp_path, {1: reduced(FINE, NAN)})
    assert births(answer) == []
    assert [(row["origin"], row["received_from"]) for row in rows(answer, "spread")] == [("received", [0])]


def test_a_receive_that_was_recorded_before_its_data_came(lake: Lake, tmp_path: Path) -> None:
    peer = {"type": "int", "value": 1}
    sender = {"type": "int", "value": 0}
    ranks = {
        0: {
            "Torch.log.0.forward": call([FINE], [NAN]),
            "Distributed.isend.0.forward": call([NAN, peer], [NAN, peer]),
        },
        1: {
            "Distributed.irecv.0.forward": call([FINE, sender], [FINE, sender]),
            "Tensor.mul.0.forward": call([NAN], [NAN]),
        },
    }
    answer = found(lake, tmp_path, ranks)
    assert births(answer) == [(0, "Torch.log.0.forward", "critical")]
    [_, second] = rows(answer, "spread")
    assert (second["op"], second["received_from"]) == ("Tensor.mul.0.forward", [0])
    assert second["through"] == "Distributed.irecv.0.forward"


# ---- steps, forms and mistakes ----------------------------------------------------------------------------


def test_a_later_step_is_no_new_origin(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "npu", {0: {"Torch.log.0.forward": call([FINE], [MINUS])}})
    second = write(tmp_path / "other", {0: {"Functional.linear.0.forward": call([FINE, NAN], [NAN])}})
    (second / "step0").rename(tmp_path / "npu" / "step1")
    lake.ingest(tmp_path / "npu", run="npu")
    answer = overflow(lake._connection, "npu")
    assert births(answer) == [(0, "Torch.log.0.forward", "critical")]
    assert [row["origin"] for row in rows(answer, "spread")] == ["born", "earlier step"]
    only = overflow(lake._connection, "npu", steps=[1])
    assert [row["origin"] for row in rows(only, "births")] == ["unseen"]


def test_level_and_most_bound_the_ops(lake: Lake, tmp_path: Path) -> None:
    data = {
        "Torch.log.0.forward": call([FINE], [MINUS]),
        "Torch.abs.0.forward": call([MINUS], [tensor(0.0, inf, inf)]),
        "Torch.nan_to_num.0.forward": call([tensor(0.0, inf, inf)], [FINE]),
    }
    whole = found(lake, tmp_path, {0: data})
    assert [row["level"] for row in rows(whole, "ops")] == ["critical", "high", "medium"]
    for level, count in (("critical", 1), ("high", 2), ("medium", 3)):
        assert len(overflow(lake._connection, "npu", level=level).ops) == count == whole.count(level)
    assert len(overflow(lake._connection, "npu", most=1).ops) == 1


def test_tensors_without_statistics_are_told(lake: Lake, tmp_path: Path) -> None:
    digest = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        "requires_grad": False,
        "md5": "0x0123456789abcdef",
    }
    answer = found(lake, tmp_path, {0: {"Torch.foo.0.forward": call([digest], [digest])}})
    assert rows(answer, "counts")[0]["blind"] == 2
    assert "2 tensors lack statistics" in overflow_text(answer)


def test_mistakes(lake: Lake, tmp_path: Path) -> None:
    found(lake, tmp_path, {0: {"Torch.foo.0.forward": call([FINE], [FINE])}})
    for wrong, words in (
        ({"run": "nosuch"}, "the lake has no run nosuch; it has npu"),
        ({"run": "npu", "golden": "nosuch"}, "no run nosuch"),
        ({"run": "npu", "steps": [0, 3]}, "no step 3; it has 0"),
        ({"run": "npu", "level": "bad"}, "bad is not a level"),
        ({"run": "npu", "golden": "npu", "comparison": "x"}, "leave out --golden npu"),
    ):
        with pytest.raises(UsageError, match=words):
            overflow(lake._connection, **wrong)


def test_every_op_gets_advice(lake: Lake) -> None:
    """The last rows of the table fit whatever is born."""
    table = lake.sql(resources.sql("analysis/overflow/advice"))
    for direction in ("forward", "backward", "parameters_grad"):
        for origin in ("born", "unseen"):
            fits = table.filter(
                f"origin = '{origin}' AND regexp_full_match('{direction}', direction) AND kinds = 15 "
                "AND regexp_full_match('whatever', name) AND regexp_full_match('float32', dtype)"
            )
            assert len(fits) >= 1


def test_a_clean_run_has_the_columns_of_others_and_no_rows(lake: Lake) -> None:
    for run in ("golden", "log0"):
        lake.ingest(RANKS / run, run=run)
    clean, dirty = lake.overflow("golden"), lake.overflow("log0")
    for name in ("births", "spread", "ops"):
        here, there = getattr(clean, name), getattr(dirty, name)
        assert (here.columns, here.types) == (there.columns, there.types), name
        assert here.fetchall() == [] != there.fetchall(), name
    assert (clean.counts.columns, clean.counts.types) == (dirty.counts.columns, dirty.counts.types)
    assert [clean.count(level) for level in LEVELS] == [0, 0, 0]
    assert len(clean.counts.fetchall()) == 4

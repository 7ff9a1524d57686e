"""Blame: each kind of cause on small runs written here, what is not a cause, repeats, ranks, and the texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from made_dumps import Data, back, call, write
from typer.testing import CliRunner

import lakeprobe
from lakeprobe.analysis.blame import Blame, blame
from lakeprobe.cli import app
from lakeprobe.errors import UsageError
from lakeprobe.mapping.files import Mappings
from lakeprobe.reports.blame_text import blame_json, blame_text
from lakeprobe.session import Lake

Leaf = dict[str, Any]


def tensor(size: float, error: float = 0.0, shape: tuple[int, ...] = (4, 4), dtype: str = "torch.float32") -> Leaf:
    """A tensor with statistics that go with `size`, off by the share `error` of themselves (NaN, where that is NaN)."""
    scale = size * (1 + error)
    statistics = {"Max": 2 * scale, "Min": -scale, "Mean": 0.1 * scale, "Norm": 5 * scale}
    if not shape:
        statistics = dict.fromkeys(statistics, scale)
    return {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), **statistics, "requires_grad": False}


def text(value: str) -> Leaf:
    return {"type": "str", "value": value}


def network(approximate: str = "none", **errors: float) -> Data:
    """Two layers and a loss, forwards and backwards; `errors` says which tensors are off, by what share.

    x, w, h: input, weight and output of the first layer; g: of gelu; v, y: weight and output of the second; the loss;
    dy, dg, dh, dx: gradients. took: what gelu takes, where it is not what the first layer gave.
    """
    sizes = {"x": 1.0, "w": 0.5, "h": 1.5, "g": 0.7, "v": 0.3, "y": 1.1, "dy": 0.2, "dg": 0.13, "dh": 0.09, "dx": 0.06}
    t = {name: tensor(size, errors.get(name, 0.0)) for name, size in sizes.items()}
    took = tensor(sizes["h"], errors["took"]) if "took" in errors else t["h"]
    loss = tensor(2.3, errors.get("loss", 0.0), shape=())
    return {
        "Functional.linear.0.forward": call([t["x"], t["w"]], [t["h"]]),
        "Functional.gelu.0.forward": call([took], [t["g"]], approximate=text(approximate)),
        "Functional.linear.1.forward": call([t["g"], t["v"]], [t["y"]]),
        "Functional.cross_entropy.0.forward": call([t["y"]], [loss]),
        "Functional.cross_entropy.0.backward": back([tensor(1.0, shape=())], [t["dy"]]),
        "Functional.linear.1.backward": back([t["dy"]], [t["dg"]]),
        "Functional.gelu.0.backward": back([t["dg"]], [t["dh"]]),
        "Functional.linear.0.backward": back([t["dh"]], [t["dx"]]),
    }


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        yield opened


def blamed(
    lake: Lake,
    target: Data | dict[int, Data],
    golden: Data | dict[int, Data] | None = None,
    parents: dict[str, str] | None = None,
    **how: Any,
) -> Blame:
    """The blame of a run with these ops (of one rank, or by rank) against golden (that of `network`)."""
    root = lake.path.parent
    for name, data in (("npu", target), ("gpu", network() if golden is None else golden)):
        ranks = data if 0 in data else {0: data}
        lake.ingest(write(root / name, ranks, parents=parents), run=name)
    lake.compare("npu", "gpu", name="pair")
    return blame(lake._connection, lake.path, "pair", **how)


def rows(relation: Any) -> list[dict[str, Any]]:
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def suspects(found: Blame) -> list[tuple[str, str]]:
    return [(row["op"], row["reason"]) for row in rows(found.suspects) if row["grade"] == "suspect"]


def path(found: Blame) -> list[str]:
    return [row["op"] for row in rows(found.path)]


AFTER_LINEAR_0 = {"h": 1e-3, "g": 1e-3, "y": 1e-3, "loss": 1e-4, "dy": 1e-3, "dg": 1e-3, "dh": 1e-3, "dx": 1e-3}
AFTER_GELU = {name: error for name, error in AFTER_LINEAR_0.items() if name != "h"}
FORWARD = [
    "Functional.linear.0.forward",
    "Functional.gelu.0.forward",
    "Functional.linear.1.forward",
    "Functional.cross_entropy.0.forward",
]


def test_nothing_differs(lake: Lake) -> None:
    found = blamed(lake, network())
    assert (rows(found.suspects), rows(found.path), rows(found.spread), rows(found.counts)) == ([], [], [], [])
    assert "Verdict: equal\n" in blame_text(found)
    assert "No op is a suspect." in blame_text(found)


def test_made_where_inputs_agree(lake: Lake) -> None:
    found = blamed(lake, network(**AFTER_LINEAR_0))
    assert suspects(found) == [(FORWARD[0], "made")]
    first = rows(found.suspects)[0]
    assert (first["input_error"], first["is_downstream"]) == (0, False)
    assert first["output_error"] == pytest.approx(1e-3, rel=0.01)
    assert first["added_error"] == first["output_error"]
    assert "its inputs agree (error 0), its output is off by 0.001" in first["why"]
    assert first["code"].startswith("File model.py, line 7")
    assert path(found) == FORWARD


def test_an_op_that_golden_computes_in_two_is_one_suspect(lake: Lake, tmp_path: Path) -> None:
    golden = network()
    linear = golden.pop(FORWARD[0])
    taken, made = linear["input_args"], linear["output"]
    product = tensor(1.4)
    steps = {"Torch.matmul.0.forward": call(taken, [product]), "Torch.add.0.forward": call([product], made)}
    slots = {"input.0": "matmul", "input.1": "matmul", "output.0": "add"}
    named = [(f"{FORWARD[0]}.{slot}", f"Torch.{step}.0.forward.{slot}") for slot, step in slots.items()]
    lake.ingest(write(tmp_path / "npu", {0: network(x=1e-7, **AFTER_LINEAR_0)}), run="npu")
    lake.ingest(write(tmp_path / "gpu", {0: steps | golden}), run="gpu")
    lake.compare("npu", "gpu", name="pair", mappings=Mappings(data=tuple(named)), search=False)
    found = blame(lake._connection, lake.path, "pair")
    first = rows(found.suspects)[0]
    assert (first["op"], first["ranks"]) == (FORWARD[0], [0])
    assert first["input_error"] == pytest.approx(1e-7, rel=0.3)
    assert path(found) == FORWARD


def test_an_argument_that_differs(lake: Lake) -> None:
    found = blamed(lake, network("tanh", **AFTER_GELU))
    assert suspects(found) == [(FORWARD[1], "argument")]
    assert "its argument input.approximate is tanh against none" in rows(found.suspects)[0]["why"]
    assert path(found) == FORWARD[1:]


def test_an_argument_of_one_side_only(lake: Lake) -> None:
    target = network(**AFTER_GELU)
    target[FORWARD[1]]["input_kwargs"]["inplace"] = {"type": "bool", "value": True}
    assert suspects(blamed(lake, target)) == [(FORWARD[1], "argument")]


def test_an_argument_without_effect_is_named_where_nothing_else_differs(lake: Lake) -> None:
    """It may act later, as the momentum of a BatchNorm does."""
    assert suspects(blamed(lake, network("tanh"))) == [(FORWARD[1], "argument")]


def test_an_argument_without_effect_is_no_cause_of_what_differs(lake: Lake) -> None:
    found = suspects(blamed(lake, network("tanh", y=1e-3, loss=1e-4)))
    assert found == [("Functional.linear.1.forward", "made")]


def test_an_argument_that_only_moves_values_explains_what_takes_them(lake: Lake) -> None:
    """Where the padding is at the other side no statistic of the padded tensor shows it."""

    def padded(before: int, **errors: float) -> Data:
        data = network(**errors)
        [h] = data[FORWARD[0]]["output"]
        widths = [{"type": "int", "value": width} for width in (before, 2 - before)]
        pad = {"Functional.pad.0.forward": call([h, widths], [h])}
        return {FORWARD[0]: data[FORWARD[0]]} | pad | data

    found = blamed(lake, padded(2, **AFTER_GELU), padded(1))
    assert suspects(found) == [("Functional.pad.0.forward", "argument")]


def test_an_argument_comes_before_what_grew_from_it(lake: Lake) -> None:
    """The argument changes nearly nothing, and the next op makes NaN of it (log(x + 0) for log(x + 1e-6))."""
    found = blamed(lake, network("tanh", g=1e-7, y=nan, loss=nan, dy=nan, dg=nan, dh=nan, dx=nan))
    assert suspects(found) == [(FORWARD[1], "argument"), (FORWARD[2], "made")]
    assert rows(found.suspects)[1]["is_downstream"]
    assert rows(found.suspects)[1]["output_error"] == inf


def test_a_weight_that_differs_from_the_start(lake: Lake) -> None:
    found = blamed(lake, network(w=1e-3, **AFTER_LINEAR_0))
    assert suspects(found) == [(FORWARD[0], "unrecorded")]
    assert "its input.1 is" in rows(found.suspects)[0]["why"]
    assert "came from no recorded op" in rows(found.suspects)[0]["why"]


def test_another_dtype_is_told_at_its_first_place(lake: Lake) -> None:
    """All that follows has the other dtype too; that is not an argument of those ops, it came to them."""
    target = network()
    for op in target.values():
        for leaf in [*op.get("input_args", op.get("input", [])), *op["output"]]:
            leaf["dtype"] = "torch.bfloat16"
    found = blamed(lake, target)
    assert suspects(found)[0] == (FORWARD[0], "unrecorded")
    assert not [reason for _, reason in suspects(found) if reason == "argument"]
    assert "torch.bfloat16" in rows(found.suspects)[0]["why"]


def test_an_input_that_is_not_what_was_made(lake: Lake) -> None:
    found = blamed(lake, network(took=1e-2, **AFTER_GELU))
    assert suspects(found) == [(FORWARD[1], "taken")]
    why = rows(found.suspects)[0]["why"]
    assert "in golden that is the output of Functional.linear.0.forward, which agrees here" in why
    assert "came from no recorded op" in why


def test_an_input_that_another_op_made(lake: Lake) -> None:
    first = {"Functional.embedding.0.forward": call([], [tensor(0.4)])}
    target = first | network(**AFTER_GELU)
    target[FORWARD[1]]["input_args"] = [tensor(0.4)]
    found = blamed(lake, target, first | network())
    assert suspects(found)[0] == (FORWARD[1], "taken")
    assert "but it is that of Functional.embedding.0.forward" in rows(found.suspects)[0]["why"]


def test_a_difference_by_an_op_that_is_not_recorded(lake: Lake) -> None:
    """What linear.1 takes is not an output in either run (an unrecorded op scaled it): gelu is to blame alone."""
    target, golden = network(**AFTER_GELU), network()
    target[FORWARD[2]]["input_args"][0], golden[FORWARD[2]]["input_args"][0] = tensor(70.0, 1e-3), tensor(70.0)
    found = blamed(lake, target, golden)
    assert suspects(found) == [(FORWARD[1], "made")]
    assert [hop["how"] for hop in rows(found.path)] == [None, "order", "value"]


def test_an_op_that_only_the_target_has(lake: Lake) -> None:
    target = network(y=1e-3, loss=1e-3, dy=1e-3, dg=1e-3, dh=1e-3, dx=1e-3)
    dropped = {"Functional.dropout.0.forward": call([tensor(0.7)], [tensor(0.65)])}
    target[FORWARD[2]]["input_args"][0] = tensor(0.65)
    entries = list(target.items())
    found = blamed(lake, dict(entries[:2]) | dropped | dict(entries[2:]))
    assert suspects(found)[0] == ("Functional.dropout.0.forward", "only in target")
    assert path(found) == ["Functional.dropout.0.forward", *FORWARD[2:]]


def test_an_op_that_only_one_has_without_effect(lake: Lake) -> None:
    extra = {"Functional.relu.0.forward": call([tensor(0.7)], [tensor(0.65)])}
    found = blamed(lake, network() | extra)
    assert suspects(found) == []
    assert [(row["op"], row["grade"]) for row in rows(found.suspects)] == [("Functional.relu.0.forward", "structure")]
    assert "No op is a suspect" in blame_text(found)


def test_ops_that_were_paired_askew(lake: Lake) -> None:
    """The target calls linear once more at first (a recomputation), so all later calls pair with the one before."""

    def numbered(sizes: list[float]) -> Data:
        return {
            f"Functional.linear.{nth}.forward": call([tensor(1.0)], [tensor(size)]) for nth, size in enumerate(sizes)
        }

    found = blamed(lake, numbered([3.0, 2.0, 3.0, 4.0]), numbered([2.0, 3.0, 4.0]))
    assert suspects(found) == []
    assert {row["grade"] for row in rows(found.suspects)} == {"askew"}


def chain(errors: list[float]) -> Data:
    """Linear ops one after the other; the n-th output is off by the n-th error."""
    tensors = [tensor(1.0), *(tensor(1.1 + nth / 10, error) for nth, error in enumerate(errors))]
    return {
        f"Functional.linear.{nth}.forward": call([tensors[nth], tensor(0.01 * (nth + 1))], [tensors[nth + 1]])
        for nth in range(len(errors))
    }


def test_usual_growth_is_no_cause(lake: Lake) -> None:
    """Each op doubles the error, as its kind does; the fifth makes a hundredfold of it, and stands downstream."""
    errors = [0, 1e-5, 2e-5, 4e-5, 4e-3, 8e-3, 16e-3]
    found = blamed(lake, chain(errors), chain([0] * len(errors)))
    assert suspects(found) == [("Functional.linear.1.forward", "made"), ("Functional.linear.4.forward", "made")]
    grown = rows(found.suspects)[1]
    assert grown["is_downstream"]
    assert grown["growth"] == pytest.approx(2, rel=0.01)
    assert grown["added_error"] == pytest.approx(4e-3 - 2 * 4e-5, rel=0.01)


def test_what_differs_in_a_repeat_is_noise(lake: Lake) -> None:
    """linear.0 is off in golden's repeat as much as in the target; linear.3 is not."""
    golden = chain([0] * 5)
    target = chain([1e-4, 1e-4, 1e-4, 1e-2, 1e-2])
    assert suspects(blamed(lake, target, golden))[0] == ("Functional.linear.0.forward", "made")
    with pytest.raises(UsageError, match=r"lakeprobe compare again gpu"):
        blame(lake._connection, lake.path, "pair", repeat="again")
    lake.ingest(write(lake.path.parent / "again", {0: chain([1e-4] * 5)}), run="again")
    for pair in (("again", "gpu"), ("gpu", "again")):
        lake.compare(*pair, name="repeat", replace=True)
        found = blame(lake._connection, lake.path, "pair", repeat="again")
        assert suspects(found) == [("Functional.linear.3.forward", "made")]
        noise = [row for row in rows(found.suspects) if row["grade"] == "noise"]
        assert [(row["op"], row["repeat_error"]) for row in noise] == [
            ("Functional.linear.0.forward", pytest.approx(1e-4, rel=0.01))
        ]


def test_a_module_is_not_blamed_for_the_op_in_it(lake: Lake) -> None:
    def run(error: float) -> Data:
        return {
            "Functional.linear.0.forward": call([tensor(1.0)], [tensor(2.0, error)]),
            "Module.layer.Linear.forward.0": call([tensor(1.0)], [tensor(2.0, error)]),
            "Functional.relu.0.forward": call([tensor(2.0, error)], [tensor(1.7, error)]),
        }

    inside = {"Functional.linear.0.forward": "Module.layer.Linear.forward.0"}
    found = blamed(lake, run(1e-3), run(0), parents=inside)
    assert suspects(found) == [("Functional.linear.0.forward", "made")]
    assert rows(found.suspects)[0]["module"] == "Module.layer.Linear.forward.0"


def test_a_module_stands_for_what_is_not_recorded_in_it(lake: Lake) -> None:
    golden = {"Module.layer.Linear.forward.0": call([tensor(1.0)], [tensor(2.0)])}
    target = {"Module.layer.Linear.forward.0": call([tensor(1.0)], [tensor(2.0, 1e-3)])}
    assert suspects(blamed(lake, target, golden)) == [("Module.layer.Linear.forward.0", "made")]


def test_a_backward_op_works_on_what_its_forward_op_took(lake: Lake) -> None:
    """Only the saved tensors of gelu's backward differ: gelu gave an equal output, of another input."""
    target = network(took=1e-2, dh=1e-2, dx=1e-2)
    assert ("Functional.gelu.0.backward", "made") not in suspects(blamed(lake, target))


def test_a_backward_op_of_its_own(lake: Lake) -> None:
    found = blamed(lake, network(dh=1e-2, dx=1e-2))
    assert suspects(found) == [("Functional.gelu.0.backward", "made")]
    assert path(found) == ["Functional.gelu.0.backward", "Functional.linear.0.backward"]


GROUP = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "7"}


def reduced(given: float = 0.0, taken: float = 0.0, rank: int = 0, first: float = 0.0) -> Data:
    """An op, an all_reduce of what it gives with the other rank, an op on the result, and a loss; with these errors."""
    mine, total = tensor(1.0 + rank, given), tensor(3.0, taken)
    loss = tensor(2.3, taken, shape=())
    return {
        "Functional.linear.0.forward": call([tensor(0.4, first)], [mine]),
        "Distributed.all_reduce.0.forward": call([mine], [total, GROUP], group=GROUP),
        "Functional.gelu.0.forward": call([total], [tensor(2.5, taken)]),
        "Functional.mse_loss.0.forward": call([tensor(2.5, taken)], [loss]),
    }


GOLDEN = {rank: reduced(rank=rank) for rank in (0, 1)}


def test_across_ranks(lake: Lake) -> None:
    found = blamed(lake, {0: reduced(0, 1e-3), 1: reduced(1e-3, 1e-3, 1)}, GOLDEN)
    assert suspects(found) == [("Functional.linear.0.forward", "made")]
    assert rows(found.suspects)[0]["ranks"] == [1]
    assert [(way["rank"], way["from_rank"], way["meeting"]) for way in rows(found.spread)] == [
        (0, 1, "all_reduce [0, 1] #0")
    ]
    assert {hop["rank"] for hop in rows(found.path)} == {1}
    assert path(found)[-1] == "Functional.mse_loss.0.forward"


def test_the_loss_of_another_rank(lake: Lake) -> None:
    """The rank of the cause ends with the transfer (a pipeline's first stage); the loss is on the other one."""

    def first_stage(error: float) -> Data:
        return dict(list(reduced(error, error, 1).items())[:1]) | {
            "Distributed.isend.0.forward": call([tensor(2.0, error), number(0)], [tensor(2.0, error), number(0)])
        }

    def last_stage(error: float) -> Data:
        received = tensor(2.0, error)
        return {
            "Distributed.irecv.0.forward": call([tensor(0.0), number(1)], [received, number(1)]),
            "Functional.mse_loss.0.forward": call([received], [tensor(2.3, error, shape=())]),
        }

    found = blamed(lake, {0: last_stage(1e-3), 1: first_stage(1e-3)}, {0: last_stage(0), 1: first_stage(0)})
    assert suspects(found) == [("Functional.linear.0.forward", "made")]
    assert [(hop["rank"], hop["op"].split(".")[1]) for hop in rows(found.path)] == [
        (1, "linear"), (1, "isend"), (0, "irecv"), (0, "mse_loss"),
    ]  # fmt: skip
    assert "carried from rank 1 by send 1 → 0 #0" in blame_text(found)


def number(value: int) -> Leaf:
    return {"type": "int", "value": value}


def test_a_broken_collective(lake: Lake) -> None:
    found = blamed(lake, {0: reduced(), 1: reduced(0, 1e-3, 1)}, GOLDEN)
    assert suspects(found) == [("Distributed.all_reduce.0.forward", "made")]
    assert rows(found.suspects)[0]["ranks"] == [1]


def test_shards_that_are_swapped(lake: Lake) -> None:
    """Each shard is as it should be, at the other's place."""

    def gathered(rank: int, order: list[float]) -> Data:
        shards = [tensor(size) for size in order]
        buffers = [tensor(0.0), tensor(0.0)]
        mine = tensor(1.0 + rank)
        return {"Distributed.all_gather.0.forward": call([buffers, mine], [shards, mine, GROUP], group=GROUP)}

    golden = {rank: gathered(rank, [1.0, 2.0]) for rank in (0, 1)}
    found = blamed(lake, golden | {1: gathered(1, [2.0, 1.0])}, golden)
    assert suspects(found) == [("Distributed.all_gather.0.forward", "made")]
    assert rows(found.suspects)[0]["ranks"] == [1]


def test_the_same_cause_on_all_ranks_is_one(lake: Lake) -> None:
    found = blamed(lake, {0: reduced(1e-3, 1e-3), 1: reduced(1e-3, 1e-3, 1)}, GOLDEN)
    assert [(row["op"], row["ranks"]) for row in rows(found.suspects)] == [("Functional.linear.0.forward", [0, 1])]


def test_a_rank_that_was_not_dumped(lake: Lake) -> None:
    found = blamed(lake, {0: reduced(0, 1e-3)}, {0: reduced()})
    assert suspects(found) == [("Distributed.all_reduce.0.forward", "absent")]
    assert "a rank that is not in the lake" in rows(found.suspects)[0]["why"]


def test_the_first_step_with_a_suspect(lake: Lake, tmp_path: Path) -> None:
    for name, error in (("npu", 1e-3), ("gpu", 0.0)):
        write(tmp_path / name, {0: chain([0, 0, 0])})
        write(tmp_path / name, {0: chain([0, error, error])}, step=4)
        lake.ingest(tmp_path / name, run=name)
    lake.compare("npu", "gpu", name="pair")
    assert blame(lake._connection, lake.path, "pair").step == 4
    assert suspects(blame(lake._connection, lake.path, "pair", step=0)) == []
    with pytest.raises(UsageError, match=r"has no step 3; it has 0, 4"):
        blame(lake._connection, lake.path, "pair", step=3)
    with pytest.raises(UsageError, match="has no comparison other"):
        blame(lake._connection, lake.path, "other")


def test_how_many_are_listed(lake: Lake) -> None:
    errors = [0, 1e-5, 2e-5, 4e-5, 4e-3, 8e-3, 16e-3]
    found = blamed(lake, chain(errors), chain([0] * len(errors)), most=1)
    assert len(rows(found.suspects)) == 1
    assert [(count["grade"], count["is_downstream"], count["events"]) for count in rows(found.counts)] == [
        ("suspect", False, 1),
        ("suspect", True, 1),
    ]


def test_text_and_json_agree(lake: Lake) -> None:
    found = blamed(lake, network(h=nan, g=nan, y=nan, loss=nan, dy=nan, dg=nan, dh=nan, dx=nan))
    told = json.loads(blame_json(found), parse_constant=lambda constant: pytest.fail(constant))
    first = told["suspects"][0]
    assert (told["comparison"], told["step"], first["op"], first["output_error"]) == ("pair", 0, FORWARD[0], "Infinity")
    assert [hop["op"] for hop in told["path"]] == FORWARD
    answer = blame_text(found)
    assert f"{FORWARD[0]} on rank 0: {first['why']}" in answer
    assert all(op in answer for op in FORWARD)


def test_command(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = blamed(lake, network(**AFTER_LINEAR_0))
    monkeypatch.setenv("LAKEPROBE_LAKE", str(lake.path))
    told = {form: CliRunner().invoke(app, ["blame", "pair", "--format", form]) for form in ("table", "csv", "json")}
    assert [result.exit_code for result in told.values()] == [0, 0, 0]
    assert told["table"].stdout == blame_text(expected)
    assert told["json"].stdout == blame_json(expected)
    assert told["csv"].stdout.splitlines()[0] == ",".join(expected.suspects.columns)
    assert FORWARD[0] in told["csv"].stdout
    assert CliRunner().invoke(app, ["blame", "nothing"]).exit_code != 0

"""The search for a mapping, in a comparison: two implementations of one small model, written by the test as dumps."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lakeprobe
from lakeprobe.mapping import row_pairs
from lakeprobe.mapping.files import Mappings

pytestmark = pytest.mark.sampled

Json = dict[str, Any]


def tensor(largest: float, shape: tuple[int, ...] = (4, 8), smallest: float | None = None) -> Json:
    low = -0.5 * largest if smallest is None else smallest
    statistics = {"Max": largest, "Min": low, "Mean": 0.1 * largest, "Norm": 3.0 * largest}
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(shape),
        **statistics,
        "requires_grad": False,
    }


def constant(value: float, shape: tuple[int, ...] = (8,)) -> Json:
    norm = abs(value) * 8**0.5
    return {**tensor(1.0, shape), "Max": value, "Min": value, "Mean": value, "Norm": norm}


def call(inputs: list[Json], *outputs: Json) -> Json:
    return {"input_args": inputs, "input_kwargs": {}, "output": list(outputs)}


def dump(folder: Path, framework: str, entries: Json) -> Path:
    place = folder / "step0" / "rank0"
    place.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "framework": framework, "dump_data_dir": None}
    (place / "dump.json").write_text(json.dumps({**head, "data": entries}))
    (place / "stack.json").write_text("{}")
    return folder


TORCH = {
    "Functional.linear.0.forward": call([tensor(2.0), tensor(0.7, (8, 8)), tensor(0.3, (8,))], tensor(3.3)),
    "Functional.batch_norm.0.forward": call(
        [tensor(3.3), constant(0.0), constant(1.0), constant(1.0), constant(0.0)], tensor(4.4)
    ),
    "Tensor.__add__.0.forward": call([tensor(4.4), tensor(2.0)], tensor(5.7)),
    "Functional.softmax.0.forward": call([tensor(5.7, smallest=float("-inf"))], tensor(0.9, smallest=0.01)),
}


def mindspore(factor: float = 1.0) -> Json:
    """The same model: an addition more at the start, a linear in two steps, permuted arguments, another mask.

    What BatchNorm puts out, and all behind it, is `factor` times what it should be.
    """
    out, total = 4.4 * factor, 5.7 * factor
    return {
        "Tensor.__add__.0.forward": call([tensor(1.2), tensor(1.3)], tensor(2.0)),
        "Primitive.reshape.Reshape.0.forward": call([tensor(2.0)], tensor(2.0, (2, 2, 8))),
        "Primitive.matmul.MatMul.0.forward": call([tensor(2.0, (2, 2, 8)), tensor(0.7, (8, 8))], tensor(3.1)),
        "Primitive.bias_add.BiasAdd.0.forward": call([tensor(3.1), tensor(0.3, (8,))], tensor(3.3)),
        "Primitive.bn_train.BatchNorm.0.forward": call(
            [tensor(3.3), constant(1.0), constant(0.0), constant(0.0), constant(1.0)], tensor(out)
        ),
        "Tensor.__add__.1.forward": call([tensor(out), tensor(2.0)], tensor(total)),
        "Functional.softmax.0.forward": call([tensor(total, smallest=-1e9)], tensor(0.9 * factor, smallest=0.01)),
    }


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    return dump(tmp_path / "ms", "mindspore", mindspore()), dump(tmp_path / "pt", "pytorch", TORCH)


def rows_of(lake: Path, target: Path, golden: Path, **options: Any) -> tuple[list[Json], Any]:
    with lakeprobe.open(lake, create=True) as opened:
        result = opened.compare(target, golden, **options)
        rows = [dict(zip(result.rows.columns, row, strict=True)) for row in result.rows.fetchall()]
        return rows, result.summary()


@pytest.mark.parametrize("swapped", [False, True], ids=["mindspore", "pytorch"])
def test_values_decide_in_either_direction(tmp_path: Path, sides: tuple[Path, Path], swapped: bool) -> None:
    rows, summary = rows_of(tmp_path / "lake", *(sides[::-1] if swapped else sides))
    names = ("golden_name", "target_name") if swapped else ("target_name", "golden_name")
    paired = {row[names[0]]: row[names[1]] for row in rows if row["matched_by"]}
    assert paired["Tensor.__add__.1.forward.output.0"] == "Tensor.__add__.0.forward.output.0"
    assert paired["Primitive.bias_add.BiasAdd.0.forward.output.0"] == "Functional.linear.0.forward.output.0"
    assert paired["Primitive.matmul.MatMul.0.forward.input.1"] == "Functional.linear.0.forward.input.1"
    norm = {left: right for left, right in paired.items() if "BatchNorm" in left}
    statistics = {row[names[0]]: (row["target_max"], row["golden_max"]) for row in rows if row["matched_by"]}
    assert len(norm) == 6
    assert all(ours == theirs for ours, theirs in (statistics[left] for left in norm))
    assert {row["difference"] for row in rows} <= {"equal", "noise", None}
    assert summary.beyond_noise == ()


def half(found: Json, dtype: str) -> Json:
    """The tensor in float16: a cast rounds its statistics."""
    return {
        **found,
        "dtype": dtype,
        **{name: float(np.float16(found[name])) for name in ("Max", "Min", "Mean", "Norm")},
    }


@pytest.mark.parametrize("swapped", [False, True], ids=["mindspore", "pytorch"])
def test_in_mixed_precision_a_tensor_and_its_cast_are_one(tmp_path: Path, swapped: bool) -> None:
    """O2 casts before the product, where autocast does so inside of it; one run has probabilities in float16."""
    came_in, normalised, weight = tensor(2.0123), tensor(4.4123), tensor(0.71234, (8, 8))
    made, probable = half(tensor(3.5321), "torch.float16"), tensor(0.91234, smallest=0.012345)
    torch = {
        "Functional.layer_norm.0.forward": call([came_in], normalised),
        "Functional.linear.0.forward": call([normalised, weight], made),
        "Functional.softmax.0.forward": call([made], probable),
    }
    cast = "Float16"
    mindspore = {
        "Primitive.layer_norm.LayerNorm.0.forward": call([came_in], normalised),
        "Primitive.matmul.MatMul.0.forward": call([half(normalised, cast), half(weight, cast)], half(made, cast)),
        "Functional.softmax.0.forward": call([half(made, cast)], half(probable, cast)),
    }
    both = dump(tmp_path / "ms", "mindspore", mindspore), dump(tmp_path / "pt", "pytorch", torch)
    rows, summary = rows_of(tmp_path / "lake", *(both[::-1] if swapped else both))
    names = ("golden_name", "target_name") if swapped else ("target_name", "golden_name")
    assert {row[names[0]]: row[names[1]] for row in rows} == {
        "Primitive.layer_norm.LayerNorm.0.forward.input.0": "Functional.layer_norm.0.forward.input.0",
        "Primitive.layer_norm.LayerNorm.0.forward.output.0": "Functional.layer_norm.0.forward.output.0",
        "Primitive.matmul.MatMul.0.forward.input.0": "Functional.linear.0.forward.input.0",
        "Primitive.matmul.MatMul.0.forward.input.1": "Functional.linear.0.forward.input.1",
        "Primitive.matmul.MatMul.0.forward.output.0": "Functional.linear.0.forward.output.0",
        "Functional.softmax.0.forward.input.0": "Functional.softmax.0.forward.input.0",
        "Functional.softmax.0.forward.output.0": "Functional.softmax.0.forward.output.0",
    }
    assert {row["difference"] for row in rows} <= {"equal", "noise"}
    assert summary.beyond_noise == ()


def test_nan_from_an_op_of_one_program_is_told_where_it_comes_in(tmp_path: Path) -> None:
    """0 times -inf, in a mask that the other program adds in another way."""
    nan = {**tensor(5.7), **dict.fromkeys(("Max", "Min", "Mean", "Norm"), float("nan"))}
    entries = mindspore()
    del entries["Functional.softmax.0.forward"]
    entries["Tensor.__mul__.0.forward"] = call([tensor(5.7)], nan)
    entries["Functional.softmax.0.forward"] = call([nan], {**nan, "shape": [4, 8]})
    sides = dump(tmp_path / "ms", "mindspore", entries), dump(tmp_path / "pt", "pytorch", TORCH)
    _, summary = rows_of(tmp_path / "lake", *sides)
    assert [found.op for found in summary.beyond_noise][:1] == ["Functional.softmax.0.forward"]


def test_what_is_left_has_its_reason(tmp_path: Path, sides: tuple[Path, Path]) -> None:
    rows, _ = rows_of(tmp_path / "lake", *sides)
    ended = {row["target_name"]: (row["outcome"], row["messages"]) for row in rows if row["target_name"]}
    assert ended["Primitive.reshape.Reshape.0.forward.output.0"][0] == "structure"
    assert ended["Primitive.matmul.MatMul.0.forward.output.0"][0] == "inside"
    masked = "inside: masked with -1e+09 on this side and with -inf on the other, and otherwise equal"
    assert ended["Functional.softmax.0.forward.input.0"] == ("inside", [masked])
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        kept = lake.sql("SELECT row, confidence, reason FROM pairs ORDER BY row").fetchall()
        assert [row for row, _, _ in kept] == [row["row"] for row in rows]
        assert lake.sql("SELECT count(*) FROM pairs WHERE confidence >= 0.9").fetchall()[0][0] >= 10


def test_a_difference_is_named_where_it_begins(tmp_path: Path) -> None:
    target, golden = dump(tmp_path / "ms", "mindspore", mindspore(1.3)), dump(tmp_path / "pt", "pytorch", TORCH)
    _, summary = rows_of(tmp_path / "lake", target, golden)
    assert [finding.op for finding in summary.beyond_noise] == ["Primitive.bn_train.BatchNorm.0.forward"]


def test_without_a_search_names_pair_alone(tmp_path: Path, sides: tuple[Path, Path]) -> None:
    rows, _ = rows_of(tmp_path / "lake", *sides, search=False)
    assert "search" not in {row["matched_by"] for row in rows}
    assert {row["outcome"] for row in rows} <= {"compared", "unmatched"}
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        assert lake.sql("FROM pairs").fetchall() == []


def test_a_search_runs_in_one_framework_where_few_ops_pair_by_name(tmp_path: Path) -> None:
    other = twice({name.replace("Primitive", "Torch"): entry for name, entry in mindspore().items()})
    sides = dump(tmp_path / "one", "pytorch", other), dump(tmp_path / "two", "pytorch", twice(TORCH))
    rows, _ = rows_of(tmp_path / "lake", *sides)
    assert "search" in {row["matched_by"] for row in rows}
    same, _ = rows_of(tmp_path / "lake", sides[1], dump(tmp_path / "three", "pytorch", twice(TORCH)))
    assert {row["matched_by"] for row in same} == {"exact"}


def twice(program: dict[str, Any]) -> dict[str, Any]:
    """The program called twice: names of fewer ops than that say nothing of two implementations."""
    return program | {name.replace(".0.", ".1."): entry for name, entry in program.items()}


def fused() -> Json:
    """A norm in one op, then two linear layers with a sum between."""
    return {
        "Functional.embedding.0.forward": call([tensor(9.0), tensor(5.0, (8, 8))], tensor(2.0)),
        "Functional.rms_norm.0.forward": call([tensor(2.0), tensor(0.7, (8,))], tensor(1.5)),
        "Functional.linear.0.forward": call([tensor(1.5), tensor(0.6, (8, 8))], tensor(3.1)),
        "Tensor.__add__.0.forward": call([tensor(2.0), tensor(3.1)], tensor(4.3)),
        "Functional.linear.1.forward": call([tensor(4.3), tensor(0.8, (8, 8))], tensor(6.1)),
    }


def in_steps(factor: float = 1.0, weight: float = 1.0) -> Json:
    """The same program with a norm in five ops. What the norm gives, or the second weight, is off by a factor."""
    norm, first, total, last = (number * factor for number in (1.5, 3.1, 4.3, 6.1))
    return {
        "Functional.embedding.0.forward": call([tensor(9.0), tensor(5.0, (8, 8))], tensor(2.0)),
        "Tensor.pow.0.forward": call([tensor(2.0)], tensor(4.0)),
        "Tensor.mean.0.forward": call([tensor(4.0)], tensor(0.4, (4, 1))),
        "Torch.rsqrt.0.forward": call([tensor(0.4, (4, 1))], tensor(0.9, (4, 1))),
        "Tensor.__mul__.0.forward": call([tensor(2.0), tensor(0.9, (4, 1))], tensor(1.2 * factor)),
        "Tensor.__mul__.1.forward": call([tensor(0.7, (8,)), tensor(1.2 * factor)], tensor(norm)),
        "Functional.linear.0.forward": call([tensor(norm), tensor(0.6, (8, 8))], tensor(first)),
        "Tensor.__add__.0.forward": call([tensor(2.0), tensor(first)], tensor(total)),
        "Functional.linear.1.forward": call([tensor(total), tensor(0.8 * weight, (8, 8))], tensor(last * weight)),
    }


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (in_steps(), None),
        (in_steps(factor=1.02), "Tensor.__mul__.1.forward"),
        (in_steps(factor=3.0), "Tensor.__mul__.1.forward"),
        (in_steps(weight=1.2), "Functional.linear.1.forward"),
    ],
    ids=["equal", "near", "far", "weight"],
)
def test_the_end_of_what_is_one_op_there_is_named(tmp_path: Path, program: Json, cause: str | None) -> None:
    """Behind a difference no value agrees; what is made of the same tensors is held against each other."""
    target, golden = dump(tmp_path / "steps", "mindspore", program), dump(tmp_path / "fused", "pytorch", fused())
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(target, golden)
        first = result.first_difference().ranks.select("op").fetchall()
        suspects = result.blame().suspects.select("op").fetchall()
        assert [op for (op,) in first if op] == ([cause] if cause else [])
        assert [op for (op,) in suspects[:1]] == ([cause] if cause else [])


def attended() -> Json:
    """Attention as one function, which takes its projections as one weight; then the sum with what went in."""
    return {
        "Functional.embedding.0.forward": call([tensor(0.6, (8, 8))], tensor(1.7)),
        "Functional.layer_norm.0.forward": call([tensor(1.7), tensor(1.1, (8,))], tensor(2.0)),
        "Functional.multi_head_attention_forward.0.forward": call(
            [tensor(2.0), tensor(2.0), tensor(2.0), tensor(0.9, (24, 8)), tensor(0.6, (8, 8))], tensor(3.3)
        ),
        "Tensor.__add__.0.forward": call([tensor(2.0), tensor(3.3)], tensor(5.7)),
        "Functional.relu.0.forward": call([tensor(5.7)], tensor(4.6, smallest=0.0)),
    }


def attended_in_steps(factor: float) -> Json:
    """The same in single steps, but for the one before the last, which was not recorded.

    Its scores, and all behind them, are off by `factor`.
    """
    return {
        "Functional.embedding.0.forward": call([tensor(0.6, (8, 8))], tensor(1.7)),
        "Functional.layer_norm.0.forward": call([tensor(1.7), tensor(1.1, (8,))], tensor(2.0)),
        "Functional.linear.0.forward": call([tensor(2.0), tensor(0.8, (8, 6))], tensor(2.1, (4, 6))),
        "Functional.linear.1.forward": call([tensor(2.0), tensor(0.7, (8, 6))], tensor(2.2, (4, 6))),
        "Functional.linear.2.forward": call([tensor(2.0), tensor(0.9, (8, 6))], tensor(2.3, (4, 6))),
        "Torch.bmm.0.forward": call([tensor(2.1, (4, 6)), tensor(2.2, (4, 6))], tensor(1.4 * factor, (4, 4))),
        "Torch.softmax.0.forward": call([tensor(1.4 * factor, (4, 4))], tensor(0.8 * factor, (4, 4), 0.01)),
        "Torch.matmul.0.forward": call(
            [tensor(0.8 * factor, (4, 4)), tensor(2.3, (4, 6))], tensor(1.9 * factor, (4, 5))
        ),
        "Functional.linear.3.forward": call([tensor(7.9 * factor, (4, 5)), tensor(0.6, (8, 8))], tensor(3.3 * factor)),
        "Tensor.__add__.0.forward": call([tensor(2.0), tensor(3.3 * factor)], tensor(5.7 * factor)),
        "Functional.relu.0.forward": call([tensor(5.7 * factor)], tensor(4.6 * factor, smallest=0.0)),
    }


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_what_goes_into_the_same_place_pairs_where_it_is_made(tmp_path: Path, factor: float) -> None:
    ours = dump(tmp_path / "steps", "mindspore", attended_in_steps(factor))
    theirs = dump(tmp_path / "fused", "pytorch", attended())
    rows, summary = rows_of(tmp_path / "lake", ours, theirs)
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"] and row["golden_name"]}
    result = "Functional.linear.3.forward.output.0"
    assert paired[result] == "Functional.multi_head_attention_forward.0.forward.output.0"
    assert [op.op for op in summary.beyond_noise] == (["Functional.linear.3.forward"] if factor > 1 else [])


def test_what_a_common_weight_multiplies_pairs_though_a_step_before_it_is_closer(tmp_path: Path) -> None:
    embedding = {"Functional.embedding.0.forward": call([tensor(0.6, (8, 8))], tensor(1.7))}
    fused = embedding | {
        "Functional.scaled_dot_product_attention.0.forward": call([tensor(1.7)], tensor(2.0)),
        "Functional.linear.0.forward": call([tensor(2.0), tensor(0.9, (8, 8))], tensor(3.3)),
    }
    steps = embedding | {
        "Functional.softmax.0.forward": call([tensor(1.7)], tensor(2.01)),
        "Torch.matmul.0.forward": call([tensor(2.01)], tensor(3.0)),
        "Functional.linear.0.forward": call([tensor(3.0), tensor(0.9, (8, 8))], tensor(5.0)),
    }
    ours, theirs = dump(tmp_path / "steps", "mindspore", steps), dump(tmp_path / "fused", "pytorch", fused)
    rows, _ = rows_of(tmp_path / "lake", ours, theirs)
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"] and row["golden_name"]}
    end = "Functional.scaled_dot_product_attention.0.forward.output.0"
    assert paired["Torch.matmul.0.forward.output.0"] == end
    assert "Functional.softmax.0.forward.output.0" not in paired


def test_a_constant_is_no_counterpart_of_what_varies(tmp_path: Path) -> None:
    targets, loss = constant(1.0, (4, 8)), constant(0.9, ())
    ours = {"Functional.binary_cross_entropy.0.forward": call([tensor(2.0), targets], loss)}
    theirs = {
        "Functional.relu.0.forward": call([tensor(2.0)], tensor(2.5)),
        "Tensor.mean.0.forward": call([tensor(2.5)], loss),
    }
    target, golden = dump(tmp_path / "one", "pytorch", ours), dump(tmp_path / "steps", "mindspore", theirs)
    rows, summary = rows_of(tmp_path / "lake", target, golden)
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"]}
    assert paired["Functional.binary_cross_entropy.0.forward.output.0"] == "Tensor.mean.0.forward.output.0"
    assert paired.get("Functional.binary_cross_entropy.0.forward.input.1") is None
    assert summary.beyond_noise == ()


@pytest.mark.parametrize(("step", "is_paired"), [(5.2, False), (5.02, True)], ids=["far", "near"])
def test_what_a_step_takes_is_no_counterpart_if_it_is_far_and_the_results_agree(
    tmp_path: Path, step: float, is_paired: bool
) -> None:
    ours = {
        "Functional.relu.0.forward": call([tensor(90.0)], tensor(5.0)),
        "Functional.linear.0.forward": call([tensor(2.0), tensor(5.0)], tensor(3.3)),
    }
    theirs = {
        "Primitive.mul.Mul.0.forward": call([tensor(2.0), tensor(step)], tensor(1.1)),
        "Primitive.bias_add.BiasAdd.0.forward": call([tensor(1.1), tensor(0.3, (8,))], tensor(3.3)),
    }
    target, golden = dump(tmp_path / "one", "pytorch", ours), dump(tmp_path / "steps", "mindspore", theirs)
    rows, _ = rows_of(tmp_path / "lake", target, golden)
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"] and row["golden_name"]}
    expected = "Primitive.mul.Mul.0.forward.input.1" if is_paired else None
    assert paired.get("Functional.linear.0.forward.input.1") == expected


@pytest.mark.parametrize("rows", [2, 4], ids=["a part of the batch", "the same again"])
def test_gradients_of_two_calls_do_not_pair_with_that_of_one(tmp_path: Path, rows: int) -> None:
    def calls(name: str, framework: str, rows: int, made: list[float], gradients: list[float]) -> Path:
        weight, shape = tensor(0.9, (8, 8)), (rows, 8)
        forward = {
            f"Functional.linear.{number}.forward": call([tensor(2.0, shape), weight], tensor(out, shape))
            for number, out in enumerate(made)
        }
        backward = {
            f"Functional.linear.{number}.backward": {
                "input": [tensor(0.6 * gradient, shape)],
                "output": [tensor(0.3 * gradient, (8, 8))],
            }
            for number, gradient in reversed(list(enumerate(gradients)))
        }
        return dump(tmp_path / name, framework, forward | backward)

    made = [3.3, 3.3] if rows == 4 else [3.1, 3.2]
    two, one = calls("two", "pytorch", rows, made, [0.4, 0.7]), calls("one", "mindspore", 4, [3.3], [1.1])
    found, _ = rows_of(tmp_path / "lake", two, one)
    assert not [row for row in found if row["matched_by"] and row["golden_name"] and "backward" in row["golden_name"]]


def test_shares_of_one_gradient_do_not_pair_by_slot(tmp_path: Path) -> None:
    def dumped(name: str, framework: str, taken: list[Json], shares: list[Json]) -> Path:
        backward = {"input": [tensor(0.6)], "output": shares}
        entries = {
            f"Module.{name}.Attention.forward.0": call(taken, tensor(3.3)),
            "Functional.relu.0.forward": call([tensor(3.3)], tensor(3.0, smallest=0.0)),
            "Functional.relu.0.backward": {"input": [tensor(0.5)], "output": [tensor(0.6)]},
            f"Module.{name}.Attention.backward.0": backward,
        }
        return dump(tmp_path / name, framework, entries)

    three = dumped("fused", "pytorch", [tensor(2.0)] * 3, [tensor(0.11), tensor(0.23), tensor(0.47)])
    two = dumped("steps", "mindspore", [tensor(2.0)] * 2, [tensor(0.11), tensor(0.71)])
    rows, summary = rows_of(tmp_path / "lake", two, three)
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"] and row["golden_name"]}
    gradient = "Module.steps.Attention.backward.0"
    assert paired[f"{gradient}.output.0"] == "Module.fused.Attention.backward.0.output.0"
    assert f"{gradient}.output.1" not in paired
    assert summary.beyond_noise == ()


def module(parameters: Json, value: float, out: float) -> Json:
    return {**call([tensor(value)], tensor(out)), "parameters": parameters}


def weight(largest: float, norm: float, shape: tuple[int, ...], smallest: float = -3.0, mean: float = 0.0) -> Json:
    return {**tensor(largest, shape, smallest), "Norm": norm, "Mean": mean}


def test_layouts_are_notes(tmp_path: Path) -> None:
    """Three weights that are one there, a weight that lies across, a table that is padded: none of them differs."""
    ours = {
        "Module.q.Linear.forward.0": module({"weight": weight(1.0, 3.0, (8, 8))}, 2.0, 3.0),
        "Module.k.Linear.forward.0": module({"weight": weight(2.0, 4.0, (8, 8))}, 2.0, 3.1),
        "Module.v.Linear.forward.0": module({"weight": weight(1.5, 12.0, (8, 8))}, 2.0, 3.2),
        "Module.out.Linear.forward.0": module({"weight": weight(4.0, 7.0, (8, 16))}, 3.2, 5.0),
        "Module.table.Linear.forward.0": module({"weight": weight(6.0, 9.0, (10, 8), mean=0.2)}, 5.0, 7.0),
    }
    theirs = {
        "Module.qkv.Linear.forward.0": module({"weight": weight(2.0, 13.0, (24, 8))}, 2.0, 3.2),
        "Module.dense.Linear.forward.0": module({"weight": weight(4.0, 7.0, (16, 8))}, 3.2, 5.0),
        "Module.vocabulary.Linear.forward.0": module({"weight": weight(6.0, 9.0, (16, 8), mean=0.1)}, 5.0, 7.0),
    }
    rows, summary = rows_of(
        tmp_path / "lake", dump(tmp_path / "a", "mindspore", ours), dump(tmp_path / "b", "pytorch", theirs)
    )
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        reasons = dict(lake.sql("SELECT row, reason FROM pairs").fetchall())
    said = {row["target_name"] or row["golden_name"]: reasons[row["row"]] for row in rows}
    whole = "Module.qkv.Linear.forward.0.parameters.weight"
    assert said["Module.q.Linear.forward.0.parameters.weight"] == f"inside: fused: a part of {whole}"
    assert said[whole].startswith("inside: fused: holds Module.q.Linear.forward.0.parameters.weight, Module.k")
    assert "transposed: [8, 16] against [16, 8]" in said["Module.out.Linear.forward.0.parameters.weight"]
    assert said["Module.table.Linear.forward.0.parameters.weight"].startswith("inside: padded: [10, 8] against [16, 8]")
    assert {row["difference"] for row in rows} <= {"equal", "noise", None}
    assert summary.beyond_noise == ()


@pytest.mark.parametrize("swapped", [False, True], ids=["parts", "whole"])
@pytest.mark.parametrize(("taken", "is_named"), [(2.0, True), (2.2, False)], ids=["the same input", "another input"])
def test_parts_that_do_not_make_up_the_whole_differ(
    tmp_path: Path, taken: float, is_named: bool, swapped: bool
) -> None:
    """The key's largest number is 2.5, where 2.0 is the largest of the whole. Between the weights stand biases."""
    parts = {
        f"Module.{name}.Linear.forward.0": module({"weight": weight(*statistics, (8, 8)), "bias": bias}, 2.0, out)
        for name, statistics, bias, out in (
            ("q", (1.0, 3.0), weight(0.3, 0.4, (8,)), 3.0),
            ("k", (2.5, 4.5), weight(0.4, 0.5, (8,)), 3.1),
            ("v", (1.5, 12.0), weight(0.5, 0.6, (8,)), 3.2),
        )
    }
    parameters = {"weight": weight(2.0, 13.0, (24, 8)), "bias": weight(0.5, 0.77**0.5, (24,))}
    whole = {"Module.qkv.Linear.forward.0": module(parameters, taken, 3.3) | {"output": [tensor(3.3, (4, 24))]}}
    runs = dump(tmp_path / "parts", "mindspore", parts), dump(tmp_path / "whole", "pytorch", whole)
    rows, summary = rows_of(tmp_path / "lake", *(runs[::-1] if swapped else runs))
    different = {(row["target_name"], row["golden_name"]) for row in rows if row["difference"] == "different"}
    names = "Module.k.Linear.forward.0.parameters.weight", "Module.qkv.Linear.forward.0.parameters.weight"
    if is_named:
        assert different == {names[::-1] if swapped else names}
        ops = [name.removesuffix(".parameters.weight") for name in names]
        assert [finding.op for finding in summary.beyond_noise] == [ops[swapped]]
    else:
        assert names not in different
        assert names[::-1] not in different


def saved(folder: Path, name: str, values: Any) -> Json:
    """A tensor with its contents beside the dump."""
    data = folder / "step0" / "rank0" / "dump_tensor_data"
    data.mkdir(parents=True, exist_ok=True)
    np.save(data / f"{name}.npy", values)
    statistics = {"Max": values.max(), "Min": values.min(), "Mean": values.mean(), "Norm": np.linalg.norm(values)}
    numbers = {key: float(value) for key, value in statistics.items()}
    return {**tensor(1.0, values.shape), **numbers, "data_name": f"{name}.npy"}


@pytest.mark.parametrize("proposed", [False, True], ids=["searched", "proposed"])
def test_contents_are_compared_in_one_layout(tmp_path: Path, proposed: bool) -> None:
    """A weight that lies across though it is square, and (batch, sequence) swapped: both are measured, none differs."""
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(2, 5, 8)).astype("f4"), random.normal(size=(8, 8)).astype("f4")
    out = x @ weight
    for name, framework, op, arrays in (
        ("ms", "mindspore", "Primitive.matmul.MatMul.0.forward", (x, weight, out)),
        ("pt", "pytorch", "Functional.linear.0.forward", (x.swapaxes(0, 1), weight.T, out.swapaxes(0, 1))),
    ):
        leaves = [saved(tmp_path / name, f"{op}.{place}", array) for place, array in enumerate(arrays)]
        place = tmp_path / name / "step0" / "rank0"
        head = {"task": "tensor", "level": "L1", "framework": framework, "dump_data_dir": str(place)}
        (place / "dump.json").write_text(json.dumps({**head, "data": {op: call(leaves[:2], leaves[2])}}))
        (place / "stack.json").write_text("{}")
    slots = ("input.0", "input.1", "output.0")
    pairs = [(f"Primitive.matmul.MatMul.0.forward.{slot}", f"Functional.linear.0.forward.{slot}") for slot in slots]
    mappings = Mappings(data=tuple(pairs) if proposed else ())
    rows, _ = rows_of(tmp_path / "lake", tmp_path / "ms", tmp_path / "pt", mappings=mappings)
    assert {row["matched_by"] for row in rows} == {"data" if proposed else "search"}
    measured = {row["target_name"].rpartition("forward.")[2]: (row["cosine"], row["max_abs_error"]) for row in rows}
    assert measured == {"input.0": (1.0, 0.0), "input.1": (1.0, 0.0), "output.0": (1.0, 0.0)}
    assert {row["difference"] for row in rows} == {"equal"}
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        reasons = [reason for (reason,) in lake.sql("SELECT reason FROM pairs ORDER BY row").fetchall()]
    assert [reason.rpartition(", compared with ")[2] for reason in reasons] == [
        "the target's axes in the order 1, 0, 2",
        "the target's axes in the order 1, 0",
        "the target's axes in the order 1, 0, 2",
    ]


def gathered(rows: int, lowest: float) -> Json:
    """An expert that takes `rows` of 8 tokens: a linear, what is made of it, and a linear of that."""
    share = rows / 8
    inner, made = tensor(4.0 * share, (rows, 16)), tensor(2.0 * share, (rows, 16), lowest)
    return {
        "Functional.linear.0.forward": call([tensor(3.0, (8, 8)), tensor(0.9, (8, 8))], tensor(5.0, (8, 8))),
        "Functional.linear.1.forward": call([tensor(5.0 * share, (rows, 8)), tensor(0.7, (16, 8))], inner),
        "Functional.silu.0.forward": call([inner], made),
        "Functional.linear.2.forward": call([made, tensor(0.6, (8, 16))], tensor(1.1 * share, (rows, 8))),
        "Tensor.sum.0.forward": call([tensor(1.1 * share, (rows, 8))], tensor(7.0, (8,))),
    }  # fmt: skip


@pytest.mark.parametrize(("lowest", "different"), [(-0.2, []), (-0.4, ["Functional.silu.0.forward.output.0"])])
def test_some_rows_stay_in_the_range_of_all(tmp_path: Path, lowest: float, different: list[str]) -> None:
    some = dump(tmp_path / "some", "pytorch", gathered(4, lowest))
    every = dump(tmp_path / "every", "mindspore", gathered(8, -0.3))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(some, every)
        rows = [dict(zip(result.rows.columns, row, strict=True)) for row in result.rows.fetchall()]
    assert [row["target_name"] for row in rows if row["difference"] == "different"] == different
    assert {row["outcome"] for row in rows if row["target_name"] == "Functional.linear.1.forward.output.0"} == {
        "inside"
    }


def test_steps_of_unrelated_kinds_that_are_far_apart_are_steps_on_two_ways(tmp_path: Path) -> None:
    """A quotient by a root in one program, a product with what a sum gave in the other; only their results are one."""
    embedding = {"Functional.embedding.0.forward": call([tensor(0.6, (8, 8))], tensor(1.7))}
    by_root = {
        "Torch.sqrt.0.forward": call([tensor(1.7)], tensor(2.0, (4, 1))),
        "Tensor.__truediv__.0.forward": call([tensor(1.7), tensor(2.0, (4, 1))], tensor(0.87)),
    }
    by_sum = {
        "Tensor.mean.0.forward": call([tensor(1.7)], tensor(3.0, (4, 1))),
        "Tensor.__add__.0.forward": call([tensor(3.0, (4, 1))], tensor(3.4, (4, 1))),
        "Tensor.__mul__.0.forward": call([tensor(1.7), tensor(3.4, (4, 1))], tensor(0.85)),
    }
    sides = (
        dump(tmp_path / "root", "mindspore", embedding | by_root),
        dump(tmp_path / "sum", "pytorch", embedding | by_sum),
    )
    rows, summary = rows_of(tmp_path / "lake", *sides)
    found = {row["target_name"]: (row["golden_name"], row["outcome"]) for row in rows}
    assert found["Torch.sqrt.0.forward.output.0"] == (None, "inside")
    assert found["Tensor.__truediv__.0.forward.output.0"] == ("Tensor.__mul__.0.forward.output.0", "compared")
    assert [op.op for op in summary.beyond_noise] == ["Tensor.__truediv__.0.forward"]


@pytest.mark.parametrize(("leaves", "paired"), [(1, 1), (2, 0)])
def test_a_shape_tells_which_leaf_is_meant_only_where_one_has_it(
    monkeypatch: pytest.MonkeyPatch, leaves: int, paired: int
) -> None:
    op = SimpleNamespace(kind="api", place=0, family="clip", direction="forward")

    def leaf(row: int) -> Any:
        return SimpleNamespace(role="input", kind="float", elements=4, row=row, tensor=object(), op=op)

    pair = SimpleNamespace(target=op, golden=op)
    rows, added = object.__new__(row_pairs._Rows), []
    rows.pairs, rows.taken, rows.return_others = [pair], (bytearray(9), bytearray(9)), [False]
    rows.neighbours = [SimpleNamespace(parts=lambda op: [op, op])] * 2
    rows.matches = SimpleNamespace(are_rootless=lambda one, other: False)
    for name, answer in {
        "open_ops": lambda by_value: ([True], [False]), "free": lambda pair: ([leaf(row) for row in range(leaves)], []),
        "offered": lambda op, side: [leaf(5)], "are_behind": lambda pair: True,
        "add": lambda leaf, other, *_: added.append(leaf.row),
    }.items():  # fmt: skip
        setattr(rows, name, answer)
    monkeypatch.setattr(row_pairs, "excludes", lambda leaf, other: False)
    monkeypatch.setattr(row_pairs, "_values", lambda leaf, other: ())
    monkeypatch.setattr(row_pairs.layouts, "of_pair", lambda leaf, other: "")
    rows.around(by_value=False)
    assert len(added) == paired


def layers(*, biased: bool = True, rectified: bool = True, added: bool = True) -> Json:
    """Two layers in a function each, a ReLU, a sum and a norm; without some of them other numbers come out."""
    first, second = tensor(3.1), tensor(3.3 if biased else 2.9)
    weights = [tensor(0.6, (8, 8)), tensor(0.4, (8,))]
    taken = tensor(3.3 if biased else 2.9, smallest=0.0) if rectified else second
    total = tensor(4.3 + biased + 2 * rectified) if added else taken
    found = {
        "Functional.linear.0.forward": call([tensor(1.5), tensor(0.7, (8, 8)), tensor(0.3, (8,))], first),
        "Functional.linear.1.forward": call([first, *(weights if biased else weights[:1])], second),
    }
    if rectified:
        found["Functional.relu.0.forward"] = call([second], taken)
    if added:
        found["Tensor.__add__.0.forward"] = call([first, taken], total)
    given = tensor(6.0 + biased + 2 * rectified + 4 * added)
    return found | {"Functional.layer_norm.0.forward": call([total, tensor(0.9, (8,))], given)}


def layers_in_steps() -> Json:
    """The same with the bias of each layer added in an op of its own."""
    return {
        "Functional.matmul.0.forward": call([tensor(1.5), tensor(0.7, (8, 8))], tensor(2.7)),
        "Tensor.__add__.0.forward": call([tensor(2.7), tensor(0.3, (8,))], tensor(3.1)),
        "Functional.matmul.1.forward": call([tensor(3.1), tensor(0.6, (8, 8))], tensor(2.9)),
        "Tensor.__add__.1.forward": call([tensor(2.9), tensor(0.4, (8,))], tensor(3.3)),
        "Functional.relu.0.forward": call([tensor(3.3)], tensor(3.3, smallest=0.0)),
        "Tensor.__add__.2.forward": call([tensor(3.1), tensor(3.3, smallest=0.0)], tensor(7.3)),
        "Functional.layer_norm.0.forward": call([tensor(7.3), tensor(0.9, (8,))], tensor(13.0)),
    }


@pytest.mark.parametrize("swapped", [False, True], ids=["missing", "additional"])
@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (layers(), None),
        (layers(biased=False), "Tensor.__add__.1.forward"),
        (layers(rectified=False), "Functional.relu.0.forward"),
        (layers(added=False), "Tensor.__add__.2.forward"),
    ],
    ids=["equal", "bias", "relu", "residual"],
)
def test_an_op_that_the_other_program_skips_is_named(
    tmp_path: Path, program: Json, cause: str | None, swapped: bool
) -> None:
    runs = dump(tmp_path / "fused", "pytorch", program), dump(tmp_path / "steps", "mindspore", layers_in_steps())
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(*(runs[::-1] if swapped else runs))
        first = result.first_difference().ranks.select("op").fetchall()
        suspects = result.blame().suspects.select("op").fetchall()
    assert [op for (op,) in first if op] == ([cause] if cause else [])
    assert [op for (op,) in suspects[:1]] == ([cause] if cause else [])


def number(value: float) -> Json:
    """A single number, whose norm is recorded with its sign."""
    return {**tensor(value, ()), "Max": value, "Min": value, "Mean": value, "Norm": value}


def trained(program: Json, gradient: float) -> Json:
    """A program with the backward call of the layer before its loss."""
    gradients = [tensor(gradient, (4, 8)), tensor(2 * gradient, (8, 8))]
    layer = {"Functional.linear.0.forward": call([tensor(1.5), tensor(0.7, (8, 8))], tensor(3.1))}
    backward = {"input": [tensor(3 * gradient)], "output": gradients}
    return layer | program | {"Functional.linear.0.backward": backward}


@pytest.mark.parametrize(("loss", "cause"), [(0.7, None), (5.6, "Tensor.__truediv__.0.forward")], ids=["equal", "sum"])
def test_a_sum_that_only_one_program_divides_is_named_where_it_is_divided(
    tmp_path: Path, loss: float, cause: str | None
) -> None:
    fused = {"Functional.cross_entropy.0.forward": call([tensor(3.1)], number(loss))}
    steps = {
        "Functional.log_softmax.0.forward": call([tensor(3.1)], tensor(-0.1, smallest=-5.0)),
        "Tensor.sum.0.forward": call([tensor(-0.1, smallest=-5.0)], number(-5.6)),
        "Tensor.__neg__.0.forward": call([number(-5.6)], number(5.6)),
        "Tensor.__truediv__.0.forward": call([number(5.6)], number(0.7)),
    }
    ours = dump(tmp_path / "fused", "pytorch", trained(fused, 0.2 * loss / 0.7))
    theirs = dump(tmp_path / "steps", "mindspore", trained(steps, 0.2))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        first = lake.compare(ours, theirs).first_difference().ranks.select("op").fetchall()
    assert [op for (op,) in first if op] == ([cause] if cause else [])


def test_a_minus_before_the_loss_need_not_be_recorded(tmp_path: Path) -> None:
    """The last numbers of the forward passes differ in their sign alone; gradients differ for another reason."""
    fused = {"Functional.cross_entropy.0.forward": call([tensor(3.1)], number(0.7))}
    steps = {
        "Functional.log_softmax.0.forward": call([tensor(3.1)], tensor(-0.1, smallest=-5.0)),
        "Tensor.mean.0.forward": call([tensor(-0.1, smallest=-5.0)], number(-0.7)),
    }
    ours = dump(tmp_path / "fused", "pytorch", trained(fused, 0.9))
    theirs = dump(tmp_path / "steps", "mindspore", trained(steps, 0.2))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.compare(ours, theirs)
        differing = lake.sql("SELECT target_op FROM results WHERE difference = 'different'").fetchall()
    assert {op for (op,) in differing} == {"Functional.linear.0.backward"}


def test_means_of_parts_do_not_pair_with_the_mean_of_all(tmp_path: Path) -> None:
    """One program adds the means of two batches, the other takes that of the joined batch, and multiplies otherwise."""
    ways = tensor(3.1), tensor(2.9)
    start = {
        f"Functional.linear.{place}.forward": call([tensor(1.5 + place), tensor(0.7, (8, 8))], way)
        for place, way in enumerate(ways)
    }
    ours = start | {
        "Tensor.mean.0.forward": call([ways[0]], number(0.27)),
        "Tensor.mean.1.forward": call([ways[1]], number(0.29)),
        "Tensor.__add__.0.forward": call([number(0.27), number(0.29)], number(0.56)),
        "Tensor.__rmul__.0.forward": call([number(0.56)], number(0.028)),
    }
    joined = tensor(3.1, (8, 8), smallest=-0.5)
    theirs = start | {
        "Torch.cat.0.forward": call(list(ways), joined),
        "Tensor.mean.0.forward": call([joined], number(0.28)),
        "Tensor.__rmul__.0.forward": call([number(0.28)], number(0.028)),
    }
    for program, factor in ((ours, 0.1), (theirs, 0.3)):
        program["Tensor.__rmul__.0.backward"] = {"input": [number(1.0)], "output": [number(factor)]}
        for place in (1, 0):
            gradients = [tensor(0.4 + place, (4, 8)), tensor(0.8 + place, (8, 8))]
            program[f"Functional.linear.{place}.backward"] = {"input": [tensor(0.2 + place)], "output": gradients}
    _, summary = rows_of(
        tmp_path / "lake", dump(tmp_path / "one", "pytorch", ours), dump(tmp_path / "two", "mindspore", theirs)
    )
    assert summary.beyond_noise == ()


SCORES = {"Functional.linear.0.forward": call([tensor(1.5), tensor(0.7, (8, 8))], tensor(3.1))}
KEYS, FACTOR, MASK = tensor(2.2, (8, 8)), number(0.35), tensor(1.0, smallest=0.0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            {
                "Functional.matmul.0.forward": call([tensor(3.1), KEYS], tensor(9.0)),
                "Tensor.__mul__.0.forward": call([tensor(9.0), FACTOR], tensor(3.2)),
            },
            {
                "Tensor.__mul__.0.forward": call([tensor(3.1), FACTOR], tensor(1.085)),
                "Functional.matmul.0.forward": call([tensor(1.085), KEYS], tensor(3.4)),
            },
        ),
        (
            {"Tensor.masked_fill.0.forward": call([tensor(3.1), {**MASK, "dtype": "torch.bool"}], tensor(3.0))},
            {
                "Tensor.__mul__.0.forward": call([tensor(3.1), MASK], tensor(3.1, smallest=-0.1)),
                "Tensor.__sub__.0.forward": call([tensor(3.1, smallest=-0.1), tensor(1e9, smallest=0.0)], tensor(2.8)),
            },
        ),
    ],
    ids=["scale", "mask"],
)
def test_what_the_other_program_does_later_or_otherwise_is_not_skipped(
    tmp_path: Path, ours: Json, theirs: Json
) -> None:
    """Here the results differ, as they do by rounding to 16 bits."""
    sides = [
        dump(
            tmp_path / framework,
            framework,
            SCORES | steps | {"Functional.softmax.0.forward": call([taken], tensor(given))},
        )
        for framework, steps, taken, given in (
            ("pytorch", ours, list(ours.values())[-1]["output"][0], 0.5),
            ("mindspore", theirs, list(theirs.values())[-1]["output"][0], 0.6),
        )
    ]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        for target, golden in (sides, sides[::-1]):
            lake.compare(target, golden, replace=True)
            assert lake.sql("SELECT target_op, golden_op FROM results WHERE verdict = 'unmatched'").fetchall() == []


def test_a_factor_of_one_does_not_pair_with_another_factor(tmp_path: Path) -> None:
    """One program scales by ones, then adds more and multiplies in one op; the other multiplies, then adds."""
    start = {"Functional.linear.0.forward": call([tensor(1.5), tensor(0.7, (8, 8))], tensor(3.1))}
    ones, more, factor = tensor(1.0, (8,)), tensor(0.4, (8,)), tensor(1.1, (4, 1))
    ours = start | {
        "Tensor.__mul__.0.forward": call([tensor(3.1), ones], tensor(3.1)),
        "Tensor.__add__.0.forward": call([tensor(3.1), more], tensor(3.5)),
        "Torch.addcmul.0.forward": call([tensor(3.5), tensor(0.1, (8,)), tensor(3.1)], tensor(3.8)),
        "Functional.relu.0.forward": call([tensor(3.8)], tensor(3.8, smallest=0.0)),
    }
    theirs = start | {
        "Tensor.__mul__.0.forward": call([tensor(3.1), factor], tensor(3.4)),
        "Tensor.__add__.0.forward": call([tensor(3.4), more], tensor(3.8)),
        "Functional.relu.0.forward": call([tensor(3.8)], tensor(3.8, smallest=0.0)),
    }
    _, summary = rows_of(
        tmp_path / "lake", dump(tmp_path / "one", "pytorch", ours), dump(tmp_path / "two", "mindspore", theirs)
    )
    assert summary.beyond_noise == ()


def test_steps_to_one_number_that_are_far_apart_do_not_pair(tmp_path: Path) -> None:
    """One program negates the mean of what the other computes with the opposite sign."""
    start = {"Functional.linear.0.forward": call([tensor(1.5), tensor(0.7, (8, 8))], tensor(3.1))}
    ours = start | {
        "Tensor.__sub__.0.forward": call([tensor(3.1)], tensor(-0.1, smallest=-1.4)),
        "Torch.mean.0.forward": call([tensor(-0.1, smallest=-1.4)], number(-0.27)),
        "Tensor.__rmul__.0.forward": call([number(-0.27)], number(0.135)),
    }
    theirs = start | {
        "Tensor.__sub__.0.forward": call([tensor(3.1)], tensor(1.4, smallest=0.1)),
        "Tensor.mean.0.forward": call([tensor(1.4, smallest=0.1)], number(0.27)),
        "Tensor.__rmul__.0.forward": call([number(0.27)], number(0.135)),
    }
    _, summary = rows_of(
        tmp_path / "lake", dump(tmp_path / "one", "pytorch", ours), dump(tmp_path / "two", "mindspore", theirs)
    )
    assert summary.beyond_noise == ()

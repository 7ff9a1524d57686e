"""Layer matching: where an op lies in the model, and which ops of both sides lie in the same place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_dumps import call, tensor, write_dump
from real_dumps import DUMPS, needs_dumps
from sampling import examples

from lakeprobe import resources
from lakeprobe.ingest.run import ingest
from lakeprobe.lake import layout
from lakeprobe.lake.connection import connect
from lakeprobe.lake.layout import UnitKey
from lakeprobe.readers import names

CHECKOUT = Path(__file__).parents[2]
CROSS = DUMPS / "C_cross"

Op = tuple[str, str | None, Sequence[str]]
"""The name of an op, its parent, and the frames of its stack."""
Rules = Mapping[str, Mapping[str, str]]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = prepared()
    yield opened
    opened.close()


def prepared() -> duckdb.DuckDBPyConnection:
    """A connection with what the statements read, but for the ops and stacks of both sides."""
    connection = connect(1)
    for macro in ("layer_function", "layer_module"):
        connection.execute(resources.sql(f"macros/{macro}"))
    columns = "place INTEGER, class VARCHAR, target_scope VARCHAR, golden_scope VARCHAR"
    connection.execute(f"CREATE TABLE layer_mapping ({columns})")
    return connection


def put(connection: duckdb.DuckDBPyConnection, side: str, ops: Sequence[Op]) -> None:
    """Make the tables of one side as the reader and unit_ops would."""
    connection.execute(
        f"CREATE TABLE {side}_ops (seq INTEGER, op VARCHAR, op_kind VARCHAR, api_type VARCHAR, api VARCHAR,"
        " module_class VARCHAR, direction VARCHAR, call INTEGER, stem VARCHAR, parent VARCHAR, stack INTEGER,"
        " part VARCHAR DEFAULT '')"
    )
    connection.execute(f"CREATE TABLE {side}_stacks (stack INTEGER, frames VARCHAR[])")
    for seq, (op, parent, frames) in enumerate(ops):
        name = names.parse(op)
        parts = [name.kind, name.api_type, name.api, name.module_class, name.direction, name.call, name.stem]
        values = [seq, op, *parts, parent, seq if frames else None]
        connection.execute(f"INSERT INTO {side}_ops VALUES ({', '.join('?' * 11)}, DEFAULT)", values)
        connection.execute(f"INSERT INTO {side}_stacks VALUES (?, ?)", [seq, list(frames)])


def put_unit(connection: duckdb.DuckDBPyConnection, side: str, dump: Path, lake: Path) -> None:
    """Read the dump in the folder `dump` and make the tables of one side of it."""
    ingest(dump, lake=lake, run=side, tensors="none")
    unit = layout.unit_folder(lake, UnitKey(side, 0, 0))
    connection.execute(f"CREATE TABLE {side}_ops AS FROM unit_ops('{unit}')")
    connection.execute(f"CREATE TABLE {side}_leaves AS FROM unit_leaves('{unit}')")
    connection.execute(f"CREATE VIEW {side}_stacks AS SELECT stack, frames FROM read_parquet('{unit}/stacks.parquet')")


def matched(connection: duckdb.DuckDBPyConnection, rules: Rules) -> dict[str, str]:
    """The golden op of every target op that has one. No op is in two pairs."""
    lines = [(kind, *line) for kind, renames in rules.items() for line in renames.items()]
    for place, line in enumerate(lines):
        connection.execute("INSERT INTO layer_mapping VALUES (?, ?, ?, ?)", [place, *line])
    connection.execute(f"CREATE VIEW layer_scopes AS {resources.sql('match/layer_scopes')}")
    connection.execute(f"CREATE VIEW match_layer AS {resources.sql('match/layer')}")
    pairs = connection.execute(
        "SELECT target_ops.op, golden_ops.op, matched_by FROM match_layer"
        " JOIN target_ops ON target_ops.seq = target_seq JOIN golden_ops ON golden_ops.seq = golden_seq"
    ).fetchall()
    assert len({target for target, _, _ in pairs}) == len({golden for _, golden, _ in pairs}) == len(pairs)
    assert {matched_by for _, _, matched_by in pairs} <= {"layer"}
    return {target: golden for target, golden, _ in pairs}


def pairs(target: Sequence[Op], golden: Sequence[Op], rules: Rules | None = None) -> dict[str, str]:
    """The pairs of two made-up models."""
    connection = prepared()
    put(connection, "target", target)
    put(connection, "golden", golden)
    found = matched(connection, rules or {})
    connection.close()
    return found


def op(name: str, parent: str | None = None, frames: Sequence[str] = ()) -> Op:
    return name, parent, frames


def modules(*stems: str, prefix: str = "Module") -> list[Op]:
    """The forward ops of modules, each given as path and class."""
    return [op(f"{prefix}.{stem}.forward.0") for stem in stems]


def same_order(target: Sequence[Op], golden: Sequence[Op]) -> dict[str, str]:
    return {ours[0]: theirs[0] for ours, theirs in zip(target, golden, strict=True)}


# ---- scopes and rules -------------------------------------------------------------------------------------


def test_without_rules_a_cell_pairs_with_the_module_of_its_path() -> None:
    target = modules("net.fc.Dense", "net.ln.LayerNorm", "net.other.Dense", prefix="Cell")
    golden = modules("net.ln.LayerNorm", "net.fc.Linear", "net.rest.Linear")
    assert pairs(target, golden) == {
        "Cell.net.fc.Dense.forward.0": "Module.net.fc.Linear.forward.0",
        "Cell.net.ln.LayerNorm.forward.0": "Module.net.ln.LayerNorm.forward.0",
    }


def test_a_rule_holds_at_modules_of_its_class_only() -> None:
    """Two blocks with a child of one name; the rules of their classes give it different names."""
    target = modules("a.mix.Linear", "a.Attention", "b.mix.Linear", "b.MLP", "c.mix.Linear", "c.Other")
    golden = modules("a.dense.Linear", "a.Attention", "b.fc.Linear", "b.MLP", "c.mix.Linear", "c.Other")
    rules = {"Attention": {"mix": "dense"}, "MLP": {"mix": "fc"}}
    assert pairs(target, golden, rules) == same_order(target, golden)


def test_the_class_is_that_of_the_target() -> None:
    target, golden = modules("t.Other", "t.a.L"), modules("t.T", "t.a.L", "t.b.L")
    assert pairs(target, golden, {"T": {"a": "b"}}) == same_order(target, golden[:2])


def test_a_class_is_known_from_a_parent_that_is_not_in_the_dump() -> None:
    target = [op("Functional.mix.0.forward", "Module.a.Attention.forward.0"), *modules("a.lin.Linear")]
    golden = [op("Functional.dense.0.forward", "Module.a.Attention.forward.0"), *modules("a.fc.Linear")]
    assert pairs(target, golden, {"Attention": {"mix": "dense", "lin": "fc"}}) == same_order(target, golden)


@pytest.mark.parametrize("top", ["TopLayer", "Cell"])
def test_the_top_layer_by_both_of_its_names(top: str) -> None:
    target = [*modules("network.net.fc.Linear", "network.GPT"), op("Functional.loss.0.forward")]
    golden = [*modules("module.net.fc.Linear", "module.GPT"), op("Functional.mse.0.forward")]
    assert pairs(target, golden, {top: {"network": "module", "loss": "mse"}}) == same_order(target, golden)


def test_the_longest_source_wins_whatever_its_place() -> None:
    target = modules("t.a.x.L", "t.a.b.L", "t.a.b.c.L", "t.T")
    golden = modules("t.one.x.L", "t.two.L", "t.three.four.L", "t.T")
    rules = {"T": {"a": "one", "a.b": "two", "a.b.c": "three.four"}}
    assert pairs(target, golden, rules) == same_order(target, golden)


def test_parts_match_as_wholes() -> None:
    model = modules("t.ab.L", "t.T", "t.a.bc.L")
    assert pairs(model, model, {"T": {"a": "x", "a.b": "y"}}) == same_order(model[:2], model[:2])


def test_a_replaced_part_is_not_replaced_again() -> None:
    """Classes are those of the target's own path, and each part of it is read once."""
    target = modules("t.a.fc.L", "t.a.Attention", "t.T")
    golden = modules("t.b.d.fc.L", "t.b.d.Attention", "t.T")
    assert pairs(target, golden, {"T": {"a": "b.d", "b": "wrong"}, "b": {"d": "wrong"}}) == same_order(target, golden)


def test_a_container_without_op_is_known_by_its_own_name() -> None:
    target, golden = modules("layers.0.L"), modules("layers.1.L")
    assert pairs(target, golden, {"layers": {"0": "1"}}) == same_order(target, golden)


def test_what_stands_in_parentheses_is_a_remark() -> None:
    target, golden = modules("t.a.L", "t.T"), modules("t.b.L", "t.T")
    assert pairs(target, golden, {"T": {"a": "b(Linear)"}}) == same_order(target, golden)


def test_calls_of_apis_pair_by_their_last_name_in_their_module() -> None:
    target = [
        op("Primitive.lookup.MatMul.0.forward", "Cell.a.Dense.forward.0"),
        op("Functional.matmul.0.forward", "Cell.b.Dense.forward.0"),
        op("Functional.shape.0.forward", "Cell.b.Dense.forward.0"),
    ]
    golden = [
        op("Torch.matmul.0.forward", "Module.a.Linear.forward.0"),
        op("Torch.matmul.1.forward", "Module.b.Linear.forward.0"),
    ]
    found = pairs(target, golden, {"Dense": {"MatMul": "matmul"}})
    assert found == {target[0][0]: golden[0][0], target[1][0]: golden[1][0]}


def test_gradients_of_parameters_belong_to_their_module() -> None:
    target = [op("Cell.t.a.Dense.parameters_grad"), op("Cell.t.a.Dense.backward.0"), *modules("t.T", prefix="Cell")]
    golden = [op("Module.t.b.Linear.parameters_grad.0"), op("Module.t.b.Linear.backward.3"), *modules("t.T")]
    assert pairs(target, golden, {"T": {"a": "b"}}) == same_order(target, golden)


# ---- order ------------------------------------------------------------------------------------------------


def test_in_one_place_the_first_pairs_with_the_first() -> None:
    """Call numbers count through the whole run, so they tell nothing here."""
    target = [op(f"Torch.add.{number}.forward", "Module.m.M.forward.0") for number in (4, 9, 2)]
    golden = [op(f"Tensor.add.{number}.forward", "Module.m.M.forward.0") for number in (7, 8)]
    assert pairs(target, golden) == same_order(target[:2], golden)


def test_two_scopes_that_become_one_are_counted_together() -> None:
    target, golden = modules("a.L", "b.L"), [op("Module.b.L.forward.0"), op("Module.b.L.forward.1")]
    assert pairs(target, golden, {"TopLayer": {"a": "b"}}) == same_order(target, golden)


def test_backward_calls_lie_where_their_forward_calls_do() -> None:
    """The dump has no parents and stacks of them; golden runs the modules in another order."""
    backward = [op(f"Torch.add.{number}.backward") for number in (2, 1, 0)]
    target, golden = (
        [op(f"Torch.add.{number}.forward", f"Module.{path}.M.forward.0") for number, path in enumerate(order)]
        for order in ("abb", "bba")
    )
    assert pairs([*target, *backward], [*golden, *backward]) == {
        "Torch.add.0.forward": "Torch.add.2.forward", "Torch.add.0.backward": "Torch.add.2.backward",
        "Torch.add.1.forward": "Torch.add.0.forward", "Torch.add.1.backward": "Torch.add.0.backward",
        "Torch.add.2.forward": "Torch.add.1.forward", "Torch.add.2.backward": "Torch.add.1.backward",
    }  # fmt: skip


def test_a_backward_call_whose_forward_is_not_dumped_lies_where_its_parent_says() -> None:
    target = [op("Torch.add.5.backward", "Module.a.M.backward.0"), op("Torch.add.1.backward", "Module.b.M.backward.0")]
    golden = [op("Torch.add.1.backward", "Module.b.M.backward.0"), op("Torch.add.0.backward", "Module.a.M.backward.0")]
    assert pairs(target, golden) == same_order(target, golden[::-1])


def test_without_parents_apis_pair_in_order_over_the_whole_dump() -> None:
    target = [op("Torch.add.0.forward"), op("Torch.mul.0.forward"), op("Torch.add.1.forward")]
    golden = [op("Torch.mul.0.forward"), op("Tensor.add.0.forward"), op("Tensor.add.1.forward")]
    assert pairs(target, golden) == {
        "Torch.add.0.forward": "Tensor.add.0.forward", "Torch.add.1.forward": "Tensor.add.1.forward",
        "Torch.mul.0.forward": "Torch.mul.0.forward",
    }  # fmt: skip


# ---- modules against functions ----------------------------------------------------------------------------


def test_modules_and_apis_of_one_name_pair_with_their_like() -> None:
    inner = op("Functional.softmax.0.forward", "Module.a.M.forward.0")
    target = [*modules("a.softmax.Softmax"), inner]
    assert pairs(target, target[::-1]) == same_order(target, target)


def test_a_module_pairs_with_an_api_where_the_other_side_has_no_such_module() -> None:
    inner = op("Functional.softmax.4.forward", "Cell.a.softmax.Softmax.forward.0")
    target = [inner, *modules("a.softmax.Softmax", prefix="Cell")]
    golden = [op("Functional.softmax.0.forward", "Module.a.M.forward.0")]
    assert pairs(target, golden) == {"Cell.a.softmax.Softmax.forward.0": "Functional.softmax.0.forward"}


def test_forward_and_backward_look_for_their_like_apart() -> None:
    target = [op("Module.a.softmax.Softmax.forward.0"), op("Module.a.softmax.Softmax.backward.0")]
    golden = [target[0], op("Functional.softmax.0.backward", "Module.a.M.backward.0")]
    assert pairs(target, golden) == same_order(target, golden)


# ---- layers of a pipeline ---------------------------------------------------------------------------------


def stage(first: int, number: int = 2, kind: str = "ParallelTransformer") -> list[Op]:
    layers = [f"enc.layers.{first + layer}.{part}" for layer in range(number) for part in ("fc.Linear", "Layer")]
    return modules(*layers, f"enc.{kind}")


@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (4, 0), (0, 9), (98, 4)])
def test_layers_of_a_stage_count_from_its_first(ours: int, theirs: int) -> None:
    assert pairs(stage(ours), stage(theirs)) == same_order(stage(ours), stage(theirs))


def test_layers_are_renumbered_in_front_of_the_rules() -> None:
    target, others = stage(8), modules("enc.layers.0.other.Linear")
    layers = modules("enc.one.fc.Linear", "enc.one.Layer", "enc.layers.1.dense.Linear", "enc.layers.1.Layer")
    golden = [*layers, *modules("enc.ParallelTransformer")]
    rules = {"ParallelTransformer": {"layers.0": "one", "layers.1.fc": "layers.1.dense"}}
    assert pairs(target, [*others, *golden], rules) == same_order(target, golden)


def test_layers_of_another_class_and_numbers_elsewhere_stay() -> None:
    assert pairs(stage(1, kind="Stack"), stage(0, kind="Stack")) == {
        "Module.enc.layers.1.fc.Linear.forward.0": "Module.enc.layers.1.fc.Linear.forward.0",
        "Module.enc.layers.1.Layer.forward.0": "Module.enc.layers.1.Layer.forward.0",
        "Module.enc.Stack.forward.0": "Module.enc.Stack.forward.0",
    }
    target, golden = modules("t.ParallelTransformer", "t.blocks.3.L"), modules("t.ParallelTransformer", "t.blocks.0.L")
    assert pairs(target, golden) == same_order(target[:1], golden[:1])


def test_every_transformer_counts_by_itself() -> None:
    def two(encoder: int, decoder: int) -> list[Op]:
        layers = modules(f"enc.layers.{encoder}.L", f"dec.layers.{decoder}.L")
        return [*layers, *modules("enc.ParallelTransformer", "dec.ParallelTransformer")]

    assert pairs(two(3, 7), two(0, 2)) == same_order(two(3, 7), two(0, 2))


def test_a_transformer_in_a_layer_of_another() -> None:
    def nested(outer: int, inner: int) -> list[Op]:
        path = f"t.layers.{outer}.deep"
        layers = modules(f"{path}.layers.{inner}.L", f"{path}.layers.{inner + 1}.L")
        return [*layers, *modules(f"{path}.ParallelTransformer", "t.ParallelTransformer")]

    assert pairs(nested(3, 5), nested(0, 2)) == same_order(nested(3, 5), nested(0, 2))


# ---- functions of the framework ---------------------------------------------------------------------------

PACKAGES = "File /opt/lib/python3.11/site-packages/"
USER = "File /job/package_tests/model.py, line 7, in forward, \n y = f(x)"
CALL = f"{PACKAGES}torch/nn/modules/module.py, line 1789, in _call_impl, \n return forward_call(*args, **kwargs)"
ATTENTION = f"{PACKAGES}torch/nn/functional.py, line 5, in attention, \n y = softmax(x)"
HELPER = f"{PACKAGES}torch/nn/functional.py, line 2, in _helper, \n y = softmax(x)"
WRAPPER = f"{PACKAGES}torch/utils/_contextlib.py, line 120, in decorate_context, \n return func(*args, **kwargs)"
TEMPLATE = f"{PACKAGES}msprobe/pytorch/hook_module/wrap_functional.py, line 50, in forward, \n FunctionalOPTemplate(x)"
FORWARD = f"{PACKAGES}torch/nn/modules/activation.py, line 9, in forward, \n return attention(x)"
JIT = "File /opt/ms/site-packages/mindspore/_check_jit_forbidden_api.py, line 35, in jit_forbidden, \n return fn(*args)"
RUN = "File /opt/ms/site-packages/mindspore/nn/cell.py, line 1382, in _run_construct, \n return self.construct(*args)"
CONSTRUCT = "File /opt/ms/site-packages/mindspore/nn/layer/basic.py, line 5, in construct, \n return self.f(x)"
ASTYPE = "File /opt/ms/site-packages/mindspore/common/tensor.py, line 5, in astype, \n return self.to(x)"


@pytest.mark.parametrize(
    ("frames", "function"),
    [
        ([USER, CALL, USER], None),
        ([FORWARD, CALL, USER], None),
        ([CALL, USER], None),
        ([ATTENTION, USER, ATTENTION], "attention"),
        ([ATTENTION, FORWARD, CALL, USER], "attention"),
        ([HELPER, ATTENTION, WRAPPER, FORWARD], "attention"),
        ([TEMPLATE, CALL, ATTENTION, USER], "attention"),
        ([TEMPLATE, CALL, USER], None),
        ([ATTENTION], "attention"),
        ([JIT, RUN, CONSTRUCT], None),
        ([JIT, RUN, ASTYPE, CONSTRUCT, RUN], "astype"),
        (["no frame at all", ATTENTION], None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_the_function_that_an_api_is_called_through(
    frames: list[str] | None, function: str | None, connection: duckdb.DuckDBPyConnection
) -> None:
    assert connection.execute("SELECT layer_function(?::VARCHAR[])", [frames]).fetchall() == [(function,)]


def softmaxes(*stacks: Sequence[str], name: str = "Functional.softmax") -> list[Op]:
    return [op(f"{name}.{number}.forward", "Module.a.M.forward.0", stack) for number, stack in enumerate(stacks)]


def test_calls_through_a_function_do_not_mix_with_others() -> None:
    target = softmaxes([USER], [ATTENTION, USER], [USER])
    golden = softmaxes([ATTENTION, USER], [USER], [USER])
    assert pairs(target, golden) == {
        target[0][0]: golden[1][0], target[1][0]: golden[0][0], target[2][0]: golden[2][0]
    }  # fmt: skip


def test_backward_calls_go_by_the_stacks_of_their_forward_calls() -> None:
    back = [op("Functional.softmax.1.backward"), op("Functional.softmax.0.backward")]
    target, golden = softmaxes([USER], [ATTENTION, USER]), softmaxes([ATTENTION, USER], [USER])
    assert pairs([*target, *back], [*golden, *back]) == {
        "Functional.softmax.0.forward": "Functional.softmax.1.forward",
        "Functional.softmax.1.forward": "Functional.softmax.0.forward",
        "Functional.softmax.0.backward": "Functional.softmax.1.backward",
        "Functional.softmax.1.backward": "Functional.softmax.0.backward",
    }


def test_a_function_that_the_other_side_does_not_know_is_passed_over_in_a_module() -> None:
    target, golden = softmaxes([ATTENTION, USER], [USER]), softmaxes([HELPER, USER], [USER])
    assert pairs(target, golden) == same_order(target, golden)
    ours, theirs = ([op(name, None, frames) for name, _, frames in side[:1]] for side in (target, golden))
    assert pairs(ours, theirs) == {}, "the whole rest of the program is not a place"


def test_primitives_have_no_function() -> None:
    target = softmaxes([USER], [ASTYPE, USER], name="Primitive.cast.Cast")
    golden = softmaxes([ASTYPE, USER], [USER], name="Primitive.cast.Cast")
    assert pairs(target, golden) == same_order(target, golden)


@pytest.mark.parametrize("ours", ["grouped", "by op"])
@pytest.mark.parametrize("theirs", ["grouped", "by op"])
def test_both_layouts_of_stack_json(
    ours: str, theirs: str, connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """msprobe 26.2.0 reads no functions from the grouped layout, which it writes itself, and pairs 0 with 0."""
    orders = {"target": (ours, (ATTENTION, USER)), "golden": (theirs, (USER, ATTENTION))}
    for side, (kind, firsts) in orders.items():
        stacks = {f"Functional.softmax.{number}.forward": [first, USER] for number, first in enumerate(firsts)}
        dump = write_dump(tmp_path / side, {name: call([tensor()]) for name in stacks})
        grouped = {str(number): [[name], frames] for number, (name, frames) in enumerate(stacks.items())}
        (dump / "stack.json").write_text(json.dumps(grouped if kind == "grouped" else stacks))
        (dump / "construct.json").write_text(json.dumps(dict.fromkeys(stacks, "Module.a.M.forward.0")))
        put_unit(connection, side, dump, tmp_path / "lake")
    assert matched(connection, {}) == {
        "Functional.softmax.0.forward": "Functional.softmax.1.forward",
        "Functional.softmax.1.forward": "Functional.softmax.0.forward",
    }


# ---- damaged and unusual dumps ----------------------------------------------------------------------------


def test_a_parent_that_is_an_api_leads_to_the_module_around_it() -> None:
    chain = [op("Torch.a.0.forward", "Torch.b.0.forward"), op("Torch.b.0.forward", "Torch.c.0.forward")]
    target = [*chain, op("Torch.c.0.forward", "Module.m.M.forward.0")]
    golden = [op(f"Torch.{name}.0.forward", "Module.m.M.forward.0") for name in "abc"]
    decoys = [op("Torch.a.1.forward"), op("Torch.b.1.forward")]
    assert pairs(target, [*decoys, *golden]) == same_order(target, golden)


@pytest.mark.parametrize("length", [1, 2, 150])
def test_circles_of_parents_end_at_the_top(length: int) -> None:
    circle = [op(f"Torch.a{n}.0.forward", f"Torch.a{(n + 1) % length}.0.forward") for n in range(length)]
    golden = [op(f"Torch.a{n}.0.forward") for n in range(length)]
    assert pairs(circle, golden) == same_order(circle, golden)


@pytest.mark.parametrize("parent", ["", "None", "nonsense", "Torch.gone.0.forward", "Module.forward.0"])
def test_a_parent_that_says_nothing_is_the_top(parent: str) -> None:
    target, golden = [op("Torch.a.0.forward", parent)], [op("Torch.a.0.forward")]
    assert pairs(target, golden) == same_order(target, golden)


def test_a_model_without_name_and_names_of_no_known_form() -> None:
    known = [op("Torch.a.0.forward", "Module.Net.forward.0"), op("Module.Net.forward.0")]
    model = [*known, op("logits.0.debug"), op("odd")]
    assert pairs(model, model) == same_order(known, known)


def test_numbers_too_long_to_be_counted_stay_names() -> None:
    model = modules("t.layers.99999999999999999999.L", "t.layers.3.L", "t.layers.x1.L", "t.ParallelTransformer")
    assert pairs(model, model) == same_order(model, model)


def test_an_empty_side() -> None:
    assert pairs([], modules("a.L")) == pairs(modules("a.L"), []) == pairs([], []) == {}


# ---- laws, and msprobe's own pairs ------------------------------------------------------------------------

PATHS = st.lists(st.sampled_from(["a", "b", "layers", "0", "1"]), min_size=1, max_size=4).map(".".join)
CLASSES = st.sampled_from(["M", "ParallelTransformer"])
PARENTS = st.builds("Module.{}.{}.forward.0".format, PATHS, CLASSES)
STACKS = st.sampled_from([(), (USER,), (ATTENTION, USER), (HELPER, USER)])
CALLS = st.builds(op, st.sampled_from(["Torch.f", "Tensor.f", "Torch.g"]), st.none() | PARENTS, STACKS)


def numbered(calls: Sequence[Op]) -> list[Op]:
    """The calls with numbers, then their modules, then all of them backward, in reverse."""
    forward = [op(f"{name}.{number}.forward", parent, frames) for number, (name, parent, frames) in enumerate(calls)]
    forward += [op(parent) for parent in dict.fromkeys(parent for _, parent, _ in calls) if parent]
    return forward + [op(name.replace("forward", "backward")) for name, _, _ in reversed(forward)]


@given(st.lists(CALLS, max_size=8))
@settings(max_examples=examples(15), deadline=None)
def test_a_model_pairs_with_itself_op_for_op(calls: list[Op]) -> None:
    model = numbered(calls)
    assert pairs(model, model) == same_order(model, model)


@given(st.lists(CALLS, max_size=6), st.lists(CALLS, max_size=6))
@settings(max_examples=examples(15), deadline=None)
def test_without_rules_the_sides_may_change_places(ours: list[Op], theirs: list[Op]) -> None:
    target, golden = numbered(ours), numbered(theirs)
    assert pairs(target, golden) == {ours: theirs for theirs, ours in pairs(golden, target).items()}


@needs_dumps
@pytest.mark.parametrize("kind", ["L0_stat", "L0_tensor", "mix_stat", "mix_tensor"])
def test_the_rows_pair_as_msprobe_pairs_them(kind: str, connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """MindSpore against PyTorch; msprobe 26.2.0 wrote the pairs that it found with this mapping (-lm)."""
    for side, run in (("target", f"ms_{kind}"), ("golden", f"pt_{kind}")):
        put_unit(connection, side, next((CROSS / run / "golden" / "step0").glob("proc*")), tmp_path / "lake")
    assert matched(connection, yaml.safe_load((CROSS / "layer_mapping.yaml").read_text()))
    ours = connection.execute(
        "SELECT target_ops.op || '.' || target.slot, golden_ops.op || '.' || golden.slot FROM match_layer"
        " JOIN target_ops ON target_ops.seq = target_seq JOIN golden_ops ON golden_ops.seq = golden_seq"
        " JOIN target_leaves AS target ON target.seq = target_seq"
        " JOIN golden_leaves AS golden ON golden.seq = golden_seq AND golden.slot = target.slot"
    ).fetchall()
    written = next((CROSS / f"peer_out_cross_{kind}_lm").glob("data_mapping_*.yaml"))
    theirs = yaml.safe_load(written.read_text())
    assert dict(ours) == {row: other for row, other in theirs.items() if other != "N/A"}

"""What ops of ranks are called in the whole model."""

from lakeprobe.layouts.names import Op, Piece, whole_names
from lakeprobe.readers import names


def op(name, parent=None):
    parsed = names.parse(name)
    return Op(
        name, parsed.kind, parsed.api_type, parsed.api, parsed.module_class, parsed.direction, parsed.call or 0, parent
    )


def piece(*ops, stage=0, expert=0, blocks=()):
    return Piece(stage, expert, tuple(op(*one) if isinstance(one, tuple) else op(one) for one in ops), blocks)


def wholes(pieces, golden=None):
    return [[(named.whole, named.micro) for named in ops] for ops in whole_names(pieces, golden)]


def layer(number, call=0, nth=0):
    module = f"Module.layers.{number}.Layer.forward.{call}"
    return (f"Functional.linear.{nth}.forward", module), module


def test_layers_are_numbered_through_the_stages():
    golden = piece(*layer(0), *layer(1, nth=1))
    found = wholes([piece(*layer(0)), piece(*layer(0), stage=1)], golden)
    assert found[1] == [("Functional.linear.1.forward", 0), ("Module.layers.1.Layer.forward.0", 0)]


def test_layers_that_have_their_numbers_keep_them():
    golden = piece(*layer(0), *layer(1, nth=1))
    found = wholes([piece(*layer(0)), piece(*layer(1), stage=1)], golden)
    assert found[1][1] == ("Module.layers.1.Layer.forward.0", 0)


def test_calls_for_micro_batches_are_parts_of_one_call():
    found = wholes([piece(*layer(0), *layer(0, call=1, nth=1))], piece(*layer(0)))
    assert found[0] == [
        ("Functional.linear.0.forward", 0), ("Module.layers.0.Layer.forward.0", 0),
        ("Functional.linear.0.forward", 1), ("Module.layers.0.Layer.forward.0", 1),
    ]  # fmt: skip


def test_a_collective_shifts_no_other_call_and_is_left_out():
    module = "Module.layers.0.Layer.forward.0"
    ours = piece(("Tensor.clone.0.forward", module), ("Distributed.all_reduce.0.forward", module),
                 ("Tensor.__add__.3.forward", module), module)  # fmt: skip
    golden = piece(("Tensor.__add__.0.forward", module), module)
    assert [name for name, _ in wholes([ours], golden)[0]] == [None, None, "Tensor.__add__.0.forward", module]


def test_experts_are_numbered_through_the_ranks_that_have_them():
    def of(number):
        return f"Module.mlp.experts.{number}.Expert.forward.0"

    golden = piece(*(of(number) for number in range(4)))
    found = wholes([piece(of(0), of(1)), piece(of(0), of(1), expert=1)], golden)
    assert [name for name, _ in found[1]] == [of(2), of(3)]


def test_wrappers_and_chunks_are_no_part_of_a_path():
    golden = piece("Module.layers.0.Layer.forward.0", "Module.layers.1.Layer.forward.0")
    wrapped = piece("Module.module.layers.0.Layer.forward.0", "Module.module.layers.1.Layer.forward.0")
    assert [name for name, _ in wholes([wrapped], golden)[0]] == [one.op for one in golden.ops]
    chunks = piece("Module.0.layers.0.Layer.forward.0", "Module.1.layers.0.Layer.forward.0")
    assert [name for name, _ in wholes([chunks], golden)[0]] == [one.op for one in golden.ops]


def test_the_optimizer_takes_golden_s_calls_parameter_by_parameter():
    def steps(*numbers):
        return [(f"Tensor.{api}.{number}.forward", "optimizer") for number in numbers for api in ("mul_", "add_")]

    backward = "Functional.linear.0.backward"
    golden = piece(*layer(0), backward, *steps(0, 1), blocks=(("layers.0", "a"), ("layers.0", "b")))
    ours = piece(*layer(0), backward, *steps(0), blocks=(("layers.0", "b"),))
    assert [name for name, _ in wholes([ours], golden)[0]][-2:] == ["Tensor.mul_.1.forward", "Tensor.add_.1.forward"]


def test_an_optimizer_of_all_parameters_is_paired_in_order_where_the_values_of_some_are_not_known():
    steps = [(f"Tensor.{api}.{number}.forward", "optimizer") for number in (0, 1) for api in ("mul_", "add_")]
    golden = piece("Functional.linear.0.backward", *steps, blocks=(("layers.0", "a"), ("layers.0", "b")))
    ours = piece("Functional.linear.0.backward", *steps, blocks=(("layers.0", "a"),))
    assert [name for name, _ in wholes([ours], golden)[0]][1:] == [op for op, _ in steps]


def test_calls_of_a_wrapped_model_pair_with_those_of_the_model():
    inner = "Module.module.Net.forward.0"
    target = piece(
        ("Functional.relu.0.forward", inner), ("Functional.relu.0.backward", "Module.module.Net.backward.0"), inner
    )
    golden = piece("Functional.linear.0.forward", "Functional.relu.0.forward", "Functional.relu.0.backward")
    found = whole_names([target], golden)[0]
    assert [named.whole for named in found] == ["Functional.relu.0.forward", "Functional.relu.0.backward", None]
    assert found[2].reason == "it wraps the model"


def test_calls_of_a_module_that_one_side_lacks_pair_with_those_around_it():
    head = "Module.head.Linear.forward.0"
    calls, module = piece("Functional.linear.0.forward"), piece(("Functional.linear.0.forward", head), head)
    found = whole_names([module], calls)[0]
    assert [named.whole for named in found] == ["Functional.linear.0.forward", None]
    assert found[1].reason == "golden has no such module"
    assert wholes([calls], module) == [[("Functional.linear.0.forward", 0)]]


def test_a_module_without_calls_that_golden_lacks_keeps_its_name():
    found = wholes([piece("Module.extra.Dropout.forward.0")], piece("Functional.linear.0.forward"))
    assert found == [[("Module.extra.Dropout.forward.0", 0)]]


def test_a_call_for_each_micro_batch_whose_last_is_behind_the_last_backward():
    layers = [call for nth in range(3) for call in layer(0, call=nth, nth=nth)]
    divided = [f"Tensor.__truediv__.{nth}.forward" for nth in range(5)]
    back = "Functional.linear.2.backward"
    target = piece(*layers, *divided, back, "Tensor.__truediv__.5.forward")
    golden = piece(*layer(0), "Tensor.__truediv__.0.forward", "Functional.linear.0.backward")
    found = {named.op: (named.whole, named.micro) for named in whole_names([target], golden)[0]}
    assert [found[name] for name in divided[::2]] == [("Tensor.__truediv__.0.forward", micro) for micro in range(3)]

"""How a tensor lies over the axes, from shapes, from equality, and from what an op is given."""

import pytest
from msgspec.structs import replace

from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.placements import Key, Leaf, decide

DP, TP = Axis("dp", 2, ""), Axis("tp", 2, "")


def leaf(
    slot, shape, whole, equal, *, op="Functional.linear.0.forward", value=None, reduced=(), present=(2, 2), **more
):
    role = slot.partition(".")[0]
    direction = "backward" if "backward" in op else "forward"
    if "parameters_grad" in op:
        role = direction = "parameters_grad"
    return Leaf(
        Key(op, slot, 0), role, "tensor", direction, shape, 4, None, 4, whole, equal, present, frozenset(reduced),
        value if value is not None else hash((op, slot)), **more,
    )  # fmt: skip


def texts(*ops):
    decided = decide([list(op) for op in ops], (DP, TP))
    return {
        key.slot if len(ops) == 1 else f"{key.op} {key.slot}": placed.text((DP, TP)) for key, placed in decided.items()
    }


def test_a_fraction_of_the_extent_is_a_shard_along_the_axis_that_differs():
    column = [leaf("input.0", (4, 8), (8, 8), (False, True)), leaf("input.1", (8, 8), (16, 8), (True, False)),
              leaf("output.0", (4, 8), (8, 16), (False, False))]  # fmt: skip
    assert texts(column) == {"input.0": "dp: shard 0", "input.1": "tp: shard 0", "output.0": "dp: shard 0, tp: shard 1"}


def test_the_result_of_a_contracted_shard_is_a_partial_sum():
    row = [leaf("input.0", (8, 4), (8, 8), (True, False)), leaf("output.0", (8, 8), (8, 8), (True, False))]
    assert texts(row)["output.0"] == "tp: partial sum"


def test_equal_tensors_are_copies_and_unequal_ones_without_a_reason_are_a_finding():
    norm = [leaf("input.0", (8, 8), (8, 8), (True, True)), leaf("output.0", (8, 8), (8, 8), (True, False))]
    decided = decide([norm], (DP, TP))
    assert decided[norm[0].key].text((DP, TP)) == ""
    assert decided[norm[1].key].problem == "copies along tp differ"


def test_what_a_collective_adds_up_is_a_checked_sum():
    reduced = [leaf("input.0", (8, 8), (8, 8), (True, False), reduced=(1,))]
    placed = decide([reduced], (DP, TP))[reduced[0].key]
    assert (placed.ways, placed.certainty, placed.resolved) == (["copy", "sum"], "checked", True)


def test_the_same_value_has_the_same_layout_in_the_next_op():
    made = [leaf("input.0", (8, 4), (8, 8), (True, False)), leaf("output.0", (8, 8), (8, 8), (True, False), value=7)]
    used = [leaf("input.0", (8, 8), (8, 8), (True, False), value=7, op="Tensor.__add__.0.forward")]
    assert texts(made, used)["Tensor.__add__.0.forward input.0"] == "tp: partial sum"


def test_a_tensor_without_values_is_cut_as_the_one_beside_it():
    added = [leaf("input.1", (4, 8), (8, 8), (True, True), op="Tensor.__add__.0.forward", is_unknown=True),
             leaf("input.0", (4, 8), (8, 8), (False, True), op="Tensor.__add__.0.forward")]  # fmt: skip
    assert texts(added) == {"input.0": "dp: shard 0", "input.1": "dp: shard 0"}


def test_a_gradient_is_cut_as_its_parameter_is():
    forward = [leaf("parameters.weight", (8, 8), (16, 8), (True, False), op="Module.up.Linear.forward.0")]
    gradient = [leaf("weight", (8, 8), (16, 8), (False, False), op="Module.up.Linear.parameters_grad.0")]
    assert texts(forward, gradient)["Module.up.Linear.parameters_grad.0 weight"] == "dp: partial sum, tp: shard 0"


def test_the_same_data_on_every_copy_is_a_finding():
    batch = [leaf("input.0", (4, 8), (8, 8), (True, True))]
    assert decide([batch], (DP, TP))[batch[0].key].problem == "every rank along dp has the same shard"


@pytest.mark.parametrize(("number", "golden", "became"), [("4", "8", "8"), ("3", "8", None), ("4", "9", None)])
def test_a_local_extent_as_an_argument_becomes_that_of_the_whole(number, golden, became):
    tensor = leaf("input.0", (4, 8), (8, 8), (False, True))
    argument = Leaf(
        Key(tensor.key.op, "input.1", 0), "input", "scalar", "forward", None, 1, None, 1, None, (True, True), (2, 2),
        frozenset(), 1, number, golden,
    )  # fmt: skip
    assert decide([[tensor, argument]], (DP, TP))[argument.key].number == became


def test_fewer_values_than_shards_say_that_a_rank_has_the_shard_of_another():
    same, other = (
        replace(leaf("parameters.weight", (4, 8), (8, 8), (True, equal)), values=values)
        for equal, values in ((True, 1), (False, 2))
    )
    assert decide([[same]], (DP, TP))[same.key].repeats(same)
    assert not decide([[other]], (DP, TP))[other.key].repeats(other)


def test_uneven_parts_are_shards_along_the_axis_along_which_they_are_uneven():
    uneven = leaf("input.0", (6, 4), (8, 8), (False, False), ragged=(True, False))
    uneven = replace(uneven, totals=(16, 16))
    assert texts([uneven]) == {"input.0": "dp: shard 0, tp: shard 1"}


def test_what_masks_words_of_other_ranks_is_not_compared_and_its_result_neither():
    op = "Functional.embedding.0.forward"
    table = leaf("input.1", (4, 8), (8, 8), (True, False), op=op)
    words = leaf("input.0", (2, 3), (2, 3), (True, False), op=op)
    made = leaf("output.0", (2, 3, 8), (2, 3, 8), (True, False), op=op)
    decided = decide([[words, table, made]], (DP, TP))
    assert [decided[one.key].unknown is not None for one in (words, table, made)] == [True, False, True]
    assert [decided[one.key].problem for one in (words, made)] == [None, None]


def test_gradients_of_what_ranks_share_are_partial_sums_until_their_parameters_are_added_up():
    op = "Tensor.__mul__.3.backward"
    grads = leaf("weight", (4, 8), (4, 8), (True, False), op="Module.attn.k_proj.Linear.parameters_grad", reduced=(1,))
    shared = leaf("input.0", (4, 8), (4, 8), (True, False), op=op)
    assert decide([[shared], [grads]], (DP, TP), modules={op: "Module.attn"})[shared.key].text((DP, TP)) == (
        "tp: partial sum"
    )
    assert decide([[shared]], (DP, TP), modules={op: "Module.attn"})[shared.key].problem == "copies along tp differ"


def test_a_sum_that_is_divided_is_a_sum():
    loss = "Functional.cross_entropy.0.forward"
    given = leaf("input.0", (4, 8), (8, 8), (False, True), op=loss)
    said = Leaf(Key(loss, "input.reduction", 0), "input", "scalar", "forward", None, 4, None, 1, None,
                (True, True), (2, 2), frozenset(), 1, "sum", "sum")  # fmt: skip
    made = leaf("output.0", (), (), (False, True), op=loss, value=5)
    taken = leaf("input.0", (), (), (False, True), op="Tensor.__truediv__.0.forward", value=5)
    mean = leaf("output.0", (), (), (False, True), op="Tensor.__truediv__.0.forward")
    decided = decide([[given, said, made], [taken, mean]], (DP, TP))
    assert [decided[one.key].text((DP, TP)) for one in (made, taken, mean)] == ["dp: partial sum"] * 3


def number(slot, ours, theirs, equal=(True, True), *, op):
    return Leaf(Key(op, slot, 0), "input", "scalar", "forward", None, 4, None, 1, None, equal, (2, 2), frozenset(), 1,
                ours, theirs)  # fmt: skip


def test_a_collective_that_takes_the_largest_gives_a_partial_maximum():
    op = "Tensor.max.0.forward"
    given = leaf("input.0", (8, 4), (8, 8), (True, False), op=op)
    made = leaf("output.0", (8,), (8,), (True, False), op=op, reduced=(1,), reduction="max")
    where = leaf("output.1", (8,), (8,), (True, False), op=op, is_whole=True)
    decided = decide([[given, made, where]], (DP, TP))
    assert (decided[made.key].text((DP, TP)), decided[made.key].resolved) == ("tp: partial max", True)
    assert (decided[where.key].problem, decided[where.key].unknown) == (None, "each rank counts from its own first one")


def test_a_mask_by_a_bound_of_its_own_is_no_finding_and_what_another_number_makes_is():
    op = "Tensor.__ge__.0.forward"
    bound = number("input.1", "4", "8", (True, False), op=op)
    mask = leaf("output.0", (8,), (8,), (True, False), op=op, value=3, is_whole=True)
    negated = leaf("output.0", (8,), (8,), (True, False), op="Torch.bitwise_not.0.forward", is_whole=True)
    taken = leaf("input.0", (8,), (8,), (True, False), op="Torch.bitwise_not.0.forward", value=3, is_whole=True)
    decided = decide([[bound, mask], [taken, negated]], (DP, TP))
    assert [decided[one.key].problem for one in (mask, taken, negated)] == [None] * 3
    assert decided[bound.key].number == "8"
    epsilon = number("input.1", "0.1", "0.2", (True, False), op="Tensor.__add__.0.forward")
    made = leaf("output.0", (8,), (8,), (True, False), op="Tensor.__add__.0.forward")
    assert decide([[epsilon, made]], (DP, TP))[made.key].problem == "copies along tp differ"


@pytest.mark.parametrize(("ours", "theirs", "layout"), [("2", "1", "partial sum"), ("3", "1", "partial mean")])
def test_a_mean_that_is_divided_once_more_for_each_part_is_a_sum(ours, theirs, layout):
    loss, op = "Functional.mse_loss.0.forward", "Tensor.__truediv__.0.forward"
    given = leaf("input.0", (4, 8), (8, 8), (False, True), op=loss)
    made = leaf("output.0", (), (), (False, True), op=loss, value=5)
    taken = leaf("input.0", (), (), (False, True), op=op, value=5)
    share = number("input.1", ours, theirs, op=op)
    divided = leaf("output.0", (), (), (False, True), op=op)
    decided = decide([[given, made], [taken, share, divided]], (DP, TP))
    assert decided[divided.key].text((DP, TP)) == f"dp: {layout}"
    assert decided[share.key].number == ("1" if layout == "partial sum" else None)


def test_the_gradient_of_a_tied_parameter_is_what_the_stages_add_up():
    grads = leaf("weight", (4, 8), (4, 8), (True, True), op="Module.wte.Embedding.parameters_grad", reduced=(-1,))
    placed = decide([[grads]], (DP, TP))[grads.key]
    assert (placed.resolved, placed.added) == (True, [-1])


def test_the_gradient_of_a_tied_parameter_of_stages_alone_has_no_axis_to_lie_along():
    grads = leaf("weight", (4, 8), None, (), op="Module.wte.Embedding.parameters_grad", reduced=(-1,), present=())
    placed = decide([[grads]], ())[grads.key]
    assert (placed.resolved, placed.added, placed.ways) == (True, [-1], [])


def test_what_all_ranks_have_may_be_added_to_a_mean_and_not_to_a_sum():
    loss, op = "Functional.mse_loss.0.forward", "Tensor.__add__.0.forward"
    given = leaf("input.0", (4, 8), (8, 8), (False, True), op=loss)
    made = leaf("output.0", (), (), (False, True), op=loss, value=5)
    taken = leaf("input.0", (), (), (False, True), op=op, value=5)
    same = leaf("input.1", (), (), (True, True), op=op)
    added = leaf("output.0", (), (), (False, True), op=op)
    assert decide([[given, made], [taken, same, added]], (DP, TP))[added.key].text((DP, TP)) == "dp: partial mean"
    total = Leaf(Key(loss, "input.reduction", 0), "input", "scalar", "forward", None, 4, None, 1, None,
                 (True, True), (2, 2), frozenset(), 1, "sum", "sum")  # fmt: skip
    assert decide([[given, total, made], [taken, same, added]], (DP, TP))[added.key].unknown is not None


def test_the_gradient_of_a_mean_is_a_sum_in_each_op_that_is_given_it():
    loss, module = "Functional.mse_loss.0", "Module.head.Router.backward.0"
    given = leaf("input.0", (4, 8), (8, 8), (False, True), op=f"{loss}.forward")
    made = leaf("output.0", (), (), (False, True), op=f"{loss}.forward")
    gradient = leaf("input.0", (), (), (True, True), op=f"{loss}.backward", value=6)
    taken = leaf("input.1", (), (), (True, True), op=module, value=6)
    decided = decide([[given, made], [gradient], [taken]], (DP, TP))
    assert [decided[one.key].text((DP, TP)) for one in (gradient, taken)] == ["dp: partial sum"] * 2

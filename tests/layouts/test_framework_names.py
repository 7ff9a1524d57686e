"""What the names of known frameworks say of parameters, where no golden run has their shape."""

import pytest

from lakeprobe.layouts import framework_names
from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.placements import Key, Leaf, Way

AXES = (Axis("dp", 2, ""), Axis("tp", 2, ""))


def said(op, slot, shape=(8, 16), equal=(True, False), whole=None, direction="forward"):
    kind = slot.partition(".")[0]
    role = "parameters_grad" if "parameters_grad" in op else kind
    leaf = Leaf(Key(op, slot, 0), role, "tensor", direction, shape, 4, None, 2, whole, equal, (2, 2), frozenset(), 0)
    return framework_names.said(leaf, AXES)


@pytest.mark.parametrize(
    ("module", "dimension"),
    [
        ("decoder.layers.0.self_attention.linear_qkv", 0),  # Megatron-LM
        ("decoder.layers.0.self_attention.linear_proj", 1),
        ("language_model.encoder.layers.0.mlp.dense_4h_to_h", 1),
        ("embedding.word_embeddings", 0),
        ("model.layers.0.self_attn.q_proj", 0),  # DTensor's plans, DeepSpeed AutoTP
        ("model.layers.0.mlp.down_proj", 1),
        ("model.layers.0.attention.wo", 1),  # MindFormers
        ("model.layers.0.feed_forward.w1", 0),
    ],
)
def test_a_weight_lies_as_its_framework_cuts_it(module, dimension):
    told = said(f"Module.{module}.Linear.forward.0", "parameters.weight")
    assert (dict(told.ways), told.source, told.certainty) == ({1: Way("shard", dimension)}, "names", "assumed")
    grads = said(f"Module.{module}.Linear.parameters_grad", "weight.0")
    assert grads.ways == told.ways


@pytest.mark.parametrize(
    ("op", "slot", "direction", "is_cut"),
    [
        ("Module.l.q_proj.Linear.forward.0", "output.0", "forward", True),
        ("Module.l.q_proj.Linear.forward.0", "input.0", "forward", False),
        ("Module.l.q_proj.Linear.backward.0", "input.0", "backward", True),
        ("Module.l.o_proj.Linear.forward.0", "input.0", "forward", True),
        ("Module.l.o_proj.Linear.backward.0", "output.0", "backward", True),
        ("Module.embed_tokens.Embedding.forward.0", "output.0", "forward", False),
        ("Functional.linear.0.forward", "output.0", "forward", False),
    ],
)
def test_what_a_product_takes_or_gives_is_cut_along_its_last_axis(op, slot, direction, is_cut):
    told = said(op, slot, shape=(4, 8, 6), direction=direction)
    assert (told and dict(told.ways)) == ({1: Way("shard", 2)} if is_cut else None)


def test_names_say_nothing_where_golden_has_the_shape_or_ranks_are_equal():
    op = "Module.model.layers.0.self_attn.q_proj.Linear.forward.0"
    assert said(op, "parameters.weight", whole=(16, 16)) is None
    assert said(op, "parameters.weight", equal=(True, True)) is None
    assert said("Module.model.norm.RMSNorm.forward.0", "parameters.weight") is None

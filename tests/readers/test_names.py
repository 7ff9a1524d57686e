"""Entry names of every form and release, and names that try to look like another form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeprobe.readers.names import OpName, parse


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        # APIs: the call number stands before the direction
        ("Functional.conv2d.1.backward", ("api", "Functional", "conv2d", None, "backward", 1)),
        ("Tensor.__add__.0.forward", ("api", "Tensor", "__add__", None, "forward", 0)),
        ("Distributed.all_reduce.12.forward", ("api", "Distributed", "all_reduce", None, "forward", 12)),
        ("Mint.nn.functional.gelu.3.forward", ("api", "Mint", "nn.functional.gelu", None, "forward", 3)),
        ("MintFunctional.relu.0.backward", ("api", "MintFunctional", "relu", None, "backward", 0)),
        ("Primitive.norm.LayerNorm.3.forward", ("api", "Primitive", "norm.LayerNorm", None, "forward", 3)),
        ("Primitive.layer.0.attn.MatMul.7.forward", ("api", "Primitive", "layer.0.attn.MatMul", None, "forward", 7)),
        ("Jit.SGD.0.forward", ("api", "Jit", "SGD", None, "forward", 0)),
        ("VF.lstm.0.forward", ("api", "VF", "lstm", None, "forward", 0)),
        ("Aten._foreach_norm.Scalar.5.forward", ("api", "Aten", "_foreach_norm.Scalar", None, "forward", 5)),
        ("NPU.npu_fusion_attention.007.forward", ("api", "NPU", "npu_fusion_attention", None, "forward", 7)),
        ("Triton.kernel.0.forward", ("api", "Triton", "kernel", None, "forward", 0)),
        ("Torch.forward.0.forward", ("api", "Torch", "forward", None, "forward", 0)),
        ("Torch.add.999999999.forward", ("api", "Torch", "add", None, "forward", 999_999_999)),
        # modules and cells: after it
        ("Module.layer1.0.conv1.Conv2d.forward.0", ("module", "Module", "layer1.0.conv1", "Conv2d", "forward", 0)),
        ("Cell.net.Dense.backward.2", ("module", "Cell", "net", "Dense", "backward", 2)),
        ("Module.fc.Linear.forward.11", ("module", "Module", "fc", "Linear", "forward", 11)),
        ("Module.0.layers.3.mlp.MLP.backward.1", ("module", "Module", "0.layers.3.mlp", "MLP", "backward", 1)),
        ("Module.input.forward.0.Linear.forward.1", ("module", "Module", "input.forward.0", "Linear", "forward", 1)),
        ("Module.backward.5.output.MLP.backward.0", ("module", "Module", "backward.5.output", "MLP", "backward", 0)),
        ("Module.0.forward.0", ("module", "Module", "", "0", "forward", 0)),
        # parameter gradients: with a call number since 26.x
        ("Module.fc.Linear.parameters_grad", ("parameters_grad", "Module", "fc", "Linear", "parameters_grad", None)),
        ("Module.fc.Linear.parameters_grad.3", ("parameters_grad", "Module", "fc", "Linear", "parameters_grad", 3)),
        ("Cell.a.1.Dense.parameters_grad.0", ("parameters_grad", "Cell", "a.1", "Dense", "parameters_grad", 0)),
        ("Module.forward.0.Linear.parameters_grad",
            ("parameters_grad", "Module", "forward.0", "Linear", "parameters_grad", None)),
        # none of these
        ("x.1.debug", ("other", "x", "1.debug", None, None, None)),
        ("x_grad.0.debug", ("other", "x_grad", "0.debug", None, None, None)),
        ("weird_name", ("other", "weird_name", "", None, None, None)),
        ("", ("other", "", "", None, None, None)),
        ("...", ("other", "", "..", None, None, None)),
        ("Torch.add.x.forward", ("other", "Torch", "add.x.forward", None, None, None)),
        ("Torch.add.-1.forward", ("other", "Torch", "add.-1.forward", None, None, None)),
        ("Torch.add.²2.forward", ("other", "Torch", "add.²2.forward", None, None, None)),
        ("Torch.add.1000000000.forward", ("other", "Torch", "add.1000000000.forward", None, None, None)),
        ("0.forward", ("other", "0", "forward", None, None, None)),
        ("a.0.forward", ("other", "a", "0.forward", None, None, None)),
        ("forward.0", ("other", "forward", "0", None, None, None)),
        ("parameters_grad", ("other", "parameters_grad", "", None, None, None)),
        ("Torch.add.0.Forward", ("other", "Torch", "add.0.Forward", None, None, None)),
    ],
)  # fmt: skip
def test_parts(name: str, parts: tuple[object, ...]) -> None:
    assert parse(name)[:-1] == parts


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("Functional.conv2d.1.backward", "Functional.conv2d.backward"),
        ("Module.layer1.0.conv1.Conv2d.forward.0", "Module.layer1.0.conv1.Conv2d.forward"),
        ("Module.fc.Linear.parameters_grad", "Module.fc.Linear.parameters_grad"),
        ("Module.fc.Linear.parameters_grad.3", "Module.fc.Linear.parameters_grad"),
        ("x.1.debug", "x.1.debug"),
    ],
)
def test_stem(name: str, stem: str) -> None:
    assert parse(name).stem == stem


PARTS = st.lists(st.from_regex(r"[A-Za-z_0-9]{1,6}|forward|backward|input|parameters_grad", fullmatch=True), min_size=2)


@given(PARTS, st.sampled_from(["forward", "backward"]), st.integers(0, 10**9 - 1))
def test_an_api_name_is_put_together_again(parts: list[str], direction: str, call: int) -> None:
    assert parse(".".join([*parts, str(call), direction])) == OpName(
        "api", parts[0], ".".join(parts[1:]), None, direction, call, ".".join([*parts, direction])
    )


@given(PARTS, st.sampled_from(["forward", "backward"]), st.integers(0, 10**9 - 1))
def test_a_module_name_is_put_together_again(parts: list[str], direction: str, call: int) -> None:
    assert parse(".".join([*parts, direction, str(call)])) == OpName(
        "module", parts[0], ".".join(parts[1:-1]), parts[-1], direction, call, ".".join([*parts, direction])
    )


@given(st.text())
def test_any_text_has_parts(name: str) -> None:
    parts = parse(name)
    if parts.kind == "other":
        assert parts.stem == name
        assert parts.api_type + ("." + parts.api if "." in name else "") == name

"""What pairs under msprobe's mapping files and the tables of APIs, and by which of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pair_dumps import Data, call, results, scalar, tensor, write_dump

from lakeprobe.compare.run import compare
from lakeprobe.errors import UsageError
from lakeprobe.mapping.files import read as read_mappings

Pairs = dict[str, tuple[str | None, str | None]]


def paired(
    folder: Path,
    target: Data,
    golden: Data,
    frameworks: tuple[str, str] = ("mindspore", "pytorch"),
    rule: str | None = None,
    **mappings: str,
) -> Pairs:
    """By target row: the golden row, and what paired the two. `mappings` are the texts of mapping files by kind."""
    sides = [
        write_dump(folder / name, data, framework=framework)
        for name, data, framework in zip(("ours", "theirs"), (target, golden), frameworks, strict=True)
    ]
    files = {kind: folder / f"{kind}.yaml" for kind in mappings}
    for kind, text in mappings.items():
        files[kind].write_text(text)
    compare(*sides, lake=folder / "lake", name="both", rule=rule, mappings=read_mappings(**files), search=False)
    return {
        row["target_name"]: (row["golden_name"], row["matched_by"])
        for row in results(folder / "lake", "both")
        if row["target_name"]
    }


def one(leaf: Any = None) -> dict[str, Any]:
    return call([leaf or tensor()])


# ---- names ------------------------------------------------------------------------------------------------


def test_prefixes_of_mindspore_are_those_of_pytorch(tmp_path: Path) -> None:
    target = {"Mint.relu.0.forward": one(), "MintFunctional.gelu.0.forward": one(), "Cell.fc.My.forward.0": one()}
    golden = {"Torch.relu.0.forward": one(), "Functional.gelu.0.forward": one(), "Module.fc.My.forward.0": one()}
    assert paired(tmp_path, target, golden) == {
        "Mint.relu.0.forward.input.0": ("Torch.relu.0.forward.input.0", "prefix"),
        "MintFunctional.gelu.0.forward.input.0": ("Functional.gelu.0.forward.input.0", "prefix"),
        "Cell.fc.My.forward.0.input.0": ("Module.fc.My.forward.0.input.0", "prefix"),
    }


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Functional.bidense", "Functional.bilinear"),
        ("Functional.dense", "Functional.linear"),
        ("Functional.equal", "Torch.eq"),
        ("Functional.swapaxes", "Torch.transpose"),
        ("Tensor.asnumpy", "Tensor.numpy"),
        ("Tensor.cauchy", "Tensor.cauchy_"),
        ("Tensor.gather_elements", "Tensor.gather"),
    ],
)
def test_the_table_of_apis_renames(tmp_path: Path, ours: str, theirs: str) -> None:
    found = paired(tmp_path, {f"{ours}.0.forward": one()}, {f"{theirs}.0.forward": one()})
    assert found == {f"{ours}.0.forward.input.0": (f"{theirs}.0.forward.input.0", "api")}


def test_within_one_framework_nothing_is_renamed(tmp_path: Path) -> None:
    target, golden = {"Functional.dense.0.forward": one()}, {"Functional.linear.0.forward": one()}
    assert paired(tmp_path, target, golden, ("pytorch", "pytorch")) == {
        "Functional.dense.0.forward.input.0": (None, None)
    }


@pytest.mark.parametrize(
    "frameworks", [("mindtorch", "pytorch"), ("mindtorch", "mindtorch"), ("mindspore", "mindspore")]
)
def test_mindtorch_and_mindspore_are_held_against_all(tmp_path: Path, frameworks: tuple[str, str]) -> None:
    data = {"Torch.relu.0.forward": one(), "Module.fc.Linear.forward.0": one()}
    found = paired(tmp_path, data, data, frameworks)
    assert {name: golden for name, (golden, _) in found.items()} == {name: name for name in found}
    assert len(found) == 2


def test_two_implementations_in_one_framework_keep_their_names(tmp_path: Path) -> None:
    data = {"Cell.fc.Dense.forward.0": one(), "Mint.relu.0.forward": one(), "Functional.dense.0.forward": one()}
    found = paired(tmp_path, data, data, ("mindspore", "mindspore"), rule="cross_framework")
    assert found == {f"{name}.input.0": (f"{name}.input.0", "exact") for name in data}


# ---- backward calls ---------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    "mapping",
    [
        {},
        {"api": "ms_api: Mint.mul\npt_api: Torch.mul\n"},
        {"cell": "Mint.mul: Torch.mul\n"},
        {"layer": "TopLayer:\n  a: b\n"},
    ],
)
def test_backward_calls_pair_in_order_of_appearance_under_every_mapping(
    tmp_path: Path, mapping: dict[str, str]
) -> None:
    target = {f"Mint.mul.{number}.backward": one() for number in (3, 1, 7)}
    golden = {f"Torch.mul.{number}.backward": one() for number in (2, 0, 5)}
    found = paired(tmp_path, target, golden, **mapping)
    assert [golden for golden, _ in found.values()] == [f"Torch.mul.{number}.backward.input.0" for number in (2, 0, 5)]


# ---- API mapping ------------------------------------------------------------------------------------------

FLASH = """
- ms_api: Functional.flash_attention_score
  pt_api: NPU.npu_fusion_attention
  ms_args: [0, 1, scale]
  pt_args: [1, 0, 2]
  {outputs}
"""


@pytest.mark.parametrize(
    "outputs", ["ms_output: [0, 1]\n  pt_output: [1, 0]", "ms_outputs: [0, 1]\n  pt_outputs: [1, 0]", ""]
)
def test_an_api_mapping_says_which_argument_is_which(tmp_path: Path, outputs: str) -> None:
    target = {
        "Functional.flash_attention_score.0.forward": call(
            [tensor(), [tensor(), tensor()], tensor()], [tensor(), tensor()], input_kwargs={"scale": scalar(0.5)}
        )
    }
    golden = {
        "NPU.npu_fusion_attention.0.forward": call([[tensor(), tensor()], tensor(), scalar(0.5)], [tensor(), tensor()])
    }
    found = paired(tmp_path, target, golden, api=FLASH.format(outputs=outputs))
    mine, theirs = "Functional.flash_attention_score.0.forward", "NPU.npu_fusion_attention.0.forward"
    first, second = ("1", "0") if outputs else ("0", "1")
    assert found == {
        f"{mine}.input.0": (f"{theirs}.input.1", "api"),
        f"{mine}.input.1.0": (f"{theirs}.input.0.0", "api"),
        f"{mine}.input.1.1": (f"{theirs}.input.0.1", "api"),
        f"{mine}.input.2": (None, None),
        f"{mine}.input.scale": (f"{theirs}.input.2", "api"),
        f"{mine}.output.0": (f"{theirs}.output.{first}", "api"),
        f"{mine}.output.1": (f"{theirs}.output.{second}", "api"),
    }


def test_what_the_user_says_of_an_api_replaces_what_we_know(tmp_path: Path) -> None:
    target = {"Functional.dense.0.forward": one()}
    golden = {"Functional.linear.0.forward": one(), "Torch.addmm.0.forward": one()}
    found = paired(tmp_path, target, golden, api="ms_api: Functional.dense\npt_api: Torch.addmm\n")
    assert found == {"Functional.dense.0.forward.input.0": ("Torch.addmm.0.forward.input.0", "api")}


def test_two_apis_that_become_one_are_counted_together(tmp_path: Path) -> None:
    target = {"Functional.a.0.forward": one(), "Functional.b.0.forward": one(), "Functional.a.1.forward": one()}
    golden = {f"Torch.c.{number}.forward": one() for number in range(3)}
    text = "- ms_api: Functional.a\n  pt_api: Torch.c\n- ms_api: Functional.b\n  pt_api: Torch.c\n"
    found = paired(tmp_path, target, golden, api=text)
    assert [golden for golden, _ in found.values()] == [f"Torch.c.{number}.forward.input.0" for number in range(3)]


# ---- cell mapping -----------------------------------------------------------------------------------------


def cells(*names: str) -> Data:
    return {f"{name}.forward.0": one() for name in names} | {
        f"{name}.parameters_grad": {"weight": [tensor()]} for name in names
    }


def test_a_cell_mapping_by_whole_name_and_by_part(tmp_path: Path) -> None:
    target = cells("Cell.net.fc.Own", "Cell.net.layers.0.Own", "Cell.net.other.Own")
    golden = cells("Module.model.fc.Theirs", "Module.model.blocks.0.Theirs", "Module.model.other.Theirs")
    text = "net.fc.Own: model.fc.Theirs\nnet: model\nlayers: blocks\nOwn: Theirs\n"
    found = paired(tmp_path, target, golden, cell=text)
    assert {golden for golden, _ in found.values()} == {
        f"{name}.{row}" for name in golden if name.endswith("forward.0") for row in ("input.0",)
    } | {f"{name}.weight" for name in golden if name.endswith("grad")}
    assert {by for _, by in found.values()} == {"cell"}


def test_a_cell_mapping_within_one_framework(tmp_path: Path) -> None:
    target, golden = cells("Module.model.fc.Linear"), cells("Module.fc.Linear")
    found = paired(tmp_path, target, golden, ("pytorch", "pytorch"), cell="model.fc: fc\n")
    assert [golden for golden, _ in found.values()] == [
        "Module.fc.Linear.forward.0.input.0",
        "Module.fc.Linear.parameters_grad.weight",
    ]


# ---- data mapping -----------------------------------------------------------------------------------------


def test_a_data_mapping_goes_before_all_else(tmp_path: Path) -> None:
    target = {"Functional.gelu.0.forward": call([tensor(), tensor()], [tensor()])}
    golden = {"Functional.gelu.0.forward": call([tensor(), tensor()], [tensor()]), "Torch.x.0.forward": one()}
    text = (
        "Functional.gelu.0.forward.input.0.npy: Functional.gelu.0.forward.input.1\n"
        "Functional.gelu.0.forward.output.0: Torch.x.0.forward.input.0.pt\n"
    )
    assert paired(tmp_path, target, golden, data=text) == {
        "Functional.gelu.0.forward.input.0": ("Functional.gelu.0.forward.input.1", "data"),
        "Functional.gelu.0.forward.input.1": (None, None),
        "Functional.gelu.0.forward.output.0": ("Torch.x.0.forward.input.0", "data"),
    }


# ---- the examples of msprobe's guide, "Precision Comparison in MindSpore", custom mapping files -------------


def test_the_guides_api_mapping(tmp_path: Path) -> None:
    text = (
        "ms_api: Functional.abs\npt_api: Torch.abs\nms_args:\n- 0\n- 1\npt_args:\n- 0\n- 1\n"
        "ms_outputs:\n- 0\n- 1\npt_outputs:\n- 0\n- 1\n"
    )
    entry = call([tensor(), tensor(), tensor()], [tensor(), tensor()])
    found = paired(tmp_path, {"Functional.abs.0.forward": entry}, {"Torch.abs.0.forward": entry}, api=text)
    assert {name.removeprefix("Functional.abs.0.forward."): golden for name, (golden, _) in found.items()} == {
        "input.0": "Torch.abs.0.forward.input.0",
        "input.1": "Torch.abs.0.forward.input.1",
        "input.2": None,
        "output.0": "Torch.abs.0.forward.output.0",
        "output.1": "Torch.abs.0.forward.output.1",
    }


def test_the_guides_cell_mappings(tmp_path: Path) -> None:
    target = [
        "Cell.fc2.Dense",
        "Cell.conv1.Conv2d",
        "Cell.a.MindSpeedTELayerNormColumnParallelLinear",
        "Cell.b.RowParallelLinear",
    ]
    golden = [
        "Module.fc2.Linear",
        "Module.conv3.Conv2d",
        "Module.a.TELayerNormColumnParallelLinear",
        "Module.b.TERowParallelLinear",
    ]
    text = (
        "fc2.Dense: fc2.Linear\nconv1.Conv2d: conv3.Conv2d\n"
        "MindSpeedTELayerNormColumnParallelLinear: TELayerNormColumnParallelLinear\n"
        "RowParallelLinear: TERowParallelLinear\n"
    )
    found = paired(tmp_path, cells(*target), cells(*golden), cell=text)
    expected = {
        f"{ours}.forward.0.input.0": f"{theirs}.forward.0.input.0" for ours, theirs in zip(target, golden, strict=True)
    }
    expected |= {
        f"{ours}.parameters_grad.weight": f"{theirs}.parameters_grad.weight"
        for ours, theirs in zip(target, golden, strict=True)
    }
    assert {name: golden for name, (golden, _) in found.items()} == expected


def test_the_guides_data_mapping(tmp_path: Path) -> None:
    embedding = "Module.module.language_model.embedding.word_embedding.VocabParallelEmbedding"
    text = (
        "Functional.flash_attention_score.4.forward.input.0: NPU.npu_fusion_attention.4.forward.input.0\n"
        f"Cell.relu.ReLU.forward.0.input.0: {embedding}.forward.0.input.0\n"
        f"Cell.relu.ReLU.parameters_grad.weight: {embedding}.parameters_grad.weight\n"
    )
    target = {
        "Functional.flash_attention_score.4.forward": one(),
        "Cell.relu.ReLU.forward.0": one(),
        "Cell.relu.ReLU.parameters_grad.0": {"weight": [tensor()]},
    }
    golden = {
        "NPU.npu_fusion_attention.4.forward": one(),
        f"{embedding}.forward.0": one(),
        f"{embedding}.parameters_grad.0": {"weight": [tensor()]},
    }
    assert paired(tmp_path, target, golden, data=text) == {
        "Functional.flash_attention_score.4.forward.input.0": ("NPU.npu_fusion_attention.4.forward.input.0", "data"),
        "Cell.relu.ReLU.forward.0.input.0": (f"{embedding}.forward.0.input.0", "data"),
        "Cell.relu.ReLU.parameters_grad.0.weight": (f"{embedding}.parameters_grad.0.weight", "data"),
    }


@pytest.mark.parametrize("top", ["Cell", "TopLayer"])
def test_the_guides_layer_mapping(tmp_path: Path, top: str) -> None:
    text = (
        "ParallelAttention:                 # Layer name\n  qkv_proj: query_key_value        # left: MindSpore\n"
        "  out_proj: dense\nParallelTransformerLayer:\n  attention: self_attention\n"
        "Embedding:\n  dropout: embedding_dropout\nParallelMLP:\n  mapping: dense_h_to_4h\n"
        "  projection: dense_4h_to_h\n"
        f"PipelineCell:\n  model: module\n{top}:\n  network_with_loss: module\n"
    )
    model, module = "network_with_loss.model", "module.module"
    target = {
        "network_with_loss.PipelineCell": "module.PipelineCell",
        f"{model}.emb.Embedding": f"{module}.emb.Embedding",
        f"{model}.emb.dropout.Dropout": f"{module}.emb.embedding_dropout.Dropout",
        f"{model}.layers.0.ParallelTransformerLayer": f"{module}.layers.0.ParallelTransformerLayer",
        f"{model}.layers.0.attention.ParallelAttention": f"{module}.layers.0.self_attention.Attention",
        f"{model}.layers.0.attention.qkv_proj.Linear": f"{module}.layers.0.self_attention.query_key_value.Linear",
        f"{model}.layers.0.attention.out_proj.Linear": f"{module}.layers.0.self_attention.dense.Linear",
        f"{model}.layers.0.mlp.ParallelMLP": f"{module}.layers.0.mlp.MLP",
        f"{model}.layers.0.mlp.mapping.Linear": f"{module}.layers.0.mlp.dense_h_to_4h.Linear",
        f"{model}.layers.0.mlp.projection.Linear": f"{module}.layers.0.mlp.dense_4h_to_h.Linear",
    }
    ours = {f"Cell.{name}.forward.0": one() for name in target}
    theirs = {f"Module.{name}.forward.0": one() for name in target.values()}
    assert paired(tmp_path, ours, theirs, layer=text) == {
        f"Cell.{name}.forward.0.input.0": (f"Module.{golden}.forward.0.input.0", "layer")
        for name, golden in target.items()
    }


# ---- several at once --------------------------------------------------------------------------------------


def test_mappings_combine(tmp_path: Path) -> None:
    target = {
        "Mint.a.0.forward": one(),
        "Functional.b.0.forward": one(),
        "Cell.net.fc.Dense.forward.0": one(),
        "Functional.c.0.forward": one(),
    }
    golden = {
        "Torch.a.0.forward": one(),
        "Torch.bee.0.forward": one(),
        "Module.fc.Linear.forward.0": one(),
        "Torch.sea.4.forward": one(),
    }
    found = paired(
        tmp_path,
        target,
        golden,
        api="ms_api: Functional.b\npt_api: Torch.bee\n",
        cell="net.fc.Dense: fc.Linear\n",
        data="Functional.c.0.forward.input.0: Torch.sea.4.forward.input.0\n",
    )
    assert [by for _, by in found.values()] == ["prefix", "api", "cell", "data"]
    assert all(golden for golden, _ in found.values())


def test_a_rule_can_use_a_mapping(tmp_path: Path) -> None:
    rule = tmp_path / "own.sql"
    rule.write_text(
        "CREATE OR REPLACE VIEW op_pairs AS SELECT t.seq AS target_seq, g.seq AS golden_seq, 'own' AS matched_by "
        "FROM cell_mapping JOIN target_ops t ON t.op = target_text JOIN golden_ops g ON g.op = golden_text;"
    )
    found = paired(
        tmp_path,
        {"Torch.a.0.forward": one()},
        {"Torch.b.5.forward": one()},
        rule=str(rule),
        cell="Torch.a.0.forward: Torch.b.5.forward\n",
    )
    assert found == {"Torch.a.0.forward.input.0": ("Torch.b.5.forward.input.0", "own")}


def test_a_bad_mapping_leaves_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cell\.yaml line 2"):
        paired(tmp_path, {"Torch.a.0.forward": one()}, {"Torch.a.0.forward": one()}, cell="a: b\na: c\n")
    assert not (tmp_path / "lake" / "comparisons").exists()

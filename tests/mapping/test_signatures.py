"""The signatures that we ship, held against the packages that are installed, and what the search makes of them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.signatures import signatures
from lakeprobe import resources
from lakeprobe.mapping.known import argument, family

_SAME = 0.97
"""Share of the ops that another release of a framework is expected to leave as they are."""


def shipped(framework: str) -> dict[str, str]:
    with Path(resources.data(f"signatures/{framework}")).open(encoding="utf-8") as file:
        return dict(list(csv.reader(file))[1:])


@pytest.mark.parametrize(("framework", "package"), [("pytorch", "torch"), ("mindspore", "mindspore")])
def test_are_those_of_the_installed_package(framework: str, package: str) -> None:
    pytest.importorskip(package)
    ours, theirs = shipped(framework), signatures(framework)
    assert sum(theirs.get(api) == arguments for api, arguments in ours.items()) >= _SAME * len(ours)


def test_hold_what_models_use() -> None:
    pytorch, mindspore = shipped("pytorch"), shipped("mindspore")
    assert pytorch["Functional.layer_norm"] == "input, normalized_shape, weight=None, bias=None, eps=1e-05"
    assert pytorch["Torch.batch_norm"].startswith("input, weight, bias, running_mean, running_var")
    assert pytorch["Tensor.masked_fill"] == "input, mask, value"
    assert mindspore["Primitive.BatchNorm"] == "input_x, scale, bias, mean, variance"
    assert mindspore["Mint.add"] == "input, other, *, alpha=1"
    assert mindspore["Functional.softmax"] == "input, axis=-1, *, dtype=None"


@pytest.mark.parametrize(
    ("framework", "op", "slot", "name"),
    [
        ("pytorch", "Functional.layer_norm.0.forward", "input.4", "eps"),
        ("pytorch", "Torch.softmax.3.forward", "input.dim", "dim"),
        ("mindspore", "Functional.softmax.3.forward", "input.1", "dim"),
        ("mindspore", "Primitive.bn_train.BatchNorm.0.forward", "input.3", "running_mean"),
        ("pytorch", "Torch.cat.0.forward", "input.0.1", None),
        ("pytorch", "Torch.no_such_op.0.forward", "input.0", None),
    ],
)
def test_argument(framework: str, op: str, slot: str, name: str | None) -> None:
    assert argument(framework, op, slot) == name


def test_a_kind_of_mindspore_is_one_of_pytorch_only_in_its_own_dump() -> None:
    assert family("ReduceMean", "mindspore") == family("mean") == "mean"
    assert family("transpose", "mindspore") == family("permute", "pytorch")
    assert family("transpose", "pytorch") == "transpose"

"""The table of MindSpore's APIs as PyTorch's: its form, PyTorch's own names, and real dumps of one model in both."""

from __future__ import annotations

import csv
import importlib
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from real_dumps import DUMPS, needs_dumps

CHECKOUT = Path(__file__).resolve().parents[2]
DATA = CHECKOUT / "schemas" / "data"
CROSS = DUMPS / "C_cross"

HEADERS = {
    "apis": ["target_api", "golden_api"],
    "slots": ["target_api", "golden_api", "direction", "target_slot", "golden_slot"],
    "classes": ["target_class", "golden_class"],
}
API = r"(Functional|Tensor|Torch|Distributed)\.\w+"
TARGET_API = rf"({API}|Primitive\.\*\.\w+)"
SLOT = r"(input|output|parameters)(\.\w+)*"
PREFIXES = {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}
"""Kinds of API that are PyTorch's under another name; the table holds what these do not say."""

RENAMES = {
    "Functional.bidense": "Functional.bilinear",
    "Functional.dense": "Functional.linear",
    "Functional.equal": "Torch.eq",
    "Functional.swapaxes": "Torch.transpose",
    "Tensor.asnumpy": "Tensor.numpy",
    "Tensor.cauchy": "Tensor.cauchy_",
    "Tensor.equal": "Tensor.eq",
    "Tensor.fill_diagonal": "Tensor.fill_diagonal_",
    "Tensor.gather_elements": "Tensor.gather",
    "Tensor.swapaxes": "Tensor.transpose",
}
"""The APIs that msprobe's table, too, gives another name."""

OTHER_MEANING = {
    "Functional.dot",  # of matrices
    "Functional.gather",  # along an axis, by whole slices
    "Functional.scatter_add",  # updates a parameter, by slices
    "Functional.unique",  # in the order of appearance, with the inverse
    "Primitive.*.Gather",  # of flattened ids, inside Embedding
    "Primitive.*.MatMul",  # of flattened rows, without bias, inside Dense
}
"""MindSpore's APIs that share a name or a use with one of PyTorch's, not inputs and outputs."""


def table(name: str) -> list[tuple[str, ...]]:
    with (DATA / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == HEADERS[name]
    assert all(len(row) == len(header) for row in rows)
    return [tuple(row) for row in rows]


def golden_apis() -> dict[str, str]:
    return {row[0]: row[1] for row in table("apis")}


@pytest.mark.parametrize("name", HEADERS)
def test_rows_are_sorted_and_told_once(name: str) -> None:
    rows = table(name)
    assert rows == sorted(set(rows))
    if name != "slots":
        targets = [target for target, _ in rows]
        assert len(targets) == len(set(targets))


@pytest.mark.parametrize("name", ["apis", "classes"])
def test_a_row_renames(name: str) -> None:
    assert [row for row in table(name) if row[0] == row[1]] == []


def test_form_of_apis_and_classes() -> None:
    for target, golden in table("apis"):
        assert re.fullmatch(TARGET_API, target), target
        assert re.fullmatch(API, golden), golden
    for pair in table("classes"):
        assert all(re.fullmatch(r"[A-Z]\w+", name) for name in pair), pair


def test_form_of_slots() -> None:
    for _, _, direction, target, golden in table("slots"):
        assert direction in ("", "forward", "backward", "parameters_grad")
        assert golden == "" or target != "*"
        form = r"\w+" if direction == "parameters_grad" else SLOT
        assert target == "*" or re.fullmatch(form, target), target
        assert golden == "" or re.fullmatch(form, golden), golden
        if golden and direction != "parameters_grad":
            assert target.split(".")[0] == golden.split(".")[0]


def test_a_slot_without_counterpart_has_none() -> None:
    rows = table("slots")
    alone = {row[:4] for row in rows if row[4] == ""}
    assert [row for row in rows if row[4] != "" and row[:4] in alone] == []


def test_slots_are_of_pairs_that_occur() -> None:
    apis, classes = set(table("apis")), set(table("classes"))
    for target, golden, *_ in table("slots"):
        kind, name = target.split(".", 1)
        golden_kind, golden_name = golden.split(".", 1)
        if kind == "Cell":
            assert golden_kind == "Module"
            assert name == golden_name or (name, golden_name) in classes, target
        else:
            assert (target, golden) in apis or (PREFIXES.get(kind, kind), name) == (golden_kind, golden_name), target


def test_an_identity_is_no_rename() -> None:
    """Slots of Functional.x as Functional.x would never be used where the table gives x another name."""
    renamed = golden_apis()
    assert [row for row in table("slots") if row[0] in renamed and renamed[row[0]] != row[1]] == []


def test_msprobes_renames_are_here() -> None:
    apis = golden_apis()
    assert {target: apis.get(target) for target in RENAMES} == RENAMES
    assert len(apis) >= 350


def test_what_means_something_else_is_left_out() -> None:
    assert OTHER_MEANING & golden_apis().keys() == set()


def test_golden_names_are_pytorchs() -> None:
    pytest.importorskip("torch")
    homes = {"Torch": "torch", "Functional": "torch.nn.functional", "Distributed": "torch.distributed"}
    modules: dict[str, Any] = {kind: importlib.import_module(home) for kind, home in homes.items()}
    modules["Tensor"] = modules["Torch"].Tensor
    golden = {row[1] for row in table("apis")} | {row[1] for row in table("slots") if not row[0].startswith("Cell.")}
    assert [api for api in sorted(golden) if not hasattr(modules[api.split(".")[0]], api.split(".")[1])] == []
    classes = {golden for _, golden in table("classes")}
    assert [name for name in sorted(classes) if not hasattr(modules["Torch"].nn, name)] == []


# Real data: one model in both frameworks, the same weights and tokens. The dumps are read here with the standard
# library, and the slots are followed by hand, so that the table is judged by the numbers alone.

PAIRS = [  # dump of the target, target, golden, tensors that pair in a forward and in a backward call
    ("ms_L1_stat", "Primitive.*.LayerNorm", "Functional.layer_norm", 4, 4),
    ("msmint_L1_stat", "Primitive.*.LayerNorm", "Functional.layer_norm", 4, 4),
    ("msmint_L1_stat", "Primitive.*.Dense", "Functional.linear", 4, 1),
    ("msmint_L1_stat", "Mint.matmul", "Torch.matmul", 3, 1),
    ("msmint_L1_stat", "MintFunctional.softmax", "Functional.softmax", 2, 2),
    ("ms_L1_stat", "Functional.matmul", "Torch.matmul", 3, 1),
    ("ms_L1_stat", "Functional.softmax", "Functional.softmax", 2, 2),
    ("ms_L1_stat", "Functional.gelu", "Functional.gelu", 2, 2),
    ("ms_L1_stat", "Functional.cross_entropy", "Functional.cross_entropy", 3, 1),
    ("ms_L1_stat", "Tensor.masked_fill", "Tensor.masked_fill", 3, 2),
    ("ms_L1_stat", "Tensor.__add__", "Tensor.__add__", 3, 3),
    ("ms_L1_stat", "Tensor.__mul__", "Tensor.__mul__", 2, 2),
]


@cache
def dump(name: str) -> dict[str, Any]:
    [path] = (CROSS / name / "golden" / "step0").glob("*/dump.json")
    data: dict[str, Any] = json.loads(path.read_text())["data"]
    return data


def calls(name: str, api: str, direction: str) -> list[dict[str, Any]]:
    """The leaves by slot of every call, in order of appearance."""
    form = re.escape(api).replace(r"\*", r"\w+") + rf"\.\d+\.{direction}"
    return [leaves(entry) for op, entry in dump(name).items() if re.fullmatch(form, op)]


def leaves(entry: dict[str, Any]) -> dict[str, Any]:
    sections = {"input_args": "input", "input_kwargs": "input", "input": "input", "output": "output"}
    found: dict[str, Any] = {}
    for section, slot in sections.items():
        found |= walk(entry.get(section, []), slot)
    return found


def walk(value: Any, slot: str) -> dict[str, Any]:
    if value is None or (isinstance(value, dict) and "type" in value):
        return {slot: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {name: leaf for key, part in parts for name, leaf in walk(part, f"{slot}.{key}").items()}


def slot_pairs(
    api: str, golden_api: str, direction: str, target: dict[str, Any], golden: dict[str, Any]
) -> list[tuple[str, str]]:
    """The slots that pair: as the table lists them in the sections that it has rows for, else by equal names."""
    rows = [row[3:] for row in table("slots") if row[:2] == (api, golden_api) and row[2] in ("", direction)]
    listed = {slot.split(".")[0] for slot, _ in rows}
    pairs = [(slot, slot) for slot in target if slot.split(".")[0] not in listed]
    for slot in target:
        pairs += [
            (slot, counterpart + slot.removeprefix(start))
            for start, counterpart in rows
            if counterpart and (slot == start or slot.startswith(f"{start}."))
        ]
    return [pair for pair in pairs if pair[1] in golden]


def agree(target: Any, golden: Any) -> bool:
    if target is None or golden is None or "shape" not in target or "shape" not in golden:
        return bool(target == golden)
    norms = target["Norm"], golden["Norm"]
    equal: bool = None in norms or norms[0] == norms[1] or math.isclose(*norms, rel_tol=1e-4)
    return bool(target["shape"] == golden["shape"]) and equal


@needs_dumps
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("name", "api", "golden_api", "forward", "backward"), PAIRS, ids=lambda value: str(value))
def test_what_pairs_is_equal_in_real_dumps(
    name: str, api: str, golden_api: str, forward: int, backward: int, direction: str
) -> None:
    targets, goldens = calls(name, api, direction), calls("pt_L1_stat", golden_api, direction)
    assert len(targets) == len(goldens) > 0
    full = 0
    for target, golden in zip(targets, goldens, strict=True):
        pairs = slot_pairs(api, golden_api, direction, target, golden)
        assert [pair for pair in pairs if not agree(target[pair[0]], golden[pair[1]])] == []
        assert len({slot for slot, _ in pairs}) == len({slot for _, slot in pairs}) == len(pairs)
        tensors = sum("shape" in (target[slot] or {}) for slot, _ in pairs)
        full = max(full, tensors)
    assert full == (forward if direction == "forward" else backward)


@needs_dumps
def test_softmax_finds_its_axis_under_pytorchs_name() -> None:
    [target, *_], [golden, *_] = (calls(name, "Functional.softmax", "forward") for name in ("ms_L1_stat", "pt_L1_stat"))
    pairs = slot_pairs("Functional.softmax", "Functional.softmax", "forward", target, golden)
    assert ("input.1", "input.dim") in pairs
    assert target["input.1"]["value"] == golden["input.dim"]["value"] == -1
